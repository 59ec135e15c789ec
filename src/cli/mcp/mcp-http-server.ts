import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { Socket } from 'node:net';
import { parseSafeJson } from '../../base/json/safe-json.ts';
import type { Clock } from '../../base/lib/clock.ts';
import { BACKLOG, ConnectionShares, type HeldConnection } from '../../base/lib/connection-shares.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { parseAuthority } from '../../base/lib/host.ts';
import { networkOf } from '../../base/lib/ip.ts';
import type { Logger } from '../../base/lib/log.ts';
import { isLoopbackHost } from '../../base/lib/loopback-host.ts';
import { sameSecret } from '../../base/lib/secret.ts';
import { CONNECTION_BOUNDS } from '../../base/model/traffic-bounds.ts';
import type { Asker } from '../../operations/tools.ts';
import { BufferBudget } from '../../pipeline/body/buffer-budget.ts';
import { isPreflight, pageFields, preflightFields } from '../../surfaces/http/page-reply.ts';
import { type BodyHold, readBody } from '../../surfaces/http/read-body.ts';
import { Turns } from '../../surfaces/http/turns.ts';
import { type McpAnswer, type McpEndpoint, SESSION_FIELD } from '../../surfaces/mcp/mcp-endpoint.ts';

export interface McpHttpOptions {
  readonly endpoint: McpEndpoint;
  /** Whoever is let in has what the key of this program has. */
  readonly asker: Omit<Asker, 'from'>;
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
  /** Takes nothing new and ends what is idle. */
  close(): Promise<void>;
}

const MAX_BODY = 4 * 1024 * 1024;
const HEAD_MS = 10_000;
const REQUEST_MS = 60_000;
const PATH = '/mcp';

/**
 * Serves `/mcp` for clients of this machine, or for whoever shows the token (decision 10.9).
 * @throws Error of `listen`, or of a certificate that cannot be used
 */
