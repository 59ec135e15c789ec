// What CONNECT answers, and blind tunnels.
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { hostname, networkInterfaces } from 'node:os';
import t from 'tap';
import { GatewayError } from '../../../src/base/lib/gateway-error.ts';
import type { Authority } from '../../../src/base/model/arrival.ts';
import type { ConnectVerdict } from '../../../src/inbound/listener/connect-door.ts';
import type { ConnectRequest } from '../../../src/inbound/listener/connect-request.ts';
import { OwnAddresses } from '../../../src/inbound/listener/own-addresses.ts';
import type { TunnelSummary } from '../../../src/inbound/listener/tunnel.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { dialTo, errorCode, exchange, type HasTeardown, openTunnel, rawClient, startListener, tcpServer } from './harness.ts';

const TUNNEL = (): Promise<ConnectVerdict> => Promise.resolve({ kind: 'tunnel' });

function connectTo(t: HasTeardown, port: number, target: string, fields = 'Host: x\r\n'): Promise<string> {
  return exchange(t, port, `CONNECT ${target} HTTP/1.1\r\n${fields}\r\n`);
}

t.test('a target that is not a host and a port is 400', async (t) => {
  const { listener } = await startListener(t);
  const targets = [
    'api.openai.com',
    'api.openai.com:',
    'api.openai.com:0',
    'api.openai.com:65536',
    'api.openai.com:443/x',
    'u@api.openai.com:443',
    ':443',
    '[::1:443',
    '::1:443',
    'a..b:443',
    'http://x:443',
    '/',
    '*',
    '[fe80::1%25lo]:443',
  ];
  for (const target of targets) {
    const answer = await connectTo(t, listener.port, target);
    t.match(answer, /^HTTP\/1\.1 400 /, target);
    t.match(errorCode(answer), /invalid_target|bad_framing/, target);
  }
});

t.test('a CONNECT with a body or with two Hosts is 400', async (t) => {
  const { listener } = await startListener(t);
  for (const fields of ['Host: x\r\nContent-Length: 5\r\n', 'Host: x\r\nTransfer-Encoding: chunked\r\n', 'Host: a\r\nHost: b\r\n']) {
    t.equal(errorCode(await connectTo(t, listener.port, 'api.openai.com:443', fields)), 'bad_framing');
  }
});

t.test('a CONNECT of another version than HTTP/1.0 and 1.1 is 400', async (t) => {
  const harness = await startListener(t);
  for (const version of [' HTTP/2.0', '']) {
    const text = await exchange(t, harness.listener.port, `CONNECT a.example:443${version}\r\nHost: a.example:443\r\n\r\n`);
    t.equal(errorCode(text), 'bad_framing', version);
  }
});

t.test('a port that is not in the list is 403, before anybody decides', async (t) => {
  let asked = 0;
  const { listener } = await startListener(t, {
    connectPorts: [443, 8443],
    onTunnel: () => {
      asked++;
      return Promise.resolve({ kind: 'refuse', error: new GatewayError('forbidden', 'asked') });
    },
  });
  for (const port of [80, 22, 25, listener.port])
    t.equal(errorCode(await connectTo(t, listener.port, `example.com:${port}`)), 'connect_refused');
  t.equal(asked, 0);
  t.equal(errorCode(await connectTo(t, listener.port, 'example.com:8443')), 'forbidden');
});

t.test('the gateway itself is refused by every name and spelling, on both of its ports', async (t) => {
  const own = new OwnAddresses(['gateway.example', 'BÜCHER.example.']);
  own.addPort(7080);
  own.addPort(7081);
  const local = Object.values(networkInterfaces()).flatMap((entries) => (entries ?? []).map((entry) => entry.address.replace(/%.*/, '')));
  const mine = [
    '127.0.0.1',
    '127.1.2.3',
    '::1',
    '::ffff:127.0.0.1',
    '::ffff:7f00:1',
    '0.0.0.0',
    '::',
    'localhost',
    'a.localhost',
    'LOCALHOST',
    'localhost.',
    '0x7f.1',
    '2130706433',
    '127.1',
    '017700000001',
  ];
  for (const host of [...mine, 'gateway.example', 'Gateway.Example.', 'xn--bcher-kva.example', hostname(), ...local]) {
    t.equal(own.owns({ host, port: 7080 }), true, host);
    t.equal(own.owns({ host, port: 7081 }), true, host);
    t.equal(own.owns({ host, port: 443 }), false, host);
  }
  for (const host of ['api.openai.com', '192.0.2.1', '2001:db8::1', 'localhost.example', 'notlocalhost'])
    t.equal(own.owns({ host, port: 7080 }), false, host);
});

