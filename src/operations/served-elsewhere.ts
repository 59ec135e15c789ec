import { z } from 'zod';
import type { DescribedOperation } from './openapi.ts';
import { ADDS, READS } from './operation.ts';

/** The structured API: the pipeline reads its body, so that every refusal is on record. */
export const EXECUTE: DescribedOperation = {
  id: 'actions.execute',
  method: 'POST',
  path: '/v1/actions:execute',
  scope: 'none',
  summary: 'Decides, forwards and records one ActionRequest; `action.params.stream: true` answers with the raw event stream.',
  annotations: ADDS,
  errors: [
    'invalid_request',
    'body_too_large',
    'body_too_deep',
    'forbidden',
    'upstream_unreachable',
    'record_store_unavailable',
    'overloaded',
  ],
  output: { status: 200, schema: z.looseObject({ record_id: z.string(), decision: z.string() }) },
  inputs: () => ({
    body: z.looseObject({
      schema: z.string(),
      org_id: z.string(),
      workload_id: z.string(),
      action: z.looseObject({ type: z.string().optional() }),
    }),
  }),
};

export const READ_METRICS: DescribedOperation = {
  id: 'metrics.read',
  method: 'GET',
  path: '/metrics',
  scope: 'metrics',
  summary: 'Prometheus text; needs `GW_METRICS_TOKEN` as a bearer token when that is set.',
  annotations: READS,
  output: { status: 200, contentType: 'text/plain; version=0.0.4; charset=utf-8' },
  inputs: () => ({}),
};
