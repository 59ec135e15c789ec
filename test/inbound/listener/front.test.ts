// What is used of http-mitm-proxy, and that the rest of it cannot be reached.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { dirname, join } from 'node:path';
import { Proxy as MitmProxy } from 'http-mitm-proxy';
import { CA } from 'http-mitm-proxy/dist/lib/ca.js';
import t from 'tap';
import type { Arrival } from '../../../src/base/model/arrival.ts';
import { type Front, type FrontOptions, openFront } from '../../../src/inbound/listener/front.ts';
import { DEFAULT_LIMITS } from '../../../src/inbound/listener/limits.ts';
import { connectPlain, readResponse } from '../../support/raw-clients.ts';
import { tempDir } from '../../support/temp-dir.ts';
import { errorCode, exchange, type HasTeardown, openTunnel, rawClient, startListener } from './harness.ts';

async function bareFront(t: HasTeardown, port = 0, options: Partial<FrontOptions> = {}): Promise<Front> {
  const ignore = (): void => undefined;
  const handlers = { onConnection: ignore, onConnect: ignore, onRequest: ignore, onUpgrade: ignore, onClientError: ignore };
  const front = await openFront({ host: '127.0.0.1', port, now: 0, limits: DEFAULT_LIMITS, ...handlers, ...options });
  t.teardown(() => front.close());
  return front;
}

/** Replaces one method until the test ends. */
function replace<T extends object, K extends keyof T>(t: HasTeardown, target: T, key: K, value: T[K]): void {
  const original = target[key];
  target[key] = value;
  t.teardown(() => {
    target[key] = original;
  });
}

function recordConsole(t: HasTeardown): unknown[][] {
  const printed: unknown[][] = [];
  for (const method of ['error', 'debug', 'info', 'log', 'warn'] as const) replace(t, console, method, (...args) => printed.push(args));
  return printed;
}

t.test('only CONNECT is handed to the library, and both its certificate hooks fail closed', async (t) => {
  const proxies: MitmProxy[] = [];
  const listen = MitmProxy.prototype.listen;
  replace(t, MitmProxy.prototype, 'listen', function (this: MitmProxy, options, callback) {
    proxies.push(this);
    return listen.call(this, options, callback);
  });
  const { server } = await bareFront(t);
  const [proxy] = proxies;
  if (proxy === undefined) throw new Error('the library was not started');
  t.equal(proxy.onConnectHandlers.length, 1);
  t.equal(proxy.onRequestHandlers.length, 0);
  for (const event of ['request', 'upgrade', 'checkContinue']) t.equal(server.listenerCount(event), 1, event);
  t.equal(proxy.onRequestDataHandlers.length + proxy.onResponseHandlers.length + proxy.onWebSocketConnectionHandlers.length, 0);
  proxy.onCertificateRequired('api.openai.com', (error) => t.type(error, Error));
  const missing = {
    hostname: 'api.openai.com',
    files: { keyFile: '', certFile: '' },
    data: { keyFileExists: false, certFileExists: false },
  };
  proxy.onCertificateMissing(missing, missing.files, (error) => t.type(error, Error));
  t.match(proxy.sslCaDir, /gw-front-/, 'its folder is ours');
});

