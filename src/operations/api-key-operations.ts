import { z } from 'zod';
import { parseTime } from '../base/lib/clock.ts';
import { GatewayError } from '../base/lib/gateway-error.ts';
import { id, members, text } from './members.ts';
import { ADDS, type GatewayOperation, operation, READS, REMOVES } from './operation.ts';
import { servedOrg } from './served-org.ts';
import type { OperationServices } from './services.ts';
import { pathId, time, timeToCome } from './shapes.ts';

function keyBody({ apiKeys }: OperationServices) {
  return members({
    org_id: id.optional(),
    name: text.optional(),
    expires_at: timeToCome(() => apiKeys.clock.now()).optional(),
  });
}

const KEY = z.object({
  id: z.string(),
  org_id: z.string(),
  name: z.string(),
  key_prefix: z.string().meta({ description: 'The first characters of the key' }),
  created_at: time,
  expires_at: time.optional().meta({ description: 'Absent: never' }),
  revoked_at: time.optional(),
});
const MADE = KEY.extend({ key: z.string().meta({ description: 'The key itself; shown this once' }) });

/** API keys, where no control plane makes them (specification, "Authentication" 2; decision 9.5). */
export const API_KEY_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'api_keys.list',
    method: 'GET',
    path: '/v1/admin/api-keys',
    scope: 'admin',
    summary: 'API keys, revoked and expired ones included; never the keys themselves. `org_id` narrows them.',
    annotations: READS,
    input: { query: { schema: () => z.strictObject({ org_id: id.optional() }) } },
    output: { status: 200, schema: z.object({ api_keys: z.array(KEY) }) },
    handle: async ({ query }, { apiKeys }) => ({ json: { api_keys: await apiKeys.service.list(query.org_id) } }),
  }),
  operation({
    id: 'api_keys.create',
    method: 'POST',
    path: '/v1/admin/api-keys',
    scope: 'admin',
    summary: 'Makes an API key; the answer shows it this once.',
    annotations: ADDS,
    ownedRemotely: true,
    input: { body: { schema: keyBody, what: 'The API key', optional: true } },
    output: { status: 201, schema: MADE },
    handle: async ({ body, commit }, { apiKeys }) => {
      const orgId = servedOrg(body.org_id, apiKeys.orgId, 'The API key');
      const expiry = body.expires_at === undefined ? undefined : parseTime(body.expires_at);
      const { plain, key } = await apiKeys.service.create({ orgId, name: body.name ?? '', expiresAtMs: expiry }, commit);
      return { json: { ...key, key: plain } };
    },
  }),
  operation({
    id: 'api_keys.revoke',
    method: 'DELETE',
    path: '/v1/admin/api-keys/{id}',
    scope: 'admin',
    summary: 'Revokes an API key: from the next request on it lets nobody in.',
    annotations: { ...REMOVES, idempotent: true },
    ownedRemotely: true,
    errors: ['not_found'],
    input: { params: pathId('API key id') },
    output: { status: 200, schema: KEY },
    handle: async ({ params: { id: name }, commit }, { apiKeys }) => {
      const revoked = await apiKeys.service.revoke(name, commit);
      if (revoked === undefined) throw new GatewayError('not_found', `There is no API key ${name}.`);
      return { json: revoked };
    },
  }),
];
