// A passed tunnel is looked at once: its ClientHello (decision 3.9).
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { promisify } from 'node:util';
import t from 'tap';
import type { JudgeServerName } from '../../../src/inbound/listener/hello-gate.ts';
import type { ListenerOptions } from '../../../src/inbound/listener/listener.ts';
import type { TunnelSummary } from '../../../src/inbound/listener/tunnel.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { requirePeer, skipWithout } from '../../support/peers.ts';
import { startTlsUpstream } from '../../support/tls-upstream.ts';
import { ECH, hello, helloMessage, PADDING, records } from './client-hellos.ts';
import { dialTo, type HasTeardown, openTunnel, type RawClient, rawClient, startListener, tcpServer, watch } from './harness.ts';

const run = promisify(execFile);
/** A host that may not be named here; anything else may. */
const FORBIDDEN = 'api.openai.com';
const ALERT = '\x15\x03\x03\x00\x02\x02\x70';

interface Scene {
  readonly port: number;
  /** All that the far end got, and its sockets. */
  readonly got: () => string;
  readonly far: readonly Socket[];
  /** Names that were asked about. */
  readonly asked: readonly string[];
  readonly summaries: readonly TunnelSummary[];
  readonly openTunnels: () => number;
}

interface SceneOptions extends Partial<ListenerOptions> {
  /** What the far end says as soon as it is reached. */
  readonly greeting?: string;
  readonly farPort?: number;
  readonly recorded?: () => Promise<unknown>;
}

async function scene(
  t: HasTeardown,
  { greeting, farPort, recorded = () => Promise.resolve(), ...options }: SceneOptions = {},
): Promise<Scene> {
  let got = '';
  const far: Socket[] = [];
  const asked: string[] = [];
  const summaries: TunnelSummary[] = [];
  const server = await tcpServer(t, (socket) => {
    far.push(socket);
    socket.on('data', (chunk: Buffer) => {
      got += chunk.toString('latin1');
    });
    socket.on('end', () => socket.end());
    if (greeting !== undefined) socket.write(greeting);
  });
  const judge: JudgeServerName = (name) => {
    asked.push(name);
    return name === FORBIDDEN ? recorded() : undefined;
  };
  const { listener } = await startListener(t, {
    onTunnel: () => Promise.resolve({ kind: 'tunnel', judge }),
    dial: () => dialTo(farPort ?? server.port),
    onTunnelClosed: (summary) => summaries.push(summary),
    ...options,
  });
  return { port: listener.port, got: () => got, far, asked, summaries, openTunnels: () => listener.openTunnels };
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise(setImmediate);
}

/** What a program that fails says; empty when it does not. */
async function failure(program: Promise<unknown>): Promise<string> {
  return program.then(
    () => '',
    (error: unknown) => String(error instanceof Error && 'stderr' in error ? error.stderr : error),
  );
}

const open = (t: HasTeardown, port: number): Promise<Socket> => openTunnel(t, port, 'www.example.com:443');

t.test('a ClientHello whose name may pass reaches the upstream unchanged, and so does everything after it', async (t) => {
  const s = await scene(t);
  const sent = Buffer.concat([hello('www.example.com'), Buffer.from('\x00\xffmore', 'latin1')]);
  const client = await open(t, s.port);
  client.write(sent);
  await until(() => s.got().length === sent.length);
  client.write('and more');
  client.end();
  await until(() => s.summaries.length === 1);
  t.equal(s.got(), `${sent.toString('latin1')}and more`);
  t.same(s.asked, ['www.example.com']);
  t.equal(s.summaries[0]?.bytesUp, sent.length + 8);
});

t.test('a real TLS client gets through a passed tunnel, over TLS 1.2 and 1.3', async (t) => {
  const upstream = await startTlsUpstream({ hosts: ['www.example.com'] });
  t.teardown(() => upstream.close());
  const s = await scene(t, { farPort: upstream.port });
  for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
    const secure = connectTls({ socket: await open(t, s.port), ca: upstream.caPem, servername: 'www.example.com', maxVersion });
    t.teardown(() => secure.destroy());
    await once(secure, 'secureConnect');
    secure.write('GET / HTTP/1.1\r\nHost: www.example.com\r\nConnection: close\r\n\r\n');
    t.match((await watch(secure).closed).text, /^HTTP\/1\.1 200 /);
  }
  t.same(s.asked, ['www.example.com', 'www.example.com']);
});

