import type { Dialect, Provider } from '../../base/catalogue/types.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { AUTH_HEADERS } from '../../base/lib/header-rules.ts';
import { isOwnToken, NO_PROVIDER_KEY, shownToken } from '../../base/lib/own-tokens.ts';
import { percentDecoded } from '../../base/lib/text.ts';

/**
 * Headers that carry a key at some provider. All of them are removed when a credential is injected, whoever the
 * upstream is (decision 8.4).
 */
const KEY = /^[\u0021-\u007e](?:[\u0020-\u007e]*[\u0021-\u007e])?$/;
const EMPTY_SCHEME = /^(?:bearer|basic)?\s*$/i;

const namesByProvider = new WeakMap<Provider, ReadonlySet<string>>();
const GENERIC_NAMES: ReadonlySet<string> = new Set(AUTH_HEADERS);

/**
 * The header that gives the provider this key, as a flat name, value list. Empty without a provider: a generic host's
 * scheme is unknown.
 * @param dialect of the call: some hosts want another header for another wire format
 * @throws GatewayError `invalid_request` when the key cannot stand in a header, or is one of this gateway, which is
 * never sent on (decision 3.21)
 */
export function injectAuth(provider: Provider | undefined, key: string, dialect?: Dialect): readonly string[] {
  if (!KEY.test(key)) throw new GatewayError('invalid_request', 'the credential holds characters that no key has');
  if (isOwnToken(key)) throw new GatewayError('invalid_request', `the credential ${NO_PROVIDER_KEY}`);
  const scheme =
    provider?.auth.find((candidate) => candidate.for !== undefined && candidate.for === dialect?.errorShape) ?? provider?.auth[0];
  return scheme === undefined ? [] : [scheme.header, scheme.format.split('{key}').join(key)];
}

/** The parameter of the query that gives a custom connector this key, where it takes one there. */
export function injectedQuery(provider: Provider, key: string): string | undefined {
  const name = provider.custom?.authQuery;
  return name === undefined ? undefined : `${encodeURIComponent(name)}=${encodeURIComponent(key)}`;
}

/** The path as it is sent, with the parameter that carries the key. */
export function sentPath(path: string, query: string | undefined): string {
  if (query === undefined) return path;
  return `${path}${path.includes('?') ? (path.endsWith('?') || path.endsWith('&') ? '' : '&') : '?'}${query}`;
}

/** Lower-case names of every header that could carry a key to this provider. */
export function authHeaderNames(provider: Provider | undefined): ReadonlySet<string> {
  if (provider === undefined) return GENERIC_NAMES;
  let names = namesByProvider.get(provider);
  if (names === undefined) {
    names = new Set([...AUTH_HEADERS, ...provider.auth.map((scheme) => scheme.header)]);
    namesByProvider.set(provider, names);
  }
  return names;
}

const SUBPROTOCOLS = 'sec-websocket-protocol';

/** A scheme with nothing behind it is no key, and one that lets somebody in here is none of the provider's. */
function saysMore(value: string): boolean {
  return !EMPTY_SCHEME.test(value) && shownToken(value) === undefined;
}

/**
 * Does the client bring a key of its own?
 * @param headers by lower-case name
 * @param path with its query, where some providers take a key too
 */
export function clientKey(provider: Provider | undefined, headers: Readonly<Record<string, string | undefined>>, path = ''): boolean {
  for (const name of authHeaderNames(provider)) {
    const value = headers[name];
    if (value !== undefined && saysMore(value)) return true;
  }
  const prefix = provider?.authSubprotocol;
  if (prefix !== undefined && headers[SUBPROTOCOLS]?.split(',').some((offered) => offersKey(offered.trim(), prefix))) return true;
  const names = provider?.authQueryNames ?? [];
  return names.length > 0 && queryParts(path).some((part) => isAuthPart(part, names) && part.indexOf('=') < part.length - 1);
}

/** Does the client bring an `Authorization` that says more than its scheme? @param headers by lower-case name */
export function hasAuthorization(headers: Readonly<Record<string, string | undefined>>): boolean {
  const value = headers['authorization'];
  return value !== undefined && saysMore(value);
}

/** What lets somebody in here is none of the provider's in this place either. */
function offersKey(offered: string, prefix: string): boolean {
  return offered.startsWith(prefix) && !isOwnToken(offered.slice(prefix.length));
}

/**
 * The header fields (flat name, value list) without anything that could carry a key to this provider: for a call that
 * gets a stored credential. Browsers bring theirs as a WebSocket subprotocol; the others that are offered stay.
 */
