/*
 * The pipeline room: the one line that every request walks, whichever door it came by. A stage fills the exchange, pushes settlements and may answer;
 * the runner alone builds the record and the reply. Nothing here listens on a port or opens a socket by itself.
 */

import type { Operation, Price, Provider } from '../base/catalogue/types.ts';
import type { GatewayError } from '../base/lib/gateway-error.ts';
import type { ActionRequest } from '../base/model/action-request.ts';
import type { ArrivalHead, BodySource, ReplySink } from '../base/model/arrival.ts';
import type { Attribution } from '../base/model/attribution.ts';
import type { ByteChannel } from '../base/model/channel.ts';
import type { ConnectionType, TrafficClass } from '../base/model/connection.ts';
import type { Credential } from '../base/model/credential.ts';
import type { Decision, RecordedDecision } from '../base/model/decision.ts';
import type { ErrorCode } from '../base/model/error-codes.ts';
import type { ExecutionRecord, ShadowTrace } from '../base/model/execution-record.ts';
import type { Usage } from '../base/model/usage.ts';
import type { Workload } from '../base/model/workload.ts';
import type { Facts } from '../decide/policy/facts.ts';
import type { Verdict } from '../decide/policy/verdict.ts';
import type { Estimate } from '../decide/pricing/estimate.ts';
import type { CredentialAnswer } from '../decide/routing/choose-credential.ts';
import type { AiBody } from '../inbound/normalise/body.ts';
import type { Form } from '../inbound/normalise/form.ts';
import type { ProxiedIdentity } from '../inbound/normalise/identity.ts';
import type { Change } from '../inbound/normalise/mutate.ts';
import type { CallEvent } from '../inbound/normalise/socket-event.ts';
import type { AnswerHead } from '../inbound/reply/answer-head.ts';
import type { RefusalDetail } from '../inbound/reply/refusal-body.ts';
import type { ResponseState } from '../outbound/connectors/response-state.ts';
import type { SeenUsage } from '../outbound/connectors/seen-usage.ts';
import type { UnhashedRecord } from '../record/canonical-record.ts';
import { rollUp } from '../record/roll-up.ts';
import type { Counted, Reservation } from '../services/budgets.ts';
import type { ActivePolicy } from '../services/policies.ts';
import type { Effect } from '../storage/contract/store.ts';
import type { AnswerCopy } from './answer-copy.ts';
import type { BufferHold } from './buffer-budget.ts';
import type { CapReached } from './cap-reached.ts';
import type { DeferredCall, EndedResponse } from './deferred-response.ts';
import type { StreamedBody, StreamedForm } from './passing-body.ts';

/**
 * `direct` structured API, `proxied` redirect, absolute-form and intercepted calls, `tunnel` a CONNECT that is decided by its host alone, `socket` a call on a
 * WebSocket that is open.
 */
export type Door = 'direct' | 'proxied' | 'tunnel' | 'socket';

/** Why a request ends before it is forwarded, or could not be completed. It is recorded. */
export interface Refusal {
  readonly decision: Exclude<RecordedDecision, 'allow' | 'downgrade'>;
  readonly status: number;
  readonly reason: string;
  readonly reasonCodes: readonly string[];
  /** When it is worth trying again: `Retry-After` of the structured API. */
  readonly retryAfterSeconds?: number;
  /** Set when the refusal is a failure with a code of the error table. */
  readonly errorCode?: ErrorCode;
  readonly detail?: RefusalDetail;
}

