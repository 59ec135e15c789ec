import { KnownNames } from '../../base/lib/known-names.ts';
import { setsOwnCookie, withoutOwnCookies } from '../../base/lib/own-cookies.ts';
import { firstBlank, holdsAdminToken, holdsOwnToken } from '../../base/lib/own-tokens.ts';

/** What is left out of a forwarded request beyond the fixed rules. */
export interface RequestFilterOptions {
  /** A value equal to it, alone or behind a scheme such as `Bearer`, never leaves. */
  readonly adminToken?: string;
  /** Lower-case names that are left out too: auth headers that a credential replaces. */
  readonly drop?: ReadonlySet<string>;
  /** Our own entry of {@link via}, appended as the last field. */
  readonly via?: string;
  /** `TE: trailers` stays: it is true of the way from h2 to h2, and gRPC servers ask for it. */
  readonly trailers?: boolean;
  /** `Accept-Encoding: identity` in place of whatever the client said (decision 3.22). */
  readonly identity?: boolean;
}

/** What an upstream's head becomes on its way to the client. */
export interface FilteredResponseHeaders {
  /** Flat name, value list in the upstream's order and spelling. */
  readonly headers: readonly string[];
  /** Value of Content-Length, which is not in `headers`. */
  readonly contentLength: number | undefined;
  /** The first Content-Type, and all that is said of the encoding, as the tap and the reply need them. */
  readonly contentType: string | undefined;
  readonly contentEncoding: string | undefined;
}

export interface ResponseFilterOptions {
  /** Leaves Content-Length in `headers`: for answers to HEAD and 304, whose length is not that of a body. */
  readonly keepLength?: boolean;
}

/** RFC 9110 §7.6.1, RFC 2616 §13.5.1, RFC 7540 §3.2.1. Fields that `Connection` names come on top. */
const HOP_BY_HOP = ['connection', 'keep-alive', 'te', 'trailer', 'transfer-encoding', 'upgrade', 'http2-settings'];

/** Decision 3.21. The net room writes Host and framing by itself. */
const REQUEST_DROPS: ReadonlySet<string> = new Set([
  ...HOP_BY_HOP,
  'host',
  'content-length',
  'expect',
  'gw-admin-token',
  'x-http-method-override',
  'x-http-method',
  'x-method-override',
]);

/** Decision 3.22. */
const RESPONSE_DROPS: ReadonlySet<string> = new Set([...HOP_BY_HOP, 'alt-svc']);

/** What the filters know about one spelling of a field name. */
interface KnownName {
  readonly lower: string;
  readonly leavesRequest: boolean;
  readonly leavesResponse: boolean;
}

const KNOWN_NAMES = new KnownNames<KnownName>();

/** Values of `Connection` that name no field. */
const PLAIN_CONNECTION: ReadonlySet<string> = new Set(['keep-alive', 'close', 'Keep-Alive', 'Close', '']);

/** The value of our `Via` field (decision 3.13). `node` is this gateway's name. */
export function via(node: string): string {
  return `1.1 gw-${node}`;
}

/**
 * True when the request has passed this very gateway before (decision 3.13). `Via` is read as RFC 9110 §7.6.3 writes
 * it: entries parted by commas, each a protocol, a name and perhaps a comment.
 */
export function seenVia(rawHeaders: readonly string[], node: string): boolean {
  const own = `gw-${node}`.toLowerCase();
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? '';
    if (name.length !== 3 || name.toLowerCase() !== 'via') continue;
    for (const entry of (rawHeaders[i + 1] ?? '').toLowerCase().split(',')) {
      const parts = entry.split(/[ \t]+/);
      if (parts[parts[0] === '' ? 2 : 1] === own) return true;
    }
  }
  return false;
}

/**
 * The one outbound header filter (decision 3.21), for every door and after every mutation.
 * @param rawHeaders flat name, value list
 * @returns a new flat list, order and spelling kept
 */
export function filterRequestHeaders(rawHeaders: readonly string[], options: RequestFilterOptions = {}): string[] {
  const { adminToken, drop, identity = false } = options;
  const nominated = connectionNames(rawHeaders);
  const kept: string[] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? '';
    const value = rawHeaders[i + 1] ?? '';
    const { lower, leavesRequest } = KNOWN_NAMES.found.get(name) ?? KNOWN_NAMES.learn(name, lookAt);
    if (leavesRequest || drop?.has(lower) || nominated?.has(lower)) continue;
    if (identity && lower === 'accept-encoding') continue;
    const left = lower === 'cookie' ? withoutOwnCookies(value) : value;
    if (left === undefined || holdsOwnSecret(lower, left, adminToken)) continue;
    kept.push(name, left);
  }
  addOwn(kept, rawHeaders, options);
  return kept;
}

function addOwn(kept: string[], rawHeaders: readonly string[], { trailers, identity, via: own }: RequestFilterOptions): void {
  if (trailers && acceptsTrailers(rawHeaders)) kept.push('TE', 'trailers');
  if (identity) kept.push('Accept-Encoding', 'identity');
  if (own !== undefined) kept.push('Via', own);
}

