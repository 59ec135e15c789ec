/** A place in a {@link Roster}. */
export interface Seat<T> {
  readonly value: T;
}

class Chair<T> implements Seat<T> {
  readonly value: T;
  before: Chair<T> | undefined;
  behind: Chair<T> | undefined;
  isTaken = true;

  constructor(value: T, before: Chair<T> | undefined) {
    this.value = value;
    this.before = before;
  }
}

/**
 * What is under way, in the order in which it came: for things that come and go with each call. A `Set` keeps the table
 * that it had before it grew or shrank linked to the next one, so that V8 holds everything that was in it until the
 * next full collection; here what has left is linked to nothing.
 */
export class Roster<T> {
  #first: Chair<T> | undefined;
  #last: Chair<T> | undefined;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Adds a value behind all others. @returns what takes it out again */
  add(value: T): Seat<T> {
    const chair = new Chair(value, this.#last);
    if (this.#last === undefined) this.#first = chair;
    else this.#last.behind = chair;
    this.#last = chair;
    this.#size++;
    return chair;
  }

  /** @returns false: it was taken out before */
  remove(seat: Seat<T>): boolean {
    const chair = seat as Chair<T>;
    if (!chair.isTaken) return false;
    const { before, behind } = chair;
    if (before === undefined) this.#first = behind;
    else before.behind = behind;
    if (behind === undefined) this.#last = before;
    else behind.before = before;
    chair.before = undefined;
    chair.behind = undefined;
    chair.isTaken = false;
    this.#size--;
    return true;
  }

  /** All that are taken now. */
  seats(): readonly Seat<T>[] {
    const seats: Seat<T>[] = [];
    for (let chair = this.#first; chair !== undefined; chair = chair.behind) seats.push(chair);
    return seats;
  }

  /** The value at hand may be taken out meanwhile. Where the next one is taken out with it the walk ends there. */
  *[Symbol.iterator](): IterableIterator<T> {
    for (let chair = this.#first; chair?.isTaken; ) {
      const { value, behind } = chair;
      yield value;
      chair = behind;
    }
  }
}
