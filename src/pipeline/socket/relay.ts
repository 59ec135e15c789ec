import type { Clock } from '../../base/lib/clock.ts';
import type { ByteChannel, ChannelEvents } from '../../base/model/channel.ts';

/** One direction has ended: the other may stay silent for this long. */
const HALF_OPEN_MS = 120_000;
/** The gateway is stopping: silence of this length counts as the end. */
const DRAIN_SILENCE_MS = 2_000;

/** What a relayed connection carried. */
export interface RelayedBytes {
  readonly up: number;
  readonly down: number;
}

/**
 * Copies bytes both ways until both sides are closed, with back-pressure. An end in one direction is passed on and
 * leaves the other open; a side that broke off breaks the other one off, so that it does not look like one that had
 * said all.
 * @returns what breaks both off
 */
export function relay(client: ByteChannel, upstream: ByteChannel, clock: Clock, onClosed: (bytes: RelayedBytes) => void): () => void {
  const relayed = new Relay(client, upstream, clock, onClosed);
  relayed.start();
  return () => relayed.breakOff();
}

class Relay {
  readonly #sides: readonly [client: ByteChannel, upstream: ByteChannel];
  readonly #clock: Clock;
  readonly #onClosed: (bytes: RelayedBytes) => void;
  readonly #bytes: [up: number, down: number] = [0, 0];
  #closed = 0;
  /** Longest silence that is allowed at the moment. */
  #silenceMs: number | undefined;
  #activeAt = 0;
  #cancel: (() => void) | undefined;

  constructor(client: ByteChannel, upstream: ByteChannel, clock: Clock, onClosed: (bytes: RelayedBytes) => void) {
    this.#sides = [client, upstream];
    this.#clock = clock;
    this.#onClosed = onClosed;
  }

  start(): void {
    const [client, upstream] = this.#sides;
    upstream.open(this.#events(1, upstream, client));
    client.open({ ...this.#events(0, client, upstream), onShutdown: () => this.#limitSilence(DRAIN_SILENCE_MS) });
  }

  breakOff(): void {
    for (const side of this.#sides) side.reset();
  }

  #events(direction: 0 | 1, from: ByteChannel, to: ByteChannel): ChannelEvents {
    return {
      onData: (chunk) => {
        this.#bytes[direction] += chunk.length;
        if (this.#silenceMs !== undefined) this.#activeAt = this.#clock.monotonic();
        if (!to.write(chunk)) from.pause();
      },
      onEnd: () => {
        to.end();
        if (this.#silenceMs === undefined) this.#limitSilence(HALF_OPEN_MS);
      },
      onDrain: () => to.resume(),
      onClose: (broken) => {
        if (broken) to.reset();
        else to.close();
        this.#closed++;
        if (this.#closed === 2) this.#finish();
      },
    };
  }

  #limitSilence(ms: number): void {
    this.#silenceMs = ms;
    this.#activeAt = this.#clock.monotonic();
    this.#watch(ms);
  }

  #watch(ms: number): void {
    this.#cancel?.();
    this.#cancel = this.#clock.after(ms, () => {
      const left = this.#activeAt + (this.#silenceMs ?? 0) - this.#clock.monotonic();
      if (left > 0) this.#watch(left);
      else this.breakOff();
    });
  }

  #finish(): void {
    this.#cancel?.();
    const [up, down] = this.#bytes;
    this.#onClosed({ up, down });
  }
}
