import { type Destination, type DurableEvent, type DurableName, type DurablePayloads, orgOfEvent } from '../base/events/destination.ts';
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
/** Orgs and kinds of events of which it is remembered whether somebody wants them; orgs may be named by callers. */
const MAX_REMEMBERED = 10_000;
/** Among the cursors: the last number that was removed, so that no number is ever given out twice. No destination has this id. */
const REMOVED = '';

export interface OutboxOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  /** Who writes here: numbers are its own, and never compared with those of another. */
  readonly writer: string;
  /** Those that are there from the start; others come and go by {@link Outbox.add} and {@link Outbox.remove}. */
  readonly destinations?: readonly Destination[];
  /** False while the clock is in doubt: then nothing is dropped for its age. */
  readonly mayExpire?: () => boolean;
  readonly maxWaiting?: number;
}

interface Entry {
  readonly key: string;
  readonly name: DurableName;
  readonly orgId: string;
  readonly at: number;
  stored: boolean;
}

/** A destination with how far it is. */
interface Place {
  readonly destination: Destination;
  /** The last event that it has taken or does not want. */
  cursor: string;
  /** Undefined until the outbox is started. */
  courier: Courier | undefined;
}

/** An event that is handed over to be committed. Exactly one of its verbs is called afterwards. */
export interface Posted {
  readonly effects: readonly Effect[];
  stored(): void;
  failed(): void;
}

const NOTHING: Posted = { effects: [], stored() {}, failed() {} };

/**
 * Events that must not be lost: each is committed with what it tells of, and stays until every destination that wants it has taken it or it is dropped for number or age.
 * Each destination has a cursor, which is moved on in a commit after it has taken a batch. Nothing passes an event that is handed over and not stored yet, so that
 * commits may become visible in any order. Destinations come and go; what nobody wants is not written, and without a destination nothing is read or written.
 */
