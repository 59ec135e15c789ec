import { z } from 'zod';
import { parseTime } from '../base/lib/clock.ts';
import { GatewayError } from '../base/lib/gateway-error.ts';
import { TRAFFIC_CLASSES } from '../base/model/action-request.ts';
import { LOOKED_BY } from '../services/learning/discovered-domain.ts';
import { type Discovery, DOMAIN_ORDERS } from '../services/learning/discovery.ts';
import { CURSOR_PARAMETERS, cursorPage, dataPage, pageInMemory } from './management/cursor-pages.ts';
import { orgOf } from './management/org-of.ts';
import { choice, text } from './members.ts';
import { type GatewayOperation, operation, READS, REPLACES } from './operation.ts';
import type { OperationServices } from './services.ts';
import { count, moment, time } from './shapes.ts';

const path = '/v1/admin/discovery/domains';

const LIMIT_RULE = 'must be a whole number from 1 to 5000';

const COUNTS = {
  hits: count.meta({ description: 'connections and requests together' }),
  connections: count.meta({ description: 'CONNECTs whose caller was let in' }),
  requests: count.meta({ description: 'Requests that the gateway saw as such; of a tunnel that is not opened there are none' }),
  traffic: z.object({ developer: count, ambient: count }).meta({ description: 'Hits by the port that they came in by' }),
};

const SEEN = { first_seen: time, last_seen: time };
const CALLER = z.object({
  workload_id: z.string().optional().meta({ description: 'Absent: several that had no place of their own' }),
  hits: count,
  ...SEEN,
});
const NAMED = {
  domain: z.string(),
  vendor: z.string().optional().meta({ description: 'Of the list of AI domains' }),
  category: z.string().optional(),
  managed: z.boolean().meta({ description: 'A connector covers it: its calls are governed' }),
  connector_id: z.string().optional(),
  looks_like: z
    .string()
    .optional()
    .meta({ description: 'What AI API a domain without a connector looks like: a wire format, or a provider when only the name says so' }),
  looks_like_by: z.enum(LOOKED_BY).optional(),
};

/** What one org sees: its own traffic. */
export const ORG_DOMAIN = z.object({
  ...NAMED,
  hits: count.meta({ description: 'Connections and requests of workloads of the org together' }),
  ...SEEN,
  workloads: z.array(CALLER).meta({ description: 'Who went there, the most frequent first' }),
});

const DOMAIN = z.object({
  ...NAMED,
  ...COUNTS,
  ...SEEN,
  org_connector: z
    .literal(true)
    .optional()
    .meta({ description: 'An org has a connector of its own for it: it is governed for callers of that org alone' }),
  pinned: z.boolean(),
  wants_client_certificate: z.boolean(),
  workloads: z.array(CALLER.extend({ org_id: z.string().optional() })).meta({ description: 'Who went there, the most frequent first' }),
});

const OTHER = z.object({ domains: count, ...COUNTS }).meta({
  description: 'What was counted of domains that the list had no room for, whatever the query asks; one that was let go twice counts twice',
});

const flagWord = z.enum(['true', 'false'], 'must be true or false');

const QUERY = z.object({
  managed: choice(['true', 'false']).optional(),
  lookalike: choice(['true', 'false'])
    .optional()
    .meta({ description: 'Only domains without a connector that look like an AI API, or only all others' }),
  ai: choice(['true', 'false']).optional().meta({
    description:
      'Only AI (a connector covers it, it is on the list of AI domains, or it looks like an AI API), or only what is none of these',
  }),
  workload_id: text.optional().meta({ description: 'Only where this workload went' }),
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

const CURSORED = z.strictObject({
  show: choice(['ai', 'all']).optional().meta({ description: 'AI alone, as where it is left out, or others too' }),
  managed: flagWord.optional().meta({ type: 'boolean', description: 'Those that a connector covers, or those that none does' }),
  vendor: text.min(1, 'must not be empty').optional(),
  workload_id: text.optional().meta({ description: 'Only where this workload went' }),
  from: moment.optional().meta({ description: 'Only those that were met since' }),
  ...CURSOR_PARAMETERS,
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
    handle: ({ query: { managed, lookalike, ai, traffic_class: trafficClass, workload_id: workloadId, ...query } }, services) => ({
      json: enabled(services).list({
        ...query,
        trafficClass,
        workloadId,
        managed: flag(managed),
        lookalike: flag(lookalike),
        ai: flag(ai),
      }),
    }),
  }),
  operation({
    id: 'mgmt.domains.list',
    method: 'GET',
    path: '/mgmt/v1/discovery/domains',
    scope: 'read',
    summary: 'Domains to which workloads of the org went: AI alone, or with `show=all` all. `managed=false`: not governed.',
    annotations: READS,
    errors: ['not_found'],
    tools: [{ name: 'list_discovered_domains', title: 'List discovered domains' }],
    input: { query: { schema: () => CURSORED } },
    output: { status: 200, schema: dataPage(ORG_DOMAIN) },
    available: enabled,
    handle: ({ principal, query }, services) => {
      const page = cursorPage('domains', query);
      const { show, managed, vendor, workload_id: workloadId } = query;
      const found = enabled(services).listOf(orgOf(principal), {
        managed: flag(managed),
        ai: show === 'all' ? undefined : true,
        vendor,
        workloadId,
      });
      const since = parseTime(query.from ?? '');
      const met = found.filter((one) => since === undefined || Date.parse(one.last_seen) >= since);
      return { json: pageInMemory(met, (one) => one.domain, page) };
    },
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
