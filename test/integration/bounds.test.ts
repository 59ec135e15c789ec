import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import t from 'tap';
import { openTunnel, startListener, watch } from '../inbound/listener/harness.ts';
import { eventually } from '../support/child.ts';
import { startGatewayProcess } from '../support/gateway-process.ts';
import { CHAT, chat, startGoverned } from '../support/governed.ts';
import { connectPlain, connectThrough, h1Request, h2Request, h2Session } from '../support/raw-clients.ts';
import { startTlsUpstream, type UpstreamHandler } from '../support/tls-upstream.ts';
import { towards } from '../support/upstreams.ts';

/*
 * What one client or one upstream can hold, and that others are served meanwhile. Bodies, heads and tunnels are in
 * limits.test.ts, pipelining and the deadlines inside tunnels with the listener.
 */

const OPENAI = 'api.openai.com';

t.test('of one h2 connection 128 calls are under way at once, the others wait their turn, and other clients do not', async (t) => {
  const held: ServerResponse[] = [];
  const handler: UpstreamHandler = (request, response) => {
    if (request.headers['x-hold'] === undefined) response.setHeader('content-type', 'application/json').end('{}');
    else held.push(response);
  };
  const { gw, send } = await startGoverned(t, { handler });
  const session = h2Session(await connectThrough(gw.port, `${OPENAI}:443`, gw.caPem, { alpn: ['h2'] }), OPENAI);
  t.teardown(() => session.destroy());
  await h2Request(session, chat([], '/v1/chat/completions'));
  const calls = Array.from({ length: 160 }, () => h2Request(session, chat(['x-hold', '1'], '/v1/chat/completions')));
  await eventually('128 calls', () => held.length >= 128 || undefined);
  t.equal((await send(chat())).status, 200, 'somebody else is served');
  t.equal(held.length, 128);
  for (let answered = 0; answered < calls.length; answered++) {
    const response = await eventually('the next call', () => held.shift());
    response.setHeader('content-type', 'application/json').end('{}');
  }
  const statuses = new Set((await Promise.all(calls)).map(({ status }) => status));
  t.same([...statuses], [200], 'all of them are answered in the end');
});

t.test('an upstream that says nothing is 504, one that falls silent breaks its stream, and nobody else waits for them', async (t) => {
  const handler: UpstreamHandler = (request, response, body) =>
    void body.then((bytes) => {
      if (request.headers['x-silent'] !== undefined) return;
      if (!bytes.includes('"stream":true')) response.setHeader('content-type', 'application/json').end('{}');
      else response.setHeader('content-type', 'text/event-stream').write('data: {"model":"gpt-4o","choices":[]}\n\n');
    });
  const env = { GW_UPSTREAM_HEADERS_TIMEOUT: '2s', GW_UPSTREAM_IDLE_TIMEOUT: '2s' };
  const { gw, send, recordOf } = await startGoverned(t, { handler, env });
  const silent = send(chat(['X-Silent', '1']));
  const socket = await connectPlain(gw.port);
  t.teardown(() => socket.destroy());
  const broken = h1Request(socket, '127.0.0.1', chat([], undefined, { ...CHAT, stream: true })).then(
    () => 'complete',
    (error: Error) => error.message,
  );
  t.equal((await send(chat())).status, 200, 'somebody else is served');
  const refused = await silent;
  t.equal(refused.status, 504);
  t.match(await recordOf(refused), { decision: 'error', reason_codes: ['upstream_timeout'], status_code: 504 });
  t.match(await broken, /ended|ECONNRESET/, 'no client takes it for complete');
});

