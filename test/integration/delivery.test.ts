import { once } from 'node:events';
import type { Socket } from 'node:net';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import t from 'tap';
import { eventually } from '../support/child.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { openaiStreamEvent, openaiStreamTail, startOpenaiStream } from '../support/openai-stream.ts';
import { connectPlain, connectThrough, h1Request, h2Session, type RawResponse } from '../support/raw-clients.ts';
import type { HasTeardown } from '../support/temp-dir.ts';
import { startTlsUpstream, type TestUpstream, type UpstreamHandler } from '../support/tls-upstream.ts';
import { type Client, eachClient, spokenBy } from '../support/upstream-calls.ts';
import { towards } from '../support/upstreams.ts';

const HOST = ['api.openai.com'];
const PATH = '/v1/chat/completions';
const HEADERS = ['Authorization', 'Bearer sk-test', 'Content-Type', 'application/json'];
const CHAT = { model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'hello' }] };
const STREAM = JSON.stringify({ ...CHAT, stream: true });

async function gatewayTo(t: HasTeardown, client: Client, handler: UpstreamHandler): Promise<{ gw: TestGateway; upstream: TestUpstream }> {
  const upstream = await startTlsUpstream({ hosts: HOST, handler });
  t.teardown(() => upstream.close());
  return { upstream, gw: await startTestGateway(t, { env: towards(t, upstream, HOST), ...spokenBy(client) }) };
}

async function redirect(t: HasTeardown, gw: TestGateway, body = JSON.stringify(CHAT), method = 'POST', path = PATH): Promise<RawResponse> {
  const socket = await connectPlain(gw.port);
  t.teardown(() => socket.destroy());
  return h1Request(socket, `127.0.0.1:${gw.port}`, {
    method,
    path: `/proxy/openai${path}`,
    headers: HEADERS,
    ...(method === 'GET' || method === 'HEAD' ? {} : { body }),
  });
}

function recordOf(gw: TestGateway, response: RawResponse): Promise<Record<string, unknown>> {
  return gw.record(response.headers['x-gw-record-id'] ?? '');
}

