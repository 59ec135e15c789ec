/*
 * What is known of a call, in parts. Each part is made once, by one stage of its line, from parts before it, and
 * frozen; nobody changes one that another has made. A stage says which parts it reads and which it makes (see
 * stage.ts), so that the table in ARCHITECTURE.md is derived from the code.
 */
import type { NamedModels } from '../../base/catalogue/named-models.ts';
import type { Catalogue, Operation, Price, Provider } from '../../base/catalogue/types.ts';
import type { GatewayError } from '../../base/lib/gateway-error.ts';
import type { ActionRequest, Attribution, ConnectionType, TrafficClass } from '../../base/model/action-request.ts';
import type { ArrivalHead, BodySource, ReplySink, WaitingClient } from '../../base/model/arrival.ts';
import type { CallTrace } from '../../base/model/call-trace.ts';
import type { ShadowTrace } from '../../base/model/execution-record.ts';
import type { ApiKey, Credential } from '../../base/model/keys.ts';
import type { Decision } from '../../base/model/reason-codes.ts';
import type { Risk } from '../../base/model/risk-alert.ts';
import type { Usage } from '../../base/model/usage.ts';
import type { Workload } from '../../base/model/workload.ts';
import type { AskedByRule } from '../../decide/policy/approval-standing.ts';
import type { Facts } from '../../decide/policy/facts.ts';
import type { Verdict } from '../../decide/policy/verdict.ts';
import type { Estimate } from '../../decide/pricing/estimate.ts';
import type { CredentialAnswer } from '../../decide/routing/choose-credential.ts';
import type { AppliedChange } from '../../inbound/normalise/apply-mutations.ts';
import type { AiBody } from '../../inbound/normalise/body.ts';
import type { Form } from '../../inbound/normalise/form.ts';
import type { ProxiedIdentity } from '../../inbound/normalise/identity.ts';
import type { CallEvent } from '../../inbound/normalise/socket-event.ts';
import type { UnhashedRecord } from '../../record/canonical-record.ts';
import type { ApiKeyVerdict } from '../../services/people/api-keys.ts';
import type { Delegation } from '../../services/people/delegations.ts';
import type { ActivePolicy } from '../../services/policy/active-policy.ts';
import type { BufferHold } from '../body/buffer-budget.ts';
import type { StreamedBody, StreamedForm } from '../body/passing-body.ts';
import type { AnswerCopy } from './answer-copy.ts';
import type { Approving, Cleared } from './approving.ts';
import type { Delivered } from './delivered.ts';
import type { Handshake } from './handshake.ts';
import type { Hold } from './hold.ts';
import type { LineName } from './line-name.ts';
import type { Refusal } from './refusal.ts';
import type { ReplacedModel } from './settlement.ts';
import type { SocketAnswer } from './socket-answer.ts';

/** One call on an open WebSocket, before it walks the line. */
export interface SocketCall {
  /** The handshake: who calls, and where to. */
  readonly opened: OpenedSocket;
  /** What every call on this socket is. */
  readonly operation: Operation;
  /** The params, as one JSON object; a GatewayError when the client's event cannot be read in one way only. */
  readonly body: Uint8Array | GatewayError;
  /** The client event that asks for it; undefined where the server began by itself. */
  readonly event: CallEvent | undefined;
  /** It only changes the settings of calls to come. */
  readonly settingsOnly: boolean;
}

/** What the calls on a WebSocket take over from its handshake. */
export interface OpenedSocket {
  readonly arrival: Arrived;
  readonly route: CallRoute;
  /** As they came. */
  readonly headers: readonly string[];
}

/** What is known when the head is here. */
export interface Arrived {
  readonly line: LineName;
  readonly head: ArrivalHead;
  readonly body: BodySource | undefined;
  readonly reply: ReplySink | undefined;
  /** Epoch milliseconds. */
  readonly createdAt: number;
  readonly recordId: string;
  readonly connectionType: ConnectionType;
  readonly trafficClass: TrafficClass;
  readonly callerIp: string;
  /**
   * Providers, operations and prices as they were then, with the connectors of all orgs: only for what is asked before
   * the org is known.
   */
  readonly catalogue: Catalogue;
  /** Undefined: nobody traces it. */
  readonly trace: CallTrace | undefined;
  /** LineName `socket` only. */
  readonly socketCall: SocketCall | undefined;
  /** Who waits for it where there is no `reply`; undefined: nobody can tell, so that it cannot wait for a person. */
  readonly heldBy: WaitingClient | undefined;
  /** Why it is refused whatever its stages would say: settled before the line began. */
  readonly imposed: Refusal | undefined;
}