t.test('a name that may not pass ends the connection with an alert, after it was recorded, and the upstream hears nothing', async (t) => {
  let record: () => void = () => undefined;
  const stored = new Promise<void>((resolve) => {
    record = resolve;
  });
  const s = await scene(t, { recorded: () => stored });
  const client = watch(await open(t, s.port));
  client.socket.write(hello(FORBIDDEN));
  await until(() => s.asked.length === 1 && s.far[0]?.destroyed === true);
  t.equal(client.text(), '', 'the record comes first');
  record();
  t.equal((await client.closed).text, ALERT);
  await until(() => s.summaries.length === 1);
  t.equal(s.got(), '');
  t.match(s.summaries[0], { bytesUp: 0, bytesDown: 0 });
  t.equal(s.openTunnels(), 0);
});

t.test('a record that cannot be stored does not let the client through either', async (t) => {
  const s = await scene(t, { recorded: () => Promise.reject(new Error('no disk')) });
  const client = watch(await open(t, s.port));
  client.socket.write(hello(FORBIDDEN));
  t.equal((await client.closed).text, ALERT);
  t.equal(s.got(), '');
});

t.test('curl and openssl say what happened to them', { skip: skipWithout(['curl', 'openssl']) }, async (t) => {
  const s = await scene(t);
  const proxy = `http://127.0.0.1:${s.port}`;
  const curl = run(requirePeer('curl'), [
    '-sS',
    '--max-time',
    '20',
    '--proxy',
    proxy,
    '--connect-to',
    `${FORBIDDEN}:443:www.example.com:443`,
    `https://${FORBIDDEN}/`,
  ]);
  t.match(await failure(curl), /unrecognized name/);
  const openssl = run(requirePeer('openssl'), [
    's_client',
    '-proxy',
    `127.0.0.1:${s.port}`,
    '-connect',
    'www.example.com:443',
    '-servername',
    FORBIDDEN,
  ]);
  t.match(await failure(openssl), /unrecognized name/);
  t.same(s.asked, [FORBIDDEN, FORBIDDEN]);
  t.equal(s.got(), '');
});

t.test('the name is found however the ClientHello is cut, and in whichever place it stands', async (t) => {
  const s = await scene(t);
  const message = helloMessage({
    names: [FORBIDDEN],
    before: [
      [ECH, Buffer.from('inner')],
      [PADDING, Buffer.alloc(900)],
    ],
  });
  const cuts: readonly (readonly Buffer[])[] = [
    [records(message, 1)],
    [records(message, 100).subarray(0, 3), records(message, 100).subarray(3, 500), records(message, 100).subarray(500)],
    [hello('www.example.com', FORBIDDEN)],
    [Buffer.concat([hello(FORBIDDEN), Buffer.from('early data')])],
  ];
  for (const parts of cuts) {
    const client = watch(await open(t, s.port));
    for (const part of parts) {
      client.socket.write(part);
      await new Promise(setImmediate);
    }
    t.equal((await client.closed).text, ALERT);
  }
  t.equal(s.got(), '');
});

t.test('a ClientHello that comes together with its CONNECT is looked at like any other', async (t) => {
  const s = await scene(t);
  const client = watch(await dialTo(s.port));
  t.teardown(() => client.socket.destroy());
  client.socket.write(Buffer.concat([Buffer.from('CONNECT www.example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n'), hello(FORBIDDEN)]));
  t.equal((await client.closed).text, `HTTP/1.1 200 Connection Established\r\n\r\n${ALERT}`);
  t.equal(s.got(), '');
});

t.test('without SNI, and where the bytes are no TLS, everything passes at once', async (t) => {
  const s = await scene(t);
  const sent = [
    records(helloMessage()),
    Buffer.from('SSH-2.0-x\r\n'),
    Buffer.of(0),
    Buffer.from(`GET / HTTP/1.1\r\nHost: ${FORBIDDEN}\r\n\r\n`),
  ];
  for (const bytes of sent) {
    const before = s.got().length;
    (await open(t, s.port)).write(bytes);
    await until(() => s.got().length === before + bytes.length);
  }
  t.equal(s.got(), Buffer.concat(sent).toString('latin1'));
  t.same(s.asked, []);
});

