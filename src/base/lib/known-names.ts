import { ownText } from './text.ts';

const MAX_NAMES = 2_048;
const MAX_LENGTH = 64;

/**
 * What was found out about spellings of names that strangers send: there are few in use, and to find one costs less
 * than to look at it again. Emptied when it is full, so that made-up names cannot fill it for good.
 */
export class KnownNames<V extends {}> {
  /** What was learnt, by spelling; a field of its own, because every header field of every call is looked up. */
  readonly found: ReadonlyMap<string, V>;
  readonly #names = new Map<string, V>();
  readonly #max: number;
  readonly #maxLength: number;

  constructor(max = MAX_NAMES, maxLength = MAX_LENGTH) {
    this.#max = max;
    this.#maxLength = maxLength;
    this.found = this.#names;
  }

  /** @param look is given a copy that may be kept */
  learn(name: string, look: (own: string) => V): V {
    if (name.length > this.#maxLength) return look(name);
    const own = ownText(name);
    const found = look(own);
    if (this.#names.size >= this.#max) this.#names.clear();
    this.#names.set(own, found);
    return found;
  }
}