/** Who the caller says that it is, and for whom it calls. */
export interface Claims {
  readonly requestId: string;
  readonly orgId: string;
  /** What this org sees of the catalogue that the request came to: no other org's connectors. */
  readonly catalogue: Catalogue;
  readonly workloadId: string;
  readonly callerId: string | undefined;
  readonly attribution: Attribution;
  readonly delegationId: string | undefined;
  readonly idempotencyKey: string | undefined;
  /** What a proxied request says in its head; undefined on the structured API. */
  readonly identity: ProxiedIdentity | undefined;
  /** What is known of the API key in that head; undefined without one. */
  readonly apiKey: ApiKeyVerdict | undefined;
}

/** Where a call goes, and what it is there. */
export interface CallDestination {
  readonly method: string;
  readonly host: string;
  readonly port: number;
  readonly tls: boolean;
  /** Canonical path with query. */
  readonly path: string;
  readonly provider: Provider | undefined;
  readonly operation: Operation | undefined;
  readonly actionType: string;
}

/** Where the caller wants to go. */
export interface Target extends CallDestination {
  /** The handshake of a WebSocket whose calls will be judged, metered and recorded one by one. */
  readonly opensSocket: boolean;
  /**
   * False for what only leads to calls, which are counted one by one: a tunnel, the handshake of a metered WebSocket, a
   * change of its settings.
   */
  readonly isCall: boolean;
}

/** What the caller has shown. */
export interface Proof {
  /** The workload whose token it was, as `workloadKey` names it. */
  readonly workload: string | undefined;
  readonly apiKey: ApiKey | undefined;
  /** Whether a token of a workload was shown, of that one or not. */
  readonly tokenShown: boolean;
}

export interface Caller {
  readonly workload: Workload;
  /** What its org is charged by where nobody else says it. */
  readonly orgAttribution: Attribution | undefined;
}

/** What came of the body, and what its record says of it. */
export interface Intake {
  /** Of a body that was read whole; `streamed` knows its own. */
  readonly requestBytes: number;
  readonly requestSha256: string | undefined;
  /** What it holds of the shared budget. */
  readonly held: BufferHold | undefined;
  /**
   * A body that passes while it arrives: one that policy does not parse, or a form of which it has read what it needs.
   */
  readonly streamed: StreamedBody | undefined;
  /** `streamed`, when it is such a form. */
  readonly upload: StreamedForm | undefined;
}

/** The body as it came. */
export interface Received {
  /** Undefined when there is none or it streams through. */
  readonly bytes: Uint8Array | undefined;
  /** The same, decoded when it came compressed: what policy reads. */
  readonly plain: Uint8Array | undefined;
  /** The form that it was found to be while it arrived. */
  readonly form: Form | undefined;
}

/** What would be sent, and what policy sees of it. */
export interface Content {
  /** Flat list: the client's own (proxied) or `action.headers` (direct). */
  readonly headers: readonly string[];
  readonly params: Readonly<Record<string, unknown>>;
  readonly stream: boolean;
  readonly model: string | undefined;
  readonly body: AiBody | undefined;
  readonly bytes: Uint8Array | undefined;
}

/** The action as it was received, whichever door it came by. */
export interface ReceivedAction {
  readonly request: ActionRequest;
  /** The caller wrote it so: it came by the structured API. */
  readonly isEnvelope: boolean;
}

/** A call whose answer may be given again. */
export interface Repeatable {
  /** Of its answer. */
  readonly copy: AnswerCopy;
}

/** What a call means and where it goes, before anybody has said by which connector. */
export interface WireCall extends CallDestination {
  readonly stream: boolean;
  readonly model: string | undefined;
}

/**
 * The connector of a call, and all that follows from it. One function settles it (route/settle-route.ts), and settles
 * it anew when policy has changed something.
 */
export interface CallRoute extends WireCall {
  readonly connectorId: string;
  /** Connectors that could take the call. */
  readonly candidates: readonly string[];
  /**
   * The connector that the caller's own words lead to, so the one that a key which it brings is meant for (decision
   * 6.9).
   */
  readonly meantFor: string;
  /** Stored credentials that may go to this host. */
  readonly credentialCandidates: readonly Credential[];
  /** Undefined: none of ours, and the caller's own headers are nobody's business. */
  readonly credential: CredentialAnswer | undefined;
  readonly credentialId: string | undefined;
  /** Of its own model. */
  readonly price: Price | undefined;
  /** Of the whole call: what it names beside that is part of it. */
  readonly estimate: Estimate | undefined;
  /** The models that it names beside its own; undefined: none. */
  readonly named: NamedModels | undefined;
}

/** What was in force when the request came to be judged. */
export interface PolicySnapshot {
  readonly active: ActivePolicy;
}

/** What policy said. */
export interface Judgement {
  /** That the request was asked of. */
  readonly active: ActivePolicy;
  readonly verdict: Verdict;
  /** What the second bundle would have decided. */
  readonly shadow: ShadowTrace | undefined;
  /** What the policy's rules saw of the request, for its record. */
  readonly observed: Readonly<Record<string, unknown>>;
  /** How unusual the request is for its caller; undefined where requests are not scored. */
  readonly risk: Risk | undefined;
}