t.test('CONNECT to either own port is refused although the list has it, and so is a name that leads there', async (t) => {
  let dialled: number | undefined;
  const options = { connectPorts: Array.from({ length: 65_535 }, (_, i) => i + 1), onTunnel: TUNNEL, dial: () => dialTo(dialled ?? 0) };
  const { listener } = await startListener(t, options);
  for (const port of [listener.port, listener.ambientPort]) {
    t.equal(listener.owns({ host: '127.0.0.1', port }), true);
    for (const target of [
      `127.0.0.1:${port}`,
      `LocalHost:${port}`,
      `[::ffff:127.0.0.1]:${port}`,
      `0x7f000001:${port}`,
      `127.0.0.1.:${port}`,
    ]) {
      t.equal(errorCode(await connectTo(t, listener.port, target)), 'connect_refused', target);
    }
    dialled = port;
    t.equal(errorCode(await connectTo(t, listener.port, 'rebinding.example:443')), 'connect_refused', 'seen when it is dialled');
  }
});

t.test('refusals carry their status, our error body and the fields they need; other statuses become 503', async (t) => {
  let verdict: ConnectVerdict | Error = new Error('unset');
  const { listener } = await startListener(t, {
    onTunnel: () => (verdict instanceof Error ? Promise.reject(verdict) : Promise.resolve(verdict)),
  });
  const cases: readonly [Error | GatewayError, number, string][] = [
    [new GatewayError('proxy_authentication_required', 'who?'), 407, 'proxy_authentication_required'],
    [new GatewayError('egress_denied', 'no'), 403, 'egress_denied'],
    [new GatewayError('too_many_tunnels', 'no'), 429, 'too_many_tunnels'],
    [new GatewayError('upstream_unreachable', 'no'), 502, 'upstream_unreachable'],
    [new GatewayError('overloaded', 'no'), 503, 'overloaded'],
    [new GatewayError('upstream_timeout', 'no'), 504, 'upstream_timeout'],
    [new GatewayError('loop_detected', 'no'), 508, 'loop_detected'],
    [new GatewayError('misdirected_request', 'no'), 503, 'misdirected_request'],
    [new Error('a secret'), 503, 'internal'],
  ];
  for (const [error, status, code] of cases) {
    for (const thrown of [true, false]) {
      if (!thrown && !(error instanceof GatewayError)) continue;
      verdict = thrown || !(error instanceof GatewayError) ? error : { kind: 'refuse', error, headers: ['X-GW-Request-ID', 'r1'] };
      const answer = await connectTo(t, listener.port, 'api.openai.com:443');
      t.match(answer, new RegExp(`^HTTP/1\\.1 ${status} .*Content-Type: application/json.*Connection: close`, 's'), code);
      t.equal(errorCode(answer), code);
      t.equal(answer.includes('Proxy-Authenticate: Basic realm="AI Request Gateway"\r\n'), status === 407);
      t.equal(answer.includes('Retry-After: 1\r\n'), code === 'too_many_tunnels' || code === 'overloaded');
      t.equal(answer.includes('X-GW-Request-ID: r1\r\n'), !thrown);
      t.notMatch(answer, /secret/);
    }
  }
});

t.test('interception that is off, or a leaf that cannot be made, is 503 before any 200', async (t) => {
  const off = await startListener(t, {}, { interception: false });
  const failing = await startListener(t, { ca: { contextFor: () => Promise.reject(new Error('no leaf')) } });
  for (const { listener } of [off, failing]) t.match(await connectTo(t, listener.port, 'api.openai.com:443'), /^HTTP\/1\.1 503 /);
});

