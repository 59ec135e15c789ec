import { parsed } from '../../base/json/json-picker.ts';
import type { Usage } from '../../base/model/usage.ts';
import { compilePath, type Path, valueAt } from './answer-paths.ts';
import { latin1 } from './answer-reader.ts';
import { type AwsFrame, AwsFrames } from './aws-frames.ts';
import type { EventReader, StreamTap } from './event-reader.ts';
import { endsHere, type StreamWatch } from './seen-usage.ts';

/**
 * Taps AWS event streams, as Amazon Bedrock answers. The event's name is a header of its message. A message of another
 * kind than `event` is an error, and so are bytes whose checksums do not hold; the client is given them all the same.
 */
export class AwsEventTap implements StreamTap {
  readonly #events: EventReader;
  readonly #payloadPath: Path | undefined;
  readonly #frames = new AwsFrames((frame) => this.#read(frame));
  /** Bytes of earlier chunks. */
  #base = 0;
  #terminalStart = -1;
  #failed = false;
  #ended = false;
  readonly #watch: StreamWatch | undefined;

  /** @param payloadPath dotted path of the event proper, in base64; a payload without it is the event */
  constructor(events: EventReader, payloadPath: string | undefined, watch?: StreamWatch) {
    this.#events = events;
    this.#watch = watch?.mayStop === false ? undefined : watch;
    this.#payloadPath = payloadPath === undefined ? undefined : compilePath(payloadPath);
  }

  get outcome(): 'open' | 'complete' | 'error' {
    if (this.#failed || this.#events.failed) return 'error';
    if (this.#events.done) return 'complete';
    if (this.#frames.broken) return 'error';
    return this.#ended && (!this.#events.hasTerminal || (this.#events.finished && this.#frames.isBetween)) ? 'complete' : 'open';
  }

  get usage(): Usage | undefined {
    return this.#events.usage;
  }

  get model(): string | undefined {
    return this.#events.model;
  }

  get stopsAt(): number {
    return this.#frames.stoppedAt;
  }

  push(chunk: Uint8Array): number {
    this.#frames.push(chunk);
    const base = this.#base;
    this.#base += chunk.length;
    return this.#terminalStart === -1 ? -1 : Math.max(0, this.#terminalStart - base);
  }

  end(): void {
    this.#ended = true;
  }

  #read({ start, headers, payload }: AwsFrame): void {
    if ((headers.get(':message-type') ?? 'event') !== 'event') {
      this.#failed = true;
      return;
    }
    this.#events.read(payload === undefined ? '' : this.#eventOf(payload), headers.get(':event-type') ?? '');
    if (this.#events.done && this.#terminalStart === -1) this.#terminalStart = start;
    if (this.#watch && this.#terminalStart === -1 && endsHere(this.#watch)) this.#frames.stop();
  }

  #eventOf(payload: Buffer): string {
    const text = latin1(payload);
    if (this.#payloadPath === undefined) return text;
    const inner = valueAt(parsed(text), this.#payloadPath);
    return typeof inner === 'string' ? Buffer.from(inner, 'base64').toString('latin1') : text;
  }
}
