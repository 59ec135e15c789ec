/** Pieces of at least so many bytes are kept as they are: beside them an object of its own is nothing. */
const MIN_KEPT = 4096;
const MIN_SLAB = 1024;
const MAX_SLAB = 1_048_576;
/** A piece may be a window on memory that it alone holds. That much of it is nobody's concern. */
const SMALL_MEMORY = 16_384;
const NOTHING = Buffer.alloc(0);

/**
 * Collects bytes that come in pieces of any size. Small pieces are joined as they come, so that what is held is at most
 * a few times what came, however it was cut: a piece that is kept costs some hundred bytes as an object, and holds the
 * memory that it is a window on.
 */
export class ByteCollector {
  #pieces: Uint8Array[] = [];
  /** The last piece, while there is room in it. */
  #slab: Uint8Array | undefined;
  #filled = 0;
  /** Bytes that were pushed and not taken. */
  size = 0;

  /** The chunk may be kept, so it must not change afterwards. */
  push(chunk: Uint8Array): void {
    const rest = this.#slab === undefined ? chunk : this.#fill(this.#slab, chunk);
    // What comes in one piece, as most does, is handed on as it is.
    const keeps = (rest.length >= MIN_KEPT || this.size === 0) && !isSmallWindow(rest);
    if (rest.length > 0 && keeps) this.#pieces.push(rest);
    else if (rest.length > 0) this.#fill(this.#open(rest.length), rest);
    this.size += chunk.length;
  }

  /** All bytes as one piece, which is a copy unless they came as one; the collector is empty then. */
  take(): Buffer {
    const pieces = this.#pieces;
    const slab = this.#slab;
    const size = this.size;
    if (slab !== undefined) pieces[pieces.length - 1] = slab.subarray(0, this.#filled);
    this.#pieces = [];
    this.#slab = undefined;
    this.size = 0;
    const [only = NOTHING] = pieces;
    return pieces.length > 1 || slab !== undefined ? Buffer.concat(pieces, size) : Buffer.isBuffer(only) ? only : viewOf(only);
  }

  /** @returns what did not fit */
  #fill(slab: Uint8Array, chunk: Uint8Array): Uint8Array {
    const fits = chunk.subarray(0, slab.length - this.#filled);
    slab.set(fits, this.#filled);
    this.#filled += fits.length;
    if (this.#filled === slab.length) this.#slab = undefined;
    return chunk.subarray(fits.length);
  }

  /** As large as what is there already: of what is held at most half is empty. */
  #open(atLeast: number): Uint8Array {
    const slab = Buffer.allocUnsafeSlow(Math.max(atLeast, MIN_SLAB, Math.min(this.size, MAX_SLAB)));
    this.#pieces.push(slab);
    this.#slab = slab;
    this.#filled = 0;
    return slab;
  }
}

function isSmallWindow(piece: Uint8Array): boolean {
  const behind = piece.buffer.byteLength;
  return behind > SMALL_MEMORY && behind > 2 * piece.length;
}

function viewOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
