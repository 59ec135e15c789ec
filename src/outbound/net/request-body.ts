import type { Socket } from 'node:net';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { bodyLengthError } from './upstream-error.ts';

/** The reason with which a stopped call ends inside; never seen by its caller. */
export const STOPPED = new Error('the call was stopped');

/**
 * A streamed request body that can be stopped while it waits for its source, so that nothing hangs on a client that
 * went away.
 */
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

/** What a streamed body tells. */
export interface BodyEvents {
  /** A piece was handed to the connection. */
  moved(): void;
  /** All of it was. */
  written(): void;
  /** The source failed, or has not the length that was announced. */
  failed(error: unknown): void;
}

/**
 * Writes a streamed request body, the head with its first piece. No piece is asked for while the connection does not
 * take any.
 */
export class BodyWriter {
  readonly #socket: Socket;
  readonly #body: OutgoingBody;
  readonly #events: BodyEvents;
  readonly #length: number | undefined;
  /** What goes before the next piece. */
  #prefix: string;
  #written = 0;
  #blocked = false;
  #stopped = false;

  /**
   * @param head without its last, empty line and without framing
   * @param length of the whole body; undefined: chunked (RFC 9112 §7.1)
   */
  constructor(socket: Socket, head: string, body: OutgoingBody, length: number | undefined, events: BodyEvents) {
    this.#socket = socket;
    this.#body = body;
    this.#events = events;
    this.#length = length;
    this.#prefix = length === undefined ? `${head}transfer-encoding: chunked\r\n` : `${head}content-length: ${length}\r\n\r\n`;
  }

  pull(): void {
    this.#body.next().then(this.#onNext, this.#onFault);
  }

  /** The connection takes more. */
  drained(): void {
    if (!this.#blocked || this.#stopped) return;
    this.#blocked = false;
    this.pull();
  }

  stop(): void {
    this.#stopped = true;
  }

  readonly #onNext = (next: IteratorResult<Uint8Array>): void => {
    if (this.#stopped) return;
    if (next.done) this.#finish();
    else if (next.value.length === 0) this.pull();
    else this.#write(next.value);
  };

  readonly #onFault = (error: unknown): void => {
    if (!this.#stopped) this.#events.failed(error);
  };

  #write(piece: Uint8Array): void {
    this.#written += piece.length;
    if (this.#length !== undefined && this.#written > this.#length) {
      this.#events.failed(bodyLengthError());
      return;
    }
    const socket = this.#socket;
    socket.cork();
    if (this.#length === undefined) {
      socket.write(`${this.#prefix}\r\n${piece.length.toString(16)}\r\n`, 'latin1');
      this.#prefix = '';
    } else if (this.#prefix !== '') {
      socket.write(this.#prefix, 'latin1');
      this.#prefix = '';
    }
    const goesOn = socket.write(piece);
    socket.uncork();
    this.#events.moved();
    if (goesOn) this.pull();
    else this.#blocked = true;
  }

  #finish(): void {
    if (this.#length !== undefined && this.#written < this.#length) {
      this.#events.failed(bodyLengthError());
      return;
    }
    const last = this.#length === undefined ? `${this.#prefix}\r\n0\r\n\r\n` : this.#prefix;
    if (last !== '') this.#socket.write(last, 'latin1');
    this.#events.written();
  }
}
