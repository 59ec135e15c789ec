import { ByteCollector } from '../../base/lib/byte-collector.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { BufferHold } from '../body/buffer-budget.ts';
import { HOLD_BYTES } from './held-answer.ts';

/** Bytes of one answer that its client is not given yet. Those beyond the usual are counted against the budget that all bodies share, and the client's part of it. */
export class HeldBytes {
  readonly #bytes = new ByteCollector();
  readonly #maxBytes: number;
  readonly #openHold: () => BufferHold;
  #hold: BufferHold | undefined;
  #taken: Uint8Array | undefined;

  /**
   * @param maxBytes that may be held, whatever the budget has
   * @param openHold asked for when it is needed, which is seldom
   */
  constructor(maxBytes: number, openHold: () => BufferHold) {
    this.#maxBytes = maxBytes;
    this.#openHold = openHold;
  }

  get isLarge(): boolean {
    return this.#bytes.size > HOLD_BYTES;
  }

  push(bytes: Uint8Array): void {
    this.#bytes.push(bytes);
  }

  /** Pushes bytes. @returns false when there is no room for them */
  pushCounted(bytes: Uint8Array): boolean {
    this.#bytes.push(bytes);
    if (!this.isLarge) return true;
    if (this.#bytes.size > this.#maxBytes) return false;
    try {
      this.#hold ??= this.#openHold();
      this.#hold.take(bytes.length);
      return true;
    } catch (error) {
      if (error instanceof GatewayError) return false;
      throw error;
    }
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
    this.#hold?.keep(0);
  }
}
