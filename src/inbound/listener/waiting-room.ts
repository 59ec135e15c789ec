import type { Server, Socket } from 'node:net';
import { ignore } from './links.ts';

type OnConnection = (socket: Socket) => void;

/** What a connection goes through before HTTP is spoken on it; it goes on as the socket that `serve` is given. */
export type Anteroom = (socket: Socket, serve: OnConnection) => void;

/** Those who connect to a server before the gateway is all there: they wait, and are not read from. */
export class WaitingRoom {
  readonly #server: Server;
  readonly #listeners: readonly OnConnection[];
  readonly #anteroom: Anteroom | undefined;
  readonly #waiting = new Set<Socket>();

  /** @param anteroom undefined: HTTP is spoken at once */
  constructor(server: Server, anteroom: Anteroom | undefined) {
    this.#server = server;
    this.#anteroom = anteroom;
    this.#listeners = server.listeners('connection') as OnConnection[];
    server.removeAllListeners('connection').on('connection', (socket) => {
      this.#waiting.add(socket);
      socket.on('error', ignore).once('close', () => this.#waiting.delete(socket));
    });
  }

  /** Everybody who waits is served in order of coming, and whoever comes from now on at once. */
  open(): void {
    this.#server.removeAllListeners('connection');
    const anteroom = this.#anteroom;
    if (anteroom === undefined) for (const listener of this.#listeners) this.#server.on('connection', listener);
    else this.#server.on('connection', (socket) => anteroom(socket, (served) => this.#serve(served)));
    for (const socket of this.#waiting) this.#server.emit('connection', socket);
    this.#waiting.clear();
  }

  #serve(served: Socket): void {
    for (const listener of this.#listeners) Reflect.apply(listener, this.#server, [served]);
  }

  /** Everybody who waits is sent away. */
  close(): void {
    for (const socket of this.#waiting) socket.destroy();
  }
}
