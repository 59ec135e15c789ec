import { streamFraming } from '../../base/catalogue/stream-types.ts';
import type { Dialect } from '../../base/catalogue/types.ts';
import { ArrayTap } from './array-tap.ts';
import { AwsEventTap } from './aws-event-tap.ts';
import { EventReader } from './event-reader.ts';
import { LineTap } from './line-tap.ts';
import type { ResponseState } from './response-state.ts';
import type { StreamWatch } from './seen-usage.ts';
import type { StreamTap } from './stream-tap.ts';

/**
 * A tap for one streamed answer. Without a dialect, or with one that does not stream, nothing is read from the bytes: there is no terminal event, and the
 * outcome is `complete` when the body ended.
 * @param contentType of the answer, as received
 * @param watch follows what the stream says and may end it
 * @param state is told which response the stream is of, and whether it has ended
 */
export function createStreamTap(
  dialect: Dialect | undefined,
  contentType: string | undefined,
  watch?: StreamWatch,
  state?: ResponseState,
): StreamTap {
  const rule = dialect?.streaming;
  if (dialect === undefined || rule === undefined) return new OpaqueTap();
  const framing = streamFraming(rule, contentType);
  const events = new EventReader(dialect, rule, watch?.seen, state);
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
