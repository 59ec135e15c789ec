import type { Operation } from '../../base/catalogue/types.ts';
import { Sha256 } from '../../base/lib/sha256.ts';

/** A body that is sent while it still arrives. It is iterated once; `return` lets go of the client. */
export interface StreamedBody extends AsyncIterableIterator<Uint8Array> {
  /** Exact length of what is sent, when it is known. */
  readonly length: number | undefined;
  /** Bytes that the client has sent so far. */
  readonly bytes: number;
  /** Lower-case hex SHA-256 of what the client sent, once all of it is here. */
  readonly sha256: string | undefined;
  return(): Promise<IteratorResult<Uint8Array>>;
}

/** A form of which policy has read the beginning. */
export interface StreamedForm extends StreamedBody {
  /** Sends other bytes in place of that beginning. */
  replaceHead(bytes: Uint8Array): void;
  /** The call is decided by these params: what arrives from now on may not add to them. */
  settle(params: Readonly<Record<string, unknown>>, operation: Operation | undefined): void;
}

/** Counts and hashes a body on its way through. */
export class PassingBody implements StreamedBody {
  readonly length: number | undefined;
  readonly #source: AsyncIterableIterator<Uint8Array>;
  readonly #hash = new Sha256();
  #sha256: string | undefined;
  #stopped = false;

  constructor(source: AsyncIterableIterator<Uint8Array>, length: number | undefined) {
    this.#source = source;
    this.length = length;
  }

  get bytes(): number {
    return this.#hash.byteLength;
  }

  get sha256(): string | undefined {
    return this.#sha256;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<Uint8Array>> {
    const value = await this.take();
    return value ? { done: false, value } : { done: true, value };
  }

  /** The next chunk; undefined at the end. */
  async take(): Promise<Uint8Array | undefined> {
    const result = await this.#source.next();
    if (result.done) {
      if (!this.#stopped) this.#sha256 ??= this.#hash.hex();
      return undefined;
    }
    this.#hash.update(result.value);
    // With the last byte, not after it: an upstream may have answered before this is asked for more.
    if (this.bytes === this.length) this.#sha256 = this.#hash.hex();
    return result.value;
  }

  async return(): Promise<IteratorResult<Uint8Array>> {
    this.#stopped = true;
    await this.#source.return?.();
    return { done: true, value: undefined };
  }
}
