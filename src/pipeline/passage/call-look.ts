import type { BodyLooks } from '../../base/catalogue/lookalikes.ts';
import { MemberNames } from '../../base/json/member-names.ts';

/** How far a body is looked into: its first level mostly ends, or names what is looked for, long before. */
const MAX_LOOKED_AT = 256 * 1024;

type Bytes = AsyncIterator<Uint8Array, unknown>;

/**
 * A body that tells as it passes what its call looks like, by the names of its first level (decision 12.3). It hands on
 * what comes when it comes, keeps nothing of it, and looks no further than 256 KiB.
 */
export class WatchedBody implements AsyncIterableIterator<Uint8Array, unknown> {
  readonly #source: Bytes;
  readonly #looks: BodyLooks;
  readonly #onLike: (like: string) => void;
  readonly #names: MemberNames;
  #left = MAX_LOOKED_AT;
  #told = false;

  /** @param onLike called once at most, with the id of a dialect */
  constructor(source: AsyncIterable<Uint8Array>, looks: BodyLooks, onLike: (like: string) => void) {
    this.#source = source[Symbol.asyncIterator]();
    this.#looks = looks;
    this.#onLike = onLike;
    this.#names = new MemberNames(looks.bits);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<Uint8Array, unknown>> {
    const coming = this.#source.next();
    if (this.#told) return coming;
    return coming.then((result) => {
      this.#look(result);
      return result;
    });
  }

  return(value?: unknown): Promise<IteratorResult<Uint8Array, unknown>> {
    return this.#source.return?.(value) ?? Promise.resolve({ done: true, value });
  }

  #look({ done, value }: IteratorResult<Uint8Array, unknown>): void {
    if (done !== true) {
      this.#names.push(value.length > this.#left ? value.subarray(0, this.#left) : value);
      this.#left -= value.length;
    }
    const { seen } = this.#names;
    let like = this.#looks.byPath(seen);
    const ended = done === true || this.#names.done || this.#left <= 0;
    if (ended) like ??= this.#looks.anywhere(seen);
    this.#told = ended || like !== undefined;
    if (like !== undefined) this.#onLike(like);
  }
}
