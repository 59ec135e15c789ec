/*
 * What a line asks of the services. Each is a port: whoever composes the gateway picks what stands behind it, in this
 * process or beside it. State is asked for by org.
 *
 * Verbs that count may return a promise; the line awaits only real ones, so that a service that counts in memory costs
 * no turn. Everything else is a snapshot: what changes while the process runs (policy, catalogue, workloads and their
 * tokens, credentials) is held in memory by its service, and read without waiting.
 */

import type { Catalogue } from '../../base/catalogue/types.ts';
import type { Events } from '../../base/events/bus.ts';
import type { Clock } from '../../base/lib/clock.ts';
import type { GatewayError } from '../../base/lib/gateway-error.ts';
import type { IpSet } from '../../base/lib/ip.ts';
import type { Logger } from '../../base/lib/log.ts';
import type { Maybe } from '../../base/lib/maybe.ts';
import type { TraceParent } from '../../base/lib/trace-context.ts';
import type { Attribution } from '../../base/model/action-request.ts';
import type { Approval } from '../../base/model/approval.ts';
import type { ArrivalHead } from '../../base/model/arrival.ts';
import type { CallTrace } from '../../base/model/call-trace.ts';
import type { ExecutionRecord, ShadowTrace } from '../../base/model/execution-record.ts';
import type { Credential } from '../../base/model/keys.ts';
import type { Workload } from '../../base/model/workload.ts';
import type { Facts } from '../../decide/policy/facts.ts';
import type { Verdict } from '../../decide/policy/verdict.ts';
import type { RiskRequest } from '../../decide/risk/risk-profile.ts';
import type { ActionTypeMap } from '../../decide/routing/choose-connector.ts';
import type { Upstream } from '../../outbound/net/upstream.ts';
import type { UnhashedRecord } from '../../record/canonical-record.ts';
import type { ScoredCall } from '../../services/learning/risks.ts';
import type { Allowance } from '../../services/money/allowance.ts';
import type { Deferral, DeferredCall, EndedResponse } from '../../services/money/deferred-usage.ts';
import type { KeptCall } from '../../services/money/idempotency.ts';
import type { KeptRecord } from '../../services/money/late-records.ts';
import type { ApiKeyVerdict } from '../../services/people/api-keys.ts';
import type { CallerVerdict, Failure, Stranger } from '../../services/people/authenticator.ts';
import type { Delegation } from '../../services/people/delegations.ts';
import type { ActivePolicy } from '../../services/policy/active-policy.ts';
import type { ShareCaller } from '../../services/registers/sharers.ts';
import type { ApprovalAnswer, ApprovalRequest, ApprovalTurn } from '../../services/review/approvals.ts';
import type { HeldCall, HoldEnd } from '../../services/review/held-calls.ts';
import type { Held, MadeEntry, QuarantineCaller } from '../../services/review/quarantines.ts';
import type { CallUnderWay } from '../../services/review/running-calls.ts';
import type { StoppableCall, StopTold } from '../../services/review/stops.ts';
import type { Effect, Store } from '../../storage/contract/store.ts';
import type { BufferBudget } from '../body/buffer-budget.ts';
import type { LineName } from './line-name.ts';

export interface PipelineSettings {
  readonly nodeId: string;
  /** The gateway's org (decision 4.1); undefined in free mode. */
  readonly orgId: string | undefined;
  readonly maxBodyBytes: number;
  readonly adminToken: string;
  readonly trustedProxies: IpSet;
  /** Connectors whose callers' own Authorization goes ahead of a stored credential. */
  readonly oauthPassthrough: ReadonlySet<string>;
  /** Connectors that take the structured calls of an action type. */
  readonly actionTypes: ActionTypeMap;
  /** Cached input tokens have their own rate (decision 6.3). */
  readonly pricingCached: boolean;
  /**
   * Which streams are asked for the usage that they report on request only: those that a cap or a budget limit watches,
   * all, or none (decision 6.4).
   */
  readonly injectUsage: 'capped' | 'true' | 'false';
  /** Streams end where they would pass a cap. */
  readonly stopAtCap: boolean;
}

/** The bundle in force. */
export interface Policies {
  /** Of an org whose policy was let go of when it is there again. */
  ready(orgId: string): Maybe<ActivePolicy>;
}

/** The second bundle, which is asked and never obeyed. */
export interface Shadow {
  judge(facts: Facts, active: Verdict): ShadowTrace | undefined;
  /** Whether a rule of it reads `context.risk`. */
  readonly readsRisk: boolean;
}

export interface Workloads {
  /** Of proxied traffic that names none. */
  defaultWorkloadId(orgId: string): string;
  /** What counts where neither caller, workload nor policy says it. */
  defaultAttribution(orgId: string): Attribution | undefined;
  /** A workload that this org may use. */
  get(orgId: string, workloadId: string): Workload | undefined;
  /** The only org that has one of this id. */
  onlyOrgOf(workloadId: string): string | undefined;
}