t.test('who decides sees the folded authority, the fields and the credentials', async (t) => {
  const seen: ConnectRequest[] = [];
  const { listener } = await startListener(t, {
    onTunnel: (request) => {
      seen.push(request);
      return Promise.resolve({ kind: 'refuse', error: new GatewayError('forbidden', 'no') });
    },
  });
  const credentials = Buffer.from('ci-runner:to:ken').toString('base64');
  await connectTo(
    t,
    listener.ambientPort,
    'API.OpenAI.com.:443',
    `Host: x\r\nProxy-Authorization: Basic ${credentials}\r\nVia: 1.1 gw-a\r\n`,
  );
  t.match(seen[0], {
    authority: { host: 'api.openai.com', port: 443 },
    trafficClass: 'ambient',
    remoteAddress: '127.0.0.1',
    proxyUser: 'ci-runner',
    proxyPassword: 'to:ken',
  });
  t.equal(seen[0]?.headers['via'], '1.1 gw-a');
  await connectTo(t, listener.port, '[2001:DB8::1]:443', 'Host: x\r\nProxy-Authorization: Bearer abc\r\n');
  t.match(seen[1]?.authority, { host: '2001:db8::1', port: 443 });
  t.equal(seen[1]?.proxyUser, undefined);
});

t.test('above the limit of tunnels CONNECT is 429, and a closed tunnel makes room', async (t) => {
  const { listener } = await startListener(t, { limits: { maxTunnels: 6 } });
  const open = [await openTunnel(t, listener.port), await openTunnel(t, listener.ambientPort), await openTunnel(t, listener.port)];
  t.equal(listener.openTunnels, 3);
  const refused = await connectTo(t, listener.port, 'api.openai.com:443');
  t.match(refused, /^HTTP\/1\.1 429 .*Retry-After: 1\r\n/s);
  t.equal(errorCode(refused), 'too_many_tunnels');
  open[0]?.destroy();
  while (listener.openTunnels >= 3) await new Promise(setImmediate);
  await openTunnel(t, listener.port);
});

t.test('a flood of CONNECTs is refused while everybody else is served, and keeps no room that is given back', async (t) => {
  const { listener } = await startListener(t, { limits: { maxTunnels: 4 } });
  const [first, second] = [await openTunnel(t, listener.port, 'api.openai.com:80'), await openTunnel(t, listener.port)];
  const flood = await Promise.all(
    Array.from({ length: 200 }, async () => {
      const client = await rawClient(t, listener.port);
      // Half open, so that each of them lingers as long as it may.
      client.socket.allowHalfOpen = true;
      client.socket.write('CONNECT api.openai.com:443 HTTP/1.1\r\nHost: x\r\n\r\n');
      return client;
    }),
  );
  for (const client of flood) await client.until(/^HTTP\/1\.1 429 .*Retry-After: 1\r\n.*too_many_tunnels/s);
  t.equal(listener.openTunnels, 2);
  t.match(await exchange(t, listener.port, 'GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'), /^HTTP\/1\.1 200 /);
  first.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  t.match(String(await once(first, 'data')), /^HTTP\/1\.1 200 /);
  second.destroy();
  while (listener.openTunnels >= 2) await new Promise(setImmediate);
  t.ok(listener.openConnections > 100, 'the refused ones are still there');
  await openTunnel(t, listener.port);
});

t.test('an answer that is still on its way never ends up inside a tunnel', async (t) => {
  const { listener } = await startListener(t, { onArrival: () => undefined });
  const client = await rawClient(t, listener.port);
  client.socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\nCONNECT api.openai.com:443 HTTP/1.1\r\nHost: x\r\n\r\n');
  t.equal((await client.closed).text, '');
});

t.test('a CONNECT behind an answered request is served', async (t) => {
  const { listener } = await startListener(t);
  const client = await rawClient(t, listener.port);
  client.socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  await client.until(/200 OK.*\r\n\r\n/s);
  client.socket.write('CONNECT api.openai.com:443 HTTP/1.1\r\nHost: x\r\n\r\n');
  await client.until(/Connection Established\r\n\r\n$/);
});