/** The answer of a forwarded call as the rest of the line sees it; see Delivery. */
export interface Delivered {
  /** The upstream's status; undefined before its head came. */
  readonly status: number | undefined;
  /** From the sent request to the head of the answer, milliseconds. */
  readonly headLatencyMs: number | undefined;
  readonly answer: AnswerHead | undefined;
  readonly responseBytes: number;
  readonly responseSha256: string | undefined;
  readonly streamOutcome: ExecutionRecord['stream_outcome'];
  readonly failure: GatewayError | undefined;
  readonly clientGone: boolean;
  /** The client has the head: from then on only a reset can tell it of a failure. */
  readonly started: boolean;
  readonly meter:
    | {
        readonly usage: Usage | undefined;
        readonly model: string | undefined;
        readonly seen: SeenUsage | undefined;
        readonly state: ResponseState | undefined;
      }
    | undefined;
  /** The stream was ended at this cap. */
  readonly stopped: CapReached | undefined;
  /** Hands over what was kept back; called once, when the record is stored. */
  release(record: ExecutionRecord): void;
  /** Gives up: nothing more is sent, the upstream call is stopped. */
  abandon(): void;
}

/** The two sides of a WebSocket that both have accepted. Nothing was read from either. */
export interface AcceptedSocket {
  readonly client: ByteChannel;
  readonly upstream: ByteChannel;
}

/** One call on an open WebSocket, before it walks the line. */
export interface SocketCall {
  /** The handshake: who calls, and where to. */
  readonly opened: Exchange;
  /** What every call on this socket is. */
  readonly operation: Operation;
  /** The params, as one JSON object; a GatewayError when the client's event cannot be read in one way only. */
  readonly body: Uint8Array | GatewayError;
  /** The client event that asks for it; undefined where the server began by itself. */
  readonly event: CallEvent | undefined;
  /** It only changes the settings of calls to come. */
  readonly settingsOnly: boolean;
}

/** Runs on every exit, in reverse order of pushing; returns what is committed in one write with the record. Does no I/O. */
export type Settlement = (record: ExecutionRecord) => readonly Effect[];

/** Everything known about one request while it walks the line. Members are filled from top to bottom. */
export class Exchange {
  readonly door: Door;
  readonly head: ArrivalHead;
  readonly body: BodySource | undefined;
  readonly reply: ReplySink | undefined;
  /** Epoch milliseconds. */
  readonly createdAt: number;
  readonly recordId: string;
  /** Epoch milliseconds; set when its record is made. */
  completedAt = 0;
  requestId: string;
  connectionType: ConnectionType;
  trafficClass: TrafficClass;

  request: ActionRequest | undefined;
  identity: ProxiedIdentity | undefined;
  orgId = '';
  workloadId = '';
  workload: Workload | undefined;
  callerId: string | undefined;
  callerIp: string;

  method: string;
  host = '';
  port = 443;
  tls = true;
  /** Canonical path with query, as it is sent. */
  path = '';
  provider: Provider | undefined;
  operation: Operation | undefined;
  actionType = 'http.request';

  /** Bytes as received; undefined when there is none or it streams through. */
  bytes: Uint8Array | undefined;
  /** The same, decoded when it came compressed: what policy reads. */
  plain: Uint8Array | undefined;
  /** The form that a body was found to be while it arrived. */
  form: Form | undefined;
  aiBody: AiBody | undefined;
  params: Readonly<Record<string, unknown>> = {};
  /** Flat list: the client's own (proxied) or `action.headers` (direct), mutations applied. */
  headers: readonly string[];
  stream = false;
  /** Of a body that was read whole; `streamed` knows its own. */
  requestBytes = 0;
  requestSha256: string | undefined;
  /** What its body holds of the shared budget. */
  held: BufferHold | undefined;
  /** What the text and params of its body take beside that; counted before anything is waited for. */
  parsedBytes = 0;
  /** The workload whose token the caller has shown. */
  provenWorkload: string | undefined;

