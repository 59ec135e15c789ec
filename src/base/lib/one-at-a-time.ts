/** Work of one kind that is done one after the other, in the order in which it is asked for, since each may need much memory and many at once would get none of it sooner. */
export class OneAtATime {
  readonly #waiting: (() => void)[] = [];
  #busy = false;

  /** Does it when all before it are done. Rejects with what it throws. */
  async do<T>(work: () => Promise<T>): Promise<T> {
    if (this.#busy) await new Promise<void>((resolve) => void this.#waiting.push(resolve));
    this.#busy = true;
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#busy = false;
      else next();
    }
  }
}
