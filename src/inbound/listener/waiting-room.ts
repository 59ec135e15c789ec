import type { Server, Socket } from 'node:net';
import { ignore } from './links.ts';

type OnConnection = (socket: Socket) => void;

/** Those who connect to a server before the gateway is all there: they wait, and are not read from. */
export class WaitingRoom {
  readonly #server: Server;
  readonly #listeners: readonly OnConnection[];
  readonly #waiting = new Set<Socket>();

  constructor(server: Server) {
    this.#server = server;
    this.#listeners = server.listeners('connection') as OnConnection[];
    server.removeAllListeners('connection').on('connection', (socket) => {
      this.#waiting.add(socket);
      socket.on('error', ignore).once('close', () => this.#waiting.delete(socket));
    });
  }

  /** Everybody who waits is served in order of coming, and whoever comes from now on at once. */
  open(): void {
    this.#server.removeAllListeners('connection');
    for (const listener of this.#listeners) this.#server.on('connection', listener);
    for (const socket of this.#waiting) this.#server.emit('connection', socket);
    this.#waiting.clear();
  }

  /** Everybody who waits is sent away. */
  close(): void {
    for (const socket of this.#waiting) socket.destroy();
  }
}
