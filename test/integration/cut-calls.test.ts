// What the gateway ends itself, because GW_DRAIN_TIMEOUT is over, says so: to its caller in the words of its door, and
// in its record.
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { createServer, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import { CHAT, chat, type Governed, startGoverned } from '../support/governed.ts';
import { openaiStreamEvent } from '../support/openai-stream.ts';
import { overOf } from '../support/over-of.ts';
import { connectPlain, connectThrough, h1Request, h2Request, h2Session, type RawResponse } from '../support/raw-clients.ts';
import { storedRecords } from '../support/stored-records.ts';
import { closeServer, listenOnFreePort, trackSockets } from '../support/tls-upstream.ts';

const DRAIN = { GW_DRAIN_TIMEOUT: '0s', GW_EGRESS_ALLOW: '127.0.0.1' };

/** A gateway before a provider that answers nothing, or begins a stream and says no more. */
async function startHanging(t: Test, begin: (response: ServerResponse) => void = () => undefined) {
  let count = 0;
  const waiting: (() => void)[] = [];
  const scene = await startGoverned(t, {
    env: DRAIN,
    handler: (_request, response) => {
      count += 1;
      begin(response);
      for (const wake of waiting.splice(0)) wake();
    },
  });
  const arrived = async (wanted: number): Promise<void> => {
    while (count < wanted) await new Promise<void>((resolve) => waiting.push(resolve));
  };
  return { ...scene, arrived };
}

async function recordsOf({ gw }: Governed): Promise<readonly Record<string, unknown>[]> {
  return (await storedRecords(gw.dataDir)).filter(({ record_tier: tier }) => tier === 'action');
}

function isOurs(t: Test, answer: RawResponse, door: string): void {
  t.equal(answer.status, 503, door);
  t.equal(answer.headers['retry-after'], '1', door);
  t.match(answer.body.toString(), /"error":\{.*The gateway is stopping/, `${door}: in words that an SDK shows`);
}

// Holds: nobody-served-too-early
t.test('a call that waits for its answer is 503 with Retry-After on every door, and its record says why', async (t) => {
  const scene = await startHanging(t);
  const { gw, send, through, execute, arrived } = scene;
  const h2 = h2Session(await connectThrough(gw.port, 'api.openai.com:443', gw.caPem, { alpn: ['h2'] }), 'api.openai.com');
  t.teardown(() => h2.destroy());
  const inside = chat([], '/v1/chat/completions');
  const answers = [
    ['a base URL', send(chat())],
    ['CONNECT with http/1.1', through('api.openai.com:443', inside)],
    ['CONNECT with h2', h2Request(h2, inside)],
  ] as const;
  const direct = execute();
  await arrived(4);
  await gw.gateway.stop();
  for (const [door, answer] of answers) isOurs(t, await answer, door);
  const { status, headers, body } = await direct;
  t.equal(status, 503);
  t.equal(headers.get('retry-after'), '1');
  t.match(body, {
    schema: 'gw.action_response.v1',
    decision: 'error',
    reason_codes: ['shutting_down'],
    reason: /^The gateway is stopping/,
  });
  const records = await recordsOf(scene);
  t.equal(records.length, 4);
  for (const record of records) {
    t.match(record, { decision: 'error', status_code: 503, reason_codes: ['shutting_down'], error: { code: 'shutting_down' } });
    t.notOk('metering' in record, 'nothing came back that could cost anything');
  }
});

t.test('a stream that runs is broken off, and its record says that the gateway did it', async (t) => {
  const scene = await startHanging(t, (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(openaiStreamEvent(0));
  });
  const { gw } = scene;
  const client = await connectPlain(gw.port);
  const over = overOf(client);
  client.on('error', () => undefined);
  const body = JSON.stringify({ ...CHAT, stream: true });
  client.write(`POST /proxy/openai/v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  let text = '';
  client.on('data', (chunk: Buffer) => {
    text += chunk.toString();
  });
  while (!text.includes('"w0 "')) await once(client, 'data');
  await gw.gateway.stop();
  await over;
  t.notMatch(text, /\r\n0\r\n\r\n$/, 'nobody takes it for complete');
  t.match(await recordsOf(scene), [
    { decision: 'allow', status_code: 200, stream_outcome: 'aborted', error: { code: 'shutting_down', message: /gateway is stopping/ } },
  ]);
});

t.test('a request whose body is still on its way is 503 at once, and has no record', async (t) => {
  const scene = await startHanging(t);
  const { gw } = scene;
  const client = await connectPlain(gw.port);
  let text = '';
  client.on('data', (chunk: Buffer) => {
    text += chunk.toString();
  });
  const over = overOf(client);
  client.write(
    'POST /proxy/openai/v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n',
  );
  // It is told to go on when somebody waits for its body.
  while (!text.includes('100 Continue')) await once(client, 'data');
  await gw.gateway.stop();
  await over;
  t.match(text, /HTTP\/1\.1 503 .*Retry-After: 1\r\n.*"code":"shutting_down"/s);
  t.same(await recordsOf(scene), []);
});

t.test('what passes undecided, and a WebSocket that is not accepted yet, is 503 too', async (t) => {
  // Takes connections, and says nothing.
  const silent = createServer((socket) => void socket.on('error', () => undefined));
  const open = trackSockets(silent);
  const port = await listenOnFreePort(silent);
  t.teardown(() => closeServer(silent, open));
  const scene = await startGoverned(t, {
    env: { ...DRAIN, GW_PROXY_NON_AI: 'inspect', GW_UPSTREAM_CONNECT_TO: `quiet.example:80=127.0.0.1:${port}` },
  });
  const { gw } = scene;
  const taken = once(silent, 'connection');
  const socket: Socket = await connectPlain(gw.port);
  const over = overOf(socket);
  let text = '';
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString();
  });
  socket.write(
    'GET http://quiet.example/socket HTTP/1.1\r\nHost: quiet.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
  );
  await taken;
  const plain = h1Request(await connectPlain(gw.port), 'quiet.example', { path: 'http://quiet.example/page' });
  await once(silent, 'connection');
  await gw.gateway.stop();
  await over;
  t.match(text, /^HTTP\/1\.1 503 .*"code":"shutting_down"/s);
  t.match(await plain, { status: 503, headers: { 'retry-after': '1' } });
});
