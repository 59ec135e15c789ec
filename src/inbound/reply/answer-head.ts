import { type BodyKind, isEventStream, labelledFraming, streamMediaType } from '../../base/catalogue/stream-types.ts';
import { encodingOf } from '../../base/lib/decoder.ts';
import { KnownNames } from '../../base/lib/known-names.ts';
import { filterResponseHeaders } from '../../outbound/net/header-filter.ts';

/** The head of an upstream's answer, ready to be passed on. */
export interface AnswerHead {
  readonly status: number;
  /** Flat list without framing, hop-by-hop, `X-GW-*` and `Alt-Svc` (decision 3.22). */
  readonly headers: readonly string[];
  readonly contentLength: number | undefined;
  /** Lower case, without parameters; empty when absent. */
  readonly mediaType: string;
  /** Lower case; undefined for identity. */
  readonly contentEncoding: string | undefined;
  /** The body comes in events, so it must not be held. */
  readonly eventStream: boolean;
  /** The answer has no body by its status or method (RFC 9110 §6.4.1). */
  readonly bodiless: boolean;
}

/**
 * Reads the raw head of an answer to a request of `method`.
 * @param maybeArray the request asked for a stream that may come as one JSON array; only an answer of 200 is one
 */
export function readAnswerHead(status: number, rawHeaders: readonly string[], method: string, maybeArray = false): AnswerHead {
  const { headers, contentLength, contentType, contentEncoding } = filterResponseHeaders(rawHeaders);
  const mediaType = contentType === undefined ? '' : mediaTypeOf(contentType);
  const bodiless = method === 'HEAD' || status === 204 || status === 304;
  return {
    status,
    headers,
    contentLength,
    mediaType,
    contentEncoding: contentEncoding === undefined ? undefined : encodingOf(contentEncoding),
    eventStream: !bodiless && (isEventStream(mediaType) || (maybeArray && status === 200 && mediaType === 'application/json')),
    bodiless,
  };
}

/** What the head calls its body. */
export function labelledKind({ eventStream, mediaType }: AnswerHead): BodyKind {
  return (eventStream ? labelledFraming(mediaType) : undefined) ?? 'whole';
}

/**
 * The head of an answer whose body was found to be of this kind.
 * @param retypes its headers name the media type of the body; else they stay the upstream's
 * @returns `head` itself where it was right
 */
export function headOfKind(head: AnswerHead, kind: BodyKind, retypes: boolean): AnswerHead {
  if (kind === labelledKind(head)) return head;
  if (kind === 'whole') return { ...head, eventStream: false, mediaType: 'application/json' };
  const mediaType = streamMediaType(kind);
  return { ...head, eventStream: true, mediaType, headers: retypes ? retyped(head.headers, mediaType) : head.headers };
}

function retyped(headers: readonly string[], mediaType: string): readonly string[] {
  const kept: string[] = [];
  for (let at = 0; at + 1 < headers.length; at += 2) {
    const name = headers[at] ?? '';
    if (name.toLowerCase() !== 'content-type') kept.push(name, headers[at + 1] ?? '');
  }
  return [...kept, 'Content-Type', mediaType];
}

/** Media types of the fields met before: providers have a handful of them. */
const MEDIA_TYPES = new KnownNames<string>(256, 128);

function mediaTypeOf(field: string): string {
  return MEDIA_TYPES.found.get(field) ?? MEDIA_TYPES.learn(field, readMediaType);
}

function readMediaType(field: string): string {
  return field.split(';', 1)[0]?.trim().toLowerCase() ?? '';
}

/*
 * The reply room: how an answer leaves. It turns a decision or an upstream's answer into status, headers and bytes; it
 * decides nothing, reads no clock and keeps no state.
 */

/** What every governed response says about itself (decision 8.3). */
export interface Mark {
  readonly requestId: string;
  readonly recordId: string;
  readonly decision: string;
  /** Undefined when the headers leave before the record is complete. */
  readonly recordHash: string | undefined;
}

/** The gateway's own headers in front of `rest`, as a flat name, value list. */
export function governedHeaders(mark: Mark, rest: readonly string[]): string[] {
  const own = ['X-GW-Request-ID', mark.requestId, 'X-GW-Record-ID', mark.recordId, 'X-GW-Decision', mark.decision];
  if (mark.recordHash !== undefined) own.push('X-GW-Record-Hash', mark.recordHash);
  return rest.length === 0 ? own : own.concat(rest);
}

/** When to come again, whether to, and the id by which the provider knows the call. */
const PASSED: ReadonlySet<string> = new Set([
  ...['retry-after', 'retry-after-ms', 'x-ms-retry-after-ms', 'x-should-retry'],
  ...['x-request-id', 'request-id', 'x-amzn-requestid', 'apim-request-id', 'x-ms-request-id', 'x-goog-request-id'],
]);
/** What is left of the provider's limits, in the spellings that are in use. */
const LIMITS = /^(?:x-)?(?:[a-z0-9]+-)?rate-?limit(?:-|$)/;

const KNOWN = new KnownNames<boolean>();

/**
 * The header fields of a provider's answer by which a program decides what it does next; they stand on the answer of
 * the structured API too, whose body says the rest (decision 7.8).
 * @param headers flat name, value list
 */
export function passedHeaders(headers: readonly string[]): string[] {
  const passed: string[] = [];
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const name = headers[i] ?? '';
    if (KNOWN.found.get(name) ?? KNOWN.learn(name, isPassed)) passed.push(name, headers[i + 1] ?? '');
  }
  return passed;
}

function isPassed(name: string): boolean {
  const lower = name.toLowerCase();
  return PASSED.has(lower) || LIMITS.test(lower);
}
