import type { TrafficClass } from './action-request.ts';
import type { ByteChannel } from './channel.ts';

/** Host and port as one canonical pair: the host is folded once (decision 3.17), IPv6 literals without brackets. */
export interface Authority {
  readonly host: string;
  readonly port: number;
}

/**
 * The connection to a tunnel's origin that was made before the client's handshake was answered, so that both sides of
 * the tunnel speak the same protocol (decision 3.11). It serves that tunnel alone. Only the net room knows how to send
 * on it.
 */
export interface Dialled {
  /** What the origin chose. */
  readonly protocol: 'h2' | 'http/1.1';
  /**
   * Called once when the origin takes no further requests on it: the tunnel is to end when what is under way is done.
   * One listener.
   */
  onGone(listener: () => void): void;
  /** Stops what is under way on it, and closes it. Idempotent. */
  close(): void;
}

/** What calls of somebody come to at the proxy, as far as what he shows decides it. */
export interface TriedCaller {
  /** None of them would be let in. */
  readonly refused: boolean;
  /** What is wrong, in a sentence; undefined: nothing is. */
  readonly problem: string | undefined;
  /** What he has to have. */
  readonly needs: 'workload_token' | 'api_key' | 'registration' | undefined;
}

/** What a CONNECT settled for every request inside its tunnel. */
export interface Tunnel {
  readonly authority: Authority;
  /** Address of who opened it, by the head of the CONNECT (decision 4.2). Absent: that of the TCP peer. */
  readonly callerIp?: string;
  /**
   * User name and password of the CONNECT's `Proxy-Authorization: Basic`, when it carried one; a workload's token in a
   * header of it stands for the password.
   */
  readonly proxyUser?: string;
  readonly proxyPassword?: string;
  /** Set when the CONNECT authenticated: no other workload may be named inside (decision 4.5). */
  readonly fixedWorkload?: string;
  /**
   * The org of that workload, as its token says; absent where it counts for every org. Another org may have a workload
   * of the same id.
   */
  readonly workloadOrg?: string;
  /** `X-GW-API-Key` of the CONNECT: every request inside is asked for by it. */
  readonly apiKey?: string;
  /** Set when the CONNECT showed an API key: no other org may be named inside. */
  readonly fixedOrg?: string;
  /**
   * Set where the host is an AI host by a connector of this org: requests inside that say nothing else are of it
   * (decision 3.8).
   */
  readonly org?: string;
  /** Requests inside are passed on undecided and unrecorded (`GW_PROXY_NON_AI=inspect`). */
  readonly undecided?: true;
  /**
   * Leads to a host that carries much beside its calls: what is no call is passed on undecided and unrecorded (decision
   * 3.8).
   */
  readonly shared?: true;
  /** Of the self-test alone: what calls of somebody who shows the same to the proxy would come to (decision 12.11). */
  readonly tried?: TriedCaller;
  /** Absent where upstream connections are shared, and where plain HTTP is spoken inside. */
  readonly dialled?: Dialled;
}

/**
 * By which way a request came: `connect` through a CONNECT, `absolute` with a whole URL as to any forward proxy,
 * `origin` to the gateway's own port (base URL, structured API, own routes).
 */
export type Door = 'connect' | 'absolute' | 'origin';

/** The head of one request as it reached the gateway, before any meaning is given to it. */
export interface ArrivalHead {
  readonly door: Door;
  readonly trafficClass: TrafficClass;
  readonly method: string;
  /** The request target exactly as sent: path and query (origin-form), or the whole URL (absolute-form). */
  readonly rawTarget: string;
  /** Flat name, value, name, value list, as received, pseudo-headers left out. */
  readonly rawHeaders: readonly string[];
  /** Lower-case names; repeated fields joined as Node joins them. `host` holds `:authority` on h2. */
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly httpVersion: '1.0' | '1.1' | '2';
  /** True when the client spoke TLS to us for this request. */
  readonly secure: boolean;
  /** TCP peer without port. */
  readonly remoteAddress: string;
  /** Monotonic milliseconds at which the head was complete. */
  readonly startedAt: number;
  readonly tunnel?: Tunnel;
  /** Of the caller, where it had to be known before there was a call (decision 3.8). */
  readonly org?: string;
}

/**
 * Told the total so far, before more is read; may throw to stop. `stop` ends the reading later, too, with the error
 * that it is given: the rest of the body is nobody's then.
 */
export type BodyProgress = (totalBytes: number, stop: (error: Error) => void) => void;

/** The body of an arrived request. Exactly one of the reading members may be used, once. */
export interface BodySource {
  /** Value of Content-Length; undefined when chunked or h2 without it; 0 when there is none. */
  readonly declaredLength: number | undefined;
  /**
   * Reads everything.
   * @throws GatewayError `body_too_large` above `limit` bytes, `client_gone` when the client left or the body was cut.
   */
  readAll(limit: number, progress?: BodyProgress): Promise<Uint8Array>;
  /**
   * The bytes as they come, with back-pressure. Throws `client_gone` as above. `return` lets go of the client at once.
   */
  stream(): AsyncIterableIterator<Uint8Array>;
  /** Trailers behind the body, a flat list as received; empty until the body has been read to its end. */
  readonly trailers: readonly string[];
}

/**
 * Where the answer goes. `sendWhole` or `head` is called at most once. The implementation adds framing (Content-Length,
 * chunked, h2) by itself and drops header fields that the protocol forbids.
 */
export interface ReplySink {
  readonly headSent: boolean;
  /** The client went away before the answer was complete. */
  readonly gone: boolean;
  /** Forwards a 1xx (103 and the like; never 101). */
  info(status: number, rawHeaders: readonly string[]): void;
  /**
   * Sends status and headers; `rawHeaders` is a flat name, value list. `length` is the exact body length when known.
   * `empty`: nothing follows, neither body nor trailers, which h2 says with the head (gRPC clients tell that apart from
   * a body of no bytes).
   */
  head(status: number, rawHeaders: readonly string[], length?: number, empty?: boolean): void;
  /** Queues body bytes. False: the client's window is full, wait for `onDrain` before reading more from upstream. */
  write(chunk: Uint8Array): boolean;
  onDrain(listener: () => void): void;
  /** Ends the answer: until it is called the client cannot take the answer for complete. `trailers` is a flat list. */
  end(trailers?: readonly string[]): void;
  /** Head, body and end in one write. */
  sendWhole(status: number, rawHeaders: readonly string[], body: Uint8Array): void;
  /**
   * Breaks the connection (h1) or the stream (h2, with this error code) so that nobody takes the answer for complete.
   */
  reset(h2Code?: number): void;
  /** Called once when the client leaves before `end`. */
  onGone(listener: () => void): void;
  /**
   * Only where the client asks for a WebSocket (RFC 6455 §4.1): answers 101 in place of any other answer. `rawHeaders`
   * without `Connection` and `Upgrade`.
   * @throws GatewayError `upstream_protocol` for fields that cannot be passed on; nothing was sent then
   */
  readonly switchProtocols?: ((rawHeaders: readonly string[]) => ByteChannel) | undefined;
}

/** A client that waits for what a call without an answer of its own comes to: that of a tunnel or of a WebSocket. */
export interface WaitingClient {
  /** Told once when the client leaves; at once where it has. */
  onGone(listener: () => void): void;
  /** The call waits for a person from now on, perhaps for minutes. */
  held(): void;
}

/** One request with its body and its way back. */
export interface Arrival {
  readonly head: ArrivalHead;
  readonly body: BodySource;
  readonly reply: ReplySink;
}
