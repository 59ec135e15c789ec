/*
 * The table of in-process events: what happens in the gateway, and what is told of it. Events of a request are emitted
 * after its last byte, so that no listener can slow a caller down.
 */

import type { TrafficClass } from '../model/action-request.ts';
import type { Approval } from '../model/approval.ts';
import type { AuditEntry } from '../model/audit-entry.ts';
import type { BudgetAlert } from '../model/budget-limit.ts';
import type { ChatPlatform } from '../model/chat-user.ts';
import type { ExecutionRecord } from '../model/execution-record.ts';
import type { QuarantineEntry } from '../model/quarantine-entry.ts';
import type { Decision } from '../model/reason-codes.ts';
import type { RiskAlert } from '../model/risk-alert.ts';
import type { TracedCall } from './traced-call.ts';
import type { UnrecordedEvent } from './unrecorded.ts';

/** One request has been answered and, when it had one, its record is stored. */
export interface ExecutionEvent {
  readonly record: ExecutionRecord;
  /** From the complete head to the last byte, milliseconds. */
  readonly durationMs: number;
  /** From the sent request to the first byte of the body of its answer, milliseconds. */
  readonly firstByteMs?: number | undefined;
  /** The record was cut, because its org has had too many long ones of refused calls (decision 7.11). */
  readonly shortened?: true | undefined;
}

/**
 * How a response ended that was made after the answer to its call: with a usage, without one, or unknown because nobody
 * asked.
 */
export type UsageOutcome = 'reported' | 'unreported' | 'assumed';

/** What such a response cost is recorded. */
export interface UsageSettledEvent {
  /** Of tier `usage`. */
  readonly record: ExecutionRecord;
  readonly outcome: UsageOutcome;
}

/** Authentication failed before policy (specification, "Authentication" 3). */
export interface AuthFailureEvent {
  /** `X-GW-Request-ID` of its answer. */
  readonly requestId: string;
  readonly reason: 'missing_header' | 'invalid_key' | 'revoked' | 'expired' | 'suspended';
  readonly orgId: string;
  /** What was asked for: management, metrics, the proxy (any proxied door), or the structured API. */
  readonly surface: 'admin' | 'metrics' | 'proxy' | 'api' | 'management' | 'mcp' | 'console';
  /** Address of the caller, without port. */
  readonly callerIp: string;
  /** As {@link requestLine} gives it. */
  readonly request: string;
  /** The workload that the caller named, whether or not there is one; cut as {@link shown} does. */
  readonly workloadId?: string | undefined;
}

/** Where an API key was found: in memory, in the store, or nowhere. */
export type KeyLookup = 'hit' | 'fallback' | 'miss';

/**
 * What became of a delegation token that was shown: its signatures had been verified lately, were verified, or nobody
 * believes it.
 */
export type DelegationShown = 'hit' | 'verified' | 'refused';

/**
 * How a client shows that it does not take our certificate: it says so, or leaves without a word as soon as the
 * handshake is complete.
 */
export type RejectionSignal = 'alert' | 'silent_close';

/**
 * A client did not take the certificate that was made for an intercepted host: it may pin the real one (decision 3.10).
 */
export interface HandshakeRejectedEvent {
  readonly host: string;
  readonly signal: RejectionSignal;
}

/** A WebSocket that is passed on as bytes, or one whose calls are judged and metered. */
export type WebSocketKind = 'relayed' | 'metered';

/** A policy bundle was read, and taken or refused. */
export interface PolicyLoadEvent {
  readonly bundle: 'active' | 'shadow';
  readonly trigger: 'start' | 'put' | 'reload' | 'watch' | 'control_plane';
  readonly result: 'loaded' | 'refused';
}

/** Why a bundle that the control plane gave, or that was kept of it, did not come into force (decision 13.9). */
export const BUNDLE_FAULTS = [
  'malformed',
  'other_org',
  'unknown_key',
  'bad_signature',
  'rollback',
  'sequence_reused',
  'invalid_policy',
] as const;
export type BundleFault = (typeof BUNDLE_FAULTS)[number];

