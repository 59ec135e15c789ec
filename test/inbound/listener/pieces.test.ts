// Bodies that come in pieces of one byte: what is held of them is a small multiple of their bytes, whether they are read or wait to be.
import type { Socket } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t from 'tap';
import type { Arrival } from '../../../src/base/model/arrival.ts';
import { eventually } from '../../support/child.ts';
import { type Harness, type HasTeardown, openTunnel, rawClient, startListener, tlsInside } from './harness.ts';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** Below the window that an h2 stream has without more being said. */
const PIECES = 60_000;
const STREAMS = 4;
/** Of each byte: slabs that grow by doubling, and what little else a request holds. As objects of their own pieces take a hundred. */
const MOST_PER_BYTE = 12;

function held(): number {
  collectGarbage();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1');
/** Static table (RFC 7541 appendix A): POST, https, `/`, and the authority as a literal that is not indexed. */
const POST = Buffer.concat([Buffer.from([0x83, 0x87, 0x84, 0x01, 14]), Buffer.from('api.openai.com')]);

function frame(type: number, flags: number, stream: number, payload: Uint8Array): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

interface Client {
  /** A body without an end: its head, and pieces of it. */
  begin(at: number): void;
  /** The end of that body. */
  end(at: number): void;
}

const CLIENTS: Readonly<Record<string, (t: HasTeardown, harness: Harness) => Promise<Client>>> = {
  'http/1.1': async (t, harness) => {
    const sockets: Socket[] = [];
    for (let at = 0; at < STREAMS; at += 1) sockets.push((await rawClient(t, harness.listener.port)).socket);
    return {
      begin: (at) => {
        sockets[at]?.write('POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n');
        sockets[at]?.write('1\r\nx\r\n'.repeat(PIECES));
      },
      end: (at) => void sockets[at]?.write('0\r\n\r\n'),
    };
  },
  h2: async (t, harness) => {
    const socket = await tlsInside(t, harness, await openTunnel(t, harness.listener.port), { ALPNProtocols: ['h2'] });
    socket.resume().write(Buffer.concat([PREFACE, frame(4, 0, 0, new Uint8Array(0))]));
    const streamOf = (at: number): number => 2 * at + 1;
    return {
      begin: (at) => {
        socket.write(frame(1, 4, streamOf(at), POST));
        const piece = frame(0, 0, streamOf(at), Buffer.from('x'));
        socket.write(Buffer.concat(Array.from({ length: PIECES }, () => piece)));
      },
      end: (at) => void socket.write(frame(0, 1, streamOf(at), new Uint8Array(0))),
    };
  },
};

for (const [protocol, connect] of Object.entries(CLIENTS)) {
  t.test(`${protocol}: a body in pieces of one byte is held in few times its bytes, and comes as it was sent`, async (t) => {
    let arrived = 0;
    const bodies: Promise<Uint8Array>[] = [];
    const onArrival = ({ body }: Arrival): void => {
      let seen = 0;
      bodies.push(
        body.readAll(PIECES, (total) => {
          arrived += total - seen;
          seen = total;
        }),
      );
    };
    const harness = await startListener(t, { onArrival });
    const client = await connect(t, harness);
    const before = held();
    for (let at = 0; at < STREAMS; at += 1) client.begin(at);
    await eventually('all pieces', () => arrived === STREAMS * PIECES || undefined);
    const perByte = (held() - before) / arrived;
    t.ok(perByte < MOST_PER_BYTE, `${perByte.toFixed(1)} bytes for each`);
    for (let at = 0; at < STREAMS; at += 1) client.end(at);
    for (const body of await Promise.all(bodies)) t.equal(Buffer.from(body).toString('latin1'), 'x'.repeat(PIECES));
  });

  t.test(`${protocol}: so is one that waits to be read, and what is read then is all of it`, async (t) => {
    const arrivals: Arrival[] = [];
    const harness = await startListener(t, { onArrival: (arrival) => void arrivals.push(arrival) });
    const client = await connect(t, harness);
    const before = held();
    for (let at = 0; at < STREAMS; at += 1) client.begin(at);
    await eventually('arrivals', () => arrivals.length === STREAMS || undefined);
    // Who is asked for nothing may say something else: the connection has been read up to there.
    const { port } = harness.listener;
    for (let times = 0; times < 20; times += 1) (await rawClient(t, port)).socket.destroy();
    const perByte = (held() - before) / (STREAMS * PIECES);
    t.ok(perByte < MOST_PER_BYTE, `${perByte.toFixed(1)} bytes for each`);
    for (let at = 0; at < STREAMS; at += 1) client.end(at);
    const [first, second, ...others] = arrivals.map(({ body }) => body);
    const whole = [await first?.readAll(PIECES), await second?.readAll(PIECES)];
    for (const body of others) {
      const pieces: Uint8Array[] = [];
      for await (const piece of body.stream()) pieces.push(piece);
      whole.push(Buffer.concat(pieces));
    }
    for (const body of whole) t.ok(body !== undefined && Buffer.alloc(PIECES, 'x').equals(body));
  });
}
