import type { StreamRule } from './types.ts';

type Framing = StreamRule['framing'];

/** Media types in which providers stream. `application/json` is one array of events where a stream was asked for, and a plain answer elsewhere. */
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

/** How a streamed answer is framed: what it says itself counts before what its dialect usually has. @param contentType of the answer, as received */
export function streamFraming(rule: StreamRule, contentType: string | undefined): Framing {
  const type = (contentType ?? '').toLowerCase();
  return FRAMING_BY_TYPE.find(([prefix]) => type.startsWith(prefix))?.[1] ?? rule.framing;
}