/** Sends a request and hands over the bytes as they come. */
function open(socket: Socket, body: string): { text: () => string; until: (part: string) => Promise<void> } {
  let seen = '';
  socket.on('data', (chunk: Buffer) => {
    seen += chunk.toString('latin1');
  });
  socket.write(
    `POST ${PATH} HTTP/1.1\r\nHost: api.openai.com\r\nAuthorization: Bearer k\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
  return {
    text: () => seen,
    until: async (part) => {
      while (!seen.includes(part)) await once(socket, 'data');
    },
  };
}

// Holds: record-before-last-byte
t.test('events leave as they come, and what an application acts on waits for the record', async (t) => {
  let finish: () => void = () => undefined;
  let next: () => void = () => undefined;
  const { gw } = await gatewayTo(t, 'direct', (_request, response, body) => {
    void body.then(() => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(openaiStreamEvent(0));
      next = () => response.write(openaiStreamEvent(1));
      finish = () => response.end(openaiStreamTail());
    });
  });
  const socket = await connectThrough(gw.port, 'api.openai.com:443', gw.caPem);
  t.teardown(() => socket.destroy());
  const stream = open(socket, STREAM);
  await stream.until('w0 ');
  const id = /x-gw-record-id: (\S+)/i.exec(stream.text())?.[1] ?? '';
  t.notMatch(stream.text(), 'w1 ');
  next();
  await stream.until('w1 ');
  t.equal((await gw.admin('GET', `/v1/records/${id}`)).status, 404, 'no record while it streams');
  finish();
  await stream.until('[DONE]');
  t.match(
    await gw.record(id),
    { stream_outcome: 'complete', metering: { tokens_in: 11, tokens_out: 7 } },
    'the record is there when [DONE] is',
  );
});

t.test('a stream whose upstream does not end after its terminal event is ended all the same', async (t) => {
  const { gw } = await gatewayTo(t, 'direct', (_request, response, body) => {
    void body.then(() => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(openaiStreamEvent(0) + openaiStreamTail());
    });
  });
  const response = await redirect(t, gw, STREAM);
  t.match(response.body.toString(), /\[DONE\]\n\n$/);
  t.match(await recordOf(gw, response), { stream_outcome: 'complete' });
});

eachClient('a client that leaves stops the upstream call, and the record says aborted', async (t, _open, client) => {
  const upstream = await startOpenaiStream(1_000_000, { gapMs: 5 });
  t.teardown(() => upstream.close());
  const gw = await startTestGateway(t, { env: towards(t, upstream, HOST), ...spokenBy(client) });
  await t.test('http/1.1', async (t) => {
    const socket = await connectThrough(gw.port, 'api.openai.com:443', gw.caPem);
    const stream = open(socket, STREAM);
    await stream.until('w3 ');
    const id = /x-gw-record-id: (\S+)/i.exec(stream.text())?.[1] ?? '';
    socket.destroy();
    await eventually('the end of the upstream call', () => (upstream.aborted === 1 ? true : undefined));
    const record = await eventually('the record', async () => {
      const answer = await gw.admin('GET', `/v1/records/${id}`);
      return answer.status === 200 ? (answer.body as Record<string, unknown>) : undefined;
    });
    t.match(record, { decision: 'allow', stream_outcome: 'aborted', status_code: 200, error: { code: 'client_gone' } });
  });
  await t.test('h2', async (t) => {
    const socket = await connectThrough(gw.port, 'api.openai.com:443', gw.caPem, { alpn: ['h2'] });
    const session = h2Session(socket, 'api.openai.com');
    const request = session.request({ ':method': 'POST', ':path': PATH, authorization: 'Bearer k' });
    request.end(STREAM);
    const [headers] = (await once(request, 'response')) as [Record<string, string>];
    await once(request, 'data');
    request.close(8);
    await eventually('the end of the upstream call', () => (upstream.aborted === 2 ? true : undefined));
    const record = await eventually('the record', async () => {
      const answer = await gw.admin('GET', `/v1/records/${headers['x-gw-record-id'] ?? ''}`);
      return answer.status === 200 ? (answer.body as Record<string, unknown>) : undefined;
    });
    t.match(record, { stream_outcome: 'aborted' });
    session.destroy();
  });
});

t.test('large answers that are no stream pass untouched and are metered', async (t) => {
  const embeddings = JSON.stringify({
    object: 'list',
    data: Array.from({ length: 4000 }, (_, index) => ({ index, embedding: [0.123456789, -0.987654321, 0.5] })),
    model: 'text-embedding-3-small',
    usage: { prompt_tokens: 321, total_tokens: 321 },
  });
  for (const framing of ['content-length', 'chunked'] as const) {
    await t.test(framing, async (t) => {
      const { gw } = await gatewayTo(t, 'direct', (_request, response, body) => {
        void body.then(() => {
          response.setHeader('content-type', 'application/json');
          if (framing === 'content-length') response.setHeader('content-length', Buffer.byteLength(embeddings));
          response.write(embeddings.slice(0, 50_000));
          setImmediate(() => response.end(embeddings.slice(50_000)));
        });
      });
      const response = await redirect(t, gw, JSON.stringify({ model: 'text-embedding-3-small', input: 'x' }), 'POST', '/v1/embeddings');
      t.equal(response.body.toString(), embeddings);
      t.match(await recordOf(gw, response), {
        action_type: 'ai.embed',
        stream: false,
        response_bytes: Buffer.byteLength(embeddings),
        metering: { tokens_in: 321, tokens_out: 0, usage_reported: true },
      });
    });
  }
});

t.test('an answer that is encoded in spite of identity passes untouched and is decoded for metering', async (t) => {
  const json = JSON.stringify({ model: 'gpt-4o-mini', choices: [], usage: { prompt_tokens: 11, completion_tokens: 7 } });
  const events = openaiStreamEvent(0) + openaiStreamTail();
  const cases = [
    { name: 'gzip', encode: gzipSync },
    { name: 'br', encode: brotliCompressSync },
    { name: 'identity, x-gzip', encode: gzipSync },
  ];
  for (const { name, encode } of cases) {
    for (const kind of ['json', 'stream'] as const) {
      await t.test(`${name} ${kind}`, async (t) => {
        const { gw, upstream } = await gatewayTo(t, 'direct', (_request, response, body) => {
          void body.then(() => {
            response.setHeader('content-encoding', name);
            response.setHeader('content-type', kind === 'json' ? 'application/json' : 'text/event-stream');
            response.end(encode(kind === 'json' ? json : events));
          });
        });
        const response = await redirect(t, gw, kind === 'json' ? JSON.stringify(CHAT) : STREAM);
        t.equal(response.headers['content-encoding'], name);
        t.same(response.body, encode(kind === 'json' ? json : events));
        t.equal(upstream.requests[0]?.headers['accept-encoding'], 'identity');
        t.match(await recordOf(gw, response), { metering: { tokens_in: 11, tokens_out: 7 } });
      });
    }
  }
});

eachClient('an upstream that fails is an error with its own status, and is recorded', async (t, _open, client) => {
  await t.test('cut before the head: 502', async (t) => {
    const { gw } = await gatewayTo(t, client, (_request, response, body) => void body.then(() => response.destroy()));
    const response = await redirect(t, gw);
    t.equal(response.status, 502);
    t.notOk(response.headers['x-should-retry'], 'a broken connection may heal');
    t.match(JSON.parse(response.body.toString()), {
      error: { message: /could not complete/ },
      decision: 'error',
      reason_codes: ['upstream_unreachable'],
    });
    t.match(await recordOf(gw, response), { decision: 'error', status_code: 502, error: { code: 'upstream_unreachable' } });
  });
  await t.test('cut inside a held answer: 502', async (t) => {
    const { gw } = await gatewayTo(t, client, (_request, response, body) => {
      void body.then(() => {
        response.writeHead(200, { 'content-type': 'application/json', 'content-length': 100 });
        response.write('{"half":');
        setImmediate(() => response.destroy());
      });
    });
    const response = await redirect(t, gw);
    t.equal(response.status, 502);
    t.match(await recordOf(gw, response), { decision: 'error', upstream_status: 200 });
  });
  await t.test('cut inside a stream: the client sees a broken connection, the record says error', async (t) => {
    const upstream = await startOpenaiStream(10, { gapMs: 1, cutAfter: 3 });
    t.teardown(() => upstream.close());
    const gw = await startTestGateway(t, { env: towards(t, upstream, HOST), ...spokenBy(client) });
    const socket = await connectThrough(gw.port, 'api.openai.com:443', gw.caPem);
    const stream = open(socket, STREAM);
    socket.on('error', () => undefined);
    await new Promise((resolve) => socket.once('close', resolve));
    t.notMatch(stream.text(), '0\r\n\r\n');
    const record = await gw.record(/x-gw-record-id: (\S+)/i.exec(stream.text())?.[1] ?? '');
    t.match(record, { decision: 'allow', stream_outcome: 'error', error: { code: 'upstream_unreachable' } });
  });
  await t.test('a certificate that is not trusted: 502 that says so', async (t) => {
    const upstream = await startTlsUpstream({ hosts: HOST, certificate: 'expired' });
    t.teardown(() => upstream.close());
    const gw = await startTestGateway(t, { env: towards(t, upstream, HOST), ...spokenBy(client) });
    const response = await redirect(t, gw);
    t.equal(response.status, 502);
    t.equal(response.headers['x-should-retry'], 'false', 'a certificate does not');
    t.match(await recordOf(gw, response), { decision: 'error', reason_codes: ['upstream_tls'], error: { message: /expired/ } });
  });
});

eachClient('answers without a body, trailers and odd statuses pass', async (t, _open, client) => {
  const { gw } = await gatewayTo(t, client, (request, response, body) => {
    void body.then(() => {
      if (request.method === 'HEAD') response.writeHead(200, { 'content-length': 1234 }).end();
      else if (request.url === '/v1/models/none') response.writeHead(204).end();
      else {
        response.writeHead(418, {
          'content-type': 'text/plain',
          trailer: 'x-checksum',
          'set-cookie': ['a=1', 'b=2'],
          'alt-svc': 'h3=":443"',
          'x-gw-decision': 'deny',
        });
        response.write('teapot');
        response.addTrailers({ 'x-checksum': 'abc' });
        response.end();
      }
    });
  });
  const head = await redirect(t, gw, '', 'HEAD', '/v1/models');
  t.match(head, { status: 200, headers: { 'content-length': '1234' } });
  t.match(await recordOf(gw, head), { action_type: 'http.request', action_method: 'HEAD', status_code: 200 });
  t.equal((await redirect(t, gw, '', 'GET', '/v1/models/none')).status, 204);
  const teapot = await redirect(t, gw, '', 'GET', '/v1/models/teapot');
  t.equal(teapot.status, 418);
  t.equal(teapot.body.toString(), 'teapot');
  t.same(teapot.trailers, ['x-checksum', 'abc']);
  t.same(
    teapot.rawHeaders.filter((_, at) => teapot.rawHeaders[at - 1]?.toLowerCase() === 'set-cookie'),
    ['a=1', 'b=2'],
  );
  t.equal(teapot.headers['alt-svc'], undefined);
  t.equal(teapot.headers['x-gw-decision'], 'allow');
});

t.test('a body that policy does not parse streams through and is hashed', async (t) => {
  const { gw, upstream } = await gatewayTo(
    t,
    'direct',
    (_request, response, body) => void body.then((bytes) => response.end(String(bytes.length))),
  );
  const file = 'f'.repeat(3_000_000);
  const response = await redirect(t, gw, file, 'POST', '/v1/files');
  t.equal(response.body.toString(), String(file.length));
  t.equal(upstream.requests[0]?.headers['content-length'], String(file.length));
  t.match(await recordOf(gw, response), { action_type: 'http.request', request_bytes: file.length, request_sha256: /^[0-9a-f]{64}$/ });
});
