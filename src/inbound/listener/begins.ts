import { CONNECTION_BOUNDS } from '../../base/model/traffic-bounds.ts';

const AT_ONCE = CONNECTION_BOUNDS.begins.one;

/**
 * How many calls of one address begin in one turn of the event loop, and how many of them its clients may reset
 * (decision 7.12). node:http2 tells of all streams of what it has read before anybody else has a turn, and what is
 * reset is no longer one of the streams that a client may have at once.
 */
export class Begins {
  #begun = 0;
  #reset = 0;
  #later: LaterBegin[] = [];
  #isAwaited = false;
  readonly #connections = new Set<Pausable>();

  /** Of a connection whose reading can be stopped until the next turn. */
  enter(connection: Pausable): void {
    this.#connections.add(connection);
  }

  leave(connection: Pausable): void {
    this.#connections.delete(connection);
  }

  /** Counts a call. False: it is for a later turn, see {@link later}. */
  take(): boolean {
    this.#await();
    if (this.#begun >= AT_ONCE || this.#later.length > 0) return false;
    this.#begun++;
    return true;
  }

  /** Begins a call in a later turn, in the order in which they came, unless it was reset by then. */
  later(call: LaterBegin): void {
    this.#later.push(call);
  }

  /**
   * Counts a stream that its client reset. Where there were too many in this turn the connections of the address are
   * read no further in it.
   */
  countReset(): void {
    this.#await();
    this.#reset++;
    if (this.#reset === AT_ONCE) for (const connection of this.#connections) connection.pause();
  }

  #await(): void {
    if (this.#isAwaited) return;
    this.#isAwaited = true;
    setImmediate(this.#next);
  }

  readonly #next = (): void => {
    this.#isAwaited = false;
    if (this.#reset >= AT_ONCE) for (const connection of this.#connections) connection.resume();
    this.#begun = 0;
    this.#reset = 0;
    if (this.#later.length === 0) return;
    // What was reset is let go of at once: more may come than can begin.
    const open = this.#later.filter(({ stream }) => !stream.closed && !stream.destroyed);
    const calls = open.splice(0, AT_ONCE);
    this.#later = open;
    this.#begun = calls.length;
    if (calls.length > 0) this.#await();
    for (const call of calls) call.begin();
  };
}

/** A call that begins in a later turn. */
export interface LaterBegin {
  readonly stream: { readonly closed: boolean; readonly destroyed: boolean };
  begin(): void;
}

/** A connection that can be read no further for the rest of a turn. */
export interface Pausable {
  pause(): void;
  resume(): void;
}
