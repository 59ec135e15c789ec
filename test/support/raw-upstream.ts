import { createServer, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { certificateOf, closeServer, listenOnFreePort, trackSockets } from './tls-upstream.ts';

export interface RawUpstream {
  readonly port: number;
  readonly caPem: string;
  /** Connections accepted so far. */
  readonly connections: number;
  readonly open: number;
  /** Everything received, in order of arrival, over all connections. */
  readonly received: string;
  close(): Promise<void>;
}

/**
 * What a raw upstream does with a connection on which one request head has arrived. `text` is what came so far
 * (latin1).
 */
export type RawBehaviour = (socket: Socket, text: string) => void;

const CHUNKED = 'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n';

/** Misbehaviour of real servers, by name. Each starts once the head of a request is complete. */
export const MISBEHAVIOUR = {
  /** Says nothing, ever. */
  silent: () => undefined,
  /** Sends a head and one event, then nothing more. */
  stalls: (socket) => void socket.write(`${CHUNKED}d\r\ndata: first\n\n\r\n`),
  /** Closes without a byte. */
  closes: (socket) => void socket.end(),
  /** Breaks the connection by RST without a byte. */
  resets: (socket) => void socket.resetAndDestroy(),
  /** Announces ten bytes, sends four and closes. */
  cutsLength: (socket) => void socket.end('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfour'),
  /** Closes in the middle of a chunked body. */
  cutsChunks: (socket) => void socket.end(`${CHUNKED}d\r\ndata: first\n\n\r\n`),
  /** The same after `Connection: close`. */
  cutsLastChunks: (socket) => void socket.end(`${CHUNKED.replace('\r\n', '\r\nConnection: close\r\n')}d\r\ndata: first\n\n\r\n`),
  /** Not HTTP at all. */
  garbage: (socket) => void socket.end('SSH-2.0-OpenSSH_9.2\r\n'),
  /** A body without framing that ends with the connection. */
  untilClose: (socket) => void socket.end('HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nup to the end'),
  /** More header bytes than anyone accepts. */
  hugeHead: (socket) => void socket.write(`HTTP/1.1 200 OK\r\n${`X-Filler: ${'x'.repeat(4000)}\r\n`.repeat(40)}\r\n`),
  /** Sends FIN after a complete answer without saying `Connection: close`. */
  halfCloses: (socket) => void socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'),
  /** Switches to a protocol that nobody asked for. */
  upgrades: (socket) => void socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n'),
} as const satisfies Record<string, RawBehaviour>;

/**
 * A TCP server, with TLS when `hosts` is given, that runs `behaviour` for every request head. Bodies are not
 * interpreted.
 */
export async function startRawUpstream(behaviour: RawBehaviour, hosts?: readonly string[]): Promise<RawUpstream> {
  let connections = 0;
  let received = '';
  function accept(socket: Socket): void {
    connections++;
    let text = '';
    socket.on('error', () => undefined);
    socket.on('end', () => socket.end());
    socket.on('data', (chunk) => {
      const piece = chunk.toString('latin1');
      received += piece;
      text += piece;
      if (!text.includes('\r\n\r\n')) return;
      const complete = text;
      text = '';
      behaviour(socket, complete);
    });
  }
  const certificate = hosts === undefined ? undefined : certificateOf('good', hosts);
  const server =
    certificate === undefined
      ? createServer({ allowHalfOpen: true }, accept)
      : createTlsServer({ cert: certificate.certPem, key: certificate.keyPem }, accept);
  server.on('tlsClientError', () => undefined);
  const sockets = trackSockets(server);
  const port = await listenOnFreePort(server);
  return {
    port,
    caPem: certificate?.caPem ?? '',
    get connections() {
      return connections;
    },
    get open() {
      return sockets.size;
    },
    get received() {
      return received;
    },
    close: () => closeServer(server, sockets),
  };
}
