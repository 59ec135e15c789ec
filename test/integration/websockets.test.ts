// WebSockets to hosts that are no AI hosts: relayed by every door, upstream first (decision 3.12).
import { once } from 'node:events';
import t from 'tap';
import type { WebSocket } from 'ws';
import { startTestGateway, type TestGateway, type TestGatewayOptions } from '../support/gateway.ts';
import { ALLOW_ALL, bundleOf } from '../support/governed.ts';
import { connectPlain, h1Request, openTunnel } from '../support/raw-clients.ts';
import type { HasTeardown } from '../support/temp-dir.ts';
import { towards } from '../support/upstreams.ts';
import {
  closing,
  nextMessage,
  opened,
  refused,
  type SocketClientOptions,
  type SocketUpstream,
  type SocketUpstreamOptions,
  startSocketUpstream,
  webSocketOn,
} from '../support/websockets.ts';

const HOST = 'chat.example.com';

interface Scene {
  readonly gw: TestGateway;
  readonly upstream: SocketUpstream;
  /** A WebSocket by absolute form to a port of the gateway, not yet open. */
  socket(options?: SocketClientOptions & { readonly port?: number; readonly path?: string }): Promise<ReturnType<typeof webSocketOn>>;
}

async function scene(t: HasTeardown, options: SocketUpstreamOptions = {}, gateway: TestGatewayOptions = {}): Promise<Scene> {
  const upstream = await startSocketUpstream(t, options);
  const gw = await startTestGateway(t, {
    ...gateway,
    env: { GW_UPSTREAM_CONNECT_TO: `${HOST}:80=127.0.0.1:${upstream.port}`, ...gateway.env },
  });
  return {
    gw,
    upstream,
    socket: async ({ port = gw.port, path = '/room', ...more } = {}) =>
      webSocketOn(t, await connectPlain(port), HOST, path, { target: `http://${HOST}${path}`, ...more }),
  };
}

const echo: SocketUpstreamOptions = {
  onSocket: (socket) => void socket.on('message', (data: Buffer, binary) => socket.send(data, { binary })),
};

t.test(
  'relays by absolute form on both ports, as http:// and ws://, with the subprotocol and extensions that the upstream chose',
  async (t) => {
    const { gw, upstream, socket } = await scene(t, { ...echo, perMessageDeflate: true });
    for (const [port, target] of [
      [gw.port, `http://${HOST}/room?x=1`],
      [gw.ambientPort, `ws://${HOST}/room?x=1`],
    ] as const) {
      const client = await socket({
        port,
        target,
        protocols: ['first', 'second'],
        perMessageDeflate: true,
        headers: { 'X-GW-Org-ID': 'o', Cookie: 'a=b' },
      });
      const headers = await opened(client);
      t.equal(client.protocol, 'second');
      t.match(client.extensions, /permessage-deflate/);
      t.match(headers, { upgrade: 'websocket', connection: 'Upgrade' });
      client.send('hello');
      t.match(await nextMessage(client), { data: Buffer.from('hello'), binary: false });
      client.send(Buffer.alloc(300_000, 7));
      t.strictSame((await nextMessage(client)).data.length, 300_000);
      client.close();
      await closing(client);
    }
    for (const { url, headers } of upstream.handshakes) {
      t.equal(url, '/room?x=1');
      t.match(headers, { host: HOST, cookie: 'a=b', upgrade: 'websocket', via: /^1\.1 gw-/ });
      t.notOk(headers['x-gw-org-id']);
    }
  },
);

// Holds: sockets-are-metered
t.test('a refusal of the upstream is passed on with status, headers and body', async (t) => {
  const { socket } = await scene(t, {
    refuse: (_request, connection) => {
      connection.end(
        'HTTP/1.1 401 Nope\r\nWWW-Authenticate: Bearer realm="chat"\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nlog i\r\n1\r\nn\r\n0\r\n\r\n',
      );
      return true;
    },
  });
  const client = await socket();
  t.match(await refused(client), { status: 401, body: 'log in', headers: { 'www-authenticate': 'Bearer realm="chat"' } });
});

