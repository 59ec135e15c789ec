import type { Listeners } from '../base/events/bus.ts';
import type { AuthFailureEvent } from '../base/events/events.ts';
import { shown, type UnrecordedEvent } from '../base/events/unrecorded.ts';
import type { Clock } from '../base/lib/clock.ts';
import { LineLimiter } from '../base/lib/line-limiter.ts';
import type { Logger } from '../base/lib/log.ts';
import { ERROR_CODES } from '../base/model/error-codes.ts';
import type { FAILURE_FIELDS, Fields, REFUSAL_FIELDS } from './log-fields.ts';

/** Said by `authentication failed`, which knows more. */
const AUTHENTICATION: ReadonlySet<string> = new Set(['unauthorized', 'proxy_authentication_required']);
/** Nobody was refused: clients leave all day long. */
const QUIET: ReadonlySet<string> = new Set(['client_gone']);

/**
 * One line per request that left no record, and per failed authentication, of which no stranger can make too many: the
 * metrics count them all.
 */
export function refusalLog(log: Logger, clock: Pick<Clock, 'monotonic'>): Listeners {
  const limiter = new LineLimiter(clock);
  return {
    unrecorded: (event) => {
      if (!AUTHENTICATION.has(event.code)) logUnrecorded(event, log, limiter);
    },
    authFailure: (event) => logAuthFailure(event, log, limiter),
  };
}

function logUnrecorded(event: UnrecordedEvent, log: Logger, limiter: LineLimiter): void {
  const { code } = event;
  const suppressed = QUIET.has(code) ? 0 : limiter.take(code);
  if (suppressed === undefined) return;
  const status = Object.hasOwn(ERROR_CODES, code) ? ERROR_CODES[code as keyof typeof ERROR_CODES].status : undefined;
  const fields: Fields<typeof REFUSAL_FIELDS> = {
    request_id: event.requestId,
    trace_id: event.traceId,
    code,
    status,
    caller_ip: event.callerIp,
    traffic_class: event.trafficClass,
    request: event.request,
    reason: event.message,
    suppressed: kept(suppressed),
  };
  // What is above 499 is for the operator to look at; the rest is for whoever sent it.
  const level = QUIET.has(code) ? 'debug' : status !== undefined && status >= 500 && code !== 'shutting_down' ? 'warn' : 'info';
  log[level](fields, 'a request was refused without a record');
}

function logAuthFailure(event: AuthFailureEvent, log: Logger, limiter: LineLimiter): void {
  const { requestId, reason, orgId, surface, callerIp, request, workloadId } = event;
  const suppressed = limiter.take(`authentication ${surface}`);
  if (suppressed === undefined) return;
  const fields: Fields<typeof FAILURE_FIELDS> = {
    request_id: requestId,
    reason,
    surface,
    caller_ip: callerIp,
    request,
    org_id: shown(orgId),
    workload_id: workloadId,
    suppressed: kept(suppressed),
  };
  log.warn(fields, 'authentication failed');
}

function kept(suppressed: number): number | undefined {
  return suppressed === 0 ? undefined : suppressed;
}
