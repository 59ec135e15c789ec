import { once } from 'node:events';
import t from 'tap';
import type { BodySource } from '../../../src/base/model/arrival.ts';
import { framingOf } from '../../../src/inbound/listener/framing.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import type { HasTeardown } from '../../support/temp-dir.ts';
import { h2Client, rawClient, startListener } from './harness.ts';

const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

async function until(what: string, holds: () => boolean): Promise<void> {
  for (const end = performance.now() + 60_000; !holds(); await turn()) if (performance.now() > end) throw new Error(`no ${what}`);
}

interface SlowBody {
  readonly body: BodySource;
  send(): void;
  finish(): void;
  readonly closed: Promise<unknown>;
}

const CLIENTS = {
  'http/1.1': async (t: HasTeardown, harness: Awaited<ReturnType<typeof startListener>>) => {
    const client = await rawClient(t, harness.listener.port);
    client.socket.write('POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n');
    return {
      send: () => void client.socket.write('1\r\nx\r\n'),
      finish: () => void client.socket.write('0\r\n\r\n'),
      closed: client.closed,
    };
  },
  h2: async (t: HasTeardown, harness: Awaited<ReturnType<typeof startListener>>) => {
    const stream = (await h2Client(t, harness)).request({ ':method': 'POST', ':path': '/' });
    stream.on('error', () => undefined);
    return { send: () => void stream.write('x'), finish: () => void stream.end(), closed: once(stream, 'close') };
  },
};

for (const [protocol, connect] of Object.entries(CLIENTS)) {
  const begin = async (t: HasTeardown) => {
    const clock = fakeClock();
    const bodies: BodySource[] = [];
    const harness = await startListener(t, { clock, onArrival: ({ body }) => void bodies.push(body) });
    const client = await connect(t, harness);
    await until('arrival', () => bodies.length > 0);
    const [body] = bodies;
    if (body === undefined) throw new Error('no body');
    const slow: SlowBody = { ...client, body };
    return { clock, ...slow };
  };

  t.test(`${protocol}: a body that passes may take any time, but its client may not fall silent for a minute`, async (t) => {
    const { clock, body, send, closed } = await begin(t);
    let taken = 0;
    const outcome = (async () => {
      for await (const chunk of body.stream()) taken += chunk.length;
    })().catch((error: unknown) => error);
    for (let round = 1; round <= 20; round += 1) {
      send();
      await until('chunk', () => taken === round);
      clock.advance(50_000);
    }
    clock.advance(8_000);
    await turn();
    t.equal(taken, 20, 'a quarter of an hour is no matter');
    clock.advance(4_000);
    await closed;
    t.match(await outcome, { code: 'client_gone' });
  });

  t.test(`${protocol}: a body that nobody takes meanwhile is not its client's silence`, async (t) => {
    const { clock, body, send, finish } = await begin(t);
    const reader = body.stream();
    send();
    t.match(await reader.next(), { done: false });
    send();
    clock.advance(3_600_000);
    t.match(await reader.next(), { done: false });
    finish();
    t.match(await reader.next(), { done: true });
  });

  t.test(`${protocol}: a body that is held arrives within five minutes, however it moves`, async (t) => {
    const { clock, body, send, closed } = await begin(t);
    let taken = 0;
    const outcome = body
      .readAll(1_000, (total) => {
        taken = total;
      })
      .catch((error: unknown) => error);
    for (let round = 1; round <= 7; round += 1) {
      send();
      await until('chunk', () => taken === round);
      clock.advance(40_000);
    }
    clock.advance(25_000);
    await closed;
    t.match(await outcome, { code: 'client_gone' });
  });
}

t.test('framing is judged by itself, whatever the parser before it lets through', async (t) => {
  const cases: readonly (readonly [fields: readonly string[], version: string, expected: unknown])[] = [
    [['Host', 'a'], '1.1', { declaredLength: 0 }],
    [['Host', 'a', 'Content-Length', '5'], '1.1', { declaredLength: 5 }],
    [['Host', 'a', 'transfer-encoding', 'Chunked'], '1.1', { declaredLength: undefined }],
    [[], '1.0', { declaredLength: 0 }],
    [[], '1.1', { code: 'bad_framing' }],
    [['Host', 'a'], '2.0', { code: 'bad_framing' }],
    [[], '0.9', { code: 'bad_framing' }],
    [['Host', 'a', 'host', 'a'], '1.1', { code: 'bad_framing' }],
    [['Host', 'a', 'Content-Length', '5', 'Content-Length', '5'], '1.1', { code: 'bad_framing' }],
    [['Host', 'a', 'Content-Length', '0x5'], '1.1', { code: 'bad_framing' }],
    [['Host', 'a', 'Content-Length', ''], '1.1', { code: 'bad_framing' }],
    [['Host', 'a', 'Transfer-Encoding', 'chunked', 'Transfer-Encoding', 'chunked'], '1.1', { code: 'bad_framing' }],
    [['Host', 'a', 'Transfer-Encoding', 'chunked', 'Content-Length', '5'], '1.1', { code: 'bad_framing' }],
    [['Host', 'a', 'Transfer-Encoding', 'gzip, chunked'], '1.1', { code: 'bad_framing' }],
    [['Host', 'a', 'Transfer-Encoding', 'chunked'], '1.0', { code: 'bad_framing' }],
  ];
  for (const [fields, version, expected] of cases) t.match(framingOf(fields, version), expected, `${version} ${fields.join(' ')}`);
});
