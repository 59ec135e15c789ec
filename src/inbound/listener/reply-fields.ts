import { type OutgoingHttpHeaders, validateHeaderName, validateHeaderValue } from 'node:http';
import { noFields } from '../../base/lib/sockets.ts';

/**
 * Fields that belong to one connection or to the framing, which the sink writes itself. Answers keep `upgrade` on
 * HTTP/1.1 for 426.
 */
const FRAMING = new Set(['connection', 'content-length', 'keep-alive', 'proxy-connection', 'transfer-encoding']);
const FORBIDDEN_ON_H2 = new Set([...FRAMING, 'http2-settings', 'te', 'upgrade']);
const FORBIDDEN_IN_TRAILERS = new Set([...FORBIDDEN_ON_H2, 'host', 'content-encoding', 'content-type', 'set-cookie', 'trailer']);
/** node:http2 throws for a second value of these, those of requests included; a client would take the first. */
const SINGLE_VALUED = new Set([
  ...['access-control-allow-credentials', 'access-control-max-age', 'access-control-request-method', 'age', 'authorization'],
  ...['content-encoding', 'content-language', 'content-length', 'content-location', 'content-md5', 'content-range', 'content-type'],
  ...['date', 'dnt', 'etag', 'expires', 'from', 'host', 'if-match', 'if-modified-since', 'if-none-match', 'if-range'],
  ...['if-unmodified-since', 'last-modified', 'location', 'max-forwards', 'proxy-authorization', 'range', 'referer', 'retry-after'],
  ...['tk', 'upgrade-insecure-requests', 'user-agent', 'x-content-type-options'],
]);
/** Statuses whose answers have no content (RFC 9110 §15.3.5, §15.3.6), so that no length of theirs says anything. */
const NO_CONTENT: ReadonlySet<number> = new Set([204, 205]);

/**
 * @throws RangeError for what is no status of a final answer (RFC 9110 §15): the one place that says so for every
 * answer that is written
 */
export function refuseNoStatus(status: number): void {
  if (!Number.isInteger(status) || status < 200 || status > 599) throw new RangeError(`no status of a final answer: ${status}`);
}

/** True for answers that never have a body: their `Content-Length`, if any, describes what a GET would have brought. */
export function isBodiless(method: string, status: number): boolean {
  return method === 'HEAD' || status === 204 || status === 304;
}

/**
 * The fields of an HTTP/1.1 answer as a flat list, repeated ones kept; `length` undefined leaves the framing to chunks
 * or to the end of the connection.
 */
export function http1Fields(
  rawHeaders: readonly string[],
  status: number,
  length: number | undefined,
  bodiless: boolean,
  close: boolean,
): string[] {
  const fields: string[] = [];
  let upgrade = false;
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? '';
    const lower = name.toLowerCase();
    if (FRAMING.has(lower) && !(lower === 'content-length' && keepsLength(bodiless, status, length))) continue;
    upgrade ||= lower === 'upgrade';
    fields.push(name, rawHeaders[i + 1] ?? '');
  }
  if (length !== undefined && (!bodiless || (!NO_CONTENT.has(status) && length > 0))) fields.push('Content-Length', String(length));
  if (close) fields.push('Connection', upgrade ? 'upgrade, close' : 'close');
  else if (upgrade) fields.push('Connection', 'upgrade');
  return fields;
}

/**
 * The fields of an h2 answer, of which node:http2 refuses none any more: connection-specific ones dropped (RFC 9113
 * §8.2.2), repeated ones as lists, of those that may stand there once the first.
 * @throws Error for a name or value that HTTP does not have; node:http2 would send it
 */
export function http2Fields(
  rawHeaders: readonly string[],
  status: number,
  length: number | undefined,
  bodiless: boolean,
): OutgoingHttpHeaders {
  const fields = noFields();
  fields[':status'] = status;
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = (rawHeaders[i] ?? '').toLowerCase();
    if (name.startsWith(':')) continue;
    if (FORBIDDEN_ON_H2.has(name) && !(name === 'content-length' && keepsLength(bodiless, status, length))) continue;
    append(fields, name, rawHeaders[i + 1] ?? '');
  }
  if (length !== undefined && (!bodiless || (!NO_CONTENT.has(status) && length > 0))) fields['content-length'] = String(length);
  return fields;
}

/** Trailers as pairs, without those that RFC 9110 §6.5.1 forbids there. */
export function trailerPairs(trailers: readonly string[]): [string, string][] {
  const pairs: [string, string][] = [];
  for (let i = 0; i + 1 < trailers.length; i += 2) {
    const name = trailers[i] ?? '';
    if (!name.startsWith(':') && !FORBIDDEN_IN_TRAILERS.has(name.toLowerCase())) pairs.push([name, trailers[i + 1] ?? '']);
  }
  return pairs;
}

export function http2Trailers(trailers: readonly string[]): OutgoingHttpHeaders {
  const fields = noFields();
  for (const [name, value] of trailerPairs(trailers)) append(fields, name.toLowerCase(), value);
  return fields;
}

function append(fields: OutgoingHttpHeaders, name: string, value: string): void {
  validateHeaderName(name);
  validateHeaderValue(name, value);
  const present = fields[name];
  if (present === undefined) fields[name] = value;
  else if (Array.isArray(present)) present.push(value);
  else if (!SINGLE_VALUED.has(name)) fields[name] = [String(present), value];
}

function keepsLength(bodiless: boolean, status: number, length: number | undefined): boolean {
  return bodiless && !NO_CONTENT.has(status) && (length === undefined || length === 0);
}
