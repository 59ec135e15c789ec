// Who shares the connections, calls and tunnels of the ports: one client never has all of them, and who shows who he is
// has a share of his own.
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import t, { type Test } from 'tap';
import type { Arrival, ArrivalHead } from '../../../src/base/model/arrival.ts';
import { CONNECTION_BOUNDS } from '../../../src/base/model/traffic-bounds.ts';
import { Begins } from '../../../src/inbound/listener/begins.ts';
import type { ListenerOptions } from '../../../src/inbound/listener/listener.ts';
import { errorCode, type HasTeardown, h2Client, startListener, watch } from './harness.ts';

const GET = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';

async function from(t: HasTeardown, port: number, localAddress: string): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', localAddress });
  t.teardown(() => socket.destroy());
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  return socket;
}

/** What is answered, up to its head and body; undefined: the connection was closed. */
async function answered(socket: Socket, request: string): Promise<string | undefined> {
  const client = watch(socket);
  socket.write(request);
  return client.until(/\r\n\r\n.*/s).catch(() => undefined);
}

const connectAs = (fields = ''): string => `CONNECT api.openai.com:443 HTTP/1.1\r\nHost: x\r\n${fields}\r\n`;
const basic = (user: string): string => `Proxy-Authorization: Basic ${Buffer.from(`${user}:token`).toString('base64')}\r\n`;

/** Whoever names a workload has shown its token. */
const byUser: ListenerOptions['onTunnel'] = ({ authority, proxyUser }) =>
  Promise.resolve({ kind: 'intercept', tunnel: { authority, ...(proxyUser ? { fixedWorkload: proxyUser } : {}) } });

t.test(
  'one client holds half of the tunnels, the next still finds some, and a workload that has shown its token has its own share',
  async (t) => {
    const { listener } = await startListener(t, { limits: { maxTunnels: 12 }, onTunnel: byUser });
    const tries = async (address: string, fields: string, times: number): Promise<number> => {
      let opened = 0;
      for (let i = 0; i < times; i++) {
        const said = await answered(await from(t, listener.port, address), connectAs(fields));
        if (said?.startsWith('HTTP/1.1 200 ')) opened++;
        else t.match(said, /^HTTP\/1\.1 429 .*Retry-After: 1\r\n.*holds its share of the open tunnels/s);
      }
      return opened;
    };
    t.equal(await tries('127.0.0.2', '', 8), 6, 'half of twelve');
    t.equal(await tries('127.0.0.2', basic('ci'), 4), 3, 'who shows a token at the same address has half of what is left');
    t.equal(await tries('127.0.0.3', '', 3), 2);
    t.equal(await tries('127.0.0.4', basic('ci'), 1), 0, 'the workload has its share wherever it comes from');
    t.equal(listener.openTunnels, 11);
    t.equal(await tries('127.0.0.5', '', 1), 1, 'and the last one is for who holds none');
  },
);

t.test('workloads of two orgs that have one id have a share each', async (t) => {
  const { listener } = await startListener(t, {
    limits: { maxTunnels: 12 },
    onTunnel: ({ authority, proxyUser = '' }) =>
      Promise.resolve({ kind: 'intercept', tunnel: { authority, fixedWorkload: 'ci', workloadOrg: proxyUser } }),
  });
  const opened = { acme: 0, other: 0 };
  for (const org of ['acme', 'other'] as const) {
    for (let i = 0; i < 8; i++) {
      const said = await answered(await from(t, listener.port, '127.0.0.2'), connectAs(basic(org)));
      if (said?.startsWith('HTTP/1.1 200 ')) opened[org]++;
    }
  }
  t.same(opened, { acme: 6, other: 3 });
});

t.test('what is shown and is worth nothing opens nothing, and a WebSocket counts as a tunnel does', async (t) => {
  const open = ({ reply }: Arrival): void => {
    reply
      .switchProtocols?.([])
      .open({ onData: () => undefined, onDrain: () => undefined, onEnd: () => undefined, onClose: () => undefined });
  };
  const { listener } = await startListener(t, { limits: { maxTunnels: 8 }, onArrival: open });
  const upgrade = `${GET.slice(0, -2)}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n`;
  for (const status of [101, 101, 101, 101, 429]) {
    t.match(await answered(await from(t, listener.port, '127.0.0.2'), upgrade), new RegExp(`^HTTP/1.1 ${status} `));
  }
  const junk = await answered(await from(t, listener.port, '127.0.0.2'), connectAs(basic('nobody').replace('Basic', 'Digest')));
  t.match(junk, /^HTTP\/1\.1 429 /);
  t.equal(listener.openTunnels, 4);
});

