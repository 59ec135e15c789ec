import type { Listeners } from '../../base/events/bus.ts';
import type { Clock } from '../../base/lib/clock.ts';
import { LineLimiter } from '../../base/lib/line-limiter.ts';
import type { Logger } from '../../base/lib/log.ts';

/**
 * One line for each request of the HTTP port that was turned away, of which no stranger can make too many: the metrics
 * count them all.
 */
export function adminRefusalLog(log: Logger, clock: Pick<Clock, 'monotonic'>): Listeners {
  const limiter = new LineLimiter(clock);
  return {
    authFailure: ({ requestId, reason, surface, callerIp, request }) => {
      const suppressed = limiter.take(`authentication ${surface}`);
      if (suppressed === undefined) return;
      log.warn({ request_id: requestId, reason, surface, caller_ip: callerIp, request, ...more(suppressed) }, 'authentication failed');
    },
    unrecorded: ({ requestId, code, callerIp, request, message }) => {
      if (code === 'unauthorized' || code === 'client_gone') return;
      const suppressed = limiter.take(code);
      if (suppressed === undefined) return;
      log.info(
        { request_id: requestId, code, caller_ip: callerIp, request, reason: message, ...more(suppressed) },
        'a request was refused',
      );
    },
  };
}

function more(suppressed: number): { readonly suppressed?: number } {
  return suppressed === 0 ? {} : { suppressed };
}