/** Somebody went to a host, by one of the ports. */
export interface HostMet {
  readonly host: string;
  /** Address of the client. */
  readonly from?: string | undefined;
  readonly trafficClass: TrafficClass;
  /** Whose traffic it counts as. */
  readonly orgId: string;
  readonly workloadId: string;
}

export interface CallSeen {
  readonly host: string;
  /** Id of a dialect. */
  readonly like: string;
}

/**
 * What came of a click on a button in a chat. `unsigned`: it is not proven to be of the chat. `unbound`: of somebody
 * who has not said yet who he is. `refused`: he may not. `late`: it did not wait any more. `ignored`: of no button of
 * ours.
 */
export const CLICK_OUTCOMES = ['decided', 'unsigned', 'unbound', 'refused', 'late', 'ignored'] as const;

export interface ChatClick {
  readonly platform: ChatPlatform;
  readonly outcome: (typeof CLICK_OUTCOMES)[number];
}

/** What each event says. */
export interface EventPayloads {
  execution: ExecutionEvent;
  /** The record that was not stored. */
  summed: Pick<ExecutionEvent, 'durationMs' | 'record'>;
  traced: TracedCall;
  usageSettled: UsageSettledEvent;
  /** The org. */
  replayed: string;
  budgetAlert: BudgetAlert;
  authFailure: AuthFailureEvent;
  apiKeyLookup: KeyLookup;
  delegationShown: DelegationShown;
  audit: AuditEntry;
  quarantine: QuarantineEntry;
  approval: Approval;
  approvalStep: Approval;
  chatClick: ChatClick;
  riskAlert: RiskAlert;
  riskNotice: RiskAlert;
  /** The id of the entry. */
  callerHeld: string;
  /** The id of the stop. */
  callsStopped: string;
  unrecorded: UnrecordedEvent;
  connected: HostMet;
  passed: HostMet;
  lookedLike: CallSeen;
  tunnelClosed: { readonly bytesUp: number; readonly bytesDown: number };
  handshakeRejected: HandshakeRejectedEvent;
  policyLoad: PolicyLoadEvent;
  bundleRejected: BundleFault;
  /** Seconds. */
  configSynced: number;
  /** `failed`: the shadow bundle gave no decision. */
  shadowDecision: { readonly active: Decision; readonly shadow: Decision | 'failed' };
  /** The host. */
  clientCertificateWanted: string;
  webSocketOpened: WebSocketKind;
  webSocketClosed: WebSocketKind;
  /** From the client (`up`) or the server (`down`). */
  webSocketMessage: 'up' | 'down';
  /** Milliseconds since the epoch. */
  clockBelieved: number;
}

export type EventName = keyof EventPayloads;

interface EventRow {
  /** When it is emitted. */
  readonly meaning: string;
  /** What it says. */
  readonly says: string;
}

