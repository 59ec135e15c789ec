/*
 * The link: how a gateway stands to its control plane. One channel carries everything; whoever gets an answer on it
 * learns of the org's state and of what is stale, and each remote resource is fetched, checked, stored and put into
 * force by one object of its own.
 */
import type { ControlPlaneCalls, OrgState, Stale, Update, UpdatesRequest } from '../control-plane/proto/messages.ts';

/** What there is to fetch. */
export type RemoteName = keyof Stale;

/**
 * The way to the control plane. What an answer says of the org and of what is stale is taken in before it is handed on.
 */
export interface Channel {
  /** @throws ProtocolError; every call has a deadline */
  call<K extends Exclude<keyof ControlPlaneCalls & string, 'StreamUpdates'>>(
    name: K,
    request: ControlPlaneCalls[K]['request'],
  ): Promise<ControlPlaneCalls[K]['response']>;
  /** @throws ProtocolError when it breaks */
  updates(request: UpdatesRequest, signal: AbortSignal): AsyncGenerator<Update, void, undefined>;
}

/**
 * Something that the control plane owns and this gateway has a copy of. Each keeps what it last took durably, in one
 * commit with its version, and serves from that also where nobody answers.
 */
export interface RemoteResource {
  readonly name: RemoteName;
  /** Of what is in force; empty: nothing was ever fetched. */
  version(): string;
  /**
   * Fetches what there is, checks all of it, and only then stores it and puts it into force.
   * @throws Error that says what is wrong with it; then nothing has changed
   */
  fetch(channel: Channel): Promise<void>;
  /** The node was revoked: what it was given in confidence is erased. Absent: there is nothing such. */
  erase?(): Promise<void>;
}

/** How it stands with the control plane now. */
export interface Contact {
  readonly status: 'connected' | 'offline';
  /** Milliseconds since the epoch of the first contact that failed; undefined while connected. */
  readonly offlineSince: number | undefined;
  /** `normal` while connected and within the grace period; then what the org's `cp_down_policy` says. */
  readonly posture: 'normal' | 'permissive' | 'strict';
  /** As last heard; undefined: never. */
  readonly org: OrgState | undefined;
  /** The control plane has said that this node's certificate counts no longer. */
  readonly revoked: boolean;
}

/** What other rooms may ask of the link. */
export interface ControlPlaneLink {
  readonly contact: Contact;
  /**
   * Somebody was denied for the org's state, or wants news: a check-in at once, unless one is under way. Waits for
   * nothing.
   */
  checkInSoon(): void;
}