export interface Projects {
  /** True when nothing may be charged to it. */
  isArchived(orgId: string, projectId: string | undefined): boolean;
}

export interface Orgs {
  /** False when nobody of this org is served. */
  isActive(orgId: string): boolean;
  /** @param end called once when `isBarred` has become true, perhaps at once @returns what ends the watch */
  watch(isBarred: () => boolean, end: () => void): () => void;
}

/** The control plane, as a request meets it. */
export interface ControlPlaneNews {
  /** True when nobody is to be served: it was not reached for too long, and the org is strict about that. */
  readonly barsAll: boolean;
  /** A request has come: asks for news where there were none lately. */
  awaken(): void;
  /** Somebody was denied for the state of his org: asks whether that still holds. */
  checkInSoon(): void;
}

/** What callers show to be let in. */
export interface Authentication {
  /** What was shown for the workload that a caller names. @param required false: another was shown before */
  caller(orgId: string, workloadId: string | undefined, presented: string | undefined, required?: boolean): CallerVerdict;
  /** What the head of a structured call shows. @throws GatewayError `unauthorized` */
  stranger(head: ArrivalHead): Maybe<Stranger>;
  /** Judges an API key. @param from address of the caller @throws GatewayError `key_lookup_failed` */
  apiKey(presented: string, from: string): Maybe<ApiKeyVerdict>;
  /** Whether every caller must show one. */
  readonly needsApiKey: boolean;
  /** The workload whose token this is. */
  holderOf(token: string): Workload | undefined;
  /** Tells of somebody who was not let in, and counts him. */
  failed(failure: Failure): void;
}

export interface Credentials {
  isStored(orgId: string, credentialId: string): boolean;
  /** Those of a connector that this org may use here. */
  usable(orgId: string, connectorId: string): readonly Credential[];
  secretOf(orgId: string, credentialId: string): string | undefined;
}

/** The totals that every record adds to. */
export interface RecordTotals {
  /** To be committed with the record. */
  effects(record: ExecutionRecord): readonly Effect[];
}

/**
 * Who keeps the records of refused calls within bounds: whether those of callers are written who have shown nothing,
 * and whether those of an org's are whole (decision 7.11).
 */
export interface RecordsOfStrangers {
  mayRecord(callerIp: string, bytes: number): boolean;
  mayBeLong(orgId: string, bytes: number): boolean;
  sum(record: ExecutionRecord, durationMs: number): void;
}

/** Responses that go on after the answers to their calls. */
export interface DeferredResponses {
  begin(host: string, responseId: string, createdAt: number): DeferredCall | undefined;
  effect(record: ExecutionRecord, deferral: Deferral): Effect;
  /** The record of the call is stored. @param grant what stays set aside until the response has ended */
  hold(call: DeferredCall, grant: string, completedAt: number, orgId: string): Maybe<void>;
  /** Somebody was told that a response has ended. @throws GatewayError `record_store_unavailable` */
  end(ended: EndedResponse): Promise<void>;
}

/** Answers of calls with an idempotency key. */
export interface Idempotency {
  find(orgId: string, key: string): Promise<KeptCall | undefined>;
  result(orgId: string, key: string): Promise<Buffer | undefined>;
  keep(who: ShareCaller, key: string, call: Omit<KeptCall, 'expires_at'>, result: Uint8Array | undefined): readonly Effect[];
  forget(orgId: string, key: string): void;
}

/** Records of calls under way, for when nothing else is ever heard of them. */
export interface CallIntents {
  write(record: UnhashedRecord): Promise<void>;
  grow(record: UnhashedRecord): void;
  settlement(recordId: string): Effect;
  remove(recordId: string): void;
}

/** Records that could not be stored when their calls ended. */
export interface UnstoredRecords {
  /** @param started the client has the head of the answer; else it is told of the failure */
  keep(record: ExecutionRecord, kept: KeptRecord, started: boolean): void;
}

/** What callers may do for somebody else. */
export interface Delegations {
  /** @throws DelegationError */
  verify(token: string): Delegation;
  isRevoked(delegation: Delegation): boolean;
}

/** Whom policy has put aside. */
export interface Quarantines {
  /** How many entries hold somebody. */
  readonly active: number;
  /** What somebody is told who is held. */
  holding(caller: QuarantineCaller): Held | undefined;
  /** Holds somebody from now on. @returns what is to be stored with the record; undefined when he is held already */
  hold(caller: QuarantineCaller, told: Held): MadeEntry | undefined;
}

