/** What waits for the end of this turn of the event loop. */
export interface Waiting {
  turned(): void;
}

/**
 * Runs things once everything that the event loop has at hand is read: a connection that is used again has told by then whether its upstream has closed it,
 * or sent bytes that nobody asked for. One callback serves all that wait in a turn.
 */
export class NextTurn {
  #waiting: Waiting[] = [];

  add(one: Waiting): void {
    if (this.#waiting.push(one) === 1) setImmediate(this.#run);
  }

  readonly #run = (): void => {
    const due = this.#waiting;
    this.#waiting = [];
    for (const one of due) one.turned();
  };
}
