/**
 * How a decoded body ended: whole, cut by the cap, not what its encoding says, or in a form of the encoding that is not
 * decoded.
 */
export type DecodeOutcome = 'complete' | 'capped' | 'broken' | 'refused';

/**
 * Decodes a copy of a body for policy or metering; the bytes that pass are never touched. Works beside the event loop,
 * so what it yields comes later.
 */
export interface Decoder {
  /** Resolves, never rejects, when all that could be decoded of these bytes was handed on. */
  push(chunk: Uint8Array): Promise<void>;
  /** All bytes were given. Resolves, never rejects, when all that is wanted of them was decoded. */
  end(): Promise<DecodeOutcome>;
  /** The body does not matter any more. */
  abort(): void;
  /** Says why a body is refused, when that is known; a sentence. */
  readonly reason: string | undefined;
}

export interface DecoderOptions {
  /** No more decoded bytes than this are handed on. */
  readonly maxBytes: number;
  /** The chunk stays as it is. */
  readonly onData: (chunk: Uint8Array) => void;
}

/** Counts what is handed on and cuts it at the cap. */
export class Gate {
  readonly #options: DecoderOptions;
  #left: number;
  capped = false;

  constructor(options: DecoderOptions) {
    this.#options = options;
    this.#left = options.maxBytes;
  }

  /** Bytes that pass in all. */
  get limit(): number {
    return this.#options.maxBytes;
  }

  pass(chunk: Uint8Array): void {
    if (this.capped) return;
    const piece = chunk.length > this.#left ? chunk.subarray(0, this.#left) : chunk;
    this.capped = piece.length < chunk.length;
    this.#left -= piece.length;
    if (piece.length > 0) this.#options.onData(piece);
  }
}
