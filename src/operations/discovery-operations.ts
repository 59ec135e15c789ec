import { z } from 'zod';
import { GatewayError } from '../base/lib/gateway-error.ts';
import { TRAFFIC_CLASSES } from '../base/model/connection.ts';
import { type Discovery, DOMAIN_ORDERS, LOOKED_BY } from '../services/discovery.ts';
import { choice } from './members.ts';
import { type GatewayOperation, operation, READS, REPLACES } from './operation.ts';
import type { OperationServices } from './services.ts';
import { count, time } from './shapes.ts';

const path = '/v1/admin/discovery/domains';

const LIMIT_RULE = 'must be a whole number from 1 to 5000';

const COUNTS = {
  hits: count.meta({ description: 'connections and requests together' }),
  connections: count.meta({ description: 'CONNECTs whose caller was let in' }),
  requests: count.meta({ description: 'Requests that the gateway saw as such; of a tunnel that is not opened there are none' }),
  traffic: z.object({ developer: count, ambient: count }).meta({ description: 'Hits by the port that they came in by' }),
};

const DOMAIN = z.object({
  domain: z.string(),
  ...COUNTS,
  first_seen: time,
  last_seen: time,
  vendor: z.string().optional(),
  category: z.string().optional(),
  managed: z.boolean(),
  org_connector: z
    .literal(true)
    .optional()
    .meta({ description: 'An org has a connector of its own for it: it is governed for callers of that org alone' }),
  connector_id: z.string().optional(),
  pinned: z.boolean(),
  wants_client_certificate: z.boolean(),
  looks_like: z
    .string()
    .optional()
    .meta({ description: 'What AI API a domain without a connector looks like: a wire format, or a provider when only the name says so' }),
  looks_like_by: z.enum(LOOKED_BY).optional(),
});

const OTHER = z.object({ domains: count, ...COUNTS }).meta({
  description: 'What was counted of domains that the list had no room for, whatever the query asks; one that was let go twice counts twice',
});

const QUERY = z.object({
  managed: choice(['true', 'false']).optional(),
  lookalike: choice(['true', 'false'])
    .optional()
    .meta({ description: 'Only domains without a connector that look like an AI API, or only all others' }),
  category: z.string().min(1, 'must not be empty').optional(),
  vendor: z.string().min(1, 'must not be empty').optional(),
  traffic_class: choice(TRAFFIC_CLASSES).optional(),
  sort: choice(DOMAIN_ORDERS).optional(),
  limit: z
    .string()
    .regex(/^\d{1,4}$/, LIMIT_RULE)
    .transform(Number)
    .refine((limit) => limit >= 1 && limit <= 5000, LIMIT_RULE)
    .meta({ type: 'integer', minimum: 1, maximum: 5000 })
    .optional(),
});

function flag(text: string | undefined): boolean | undefined {
  return text === undefined ? undefined : text === 'true';
}

function enabled({ discovery }: OperationServices): Discovery {
  if (discovery) return discovery;
  throw new GatewayError('not_found', 'Discovery is switched off (GW_DISCOVERY_ENABLED=false).');
}

/** The domains that traffic goes to (specification, "Gateway admin API"; decisions 8.9, 12.3). */
export const DISCOVERY_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'discovery.list',
    method: 'GET',
    path,
    scope: 'admin',
    summary:
      'Domains that traffic went to, with counts; `managed=true` or `false` for those with or without a connector. Those met last stand first, or by `sort` those with the most.',
    annotations: READS,
    errors: ['not_found'],
    input: {
      query: {
        schema: () => QUERY,
        refusal: 'The query is not valid.',
      },
    },
    output: {
      status: 200,
      schema: z.object({
        domains: z.array(DOMAIN),
        total: count.meta({ description: 'How many the query found, before its limit' }),
        other: OTHER,
      }),
    },
    available: enabled,
    handle: ({ query: { managed, lookalike, traffic_class: trafficClass, ...query } }, services) => ({
      json: enabled(services).list({ ...query, trafficClass, managed: flag(managed), lookalike: flag(lookalike) }),
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
