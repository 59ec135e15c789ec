/*
 * The ground of every surface: routes as data, one router, one way to check a token and one form of error. A surface
 * adds rows and handlers; it never reads a socket or writes a header by itself.
 */
import type { Cookie } from '../../base/lib/cookie.ts';
import type { Arrival, ArrivalHead } from '../../base/model/arrival.ts';
import type { Principal, Scope } from '../../base/model/principal.ts';

/** What a route answers. Exactly one of `json`, `text`, `bytes` and `parts`, or none. */
export interface RouteAnswer {
  readonly status: number;
  readonly json?: unknown;
  readonly text?: string;
  readonly bytes?: Uint8Array;
  /**
   * Text that may be long, each part made when the client has room for it; between two of them other work goes on. A
   * failure before the first part is answered as any other, a later one breaks the answer off.
   */
  readonly parts?: AsyncIterable<string>;
  /** For `text`, `bytes` and `parts`. */
  readonly contentType?: string;
  /** Flat name, value list. */
  readonly headers?: readonly string[];
  /** Sets them in the browser that asked. */
  readonly cookies?: readonly Cookie[];
  /** Where to go instead, with status 302 or 303: a path of this origin, or an `https` address. */
  readonly redirect?: string;
  /** `Cache-Control`. Default: `no-store`. */
  readonly cache?: string;
}

export interface RouteRequest {
  readonly head: ArrivalHead;
  readonly principal: Principal;
  /** Address of who asks, without port. */
  readonly from: string;
  /** Values of the pattern's `{names}`, percent-decoded. */
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  /** Aborted with GatewayError `client_gone` when the client leaves: nobody waits for the answer any more. */
  readonly signal: AbortSignal;
  /**
   * The body as JSON. `ifNone`: what stands for one that is empty.
   * @throws GatewayError `invalid_request`, `body_too_large`, `body_too_deep`
   */
  json(ifNone?: unknown): Promise<unknown>;
  /** The body as UTF-8 text. @throws GatewayError `invalid_request`, `body_too_large` */
  text(): Promise<string>;
}

interface RouteBase {
  readonly method: 'GET' | 'PUT' | 'POST' | 'PATCH' | 'DELETE';
  /** Segments; `{name}` takes one whole segment, and `{*name}` all that are left, one at least. */
  readonly path: string;
  /** What a caller must be allowed. */
  readonly auth: Scope;
  /** One line for the reference page. */
  readonly summary: string;
  /** Also served by the ambient port (decision 3.2). */
  readonly ambient?: boolean;
  /** A page for people, which holds no data: links from other sites lead to it (decision 11.4). */
  readonly page?: true;
  /** A request that says by its header fields that it is meant for an upstream goes there, though it has this path. */
  readonly yields?: true;
  /** On the port of the management API too, where that has one of its own. */
  readonly anyPort?: true;
  /** It is there for requests that show a session of a browser, and for nobody else: 404 (decision 10.10). */
  readonly bySession?: true;
  /**
   * Who refuses parameters that the route does not know (decision 8.15). `read`: its handler, by its schema. `unread`:
   * nobody. Default: it takes none, and the router refuses any.
   */
  readonly query?: 'read' | 'unread';
  /** It answers when something happens, and is bounded by itself: it takes no turn of others. */
  readonly waits?: true;
  /** Default: 4 MiB. */
  readonly maxBodyBytes?: number;
}

/** A route answers, or takes the whole exchange over (`take`), as the structured API does. */
export type Route =
  | (RouteBase & { readonly handle: (request: RouteRequest) => RouteAnswer | Promise<RouteAnswer> })
  | (RouteBase & { readonly take: (arrival: Arrival) => void });
