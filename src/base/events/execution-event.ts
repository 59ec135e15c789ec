/*
 * Typed in-process events: what the request line tells everything that stands around it. An event is published after the last byte of the answer, so
 * no listener can slow a caller down; listeners must not throw.
 */
import type { BudgetAlert } from '../model/budget-limit.ts';
import type { Decision } from '../model/decision.ts';
import type { ExecutionRecord } from '../model/execution-record.ts';
import type { UnrecordedEvent } from './unrecorded.ts';

/** One request has been answered and, when it had one, its record is stored. */
export interface ExecutionEvent {
  readonly record: ExecutionRecord;
  /** From the complete head to the last byte, milliseconds. */
  readonly durationMs: number;
}

/** How a response ended that was made after the answer to its call: with a usage, without one, or unknown because nobody asked. */
export type UsageOutcome = 'reported' | 'unreported' | 'assumed';

/** What such a response cost is recorded. */
export interface UsageSettledEvent {
  /** Of tier `usage`. */
  readonly record: ExecutionRecord;
  readonly outcome: UsageOutcome;
}

/** Authentication failed before policy (specification, "Authentication" 3). */
export interface AuthFailureEvent {
  readonly reason: 'missing_header' | 'invalid_key' | 'revoked' | 'expired' | 'suspended';
  readonly orgId: string;
  /** What was asked for: management, metrics, the proxy (any proxied door), or the structured API. */
  readonly surface: 'admin' | 'metrics' | 'proxy' | 'api';
  /** Address of the caller, without port. */
  readonly callerIp: string;
  /** As {@link requestLine} gives it. */
  readonly request: string;
  /** The workload that the caller named, whether or not there is one; cut as {@link shown} does. */
  readonly workloadId?: string | undefined;
}

/** How a client shows that it does not take our certificate: it says so, or leaves without a word as soon as the handshake is complete. */
export type RejectionSignal = 'alert' | 'silent_close';

/** A client did not take the certificate that was made for an intercepted host: it may pin the real one (decision 3.10). */
export interface HandshakeRejectedEvent {
  readonly host: string;
  readonly signal: RejectionSignal;
}

/** A WebSocket that is passed on as bytes, or one whose calls are judged and metered. */
export type WebSocketKind = 'relayed' | 'metered';

/** A policy bundle was read, and taken or refused. */
export interface PolicyLoadEvent {
  readonly bundle: 'active' | 'shadow';
  readonly trigger: 'start' | 'put' | 'reload' | 'watch';
  readonly result: 'loaded' | 'refused';
}

export interface GatewayEvents {
  execution(event: ExecutionEvent): void;
  usageSettled(event: UsageSettledEvent): void;
  /** An earlier answer was given again for an idempotency key. */
  replayed(orgId: string): void;
  budgetAlert(event: BudgetAlert): void;
  authFailure(event: AuthFailureEvent): void;
  /** A request ended without a record. */
  unrecorded(event: UnrecordedEvent): void;
  /** A CONNECT whose caller was let in named this host. */
  connected(host: string): void;
  /** A request to a host that is no AI host was passed on, seen and not kept. */
  passed(host: string): void;
  /** A tunnel that was passed through unopened has ended. */
  tunnelClosed(bytesUp: number, bytesDown: number): void;
  handshakeRejected(event: HandshakeRejectedEvent): void;
  policyLoad(event: PolicyLoadEvent): void;
  /** What the shadow bundle would have decided where the active one decided `active`. */
  shadowDecision(active: Decision, shadow: Decision | 'failed'): void;
  /** An upstream refused the gateway because it wants a client certificate (decision 3.11). */
  clientCertificateWanted(host: string): void;
  /** A WebSocket was accepted on both sides, and later has ended. */
  webSocketOpened(kind: WebSocketKind): void;
  webSocketClosed(kind: WebSocketKind): void;
  /** A whole message, no control frame, came from the client (`up`) or the server (`down`) of a metered WebSocket. */
  webSocketMessage(direction: 'up' | 'down'): void;
}

/** Fans one stream of events out to every listener. */
export function fanOut(listeners: readonly Partial<GatewayEvents>[]): GatewayEvents {
  return {
    execution(event) {
      for (const listener of listeners) listener.execution?.(event);
    },
    usageSettled(event) {
      for (const listener of listeners) listener.usageSettled?.(event);
    },
    replayed(orgId) {
      for (const listener of listeners) listener.replayed?.(orgId);
    },
    budgetAlert(event) {
      for (const listener of listeners) listener.budgetAlert?.(event);
    },
    authFailure(event) {
      for (const listener of listeners) listener.authFailure?.(event);
    },
    unrecorded(event) {
      for (const listener of listeners) listener.unrecorded?.(event);
    },
    connected(host) {
      for (const listener of listeners) listener.connected?.(host);
    },
    passed(host) {
      for (const listener of listeners) listener.passed?.(host);
    },
    tunnelClosed(up, down) {
      for (const listener of listeners) listener.tunnelClosed?.(up, down);
    },
    handshakeRejected(event) {
      for (const listener of listeners) listener.handshakeRejected?.(event);
    },
    clientCertificateWanted(host) {
      for (const listener of listeners) listener.clientCertificateWanted?.(host);
    },
    webSocketOpened(kind) {
      for (const listener of listeners) listener.webSocketOpened?.(kind);
    },
    webSocketClosed(kind) {
      for (const listener of listeners) listener.webSocketClosed?.(kind);
    },
    webSocketMessage(direction) {
      for (const listener of listeners) listener.webSocketMessage?.(direction);
    },
    policyLoad(event) {
      for (const listener of listeners) listener.policyLoad?.(event);
    },
    shadowDecision(active, shadow) {
      for (const listener of listeners) listener.shadowDecision?.(active, shadow);
    },
  };
}
