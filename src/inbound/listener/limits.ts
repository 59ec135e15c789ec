import { CONNECTION_BOUNDS } from '../../base/model/traffic-bounds.ts';

/** What one client may hold, and for how long. Durations are milliseconds. */
export interface ListenerLimits {
  /** Open CONNECTs, intercepted and blind together, and WebSockets (`GW_MAX_TUNNELS`). */
  readonly maxTunnels: number;
  /** Connections, with those of tunnels. */
  readonly maxConnections: number;
  /** HTTP calls under way, on all connections. */
  readonly maxCalls: number;
  /** Bytes of answers that clients have not taken, on all connections; of one address half of them. */
  readonly maxUnreadBytes: number;
  /** The same of one h2 connection: above it further streams are refused. */
  readonly maxSessionUnreadBytes: number;
  /** How long a client may take next to nothing of what waits for him. */
  readonly unreadMs: number;
  /** From the 200 of a CONNECT to the end of the TLS handshake, or to the first byte of plain HTTP. */
  readonly handshakeMs: number;
  /**
   * A client that leaves this soon after its handshake without having said anything did not take our certificate; later
   * it was a spare connection.
   */
  readonly silentCloseMs: number;
  /** How long such a close waits for a sign that its client does take our certificate. */
  readonly silenceHeldMs: number;
  /** In a passed tunnel: how long the first bytes of a ClientHello wait for the rest of it. */
  readonly helloMs: number;
  /** For a whole request head. */
  readonly headersMs: number;
  /** For a whole request with its body, unless the body passes through while it arrives. */
  readonly requestMs: number;
  /**
   * A body that passes through may take as long as it needs, but the client may not fall silent for longer than this.
   */
  readonly bodyIdleMs: number;
  /** A connection without requests is closed after this long. */
  readonly keepAliveMs: number;
  /** Of a request head, in h2 decoded. */
  readonly maxHeaderBytes: number;
  /** Of the heads and trailers of all open streams of one h2 connection, decoded. */
  readonly maxSessionHeaderBytes: number;
  readonly maxHeaderFields: number;
  /** Concurrent streams of one h2 connection. */
  readonly maxStreams: number;
  /**
   * Pipelined requests of one HTTP/1.1 connection that may wait for their turn; their heads together may be as long as
   * one may be.
   */
  readonly maxPipelined: number;
  /** A request body that nobody wants and that says to be no larger is skipped, and its connection used again. */
  readonly maxDiscardedBytes: number;
  /**
   * Of a larger one: read and thrown away so that the answer arrives, before the connection is closed. What follows
   * waits for that.
   */
  readonly maxLingerBytes: number;
  /**
   * How long a client that may still be writing, or whose CONNECT or WebSocket was refused, may take to read its last
   * answer.
   */
  readonly lingerMs: number;
  /** A tunnel of which one direction has ended is closed when the other stays silent for this long. */
  readonly halfOpenMs: number;
  /** When draining begins: how long a connection without any request may still bring one. */
  readonly firstRequestMs: number;
  /** While draining, a tunnel without traffic for this long counts as idle. */
  readonly idleTunnelMs: number;
  /** How often deadlines, and connections that nobody reads, are looked at. */
  readonly sweepMs: number;
}

export const DEFAULT_LIMITS: ListenerLimits = {
  maxTunnels: 10_000,
  maxConnections: 20_000,
  maxCalls: 10_000,
  maxUnreadBytes: 134_217_728,
  maxSessionUnreadBytes: CONNECTION_BOUNDS.unreadOfSession.one,
  unreadMs: CONNECTION_BOUNDS.unreadFor.one,
  handshakeMs: 10_000,
  silentCloseMs: 2_000,
  silenceHeldMs: 5_000,
  helloMs: 3_000,
  headersMs: 30_000,
  requestMs: 300_000,
  bodyIdleMs: 60_000,
  keepAliveMs: 75_000,
  maxHeaderBytes: 65_536,
  maxSessionHeaderBytes: 1_048_576,
  maxHeaderFields: 500,
  maxStreams: CONNECTION_BOUNDS.streams.one,
  maxPipelined: CONNECTION_BOUNDS.pipelined.one,
  maxDiscardedBytes: 262_144,
  maxLingerBytes: 33_554_432,
  lingerMs: 2_000,
  halfOpenMs: 120_000,
  firstRequestMs: 250,
  idleTunnelMs: 2_000,
  sweepMs: 250,
};

/** How often node:http looks at the deadlines of heads and bodies, milliseconds. */
export function deadlineCheckMs({ headersMs }: ListenerLimits): number {
  return Math.min(headersMs, 5_000);
}
