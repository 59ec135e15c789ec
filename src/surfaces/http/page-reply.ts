/*
 * What browsers need to let a page of another origin call, and read what it is answered (Fetch standard, "CORS
 * protocol"; decision 3.14).
 */
import type { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Arrival, ArrivalHead, ReplySink } from '../../base/model/arrival.ts';

/** How long a browser may remember what a page may do; Chromium takes two hours at most. */
const MAX_AGE_SECONDS = '600';
const METHODS = 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS';
/** What is in no such list of names is no field that a browser would ask for. */
const NAMES = /^[!#$%&'*+.^_`|~0-9A-Za-z, -]*$/;
const ALLOWED_BY_US = 'access-control-';

/** Fields that a program acts on, whether this answer has them or not. */
const ALWAYS_EXPOSED = [
  ...['Mcp-Session-Id', 'MCP-Protocol-Version', 'Retry-After', 'WWW-Authenticate', 'Allow', 'Idempotent-Replayed', 'x-should-retry'],
  ...['X-GW-Request-ID', 'X-GW-Record-ID', 'X-GW-Decision', 'X-GW-Record-Hash'],
];
const ALWAYS_EXPOSED_LOWER: readonly string[] = ALWAYS_EXPOSED.map((name) => name.toLowerCase());
/**
 * Known to pages anyway, or to none (Fetch standard, "CORS-safelisted response-header name", "forbidden response-header
 * name").
 */
const NEVER_NAMED: ReadonlySet<string> = new Set([
  ...['cache-control', 'content-language', 'content-length', 'content-type', 'expires', 'last-modified', 'pragma'],
  ...['set-cookie', 'set-cookie2'],
]);

/**
 * True for the question that a browser asks before a page's request. It carries no credentials, whatever the request
 * will.
 */
function isPreflight({ method, headers }: Pick<ArrivalHead, 'method' | 'headers'>): boolean {
  return method === 'OPTIONS' && headers['access-control-request-method'] !== undefined;
}

/**
 * Lets a page ask whatever it wants to; who it is for is judged by the request that follows.
 * @param origin of the page, which may call
 */
function answerPreflight({ head, reply }: Arrival, origin: string): void {
  reply.sendWhole(204, preflightFields(head.headers, origin), new Uint8Array(0));
}

/** The fields of that answer, as a flat list. @param headers of the question, names in lower case */
function preflightFields(headers: Readonly<Record<string, string | undefined>>, origin: string): string[] {
  const wanted = headers['access-control-request-headers'] ?? '';
  const fields = ['Access-Control-Allow-Origin', origin, 'Access-Control-Allow-Methods', METHODS];
  if (wanted !== '' && NAMES.test(wanted)) fields.push('Access-Control-Allow-Headers', wanted);
  if (headers['access-control-request-private-network'] === 'true') fields.push('Access-Control-Allow-Private-Network', 'true');
  fields.push('Access-Control-Max-Age', MAX_AGE_SECONDS);
  fields.push('Vary', 'Origin, Access-Control-Request-Method, Access-Control-Request-Headers');
  return fields;
}

/**
 * What the guard of browsers lets through, with a way back that the page which asks can read (decision 3.14).
 * @param refused what the guard says
 * @param router answers a refusal
 * @returns undefined for what is answered here: a refusal, or the question that a browser asks before a page's request
 */
export function answeredToPage(
  arrival: Arrival,
  refused: GatewayError | undefined,
  router: { refuse(arrival: Arrival, error: GatewayError): void },
): Arrival | undefined {
  const { head } = arrival;
  const { origin } = head.headers;
  const mayRead = origin !== undefined && refused?.code !== 'origin_not_allowed';
  const readable = mayRead ? { ...arrival, reply: new PageReply(arrival.reply, origin) } : arrival;
  if (refused !== undefined) router.refuse(readable, refused);
  else if (origin !== undefined && isPreflight(head)) answerPreflight(arrival, origin);
  else return readable;
  return undefined;
}

/** The way back to a page of an origin that may call: it can read the answer, whoever gives it. */
class PageReply implements ReplySink {
  readonly switchProtocols: ReplySink['switchProtocols'];
  readonly #reply: ReplySink;
  readonly #origin: string;

  constructor(reply: ReplySink, origin: string) {
    this.#reply = reply;
    this.#origin = origin;
    this.switchProtocols = reply.switchProtocols;
  }

  get headSent(): boolean {
    return this.#reply.headSent;
  }

  get gone(): boolean {
    return this.#reply.gone;
  }

  info(status: number, rawHeaders: readonly string[]): void {
    this.#reply.info(status, rawHeaders);
  }

  head(status: number, rawHeaders: readonly string[], length?: number, empty?: boolean): void {
    this.#reply.head(status, readableFields(rawHeaders, this.#origin), length, empty);
  }

  write(chunk: Uint8Array): boolean {
    return this.#reply.write(chunk);
  }

  onDrain(listener: () => void): void {
    this.#reply.onDrain(listener);
  }

  end(trailers?: readonly string[]): void {
    this.#reply.end(trailers);
  }

  sendWhole(status: number, rawHeaders: readonly string[], body: Uint8Array): void {
    this.#reply.sendWhole(status, readableFields(rawHeaders, this.#origin), body);
  }

  reset(h2Code?: number): void {
    this.#reply.reset(h2Code);
  }

  onGone(listener: () => void): void {
    this.#reply.onGone(listener);
  }
}

/** The fields by which a page of this origin can read an answer, as a flat list. @param named those of the answer */
function pageFields(origin: string, named: readonly string[] = ALWAYS_EXPOSED): string[] {
  return ['Access-Control-Allow-Origin', origin, 'Access-Control-Expose-Headers', named.join(', '), 'Vary', 'Origin'];
}

/** A provider's own word on who may read is about its host, and a second one would make browsers refuse both. */
function readableFields(rawHeaders: readonly string[], origin: string): string[] {
  const fields: string[] = [];
  const exposed = new Set(ALWAYS_EXPOSED_LOWER);
  const named = [...ALWAYS_EXPOSED];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? '';
    const lower = name.toLowerCase();
    if (lower.startsWith(ALLOWED_BY_US)) continue;
    fields.push(name, rawHeaders[i + 1] ?? '');
    if (exposed.has(lower) || NEVER_NAMED.has(lower)) continue;
    exposed.add(lower);
    named.push(name);
  }
  fields.push(...pageFields(origin, named));
  return fields;
}
