import type { Destination, DurableEvent, DurableName, DurablePayloads } from '../base/events/destination.ts';
import type { Clock } from '../base/lib/clock.ts';
import type { Logger } from '../base/lib/log.ts';
import type { Effect, Store } from '../storage/contract/store.ts';
import { type Courier, startCourier } from './outbox-courier.ts';

const EVENTS = 'outbox';
const CURSORS = 'outbox_cursor';
/** Events that may wait; beyond it the oldest is dropped. */
const MAX_WAITING = 10_000;
const MAX_AGE_MS = 7 * 86_400_000;
const DIGITS = 16;

export interface OutboxOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  /** Who writes here: numbers are its own, and never compared with those of another. */
  readonly writer: string;
  readonly destinations: readonly Destination[];
  /** False while the clock is in doubt: then nothing is dropped for its age. */
  readonly mayExpire?: () => boolean;
  readonly maxWaiting?: number;
}

interface Entry {
  readonly key: string;
  readonly at: number;
  stored: boolean;
}

/** An event that is handed over to be committed. Exactly one of its verbs is called afterwards. */
export interface Posted {
  readonly effects: readonly Effect[];
  stored(): void;
  failed(): void;
}

const NOTHING: Posted = { effects: [], stored() {}, failed() {} };

/**
 * Events that must not be lost: each is committed with what it tells of, and stays until every destination has taken it or it is dropped for number or age. Each
 * destination has a cursor, which is moved on in a commit after it has taken a batch. Nothing passes an event that is handed over and not stored yet, so that
 * commits may become visible in any order. Without a destination nothing is read or written.
 */
export class Outbox {
  readonly #options: OutboxOptions;
  readonly #prefix: string;
  /** In the order of their numbers. */
  #waiting: Entry[] = [];
  readonly #cursors = new Map<string, string>();
  #couriers: readonly Courier[] = [];
  #next = 1;
  /** The last removal of what was dropped. */
  #removing: Promise<void> = Promise.resolve();
  readonly #dropped = { number: 0, age: 0 };

  private constructor(options: OutboxOptions) {
    this.#options = options;
    this.#prefix = `${encodeURIComponent(options.writer)}|`;
  }

  /** Reads what waits; {@link start} begins to deliver it. @throws Error when the store cannot be read */
  static async open(options: OutboxOptions): Promise<Outbox> {
    const outbox = new Outbox(options);
    if (outbox.active) await outbox.#read();
    return outbox;
  }

  /** Whether there is a destination. */
  get active(): boolean {
    return this.#options.destinations.length > 0;
  }

  /** Events that some destination has not taken. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** Events that were dropped since the start, for their number and for their age. */
  get dropped(): Readonly<{ number: number; age: number }> {
    return this.#dropped;
  }

