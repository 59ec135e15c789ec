import { z } from 'zod';
import { parseDuration } from '../base/lib/durations.ts';
import { members, positive } from './members.ts';
import { type GatewayOperation, operation, READS, REPLACES } from './operation.ts';

/** Longest window; a bucket that needs longer to fill is no rate limit. */
const MAX_WINDOW_MS = 86_400_000;
const WINDOW_RULE = 'must be a duration from 1ms to 24h such as 1m';

/** The configuration (specification, "Limits"). */
const CONFIG_BODY = members({
  refill_rate: positive,
  max_tokens: positive.refine((value) => !(value > 0 && value < 1), 'must be at least 1, or no request would ever pass'),
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
    summary: 'The configuration of the rate limiter.',
    annotations: READS,
    output: { status: 200, schema: CONFIG },
    handle: (_call, { rateLimits }) => ({ json: rateLimits.config }),
  }),
  operation({
    id: 'ratelimit.configure',
    method: 'PUT',
    path: '/v1/admin/ratelimit/config',
    scope: 'admin',
    summary: 'Replaces the configuration of the rate limiter, at once and for later starts.',
    annotations: REPLACES,
    input: { body: { schema: () => CONFIG_BODY, what: 'The configuration' } },
    output: { status: 200, schema: CONFIG },
    handle: async ({ body, commit }, { rateLimits }) => {
      await rateLimits.configure(body, commit);
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
];
