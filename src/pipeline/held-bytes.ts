import { ByteCollector } from '../base/lib/byte-collector.ts';
import { HOLD_BYTES } from './held-answer.ts';
import type { Pipeline } from './stage.ts';

/** Bytes of one answer that its client is not given yet. Those beyond the usual are counted against the budget that all bodies share. */
export class HeldBytes {
  readonly #bytes = new ByteCollector();
  readonly #pipeline: Pick<Pipeline, 'settings' | 'buffers'>;
  #taken: Uint8Array | undefined;
  #budgeted = 0;

  constructor(pipeline: Pick<Pipeline, 'settings' | 'buffers'>) {
    this.#pipeline = pipeline;
  }

  get isLarge(): boolean {
    return this.#bytes.size > HOLD_BYTES;
  }

  push(bytes: Uint8Array): void {
    this.#bytes.push(bytes);
  }

  /** Pushes bytes. @returns false when there is no room for them */
  pushCounted(bytes: Uint8Array): boolean {
    const { settings, buffers } = this.#pipeline;
    this.#bytes.push(bytes);
    if (!this.isLarge) return true;
    if (this.#bytes.size > settings.maxBodyBytes || !buffers.tryTake(bytes.length)) return false;
    this.#budgeted += bytes.length;
    return true;
  }

  /** What was pushed since it was last taken. */
  take(): Uint8Array {
    return this.#bytes.take();
  }

  /** All of an answer that is held to its end. */
  get whole(): Uint8Array {
    this.#taken ??= this.#bytes.take();
    return this.#taken;
  }

  /** Nothing is counted any more. */
  giveBack(): void {
    this.#pipeline.buffers.give(this.#budgeted);
    this.#budgeted = 0;
  }
}
