import {
  type Destination,
  type DurableEvent,
  type DurableName,
  type DurablePayloads,
  NO_ORG,
  orgOfEvent,
} from '../../base/events/destination.ts';
import type { Clock } from '../../base/lib/clock.ts';
import type { Logger } from '../../base/lib/log.ts';
import { Shares } from '../../base/lib/shares.ts';
import { CONTROL_BOUNDS } from '../../base/model/org-bounds.ts';
import type { Effect, Store } from '../../storage/contract/store.ts';
import { STRANGERS } from '../registers/sharers.ts';
import { DroppedEvents, type OutboxLoss } from './dropped-events.ts';
import { type Courier, startCourier } from './outbox-courier.ts';
import { type WaitingEvent, WaitingQueue } from './waiting-queue.ts';

const EVENTS = 'outbox';
const CURSORS = 'outbox_cursor';
const MAX_AGE_MS = 7 * 86_400_000;
const DIGITS = 16;
/** Orgs and kinds of events of which it is remembered whether somebody wants them; orgs may be named by callers. */
const MAX_REMEMBERED = CONTROL_BOUNDS.subscriptionKinds.all;
/**
 * Among the cursors: the last number that was removed, so that no number is ever given out twice. No destination has
 * this id.
 */
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
  /**
   * Whether somebody has laid down this org: those that nobody has share one part of the places. Default: all are
   * known.
   */
  readonly knownOrg?: (orgId: string) => boolean;
  readonly maxWaiting?: number;
}

/** A destination with how far it is. */
interface Place {
  readonly destination: Destination;
  /** What it has not taken. */
  readonly queue: WaitingQueue;
  /** The last event that it has taken. */
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
 * Events that must not be lost: each is committed with what it tells of, and stays until every destination that wants
 * it has taken it or it is dropped for number or age. Where more wait than may, the org with most of them loses, of
 * those the kind of which there is most, and of these the oldest that waits for the destination with most: neither a
 * flood of one org nor a destination that is down takes anything from another (decision 7.12). Each destination has a
 * cursor, which is moved on in a commit after it has taken a batch. Nothing passes an event that is handed over and not
 * stored yet, so that commits may become visible in any order. Destinations come and go; what nobody wants is not
 * written, and without a destination nothing is read or written.
 */
export class Outbox {
  readonly #options: OutboxOptions;
  readonly #prefix: string;
  /** By org, and by kind. */
  readonly #shares: Shares;
  /** What was there at the opening or has come since, in order; empty once the outbox is started. */
  #unclaimed: WaitingEvent[] = [];
  readonly #places = new Map<string, Place>();
  /** Cursors of an earlier run whose destinations have not come yet. */
  readonly #kept = new Map<string, string>();
  /** Who wants what, by kind and org. */
  readonly #wanted = new Map<string, readonly Place[]>();
  #started = false;
  #closed = false;
  #next = 1;
  /** The last removal of what was dropped. */
  #removing: Promise<void> = Promise.resolve();
  readonly #dropped: DroppedEvents;

  private constructor(options: OutboxOptions) {
    const { clock, log, maxWaiting = CONTROL_BOUNDS.outbox.all } = options;
    this.#options = options;
    this.#shares = new Shares(maxWaiting);
    this.#dropped = new DroppedEvents(clock, log);
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
    return this.#shares.taken;
  }

  /** When the oldest event that waits for a destination happened, milliseconds since the epoch. */
  oldestFor(id: string): number | undefined {
    return this.#places.get(id)?.queue.first?.at;
  }

  /** Events that were dropped since the start, for their number and for their age. */
  get dropped(): Readonly<Record<OutboxLoss, number>> {
    return this.#dropped.all;
  }

  /** The same by org; of those that nobody has laid down together, as {@link STRANGERS}. */
  droppedByOrg(): ReturnType<DroppedEvents['rows']> {
    return this.#dropped.rows();
  }

  /**
   * Whether some destination wants events of this kind, of this org or of none (`NO_ORG`); left out: of whichever org.
   * Asked by calls, so it is looked up once.
   */
  wants(name: DurableName, orgId?: string): boolean {
    return this.#places.size > 0 && this.#wanting(name, orgId).length > 0;
  }

