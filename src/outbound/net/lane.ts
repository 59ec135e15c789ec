import type { Socket } from 'node:net';
import type { Authority } from '../../base/model/arrival.ts';
import type { CallInLane, CallLane } from './call-in-lane.ts';
import type { ParentProxy } from './parent-proxy.ts';

/** One connection to an origin, which serves one call at a time. */
export interface Lane extends CallLane {
  /** The call that it serves. */
  readonly call: CallInLane | undefined;
  /** Monotonic milliseconds from which on it may not be given a call; undefined: the lane itself sees to that. */
  readonly expiresAt: number | undefined;
  /** Serves `call`: connects where that is needed, sends once, and tells the call. Nothing is told before this returns. */
  run(call: CallInLane): void;
  /** Closes the connection and tells nobody. */
  close(): Promise<void>;
}

/** What a lane tells its origin. */
export interface LaneOwner {
  /** The lane's call is over; `reusable`: its connection is whole. */
  free(lane: Lane, reusable: boolean): void;
  /** The lane's connection is gone. */
  disconnected(lane: Lane): void;
}

/** What every lane of one origin is made with. */
export interface LaneOptions {
  readonly authority: Authority;
  readonly tls: boolean;
  /** Takes the requests in absolute form. */
  readonly parent: ParentProxy | undefined;
  /** Makes a connection, TLS included; rejects with a GatewayError. */
  readonly connect: () => Promise<Socket>;
}

/** Makes a lane that has no connection yet. */
export type OpenLane = (owner: LaneOwner, options: LaneOptions) => Lane;

/** Idle connections are closed after that long; the upstream's `Keep-Alive: timeout=` comes first, less a margin for what is under way. */
export const KEEP_ALIVE_MS = 30_000;
export const KEEP_ALIVE_MAX_MS = 60_000;
export const KEEP_ALIVE_MARGIN_MS = 1_000;
/** Of an answer's head. */
export const MAX_HEADER_BYTES = 65_536;
