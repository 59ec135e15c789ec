import type { Clock } from './clock.ts';

interface Kind {
  /** Monotonic milliseconds. */
  until: number;
  left: number;
  suppressed: number;
}

/**
 * Lets through so many lines of each kind in a span of time, so that no stranger can fill a disk with the log of what
 * he was refused. Kinds are a closed set: each is remembered for good.
 */
export class LineLimiter {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #lines: number;
  readonly #spanMs: number;
  readonly #kinds = new Map<string, Kind>();

  constructor(clock: Pick<Clock, 'monotonic'>, lines = 20, spanMs = 10_000) {
    this.#clock = clock;
    this.#lines = lines;
    this.#spanMs = spanMs;
  }

  /** Undefined: keep this line back. Else how many lines of its kind were kept back since the last one. */
  take(name: string): number | undefined {
    const now = this.#clock.monotonic();
    let kind = this.#kinds.get(name);
    if (kind === undefined) {
      kind = { until: now + this.#spanMs, left: this.#lines, suppressed: 0 };
      this.#kinds.set(name, kind);
    } else if (now >= kind.until) {
      kind.until = now + this.#spanMs;
      kind.left = this.#lines;
    }
    if (kind.left === 0) {
      kind.suppressed += 1;
      return undefined;
    }
    kind.left -= 1;
    const { suppressed } = kind;
    kind.suppressed = 0;
    return suppressed;
  }
}
