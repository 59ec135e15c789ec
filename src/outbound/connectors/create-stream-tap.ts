import type { Dialect, StreamRule } from '../../base/catalogue/types.ts';
import { ArrayTap } from './array-tap.ts';
import { AwsEventTap } from './aws-event-tap.ts';
import { EventReader } from './event-reader.ts';
import { LineTap } from './line-tap.ts';
import type { StreamWatch } from './seen-usage.ts';
import type { StreamTap } from './stream-tap.ts';

/** What the answer says about its framing counts before what the dialect usually has. */
const FRAMING_BY_TYPE: readonly (readonly [string, StreamRule['framing']])[] = [
  ['text/event-stream', 'sse'],
  ['application/x-ndjson', 'ndjson'],
  ['application/ndjson', 'ndjson'],
  ['application/stream+json', 'ndjson'],
  ['application/jsonl', 'ndjson'],
  ['application/vnd.amazon.eventstream', 'aws_event_stream'],
  ['application/json', 'json_array'],
];

/** How a streamed answer is framed. @param contentType of the answer, as received */
export function framingOf(rule: StreamRule, contentType: string | undefined): StreamRule['framing'] {
  const type = (contentType ?? '').toLowerCase();
  return FRAMING_BY_TYPE.find(([prefix]) => type.startsWith(prefix))?.[1] ?? rule.framing;
}

/**
 * A tap for one streamed answer. Without a dialect, or with one that does not stream, nothing is read from the bytes: there is no terminal event, and the
 * outcome is `complete` when the body ended.
 * @param contentType of the answer, as received
 * @param watch follows what the stream says and may end it
 */
export function createStreamTap(dialect: Dialect | undefined, contentType: string | undefined, watch?: StreamWatch): StreamTap {
  const rule = dialect?.streaming;
  if (dialect === undefined || rule === undefined) return new OpaqueTap();
  const framing = framingOf(rule, contentType);
  const events = new EventReader(dialect, rule, watch?.seen);
  if (framing === 'aws_event_stream') return new AwsEventTap(events, rule.payloadPath, watch);
  return framing === 'json_array' ? new ArrayTap(events, watch) : new LineTap(events, framing, watch);
}

class OpaqueTap implements StreamTap {
  readonly usage = undefined;
  readonly model = undefined;
  readonly stopsAt = -1;
  #ended = false;

  get outcome(): 'open' | 'complete' {
    return this.#ended ? 'complete' : 'open';
  }

  push(): number {
    return -1;
  }

  end(): void {
    this.#ended = true;
  }
}
