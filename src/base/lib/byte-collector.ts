const FIRST_BLOCK = 1_024;
const LARGEST_BLOCK = 65_536;
const NOTHING = Buffer.alloc(0);

/**
 * Bytes that come in pieces of any size, in memory of about their own length: a piece that is an object by itself costs a hundred bytes, and keeps the whole
 * chunk that it was cut from.
 */
export class ByteCollector {
  /** The only piece so far: what comes whole is never copied. */
  #first: Uint8Array | undefined;
  #parts: Buffer[] = [];
  /** The last part, where it is one of ours. */
  #block = NOTHING;
  #filled = 0;
  #size = 0;

  /** Bytes that were pushed since the last `take`. */
  get size(): number {
    return this.#size;
  }

  /** The chunk must not be changed afterwards. */
  push(chunk: Uint8Array): void {
    if (chunk.length === 0) return;
    const isFirst = this.#size === 0;
    this.#size += chunk.length;
    if (isFirst) {
      this.#first = chunk;
      return;
    }
    if (this.#first) this.#add(this.#first);
    this.#first = undefined;
    this.#add(chunk);
  }

  /** All bytes as one; nothing is left. */
  take(): Buffer {
    this.#close();
    const [only = this.#first ? viewOf(this.#first) : NOTHING] = this.#parts;
    const bytes = this.#parts.length <= 1 ? only : Buffer.concat(this.#parts, this.#size);
    this.#first = undefined;
    this.#parts = [];
    this.#size = 0;
    return bytes;
  }

  #add(chunk: Uint8Array): void {
    // What fills most of its memory is kept as it is.
    if (chunk.length >= FIRST_BLOCK && chunk.length * 2 >= chunk.buffer.byteLength) {
      this.#close();
      this.#parts.push(viewOf(chunk));
    } else this.#copy(chunk);
  }

  #copy(chunk: Uint8Array): void {
    let at = 0;
    while (at < chunk.length) {
      if (this.#filled === this.#block.length) this.#open(chunk.length - at);
      const piece = chunk.subarray(at, at + this.#block.length - this.#filled);
      this.#block.set(piece, this.#filled);
      this.#filled += piece.length;
      at += piece.length;
    }
  }

  /** Blocks grow with what there is, so that small contents take little and large ones few. */
  #open(wanted: number): void {
    this.#close();
    const length = Math.min(LARGEST_BLOCK, Math.max(FIRST_BLOCK, wanted, this.#size >>> 1));
    this.#block = Buffer.allocUnsafeSlow(length);
  }

  #close(): void {
    if (this.#filled > 0) this.#parts.push(this.#block.subarray(0, this.#filled));
    this.#block = NOTHING;
    this.#filled = 0;
  }
}

function viewOf(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
