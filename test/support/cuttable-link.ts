import { connect, createServer, type Server, type Socket } from 'node:net';
import type { HasTeardown } from './temp-dir.ts';
import { closeServer, listenOnFreePort, trackSockets } from './tls-upstream.ts';

/**
 * What a link does with what passes: everything, everything later, nothing while both ends think that it is there, or
 * it is not there.
 */
export type LinkState = 'open' | 'delayed' | 'held' | 'cut';

/**
 * A TCP relay on a port that stays the same whatever stands behind it, for whoever is to see his peer go, fall silent
 * and come back.
 */
export class CuttableLink {
  /** Of 127.0.0.1. */
  readonly port: number;
  /** Connections that were let in so far. */
  accepted = 0;
  /** Bytes that came from those who dial in, whatever became of them. */
  bytesIn = 0;
  readonly #sockets: Set<Socket>;
  readonly #waiting = new Set<() => void>();
  #target: number;
  #state: LinkState = 'open';
  #delayMs = 0;

  private constructor(server: Server, sockets: Set<Socket>, port: number, target: number) {
    this.port = port;
    this.#sockets = sockets;
    this.#target = target;
    server.on('connection', (caller: Socket) => this.#relay(caller));
  }

  static async start(t: HasTeardown, target: number): Promise<CuttableLink> {
    const server = createServer({ noDelay: true });
    const sockets = trackSockets(server);
    const port = await listenOnFreePort(server);
    t.teardown(() => closeServer(server, sockets));
    return new CuttableLink(server, sockets, port, target);
  }

  get address(): string {
    return `127.0.0.1:${this.port}`;
  }

  get state(): LinkState {
    return this.#state;
  }

  /** Connections from now on go to this port. */
  lead(target: number): void {
    this.#target = target;
  }

  /** Resets what is open, and whoever dials in. */
  cut(): void {
    this.#become('cut');
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  /**
   * Lets nobody's bytes through and says so to neither end: connections stay, and new ones are let in to wait as well.
   */
  hold(): void {
    this.#become('held');
  }

  /** Lets each piece through after so many milliseconds. */
  delay(ms: number): void {
    this.#delayMs = ms;
    this.#become('delayed');
  }

  /** Everything passes again, first what was held. */
  resume(): void {
    this.#become('open');
  }

  #become(state: LinkState): void {
    this.#state = state;
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const look of waiting) look();
  }

  #relay(caller: Socket): void {
    if (this.#state === 'cut') {
      caller.resetAndDestroy();
      return;
    }
    this.accepted++;
    const target = connect({ port: this.#target, host: '127.0.0.1', noDelay: true });
    caller.on('data', (piece: Buffer) => {
      this.bytesIn += piece.length;
    });
    this.#pump(caller, target);
    this.#pump(target, caller);
  }

  #pump(from: Socket, to: Socket): void {
    from.on('error', () => undefined);
    from.once('close', () => to.destroy());
    // One piece after the other: what is held or late keeps its place.
    let behind = Promise.resolve();
    from.on('data', (piece: Buffer) => {
      behind = behind.then(() => this.#passes()).then(() => void (to.destroyed || to.write(piece)));
    });
    from.once('end', () => {
      behind = behind.then(() => this.#passes()).then(() => void to.end());
    });
  }

  async #passes(): Promise<void> {
    while (this.#state === 'held') await new Promise<void>((resolve) => this.#waiting.add(resolve));
    if (this.#state === 'delayed') await new Promise((resolve) => setTimeout(resolve, this.#delayMs));
  }
}
