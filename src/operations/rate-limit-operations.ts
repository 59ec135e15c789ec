import { z } from 'zod';
import { parseDuration } from '../base/lib/clock.ts';
import { CURSOR_QUERY, cursorPage, dataPage, pageInMemory } from './management/cursor-pages.ts';
import { orgOf } from './management/org-of.ts';
import { id, members, positive } from './members.ts';
import { type GatewayOperation, operation, READS, REPLACES } from './operation.ts';

/** Longest window; a bucket that needs longer to fill is no rate limit. */
const MAX_WINDOW_MS = 86_400_000;
const WINDOW_RULE = 'must be a duration from 1ms to 24h such as 1m';

/** The configuration (specification, "Limits"). */
const CONFIG_BODY = members({
  refill_rate: positive.meta({ description: 'Calls per window' }),
  max_tokens: positive
    .refine((value) => !(value > 0 && value < 1), 'must be at least 1, or no request would ever pass')
    .meta({ description: 'Calls at once' }),
  window_duration: z
    .string(WINDOW_RULE)
    .refine(isWindow, WINDOW_RULE)
    .meta({ examples: ['1m'] }),
});

function isWindow(text: string): boolean {
  const windowMs = parseDuration(text);
  return windowMs !== undefined && windowMs >= 1 && windowMs <= MAX_WINDOW_MS;
}

const CONFIG = z.object({ refill_rate: z.number(), max_tokens: z.number(), window_duration: z.string() });

/** The rate limiter (specification, "Gateway admin API"; decision 6.1). */
export const RATE_LIMIT_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'ratelimit.config',
    method: 'GET',
    path: '/v1/admin/ratelimit/config',
    scope: 'admin',
    summary: "The configuration of the rate limiter, which is that of the gateway's own org; `org_id` shows what holds for another.",
    annotations: READS,
    input: { query: { schema: () => z.strictObject({ org_id: id.optional() }) } },
    output: { status: 200, schema: CONFIG },
    handle: ({ query }, { rateLimits }) => ({ json: rateLimits.configs.of(query.org_id) }),
  }),
  operation({
    id: 'ratelimit.configure',
    method: 'PUT',
    path: '/v1/admin/ratelimit/config',
    scope: 'admin',
    summary:
      "Replaces the configuration of the rate limiter, at once and for later starts; for other orgs than the gateway's own it is the bound.",
    annotations: REPLACES,
    input: { body: { schema: () => CONFIG_BODY, what: 'The configuration' } },
    output: { status: 200, schema: CONFIG },
    handle: async ({ body, commit }, { rateLimits }) => {
      await rateLimits.configs.put(undefined, body, commit);
      return { json: body };
    },
  }),
  operation({
    id: 'ratelimit.keys',
    method: 'GET',
    path: '/v1/admin/ratelimit/keys',
    scope: 'admin',
    summary: 'Workloads whose bucket is not full.',
    annotations: READS,
    output: { status: 200, schema: z.object({ keys: z.array(z.string()) }) },
    handle: (_call, { rateLimits }) => ({ json: { keys: rateLimits.keys() } }),
  }),
  operation({
    id: 'mgmt.ratelimit.config',
    method: 'GET',
    path: '/mgmt/v1/ratelimit/config',
    scope: 'read',
    summary: 'The configuration of the rate limiter that holds for the org: that of the gateway, or its own where that is tighter.',
    annotations: READS,
    versioned: true,
    tools: [{ name: 'get_ratelimit_config', title: 'Get rate limiter configuration' }],
    output: { status: 200, schema: CONFIG },
    handle: ({ principal }, { rateLimits }) => ({ json: rateLimits.configs.of(orgOf(principal)) }),
  }),
  operation({
    id: 'mgmt.ratelimit.configure',
    method: 'PUT',
    path: '/mgmt/v1/ratelimit/config',
    scope: 'write',
    summary: "Gives the org a tighter configuration than the gateway's, at once and for later starts.",
    annotations: REPLACES,
    versioned: true,
    tools: [{ name: 'update_ratelimit_config', title: 'Update rate limiter configuration' }],
    input: { body: { schema: () => CONFIG_BODY, what: 'The configuration' } },
    output: { status: 200, schema: CONFIG },
    handle: async ({ principal, body, commit, expectShown }, { rateLimits }) => {
      const orgId = orgOf(principal);
      expectShown(rateLimits.configs.of(orgId));
      await rateLimits.configs.put(orgId, body, commit);
      return { json: rateLimits.configs.of(orgId) };
    },
  }),
  operation({
    id: 'mgmt.ratelimit.keys',
    method: 'GET',
    path: '/mgmt/v1/ratelimit/keys',
    scope: 'read',
    summary: 'Workloads of the org whose bucket is not full.',
    annotations: READS,
    tools: [{ name: 'list_ratelimit_keys', title: 'List rate limiter keys' }],
    input: { query: { schema: () => CURSOR_QUERY } },
    output: { status: 200, schema: dataPage(z.string()) },
    handle: ({ principal, query }, { rateLimits }) => ({
      json: pageInMemory(rateLimits.keys(orgOf(principal)), (key) => key, cursorPage('ratelimit keys', query)),
    }),
  }),
];