  #wanting(name: DurableName, orgId: string | undefined): readonly Place[] {
    const key = orgId === undefined ? name : `${name} ${orgId}`;
    const known = this.#wanted.get(key);
    if (known !== undefined) return known;
    const wanting = [...this.#places.values()].filter(({ destination }) => isFor(destination, name, orgId));
    if (this.#wanted.size >= MAX_REMEMBERED) this.#wanted.clear();
    this.#wanted.set(key, wanting);
    return wanting;
  }

  /** Whether some destination wants events of one of these kinds, of whichever org. */
  wantsAny(names: readonly DurableName[]): boolean {
    if (this.#places.size === 0) return false;
    for (const name of names) if (this.wants(name)) return true;
    return false;
  }

  /**
   * A destination that gets what happens from its `since` on, or what it has not taken yet when it was there before;
   * none where one of its id is there.
   */
  add(destination: Destination): void {
    const { id } = destination;
    if (this.#places.has(id)) return;
    const place: Place = { destination, queue: new WaitingQueue(), cursor: this.#kept.get(id) ?? this.#prefix, courier: undefined };
    this.#kept.delete(id);
    for (const event of this.#all()) if (event.key > place.cursor && this.#isFor(place, event)) place.queue.push(event);
    this.#places.set(id, place);
    this.#wanted.clear();
    if (this.#started) this.#begin(place);
  }

  /**
   * A destination that is there no more: it holds nothing back, and what waits for it alone is gone. Resolves when
   * nothing is under way.
   */
  async remove(id: string): Promise<void> {
    const place = this.#places.get(id);
    if (place === undefined) return;
    this.#places.delete(id);
    this.#wanted.clear();
    await place.courier?.close();
    // Somebody may have brought it back meanwhile.
    if (this.#closed || this.#places.has(id)) return;
    await this.#forget([id]);
    const gone = place.queue.keep(() => false);
    if (this.#started) await this.#free(gone);
  }

  /**
   * Destinations may have changed their minds about what they want: each keeps what it still wants, and gets what it
   * wants now and has not passed.
   */
  reconsider(): void {
    this.#wanted.clear();
    const all = this.#all();
    const gone: WaitingEvent[] = [];
    for (const place of this.#places.values()) {
      const had = new Set(place.queue);
      const passed = this.#started ? (place.queue.first?.key ?? this.#keyOf(this.#next - 1)) : place.cursor;
      const wanted = all.filter((event) => (had.has(event) || event.key > passed) && this.#isFor(place, event));
      if (wanted.length === had.size && wanted.every((event) => had.has(event))) continue;
      gone.push(...place.queue.keep(() => false));
      for (const event of wanted) place.queue.push(event);
    }
    // Before the start destinations are still to come that may want it.
    if (this.#started) this.#removing = this.#free(gone.filter(({ holders }) => holders === 0)).catch(() => undefined);
    for (const { courier } of this.#places.values()) courier?.wake();
  }

  /** Begins to deliver; cursors of destinations that have not come by now are forgotten. */
  start(): void {
    this.#started = true;
    const gone = [...this.#kept.keys()];
    this.#kept.clear();
    const unwanted = this.#unclaimed.filter(({ holders, stored }) => holders === 0 && stored);
    this.#unclaimed = [];
    this.#removing = this.#tidy(gone, unwanted).catch((error: unknown) =>
      this.#options.log.warn({ err: error }, 'what destinations have left behind could not be removed; the next start tries again'),
    );
    for (const place of this.#places.values()) this.#begin(place);
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#dropped.close();
    await Promise.all([...this.#places.values()].map(async ({ courier }) => courier?.close()));
    await this.#removing;
  }

  /** Makes ready an event that is to be committed with what it tells of; nothing where no destination wants it. */
  post<N extends DurableName>(name: N, event: DurablePayloads[N]): Posted {
    const orgId = orgOfEvent({ name, event } as DurableEvent);
    const places = this.#places.size === 0 ? [] : this.#wanting(name, orgId);
    if (places.length === 0) return NOTHING;
    const at = this.#options.clock.now();
    const waiting = this.#waits({ key: this.#keyOf(this.#next++), name, orgId, at, stored: false });
    for (const { queue } of places) queue.push(waiting);
    const wake = (): void => {
      for (const { courier } of places) courier?.wake();
    };
    const effects: Effect[] = [{ op: 'put', space: EVENTS, key: waiting.key, value: { id: waiting.key, name, at, event } }];
    return {
      effects,
      stored: () => {
        waiting.stored = true;
        this.#makeRoom();
        wake();
      },
      failed: () => {
        for (const { queue } of places) queue.keep((one) => one !== waiting);
        this.#unclaimed = this.#unclaimed.filter((one) => one !== waiting);
        this.#shares.give(waiting.share, waiting.name);
        wake();
      },
    };
  }

  /** Takes a place for an event, whatever there is. */
  #waits(event: Omit<WaitingEvent, 'holders' | 'share'>): WaitingEvent {
    const { knownOrg = () => true } = this.#options;
    const share = event.orgId === NO_ORG || knownOrg(event.orgId) ? event.orgId : STRANGERS;
    const waiting: WaitingEvent = { ...event, share, holders: 0 };
    this.#shares.take(share, event.name);
    if (!this.#started) this.#unclaimed.push(waiting);
    return waiting;
  }

  /** Everything that waits, in order. */
  #all(): readonly WaitingEvent[] {
    if (!this.#started) return this.#unclaimed;
    const all = new Set<WaitingEvent>();
    for (const { queue } of this.#places.values()) for (const event of queue) all.add(event);
    return [...all].sort((a, b) => (a.key < b.key ? -1 : 1));
  }

  #isFor({ destination }: Place, { name, orgId, at }: WaitingEvent): boolean {
    return at >= (destination.since ?? 0) && isFor(destination, name, orgId);
  }

  #keyOf(number: number): string {
    return `${this.#prefix}${String(number).padStart(DIGITS, '0')}`;
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
    let newest = this.#prefix;
    for (const { key, value } of await store.list(EVENTS, { prefix: this.#prefix })) {
      const event = value as DurableEvent;
      this.#waits({ key, name: event.name, orgId: orgOfEvent(event), at: event.at, stored: true });
      newest = key;
    }
    this.#next = Number((newest > last ? newest : last).slice(this.#prefix.length)) + 1;
    if (this.waiting > 0) log.info({ events: this.waiting }, 'events wait to be delivered');
  }

  /** A destination that is configured no more keeps nothing back. */
  async #tidy(gone: readonly string[], unwanted: readonly WaitingEvent[]): Promise<void> {
    if (gone.length > 0) await this.#forget(gone);
    await this.#free(unwanted);
  }

  /** The next events for a destination, as far as all before them are stored. */
  async #take(place: Place, limit: number): Promise<readonly DurableEvent[]> {
    this.#dropAged(place);
    const ready = place.queue.ready(limit);
    const values = await Promise.all(ready.map(({ key }) => this.#options.store.get(EVENTS, key)));
    const there = values.filter((value) => value !== undefined) as DurableEvent[];
    // Dropped while they were read: what is behind them has its turn.
    if (there.length === 0 && ready.length > 0 && place.queue.first !== ready[0]) return this.#take(place, limit);
    return there;
  }

  /** Moves a cursor on; what all have passed is removed afterwards. */
  async #taken(place: Place, last: string): Promise<void> {
    const { id } = place.destination;
    if (this.#places.get(id) !== place) return;
    await this.#options.store.commit(undefined, [this.#cursor(id, last)]);
    place.cursor = last;
    await this.#free(place.queue.shift(({ key }) => key <= last));
  }

  /** Gives back the places of events that are in no queue any more, and removes what is stored of them. */
  async #free(events: readonly WaitingEvent[]): Promise<void> {
    if (events.length === 0) return;
    for (const { share, name } of events) this.#shares.give(share, name);
    await this.#options.store.commit(undefined, this.#removal(events));
  }

  async #forget(ids: readonly string[]): Promise<void> {
    // A number that only a forgotten cursor has named must not be given out again.
    const last = this.#keyOf(this.#next - 1);
    const cursors = ids.map((id): Effect => ({ op: 'delete', space: CURSORS, key: this.#cursorKey(id) }));
    await this.#options.store.commit(undefined, [...cursors, this.#cursor(REMOVED, last)]);
  }

  #dropAged({ queue }: Place): void {
    const { clock, mayExpire } = this.#options;
    if (mayExpire?.() === false) return;
    const oldest = clock.now() - MAX_AGE_MS;
    const aged = queue.shift(({ at, stored }) => stored && at < oldest);
    for (const { share, name } of aged) this.#shares.give(share, name);
    this.#drop(aged, 'age');
  }

  /** Drops as many as wait too many; those that are not stored yet stay. */
  #makeRoom(): void {
    const { maxWaiting = CONTROL_BOUNDS.outbox.all } = this.#options;
    const dropped: WaitingEvent[] = [];
    while (this.#shares.taken > maxWaiting) {
      const share = this.#shares.largest() ?? NO_ORG;
      const kind = this.#shares.largestCaller(share) as DurableName;
      const event = this.#fullest(share, kind)?.drop(share, kind);
      if (event === undefined) break;
      if (event.holders > 0) continue;
      this.#shares.give(share, kind);
      dropped.push(event);
    }
    this.#drop(dropped, 'number');
  }

  /** The queue with most events of this kind. */
  #fullest(share: string, name: DurableName): WaitingQueue | undefined {
    let fullest: WaitingQueue | undefined;
    let most = 0;
    for (const { queue } of this.#places.values()) {
      const count = queue.countOf(share, name);
      if (count <= most) continue;
      fullest = queue;
      most = count;
    }
    return fullest;
  }

  /** Of events that have no place any more. */
  #drop(events: readonly WaitingEvent[], reason: OutboxLoss): void {
    if (events.length === 0) return;
    for (const { share } of events) this.#dropped.add(share, reason, 1);
    this.#unclaimed = this.#unclaimed.filter((event) => !events.includes(event));
    // Left over by a failure, they are read again by the next start.
    this.#removing = this.#options.store.commit(undefined, this.#removal(events)).catch(() => undefined);
  }

  #removal(entries: readonly WaitingEvent[]): readonly Effect[] {
    const last = this.#keyOf(this.#next - 1);
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