t.test('a slow head is 408, a slow body and an idle connection are closed, and others are answered all the while', async (t) => {
  const { listener, arrivals } = await startListener(t, {
    limits: { headersMs: 2_000, requestMs: 3_000, keepAliveMs: 1_000, sweepMs: 50 },
  });
  const slowHead = watch(await openTunnel(t, listener.port, `${OPENAI}:80`));
  slowHead.socket.write('POST / HTTP/1.1\r\nHost: 127');
  const slowBody = watch(await openTunnel(t, listener.port, `${OPENAI}:80`));
  slowBody.socket.write('POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\nhalf');
  const idle = watch(await openTunnel(t, listener.port, `${OPENAI}:80`));
  idle.socket.write('GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n');
  const front = { head: watch(await connectPlain(listener.port)), body: watch(await connectPlain(listener.ambientPort)) };
  front.head.socket.write('POST / HTTP/1.1\r\nHost: 127');
  front.body.socket.write('POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\nhalf');
  const silent = watch(await connectPlain(listener.port));
  const began = performance.now();
  const ends = Promise.all([slowHead.closed, slowBody.closed, idle.closed, front.head.closed, front.body.closed, silent.closed]);
  let over = false;
  void ends.then(() => {
    over = true;
  });
  const answers: number[] = [];
  while (!over) {
    const other = await connectPlain(listener.port);
    answers.push((await h1Request(other, '127.0.0.1', { method: 'POST', path: '/', body: 'x' })).status);
    other.destroy();
  }
  const [head, body, kept, frontHead, frontBody, said] = await ends;
  t.ok(performance.now() - began < 30_000, 'and not only when node:http would look by itself');
  t.match(head.text, /^HTTP\/1\.1 408 /);
  t.notMatch(body.text, /^HTTP\/1\.1 200 /);
  t.match(kept.text, /^HTTP\/1\.1 200 /);
  t.match(frontHead.text, /^HTTP\/1\.1 408 /, 'on the port itself too');
  t.notMatch(frontBody.text, /^HTTP\/1\.1 200 /);
  t.match(said.text, /^(?:HTTP\/1\.1 408 |$)/, 'a connection that says nothing at all');
  t.same([...new Set(answers)], [200], `${answers.length} others were answered`);
  t.ok(answers.length > 1 && arrivals.length >= answers.length);
});

const LARGE = 150 * 1024 * 1024;
/** What sockets and TLS of both sides may hold of it. */
const HELD_MIB = 64;

t.test(
  'a client that stops reading a large answer holds little of it, and gets the rest when it reads on',
  { skip: process.platform !== 'linux' },
  async (t) => {
    let written = 0;
    const upstream = await startTlsUpstream({
      hosts: [OPENAI],
      handler: (request, response) => {
        if (request.url?.endsWith('/content') !== true) return void response.setHeader('content-type', 'application/json').end('{}');
        const chunk = Buffer.alloc(256 * 1024, 'x');
        const more = (): void => {
          while (written < LARGE) {
            written += chunk.length;
            if (!response.write(chunk)) return void response.once('drain', more);
          }
          response.end();
        };
        response.writeHead(200, { 'content-type': 'application/octet-stream', 'content-length': LARGE });
        more();
      },
    });
    t.teardown(() => upstream.close());
    const gateway = await startGatewayProcess(t, { env: towards(t, upstream, [OPENAI]) });
    const call = async (): Promise<number> => {
      const socket = await connectPlain(gateway.port);
      const { status } = await h1Request(socket, '127.0.0.1', chat());
      socket.destroy();
      return status;
    };
    t.equal(await call(), 200);
    const before = residentMib(gateway.child.pid);
    const reader = await connectPlain(gateway.port);
    t.teardown(() => reader.destroy());
    reader.write(
      'GET /proxy/openai/v1/files/f/content HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer k\r\nConnection: close\r\n\r\n',
    );
    await once(reader, 'readable');
    let last = -1;
    // Once everything on the way is full the upstream is not asked for more.
    await eventually('back-pressure', async () => {
      const stopped = written === last;
      last = written;
      await call();
      await call();
      return stopped || undefined;
    });
    t.equal(await call(), 200, 'somebody else is served');
    const grown = residentMib(gateway.child.pid) - before;
    t.ok(grown < HELD_MIB, `memory grew by ${grown.toFixed(0)} MiB`);
    t.ok(written < LARGE / 2, `${(written / 1024 / 1024).toFixed(0)} MiB were taken from the upstream`);
    let read = 0;
    reader.on('data', (chunk: Buffer) => {
      read += chunk.length;
    });
    await once(reader, 'end');
    t.ok(read > LARGE && read < LARGE + 4096, 'the whole answer and its head');
  },
);

function residentMib(pid: number | undefined): number {
  const kib = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Number(kib) / 1024;
}
