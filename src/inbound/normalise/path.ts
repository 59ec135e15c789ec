/*
 * The room `normalise` turns what arrived by the three doors (structured API, transparent redirect, interception) into
 * one form: canonical host and path, identity, parsed body. It is pure: no I/O, no clock, no configuration beyond its
 * arguments. Hostile input ends in a GatewayError with a 4xx code, never in anything else. A request enters by door.ts,
 * then target.ts, identity.ts and body.ts (proxied doors) or direct.ts (structured API); mutate.ts changes it.
 */
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { MAX_RECORDED, percentDecoded, shorten } from '../../base/lib/text.ts';

const SLASH = 0x2f;
const DOT = 0x2e;
const PERCENT = 0x25;
const QUESTION = 0x3f;
const HASH = 0x23;
const BACKSLASH = 0x5c;
const SEMICOLON = 0x3b;

const UNRESERVED = /^[A-Za-z0-9._~-]$/;
/** An escape, however often it was escaped itself: a server may decode the path more often than it should. */
const ESCAPE = /%(?:25)*([0-9A-F]{2})/gi;
const CONTROL = /^(?:[01][0-9A-F]|7F)$/i;
/** What then ends a segment, or begins a path parameter. */
const SEPARATORS: Readonly<Record<string, string>> = { '2F': '/', '5C': '/', '3B': ';', '2E': '.' };
/** Bytes of UTF-8 in other spellings than its own, such as `%C0%AF` for a slash. */
const ENCODED_BYTE = /%[89A-F][0-9A-F]/;
/** A parameter of the query by which some servers take another method than that of the request. */
const METHOD_OVERRIDE = /(?:^|&)(?:\$|%24)?(?:_method|\.?httpMethod|x-http-method(?:-override)?|x-method-override)(?:=|&|$)/i;
/** A segment that names the same or the upper directory, with or without a path parameter behind it (`..;x`). */
const DOT_SEGMENT = /^\.{1,2}(?:;|$)/;

/**
 * The one path that policy sees and that is sent (decision 3.18). On AI hosts `//`, dot segments in every spelling,
 * backslash, `#`, and bytes that do not belong into a request line are refused; percent-encoded unreserved characters
 * are decoded (RFC 3986 §6.2.2.2), other escapes are kept with upper-case digits, so that an encoded slash stays
 * encoded. Elsewhere only what cannot stand in a request line is refused. A path without need of change is returned as
 * it is.
 * @param raw path and query; empty means `/`
 * @throws GatewayError `invalid_target`
 */
export function canonicalPath(raw: string, isAiHost: boolean): string {
  const path = raw === '' || raw.charCodeAt(0) === QUESTION ? `/${raw}` : raw;
  if (path.charCodeAt(0) !== SLASH) throw refuse('does not begin with a slash');
  if (!isAiHost) {
    refuseUnprintable(path);
    return path;
  }
  if (!scan(path)) return refuseMethodOverride(path);
  const decoded = decodeUnreserved(path);
  scan(decoded);
  refuseHiddenSegments(decoded);
  return refuseMethodOverride(decoded);
}

/** The headers of that kind never leave (decision 3.21); a parameter is part of the path that policy saw. */
function refuseMethodOverride(path: string): string {
  if (path.includes('?') && METHOD_OVERRIDE.test(queryOf(path))) throw refuse('asks in its query for another method');
  return path;
}

/** Path without its query. */
export function pathOnly(path: string): string {
  const question = path.indexOf('?');
  return question === -1 ? path : path.slice(0, question);
}

/** Query without its `?`; '' when there is none. */
export function queryOf(path: string): string {
  const question = path.indexOf('?');
  return question === -1 ? '' : path.slice(question + 1);
}

/** The names of the query's parameters as they are written, in order, each once. */
export function queryNames(path: string): string[] {
  const names = new Set<string>();
  for (const pair of queryOf(path).split('&')) {
    const equals = pair.indexOf('=');
    const name = equals === -1 ? pair : pair.slice(0, equals);
    if (name !== '') names.add(name);
  }
  return [...names];
}

/**
 * What a record keeps of a path: of the query the names only, since values may be keys (decision 7.2), and of a very
 * long one the beginning.
 */
export function recordedPath(path: string): string {
  if (!path.includes('?')) return shorten(path, MAX_RECORDED);
  const names = queryNames(path);
  return shorten(names.length === 0 ? pathOnly(path) : `${pathOnly(path)}?${names.join('&')}`, MAX_RECORDED);
}

/** Refuses what no AI host may be sent. @returns whether there is an escape to look at */
// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one loop over every path of every request, without a call per character
function scan(path: string): boolean {
  const length = path.length;
  let inQuery = false;
  let escapes = false;
  for (let i = 0; i < length; i++) {
    const c = path.charCodeAt(i);
    if (c <= 0x20 || c >= 0x7f) throw refuse('holds a control, space or non-ASCII character');
    if (c === PERCENT) escapes = true;
    else if (c === HASH) throw refuse('holds "#"');
    else if (inQuery) continue;
    else if (c === QUESTION) inQuery = true;
    else if (c === BACKSLASH) throw refuse('holds a backslash');
    else if (c === SLASH) {
      const next = path.charCodeAt(i + 1);
      if (next === SLASH) throw refuse('holds an empty segment ("//")');
      if (next === DOT && isDotSegment(path, i + 1)) throw refuse('holds a dot segment');
    }
  }
  return escapes;
}

/** Whether the segment at `start`, which begins with a dot, is `.` or `..`. */
function isDotSegment(path: string, start: number): boolean {
  const behind = path.charCodeAt(start + 1) === DOT ? start + 2 : start + 1;
  if (behind >= path.length) return true;
  const c = path.charCodeAt(behind);
  return c === SLASH || c === QUESTION || c === SEMICOLON;
}

function decodeUnreserved(path: string): string {
  let out = '';
  let kept = 0;
  for (let at = path.indexOf('%'); at !== -1; at = path.indexOf('%', at + 3)) {
    const digits = path.slice(at + 1, at + 3);
    if (!/^[0-9A-Fa-f]{2}$/.test(digits)) throw refuse('holds a malformed percent-escape');
    const character = String.fromCharCode(Number.parseInt(digits, 16));
    out += path.slice(kept, at) + (UNRESERVED.test(character) ? character : `%${digits.toUpperCase()}`);
    kept = at + 3;
  }
  return out + path.slice(kept);
}

/**
 * Refuses what turns into a dot segment or a control byte in a server that decodes before it routes, once or more
 * often.
 */
function refuseHiddenSegments(path: string): void {
  const route = pathOnly(path);
  if (!route.includes('%')) return;
  if (ENCODED_BYTE.test(route) && percentDecoded(route) === undefined) throw refuse('holds an escape that is not UTF-8');
  const read = route.replace(ESCAPE, (written, digits: string) => {
    if (CONTROL.test(digits)) throw refuse('holds an encoded control character');
    return SEPARATORS[digits.toUpperCase()] ?? written;
  });
  for (const segment of read.split('/')) {
    if (DOT_SEGMENT.test(segment)) throw refuse('holds an encoded dot segment');
  }
}

function refuseUnprintable(path: string): void {
  for (let i = 0; i < path.length; i++) {
    const c = path.charCodeAt(i);
    if (c <= 0x20 || c === 0x7f || c > 0xff) throw refuse('holds a control or space character');
  }
}

function refuse(what: string): GatewayError {
  return new GatewayError('invalid_target', `The path of the upstream call ${what}.`);
}
