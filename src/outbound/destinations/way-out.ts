import type { Socket } from 'node:net';
import type { WebAddress } from '../../base/lib/web-address.ts';
import type { Authority } from '../../base/model/arrival.ts';

/** What came back for a POST. */
export interface PostAnswer {
  readonly status: number;
  /** Lower-case names; of several of one name the last. */
  readonly headers: ReadonlyMap<string, string>;
  /** The beginning of it. */
  readonly body: string;
}

export interface PostRequest {
  /** Default `POST`. */
  readonly method?: 'POST' | 'PATCH' | undefined;
  /** Bytes that are read of the body of the answer; default: its first 16 KiB. */
  readonly mostRead?: number | undefined;
  readonly to: WebAddress;
  /** Flat name, value list; Host and framing are added. */
  readonly headers: readonly string[];
  readonly body: string | Uint8Array;
  /** How long an answer may take, milliseconds; 15 seconds where nothing is said. */
  readonly timeoutMs?: number;
  readonly signal: AbortSignal;
}

export interface GetRequest extends Omit<PostRequest, 'body' | 'method' | 'mostRead'> {
  /** Of the body; a longer answer is an error. */
  readonly maxBytes: number;
}

/** What came back for a GET, whole. */
export interface GetAnswer extends Omit<PostAnswer, 'body'> {
  readonly body: Uint8Array;
}

/** The way out for what the gateway asks for. As {@link WayOut}. */
export interface Fetching {
  get(request: GetRequest): Promise<GetAnswer>;
}

/** The way out for what is asked by POST. As {@link WayOut}. */
export interface PostWithAnswer {
  ask(request: Omit<PostRequest, 'method' | 'mostRead'> & Pick<GetRequest, 'maxBytes'>): Promise<GetAnswer>;
}

/** How a connection is made. */
export interface ConnectOptions {
  readonly tls: boolean;
  /** The operator named the address himself: the egress guard refuses nothing but the gateway's own ports. */
  readonly operatorOwn: boolean;
}

/**
 * The ways out that senders have: each address passes the egress guard behind it. Rejects with GatewayError, whose
 * messages name hosts and ports alone.
 */
export interface WayOut {
  /** Redirects are not followed; the whole answer is taken. */
  post(request: PostRequest): Promise<PostAnswer>;
  connect(authority: Authority, options: ConnectOptions): Promise<Socket>;
  /** Resolves when all are handed over to the system. */
  datagrams(authority: Authority, messages: readonly Uint8Array[], operatorOwn: boolean): Promise<void>;
}
