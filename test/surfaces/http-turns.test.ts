// The small servers beside the gateway's ports: one request of a connection at a time, bodies held as the bytes that
// they have, and nobody's answers kept for ever.
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { silentLogger } from '../../src/base/lib/log.ts';
import { CONNECTION_BOUNDS } from '../../src/base/model/traffic-bounds.ts';
import { openMcpServer } from '../../src/cli/mcp/mcp-http-server.ts';
import { readBody } from '../../src/surfaces/http/node-exchange.ts';
import { Turns } from '../../src/surfaces/http/turns.ts';
import { fakeClock, runningClock } from '../support/fake-clock.ts';
import { PLANE_TOKEN, startPlane } from '../support/running-control-plane.ts';
import type { HasTeardown } from '../support/temp-dir.ts';
import { mcpPlace, principalOf } from './mcp/mcp-place.ts';

const GET = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';
const LARGE = Buffer.alloc(8 * 1_048_576);
const NO_HOLD = { arrive: () => undefined, settle: () => undefined };

async function client(t: HasTeardown, port: number): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1' });
  t.teardown(() => socket.destroy());
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  return socket.pause();
}

async function until(what: string, condition: () => boolean): Promise<void> {
  for (let i = 0; i < 20_000; i++) {
    if (condition()) return;
    await turn();
  }
  throw new Error(`never: ${what}`);
}

async function served(t: Test, onRequest: (request: IncomingMessage, response: ServerResponse) => void) {
  const clock = fakeClock();
  const server = createServer();
  const turns = new Turns(clock, onRequest);
  turns.serve(server);
  let open = 0;
  let heads = 0;
  server.on('request', () => heads++);
  server.on('connection', (socket) => {
    open++;
    socket.once('close', () => open--);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    turns.close();
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  return { clock, open: () => open, heads: () => heads, port: typeof address === 'object' && address !== null ? address.port : 0 };
}

t.test('a pipelined request is begun when the answer before it has left; more than 32 that wait end the connection', async (t) => {
  const begun: ServerResponse[] = [];
  const { port, open } = await served(t, (_request, response) => void begun.push(response));
  const socket = await client(t, port);
  let text = '';
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1');
  });
  socket.resume();
  socket.write(GET.repeat(3));
  for (let n = 1; n <= 3; n++) {
    await until(`request ${n}`, () => begun.length === n);
    for (let i = 0; i < 50; i++) await turn();
    t.equal(begun.length, n);
    begun[n - 1]?.end(`answer ${n}`);
  }
  await until('all are answered', () => text.includes('answer 3'));
  t.match(text, /answer 1.*answer 2.*answer 3/s);
  socket.write(GET.repeat(40));
  await until('closed', () => open() === 0);
  t.equal(begun.length, 4);
});

t.test('who reads nothing is closed after ten minutes, and before when all that wait hold too much', async (t) => {
  let begun = 0;
  const { port, clock, open } = await served(t, (_request, response) => {
    begun++;
    response.end(LARGE);
  });
  const first = await client(t, port);
  first.write(GET.repeat(20));
  await until('begun', () => begun > 0);
  const look = async (ms: number): Promise<void> => {
    clock.advance(ms);
    for (let i = 0; i < 20; i++) await turn();
  };
  await look(1_000);
  t.equal(begun, 1);
  await look(CONNECTION_BOUNDS.unreadFor.one - 1_000);
  t.equal(open(), 1);
  await look(2_000);
  t.equal(open(), 0);
  const most = CONNECTION_BOUNDS.unreadOfSmallServer.one / LARGE.length;
  for (let i = 0; i < most + 3; i++) (await client(t, port)).write(GET);
  await until('all are begun', () => begun === most + 4);
  await look(1_000);
  t.ok(open() <= most + 1 && open() > 0, `${open()} are left`);
});

t.test('a body in chunks of a byte is held as its bytes, and one that is too large is read no further', async (t) => {
  const read: (Buffer | Error)[] = [];
  let before = 0;
  const { port } = await served(t, (request, response) => {
    before = process.memoryUsage().heapUsed;
    void readBody(request, 200_000, NO_HOLD)
      .catch((error: unknown) => error as Error)
      .then((body) => {
        read.push(body);
        response.end();
      });
  });
  const head = 'POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n';
  const socket = await client(t, port);
  socket.write(`${head}${'1\r\nx\r\n'.repeat(200_000)}0\r\n\r\n`);
  await until('read', () => read.length === 1);
  t.same(read[0], Buffer.alloc(200_000, 'x'));
  t.ok(process.memoryUsage().heapUsed - before < 200_000 * 400, 'far less than an object for each byte');
  (await client(t, port)).write(`${head}${'1\r\nx\r\n'.repeat(200_001)}`);
  await until('refused', () => read.length === 2);
  t.match(read[1], { code: 'body_too_large' });
  const left = await client(t, port);
  left.write(`${head}1\r\nx\r\n`);
  await turn();
  left.destroy();
  await until('gone', () => read.length === 3);
  t.match(read[2], { code: 'client_gone' });
});

