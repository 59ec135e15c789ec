import { GatewayError } from '../../base/lib/gateway-error.ts';

/** The reason with which a stopped call ends inside; never seen by its caller. */
export const STOPPED = new Error('the call was stopped');

/** A streamed request body that can be stopped while it waits for its source, so that nothing hangs on a client that went away. */
export class OutgoingBody implements AsyncIterableIterator<Uint8Array> {
  readonly #source: AsyncIterable<Uint8Array>;
  #iterator: AsyncIterator<Uint8Array> | undefined;
  #release: ((error: Error) => void) | undefined;
  #stopped = false;

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<Uint8Array>> {
    if (this.#stopped) return Promise.reject(STOPPED);
    const iterator = this.#iterator ?? this.#source[Symbol.asyncIterator]();
    this.#iterator = iterator;
    return new Promise((resolve, reject) => {
      this.#release = reject;
      iterator.next().then(resolve, (error: unknown) => reject(brokenSource(error)));
    });
  }

  /** Ends a pending read and lets go of the source. */
  stop(): void {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#release?.(STOPPED);
    this.#iterator?.return?.()?.catch(() => undefined);
  }

  return(): Promise<IteratorResult<Uint8Array>> {
    this.stop();
    return Promise.resolve({ done: true, value: undefined });
  }
}

function brokenSource(error: unknown): GatewayError {
  return error instanceof GatewayError ? error : new GatewayError('client_gone', 'The request body broke off.', { cause: error });
}
