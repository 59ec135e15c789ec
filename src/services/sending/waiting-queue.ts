import type { DurableName } from '../../base/events/destination.ts';

/** An event that some destination has not taken. */
export interface WaitingEvent {
  readonly key: string;
  readonly name: DurableName;
  readonly orgId: string;
  /** The org whose share of the places it takes. */
  readonly share: string;
  /** When it happened, milliseconds since the epoch. */
  readonly at: number;
  stored: boolean;
  /** Queues that it is in. */
  holders: number;
}

/** What waits for one destination, the oldest first. */
export class WaitingQueue {
  #events: WaitingEvent[] = [];
  /** By share and kind. */
  readonly #counts = new Map<string, number>();

  [Symbol.iterator](): IterableIterator<WaitingEvent> {
    return this.#events.values();
  }

  get first(): WaitingEvent | undefined {
    return this.#events[0];
  }

  push(event: WaitingEvent): void {
    this.#events.push(event);
    event.holders += 1;
    this.#count(event, 1);
  }

  /** The oldest, as far as all before them are stored. */
  ready(limit: number): readonly WaitingEvent[] {
    const unstored = this.#events.findIndex(({ stored }, at) => !stored || at === limit);
    return unstored === -1 ? [...this.#events] : this.#events.slice(0, unstored);
  }

  /**
   * Takes away those of which this is true, as far as it is true of all before them.
   * @returns those that are in no queue any more
   */
  shift(isDone: (event: WaitingEvent) => boolean): readonly WaitingEvent[] {
    const left = this.#events.findIndex((event) => !isDone(event));
    return this.#taken(this.#events.splice(0, left === -1 ? this.#events.length : left));
  }

  /** Takes away all of which this is not true. @returns as {@link shift} */
  keep(isWanted: (event: WaitingEvent) => boolean): readonly WaitingEvent[] {
    const gone = this.#events.filter((event) => !isWanted(event));
    if (gone.length > 0) this.#events = this.#events.filter(isWanted);
    return this.#taken(gone);
  }

  /** How many of a kind wait for the destination that take places of this org. */
  countOf(share: string, name: DurableName): number {
    return this.#counts.get(`${name} ${share}`) ?? 0;
  }

  /** Takes away the oldest of them that is stored. @returns undefined: none is */
  drop(share: string, name: DurableName): WaitingEvent | undefined {
    const at = this.#events.findIndex((event) => event.stored && event.name === name && event.share === share);
    const event = this.#events[at];
    if (event === undefined) return undefined;
    this.#events.splice(at, 1);
    this.#taken([event]);
    return event;
  }

  #taken(events: readonly WaitingEvent[]): readonly WaitingEvent[] {
    for (const event of events) {
      event.holders -= 1;
      this.#count(event, -1);
    }
    return events.filter(({ holders }) => holders === 0);
  }

  #count({ share, name }: WaitingEvent, by: 1 | -1): void {
    const key = `${name} ${share}`;
    const count = (this.#counts.get(key) ?? 0) + by;
    if (count > 0) this.#counts.set(key, count);
    else this.#counts.delete(key);
  }
}