export async function openMcpServer(options: McpHttpOptions): Promise<McpHttpServer> {
  const { tls, host, port, clock, log } = options;
  const bodies = new BufferBudget(CONNECTION_BOUNDS.bodiesOfSmallServer.all, clock);
  const connections = new McpConnections(clock);
  const onRequest = (request: IncomingMessage, response: ServerResponse): void => {
    const hold = bodies.hold(networkOf(request.socket.remoteAddress ?? ''));
    response.once('close', () => hold.keep(0));
    void answer(request, response, { ...options, connections }, hold).catch((error: unknown) => {
      log.error({ err: error }, 'a request could not be answered');
      response.destroy();
    });
  };
  const times = { headersTimeout: HEAD_MS, requestTimeout: REQUEST_MS };
  const server: Server = tls === undefined ? createServer(times) : createTlsServer({ ...times, ...tls });
  const turns = new Turns(clock, onRequest);
  turns.serve(server);
  server.on('connection', (socket) => connections.arrive(socket));
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ host, port, backlog: BACKLOG }, resolve);
  });
  const address = server.address();
  return {
    port: typeof address === 'object' && address !== null ? address.port : port,
    close: () =>
      new Promise((resolve) => {
        turns.close();
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** Who has a connection: those that say nothing, or show no token, make way for others. */
class McpConnections {
  readonly #shares: ConnectionShares;
  /** By the address and port of the client, which are those of the TLS around it as well. */
  readonly #held = new Map<string, HeldConnection>();

  constructor(clock: Pick<Clock, 'after'>) {
    const { mcpStrangers, mcpConnections } = CONNECTION_BOUNDS;
    this.#shares = new ConnectionShares({ strangers: mcpStrangers.all, known: mcpConnections.all, each: mcpConnections.one, clock });
  }

  arrive(socket: Socket): void {
    const key = keyOf(socket);
    socket.on('error', () => undefined);
    this.#held.set(key, this.#shares.arrive(socket));
    socket.once('close', () => this.#held.delete(key));
  }

  /** The token was shown, or none is needed. */
  recognise(socket: Socket): void {
    const connection = this.#held.get(keyOf(socket));
    if (connection !== undefined) this.#shares.recognise(connection, 'mcp', 'token');
  }
}

function keyOf({ remoteAddress, remotePort }: Pick<Socket, 'remoteAddress' | 'remotePort'>): string {
  return `${remoteAddress} ${remotePort}`;
}

interface Answered extends McpHttpOptions {
  readonly connections: McpConnections;
}

async function answer(request: IncomingMessage, response: ServerResponse, options: Answered, hold: BodyHold): Promise<void> {
  try {
    const headers = flatHeaders(request);
    judgePage(request, options);
    const { origin } = request.headers;
    if (origin !== undefined) setFields(response, pageFields(origin));
    judgeHost(request, options);
    if (origin !== undefined && isPreflight({ method: request.method ?? '', headers })) {
      setFields(response, preflightFields(headers, origin));
      response.writeHead(204).end();
      return;
    }
    judge(request, options);
    options.connections.recognise(request.socket);
    const asker = { ...options.asker, from: request.socket.remoteAddress ?? '', signal: goneSignal(response) };
    if (request.method === 'DELETE') return send(response, options.endpoint.end({ headers, asker }));
    const json = async () => parseSafeJson(await readBody(request, MAX_BODY, hold), { malformed: 'invalid_request' }).value;
    send(response, await options.endpoint.post({ headers, asker, json }));
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    if (error.code === 'client_gone') return void response.destroy();
    const allow = error.code === 'method_not_allowed' ? { Allow: 'POST, DELETE' } : {};
    const fields = Object.fromEntries(error.headers.flatMap((value, at, all) => (at % 2 === 0 ? [[value, all[at + 1] ?? '']] : [])));
    // The rest of a body that is not taken is not read.
    if (!request.complete) response.shouldKeepAlive = false;
    response.writeHead(error.status, { ...fields, ...allow, 'Content-Type': 'application/json' });
    response.end(JSON.stringify(error.toBody()));
  }
}

/** Aborted when the client leaves before it was answered. */
function goneSignal(response: ServerResponse): AbortSignal {
  const controller = new AbortController();
  response.once('close', () => {
    if (!response.writableEnded) controller.abort(new GatewayError('client_gone', 'The client left before it was answered.'));
  });
  return controller.signal;
}

function judgeHost({ headers }: IncomingMessage, { host }: McpHttpOptions): void {
  const named = parseAuthority(headers.host ?? '', 80)?.host;
  if (isLoopbackHost(host) && (named === undefined || !isLoopbackHost(named))) {
    throw new GatewayError('misdirected_request', 'Host is not a name of this machine.');
  }
}

/** @throws GatewayError for what is not let in, or not there */
function judge(request: IncomingMessage, { token }: McpHttpOptions): void {
  const { headers, method = '', url = '' } = request;
  if (url.split('?', 1)[0] !== PATH) throw new GatewayError('not_found', `There is nothing here but ${PATH}.`);
  if (method !== 'POST' && method !== 'DELETE') throw new GatewayError('method_not_allowed', 'This path takes POST, DELETE.');
  if (token === undefined) return;
  const shown = /^Bearer +(\S+)$/i.exec(headers.authorization ?? '')?.[1];
  if (shown === undefined || !sameSecret(shown, token)) throw new GatewayError('unauthorized', 'This needs the token of GW_MCP_TOKEN.');
}

/** As on the gateway's own port, no web page gets here but one of this machine's on this port, and those that are named (decision 3.14). @throws GatewayError */
function judgePage({ headers, socket: { localPort } }: IncomingMessage, { allowedOrigins }: McpHttpOptions): void {
  const { origin } = headers;
  if (origin !== undefined && allowedOrigins.has(origin)) return;
  const authority = parseAuthority(origin?.replace(/^https?:\/\//, '') ?? '', 80);
  const isOwn = authority !== undefined && isLoopbackHost(authority.host) && authority.port === localPort;
  if (origin === undefined ? headers['sec-fetch-site'] === 'cross-site' : !isOwn) {
    throw new GatewayError('origin_not_allowed', 'A browser page of another origin sent this request.');
  }
}

function setFields(response: ServerResponse, flat: readonly string[]): void {
  for (let i = 0; i + 1 < flat.length; i += 2) response.setHeader(flat[i] ?? '', flat[i + 1] ?? '');
}

function flatHeaders({ headers }: IncomingMessage): Readonly<Record<string, string | undefined>> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, Array.isArray(value) ? value.join(', ') : value]));
}

function send(response: ServerResponse, { status, text, session }: McpAnswer): void {
  const body = Buffer.from(text ?? '');
  response.writeHead(status, {
    'Cache-Control': 'no-store',
    ...(session === undefined ? {} : { [SESSION_FIELD]: session }),
    ...(text === undefined ? {} : { 'Content-Type': 'application/json' }),
    ...(status === 204 ? {} : { 'Content-Length': body.length }),
  });
  response.end(body);
}
