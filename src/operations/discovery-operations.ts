import { z } from 'zod';
import { GatewayError } from '../base/lib/gateway-error.ts';
import type { Discovery } from '../services/discovery.ts';
import { type GatewayOperation, operation, READS, REPLACES } from './operation.ts';
import type { OperationServices } from './services.ts';
import { count, time } from './shapes.ts';

const path = '/v1/admin/discovery/domains';

const DOMAIN = z.object({
  domain: z.string(),
  connections: count,
  requests: count,
  first_seen: time,
  last_seen: time,
  vendor: z.string().optional(),
  category: z.string().optional(),
  managed: z.boolean(),
  connector_id: z.string().optional(),
  pinned: z.boolean(),
  wants_client_certificate: z.boolean(),
});

function enabled({ discovery }: OperationServices): Discovery {
  if (discovery) return discovery;
  throw new GatewayError('not_found', 'Discovery is switched off (GW_DISCOVERY_ENABLED=false).');
}

/** The domains that traffic goes to (specification, "Gateway admin API"; decision 8.9). */
export const DISCOVERY_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'discovery.list',
    method: 'GET',
    path,
    scope: 'admin',
    summary: 'Domains that traffic went to, with counts; `managed=true` or `false` for those with or without a connector.',
    annotations: READS,
    errors: ['not_found'],
    input: {
      query: {
        schema: () => z.object({ managed: z.enum(['true', 'false'], 'must be true or false').optional() }),
        refusal: 'The query is not valid.',
      },
    },
    output: { status: 200, schema: z.object({ domains: z.array(DOMAIN) }) },
    available: enabled,
    handle: ({ query: { managed } }, services) => ({
      json: { domains: enabled(services).list(managed === undefined ? undefined : managed === 'true') },
    }),
  }),
  operation({
    id: 'discovery.reset',
    method: 'DELETE',
    path,
    scope: 'admin',
    summary: 'Forgets all discovered domains and their counts.',
    annotations: REPLACES,
    errors: ['not_found'],
    output: { status: 204 },
    available: enabled,
    handle: async ({ commit }, services) => {
      // What was counted is removed in as many commits as it takes: first it is said that it will be.
      await commit(undefined, []);
      await enabled(services).reset();
      return {};
    },
  }),
];