t.test('bytes behind the CONNECT reach the far end, both directions are counted, half-close passes', async (t) => {
  const summaries: TunnelSummary[] = [];
  const dialled: Authority[] = [];
  const far = await tcpServer(t, (socket) => {
    let got = '';
    socket.on('data', (chunk: Buffer) => {
      got += chunk.toString();
    });
    // Answers only when the client has said all.
    socket.on('end', () => socket.end(`got ${got}`));
  });
  const { listener } = await startListener(t, {
    onTunnel: TUNNEL,
    dial: (authority) => {
      dialled.push(authority);
      return dialTo(far.port);
    },
    onTunnelClosed: (summary) => summaries.push(summary),
  });
  const client = await rawClient(t, listener.ambientPort);
  client.socket.write('CONNECT pypi.org:443 HTTP/1.1\r\nHost: x\r\n\r\nearly ');
  await client.until(/Established\r\n\r\n/);
  client.socket.end('late');
  t.match((await client.closed).text, /\r\n\r\ngot early late$/);
  while (summaries.length === 0) await new Promise(setImmediate);
  t.match(summaries, [{ authority: { host: 'pypi.org', port: 443 }, trafficClass: 'ambient', bytesUp: 10, bytesDown: 14 }]);
  t.same(dialled, [{ host: 'pypi.org', port: 443 }]);
  t.equal(listener.openTunnels, 0);
});

t.test('a tunnel has back-pressure in both directions', async (t) => {
  let farSocket: Socket | undefined;
  const far = await tcpServer(t, (socket) => {
    farSocket = socket.pause();
  });
  const { listener } = await startListener(t, { onTunnel: TUNNEL, dial: () => dialTo(far.port) });
  const client = await openTunnel(t, listener.port);
  client.pause();
  while (farSocket === undefined) await new Promise(setImmediate);
  const flood = async (writer: Socket): Promise<number> => {
    const chunk = Buffer.alloc(1_048_576);
    let sent = 0;
    for (let i = 0; i < 64; i++) {
      const took = await new Promise<boolean>((resolve) => {
        const timer = setTimeout(() => resolve(false), 150);
        writer.write(chunk, () => {
          clearTimeout(timer);
          resolve(true);
        });
      });
      if (!took) break;
      sent += chunk.length;
    }
    return sent;
  };
  t.ok((await flood(client)) < 60_000_000, 'towards the far end');
  t.ok((await flood(farSocket)) < 60_000_000, 'towards the client');
  client.destroy();
});

t.test('a side that breaks off breaks the other', async (t) => {
  const farSockets: Socket[] = [];
  const far = await tcpServer(t, (socket) => farSockets.push(socket.resume()));
  const { listener } = await startListener(t, { onTunnel: TUNNEL, dial: () => dialTo(far.port) });
  const one = await openTunnel(t, listener.port);
  while (farSockets.length < 1) await new Promise(setImmediate);
  one.resetAndDestroy();
  await new Promise((resolve) => farSockets[0]?.once('close', resolve));
  const client = await rawClient(t, listener.port);
  client.socket.write('CONNECT a.example:443 HTTP/1.1\r\nHost: x\r\n\r\n');
  await client.until(/Established/);
  while (farSockets.length < 2) await new Promise(setImmediate);
  farSockets[1]?.resetAndDestroy();
  t.equal((await client.closed).reset, true);
  while (listener.openTunnels > 0) await new Promise(setImmediate);
});

t.test('a client that leaves while its tunnel is dialled stops the dialling', async (t) => {
  let aborted = false;
  let asked = false;
  const { listener } = await startListener(t, {
    onTunnel: TUNNEL,
    dial: (_authority, signal) => {
      asked = true;
      return new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => {
          aborted = true;
          reject(new Error('left'));
        });
      });
    },
  });
  const client = await rawClient(t, listener.port);
  client.socket.write('CONNECT a.example:443 HTTP/1.1\r\nHost: x\r\n\r\n');
  while (!asked) await new Promise(setImmediate);
  client.socket.resetAndDestroy();
  while (!aborted) await new Promise(setImmediate);
  while (listener.openTunnels > 0) await new Promise(setImmediate);
  t.equal(aborted, true);
});

t.test('a tunnel that is half closed and silent is ended', async (t) => {
  const clock = fakeClock();
  const far = await tcpServer(t, (socket) => socket.resume());
  const { listener } = await startListener(t, { clock, onTunnel: TUNNEL, dial: () => dialTo(far.port) });
  const client = await openTunnel(t, listener.port);
  client.end();
  client.resume();
  // The end must have come through before time passes.
  await new Promise((resolve) => far.server.getConnections(resolve));
  for (let i = 0; i < 50; i++) await new Promise(setImmediate);
  clock.advance(60_000);
  t.equal(listener.openTunnels, 1);
  const closed = once(client, 'close').catch(() => undefined);
  clock.advance(70_000);
  await closed;
  t.equal(listener.openTunnels, 0);
});
