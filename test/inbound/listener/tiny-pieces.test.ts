// Bodies in pieces of a few bytes: how many are taken at once, that none is lost, and that others are served meanwhile
// (decision 7.12).
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import t from 'tap';
import type { Arrival } from '../../../src/base/model/arrival.ts';
import { CONNECTION_BOUNDS } from '../../../src/base/model/traffic-bounds.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { END_HEADERS, END_STREAM, FRAME, frame } from '../../support/h2-frames.ts';
import { type HasTeardown, openTunnel, startListener, tlsInside } from './harness.ts';

const AT_ONCE = CONNECTION_BOUNDS.tinyPieces.one;
/** Of `1\r\n \r\n` in what is read from a connection at a time. */
const OF_ONE_READ = 65_536 / 6;
const PIECES = 5 * AT_ONCE;
const HEAD = 'POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n';
const LIMIT = 1_048_576;
/** As many as the first windows of a connection let through. */
const PIECES_H2 = 60_000;
const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
/** Static table (RFC 7541 appendix A): POST, https, `/`, and the authority as a literal that is not indexed. */
const POST = Buffer.concat([Buffer.from([0x83, 0x87, 0x84, 0x01, 14]), Buffer.from('api.openai.com')]);

type Reader = (arrival: Arrival, seen: (bytes: number) => void) => Promise<number>;

const whole: Reader = async ({ body }, seen) => (await body.readAll(LIMIT, (size) => seen(size))).length;

const passing: Reader = async ({ body }, seen) => {
  let size = 0;
  for await (const chunk of body.stream()) {
    size += chunk.length;
    seen(size);
  }
  return size;
};

async function client(t: HasTeardown, port: number, localAddress = '127.0.0.1'): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', localAddress });
  t.teardown(() => socket.destroy());
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  return socket;
}

for (const [name, read] of Object.entries({ whole, passing })) {
  t.test(`a body that is read ${name} gives some tiny pieces at once, and the rest as time passes`, async (t) => {
    const clock = fakeClock();
    let size = 0;
    let ended = -1;
    const { listener } = await startListener(t, {
      clock,
      onArrival: (arrival) => {
        if (arrival.head.rawTarget === '/quick') return arrival.reply.sendWhole(200, [], Buffer.from('ok'));
        void read(arrival, (bytes) => {
          size = bytes;
        }).then((bytes) => {
          ended = bytes;
          arrival.reply.sendWhole(200, [], Buffer.from('ok'));
        });
      },
    });
    const socket = await client(t, listener.port);
    socket.write(HEAD);
    socket.write('1\r\nx\r\n'.repeat(PIECES));
    socket.write('0\r\n\r\n');
    while (size < AT_ONCE) await turn();
    for (let i = 0; i < 100; i++) await turn();
    t.ok(size <= AT_ONCE + OF_ONE_READ, `${size} are taken while no time passes`);
    const other = await client(t, listener.port, '127.0.0.2');
    other.write('GET /quick HTTP/1.1\r\nHost: x\r\n\r\n');
    t.match(String(((await once(other, 'data')) as [Buffer])[0]), /^HTTP\/1\.1 200 /, 'others are served meanwhile');
    while (ended < 0) {
      clock.advance(100);
      await turn();
    }
    t.equal(ended, PIECES, 'none is lost');
    t.match(String(((await once(socket, 'data')) as [Buffer])[0]), /^HTTP\/1\.1 200 /);
  });
}

t.test('pieces that are not tiny, and bodies of a stated length, wait for nothing', async (t) => {
  const clock = fakeClock();
  let left = 2;
  const { listener } = await startListener(t, {
    clock,
    onArrival: ({ body, reply }) => {
      void body.readAll(LIMIT * 4).then((bytes) => {
        left -= 1;
        reply.sendWhole(200, [], Buffer.from(String(bytes.length)));
      });
    },
  });
  const piece = `10\r\n${'y'.repeat(16)}\r\n`;
  const chunked = await client(t, listener.port);
  chunked.write(HEAD + piece.repeat(2 * AT_ONCE));
  chunked.write('0\r\n\r\n');
  const stated = await client(t, listener.port);
  stated.write(`POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ${2 * AT_ONCE}\r\n\r\n${'z'.repeat(2 * AT_ONCE)}`);
  while (left > 0) await turn();
  t.equal(left, 0);
});

for (const [name, read] of Object.entries({ whole, passing })) {
  t.test(
    `an HTTP/2 body in frames of one byte that is read ${name} comes no faster, on any number of connections of its address`,
    async (t) => {
      const CONNECTIONS = 4;
      const clock = fakeClock();
      const sizes = new Map<Arrival, number>();
      let ended = 0;
      const harness = await startListener(t, {
        clock,
        onArrival: (arrival) => {
          if (arrival.head.rawTarget === '/quick') return arrival.reply.sendWhole(200, [], Buffer.from('ok'));
          void read(arrival, (bytes) => sizes.set(arrival, bytes)).then((bytes) => {
            ended += bytes;
            arrival.reply.sendWhole(200, [], Buffer.from('ok'));
          });
        },
      });
      const taken = (): number => [...sizes.values()].reduce((sum, size) => sum + size, 0);
      const sent = Buffer.concat([
        PREFACE,
        frame(FRAME.settings, 0, 0),
        frame(FRAME.headers, END_HEADERS, 1, POST),
        ...Array.from({ length: PIECES_H2 }, () => frame(FRAME.data, 0, 1, Buffer.from('x'))),
        frame(FRAME.data, END_STREAM, 1),
      ]);
      for (let i = 0; i < CONNECTIONS; i++) {
        const socket = await tlsInside(t, harness, await openTunnel(t, harness.listener.port), { ALPNProtocols: ['h2'] });
        socket.resume().write(sent);
      }
      while (taken() < AT_ONCE) await turn();
      for (let i = 0; i < 200; i++) await turn();
      t.ok(taken() <= AT_ONCE + CONNECTIONS * OF_ONE_READ, `${taken()} are taken while no time passes`);
      const other = await client(t, harness.listener.port, '127.0.0.2');
      other.write('GET /quick HTTP/1.1\r\nHost: x\r\n\r\n');
      t.match(String(((await once(other, 'data')) as [Buffer])[0]), /^HTTP\/1\.1 200 /, 'others are served meanwhile');
      while (ended < CONNECTIONS * PIECES_H2) {
        clock.advance(100);
        await turn();
      }
      t.equal(ended, CONNECTIONS * PIECES_H2, 'none is lost, and none is refused');
    },
  );
}
