/** Largest provider answer that is kept for a replay (decision 6.7). */
const MAX_BYTES = 1024 * 1024;

/** A copy of an answer as it goes by, given up when it grows too large. */
export class AnswerCopy {
  #chunks: Uint8Array[] = [];
  #total = 0;

  push(chunk: Uint8Array): void {
    this.#total += chunk.length;
    if (this.#total <= MAX_BYTES) this.#chunks.push(chunk);
    else this.#chunks = [];
  }

  /** Undefined when it was too large. */
  bytes(): Uint8Array | undefined {
    return this.#total <= MAX_BYTES ? Buffer.concat(this.#chunks) : undefined;
  }
}
