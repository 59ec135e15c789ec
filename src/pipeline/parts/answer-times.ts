import type { Clock } from '../../base/lib/clock.ts';

/**
 * When a call was sent and its answer came: monotonic milliseconds. The last moment is taken of calls whose spans are
 * sent alone.
 */
export class AnswerTimes {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #isTraced: boolean;
  readonly sentAt: number;
  /** When the first bytes of the body came: set by who gets them. */
  firstAt: number | undefined;
  endedAt: number | undefined;

  constructor(clock: Pick<Clock, 'monotonic'>, isTraced: boolean) {
    this.sentAt = clock.monotonic();
    this.#clock = clock;
    this.#isTraced = isTraced;
  }

  /** Nothing more comes. */
  end(): void {
    if (this.#isTraced) this.endedAt = this.#clock.monotonic();
  }
}
