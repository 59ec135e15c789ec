import * as crypto from 'node:crypto';

/** `crypto.hash` (Node 20.12) skips the Hash object, which costs more than the hashing of a small text. */
const oneShot: typeof crypto.hash | undefined = crypto.hash;

/** Lower-case hex SHA-256; a string is hashed as UTF-8. */
export const sha256Hex: (data: string | Uint8Array) => string =
  oneShot === undefined ? (data) => crypto.createHash('sha256').update(data).digest('hex') : (data) => oneShot('sha256', data, 'hex');

/** SHA-256 of bytes that arrive in pieces. After {@link Sha256.hex} it takes no more data. */
export class Sha256 {
  readonly #hash = crypto.createHash('sha256');
  #bytes = 0;

  /** Bytes hashed so far; strings count as UTF-8. */
  get byteLength(): number {
    return this.#bytes;
  }

  update(data: string | Uint8Array): this {
    this.#hash.update(data);
    this.#bytes += typeof data === 'string' ? Buffer.byteLength(data) : data.byteLength;
    return this;
  }

  /** Ends the hash. @throws Error when it is called twice. */
  hex(): string {
    return this.#hash.digest('hex');
  }
}
