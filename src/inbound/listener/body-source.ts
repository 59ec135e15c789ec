import type { Readable } from 'node:stream';
import { ByteCollector } from '../../base/lib/byte-collector.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { BodyProgress, BodySource } from '../../base/model/arrival.ts';
import { ChunkReader } from './chunk-reader.ts';
import type { ListenerLimits } from './limits.ts';
import { ignore } from './links.ts';

const NO_BYTES = new Uint8Array(0);

export interface RequestBodyOptions {
  /** Monotonic milliseconds at which the head was complete. */
  readonly startedAt: number;
  /** An HTTP/1 message or an h2 stream. */
  readonly source: Readable;
  readonly declaredLength: number | undefined;
  /** Asked when the source has ended: whether all of the body came, as opposed to a client that broke off. */
  isComplete(): boolean;
  /** What stands behind the body; asked for when the source has ended. */
  trailers(): readonly string[];
  /** Sends `100 Continue`; absent when the client does not wait for it. */
  sendContinue?: () => void;
}

/**
 * The body of one request, read at most once; nothing is taken from the client, and no 100 is sent, before that
 * (decision 3.15).
 */
export class ArrivedBody implements BodySource {
  readonly declaredLength: number | undefined;
  readonly #options: RequestBodyOptions;
  /** Monotonic milliseconds from which on the client has its time. */
  #begunAt: number;
  #started = false;
  #abandoned = false;
  #passing: ChunkReader | undefined;
  /** Lets the pending `readAll` fail. */
  #fail: ((error: GatewayError) => void) | undefined;
  /** What was taken of a passing body when it was last seen to move, and when that was. */
  #seen = { chunks: -1, at: 0 };

  constructor(options: RequestBodyOptions) {
    this.declaredLength = options.declaredLength;
    this.#begunAt = options.startedAt;
    this.#options = options;
    // An aborted request says so by `error`; readers learn it by themselves, and without readers nobody needs to know.
    options.source.on('error', ignore);
  }

  get trailers(): readonly string[] {
    return this.#options.trailers();
  }

  /** The request had to wait for its turn, and so has its client. @param now monotonic milliseconds */
  begins(now: number): void {
    this.#begunAt = now;
  }

  /** True as long as bytes of the body may still arrive. */
  get isArriving(): boolean {
    return this.declaredLength !== 0 && !this.#options.isComplete();
  }

  /** True when bytes of the body may still arrive that nobody is going to read. */
  get isUnread(): boolean {
    return this.declaredLength !== 0 && (!this.#started || this.#abandoned) && !this.#options.isComplete();
  }

  /** True when an unread body is known to be small and on its way, so that it can be skipped without harm. */
  isSkippable(limit: number): boolean {
    const { sendContinue } = this.#options;
    return !this.#abandoned && sendContinue === undefined && this.declaredLength !== undefined && this.declaredLength <= limit;
  }

  /**
   * Asked every now and then, with monotonic milliseconds: true when the client has kept the rest of the body back for
   * too long.
   */
  isOverdue(now: number, { requestMs, bodyIdleMs }: ListenerLimits): boolean {
    if (this.declaredLength === 0 || this.#abandoned || this.#options.isComplete()) return false;
    const reader = this.#passing;
    if (reader === undefined) return now - this.#begunAt > requestMs;
    // Nobody waits for the client while the upstream takes nothing.
    if (!reader.waits || reader.chunks !== this.#seen.chunks) this.#seen = { chunks: reader.chunks, at: now };
    return now - this.#seen.at > bodyIdleMs;
  }

  readAll(limit: number, progress?: BodyProgress): Promise<Uint8Array> {
    return new Promise((resolve, reject) => {
      this.#begin();
      if (this.declaredLength !== undefined && this.declaredLength > limit) throw this.#tooLarge(limit);
      if (this.declaredLength === 0) {
        resolve(NO_BYTES);
        return;
      }
      this.#options.sendContinue?.();
      this.#collect(limit, progress, resolve, reject);
    });
  }

  stream(): AsyncIterableIterator<Uint8Array> {
    const { source, sendContinue, isComplete } = this.#options;
    this.#passing = new ChunkReader({
      source,
      onStart: () => {
        this.#begin();
        sendContinue?.();
      },
      onEnd: () => {
        if (this.declaredLength === 0 || isComplete()) return undefined;
        this.#abandoned = true;
        return clientGone(source.errored ?? undefined);
      },
      onAbandoned: () => {
        this.#abandoned = true;
      },
    });
    return this.#passing;
  }

  /** Whoever waits for the rest of the body hears of `error`: it is not waited for any longer. */
  cut(error: GatewayError): void {
    if (this.declaredLength === 0 || this.#options.isComplete()) return;
    this.#abandoned = true;
    this.#passing?.fail(error);
    this.#fail?.(error);
  }

  #begin(): void {
    if (this.#started) throw new GatewayError('internal', 'The body of a request was read twice.');
    this.#started = true;
  }

  #tooLarge(limit: number): GatewayError {
    this.#abandoned = true;
    return new GatewayError('body_too_large', `The body is larger than ${limit} bytes.`);
  }

  #collect(limit: number, progress: BodyProgress | undefined, resolve: (bytes: Uint8Array) => void, reject: (error: Error) => void): void {
    const { source } = this.#options;
    const collector = new ByteCollector();
    const leave = (): void => {
      this.#fail = undefined;
      source.off('data', onData).off('end', onEnd).off('close', onClose);
    };
    const stop = (error: Error): void => {
      leave();
      source.pause();
      this.#abandoned = true;
      reject(error);
    };
    const onData = (chunk: Uint8Array): void => {
      collector.push(chunk);
      try {
        if (collector.size > limit) throw this.#tooLarge(limit);
        progress?.(collector.size, stop);
      } catch (error) {
        stop(error instanceof Error ? error : new Error(String(error), { cause: error }));
      }
    };
    const onEnd = (): void => {
      leave();
      if (this.#options.isComplete()) resolve(collector.take());
      else reject(clientGone());
    };
    const onClose = (): void => {
      leave();
      reject(clientGone());
    };
    this.#fail = stop;
    if (source.destroyed) onClose();
    else source.on('data', onData).on('end', onEnd).on('close', onClose);
  }
}

function clientGone(cause?: unknown): GatewayError {
  return new GatewayError('client_gone', 'The client left before the request was complete.', { cause });
}
