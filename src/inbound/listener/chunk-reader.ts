import type { Readable } from 'node:stream';

const DONE: IteratorReturnResult<undefined> = { done: true, value: undefined };

export interface ChunkReaderOptions {
  readonly source: Readable;
  /** Called before the first chunk is asked for. */
  onStart(): void;
  /** Called once when the source has ended: the failure when it ended too early. */
  onEnd(): Error | undefined;
  /** Called when the reader is let go of before the source has ended. */
  onAbandoned(): void;
}

/**
 * Takes a stream chunk by chunk, with back-pressure. Unlike a stream's own iterator it lets go at once, even while it
 * waits for a chunk.
 */
export class ChunkReader implements AsyncIterableIterator<Uint8Array> {
  readonly #options: ChunkReaderOptions;
  #state: 'unread' | 'reading' | 'ended' | 'failed' | 'abandoned' = 'unread';
  #failure: Error | undefined;
  #chunks = 0;
  /** Looks again for what the pending `next` waits for. */
  #waiting: (() => void) | undefined;
  readonly #look = (): void => this.#waiting?.();
  readonly #ended = (): void => this.#finish();

  constructor(options: ChunkReaderOptions) {
    this.#options = options;
  }

  /** Chunks that were taken. */
  get chunks(): number {
    return this.#chunks;
  }

  /** A chunk was asked for and has not come. */
  get waits(): boolean {
    return this.#waiting !== undefined;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<Uint8Array>> {
    if (this.#state === 'unread') this.#start();
    return await new Promise((resolve, reject) => {
      this.#waiting = () => {
        const chunk = this.#state === 'reading' ? (this.#options.source.read() as Uint8Array | null) : null;
        if (chunk !== null) {
          this.#chunks += 1;
          resolve({ done: false, value: chunk });
        } else if (this.#state === 'failed' && this.#failure) reject(this.#failure);
        else if (this.#state !== 'reading') resolve(DONE);
        else return;
        this.#waiting = undefined;
      };
      this.#waiting();
    });
  }

  return(): Promise<IteratorResult<Uint8Array>> {
    if (this.#state === 'unread' || this.#state === 'reading') {
      this.#release('abandoned');
      this.#options.onAbandoned();
      this.#look();
    }
    return Promise.resolve(DONE);
  }

  /** The pending `next`, or the one to come, fails with `error`; without effect when it is over. */
  fail(error: Error): void {
    if (this.#state !== 'unread' && this.#state !== 'reading') return;
    this.#failure = error;
    this.#release('failed');
    this.#look();
  }

  #start(): void {
    const { source, onStart } = this.#options;
    onStart();
    this.#state = 'reading';
    // A stream that was destroyed meanwhile says nothing more.
    if (source.destroyed) this.#finish();
    else source.on('readable', this.#look).on('end', this.#ended).on('close', this.#ended);
  }

  #finish(): void {
    if (this.#state !== 'reading') return;
    this.#failure = this.#options.onEnd();
    this.#release(this.#failure ? 'failed' : 'ended');
    this.#look();
  }

  #release(state: 'ended' | 'failed' | 'abandoned'): void {
    this.#state = state;
    this.#options.source.off('readable', this.#look).off('end', this.#ended).off('close', this.#ended);
  }
}