  start(): void {
    this.#couriers = this.#options.destinations.map((destination) =>
      startCourier({
        ...this.#options,
        destination,
        take: (limit) => this.#take(destination.id, limit),
        taken: (last) => this.#taken(destination.id, last),
      }),
    );
  }

  async close(): Promise<void> {
    await Promise.all(this.#couriers.map((courier) => courier.close()));
    await this.#removing;
  }

  /** Makes ready an event that is to be committed with what it tells of; nothing without a destination. */
  post<N extends DurableName>(name: N, event: DurablePayloads[N]): Posted {
    if (!this.active) return NOTHING;
    const { clock, maxWaiting = MAX_WAITING } = this.#options;
    const at = clock.now();
    const entry: Entry = { key: `${this.#prefix}${String(this.#next++).padStart(DIGITS, '0')}`, at, stored: false };
    this.#waiting.push(entry);
    const effects: Effect[] = [{ op: 'put', space: EVENTS, key: entry.key, value: { id: entry.key, name, at, event } }];
    return {
      effects,
      stored: () => {
        entry.stored = true;
        if (this.#waiting.length > maxWaiting) this.#drop(this.#waiting.length - maxWaiting, 'number');
        for (const courier of this.#couriers) courier.wake();
      },
      failed: () => {
        this.#waiting = this.#waiting.filter((one) => one !== entry);
        for (const courier of this.#couriers) courier.wake();
      },
    };
  }

  async #read(): Promise<void> {
    const { store, destinations, log } = this.#options;
    for (const { key, value } of await store.list(CURSORS)) {
      const at = key.indexOf('|');
      if (`${key.slice(at + 1)}|` === this.#prefix) this.#cursors.set(key.slice(0, at), value as string);
    }
    // A destination that is configured no more keeps nothing back.
    const gone = [...this.#cursors.keys()].filter((id) => !destinations.some((one) => one.id === id));
    for (const id of gone) this.#cursors.delete(id);
    if (gone.length > 0)
      await store.commit(
        undefined,
        gone.map((id) => ({ op: 'delete', space: CURSORS, key: this.#cursorKey(id) })),
      );
    const passed = this.#passed();
    const found = (await store.list(EVENTS, { prefix: this.#prefix })).map(({ key, value }) => ({
      key,
      at: (value as DurableEvent).at,
      stored: true,
    }));
    this.#waiting = found.filter(({ key }) => key > passed);
    const done = found.filter(({ key }) => key <= passed);
    if (done.length > 0) await store.commit(undefined, done.map(removal));
    const last = [...this.#cursors.values(), this.#waiting.at(-1)?.key ?? this.#prefix].reduce((a, b) => (a > b ? a : b));
    this.#next = Number(last.slice(this.#prefix.length)) + 1;
    if (this.#waiting.length > 0) log.info({ events: this.#waiting.length }, 'events wait to be delivered');
  }

  /** The next events for a destination, as far as all before them are stored. */
  async #take(id: string, limit: number): Promise<readonly DurableEvent[]> {
    this.#dropAged();
    const after = this.#cursors.get(id) ?? this.#prefix;
    const taken: string[] = [];
    for (const { key, stored } of this.#waiting) {
      if (!stored || taken.length === limit) break;
      if (key > after) taken.push(key);
    }
    const values = await Promise.all(taken.map((key) => this.#options.store.get(EVENTS, key)));
    return values.filter((value) => value !== undefined) as DurableEvent[];
  }

  /** Moves a cursor on; what all have passed is removed afterwards. */
  async #taken(id: string, last: string): Promise<void> {
    const { store } = this.#options;
    await store.commit(undefined, [{ op: 'put', space: CURSORS, key: this.#cursorKey(id), value: last }]);
    this.#cursors.set(id, last);
    const passed = this.#passed();
    const done = this.#waiting.filter(({ key }) => key <= passed);
    if (done.length === 0) return;
    this.#waiting = this.#waiting.filter(({ key }) => key > passed);
    await store.commit(undefined, done.map(removal));
  }

  /** The last event that every destination has taken. */
  #passed(): string {
    return this.#options.destinations.map(({ id }) => this.#cursors.get(id) ?? this.#prefix).reduce((a, b) => (a < b ? a : b));
  }

  #dropAged(): void {
    const { clock, mayExpire } = this.#options;
    if (mayExpire?.() === false) return;
    const oldest = clock.now() - MAX_AGE_MS;
    const young = this.#waiting.findIndex(({ at, stored }) => !stored || at >= oldest);
    const aged = young === -1 ? this.#waiting.length : young;
    if (aged > 0) this.#drop(aged, 'age');
  }

  /** Drops the oldest; those that are not stored yet stay. */
  #drop(count: number, reason: 'number' | 'age'): void {
    const oldest = this.#waiting.splice(0, count);
    const dropped = oldest.filter(({ stored }) => stored);
    this.#waiting.unshift(...oldest.filter(({ stored }) => !stored));
    if (dropped.length === 0) return;
    this.#dropped[reason] += dropped.length;
    this.#options.log.warn({ events: dropped.length, reason }, 'events are dropped that could not be delivered');
    // Left over by a failure, they are read again by the next start.
    this.#removing = this.#options.store.commit(undefined, dropped.map(removal)).catch(() => undefined);
  }

  #cursorKey(id: string): string {
    return `${id}|${this.#prefix.slice(0, -1)}`;
  }
}

function removal({ key }: Entry): Effect {
  return { op: 'delete', space: EVENTS, key };
}
