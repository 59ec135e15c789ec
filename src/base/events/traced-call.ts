import type { ConnectionType, TrafficClass } from '../model/action-request.ts';
import type { ArrivalHead } from '../model/arrival.ts';
import type { CallTrace, OwnSpans } from '../model/call-trace.ts';
import type { ExecutionRecord } from '../model/execution-record.ts';

/** A call that is over and whose spans are sent. Moments are monotonic milliseconds. */
export interface TracedCall {
  readonly trace: CallTrace;
  readonly own: OwnSpans;
  readonly head: ArrivalHead;
  readonly recordId: string;
  readonly requestId: string;
  readonly connectionType: ConnectionType;
  readonly trafficClass: TrafficClass;
  readonly callerIp: string;
  readonly endedAt: number;
  /** Undefined for a call that left none. */
  readonly record: ExecutionRecord | undefined;
  /** Why it left none; `unstored`: it should have one, which may still come. */
  readonly failure: { readonly code: string; readonly status: number; readonly unstored: boolean } | undefined;
  /** An earlier answer was given again. */
  readonly replayed: boolean;
  /** Undefined for a call that was not sent. */
  readonly upstream: UpstreamLeg | undefined;
}

/** The call to the provider. */
export interface UpstreamLeg {
  readonly sentAt: number;
  readonly firstAt: number | undefined;
  readonly endedAt: number | undefined;
  readonly host: string;
  readonly port: number;
  readonly method: string;
  /** The meaning of the operation in detail, such as `ai.infer.chat`. */
  readonly detailType: string | undefined;
  readonly dialectId: string | undefined;
  readonly status: number | undefined;
  /** Code of the failure that ended it. */
  readonly failed: string | undefined;
  /** That the answer names. */
  readonly model: string | undefined;
  readonly responseId: string | undefined;
}
