import type { Socket } from 'node:net';
import { UnreadMark } from '../../base/lib/unread-answers.ts';

/** What was sent to a client and not taken. */
export interface Unread {
  /** Since when next to nothing of it was taken, monotonic milliseconds; as of the last look. */
  readonly since: number;
  /** @param now monotonic milliseconds @returns bytes */
  look(now: number): number;
}

/** What was written to a socket, or to the TLS socket around it, and was not taken by the system. */
export class SocketUnread implements Unread {
  readonly #socket: Socket;
  readonly #more: (() => number) | undefined;
  readonly #mark = new UnreadMark();

  /** @param more bytes that wait to be written there */
  constructor(socket: Socket, more?: () => number) {
    this.#socket = socket;
    this.#more = more;
  }

  get since(): number {
    return this.#mark.since;
  }

  look(now: number): number {
    const { writableLength } = this.#socket;
    const bytes = writableLength + (this.#more?.() ?? 0);
    return bytes === 0 ? this.#mark.look(0, 0, now) : this.#mark.look(bytes, this.#socket.bytesWritten - writableLength, now);
  }
}
