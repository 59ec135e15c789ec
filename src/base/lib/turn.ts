/** One thing at a time, in the order in which it is asked for. What fails stops nobody who comes after it. */
export class Turn {
  /** Settles when everything asked for so far is over; undefined: nothing is under way. */
  #last: Promise<unknown> | undefined;

  /** Does the work when everything asked for before it is over, or at once. Rejects with what the work throws. */
  take<T>(work: () => Promise<T>): Promise<T> {
    const mine = this.#last === undefined ? atOnce(work) : this.#last.then(work);
    const over = () => {
      if (this.#last === settled) this.#last = undefined;
    };
    const settled = mine.then(over, over);
    this.#last = settled;
    return mine;
  }

  /** True while something is under way. */
  get isTaken(): boolean {
    return this.#last !== undefined;
  }

  /** Waits until everything asked for so far is over. Never rejects. */
  async over(): Promise<void> {
    await this.#last;
  }
}

/** One thing at a time for each key. A key takes memory only while something of it runs. */
export class TurnPerKey {
  readonly #turns = new Map<string, Turn>();

  /** As {@link Turn.take}, after everything asked for before it under the same key. */
  take<T>(key: string, work: () => Promise<T>): Promise<T> {
    const turn = this.#turns.get(key) ?? new Turn();
    this.#turns.set(key, turn);
    const mine = turn.take(work);
    void turn.over().then(() => {
      if (!turn.isTaken) this.#turns.delete(key);
    });
    return mine;
  }
}

async function atOnce<T>(work: () => Promise<T>): Promise<T> {
  return work();
}