t.test('no request reaches the library, whatever its form', async (t) => {
  let reached = 0;
  replace(t, MitmProxy.prototype, '_onHttpServerRequest', () => {
    reached++;
  });
  const { listener, arrivals } = await startListener(t);
  for (const target of ['/', 'http://example.com/', '*']) {
    await exchange(t, listener.port, `OPTIONS ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
  }
  t.equal(arrivals.length, 3);
  t.equal(reached, 0);
});

t.test('its folder is gone once it listens, and it never makes an RSA authority', async (t) => {
  // Other programs make such folders in the system's.
  const temporary = tempDir(t);
  const { TMPDIR } = process.env;
  process.env['TMPDIR'] = temporary;
  t.teardown(() => {
    if (TMPDIR === undefined) delete process.env['TMPDIR'];
    else process.env['TMPDIR'] = TMPDIR;
  });
  let used = '';
  const listen = MitmProxy.prototype.listen;
  replace(t, MitmProxy.prototype, 'listen', function (this: MitmProxy, options, callback) {
    used = String(options?.sslCaDir);
    return listen.call(this, options, callback);
  });
  let made = 0;
  replace(t, CA.prototype, 'generateCA', (callback) => {
    made++;
    callback(new Error('not wanted'));
  });
  await bareFront(t);
  t.equal(made, 0);
  t.equal(dirname(used), temporary);
  t.same(readdirSync(temporary), []);
  t.notOk(existsSync(join(process.cwd(), '.http-mitm-proxy')));
});

t.test('a taken port is an error of the start that prints nothing', async (t) => {
  const { port } = await bareFront(t);
  const printed = recordConsole(t);
  await t.rejects(bareFront(t, port), { code: 'EADDRINUSE' });
  t.same(printed, []);
});

// Holds: nobody-served-too-early
t.test('who comes before a port is opened waits, is served then in order, and is sent away when it never is', async (t) => {
  const seen: (string | undefined)[] = [];
  const onRequest: FrontOptions['onRequest'] = (request, response) => {
    seen.push(request.url);
    response.end('served');
  };
  const front = await bareFront(t, 0, { onRequest });
  const clients = await Promise.all(['/a', '/b'].map(() => rawClient(t, front.port)));
  for (const [at, { socket }] of clients.entries()) socket.write(`GET /${at} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
  const gone = await rawClient(t, front.port);
  gone.socket.resetAndDestroy();
  await gone.closed;
  // Each turn reads what has come: after a few of them all of it is there.
  for (let i = 0; i < 20; i++) await new Promise(setImmediate);
  t.same(seen, [], 'nothing is answered before');
  front.open();
  for (const client of clients) t.match((await client.closed).text, /served/);
  t.same(seen.sort(), ['/0', '/1']);

  const never = await bareFront(t, 0, { onRequest });
  const client = await rawClient(t, never.port);
  client.socket.write('GET /never HTTP/1.1\r\nHost: x\r\n\r\n');
  await new Promise(setImmediate);
  never.close();
  t.equal((await client.closed).text, '');
  t.notOk(seen.includes('/never'));
});

t.test('a plain WebSocket arrives as an ordinary request and is not accepted', async (t) => {
  const { listener, arrivals } = await startListener(t, {
    onArrival: (arrival) => arrival.reply.sendWhole(426, ['Upgrade', 'websocket', 'content-type', 'text/plain'], Buffer.from('use HTTPS')),
  });
  const fields =
    'Connection: Upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n';
  const answer = await exchange(t, listener.port, `GET http://example.com/socket HTTP/1.1\r\nHost: example.com\r\n${fields}\r\n`);
  t.match(answer, /^HTTP\/1\.1 426 .*Upgrade: websocket\r\n.*Connection: upgrade/s);
  t.equal(arrivals[0]?.head.headers['sec-websocket-key'], 'dGhlIHNhbXBsZSBub25jZQ==');
});

t.test('an `Upgrade: h2c` POST arrives as an ordinary request with its body', async (t) => {
  const { listener } = await startListener(t);
  const fields =
    'Host: x\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\nContent-Length: 5\r\n';
  t.match(await exchange(t, listener.port, `POST /v1 HTTP/1.1\r\n${fields}\r\nhello`), /^HTTP\/1\.1 200 .*hello$/s);
});

t.test('so does one whose body comes later, here and inside a tunnel, and what is sent as a body stays one', async (t) => {
  const harness = await startListener(t);
  const { listener, arrivals } = harness;
  const head = (target: string, length: number, more = '') =>
    `POST ${target} HTTP/1.1\r\nHost: x\r\n${more}Content-Length: ${length}\r\n\r\n`;
  for (const socket of [await connectPlain(listener.port), await openTunnel(t, listener.port, 'api.openai.com:80')]) {
    t.teardown(() => socket.destroy());
    const before = arrivals.length;
    socket.write(head('/late', 5, 'Connection: Upgrade\r\nUpgrade: h2c\r\n'));
    while (arrivals.length === before) await new Promise(setImmediate);
    socket.write(`hello${head('/behind', 300)}`);
    t.match(await readResponse(socket), { status: 200, body: Buffer.from('hello') });
    t.equal(arrivals[before]?.head.headers['upgrade'], undefined);
    socket.on('error', () => undefined).resume();
    socket.write('GET /inside HTTP/1.1\r\nHost: x\r\n\r\n'.padEnd(300));
    socket.end();
    await new Promise((resolve) => socket.once('close', resolve));
  }
  t.same(
    arrivals.filter(({ head }) => head.rawTarget === '/inside'),
    [],
  );
});

t.test('the handshake of a WebSocket has no body', async (t) => {
  const { listener, arrivals } = await startListener(t);
  const fields = 'Host: x\r\nConnection: keep-alive, upgrade\r\nUpgrade: websocket\r\n';
  for (const body of [
    'Content-Length: 5\r\n\r\nhello',
    'Content-Length: 500\r\n\r\nhe',
    'Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n',
  ]) {
    const answer = await exchange(t, listener.port, `GET / HTTP/1.1\r\n${fields}${body}`);
    t.match(answer, /^HTTP\/1\.1 400 .*Connection: close/s);
    t.equal(errorCode(answer), 'bad_framing');
  }
  t.equal(arrivals.length, 0);
});

const UPGRADE = 'GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: foo\r\n\r\n';

t.test('a connection that asks for another protocol again and again holds no more than before', async (t) => {
  const accepted: Socket[] = [];
  const onSocket = (message: unknown): void => void accepted.push((message as { socket: Socket }).socket);
  subscribe('net.server.socket', onSocket);
  t.teardown(() => unsubscribe('net.server.socket', onSocket));
  const { listener } = await startListener(t, { onArrival: ({ reply }) => reply.sendWhole(200, [], Buffer.from('ok')) });
  const client = await rawClient(t, listener.port);
  const [socket] = accepted;
  const listeners = (): unknown => socket?.eventNames().map((name) => [name, socket.listenerCount(name)]);
  const ask = async (times: number): Promise<void> => {
    for (let time = 0; time < times; time += 1) {
      client.socket.write(UPGRADE);
      await once(client.socket, 'data');
    }
  };
  await ask(2);
  const before = listeners();
  t.match(before, [/./], 'the socket is known');
  await ask(200);
  t.same(listeners(), before);
});

t.test('a client that asks for another protocol while its last answer is still on its way is answered behind it', async (t) => {
  const { listener, arrivals } = await startListener(t, { onArrival: ({ reply }) => reply.sendWhole(200, [], Buffer.alloc(16_000_000)) });
  const socket = await connectPlain(listener.port);
  t.teardown(() => socket.destroy());
  socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  while (arrivals.length === 0) await new Promise(setImmediate);
  socket.write(UPGRADE);
  t.equal((await readResponse(socket)).body.length, 16_000_000);
  t.equal((await readResponse(socket)).body.length, 16_000_000);
  t.equal(arrivals[1]?.head.headers['upgrade'], undefined);
});

t.test('a request that asks for another protocol may have no more fields than others', async (t) => {
  const { listener, arrivals } = await startListener(t);
  const fields = Array.from({ length: 510 }, (_, n) => `X-${n}: 1\r\n`).join('');
  const head = `POST / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: foo\r\n${fields}Content-Length: 30\r\n\r\n`;
  const answer = await exchange(t, listener.port, `${head}GET / HTTP/1.1\r\nHost: x\r\n\r\n`);
  t.match(answer, /^HTTP\/1\.1 431 /);
  t.equal(errorCode(answer), 'headers_too_large');
  t.equal(arrivals.length, 0, 'nor is its body a request of its own');
});

t.test('a connection that asked for another protocol still hears of the end', async (t) => {
  const held: Arrival[] = [];
  const { listener } = await startListener(t, { onArrival: (arrival) => held.push(arrival) });
  const client = await rawClient(t, listener.port);
  client.socket.write(UPGRADE);
  while (held.length === 0) await new Promise(setImmediate);
  const drained = listener.drain(60_000);
  held[0]?.reply.sendWhole(200, [], Buffer.from('ok'));
  t.match((await client.closed).text, /^HTTP\/1\.1 200 .*Connection: close/s);
  t.equal(await drained, true, 'nothing had to be cut');
});

t.test('absolute-form and origin-form are kept apart, with the target as it was sent', async (t) => {
  const { listener, arrivals } = await startListener(t);
  const targets: readonly (readonly [string, 'absolute' | 'origin'])[] = [
    ['/v1/chat?x=http://y/', 'origin'],
    ['*', 'origin'],
    ['http://example.com', 'absolute'],
    ['http://user@EXAMPLE.com:80/a/../b?c#d', 'absolute'],
    ['https://example.com/x', 'absolute'],
    ['//example.com/x', 'origin'],
  ];
  for (const [target] of targets) await exchange(t, listener.port, `OPTIONS ${target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n`);
  t.same(
    arrivals.map(({ head }) => [head.rawTarget, head.door]),
    targets,
  );
});

t.test('no Host, however malformed or missing, reaches the parser of the library', async (t) => {
  const { listener, arrivals } = await startListener(t);
  for (const host of ['http://[::1', 'http://a:b@[', '[', 'a:b:c', '']) {
    const answer = await exchange(t, listener.port, `GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
    t.match(answer, /^HTTP\/1\.1 200 /, JSON.stringify(host));
  }
  t.equal(arrivals[0]?.head.headers['host'], 'http://[::1');
  t.match(await exchange(t, listener.port, 'GET /healthz HTTP/1.0\r\n\r\n'), /^HTTP\/1\.1 200 /, 'HTTP/1.0 without Host');
  t.equal(arrivals.at(-1)?.head.httpVersion, '1.0');
});

t.test('clients that break off print nothing', async (t) => {
  const printed = recordConsole(t);
  const { listener, arrivals } = await startListener(t);
  const half = await rawClient(t, listener.port);
  half.socket.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf');
  while (arrivals.length === 0) await new Promise(setImmediate);
  half.socket.resetAndDestroy();
  const tunnel = await openTunnel(t, listener.port);
  tunnel.resetAndDestroy();
  while (listener.openConnections > 0) await new Promise(setImmediate);
  t.same(printed, []);
});

t.test('host names of a CONNECT never reach the file system', async (t) => {
  const { listener, caDir } = await startListener(t);
  const content = (): string[][] => readdirSync(caDir).map((name) => [name, readFileSync(join(caDir, name), 'utf8')]);
  const before = content();
  for (const target of ['../../../../x:443', '/etc/x:443', 'a/b:443', '..:443', '.:443', '%2e%2e%2fx:443', 'ca\\x:443']) {
    t.match(await exchange(t, listener.port, `CONNECT ${target} HTTP/1.1\r\nHost: x\r\n\r\n`), /^HTTP\/1\.1 400 /, target);
  }
  for (const target of ['ca:443', 'ca.private:443', 'root-ca:443']) (await openTunnel(t, listener.port, target)).destroy();
  t.same(content(), before);
  t.notOk(existsSync(join(process.cwd(), '.http-mitm-proxy')));
});

t.test('heads up to 64 KiB are read, larger ones and more than 500 fields are 431', async (t) => {
  const { listener } = await startListener(t);
  const request = (fields: string): string => `GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${fields}\r\n`;
  t.match(await exchange(t, listener.port, request(`A: ${'x'.repeat(60_000)}\r\n`)), /^HTTP\/1\.1 200 /);
  const large = await exchange(t, listener.port, request(`A: ${'x'.repeat(70_000)}\r\n`));
  t.match(large, /^HTTP\/1\.1 431 /);
  t.equal(errorCode(large), 'headers_too_large');
  const many = await exchange(t, listener.port, request('A: x\r\n'.repeat(600)));
  t.equal(errorCode(many), 'headers_too_large');
});

t.test('what is no HTTP is answered 400 with our error body and closed', async (t) => {
  const { listener, arrivals } = await startListener(t);
  for (const bytes of [
    'nonsense\r\n\r\n',
    '\x16\x03\x01\x02\x00\x01',
    'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    'GET / HTTP/1.1\nHost: x\n\n',
    'GET / HTTP/1.1\r\nHost : x\r\n\r\n',
  ]) {
    const answer = await exchange(t, listener.port, bytes);
    t.match(answer, /^HTTP\/1\.1 400 /, JSON.stringify(bytes));
    t.equal(errorCode(answer), 'bad_framing');
  }
  t.equal(arrivals.length, 0);
});

t.test('the traffic class follows the port, for CONNECT, absolute-form and origin-form', async (t) => {
  const { listener, arrivals } = await startListener(t);
  for (const port of [listener.port, listener.ambientPort]) {
    await exchange(t, port, 'GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n');
    await exchange(t, port, 'GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
    const tunnel = await openTunnel(t, port, 'example.com:80');
    tunnel.end('GET / HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n');
    await new Promise((resolve) => tunnel.resume().once('close', resolve));
  }
  t.same(
    arrivals.map(({ head }) => `${head.trafficClass} ${head.door}`),
    ['developer absolute', 'developer origin', 'developer connect', 'ambient absolute', 'ambient origin', 'ambient connect'],
  );
});
