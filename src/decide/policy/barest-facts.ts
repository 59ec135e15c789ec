import { PLAIN_READING } from '../../base/catalogue/reading.ts';
import type { Facts } from './facts.ts';
import type { Field } from './fields.ts';

/** A request of which only what every request has is known. */
export const BAREST: Facts = {
  org_id: '-',
  workload_id: '-',
  caller_id: undefined,
  caller_ip: undefined,
  connection_type: 'direct_api',
  traffic_class: 'developer',
  time: 0,
  purpose: undefined,
  labels: {},
  action_type: '-',
  action_method: '-',
  target_host: '-',
  target_path: '-',
  params: {},
  models: undefined,
  further: undefined,
  stream: false,
  reading: PLAIN_READING,
  header_names: new Set(),
  attribution: {},
  org_attribution: undefined,
  estimates: { tokens_in: 0, tokens_out_max: 0, cost_pico: 0n },
  risk: undefined,
  connector_id: undefined,
  credential_id: undefined,
  candidates: { connectors: [], credentials: [] },
  delegation: undefined,
  approved: false,
};

/** Whether a request can be without the field. */
export function isOptional(field: Field): boolean {
  return field.get(BAREST) === undefined;
}