/** What policy changed of a call that it let through. */
export interface CallMutation extends ReplacedModel {
  readonly decision: Extract<Decision, 'allow' | 'downgrade'>;
  /** In order; empty when nothing changed. */
  readonly changes: readonly AppliedChange[];
  readonly call: WireCall;
  /** Rules that ask about the final choice, next to those of `approving`; undefined: there are none. */
  readonly choiceAsks: readonly AskedByRule[] | undefined;
}

/** The head that is sent, with the key in it. */
export interface Dressed {
  readonly path: string;
  /**
   * Parameter of the query that carries the key, as it is sent behind those of the path: kept apart, so that no record
   * and no line of the log holds it.
   */
  readonly query: string | undefined;
  readonly headers: readonly string[];
  /** The caller's own Authorization goes ahead of a stored credential. */
  readonly oauthPassthrough: boolean;
  /**
   * The lower-case names of the headers that the signature of the caller covers; undefined: the call is not signed, or
   * the signature gives way to a key of ours.
   */
  readonly signed: readonly string[] | undefined;
}

/** The body that is sent. */
export interface Outgoing {
  readonly headers: readonly string[];
  readonly bytes: Uint8Array | undefined;
  /** The gateway asked for the stream's usage, the caller did not: what comes of that is kept from the caller. */
  readonly hidesUsage: boolean;
}

/** A call that is about to be forwarded, or answered. */
export interface IntendedCall {
  readonly hold: Hold;
  readonly route: CallRoute;
  /** The record of the call as it stands. */
  draft(): UnhashedRecord;
}

/**
 * What the carrying of an answer needs to know of its call. Nothing of its body: that is let go of when the call is
 * sent.
 */
export interface ForwardedCall extends IntendedCall {
  readonly arrival: Arrived;
  readonly claims: Claims;
  readonly judgement: Judgement;
  readonly mutation: CallMutation;
  /** Whose share of the buffers the answer is counted in. */
  readonly client: string;
  /** The gateway asked for the stream's usage, the caller did not: what comes of that is kept from the caller. */
  readonly hidesUsage: boolean;
  /** Kept for those that come with its idempotency key later. */
  readonly copy: AnswerCopy | undefined;
  /** It asks for a response that is made after its answer. */
  readonly deferring: boolean;
}

export interface Answered {
  /** What is kept of the call while it is answered. */
  readonly call: ForwardedCall;
  readonly delivery: Delivered;
  /** Resolves when nothing more will come of it. */
  readonly over: Promise<undefined>;
  /** Set for a call that asks for a WebSocket. */
  readonly handshake: Handshake | undefined;
}

/** What a socket has said of a call. */
export interface OnSocket {
  readonly answer: SocketAnswer;
}

/** What the call used. */
export interface Used {
  readonly usage: Usage | undefined;
  /** Some of it is the gateway's own count, because the provider's never came. */
  readonly approximated: boolean;
  /** That the answer names. */
  readonly model: string | undefined;
}

export interface Parts {
  readonly arrival: Arrived;
  readonly claims: Claims;
  readonly target: Target;
  readonly proof: Proof;
  readonly caller: Caller;
  readonly intake: Intake;
  readonly received: Received;
  readonly action: ReceivedAction;
  /** As it was received. */
  readonly content: Content;
  readonly snapshot: PolicySnapshot;
  /** Undefined for a call without a delegation token. */
  readonly delegated: Delegation | undefined;
  /** Undefined for a call without an idempotency key. */
  readonly repeatable: Repeatable | undefined;
  /** What policy is asked about. */
  readonly offer: CallRoute;
  readonly asked: Content;
  readonly facts: Facts;
  readonly judgement: Judgement;
  readonly approving: Approving;
  /** Who is charged: of the caller, completed by its workload and, where the call goes on, by policy and its org. */
  readonly attribution: Attribution;
  readonly mutation: CallMutation;
  /** What is sent, after mutations. */
  readonly mutated: Content;
  /** The final one, with the connector and the credential that policy selected. */
  readonly route: CallRoute;
  readonly dressed: Dressed;
  readonly cleared: Cleared;
  readonly hold: Hold;
  /** Of a call on a socket: the client's event as it goes on. */
  readonly outgoing: Outgoing;
  readonly answer: Answered;
  /** Of a WebSocket, by its upstream; then it stands in the place of an answer. */
  readonly acceptance: Delivered | undefined;
  /** Of a call on a socket. */
  readonly onSocket: OnSocket;
  readonly used: Used;
}

export type PartName = keyof Parts;

/**
 * Parts that are several times as large as the bytes of a body: they are let go of when the call is on its way, which
 * may take an hour.
 */
export const LET_GO = ['received', 'action', 'content', 'asked', 'facts', 'mutated'] as const satisfies readonly PartName[];

/** As far as a call has come. */
export type Known = { readonly [Name in PartName]?: Parts[Name] | undefined } & Pick<Parts, 'arrival'>;
