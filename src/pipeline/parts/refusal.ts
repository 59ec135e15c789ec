import { GatewayError, type GatewayErrorOptions } from '../../base/lib/gateway-error.ts';
import type { RecordedBudget } from '../../base/model/budget-limit.ts';
import type { ErrorCode } from '../../base/model/error-codes.ts';
import type { NextStep } from '../../base/model/next-step.ts';
import type { Decision, RecordedDecision } from '../../base/model/reason-codes.ts';
import { HIDDEN_COST } from '../../decide/policy/judge-caps.ts';
import type { RefusalDetail } from '../../inbound/reply/envelope.ts';
import { seenVia } from '../../outbound/net/header-filter.ts';
import { CALLS_STOPPED, QUARANTINED_WHILE_RUNNING } from '../../services/review/running-calls.ts';
import type { StopTold } from '../../services/review/stops.ts';
import type { LineName } from './line-name.ts';

/**
 * What a stage can end its line with: one base class, so that the runner tells an end from what was made by one look.
 */
export abstract class LineEnd {
  /** Tells the type apart from parts, which a type checker would take for it otherwise. */
  readonly endsLine = true;
}

/** What a refusal says. */
interface Said {
  readonly decision: Exclude<RecordedDecision, 'allow' | 'downgrade'>;
  readonly status: number;
  readonly reason: string;
  readonly reasonCodes: readonly string[];
  /** When it is worth trying again: `Retry-After` of the structured API, and of what has waited on every door. */
  readonly retryAfterSeconds?: number | undefined;
  /** Set when the refusal is a failure with a code of the error table. */
  readonly errorCode?: ErrorCode | undefined;
  readonly detail?: RefusalDetail | undefined;
  /** Of the approval that the request waits for, or that rejects it. */
  readonly approvalId?: string | undefined;
  /** It has opened that approval, which names its record. */
  readonly opensApproval?: boolean;
  /** For programs: what to do next. */
  readonly next?: NextStep | undefined;
  /** Sent in the place of the usual body of a refusal. */
  readonly body?: GatewayErrorOptions['body'];
  /** What the decision trace says beyond the record: amounts of a refusal for money. */
  readonly traceAttributes?: Readonly<Record<string, string>> | undefined;
  /** The cap for which the call is refused; recorded and told. */
  readonly budget?: RecordedBudget | undefined;
}

/** Why a request ends before it is forwarded, or could not be completed. It is recorded. */
export class Refusal extends LineEnd implements Said {
  readonly decision: Said['decision'];
  readonly status: number;
  readonly reason: string;
  readonly reasonCodes: readonly string[];
  readonly retryAfterSeconds: number | undefined;
  readonly errorCode: ErrorCode | undefined;
  readonly detail: RefusalDetail | undefined;
  readonly approvalId: string | undefined;
  readonly opensApproval: boolean;
  readonly next: NextStep | undefined;
  readonly body: GatewayErrorOptions['body'];
  readonly traceAttributes: Said['traceAttributes'];
  readonly budget: Said['budget'];

  constructor(said: Said) {
    super();
    this.decision = said.decision;
    this.status = said.status;
    this.reason = said.reason;
    this.reasonCodes = said.reasonCodes;
    this.retryAfterSeconds = said.retryAfterSeconds;
    this.errorCode = said.errorCode;
    this.detail = said.detail;
    this.approvalId = said.approvalId;
    this.opensApproval = said.opensApproval === true;
    this.next = said.next;
    this.body = said.body;
    this.traceAttributes = said.traceAttributes;
    this.budget = said.budget;
  }
}

/** @throws GatewayError `loop_detected` for what has passed this very gateway before (decision 3.13) */
export function refuseLoop(rawHeaders: readonly string[], nodeId: string): void {
  if (seenVia(rawHeaders, nodeId)) throw new GatewayError('loop_detected', 'This request has already passed this gateway.');
}

/** A WebSocket to an AI host whose calls cannot be metered (decision 3.12); clients fall back to HTTPS. */
export function webSocketRefusal(): GatewayError {
  return new GatewayError('upgrade_required', 'WebSockets are not accepted here, because their calls could not be metered; use HTTPS.');
}

/** A denial before or beside policy, with its reason code. */
export function deny(
  reasonCode: string,
  reason: string,
  more: Pick<Partial<Said>, 'status' | 'errorCode' | 'detail' | 'body' | 'traceAttributes' | 'budget'> = {},
): Refusal {
  return new Refusal({ status: 403, ...more, decision: 'deny', reason, reasonCodes: [reasonCode] });
}

/** A cap holds the call, and nobody can say what it may cost. */
export function hiddenCost(): Refusal {
  return deny('operation_not_understood', HIDDEN_COST);
}

/** Status of a decision that refuses: on the proxied doors always 403 (specification, "Transparent proxy mode" 6). */
export function statusOf(decision: Decision, line: LineName): number {
  return decision === 'rate_limit' && line === 'direct' ? 429 : 403;
}

/**
 * Failures that became a decision about the request and are therefore recorded as `deny` (decisions 3.19, 7.3, 8.5).
 */
const RECORDED_DENIALS: ReadonlySet<ErrorCode> = new Set(['misdirected_request', 'ambiguous_body', 'egress_denied']);
/** Failures of a call that policy let through (decision 7.8). */
const CALL_FAILURES: ReadonlySet<ErrorCode> = new Set(['upstream_unreachable', 'upstream_tls', 'upstream_protocol', 'upstream_timeout']);

/** Codes of calls that people, or policy, have ended while they were under way. */
const HELD_WHILE_RUNNING: ReadonlySet<ErrorCode> = new Set([QUARANTINED_WHILE_RUNNING, CALLS_STOPPED]);

/** Whether a call was ended because its caller was put into quarantine, or calls like it were stopped. */
export function isHeldWhileRunning({ code }: GatewayError): boolean {
  return HELD_WHILE_RUNNING.has(code);
}

/** A call that a stop holds. */
export function stopped({ reason }: StopTold): Refusal {
  return deny(CALLS_STOPPED, `Calls are stopped: ${reason}`, { errorCode: CALLS_STOPPED });
}

/**
 * Failures that are recorded once policy has let the call through: from then on it has been answered for (decisions
 * 7.3, 7.8).
 */
const LATE_FAILURES: ReadonlySet<ErrorCode> = new Set(['internal', 'client_gone', 'shutting_down', ...HELD_WHILE_RUNNING]);

/**
 * True for a failure that is no fault of the upstream's: the call was ended before its time, by its client, because its
 * caller is held, because calls are stopped or because the gateway stops.
 */
export function isCut({ code }: GatewayError): boolean {
  return code === 'shutting_down' || code === 'client_gone' || HELD_WHILE_RUNNING.has(code);
}

/**
 * Turns a failure into the refusal that is recorded for it; undefined when decision 7.3 names it among those without a
 * record.
 */
export function refusalOf(error: GatewayError, decided: boolean): Refusal | undefined {
  if (RECORDED_DENIALS.has(error.code)) {
    return failed('deny', error);
  }
  if (CALL_FAILURES.has(error.code) || (decided && LATE_FAILURES.has(error.code))) {
    return failed('error', error);
  }
  return undefined;
}

function failed(decision: 'deny' | 'error', { status, message, code }: GatewayError): Refusal {
  return new Refusal({ decision, status, reason: message, reasonCodes: [code], errorCode: code });
}