t.test('a server that speaks first is heard while the client says nothing, or half of its ClientHello', async (t) => {
  const s = await scene(t, { greeting: '220 hello\r\n' });
  const established = async (): Promise<RawClient> => {
    const client = await rawClient(t, s.port);
    client.socket.write('CONNECT www.example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n');
    return client;
  };
  await (await established()).until(/\r\n\r\n220 hello/);
  const half = await established();
  half.socket.write(hello(FORBIDDEN).subarray(0, 30));
  await half.until(/\r\n\r\n220 hello/);
  half.socket.write(hello(FORBIDDEN).subarray(30));
  t.match((await half.closed).text, /\r\n\r\n220 hello\r\n$/, 'no alert among the bytes of another protocol');
  t.equal(s.got(), '');
});

t.test('a ClientHello that stays incomplete passes on after the deadline, and is judged all the same once it is whole', async (t) => {
  const clock = fakeClock();
  const s = await scene(t, { clock });
  const bytes = hello(FORBIDDEN);
  const client = watch(await open(t, s.port));
  clock.advance(60_000);
  client.socket.write(bytes.subarray(0, 40));
  await until(() => s.far.length === 1);
  for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate);
  clock.advance(2_000);
  t.equal(s.got(), '', 'a silence before the first byte does not count');
  await until(() => {
    clock.advance(1_000);
    return s.got().length === 40;
  });
  client.socket.write(bytes.subarray(40));
  t.equal((await client.closed).text, ALERT);
  t.equal(s.got().length, 40);
});

t.test('a client that ends in the middle of its ClientHello still says what it said', async (t) => {
  const s = await scene(t);
  const client = await open(t, s.port);
  client.end(hello(FORBIDDEN).subarray(0, 40));
  client.resume();
  await once(client, 'close');
  t.equal(s.got().length, 40);
  t.same(s.asked, []);
});

t.test('a client that has nothing to say and ends before its tunnel is there still gets all of the answer', async (t) => {
  const server = await tcpServer(t, (socket) => void socket.resume().on('end', () => socket.end('said last')));
  for (const judge of [undefined, () => undefined]) {
    let reach: () => void = () => undefined;
    const reached = new Promise<void>((resolve) => {
      reach = resolve;
    });
    const s = await scene(t, {
      onTunnel: () => Promise.resolve(judge === undefined ? { kind: 'tunnel' } : { kind: 'tunnel', judge }),
      dial: () => reached.then(() => dialTo(server.port)),
    });
    const client = await rawClient(t, s.port);
    client.socket.allowHalfOpen = true;
    client.socket.end('CONNECT www.example.com:443 HTTP/1.1\r\nHost: www.example.com\r\n\r\n');
    await until(() => s.openTunnels() === 1);
    for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate);
    reach();
    t.match((await client.closed).text, /^HTTP\/1\.1 200 .*\r\n\r\nsaid last$/s);
    await until(() => s.summaries.length === 1);
  }
});

t.test('a refused client that does not close is closed', async (t) => {
  const clock = fakeClock();
  const s = await scene(t, { clock });
  const client = await open(t, s.port);
  client.allowHalfOpen = true;
  const told = once(client, 'end');
  client.resume();
  client.write(hello(FORBIDDEN));
  await told;
  t.equal(s.openTunnels(), 1);
  clock.advance(4_000);
  await until(() => s.openTunnels() === 0);
  t.equal(client.destroyed, false, 'it was not the client that left');
});

t.test('what follows a ClientHello at once waits for an upstream that does not read, and arrives whole', async (t) => {
  const s = await scene(t);
  const client = await open(t, s.port);
  const large = Buffer.alloc(8_388_608, 1);
  client.write(Buffer.concat([hello('www.example.com'), large]));
  await until(() => s.far.length === 1);
  s.far[0]?.pause();
  for (let turn = 0; turn < 200; turn++) await new Promise(setImmediate);
  s.far[0]?.resume();
  await until(() => s.got().length === large.length + hello('www.example.com').length);
  t.pass('all of it came through');
});