/** True when the client says that it takes trailers (RFC 9110 §10.1.4). */
function acceptsTrailers(rawHeaders: readonly string[]): boolean {
  return rawHeaders.some((name, i) => i % 2 === 0 && name.toLowerCase() === 'te' && /\btrailers\b/i.test(rawHeaders[i + 1] ?? ''));
}

/** Cleans the head of an upstream's answer (decision 3.22). The reply side writes framing by itself. */
export function filterResponseHeaders(rawHeaders: readonly string[], options: ResponseFilterOptions = {}): FilteredResponseHeaders {
  const { keepLength = false } = options;
  const nominated = connectionNames(rawHeaders);
  const headers: string[] = [];
  let contentLength: number | undefined;
  let contentType: string | undefined;
  let contentEncoding: string | undefined;
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? '';
    const value = rawHeaders[i + 1] ?? '';
    const { lower, leavesResponse } = KNOWN_NAMES.found.get(name) ?? KNOWN_NAMES.learn(name, lookAt);
    if (leavesResponse || nominated?.has(lower)) continue;
    switch (lower) {
      case 'content-length':
        contentLength = lengthOf(value);
        if (!keepLength) continue;
        break;
      case 'content-type':
        contentType ??= value;
        break;
      case 'content-encoding':
        contentEncoding = listed(contentEncoding, value);
        break;
      case 'set-cookie':
        if (setsOwnCookie(value)) continue;
        break;
      default:
    }
    headers.push(name, value);
  }
  return { headers, contentLength, contentType, contentEncoding };
}

/** Several fields of one name are one list (RFC 9110 §5.3). */
function listed(before: string | undefined, value: string): string {
  return before === undefined ? value : `${before}, ${value}`;
}

/** The same for trailers, of which most answers have none. */
export function filterResponseTrailers(trailers: readonly string[]): readonly string[] {
  return trailers.length === 0 ? trailers : filterResponseHeaders(trailers).headers;
}

function lookAt(name: string): KnownName {
  const lower = name.toLowerCase();
  const ours = lower.startsWith('proxy-') || lower.startsWith('x-gw-');
  return {
    lower,
    leavesRequest: ours || REQUEST_DROPS.has(lower) || holdsOwnToken(name),
    leavesResponse: ours || RESPONSE_DROPS.has(lower),
  };
}

/** Lower-case names that `Connection` fields nominate; undefined in the usual case that there are none. */
function connectionNames(rawHeaders: readonly string[]): Set<string> | undefined {
  let names: Set<string> | undefined;
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? '';
    if (name.length !== 10 || name.toLowerCase() !== 'connection') continue;
    const value = rawHeaders[i + 1] ?? '';
    if (PLAIN_CONNECTION.has(value)) continue;
    names ??= new Set();
    for (const token of value.split(',')) names.add(token.trim().toLowerCase());
  }
  return names;
}

/**
 * True for a token of this gateway anywhere in a value: a cookie, a URL, a subprotocol, or the user name or password of
 * a Basic credential. No value of most calls takes another step.
 */
function holdsOwnSecret(lowerName: string, value: string, adminToken = ''): boolean {
  if ((value.includes('_') || value.includes('%')) && holdsOwnToken(value)) return true;
  if (adminToken !== '' && value.length >= adminToken.length && showsAdminToken(lowerName, value, adminToken)) return true;
  const first = value.charCodeAt(0);
  return (first === SMALL_B || first === BIG_B) && value.slice(0, 5).toLowerCase() === 'basic' && isBasicOwn(value, adminToken);
}

const SMALL_B = 0x62;
const BIG_B = 0x42;

/**
 * A short one counts alone, behind a scheme, or among subprotocols, where browsers send keys behind a prefix such as
 * `openai-insecure-api-key.`.
 */
function showsAdminToken(lowerName: string, value: string, adminToken: string): boolean {
  if (holdsAdminToken(value, adminToken) || (lowerName === 'sec-websocket-protocol' && value.includes(adminToken))) return true;
  const blank = firstBlank(value);
  return blank !== -1 && holdsAdminToken(value.slice(blank + 1).trimStart(), adminToken);
}

function isBasicOwn(value: string, adminToken: string): boolean {
  if (firstBlank(value) !== 5) return false;
  const pair = Buffer.from(value.slice(6).trimStart(), 'base64').toString('utf8');
  if (holdsOwnToken(pair)) return true;
  const colon = pair.indexOf(':');
  return (
    holdsAdminToken(pair.slice(0, colon === -1 ? pair.length : colon), adminToken) || holdsAdminToken(pair.slice(colon + 1), adminToken)
  );
}

function lengthOf(value: string): number | undefined {
  const length = Number(value);
  return value !== '' && Number.isSafeInteger(length) && length >= 0 ? length : undefined;
}
