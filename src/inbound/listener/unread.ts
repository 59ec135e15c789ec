import type { Socket } from 'node:net';
import { UnreadMark } from '../../base/lib/unread-answers.ts';

/** What was sent to a client and not taken. */
export interface Unread {
  /** Since when next to nothing of it was taken, monotonic milliseconds; as of the last look. */
  readonly since: number;
  /** Who takes next to nothing for too long is cut; absent: what holds them sees to that, or they stay. */
  readonly isTimed?: boolean;
  /** @param now monotonic milliseconds @returns bytes */
  look(now: number): number;
}

/** What was written to a socket, or to the TLS socket around it, and was not taken by the system. */
export class SocketUnread implements Unread {
  readonly #socket: Socket;
  readonly #more: (() => number) | undefined;
  #mark: UnreadMark | undefined;
  readonly isTimed: boolean;

  /** @param more bytes that wait to be written once something of it has left */
  constructor(socket: Socket, { isTimed = true, more }: { readonly isTimed?: boolean; readonly more?: () => number } = {}) {
    this.#socket = socket;
    this.#more = more;
    this.isTimed = isTimed;
  }

  get since(): number {
    return this.#mark?.since ?? 0;
  }

  look(now: number): number {
    const { writableLength } = this.#socket;
    if (writableLength === 0) {
      this.#mark = undefined;
      return 0;
    }
    this.#mark ??= new UnreadMark();
    return this.#mark.look(writableLength + (this.#more?.() ?? 0), this.#socket.bytesWritten - writableLength, now);
  }
}
