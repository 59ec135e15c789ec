import { z } from 'zod';
import { GENERIC_HTTP, GENERIC_HTTP_VERSION } from '../base/catalogue/connector-id.ts';
import { type GatewayOperation, operation, READS } from './operation.ts';
import type { OperationServices } from './services.ts';
import { time } from './shapes.ts';

const STATUSES = ['ok', 'no_credential', 'error'] as const;

const CONNECTOR = z.object({
  connector_id: z.string(),
  provider: z.string(),
  target_host: z.string(),
  version: z.string(),
  action_types: z.array(z.string()),
  status: z.enum(STATUSES),
  last_error: z.object({ at: time, code: z.string() }).optional(),
});

/**
 * Registered connectors (specification, "Connector admin entry"): `status` comes from configuration and the last
 * upstream error, not from a probe.
 */
export const CONNECTOR_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'connectors.list',
    method: 'GET',
    path: '/v1/admin/connectors',
    scope: 'admin',
    summary:
      'Registered connectors with the action types that are mapped to them; `status` is `ok`, `no_credential` (callers must bring their own key) or `error` (the last call failed, `last_error` says how).',
    annotations: READS,
    output: { status: 200, schema: z.object({ connectors: z.array(CONNECTOR) }) },
    handle: (_call, { connectors }) => ({ json: { connectors: connectorRows(connectors) } }),
  }),
];

function connectorRows({ catalogues, actionTypes, hasCredential, lastError }: OperationServices['connectors']) {
  const generic = { id: GENERIC_HTTP, version: GENERIC_HTTP_VERSION, hosts: ['*'], hostPatterns: [], needsCredential: false };
  return [...catalogues.current().providers, generic].map(({ id, version, hosts, hostPatterns, needsCredential }) => {
    const error = lastError(id);
    const status: (typeof STATUSES)[number] = error ? 'error' : needsCredential && !hasCredential(id) ? 'no_credential' : 'ok';
    return {
      connector_id: id,
      provider: id,
      target_host: hosts[0] ?? hostPatterns[0] ?? '',
      version,
      action_types: Array.from(actionTypes, ([type, connector]) => (connector === id ? [type] : [])).flat(),
      status,
      ...(error ? { last_error: error } : {}),
    };
  });
}
