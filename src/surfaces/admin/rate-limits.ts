import { parseDuration } from '../../base/lib/durations.ts';
import type { RateLimitConfig, RateLimitService } from '../../services/rate-limits.ts';
import { BodyMembers } from '../http/body-members.ts';
import type { Route } from '../http/route.ts';

/** Longest window; a bucket that needs longer to fill is no rate limit. */
const MAX_WINDOW_MS = 86_400_000;

/** Checks a rate-limiter configuration (specification, "Limits"). @throws GatewayError `invalid_request` */
function parseConfig(body: unknown): RateLimitConfig {
  const members = new BodyMembers(body, ['refill_rate', 'max_tokens', 'window_duration']);
  const refillRate = members.positive('refill_rate') ?? 0;
  const maxTokens = members.positive('max_tokens') ?? 0;
  if (maxTokens > 0 && maxTokens < 1) members.problem('max_tokens', 'must be at least 1, or no request would ever pass');
  const given = members.value('window_duration');
  const window = typeof given === 'string' ? given : '';
  const windowMs = parseDuration(window);
  if (windowMs === undefined || windowMs < 1 || windowMs > MAX_WINDOW_MS) {
    members.problem('window_duration', 'must be a duration from 1ms to 24h such as 1m');
  }
  members.check('The configuration');
  return { refill_rate: refillRate, max_tokens: maxTokens, window_duration: window };
}

/** The rate limiter (specification, "Gateway admin API"; decision 6.1). */
export function rateLimitRoutes(limits: RateLimitService): readonly Route[] {
  return [
    {
      method: 'GET',
      path: '/v1/admin/ratelimit/config',
      auth: 'admin',
      summary: 'The configuration of the rate limiter.',
      handle: () => ({ status: 200, json: limits.config }),
    },
    {
      method: 'PUT',
      path: '/v1/admin/ratelimit/config',
      auth: 'admin',
      summary: 'Replaces the configuration of the rate limiter, at once and for later starts.',
      handle: async (request) => {
        const config = parseConfig(await request.json());
        await limits.configure(config);
        return { status: 200, json: config };
      },
    },
    {
      method: 'GET',
      path: '/v1/admin/ratelimit/keys',
      auth: 'admin',
      summary: 'Workloads whose bucket is not full.',
      handle: () => ({ status: 200, json: { keys: limits.keys() } }),
    },
  ];
}