/** The events, for people; the reference page is made of it. */
export const EVENTS: { readonly [N in EventName]: EventRow } = {
  execution: { meaning: 'A request has been answered and its record is stored.', says: 'the record; how long it took' },
  summed: {
    meaning:
      'A caller who has shown nothing was refused and has no record of its own: one that is stored within a minute counts the call (`GW_STRANGER_RECORDS`).',
    says: 'the record that it would have had; how long it took',
  },
  traced: {
    meaning: 'A call whose spans are sent has ended; nobody tells of it where no traces are sent.',
    says: 'the record, when there is one; its spans; the moments at which the provider was asked and has answered',
  },
  usageSettled: {
    meaning: 'What a response cost is recorded that was made after the answer to its call.',
    says: 'the record, of tier `usage`; whether its usage was reported',
  },
  replayed: { meaning: 'An earlier answer was given again for an idempotency key.', says: 'the org' },
  budgetAlert: {
    meaning: 'A budget reached a threshold, once per period and level; the records that reached it are stored.',
    says: 'the limit, the level, the first day of the period, what is spent',
  },
  authFailure: { meaning: 'Authentication failed before policy.', says: 'why, the org, where, by whom, the request line' },
  apiKeyLookup: { meaning: 'An API key that was shown was looked up.', says: 'whether it was found in memory, in the store, or nowhere' },
  delegationShown: {
    meaning: 'A delegation token was shown, and its signatures were looked at. Whether it may be used here is asked behind that.',
    says: 'whether it was known, was verified, or is not believed',
  },
  approval: {
    meaning: 'A request waits for an approval, or one was approved, denied or has expired, and that is stored.',
    says: 'the approval',
  },
  approvalStep: {
    meaning: 'One of several persons has said yes of a request that waits still, and that is stored.',
    says: 'the approval',
  },
  chatClick: {
    meaning: 'Something came in the name of a chat for the buttons of its messages.',
    says: 'of which product, and what came of it',
  },
  quarantine: { meaning: 'Policy has put a caller into quarantine, or a person has released it, and that is stored.', says: 'the entry' },
  riskAlert: {
    meaning: 'The risk score of a request has reached `GW_RISK_ALERT_THRESHOLD`; before policy decides.',
    says: 'the score, the signals, requests and dollars a minute, the caller, the id of the record to come',
  },
  riskNotice: {
    meaning:
      'The same, when people are to be told: of a caller once in five minutes, and at once when the score is higher by 0.1 or another signal joins.',
    says: 'the same',
  },
  callerHeld: {
    meaning: 'Somebody is in quarantine from now on, by whichever writer of the store; perhaps nothing is stored yet.',
    says: 'the id of the entry',
  },
  callsStopped: {
    meaning: 'Calls are stopped from now on, by whichever writer of the store: what is under way of them ends.',
    says: 'the id of the stop',
  },
  audit: { meaning: 'Somebody has changed something of the gateway, and that is stored.', says: 'the entry of the audit trail' },
  unrecorded: { meaning: 'A request ended without a record.', says: 'the error code, by whom, the request line' },
  connected: { meaning: 'A CONNECT whose caller was let in named a host.', says: 'the host; by which port' },
  passed: {
    meaning: 'A request to a host that is no AI host was passed on, seen and not kept.',
    says: 'the host; by which port',
  },
  lookedLike: {
    meaning: 'A request that was passed on looked like an AI call, by its path and the names in its body (`GW_PROXY_NON_AI=inspect`).',
    says: 'the host, the wire format',
  },
  tunnelClosed: { meaning: 'A tunnel that was passed through unopened has ended.', says: 'the bytes each way' },
  handshakeRejected: {
    meaning: 'A client did not take the certificate that was made for an intercepted host.',
    says: 'the host, and how the client showed it',
  },
  policyLoad: { meaning: 'A policy bundle was read, and taken or refused.', says: 'which bundle, what made it load, the result' },
  bundleRejected: { meaning: 'A bundle of the control plane was not taken; the running one stays.', says: 'why' },
  configSynced: {
    meaning: 'What an update of the control plane named is in force (managed mode).',
    says: 'the seconds since it happened there',
  },
  shadowDecision: { meaning: 'The shadow bundle was asked about a request.', says: 'what it would have decided, and what was decided' },
  clientCertificateWanted: { meaning: 'An upstream refused the gateway because it wants a client certificate.', says: 'the host' },
  webSocketOpened: { meaning: 'A WebSocket was accepted on both sides.', says: 'whether its calls are metered' },
  webSocketClosed: { meaning: 'A WebSocket that was accepted has ended.', says: 'whether its calls were metered' },
  webSocketMessage: { meaning: 'A whole message, no control frame, passed a metered WebSocket.', says: 'the direction' },
  clockBelieved: { meaning: 'What is removed for its age may go again, after the clock was in doubt.', says: 'the time of day' },
};