  attribution: Attribution = {};
  connectorId: string | undefined;
  /** The connector that the caller's own words lead to, so the one that a key which it brings is meant for (decision 6.9). */
  meantFor: string | undefined;
  credentialId: string | undefined;
  /** Stored credentials that may go to this host. */
  credentialCandidates: readonly Credential[] = [];
  /** Undefined: none of ours, and the caller's own headers are nobody's business. */
  credential: CredentialAnswer | undefined;
  /** The caller's own Authorization goes ahead of a stored credential. */
  oauthPassthrough = false;
  /** Connectors that could take the call. */
  candidates: readonly string[] = [];
  price: Price | undefined;
  estimate: Estimate | undefined;
  /** The snapshot that this request started with. */
  active: ActivePolicy | undefined;
  facts: Facts | undefined;
  /** What the policy's rules saw of this request, for its record; undefined until the facts are let go of. */
  observed: Readonly<Record<string, unknown>> | undefined;
  verdict: Verdict | undefined;
  /** What the second bundle would have decided. */
  shadow: ShadowTrace | undefined;
  decision: Decision | undefined;
  originalModel: string | undefined;
  substitutedModel: string | undefined;
  /** A mutation really changed something. */
  changedByPolicy = false;
  /** What mutations changed, in order. */
  changes: readonly Change[] = [];

  /** The handshake of a WebSocket whose calls will be judged, metered and recorded one by one. */
  opensSocket = false;
  /** Set when the handshake is on record and the client has its 101. */
  accepted: AcceptedSocket | undefined;
  /** Door `socket` only. */
  socketCall: SocketCall | undefined;

  /** A body that passes while it arrives: one that policy does not parse, or a form of which it has read what it needs. */
  streamed: StreamedBody | undefined;
  /** `streamed`, when it is such a form. */
  upload: StreamedForm | undefined;
  /** What is sent, after mutations. */
  sendBytes: Uint8Array | undefined;
  sendModel: string | undefined;
  /** Set for a call that its caller signed: the lower-case names of the headers that the signature covers. */
  signedHeaders: readonly string[] | undefined;
  /** The gateway asked for the stream's usage, the caller did not: what comes of that is kept from the caller. */
  hidesUsage = false;

  /** What is set aside for the call; the runner settles it. */
  reservation: Reservation | undefined;
  /** The record that the call will have if the process ends before it does is stored, or being so. */
  hasIntent = false;
  /** What is charged then; kept for streams that may grow beyond it. */
  intent: UnhashedRecord | undefined;
  /** Its cost, once that is counted. */
  counted: Counted | undefined;
  /** The record that could not be stored. */
  unstored: ExecutionRecord | undefined;
  delivery: Delivered | undefined;
  /** The answer of a call with an idempotency key. */
  copy: AnswerCopy | undefined;
  /** Its key, once the answer is among what is committed. */
  keptKey: string | undefined;
  usage: Usage | undefined;
  /** Some of it is the gateway's own count, because the provider's never came. */
  usageApproximated = false;
  answeredModel: string | undefined;
  /** It asks for a response that is made after its answer; undefined while its params tell. */
  deferring: boolean | undefined;
  /** The response that the call has begun, when its usage is not known yet. */
  deferred: DeferredCall | undefined;
  /** The response that was asked for, when it has ended. */
  ended: EndedResponse | undefined;
  /** Why a tunnel that was already let through is ended. */
  imposed: Refusal | undefined;
  refusal: Refusal | undefined;
  /** What the decision trace says beyond its record; amounts of a refusal for money. */
  traceAttributes: Readonly<Record<string, string>> | undefined;
  /** The first one pushed runs last; every request is counted. */
  readonly settlements: Settlement[] = [rollUp];

  constructor(
    door: Door,
    from: { head: ArrivalHead; body?: BodySource; reply?: ReplySink },
    base: { createdAt: number; recordId: string; connectionType: ConnectionType; trafficClass: TrafficClass; callerIp: string },
  ) {
    this.door = door;
    this.head = from.head;
    this.body = from.body;
    this.reply = from.reply;
    this.createdAt = base.createdAt;
    this.recordId = base.recordId;
    this.requestId = base.recordId;
    this.connectionType = base.connectionType;
    this.trafficClass = base.trafficClass;
    this.callerIp = base.callerIp;
    this.method = from.head.method;
    this.headers = from.head.rawHeaders;
  }

  /** False for what only leads to calls, which are counted one by one: a tunnel, the handshake of a metered WebSocket, a change of its settings. */
  get isCall(): boolean {
    return this.door !== 'tunnel' && !this.opensSocket && this.socketCall?.settingsOnly !== true;
  }
}
