import { GatewayError } from '../base/lib/gateway-error.ts';

/** Counts the bytes that all requests together hold in memory (`GW_MAX_BUFFERED_BYTES`). */
export class BufferBudget {
  readonly #limit: number;
  #used = 0;

  constructor(limitBytes: number) {
    this.#limit = limitBytes;
  }

  get used(): number {
    return this.#used;
  }

  /** @throws GatewayError `overloaded` when the limit would be passed; then nothing is taken. */
  take(bytes: number): void {
    if (!this.tryTake(bytes)) throw new GatewayError('overloaded', 'All request buffers are in use; try again in a moment.');
  }

  tryTake(bytes: number): boolean {
    if (this.#used + bytes > this.#limit) return false;
    this.#used += bytes;
    return true;
  }

  give(bytes: number): void {
    this.#used -= bytes;
  }
}
