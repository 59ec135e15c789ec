import { createServer, type Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Events } from '../../base/events/bus.ts';
import type { Clock } from '../../base/lib/clock.ts';
import { BACKLOG, ConnectionShares, type HeldConnection } from '../../base/lib/connection-shares.ts';
import { bracketHost } from '../../base/lib/host.ts';
import { networkOf } from '../../base/lib/ip.ts';
import type { Logger } from '../../base/lib/log.ts';
import { isLoopbackHost } from '../../base/lib/loopback-host.ts';
import { codeOf } from '../../base/lib/thrown.ts';
import { CONTROL_PLANE_BOUNDS } from '../../base/model/control-plane-bounds.ts';
import { CONNECTION_BOUNDS } from '../../base/model/traffic-bounds.ts';
import { BufferBudget } from '../../pipeline/body/buffer-budget.ts';
import type { Route } from '../../surfaces/http/route.ts';
import { Router } from '../../surfaces/http/router.ts';
import { Turns } from '../../surfaces/http/turns.ts';
import { AdminAuthenticator, type AdminTokens } from './admin-authenticator.ts';
import { arrivalOf } from './admin-exchange.ts';
import { guardAdmin } from './admin-guard.ts';
import type { AdminServices } from './admin-operation.ts';
import { ADMIN_OPERATIONS } from './admin-operation-table.ts';
import { type AdminAnswered, adminRoutes } from './admin-routes.ts';

/** There is one token, so that all who show it are one caller. */
const ADMIN = 'admin';
const HEAD_MS = 10_000;
const REQUEST_MS = 60_000;
const IDLE_MS = 30_000;
/** How often connections are looked at that have sent no whole head in {@link HEAD_MS}. */
const LOOK_MS = 5_000;

export interface AdminServerOptions extends AdminTokens {
  readonly host: string;
  /** 0 picks a free one. */
  readonly port: number;
  /** `CP_NAMES`. */
  readonly names: readonly string[];
  readonly services: AdminServices;
  /** Beside the operations: metrics. */
  readonly routes?: readonly Route[];
  /** Default: nobody is told. */
  readonly answered?: AdminAnswered;
  readonly clock: Pick<Clock, 'monotonic' | 'after'>;
  /** Connections of who has not shown the admin token; default: the row of the table of bounds. */
  readonly strangerConnections?: number;
  readonly log: Logger;
  /** Hears of `authFailure` and `unrecorded`. */
  readonly events: Events;
}

/** The port on which people and machines ask the control plane (decision 13.6). */
export class AdminServer {
  readonly #server: Server;
  readonly #options: AdminServerOptions;
  readonly #connections: ConnectionShares;
  readonly #turns: Turns;

  constructor(options: AdminServerOptions) {
    this.#options = options;
    const { host, names, services, routes = [], answered = () => undefined, clock, log, events } = options;
    const guard = { loopbackBind: isLoopbackHost(host), names: new Set(names) };
    this.#connections = new ConnectionShares({
      strangers: options.strangerConnections ?? CONTROL_PLANE_BOUNDS.strangerAdminConnections.all,
      known: CONTROL_PLANE_BOUNDS.adminConnections.all,
      each: CONTROL_PLANE_BOUNDS.adminConnections.one,
      clock,
    });
    const held = new WeakMap<Socket, HeldConnection>();
    const authenticator = new AdminAuthenticator(options, events);
    const router = new Router({
      routes: [...adminRoutes(ADMIN_OPERATIONS, services, answered), ...routes],
      authenticator,
      log,
      events,
      callerIp: (head) => head.remoteAddress,
      advice: '',
    });
    const times = { headersTimeout: HEAD_MS, requestTimeout: REQUEST_MS, keepAliveTimeout: IDLE_MS, connectionsCheckingInterval: LOOK_MS };
    this.#server = createServer(times);
    const bodies = new BufferBudget(CONNECTION_BOUNDS.bodiesOfSmallServer.all, clock);
    this.#turns = new Turns(clock, (request, response) => {
      const hold = bodies.hold(networkOf(request.socket.remoteAddress ?? ''));
      response.once('close', () => hold.keep(0));
      const arrival = arrivalOf(request, response, clock.monotonic(), hold);
      const connection = held.get(request.socket);
      if (connection !== undefined && authenticator.isAdmin(arrival.head)) this.#connections.recognise(connection, ADMIN, ADMIN);
      const refusal = guardAdmin(arrival.head, guard);
      if (refusal === undefined) void router.handle(arrival);
      else router.refuse(arrival, refusal);
    });
    this.#turns.serve(this.#server);
    this.#server.on('connection', (socket) => held.set(socket, this.#connections.arrive(socket)));
  }

  /** Connections that are open, and what became of those that found no place. */
  get connections(): Pick<ConnectionShares, 'open' | 'openOfStrangers' | 'counts'> {
    return this.#connections;
  }

  /** @returns the port @throws Error that says for a person why it cannot be opened */
  open(): Promise<number> {
    const { host, port } = this.#options;
    return new Promise((resolve, reject) => {
      this.#server.once('error', (error) => reject(portError(error, host, port)));
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
}

/** In words that name the setting to change. */
function portError(error: Error, host: string, port: number): Error {
  const say = (message: string) => new Error(message, { cause: error });
  switch (codeOf(error)) {
    case 'EADDRINUSE':
      return say(`CP_HTTP_PORT: port ${port} of ${bracketHost(host)} is in use, perhaps by another control plane (0 takes a free one)`);
    case 'EACCES':
      return say(`CP_HTTP_PORT: this user may not open port ${port}; ports from 1024 up need no privilege`);
    case 'EADDRNOTAVAIL':
      return say(`CP_HOST: "${host}" is no address of this machine`);
    default:
      return error;
  }
}