/** What comes for a flood on one connection, and for one call on another meanwhile. */
async function floodOf(t: Test, port: number, request: string): Promise<{ readonly answers: number }> {
  const socket = await client(t, port);
  let text = '';
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1');
  });
  socket.resume();
  socket.write(request.repeat(5_000));
  await new Promise((resolve) => socket.once('close', resolve));
  return { answers: text.split('HTTP/1.1 ').length - 1 };
}

t.test('what was read behind the request that ended its connection is not read as requests', async (t) => {
  const { port, open, heads } = await served(t, () => undefined);
  const socket = await client(t, port);
  // One read has more than two thousand of them.
  socket.write(GET.repeat(2_300));
  await until('the connection is open', () => open() === 1);
  await until('the connection is over', () => open() === 0);
  t.ok(heads() <= CONNECTION_BOUNDS.pipelined.one + 2, `${heads()} heads`);
});

t.test('a flood of pipelined requests at the control plane and at gw-mcp is not worked on', async (t) => {
  const { plane, ask } = await startPlane(t);
  const { answers } = await floodOf(t, plane.httpPort, 'GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n');
  t.ok(answers <= CONNECTION_BOUNDS.pipelined.one, `${answers} answers`);
  t.match(await ask('GET', '/v1/orgs'), { status: 200 }, 'and others are served');
  const { endpoint } = mcpPlace();
  const server = await openMcpServer({
    endpoint,
    principal: principalOf('k1'),
    host: '127.0.0.1',
    port: 0,
    allowedOrigins: new Set(),
    clock: runningClock,
    log: silentLogger,
  });
  t.teardown(() => server.close());
  const mcp = await floodOf(t, server.port, 'GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n');
  t.ok(mcp.answers <= CONNECTION_BOUNDS.pipelined.one, `${mcp.answers} answers`);
});

t.test('bodies in chunks of a byte are read by both as what they say', async (t) => {
  const chunked = (body: string): string => [...body].map((byte) => `1\r\n${byte}\r\n`).join('');
  const { plane } = await startPlane(t);
  const socket = await client(t, plane.httpPort);
  let text = '';
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1');
  });
  socket.resume();
  const fields = `Host: localhost\r\nCP-Admin-Token: ${PLANE_TOKEN}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n`;
  socket.write(`PUT /v1/orgs/acme HTTP/1.1\r\n${fields}\r\n${chunked('{}')}0\r\n\r\n`);
  await until('answered', () => text.includes('\r\n\r\n'));
  t.match(text, /^HTTP\/1\.1 200 /);
  const large = await client(t, plane.httpPort);
  text = '';
  large.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1');
  });
  large.resume();
  large.write(`PUT /v1/orgs/acme HTTP/1.1\r\n${fields}\r\n${`10000\r\n${'x'.repeat(65_536)}\r\n`.repeat(80)}`);
  await new Promise((resolve) => large.once('close', resolve));
  t.match(text, /^HTTP\/1\.1 413 .*Connection: close.*body_too_large/s);
});

t.test('who says nothing at gw-mcp holds no place that somebody else needs, and a client that has shown the token stays', async (t) => {
  const { endpoint } = mcpPlace();
  const token = 'a-token-of-gw-mcp-0123456789';
  const principal = principalOf('k1');
  const options = {
    endpoint,
    principal,
    host: '127.0.0.1',
    port: 0,
    allowedOrigins: new Set<string>(),
    clock: runningClock,
    log: silentLogger,
  };
  const server = await openMcpServer({ ...options, token });
  t.teardown(() => server.close());
  const asked = async (socket: Socket): Promise<string> => {
    let text = '';
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1');
    });
    socket.resume();
    const body = '{"jsonrpc":"2.0","id":1,"method":"ping"}';
    const fields = `Host: localhost\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}`;
    socket.write(`POST /mcp HTTP/1.1\r\n${fields}\r\n\r\n${body}`);
    await until('it is answered', () => text.includes('\r\n\r\n') || socket.destroyed);
    return text.slice(0, 9);
  };
  const known = await client(t, server.port);
  t.equal(await asked(known), 'HTTP/1.1 ');
  const silent: Socket[] = [];
  for (let i = 0; i < 300; i++) silent.push((await client(t, server.port)).resume());
  await until('the oldest make way', () => silent.filter((socket) => socket.destroyed).length > 200);
  t.equal(await asked(await client(t, server.port)), 'HTTP/1.1 ', 'who comes now is served');
  t.equal(known.destroyed, false);
});
