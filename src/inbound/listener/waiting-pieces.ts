import { Readable } from 'node:stream';
import { ByteCollector } from '../../base/lib/byte-collector.ts';

/**
 * What has arrived of a body and waits to be read. node:http and node:http2 keep each piece as it came, so that bytes sent one by one take a hundred times their room
 * as long as nobody reads them; here all but the first of them are joined. A body that is read as it comes passes untouched.
 */
export class WaitingPieces {
  readonly #source: Readable;
  #joined: ByteCollector | undefined;

  /** Takes the place of the stream's `push`, which node calls for each piece, and with null at the end. */
  constructor(source: Readable) {
    this.#source = source;
    source.push = (chunk: unknown) => this.#push(chunk);
  }

  /** All that waits as one piece; null when nothing does. */
  take(): Uint8Array | null {
    const first = this.#source.read() as Uint8Array | null;
    const joined = this.#joined;
    if (joined === undefined) return first;
    this.#joined = undefined;
    return first === null ? joined.take() : Buffer.concat([first, joined.take()]);
  }

  get any(): boolean {
    return this.#joined !== undefined;
  }

  #push(chunk: unknown): boolean {
    const source = this.#source;
    if (chunk instanceof Uint8Array && source.readableFlowing !== true && source.readableLength > 0) {
      this.#joined ??= new ByteCollector();
      this.#joined.push(chunk);
      return source.readableLength + this.#joined.size < source.readableHighWaterMark;
    }
    const joined = this.#joined;
    if (joined !== undefined) {
      this.#joined = undefined;
      Readable.prototype.push.call(source, joined.take());
    }
    return Readable.prototype.push.call(source, chunk);
  }
}
