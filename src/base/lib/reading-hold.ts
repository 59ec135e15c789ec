import type { Socket } from 'node:net';
import type { Clock } from './clock.ts';
import { hasWrittenAll } from './sockets.ts';

/** How often it is looked at whether what waits to be written has left, milliseconds. */
const AGAIN_MS = 20;

interface Reader {
  readStop(): unknown;
  readStart(): unknown;
}

/**
 * Lets a connection be read no further for a while, in the place of a reader that cannot be told so itself: node:http2
 * takes the connection over, and its streams hold back their windows alone, which may be a quarter of a million frames
 * of one byte. Without effect on a Node without the private handle.
 */
export class ReadingHold {
  readonly #socket: Socket;
  readonly #clock: Pick<Clock, 'after'>;
  #isHeld = false;

  /** @param socket the TCP connection below any TLS */
  constructor(socket: Socket, clock: Pick<Clock, 'after'>) {
    this.#socket = socket;
    this.#clock = clock;
  }

  get isHeld(): boolean {
    return this.#isHeld;
  }

  /** What was read already still comes. @param ms from the first such call on */
  hold(ms: number): void {
    const reader = readerOf(this.#socket);
    if (reader === undefined) return;
    reader.readStop();
    if (this.#isHeld) return;
    this.#isHeld = true;
    // node:http2, which writes nothing while it reads, reads again when it has written.
    setImmediate(() => {
      if (this.#isHeld) readerOf(this.#socket)?.readStop();
    });
    this.#releaseAfter(ms);
  }

  /** Reads no further until {@link resume}. */
  pause(): void {
    readerOf(this.#socket)?.readStop();
  }

  /** Reads on after {@link pause}, unless it is held. */
  resume(): void {
    if (this.#isHeld) return;
    if (hasWrittenAll(this.#socket)) readerOf(this.#socket)?.readStart();
    else this.hold(AGAIN_MS);
  }

  #releaseAfter(ms: number): void {
    this.#clock.after(ms, () => {
      const reader = readerOf(this.#socket);
      if (reader === undefined) return;
      // While node:http2 writes it works on nothing, and would keep all that came.
      if (!hasWrittenAll(this.#socket)) {
        this.#releaseAfter(AGAIN_MS);
        return;
      }
      this.#isHeld = false;
      reader.readStart();
    });
  }
}

function readerOf(socket: Socket): Reader | undefined {
  const handle: unknown = Reflect.get(socket, '_handle');
  return isReader(handle) ? handle : undefined;
}

function isReader(handle: unknown): handle is Reader {
  return (
    typeof handle === 'object' && handle !== null && 'readStop' in handle && 'readStart' in handle && typeof handle.readStop === 'function'
  );
}