export function withoutAuth(provider: Provider | undefined, headers: readonly string[]): string[] {
  const names = authHeaderNames(provider);
  const kept: string[] = [];
  for (let at = 0; at < headers.length; at += 2) {
    const name = headers[at] ?? '';
    const value = headers[at + 1] ?? '';
    const lower = name.toLowerCase();
    if (names.has(lower)) continue;
    const left = lower === SUBPROTOCOLS ? withoutKeySubprotocols(provider, value) : value;
    if (left !== undefined) kept.push(name, left);
  }
  return kept;
}

function withoutKeySubprotocols(provider: Provider | undefined, value: string): string | undefined {
  const prefix = provider?.authSubprotocol;
  if (prefix === undefined) return value;
  const offered = value.split(',').map((token) => token.trim());
  const kept = offered.filter((token) => !token.startsWith(prefix));
  if (kept.length === offered.length) return value;
  return kept.length === 0 ? undefined : kept.join(', ');
}

/**
 * The path without the query parameters that carry a key: for a call that gets a stored credential. Everything else
 * stays byte for byte.
 */
export function withoutAuthQuery(provider: Provider | undefined, path: string): string {
  const names = provider?.authQueryNames ?? [];
  const parts = names.length === 0 ? [] : queryParts(path);
  const kept = parts.filter((part) => !isAuthPart(part, names));
  if (kept.length === parts.length) return path;
  const bare = path.slice(0, path.indexOf('?'));
  return kept.length === 0 ? bare : `${bare}?${kept.join('&')}`;
}

function queryParts(path: string): readonly string[] {
  const query = path.indexOf('?');
  return query === -1 ? [] : path.slice(query + 1).split('&');
}

function isAuthPart(part: string, names: readonly string[]): boolean {
  const equals = part.indexOf('=');
  const name = equals === -1 ? part : part.slice(0, equals);
  return names.includes(percentDecoded(name) ?? name);
}

/** Every scheme of AWS Signature Version 4 and 4A begins with it. */
const SCHEME = 'AWS4-';
const IN_HEADER = /\bSignedHeaders=([^,\s]+)/;
const IN_QUERY = /[?&]X-Amz-SignedHeaders=([^&]*)/i;

/**
 * Lower-case names of the headers that a caller's AWS signature covers, beside method, path, query and body; undefined
 * for a request that is not signed. All of them must reach the provider as they were signed, or it refuses the call.
 * @param path with its query, where a signature may stand too
 */
export function signedHeaders(authorization: string | undefined, path: string): readonly string[] | undefined {
  if (isSignature(authorization)) return names(IN_HEADER.exec(authorization)?.[1]);
  if (!path.includes('X-Amz-Signature=')) return undefined;
  return names(IN_QUERY.exec(path)?.[1]?.replaceAll(/%3b/gi, ';'));
}

/** True for the value of an Authorization that is a signature of the request. */
export function isSignature(authorization: string | undefined): authorization is string {
  return authorization?.startsWith(SCHEME) === true;
}

function names(list: string | undefined): readonly string[] {
  return list === undefined || list === '' ? [] : list.toLowerCase().split(';');
}

export interface DirectHeadersQuestion {
  readonly provider: Provider | undefined;
  /** Of the operation. */
  readonly dialect: Dialect | undefined;
  /** A JSON body is sent. */
  readonly hasBody: boolean;
  /** Of the call (specification, "Idempotency"). */
  readonly idempotencyKey: string | undefined;
  /** Lower-case names of the headers that the caller set. */
  readonly callerSet: (name: string) => boolean;
}

/**
 * Headers that a call of the structured API needs beyond the caller's own, as a flat name, value list: the type of its
 * body, and the version header that its wire format or its provider cannot do without. What the caller set stands.
 */
export function directHeaders(question: DirectHeadersQuestion): readonly string[] {
  const { provider, dialect, hasBody, idempotencyKey, callerSet } = question;
  const headers: string[] = [];
  if (hasBody && !callerSet('content-type')) headers.push('content-type', 'application/json');
  const version = dialect?.versionHeader ?? provider?.versionHeader;
  if (version !== undefined && !callerSet(version.name.toLowerCase())) headers.push(version.name, version.fallback);
  const keyHeader = provider?.idempotencyHeader;
  if (keyHeader !== undefined && idempotencyKey !== undefined && !callerSet(keyHeader.toLowerCase()))
    headers.push(keyHeader, idempotencyKey);
  return headers;
}
