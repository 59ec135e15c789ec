import type { GatewayError } from '../../base/lib/gateway-error.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import type { Usage } from '../../base/model/usage.ts';
import type { AnswerHead } from '../../inbound/reply/answer-head.ts';
import type { SeenUsage } from '../../outbound/connectors/seen-usage.ts';
import type { ResponseState } from '../../outbound/connectors/stream-finish.ts';
import type { AnswerTimes } from './answer-times.ts';
import type { CapReached } from './cap-reached.ts';
import type { AcceptedSocket } from './handshake.ts';

/** The answer of a forwarded call as the rest of the line sees it; see Delivery. */
export interface Delivered {
  /** The upstream's status; undefined before its head came. */
  readonly status: number | undefined;
  /** From the sent request to the head of the answer, milliseconds. */
  readonly headLatencyMs: number | undefined;
  /** Undefined of a call on a WebSocket of which nothing was sent. */
  readonly times?: Readonly<Pick<AnswerTimes, 'sentAt' | 'firstAt' | 'endedAt'>> | undefined;
  readonly answer: AnswerHead | undefined;
  readonly responseBytes: number;
  readonly responseSha256: string | undefined;
  readonly streamOutcome: ExecutionRecord['stream_outcome'];
  readonly failure: GatewayError | undefined;
  readonly clientGone: boolean;
  /** The body of the call has not left yet, all of it; undefined where that is not known. */
  readonly bodyWaits?: boolean | undefined;
  /** The client has the head: from then on only a reset can tell it of a failure. */
  readonly started: boolean;
  readonly meter:
    | {
        readonly usage: Usage | undefined;
        readonly model: string | undefined;
        /** `error`: the answer says one, whatever its status. */
        readonly outcome: 'open' | 'complete' | 'error';
        readonly seen: SeenUsage | undefined;
        readonly state: ResponseState | undefined;
      }
    | undefined;
  /** The stream was ended at this cap. */
  readonly stopped: CapReached | undefined;
  /** Set for a handshake when it is on record and the client has its 101. */
  readonly accepted?: AcceptedSocket | undefined;
  /** Hands over what was kept back; called once, when the record is stored. */
  release(record: ExecutionRecord): void;
  /** Gives up: nothing more is sent, the upstream call is stopped. */
  abandon(): void;
}
