import type { Clock } from '../../base/lib/clock.ts';
import type { Logger } from '../../base/lib/log.ts';

/** Drops of one org are told once in so long. */
const TELL_EVERY_MS = 60_000;

export type OutboxLoss = 'age' | 'number';

/** Durable events that were dropped, by the org whose they were: counted one by one, and told of in lines that do not come one for each. */
export class DroppedEvents {
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #counts = new Map<string, Record<OutboxLoss, number>>();
  /** What is not told yet. */
  readonly #untold = new Map<string, Record<OutboxLoss, number>>();
  #cancelTimer: (() => void) | undefined;

  constructor(clock: Clock, log: Logger) {
    this.#clock = clock;
    this.#log = log;
  }

  /** Since the start, of all orgs. */
  get all(): Readonly<Record<OutboxLoss, number>> {
    const sum = { age: 0, number: 0 };
    for (const { age, number } of this.#counts.values()) {
      sum.age += age;
      sum.number += number;
    }
    return sum;
  }

  /** Since the start: org, reason, count. */
  rows(): readonly (readonly [org: string, reason: OutboxLoss, count: number])[] {
    return [...this.#counts].flatMap(([org, { age, number }]) => [[org, 'number', number] as const, [org, 'age', age] as const]);
  }

  add(org: string, reason: OutboxLoss, events: number): void {
    for (const counts of [this.#counts, this.#untold]) {
      const before = counts.get(org) ?? { age: 0, number: 0 };
      counts.set(org, { ...before, [reason]: before[reason] + events });
    }
    if (this.#cancelTimer === undefined) this.#tell();
  }

  close(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
  }

  #tell(): void {
    for (const [org, { age, number }] of this.#untold)
      this.#log.warn({ org_id: org, events: age + number, age, number }, 'events are dropped that could not be delivered');
    const isQuiet = this.#untold.size === 0;
    this.#untold.clear();
    this.#cancelTimer = isQuiet ? undefined : this.#clock.after(TELL_EVERY_MS, () => this.#tell());
  }
}
