import type { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Authority, Dialled } from '../../base/model/arrival.ts';
import type { ByteChannel } from '../../base/model/channel.ts';
import type { ParentProxy } from './parent-proxy.ts';

/** One HTTP call to an upstream. */
export interface UpstreamCall {
  readonly authority: Authority;
  readonly tls: boolean;
  readonly method: string;
  /** Path with query, exactly as it goes on the wire. */
  readonly path: string;
  /** Flat name, value list, already filtered (decision 3.21); the net room adds Host and framing. */
  readonly headers: readonly string[];
  readonly body: Uint8Array | AsyncIterable<Uint8Array> | undefined;
  /**
   * Called once when the net room has let go of a body that was held, because it has left; not of a call that fails
   * before that.
   */
  readonly onBodyGone?: () => void;
  /** Exact length of a streamed body, when known. */
  readonly bodyLength?: number;
  /** Trailers of a streamed body, asked for behind its last byte; they go on where the origin speaks h2. */
  readonly trailers?: () => readonly string[];
  /** The connection of the call's tunnel (decision 3.11); without it the call goes by one that is shared. */
  readonly on?: Dialled | undefined;
  /**
   * Whose call it is, and who sent it: an origin's connections have a share for each (decision 7.12). Without an org it
   * is the gateway's own.
   */
  readonly org?: string;
  readonly client?: string;
  /** True: the egress guard does not apply because the operator named the address himself (decision 8.5). */
  readonly operatorOwn?: boolean;
}

/** What the call tells its caller. Exactly one of `onEnd` and `onError` is called, last. */
export interface UpstreamEvents {
  /** A 1xx other than 101. */
  onInfo?(status: number, rawHeaders: readonly string[]): void;
  /**
   * `rawHeaders`: flat name, value list as received. `resume` continues after `onData` returned false. `empty`: the h2
   * head ends the answer.
   */
  onHead(status: number, rawHeaders: readonly string[], resume: () => void, empty?: boolean): void;
  /** False pauses the upstream until `resume`. */
  onData(chunk: Uint8Array): boolean;
  onEnd(trailers: readonly string[]): void;
  /**
   * `egress_denied`, `upstream_unreachable`, `upstream_tls`, `upstream_timeout` or `upstream_protocol`; where the fault
   * is on this side, `invalid_request` (a header, method or path that cannot be sent), `client_gone` (the streamed body
   * broke off), `overloaded` or `shutting_down`. Never before `call` has returned, never after `abort`. `h2Code`: the
   * error code with which an h2 origin reset the stream.
   */
  onError(error: GatewayError, h2Code?: number): void;
}

/**
 * What the handshake of a WebSocket tells its caller: a refusal is an answer as any other, ended by `onEnd` or
 * `onError`.
 */
export interface UpgradeEvents extends UpstreamEvents {
  /** 101 came, and no other event follows. */
  onUpgrade(rawHeaders: readonly string[], channel: ByteChannel): void;
}

export interface UpstreamHandle {
  /** Stops the call: its connection is closed (h1) within a moment. Idempotent; no event follows. */
  abort(): void;
}

/** The only door out. */
export interface Upstream {
  call(call: UpstreamCall, events: UpstreamEvents): UpstreamHandle;
  /** The handshake of a WebSocket on a connection of its own; `Connection` and `Upgrade` are added. */
  upgrade(call: Omit<UpstreamCall, 'body' | 'bodyLength' | 'method'>, events: UpgradeEvents): UpstreamHandle;
  /** Connects a raw TCP socket through guard, resolver and connect-to table, for tunnels. Rejects as `onError` does. */
  connect(authority: Authority): Promise<import('node:net').Socket>;
  /**
   * Connects over TLS for one tunnel, offering `protocols` (decision 3.11). Never rejects: where no trusted connection
   * could be made, each call on it fails with the reason.
   */
  dial(authority: Authority, protocols: readonly Dialled['protocol'][]): Promise<Dialled>;
  /**
   * Whether a call could be dialled for all that the egress guard says; what only a connection could show is not asked.
   * @throws GatewayError `egress_denied`
   */
  admits(authority: Authority): Promise<void>;
  /**
   * Nothing more goes out: what is under way, but for WebSockets and raw sockets, fails with `shutting_down`.
   * Idempotent.
   */
  close(): Promise<void>;
}

/** Ways out for what is no call, through the same guard and resolver. */
export interface RawWays {
  /** The parent proxy on the way to `authority`, which takes plain HTTP requests in absolute form. */
  parentOf(authority: Authority): ParentProxy | undefined;
  /**
   * A connection for HTTP requests to `authority`: without TLS it leads to the parent proxy where there is one.
   * @throws GatewayError as `onError`
   */
  connectForHttp(authority: Authority, tls: boolean, operatorOwn: boolean): Promise<import('node:net').Socket>;
  /**
   * A TCP connection, over TLS where it is asked for.
   * @throws GatewayError as `onError`
   */
  connect(authority: Authority, how?: { readonly tls?: boolean; readonly operatorOwn?: boolean }): Promise<import('node:net').Socket>;
  /**
   * Where a datagram may go, at least one address.
   * @throws GatewayError `egress_denied`, `upstream_unreachable`, `upstream_timeout`
   */
  addresses(authority: Authority, operatorOwn: boolean): Promise<readonly string[]>;
}
