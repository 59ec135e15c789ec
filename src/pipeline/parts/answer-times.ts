import type { Clock } from '../../base/lib/clock.ts';

/** When a call was sent and its answer came: monotonic milliseconds. The later moments are taken of calls whose spans are sent alone. */
export class AnswerTimes {
  readonly #clock: Pick<Clock, 'monotonic'> | undefined;
  readonly sentAt: number;
  firstAt: number | undefined;
  endedAt: number | undefined;

  constructor(clock: Pick<Clock, 'monotonic'>, isTraced: boolean) {
    this.sentAt = clock.monotonic();
    this.#clock = isTraced ? clock : undefined;
  }

  /** Bytes of the answer's body came. */
  came(): void {
    if (this.#clock) this.firstAt ??= this.#clock.monotonic();
  }

  /** Nothing more comes. */
  end(): void {
    this.endedAt = this.#clock?.monotonic();
  }
}
