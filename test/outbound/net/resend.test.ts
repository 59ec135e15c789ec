import { createServer, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { resetSocket } from '../../../src/base/lib/sockets.ts';
import type { Upstream } from '../../../src/outbound/net/upstream.ts';
import type { HasTeardown } from '../../support/temp-dir.ts';
import { certificateOf, closeServer, listenOnFreePort, trackSockets } from '../../support/tls-upstream.ts';
import { collect, eachClient, type Outcome } from '../../support/upstream-calls.ts';

const HOST = 'localhost';
const CALLS = 240;
const AT_ONCE = 4;

/** Closes as rudely as the transport lets one. */
const cut = (socket: Socket): void => ('encrypted' in socket ? void socket.destroy() : resetSocket(socket));
const later = (act: () => void): void => void setTimeout(act, 1);

/**
 * What happens to the connection, by the request that is on it. `early` acts on the first bytes, `headed` once the head
 * is there, `answered` last.
 */
interface Mood {
  readonly early?: (socket: Socket) => void;
  readonly headed?: (socket: Socket, answer: string) => void;
  readonly answered?: (socket: Socket) => void;
}

/** Every third connection is spared, so that there are idle ones whose end comes as a surprise. */
const MOODS: readonly Mood[] = [
  {},
  { answered: (socket) => socket.end() },
  { answered: cut },
  {},
  { answered: (socket) => later(() => socket.end()) },
  { answered: (socket) => later(() => cut(socket)) },
  {},
  { answered: (socket) => setImmediate(() => cut(socket)) },
  { answered: (socket) => later(() => socket.end('HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n')) },
  {},
  { early: cut },
  { early: (socket) => socket.end() },
  {},
  { headed: cut },
  { headed: (socket, answer) => socket.end(answer) },
  {},
  { headed: (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Le') },
  { headed: (socket, answer) => socket.write(answer, () => cut(socket)) },
];

interface Moody {
  readonly port: number;
  readonly caPem: string;
  /** How often the first bytes of each request came. */
  readonly arrivals: ReadonlyMap<number, number>;
}

async function startMoody(t: HasTeardown, tls: boolean): Promise<Moody> {
  const arrivals = new Map<number, number>();
  function accept(socket: Socket): void {
    let text = '';
    let id: number | undefined;
    socket.on('error', () => undefined);
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
      const found = /^[A-Z]+ \/id\/(\d+) /.exec(text);
      if (found === null) return;
      const mood = MOODS[Number(found[1]) % MOODS.length] ?? {};
      if (id === undefined) {
        id = Number(found[1]);
        arrivals.set(id, (arrivals.get(id) ?? 0) + 1);
        mood.early?.(socket);
      }
      const end = text.indexOf('\r\n\r\n');
      if (mood.early !== undefined || end === -1) return;
      const answer = `HTTP/1.1 200 OK\r\nContent-Length: ${String(id).length}\r\n\r\n${id}`;
      if (mood.headed !== undefined) {
        mood.headed(socket, answer);
        return;
      }
      const length = Number(/content-length: (\d+)/i.exec(text)?.[1] ?? 0);
      const isWhole = /transfer-encoding: chunked/i.test(text) ? text.endsWith('0\r\n\r\n') : text.length >= end + 4 + length;
      if (!isWhole) return;
      text = '';
      id = undefined;
      socket.write(answer);
      mood.answered?.(socket);
    });
  }
  const certificate = certificateOf('good', [HOST]);
  const server = tls ? createTlsServer({ cert: certificate.certPem, key: certificate.keyPem }, accept) : createServer(accept);
  server.on('tlsClientError', () => undefined);
  const sockets = trackSockets(server);
  const port = await listenOnFreePort(server);
  t.teardown(() => closeServer(server, sockets));
  return { port, caPem: certificate.caPem, arrivals };
}

/** The forms that requests have: without a body, with bytes, streamed with and without a length. */
function send(upstream: Upstream, server: Moody, tls: boolean, id: number): Promise<Outcome> {
  const call = { authority: { host: HOST, port: server.port }, tls, path: `/id/${id}` };
  async function* body(): AsyncGenerator<Uint8Array> {
    for (let i = 0; i < 5; i++) {
      yield Buffer.alloc(2_000, 'x');
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
  switch (id % 5) {
    case 0:
      return collect(upstream, { ...call, method: 'POST', body: Buffer.alloc(10_000, 'x') });
    case 1:
      return collect(upstream, { ...call, method: 'PUT', body: body(), bodyLength: 10_000 });
    case 2:
      return collect(upstream, { ...call, method: 'POST', body: body() });
    case 3:
      return collect(upstream, { ...call, method: 'DELETE' });
    default:
      return collect(upstream, call);
  }
}

for (const tls of [false, true]) {
  eachClient(
    `whenever an upstream closes a kept ${tls ? 'TLS' : 'plain'} connection, no request arrives twice and no answer goes astray`,
    async (t, openUpstream) => {
      const server = await startMoody(t, tls);
      const open = (): Upstream => openUpstream(t, { caFile: server.caPem, lookup: async () => ['127.0.0.1'] });
      const upstream = open();
      let next = 0;
      let whole = 0;
      const faults = new Set<string>();
      const worker = async (): Promise<void> => {
        for (let id = next++; id < CALLS; id = next++) {
          const { error, status, body } = await send(upstream, server, tls, id);
          if (error !== undefined) faults.add(error.code);
          else if (status === 200) whole++;
          if (status === 200 && error === undefined && body !== String(id)) t.fail(`${id} got the answer of ${body}`);
          // A moment in which idle connections can end.
          if (id % 7 === 0) await new Promise((resolve) => setTimeout(resolve, 3));
        }
      };
      await Promise.all(Array.from({ length: AT_ONCE }, worker));
      t.same(
        [...server.arrivals].filter(([, times]) => times > 1),
        [],
      );
      t.ok(whole >= CALLS / 3, `${whole} came through`);
      t.ok(
        faults.size > 0 && [...faults].every((code) => code === 'upstream_unreachable' || code === 'upstream_protocol'),
        [...faults].join(),
      );
      await send(open(), server, tls, 0);
      t.equal(server.arrivals.get(0), 2, 'a request that is sent twice is counted twice');
    },
  );
}
