import { ByteCollector } from '../../base/lib/byte-collector.ts';

/** Largest provider answer that is kept for a replay (decision 6.7). */
const MAX_BYTES = 1024 * 1024;

/** A copy of an answer as it goes by, given up when it grows too large. */
export class AnswerCopy {
  readonly #kept = new ByteCollector();
  #isWhole = true;
  #bytes: Uint8Array | undefined;

  push(chunk: Uint8Array): void {
    if (!this.#isWhole) return;
    this.#isWhole = this.#kept.size + chunk.length <= MAX_BYTES;
    if (this.#isWhole) this.#kept.push(chunk);
    else this.#kept.take();
  }

  /** Undefined when it was too large. Nothing may be pushed behind that. */
  bytes(): Uint8Array | undefined {
    if (this.#isWhole) this.#bytes ??= this.#kept.take();
    return this.#bytes;
  }
}