/** Calls that are never answered, but for those to `/quick`. */
function holding(held: Arrival[]) {
  return (arrival: Arrival): void => {
    if (arrival.head.rawTarget === '/quick') arrival.reply.sendWhole(200, [], Buffer.from('ok'));
    else held.push(arrival);
  };
}

const holderOf = (head: ArrivalHead) => {
  const shown = head.headers['x-token'];
  if (head.rawTarget === '/quick') return 'own';
  return shown === undefined ? undefined : Promise.resolve({ org: shown, caller: 'a' });
};

t.test(
  'one client has half of the calls under way, whatever the protocol; who shows who he is, and routes of the gateway itself, are served',
  async (t) => {
    const held: Arrival[] = [];
    const harness = await startListener(t, { limits: { maxCalls: 12 }, onArrival: holding(held), holderOf });
    const { listener } = harness;
    const session = await h2Client(t, harness);
    for (let i = 0; i < 4; i++) session.request({ ':path': '/' }).on('error', () => undefined);
    while (held.length < 4) await turn();
    for (let i = 0; i < 2; i++) (await from(t, listener.port, '127.0.0.1')).write(GET);
    while (held.length < 6) await turn();
    const refused = await answered(await from(t, listener.port, '127.0.0.1'), GET);
    t.match(refused, /^HTTP\/1\.1 503 .*Retry-After: 1\r\n/s);
    t.equal(errorCode(refused ?? ''), 'overloaded');
    const stream = session.request({ ':path': '/' });
    const [fields] = (await once(stream, 'response')) as [Record<string, unknown>];
    t.equal(fields[':status'], 503);
    stream.close();
    const known = await from(t, listener.port, '127.0.0.1');
    known.write(GET.replace('Host', 'X-Token: acme\r\nHost'));
    while (held.length < 7) await turn();
    t.match(await answered(await from(t, listener.port, '127.0.0.1'), GET.replace('/', '/quick')), /^HTTP\/1\.1 200 /);
    (await from(t, listener.port, '127.0.0.9')).write(GET);
    while (held.length < 8) await turn();
    t.equal(listener.callsUnderWay, 8);
    for (const { reply } of held) reply.sendWhole(200, [], Buffer.from('ok'));
    while (listener.callsUnderWay > 0) await turn();
    known.destroy();
  },
);

t.test('one address has half of the connections: its oldest that have nothing under way make room, and those of others stay', async (t) => {
  const held: Arrival[] = [];
  const { listener } = await startListener(t, { limits: { maxConnections: 8 }, onArrival: holding(held) });
  const other = await from(t, listener.port, '127.0.0.3');
  const busy = await from(t, listener.port, '127.0.0.2');
  busy.write(GET);
  while (held.length < 1) await turn();
  const used = await from(t, listener.port, '127.0.0.2');
  t.match(await answered(used, GET.replace('/', '/quick')), /^HTTP\/1\.1 200 /);
  const silent = [await from(t, listener.port, '127.0.0.2'), await from(t, listener.port, '127.0.0.2')];
  while (listener.openConnections < 5) await turn();
  const closed = (socket: Socket | undefined) => new Promise((resolve) => socket?.resume().once('close', resolve));
  const next = await from(t, listener.port, '127.0.0.2');
  await closed(silent[0]);
  t.match(await answered(next, GET.replace('/', '/quick')), /^HTTP\/1\.1 200 /, 'who has just come is served');
  next.destroy();
  silent[1]?.destroy();
  while (listener.openConnections > 3) await turn();
  t.same([busy.destroyed, used.destroyed, other.destroyed], [false, false, false], 'who has never asked for anything goes first');
  for (let i = 0; i < 3; i++) {
    (await from(t, listener.port, '127.0.0.2')).write(GET);
    while (held.length < 2 + i) await turn();
  }
  await closed(used);
  const late = connect({ port: listener.port, host: '127.0.0.1', localAddress: '127.0.0.2' });
  late.on('error', () => undefined);
  await closed(late);
  t.equal(listener.closed.refused, 1, 'where all have something under way the new one is ended');
  t.equal(other.destroyed, false);
  held[0]?.reply.sendWhole(200, [], Buffer.from('ok'));
  t.match(await answered(await from(t, listener.port, '127.0.0.4'), GET.replace('/', '/quick')), /^HTTP\/1\.1 200 /);
});

