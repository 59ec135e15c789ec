import { Roster, type Seat } from './roster.ts';
import { Shares } from './shares.ts';

interface Waiter {
  readonly org: string;
  readonly caller: string;
  begin(): void;
}

/**
 * Work of which a bounded amount goes on at a time, shared as {@link Shares} says, and whose rest waits: the first
 * whose org and caller may take a place goes next, so that nobody waits behind those who hold all that they may.
 * Whoever uses it bounds how many wait.
 */
export class SharedLine {
  readonly #shares: Shares;
  readonly #waiting = new Roster<Waiter>();

  /** @param places at a time, for everybody together */
  constructor(places: number) {
    this.#shares = new Shares(places);
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /**
   * Calls `begin` once there is a place, at once where there is one.
   * @returns what gives the place back, or leaves the line; the second time nothing happens
   */
  enter(org: string, caller: string, begin: () => void): () => void {
    let over = false;
    let seat: Seat<Waiter> | undefined;
    if (this.#shares.full(org, caller) === undefined) {
      this.#shares.take(org, caller);
      begin();
    } else {
      seat = this.#waiting.add({ org, caller, begin });
    }
    return () => {
      if (over) return;
      over = true;
      if (seat !== undefined && this.#waiting.remove(seat)) return;
      this.#shares.give(org, caller);
      this.#next();
    };
  }

  #next(): void {
    for (const seat of this.#waiting.seats()) {
      const { org, caller, begin } = seat.value;
      if (this.#shares.full(org, caller) !== undefined) continue;
      this.#waiting.remove(seat);
      this.#shares.take(org, caller);
      begin();
    }
  }
}
