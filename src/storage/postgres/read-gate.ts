import type { Clock } from '../../base/lib/clock.ts';
import { unreadable } from './database-errors.ts';

/** A read that has been under way for so long has its snapshot, whatever it goes on to look through. */
const YOUNG_MS = 50;
/** How long a read waits while nobody knows what became of a commit. */
const PATIENCE_MS = 5_000;

/**
 * Keeps apart what the writer of a store makes visible and what that store's reads bring: a read sees no commit that
 * has not resolved. The database shows a commit as soon as it has it, and the writer hears of that a moment later. So
 * the end of a transaction waits for reads that began before it, as long as they can still choose what they see, and
 * reads that begin in that moment wait until it is over.
 */
export class ReadGate {
  readonly #clock: Clock;
  /** When each read began, monotonic milliseconds. */
  readonly #reads = new Map<symbol, number>();
  #wake: (() => void) | undefined;
  /** Resolves when the gate opens; undefined: it is open. */
  #shut: Promise<void> | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Does what reads. Rejects with what it throws, and when the gate stays shut for too long. */
  async read<T>(work: () => Promise<T>): Promise<T> {
    while (this.#shut) await this.#opened(this.#shut);
    const own = Symbol('read');
    this.#reads.set(own, this.#clock.monotonic());
    let done: T;
    try {
      done = await work();
    } finally {
      this.#reads.delete(own);
      this.#wake?.();
    }
    // It was too slow to be waited for, and may have seen what is not told yet.
    if (this.#shut) await this.#opened(this.#shut);
    return done;
  }

  /** Does what makes something visible and tells of it, while nothing is read. One at a time. */
  async shut<T>(work: () => Promise<T>): Promise<T> {
    let open = (): void => undefined;
    this.#shut = new Promise((resolve) => {
      open = resolve;
    });
    try {
      for (const began of [...this.#reads]) await this.#over(...began);
      return await work();
    } finally {
      this.#shut = undefined;
      open();
    }
  }

  /** Waits until a read is over, or not young any more. */
  async #over(read: symbol, began: number): Promise<void> {
    const left = began + YOUNG_MS - this.#clock.monotonic();
    if (left <= 0 || !this.#reads.has(read)) return;
    await new Promise<void>((resolve) => {
      const cancel = this.#clock.after(left, resolve);
      this.#wake = () => {
        if (this.#reads.has(read)) return;
        cancel();
        resolve();
      };
      this.#wake();
    });
    this.#wake = undefined;
  }

  async #opened(shut: Promise<void>): Promise<void> {
    let cancel = (): void => undefined;
    const tooLong = new Promise<never>((_resolve, reject) => {
      cancel = this.#clock.after(PATIENCE_MS, () => reject(unreadable(new Error('what became of a commit is not known yet'))));
    });
    try {
      await Promise.race([shut, tooLong]);
    } finally {
      cancel();
    }
  }
}
