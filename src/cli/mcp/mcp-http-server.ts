import { EventBus } from '../../base/events/bus.ts';
import type { Clock } from '../../base/lib/clock.ts';
import { ConnectionShares } from '../../base/lib/connection-shares.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { isLoopbackHost, parseAuthority } from '../../base/lib/host.ts';
import type { Logger } from '../../base/lib/log.ts';
import { sameSecret } from '../../base/lib/secret-box.ts';
import type { ArrivalHead } from '../../base/model/arrival.ts';
import type { Principal } from '../../base/model/principal.ts';
import { CONNECTION_BOUNDS } from '../../base/model/traffic-bounds.ts';
import { BufferBudget } from '../../pipeline/body/buffer-budget.ts';
import { answeredToPage } from '../../surfaces/http/page-reply.ts';
import { Router } from '../../surfaces/http/router.ts';
import { SmallServer } from '../../surfaces/http/small-server.ts';
import { WorkUnderWay } from '../../surfaces/http/work-under-way.ts';
import type { McpEndpoint } from '../../surfaces/mcp/mcp-endpoint.ts';
import { mcpRoutes } from '../../surfaces/mcp/mcp-routes.ts';

export interface McpHttpOptions {
  readonly endpoint: McpEndpoint;
  /** Whoever is let in has what the key of this program has. */
  readonly principal: Principal;
  readonly host: string;
  /** 0: a free one. */
  readonly port: number;
  /** PEM. */
  readonly tls?: { readonly cert: string; readonly key: string };
  /** What clients show as bearer token; undefined: nothing, which is for loopback alone. */
  readonly token?: string;
  /** `GW_ALLOWED_ORIGINS`: whose pages may call. */
  readonly allowedOrigins: ReadonlySet<string>;
  readonly clock: Pick<Clock, 'after' | 'monotonic'>;
  readonly log: Logger;
}

export interface McpHttpServer {
  readonly port: number;
  /** Takes nothing new and ends what is under way. */
  close(): Promise<void>;
}

/** All clients have one key: the gateway bounds what that key has under way at a time. */
const UNBOUNDED = 1_000_000;
const HTTP_PORT = 80;

/**
 * Serves `/mcp` to clients of this machine, or to those that show the token (decision 10.9).
 * @throws Error of `listen`, or of a certificate that cannot be used
 */
export async function openMcpServer(options: McpHttpOptions): Promise<McpHttpServer> {
  const { endpoint, tls, host, principal, allowedOrigins, clock, log } = options;
  const { mcpStrangers, mcpConnections, bodiesOfSmallServer } = CONNECTION_BOUNDS;
  const isOfThisMachine = isLoopbackHost(host);
  let { port } = options;
  const router = new Router({
    // The address may have a query, which says nothing here.
    routes: mcpRoutes(endpoint).map((route) => ({ ...route, query: 'unread' })),
    authenticator: {
      principal: (_scope, head) => {
        if (isLetIn(head, options)) return principal;
        throw new GatewayError('unauthorized', 'This needs the token of GW_MCP_TOKEN.');
      },
    },
    log,
    events: new EventBus(log),
    callerIp: (head) => head.remoteAddress,
    advice: ' MCP is served at /mcp.',
    underWay: new WorkUnderWay({ all: UNBOUNDED }),
  });
  const server = new SmallServer({
    ...{ host, port, clock, ...(tls && { tls }) },
    connections: new ConnectionShares({ strangers: mcpStrangers.all, known: mcpConnections.all, each: mcpConnections.one, clock }),
    bodies: new BufferBudget(bodiesOfSmallServer.all, clock),
    onArrival: (arrived, recognise) => {
      const refused = guardPages(arrived.head, port, allowedOrigins) ?? (isOfThisMachine ? guardHost(arrived.head) : undefined);
      const arrival = answeredToPage(arrived, refused, router);
      if (arrival === undefined) return;
      if (isLetIn(arrival.head, options)) recognise('mcp');
      void router.handle(arrival);
    },
  });
  port = await server.open();
  return { port, close: () => server.close(AbortSignal.abort()) };
}

/** Whether the token was shown, or none is needed. */
function isLetIn({ headers }: ArrivalHead, { token }: Pick<McpHttpOptions, 'token'>): boolean {
  if (token === undefined) return true;
  const shown = /^Bearer +(\S+)$/i.exec(headers['authorization'] ?? '')?.[1];
  return shown !== undefined && sameSecret(shown, token);
}

/** A name that is not of this machine could be one that a page has rebound. */
function guardHost({ headers }: ArrivalHead): GatewayError | undefined {
  const named = parseAuthority(headers['host'] ?? '', HTTP_PORT)?.host;
  if (named !== undefined && isLoopbackHost(named)) return undefined;
  return new GatewayError('misdirected_request', 'Host is not a name of this machine.');
}

/**
 * As on the gateway's own port, the pages of browsers that may call are those of this machine on this port, and those
 * that are named (decision 3.14).
 */
function guardPages({ headers }: ArrivalHead, port: number, allowedOrigins: ReadonlySet<string>): GatewayError | undefined {
  const { origin } = headers;
  if (origin === undefined ? headers['sec-fetch-site'] !== 'cross-site' : allowedOrigins.has(origin)) return undefined;
  const authority = parseAuthority(origin?.replace(/^https?:\/\//, '') ?? '', HTTP_PORT);
  if (authority !== undefined && isLoopbackHost(authority.host) && authority.port === port) return undefined;
  return new GatewayError('origin_not_allowed', 'A browser page of another origin sent this request.');
}
