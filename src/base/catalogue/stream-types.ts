import type { StreamRule } from './types.ts';

type Framing = StreamRule['framing'];

/** What the body of an answer is: a stream, by its framing, or an answer that is whole when its body ends. */
export type BodyKind = Framing | 'whole';

/**
 * Media types in which providers stream. `application/json` is one array of events where a stream was asked for, and a
 * plain answer elsewhere.
 */
const FRAMING_BY_TYPE: readonly (readonly [string, Framing])[] = [
  ['text/event-stream', 'sse'],
  ['application/x-ndjson', 'ndjson'],
  ['application/ndjson', 'ndjson'],
  ['application/stream+json', 'ndjson'],
  ['application/jsonl', 'ndjson'],
  ['application/vnd.amazon.eventstream', 'aws_event_stream'],
  ['application/json', 'json_array'],
];
const EVENT_STREAMS: ReadonlySet<string> = new Set(FRAMING_BY_TYPE.filter(([, framing]) => framing !== 'json_array').map(([type]) => type));

/** True for a media type, in lower case and without parameters, whose bodies are streams whatever was asked for. */
export function isEventStream(mediaType: string): boolean {
  return EVENT_STREAMS.has(mediaType);
}

/**
 * The framing that a media type, in lower case and without parameters, says of a stream; undefined: no stream has this
 * type.
 */
export function labelledFraming(mediaType: string): Framing | undefined {
  return FRAMING_BY_TYPE.find(([type]) => type === mediaType)?.[1];
}

/** The media type by which a stream of this framing is known. */
export function streamMediaType(framing: Framing): string {
  return FRAMING_BY_TYPE.find((row) => row[1] === framing)?.[0] ?? '';
}

/**
 * How a streamed answer is framed: what it says itself counts before what its dialect usually has.
 * @param contentType of the answer, as received
 */
export function streamFraming(rule: StreamRule, contentType: string | undefined): Framing {
  const type = (contentType ?? '').toLowerCase();
  return FRAMING_BY_TYPE.find(([prefix]) => type.startsWith(prefix))?.[1] ?? rule.framing;
}
