import type { Events } from '../../base/events/bus.ts';
import type { Clock } from '../../base/lib/clock.ts';
import { ConnectionShares } from '../../base/lib/connection-shares.ts';
import { codeOf, GatewayError } from '../../base/lib/gateway-error.ts';
import { bracketHost, isLoopbackHost, parseAuthority } from '../../base/lib/host.ts';
import type { Logger } from '../../base/lib/log.ts';
import type { ArrivalHead } from '../../base/model/arrival.ts';
import { CONTROL_PLANE_BOUNDS } from '../../base/model/control-plane-bounds.ts';
import { CONNECTION_BOUNDS } from '../../base/model/traffic-bounds.ts';
import { BufferBudget } from '../../pipeline/body/buffer-budget.ts';
import { operationRoutes } from '../../surfaces/api/operation-routes.ts';
import type { Route } from '../../surfaces/http/route.ts';
import { Router } from '../../surfaces/http/router.ts';
import { SmallServer } from '../../surfaces/http/small-server.ts';
import { type AdminTokens, adminProofs, showsAdminToken } from './admin-authenticator.ts';
import type { AdminServices } from './admin-operation.ts';
import { ADMIN_OPERATIONS } from './admin-operation-table.ts';

/** There is one token, so that all who show it are one caller. */
const ADMIN = 'admin';
const HTTP_PORT = 80;
/** Bodies other than bundles are small. */
const MAX_BODY_BYTES = 1024 * 1024;

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
  readonly answered?: (operation: string, status: number) => void;
  readonly clock: Pick<Clock, 'monotonic' | 'after'>;
  /** Connections of who has not shown the admin token; default: the row of the table of bounds. */
  readonly strangerConnections?: number;
  readonly log: Logger;
  /** Hears of `authFailure` and `unrecorded`. */
  readonly events: Events;
}

/** The port on which people and machines ask the control plane (decision 13.6). */
export class AdminServer {
  readonly #server: SmallServer;
  readonly #options: AdminServerOptions;
  readonly #connections: ConnectionShares;

  constructor(options: AdminServerOptions) {
    this.#options = options;
    const { host, port, names, services, routes = [], answered = () => undefined, clock, log, events } = options;
    const guard = { loopbackBind: isLoopbackHost(host), names: new Set(names) };
    const connections = new ConnectionShares({
      strangers: options.strangerConnections ?? CONTROL_PLANE_BOUNDS.strangerAdminConnections.all,
      known: CONTROL_PLANE_BOUNDS.adminConnections.all,
      each: CONTROL_PLANE_BOUNDS.adminConnections.one,
      clock,
    });
    this.#connections = connections;
    const router = new Router({
      routes: [...operationRoutes(ADMIN_OPERATIONS, services, { maxBodyBytes: MAX_BODY_BYTES, answered }), ...routes],
      authenticator: adminProofs(options, events),
      log,
      events,
      callerIp: (head) => head.remoteAddress,
      advice: '',
    });
    const bodies = new BufferBudget(CONNECTION_BOUNDS.bodiesOfSmallServer.all, clock);
    this.#server = new SmallServer({
      ...{ host, port, clock, connections, bodies },
      onArrival: (arrival, recognise) => {
        if (showsAdminToken(arrival.head, options)) recognise(ADMIN);
        const refusal = guardAdmin(arrival.head, guard);
        if (refusal === undefined) void router.handle(arrival);
        else router.refuse(arrival, refusal);
      },
    });
  }

  /** Connections that are open, and what became of those that found no place. */
  get connections(): Pick<ConnectionShares, 'open' | 'openOfStrangers' | 'counts'> {
    return this.#connections;
  }

  /** @returns the port @throws Error that says for a person why it cannot be opened */
  async open(): Promise<number> {
    try {
      return await this.#server.open();
    } catch (error) {
      throw portError(error, this.#options.host, this.#options.port);
    }
  }

  /** Takes nothing new; what is under way has until the signal is aborted. */
  close(signal: AbortSignal): Promise<void> {
    return this.#server.close(signal);
  }
}

/** In words that name the setting to change. */
function portError(error: unknown, host: string, port: number): unknown {
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

interface AdminGuard {
  /** The port is bound to a loopback address. */
  readonly loopbackBind: boolean;
  /** `CP_NAMES`, canonical. */
  readonly names: ReadonlySet<string>;
}

/**
 * Keeps web pages off the port (decisions 3.14, 13.6): no page is served here, so none may ask; and on a loopback bind
 * a Host that is neither loopback nor one of the names is refused (DNS rebinding).
 * @returns the refusal, or undefined
 */
function guardAdmin({ headers }: Pick<ArrivalHead, 'headers'>, { loopbackBind, names }: AdminGuard): GatewayError | undefined {
  const site = headers['sec-fetch-site'];
  if (headers['origin'] !== undefined || (site !== undefined && site !== 'none'))
    return new GatewayError('origin_not_allowed', 'A browser page sent this request, and none may ask the control plane.');
  if (!loopbackBind) return undefined;
  const host = parseAuthority(headers['host'] ?? '', HTTP_PORT)?.host;
  if (host !== undefined && (isLoopbackHost(host) || names.has(host))) return undefined;
  return new GatewayError('misdirected_request', 'Host is not a name of this control plane; list it in CP_NAMES if it is.');
}
