import type { Clock } from '../../base/lib/clock.ts';
import { every, type RunningJob } from '../../base/lib/every.ts';
import type { Logger } from '../../base/lib/log.ts';

/** Drops of one org are logged once in this time. */
const TELL_EVERY_MS = 60_000;

export type OutboxLoss = 'age' | 'number';

/** Durable events that were dropped, by their org: counted one by one, and logged in one line a minute for each org. */
export class DroppedEvents {
  readonly #log: Logger;
  readonly #counts = new Map<string, Record<OutboxLoss, number>>();
  /** What is not told yet. */
  readonly #untold = new Map<string, Record<OutboxLoss, number>>();
  /** True when nothing was dropped since the last line. */
  #isQuiet = true;
  readonly #job: RunningJob;

  constructor(clock: Clock, log: Logger) {
    this.#log = log;
    const everyMs = () => (this.#isQuiet ? undefined : TELL_EVERY_MS);
    this.#job = every({ clock, log }, { everyMs, run: () => this.#tell(), failed: 'dropped events could not be told of' });
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
    if (this.#isQuiet) void this.#job.now();
  }

  close(): void {
    void this.#job.stop();
  }

  #tell(): void {
    for (const [org, { age, number }] of this.#untold)
      this.#log.warn({ org_id: org, events: age + number, age, number }, 'events are dropped that could not be delivered');
    this.#isQuiet = this.#untold.size === 0;
    this.#untold.clear();
  }
}