/** Requests that wait for a person, and what persons have given. */
export interface Approvals {
  /** Those that can be used for a request, the newest first. */
  usable(orgId: string, requestHash: string): Promise<readonly Approval[]>;
  /** How long a call waits on its open connection where no rule says so, milliseconds; 0: not at all. */
  readonly holdMs: number;
  /**
   * What becomes of a request that needs one.
   * @param heldUntil until when its call is to wait on its open connection, epoch milliseconds
   * @throws GatewayError `record_store_unavailable`
   */
  ask(request: ApprovalRequest, heldUntil?: number): Promise<ApprovalAnswer>;
  /** Has a call wait for one on its open connection. */
  hold(approval: Approval, call: HeldCall): Promise<HoldEnd>;
  /** The caller of a request that waits is told to come again. @throws GatewayError `record_store_unavailable` */
  promise(approval: Pick<Approval, 'approval_id'>): Promise<void>;
  /** Whose turn it is of calls that have waited for them here. */
  takeTurn(approvals: readonly Approval[]): ApprovalTurn;
  /** Spends all of them, or none. @returns false when another was first */
  claim(approvals: readonly Approval[], recordId: string): Promise<boolean>;
  /** To be committed with the record of a call that was not executed. */
  giveBack(approvals: readonly Approval[]): readonly Effect[];
  /** The same of a call that leaves no record. */
  restore(approvals: readonly Approval[]): void;
}

/** How unusual requests are for their callers. */
export interface Risks {
  /** Whether requests are scored: always, never, or where the policy asks for it. */
  readonly scores: boolean | 'where asked';
  /** Scores a request, and tells of a score that is worth an alert. */
  score(caller: QuarantineCaller, recordId: string, request: RiskRequest): Maybe<ScoredCall>;
}

/** Calls that people have stopped. */
export interface Stops {
  /** Whether any stop stands. */
  readonly any: boolean;
  /** The stop that holds a call. */
  holding(call: StoppableCall): StopTold | undefined;
}

/** Calls that are ended when they are stopped, or their caller is put into quarantine. */
export interface CallsUnderWay {
  /**
   * @param end called at most once, perhaps at once, with what the call ends with
   * @returns what ends the watch
   */
  watch(call: CallUnderWay, end: (why: GatewayError) => void): () => void;
}

/** Gives calls their place in a trace. */
export interface Tracing {
  /** @param state valid, like `parent` */
  begin(parent: TraceParent | undefined, state: string | undefined): CallTrace;
  /** Of a call on a WebSocket. */
  inside(handshake: CallTrace): CallTrace;
}

/** The services that a call asks. */
export interface CallServices {
  readonly authenticator: Authentication;
  readonly policies: Policies;
  readonly workloads: Workloads;
  readonly orgs: Orgs;
  /** Undefined without a control plane. */
  readonly controlPlane: ControlPlaneNews | undefined;
  readonly projects: Projects;
  readonly allowance: Allowance;
  readonly credentials: Credentials;
  readonly counters: RecordTotals;
  readonly strangers: RecordsOfStrangers;
  readonly deferred: DeferredResponses;
  readonly idempotency: Idempotency;
  readonly intents: CallIntents;
  readonly lateRecords: UnstoredRecords;
  /** Undefined when `GW_APPROVAL_ENABLED=false`. */
  readonly approvals: Approvals | undefined;
  /** Where callers reach this gateway's own routes: an origin. */
  readonly place: { readonly forCallers: string };
  readonly delegations: Delegations;
  readonly quarantines: Quarantines;
  readonly risks: Risks;
  readonly stops: Stops;
  readonly running: CallsUnderWay;
}

/** What a line stands on. */
export interface Pipeline extends CallServices {
  readonly settings: PipelineSettings;
  readonly clock: Clock;
  readonly log: Logger;
  /** Providers, operations and prices; each call takes it once. */
  readonly catalogues: { current(): Catalogue };
  /** Undefined when there is no second bundle. */
  readonly shadow: Shadow | undefined;
  /** To look at: what a stage leaves to be stored is a settlement's. */
  readonly store: Pick<Store, 'writable' | 'recordById'>;
  readonly upstream: Upstream;
  readonly buffers: BufferBudget;
  readonly events: Events;
  /** Undefined where no traces are sent. */
  readonly tracing: Tracing | undefined;
  /** Who is told what passed requests look like; undefined where they are not looked at. */
  readonly lookers: Lookers | undefined;
  /** Who is told what each stage took; undefined where nobody asks, and no stage is timed. */
  readonly tellStage: ((time: StageTime) => void) | undefined;
}

/** Those who keep what AI calls a host has had (decision 12.3). */
export interface Lookers {
  /** Whether a call of a host has shown already what it looks like: then no further one is looked at. */
  knowsLook(host: string): boolean;
}

/** What one stage of a call took, and how it ended. */
export interface StageTime {
  /** Of the call; one that leaves no record has none by this id. */
  readonly recordId: string;
  readonly line: LineName;
  readonly stage: string;
  /** With what it waited for. */
  readonly microseconds: number;
  /** `next`: the line goes on; `answered`: the stage has answered by itself; else the decision or the error code. */
  readonly ended: string;
  /** Of a refusal. */
  readonly reasonCodes?: readonly string[] | undefined;
}

/** What a line stands on, with the store that its runner alone commits to. */
export interface LineGround extends Pipeline {
  readonly store: Store;
}
