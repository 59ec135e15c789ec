import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { closeServer, listenOnFreePort, trackSockets } from './tls-upstream.ts';

export interface ParentProxyOptions {
  /** `user:password` that it asks for. */
  readonly credentials?: string;
  /** Its name service: `host:port` as it is asked for, to a port of 127.0.0.1. What is not in it is answered 502. */
  readonly ports?: Readonly<Record<string, number>>;
  /** Takes every CONNECT instead of opening a tunnel. */
  readonly onConnect?: (socket: Socket) => void;
}

/** One request as the parent saw it; `target` is `host:port` of CONNECT or the absolute form. */
export interface ParentRequest {
  readonly method: string;
  readonly target: string;
  readonly rawHeaders: readonly string[];
  readonly connection: number;
}

export interface TestParentProxy {
  readonly port: number;
  readonly requests: readonly ParentRequest[];
  /** Connections accepted so far, and open now. */
  readonly connections: number;
  readonly open: number;
  close(): Promise<void>;
}

/** What a refusal says besides its status; no client may ever read it. */
export const PARENT_BODY = '<h1>Words of the parent proxy</h1>';

/**
 * A forward proxy on a free port of 127.0.0.1, written on nothing but Node: CONNECT, absolute form and Basic
 * credentials.
 */
export async function startParentProxy(options: ParentProxyOptions = {}): Promise<TestParentProxy> {
  const { credentials, ports = {}, onConnect } = options;
  const requests: ParentRequest[] = [];
  const numbers = new WeakMap<object, number>();
  let connections = 0;
  const expected = credentials === undefined ? undefined : `Basic ${Buffer.from(credentials).toString('base64')}`;
  const isKnown = (request: IncomingMessage): boolean => expected === undefined || request.headers['proxy-authorization'] === expected;
  const note = ({ method = '', url = '', rawHeaders, socket }: IncomingMessage): void => {
    requests.push({ method, target: url, rawHeaders, connection: numbers.get(socket) ?? 0 });
  };

  const server = createServer((request, response) => {
    note(request);
    const url = URL.canParse(request.url ?? '') ? new URL(request.url ?? '') : undefined;
    if (!isKnown(request)) refuse(response, 407);
    else if (url === undefined) refuse(response, 400);
    else forward(request, response, url, ports[`${url.hostname}:${url.port === '' ? 80 : url.port}`]);
  });
  const sockets = trackSockets(server);
  const tunnels = new Set<Socket>();
  server.on('connection', (socket) => numbers.set(socket, ++connections));
  server.on('connect', (request, socket) => {
    note(request);
    const client = socket as Socket;
    client.on('error', () => undefined);
    // A socket of an HTTP server stays half open, and unread it does not even see the other side go.
    client.on('end', () => client.end());
    if (onConnect !== undefined) onConnect(client.resume());
    else if (!isKnown(request)) client.end(refusal(407));
    else if (ports[request.url ?? ''] === undefined) client.end(refusal(502));
    else tunnel(client, ports[request.url ?? ''] ?? 0, tunnels);
  });
  const port = await listenOnFreePort(server);
  return {
    port,
    requests,
    get connections() {
      return connections;
    },
    get open() {
      return sockets.size;
    },
    close: () => closeServer(server, [...sockets, ...tunnels]),
  };
}

/** A refusal of CONNECT, byte for byte. */
export function refusal(status: number): string {
  return `HTTP/1.1 ${status} Words of the parent\r\nProxy-Authenticate: Basic realm="parent"\r\nContent-Length: ${PARENT_BODY.length}\r\n\r\n${PARENT_BODY}`;
}

function refuse(response: ServerResponse, status: number): void {
  response.writeHead(status, { 'Proxy-Authenticate': 'Basic realm="parent"' }).end(PARENT_BODY);
}

function tunnel(client: Socket, port: number, tunnels: Set<Socket>): void {
  const upstream = connect({ port, host: '127.0.0.1', noDelay: true });
  tunnels.add(upstream);
  upstream.on('error', () => client.destroy());
  upstream.on('close', () => {
    tunnels.delete(upstream);
    client.destroySoon();
  });
  client.on('close', () => upstream.destroy());
  upstream.once('connect', () => {
    client.write('HTTP/1.1 200 Connection established\r\n\r\n');
    client.pipe(upstream);
    upstream.pipe(client);
  });
}

function forward(request: IncomingMessage, response: ServerResponse, url: URL, port: number | undefined): void {
  if (port === undefined) {
    refuse(response, 502);
    return;
  }
  const { 'proxy-authorization': _ours, ...headers } = request.headers;
  const onward = httpRequest({ host: '127.0.0.1', port, method: request.method, path: url.pathname + url.search, headers }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.rawHeaders);
    answer.pipe(response);
    answer.on('error', () => response.destroy());
  });
  onward.on('error', () => response.destroy());
  response.on('close', () => onward.destroy());
  request.pipe(onward);
}