export class Outbox {
  readonly #options: OutboxOptions;
  readonly #prefix: string;
  /** In the order of their numbers. */
  #waiting: Entry[] = [];
  readonly #places = new Map<string, Place>();
  /** Cursors of an earlier run whose destinations have not come yet. */
  readonly #kept = new Map<string, string>();
  /** By kind and org. */
  readonly #wanted = new Map<string, boolean>();
  #started = false;
  #closed = false;
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
    await outbox.#read();
    for (const destination of options.destinations ?? []) outbox.add(destination);
    return outbox;
  }

  /** Whether there is a destination. */
  get active(): boolean {
    return this.#places.size > 0;
  }

  /** Events that some destination has not taken. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** When the oldest event that waits for a destination happened, milliseconds since the epoch. Looks through what waits. */
  oldestFor(id: string): number | undefined {
    const place = this.#places.get(id);
    if (place === undefined) return undefined;
    const { destination, cursor } = place;
    const since = destination.since ?? 0;
    return this.#waiting.find(({ key, name, orgId, at }) => key > cursor && at >= since && isFor(destination, name, orgId))?.at;
  }

  /** Events that were dropped since the start, for their number and for their age. */
  get dropped(): Readonly<{ number: number; age: number }> {
    return this.#dropped;
  }

  /** Whether some destination wants events of this kind, of this org or of none (`NO_ORG`); left out: of whichever org. Asked by calls, so it is looked up once. */
  wants(name: DurableName, orgId?: string): boolean {
    if (this.#places.size === 0) return false;
    const key = orgId === undefined ? name : `${name} ${orgId}`;
    const known = this.#wanted.get(key);
    if (known !== undefined) return known;
    let wanted = false;
    for (const { destination } of this.#places.values()) wanted ||= isFor(destination, name, orgId);
    if (this.#wanted.size >= MAX_REMEMBERED) this.#wanted.clear();
    this.#wanted.set(key, wanted);
    return wanted;
  }

  /** Whether some destination wants events of one of these kinds, of whichever org. */
  wantsAny(names: readonly DurableName[]): boolean {
    if (this.#places.size === 0) return false;
    for (const name of names) if (this.wants(name)) return true;
    return false;
  }

  /** A destination that gets what happens from its `since` on, or what it has not taken yet when it was there before; none where one of its id is there. */
  add(destination: Destination): void {
    const { id } = destination;
    if (this.#places.has(id)) return;
    const place: Place = { destination, cursor: this.#kept.get(id) ?? this.#prefix, courier: undefined };
    this.#kept.delete(id);
    this.#places.set(id, place);
    this.#wanted.clear();
    if (this.#started) this.#begin(place);
  }

  /** A destination that is there no more: it holds nothing back, and what waits for it alone is gone. Resolves when nothing is under way. */
  async remove(id: string): Promise<void> {
    const place = this.#places.get(id);
    if (place === undefined) return;
    this.#places.delete(id);
    this.#wanted.clear();
    await place.courier?.close();
    // Somebody may have brought it back meanwhile.
    if (this.#closed || this.#places.has(id)) return;
    await this.#forget([id]);
    await this.#removePassed();
  }

  /** Destinations may have changed their minds about what they want. */
  reconsider(): void {
    this.#wanted.clear();
    this.#wakeAll();
  }

  /** Begins to deliver; cursors of destinations that have not come by now are forgotten. */
  start(): void {
    this.#started = true;
    const gone = [...this.#kept.keys()];
    this.#kept.clear();
    this.#removing = this.#tidy(gone).catch((error: unknown) =>
      this.#options.log.warn({ err: error }, 'what destinations have left behind could not be removed; the next start tries again'),
    );
    for (const place of this.#places.values()) this.#begin(place);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#places.values()].map(async ({ courier }) => courier?.close()));
    await this.#removing;
  }

  /** Makes ready an event that is to be committed with what it tells of; nothing where no destination wants it. */
  post<N extends DurableName>(name: N, event: DurablePayloads[N]): Posted {
    const orgId = orgOfEvent({ name, event } as DurableEvent);
    if (!this.wants(name, orgId)) return NOTHING;
    const { clock, maxWaiting = MAX_WAITING } = this.#options;
    const at = clock.now();
    const entry: Entry = { key: `${this.#prefix}${String(this.#next++).padStart(DIGITS, '0')}`, name, orgId, at, stored: false };
    this.#waiting.push(entry);
    const effects: Effect[] = [{ op: 'put', space: EVENTS, key: entry.key, value: { id: entry.key, name, at, event } }];
    return {
      effects,
      stored: () => {
        entry.stored = true;
        if (this.#waiting.length > maxWaiting) this.#drop(this.#waiting.length - maxWaiting, 'number');
        this.#wakeAll();
      },
      failed: () => {
        this.#waiting = this.#waiting.filter((one) => one !== entry);
        this.#wakeAll();
      },
    };
  }

  #wakeAll(): void {
    for (const { courier } of this.#places.values()) courier?.wake();
  }

  #begin(place: Place): void {
    const { clock, log } = this.#options;
    place.courier = startCourier({
      clock,
      log,
      destination: place.destination,
      take: (limit) => this.#take(place, limit),
      taken: (last) => this.#taken(place, last),
    });
  }

  async #read(): Promise<void> {
    const { store, log } = this.#options;
    let last = this.#prefix;
    for (const { key, value } of await store.list(CURSORS)) {
      const at = key.indexOf('|');
      if (`${key.slice(at + 1)}|` !== this.#prefix) continue;
      const cursor = value as string;
      if (key.slice(0, at) !== REMOVED) this.#kept.set(key.slice(0, at), cursor);
      if (cursor > last) last = cursor;
    }
    this.#waiting = (await store.list(EVENTS, { prefix: this.#prefix })).map(({ key, value }) => {
      const event = value as DurableEvent;
      return { key, name: event.name, orgId: orgOfEvent(event), at: event.at, stored: true };
    });
    const newest = this.#waiting.at(-1)?.key ?? this.#prefix;
    this.#next = Number((newest > last ? newest : last).slice(this.#prefix.length)) + 1;
    if (this.#waiting.length > 0) log.info({ events: this.#waiting.length }, 'events wait to be delivered');
  }

  /** A destination that is configured no more keeps nothing back. */
  async #tidy(gone: readonly string[]): Promise<void> {
    if (gone.length > 0) await this.#forget(gone);
    if (this.#waiting.length > 0) await this.#removePassed();
  }

  /** The next events for a destination, as far as all before them are stored; it is moved past those that are not for it. */
  async #take(place: Place, limit: number): Promise<readonly DurableEvent[]> {
    this.#dropAged();
    const { destination } = place;
    const taken: string[] = [];
    let passed: string | undefined;
    for (const { key, name, orgId, at, stored } of this.#waiting) {
      if (!stored || taken.length === limit) break;
      if (key <= place.cursor) continue;
      if (at >= (destination.since ?? 0) && isFor(destination, name, orgId)) taken.push(key);
      else if (taken.length === 0) passed = key;
    }
    if (passed !== undefined) {
      place.cursor = passed;
      if (taken.length === 0) await this.#removePassed();
    }
    const values = await Promise.all(taken.map((key) => this.#options.store.get(EVENTS, key)));
    return values.filter((value) => value !== undefined) as DurableEvent[];
  }

  /** Moves a cursor on; what all have passed is removed afterwards. */
  async #taken(place: Place, last: string): Promise<void> {
    const { id } = place.destination;
    if (this.#places.get(id) !== place) return;
    await this.#options.store.commit(undefined, [this.#cursor(id, last)]);
    place.cursor = last;
    await this.#removePassed();
  }

  async #removePassed(): Promise<void> {
    let passed = this.#waiting.at(-1)?.key ?? this.#prefix;
    for (const { cursor } of this.#places.values()) if (cursor < passed) passed = cursor;
    const unstored = this.#waiting.find(({ stored }) => !stored)?.key;
    const isDone = ({ key }: Entry): boolean => key <= passed && (unstored === undefined || key < unstored);
    const done = this.#waiting.filter(isDone);
    if (done.length === 0) return;
    this.#waiting = this.#waiting.filter((entry) => !isDone(entry));
    await this.#options.store.commit(undefined, this.#removal(done));
  }

  async #forget(ids: readonly string[]): Promise<void> {
    // A number that only a forgotten cursor has named must not be given out again.
    const last = `${this.#prefix}${String(this.#next - 1).padStart(DIGITS, '0')}`;
    const cursors = ids.map((id): Effect => ({ op: 'delete', space: CURSORS, key: this.#cursorKey(id) }));
    await this.#options.store.commit(undefined, [...cursors, this.#cursor(REMOVED, last)]);
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
    this.#removing = this.#options.store.commit(undefined, this.#removal(dropped)).catch(() => undefined);
  }

  #removal(entries: readonly Entry[]): readonly Effect[] {
    const last = `${this.#prefix}${String(this.#next - 1).padStart(DIGITS, '0')}`;
    return [...entries.map(({ key }): Effect => ({ op: 'delete', space: EVENTS, key })), this.#cursor(REMOVED, last)];
  }

  #cursor(id: string, value: string): Effect {
    return { op: 'put', space: CURSORS, key: this.#cursorKey(id), value };
  }

  #cursorKey(id: string): string {
    return `${id}|${this.#prefix.slice(0, -1)}`;
  }
}

function isFor(destination: Destination, name: DurableName, orgId: string | undefined): boolean {
  return destination.wants === undefined || destination.wants(name, orgId);
}
