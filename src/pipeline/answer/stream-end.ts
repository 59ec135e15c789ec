import type { Clock } from '../../base/lib/clock.ts';

/** How long a stream's end is waited for after its terminal event (decision 7.9), and how long that may be silent once it has begun. */
const END_GRACE_MS = 250;

/** Waits for the end of a stream whose terminal event has begun. That may be long, and its way slow: the time runs from its last byte. */
export class StreamEnd {
  readonly #clock: Clock;
  readonly #onOver: () => void;
  #isWhole = false;
  #cancel: (() => void) | undefined;

  /** @param onOver the end did not come in time */
  constructor(clock: Clock, onOver: () => void) {
    this.#clock = clock;
    this.#onOver = onOver;
  }

  /** Bytes came. @param isWhole the terminal event is here to its end */
  came(isWhole: boolean): void {
    if (this.#isWhole) return;
    this.#isWhole = isWhole;
    this.#cancel?.();
    this.#cancel = this.#clock.after(END_GRACE_MS, this.#onOver);
  }

  cancel(): void {
    this.#cancel?.();
  }
}