t.test('what is neither a WebSocket nor a clear refusal is 502', async (t) => {
  const switched = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n';
  const answers: Readonly<Record<string, string>> = {
    'another protocol': `${switched}Upgrade: h2c\r\n\r\n`,
    'no protocol': 'HTTP/1.1 101 Switching Protocols\r\n\r\n',
    'no protocol that Connection names': 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n',
    'a status beyond 599': 'HTTP/1.1 999 What\r\nContent-Length: 1\r\n\r\nx',
    'an unknown coding': 'HTTP/1.1 403 No\r\nTransfer-Encoding: gzip\r\n\r\nx',
    'interim answers without an end': 'HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n'.repeat(1_000),
  };
  for (const [name, bytes] of Object.entries(answers)) {
    const { socket } = await scene(t, { refuse: (_request, connection) => connection.write(bytes) || true });
    const client = await socket();
    t.match(await refused(client), { status: 502, body: /upstream_protocol/ }, name);
  }
});

t.test('a large refusal arrives whole', async (t) => {
  const body = 'x'.repeat(3_000_000);
  const { socket } = await scene(t, {
    refuse: (_request, connection) => {
      connection.end(`HTTP/1.1 503 Busy\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
      return true;
    },
  });
  const client = await socket();
  const refusal = await refused(client);
  t.equal(refusal.status, 503);
  t.equal(refusal.body.length, body.length);
});

t.test('pings, pongs and close codes pass both ways', async (t) => {
  const { upstream, socket } = await scene(t, echo);
  const accepted = upstream.next();
  const client = await socket();
  await opened(client);
  const server = await accepted;
  client.ping('up');
  t.match(await once(client, 'pong'), [Buffer.from('up')]);
  server.ping('down');
  t.match(await once(server, 'pong'), [Buffer.from('down')]);
  const seen = closing(server);
  client.close(4001, 'bye');
  t.same(await seen, { code: 4001, reason: 'bye' });
  const next = upstream.next();
  const other = await socket();
  await opened(other);
  const told = closing(other);
  (await next).close(4002, 'enough');
  t.same(await told, { code: 4002, reason: 'enough' });
});

t.test('a side that vanishes takes the other one with it', async (t) => {
  const { gw, upstream, socket } = await scene(t, echo);
  const accepted = upstream.next();
  const client = await socket();
  await opened(client);
  const gone = closing(await accepted);
  client.terminate();
  t.match(await gone, { code: 1006 });
  const next = upstream.next();
  const other = await socket();
  await opened(other);
  const told = closing(other);
  (await next).terminate();
  t.match(await told, { code: 1006 });
  const metrics = (await gw.admin('GET', '/metrics')).text;
  t.match(metrics, /gw_websockets_total\{kind="relayed"\} 2/);
  t.match(metrics, /gw_websockets_open\{kind="relayed"\} 0/);
});

t.test('a client that does not read holds the upstream back', async (t) => {
  const piece = Buffer.alloc(64 * 1024, 1);
  const { upstream, socket } = await scene(t, echo);
  const accepted = upstream.next();
  const client = await socket();
  await opened(client);
  const server = await accepted;
  client.pause();
  for (let i = 0; i < 1000; i++) server.send(piece);
  const other = await socket();
  await opened(other);
  for (let i = 0; i < 200; i++) {
    other.send(piece);
    await nextMessage(other);
  }
  t.ok(server.bufferedAmount > 30_000_000, 'most of it waits at the upstream, while others are served');
  let received = 0;
  client.on('message', () => received++);
  client.resume();
  server.close();
  await closing(client);
  t.equal(received, 1000);
});

t.test('the egress guard, the loop check and the limit of tunnels hold', async (t) => {
  const { gw, upstream, socket } = await scene(t, echo, { env: { GW_MAX_TUNNELS: '1' } });
  const inner = webSocketOn(t, await connectPlain(gw.port), '169.254.169.254', '/', { target: 'ws://169.254.169.254/' });
  t.match(await refused(inner), { status: 403, body: /egress_denied/ });
  const first = await socket();
  await opened(first);
  const via = upstream.handshakes[0]?.headers.via ?? '';
  const second = await socket();
  t.match(await refused(second), { status: 429, headers: { 'retry-after': '1' } });
  t.match((await gw.admin('GET', '/metrics')).text, /gw_tunnels_open 1/);
  first.close();
  await closing(first);
  const looped = await socket({ headers: { Via: via } });
  t.match(await refused(looped), { status: 508 });
  t.equal(upstream.handshakes.length, 1);
});

t.test('what asks for another protocol, or for a WebSocket with a body, is no WebSocket', async (t) => {
  const { gw, upstream } = await scene(t, echo);
  const post = await h1Request(await connectPlain(gw.port), `127.0.0.1:${gw.port}`, {
    method: 'POST',
    path: '/v1/actions:execute',
    headers: ['Connection', 'Upgrade, HTTP2-Settings', 'Upgrade', 'h2c', 'HTTP2-Settings', 'AAMAAABk'],
    body: '{"schema":1}',
  });
  t.equal(post.status, 400);
  t.match(post.body.toString(), /invalid_request/);
  const smuggled = await h1Request(await connectPlain(gw.port), HOST, {
    path: `http://${HOST}/`,
    headers: ['Connection', 'Upgrade', 'Upgrade', 'websocket', 'Content-Length', '3'],
    body: 'GET',
  });
  t.equal(smuggled.status, 400);
  t.equal(upstream.handshakes.length, 0);
});

t.test('a foreign page and a rebound name open nothing', async (t) => {
  const { gw } = await scene(t);
  const path = '/proxy/openai/v1/realtime?model=x';
  const foreign = webSocketOn(t, await connectPlain(gw.port), `127.0.0.1:${gw.port}`, path, {
    headers: { Origin: 'https://evil.example' },
  });
  t.match(await refused(foreign), { status: 403, body: /origin_not_allowed/ });
  const rebound = webSocketOn(t, await connectPlain(gw.port), `evil.example:${gw.port}`, path);
  t.match(await refused(rebound), { status: 421 });
});

t.test('redirect mode and wss:// relay to a TLS upstream, the first after policy and with a record', async (t) => {
  const upstream = await startSocketUpstream(t, { ...echo, hosts: [HOST] });
  const gw = await startTestGateway(t, { bundle: ALLOW_ALL, env: towards(t, upstream, [HOST]) });
  const named = webSocketOn(t, await connectPlain(gw.port), `127.0.0.1:${gw.port}`, '/room', { headers: { 'X-GW-Target-Host': HOST } });
  const headers = await opened(named);
  t.match(await gw.record(String(headers['x-gw-record-id'])), {
    action_type: 'http.request',
    action_method: 'GET',
    target: `https://${HOST}/room`,
    record_tier: 'action',
    status_code: 101,
    upstream_status: 101,
  });
  const absolute = webSocketOn(t, await connectPlain(gw.port), HOST, '/room', { target: `wss://${HOST}/room` });
  await opened(absolute);
  for (const [at, client] of [named, absolute].entries()) {
    client.send('x');
    t.match(await nextMessage(client), { data: Buffer.from('x') });
    const gone = closing(upstream.sockets[at] as WebSocket);
    client.terminate();
    t.match(await gone, { code: 1006 });
  }
});

t.test('policy refuses a WebSocket of redirect mode before any upgrade', async (t) => {
  const upstream = await startSocketUpstream(t, { ...echo, hosts: [HOST] });
  const gw = await startTestGateway(t, { bundle: bundleOf(''), env: towards(t, upstream, [HOST]) });
  const named = webSocketOn(t, await connectPlain(gw.port), `127.0.0.1:${gw.port}`, '/room', { headers: { 'X-GW-Target-Host': HOST } });
  t.match(await refused(named), { status: 403, body: /default_deny/, headers: { 'x-gw-record-id': /.+/ } });
  t.equal(upstream.handshakes.length, 0);
});

// Holds: sockets-are-metered
t.test('an AI host takes none that cannot be metered, and the connection ends with the refusal', async (t) => {
  const { gw } = await scene(t);
  const socket = await openTunnel(gw.port, 'generativelanguage.googleapis.com:443');
  t.teardown(() => socket.destroy());
  const path = '/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent?key=x';
  const client = webSocketOn(t, socket, 'generativelanguage.googleapis.com:443', path);
  const ended = once(socket, 'close');
  t.match(await refused(client), { status: 426, body: /upgrade_required/ });
  await ended;
});

t.test('a stop lets an idle WebSocket go', async (t) => {
  const { gw, socket } = await scene(t, echo, { env: { GW_DRAIN_TIMEOUT: '100s' } });
  const client = await socket();
  await opened(client);
  const told = closing(client);
  const before = performance.now();
  await gw.gateway.stop();
  await told;
  t.ok(performance.now() - before < 60_000);
});