t.test(
  'a proxy that the operator trusts stands for many: what comes from it and shows nothing leaves a quarter to who shows something',
  async (t: Test) => {
    const isProxy = (address: string): boolean => address === '127.0.0.2';
    const held: Arrival[] = [];
    const limits = { maxConnections: 40, maxTunnels: 8, maxCalls: 8 };
    const { listener } = await startListener(t, { limits, isProxy, onTunnel: byUser, onArrival: holding(held), holderOf });
    const tunnel = async (fields?: string) => answered(await from(t, listener.port, '127.0.0.2'), connectAs(fields));
    for (let i = 0; i < 6; i++) t.match(await tunnel(), /^HTTP\/1\.1 200 /);
    t.match(await tunnel(), /^HTTP\/1\.1 429 .*share of the open tunnels/s);
    t.match(await tunnel(basic('ci')), /^HTTP\/1\.1 200 /);
    t.match(await tunnel('X-GW-Api-Key: of nobody\r\n'), /^HTTP\/1\.1 429 /, 'what is shown and is worth nothing');
    t.match(await tunnel(basic('dev')), /^HTTP\/1\.1 200 /);
    t.match(await tunnel(basic('ops')), /^HTTP\/1\.1 429 .*limit of open tunnels/s);
    const call = async (fields = '') => {
      const socket = await from(t, listener.port, '127.0.0.2');
      const client = watch(socket);
      const before = held.length;
      socket.write(GET.replace('Host', `${fields}Host`));
      while (held.length === before && client.text() === '') await turn();
      return client.text().slice(9, 12);
    };
    for (let i = 0; i < 6; i++) t.equal(await call(), '');
    t.equal(await call(), '503');
    t.equal(await call('X-Token: acme\r\n'), '', 'who shows who he is has a place');
  },
);

t.test('few tunnels are taken by a proxy to the last', async (t: Test) => {
  const { listener } = await startListener(t, { limits: { maxTunnels: 2 }, isProxy: () => true });
  const tunnel = async () => answered(await from(t, listener.port, '127.0.0.2'), connectAs());
  for (const status of [200, 200, 429]) t.match(await tunnel(), new RegExp(`^HTTP/1.1 ${status} `));
});

t.test('where the clients of an address reset too many streams in one turn, its connections are read further in the next', async (t) => {
  const begins = new Begins();
  const seen: string[] = [];
  const connection = { pause: () => seen.push('pause'), resume: () => seen.push('resume') };
  begins.enter(connection);
  for (let i = 1; i < CONNECTION_BOUNDS.begins.one; i++) begins.countReset();
  await turn();
  t.same(seen, [], 'few of them stop nothing');
  for (let i = 0; i < 2 * CONNECTION_BOUNDS.begins.one; i++) begins.countReset();
  t.same(seen, ['pause']);
  await turn();
  t.same(seen, ['pause', 'resume']);
  begins.leave(connection);
  for (let i = 0; i < CONNECTION_BOUNDS.begins.one; i++) begins.countReset();
  t.equal(seen.length, 2, 'one that is closed is left alone');
});

t.test('calls that wait for their turn begin in order, and those that were reset by then never', async (t) => {
  const begins = new Begins();
  const begun: number[] = [];
  let taken = 0;
  while (begins.take()) taken++;
  t.equal(taken, CONNECTION_BOUNDS.begins.one);
  for (let i = 0; i < 2 * taken; i++) begins.later({ stream: { closed: i % 2 === 1, destroyed: i % 8 === 0 }, begin: () => begun.push(i) });
  await turn();
  t.same(
    begun,
    Array.from({ length: 2 * taken }, (_, i) => i).filter((i) => i % 2 === 0 && i % 8 !== 0),
  );
  await turn();
  t.ok(begins.take());
});
