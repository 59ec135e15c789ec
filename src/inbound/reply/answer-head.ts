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
