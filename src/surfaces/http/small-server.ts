import { createServer, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { Socket } from 'node:net';
import type { Clock } from '../../base/lib/clock.ts';
import { BACKLOG, type ConnectionShares, type HeldConnection } from '../../base/lib/connection-shares.ts';
import { networkOf } from '../../base/lib/ip.ts';
import type { Arrival } from '../../base/model/arrival.ts';
import { arrivalOf, type BodyHold } from './node-exchange.ts';
import { Turns } from './turns.ts';

const HEAD_MS = 10_000;
const REQUEST_MS = 60_000;
const IDLE_MS = 30_000;
/** How often connections are looked at that have sent no whole head in {@link HEAD_MS}. */
const LOOK_MS = 5_000;

export interface SmallServerOptions {
  readonly host: string;
  /** 0 picks a free one. */
  readonly port: number;
  /** PEM; absent: without TLS. */
  readonly tls?: { readonly cert: string; readonly key: string };
  readonly clock: Pick<Clock, 'after' | 'monotonic'>;
  /** Who has a connection: those that say nothing make way for others. */
  readonly connections: ConnectionShares;
  /** Memory for bodies. */
  readonly bodies: { hold(client: string): BodyHold & { keep(bytes: number): void } };
  /** Answers one request. @param recognise to be called when it has shown who `caller` is */
  readonly onArrival: (arrival: Arrival, recognise: (caller: string) => void) => void;
}

/** A port of `node:http` beside the gateway's own: that of the control plane, and that of `gw-mcp` (decision 7.12). */
export class SmallServer {
  readonly #options: SmallServerOptions;
  readonly #server: Server;
  readonly #turns: Turns;
  /** By the address and port of the client, which are those of the TLS around it as well. */
  readonly #held = new Map<string, HeldConnection>();

  /** @throws Error of a certificate that cannot be used */
  constructor(options: SmallServerOptions) {
    this.#options = options;
    const { tls, clock, connections, bodies, onArrival } = options;
    const times = { headersTimeout: HEAD_MS, requestTimeout: REQUEST_MS, keepAliveTimeout: IDLE_MS, connectionsCheckingInterval: LOOK_MS };
    this.#server = tls === undefined ? createServer(times) : createTlsServer({ ...times, ...tls });
    this.#turns = new Turns(clock, (request, response) => {
      const hold = bodies.hold(networkOf(request.socket.remoteAddress ?? ''));
      response.once('close', () => hold.keep(0));
      onArrival(arrivalOf(request, response, clock.monotonic(), hold), (caller) => {
        const connection = this.#held.get(keyOf(request.socket));
        if (connection !== undefined) connections.recognise(connection, caller, caller);
      });
    });
    this.#turns.serve(this.#server);
    this.#server.on('connection', (socket) => this.#arrive(socket));
  }

  /** @returns the port @throws Error of `listen` */
  open(): Promise<number> {
    const { host, port } = this.#options;
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen({ port, host, backlog: BACKLOG }, () => {
        const address = this.#server.address();
        resolve(typeof address === 'object' && address !== null ? address.port : port);
      });
    });
  }

  /** Takes nothing new; what is under way has until the signal is aborted. */
  close(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const cut = () => this.#server.closeAllConnections();
      signal.addEventListener('abort', cut, { once: true });
      this.#server.close(() => {
        this.#turns.close();
        signal.removeEventListener('abort', cut);
        resolve();
      });
      this.#server.closeIdleConnections();
      if (signal.aborted) cut();
    });
  }

  #arrive(socket: Socket): void {
    const key = keyOf(socket);
    socket.on('error', () => undefined);
    this.#held.set(key, this.#options.connections.arrive(socket));
    socket.once('close', () => this.#held.delete(key));
  }
}

function keyOf({ remoteAddress, remotePort }: Pick<Socket, 'remoteAddress' | 'remotePort'>): string {
  return `${remoteAddress} ${remotePort}`;
}
