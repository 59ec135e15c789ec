// SIGTERM while an upload, a stream, a WebSocket and a passed tunnel are under way: each ends as it should, and so does
// the process.
import { writeFileSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { eventually } from '../support/child.ts';
import { type GatewayProcess, startGatewayProcess } from '../support/gateway-process.ts';
import { HOST, RESPONSES, talk } from '../support/metered-sockets.ts';
import { openAiSocket } from '../support/openai-sockets.ts';
import { openaiStreamEvent, openaiStreamTail } from '../support/openai-stream.ts';
import { overOf } from '../support/over-of.ts';
import { connectThrough, openTunnel } from '../support/raw-clients.ts';
import { storedRecords } from '../support/stored-records.ts';
import { tempDir } from '../support/temp-dir.ts';
import { closeServer, listenOnFreePort, startTlsUpstream, trackSockets } from '../support/tls-upstream.ts';
import { closing, opened, startSocketUpstream, webSocketOn } from '../support/websockets.ts';

const PROVIDER = 'api.mistral.ai';
const ELSEWHERE = 'other.example';
const HALF = Buffer.alloc(50_000, 'x');

/** All that came by a connection. */
function heard(socket: Socket): { text(): string; readonly closed: Promise<unknown> } {
  let text = '';
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1');
  });
  socket.on('error', () => undefined);
  return { text: () => text, closed: overOf(socket) };
}

/**
 * A provider that has begun to take a file and to give a stream, another that has begun an answer on a WebSocket, and a
 * server that echoes.
 */
async function startUpstreams(t: Test) {
  let uploaded = 0;
  let finishStream: (() => void) | undefined;
  const provider = await startTlsUpstream({
    hosts: [PROVIDER],
    handler: (request, response) => {
      if (request.url === '/v1/files') {
        request.on('data', (chunk: Buffer) => {
          uploaded += chunk.length;
        });
        request.on('end', () => response.end(`took ${uploaded}`));
        return;
      }
      response.writeHead(200, { 'Content-Type': 'text/event-stream' }).write(openaiStreamEvent(0));
      finishStream = () => void response.end(openaiStreamEvent(1) + openaiStreamTail());
    },
  });
  t.teardown(() => provider.close());
  const sockets = await startSocketUpstream(t, { hosts: [HOST], onSocket: openAiSocket });
  const echo = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.pipe(socket);
  });
  const open = trackSockets(echo);
  const echoPort = await listenOnFreePort(echo);
  t.teardown(() => closeServer(echo, open));
  const caFile = join(tempDir(t), 'upstream-roots.pem');
  writeFileSync(caFile, provider.caPem + sockets.caPem);
  const ports = { [PROVIDER]: provider.port, [HOST]: sockets.port, [ELSEWHERE]: echoPort };
  return {
    sockets,
    uploaded: () => uploaded,
    finishStream: () => finishStream?.(),
    env: {
      GW_UPSTREAM_CONNECT_TO: Object.entries(ports)
        .map(([host, port]) => `${host}:443=127.0.0.1:${port}`)
        .join(','),
      GW_UPSTREAM_CA_FILE: caFile,
    },
  };
}

/** Four clients of a gateway, each in the middle of something; their callers are named after it. */
async function beginAll(t: Test, gw: GatewayProcess, upstreams: Awaited<ReturnType<typeof startUpstreams>>) {
  const caPem = (await gw.admin('GET', '/v1/proxy/ca.crt')).text;
  const through = async (host: string): Promise<Socket> => {
    const socket = await connectThrough(gw.port, `${host}:443`, caPem);
    t.teardown(() => socket.destroy());
    return socket;
  };
  const head = (path: string, caller: string, type: string, length: number): string =>
    `POST ${path} HTTP/1.1\r\nHost: ${PROVIDER}\r\nAuthorization: Bearer k\r\nX-GW-Caller-ID: ${caller}\r\nContent-Type: ${type}\r\nContent-Length: ${length}\r\n\r\n`;

  const uploader = await through(PROVIDER);
  const upload = heard(uploader);
  uploader.write(head('/v1/files', 'upload', 'application/octet-stream', 2 * HALF.length));
  uploader.write(HALF);
  await eventually('the first half', () => (upstreams.uploaded() === HALF.length ? true : undefined));

  const reader = await through(PROVIDER);
  const stream = heard(reader);
  const body = JSON.stringify({ model: 'mistral-small-latest', messages: [], stream: true });
  reader.write(head('/v1/chat/completions', 'stream', 'application/json', body.length) + body);
  await eventually('the first event', () => (stream.text().includes('"w0 "') ? true : undefined));

  const socket = webSocketOn(t, await through(HOST), HOST, RESPONSES, {
    headers: { Authorization: 'Bearer k', 'X-GW-Caller-ID': 'socket' },
  });
  const talking = talk(socket);
  await opened(socket);
  await talking.say({ type: 'response.create', model: 'gpt-4o-mini', input: 'hang' }, 'response.created');

  const tunneller = await openTunnel(gw.port, `${ELSEWHERE}:443`);
  t.teardown(() => tunneller.destroy());
  const tunnel = heard(tunneller);
  tunneller.write('ping');
  await eventually('the echo', () => (tunnel.text() === 'ping' ? true : undefined));
  return { uploader, upload, stream, socket, talking, tunneller, tunnel };
}

/** By caller: the records of calls, without the one that opened the WebSocket. */
async function callsOf(gw: GatewayProcess) {
  const records = (await storedRecords(String(gw.env['GW_DATA_DIR']))).filter(({ record_tier: tier }) => tier === 'action');
  return Object.fromEntries(records.map((record) => [String(record['caller_id']), record]));
}

t.test('what is under way when SIGTERM comes ends as if nothing had happened, then the process does, with code 0', async (t) => {
  const upstreams = await startUpstreams(t);
  const gw = await startGatewayProcess(t, { env: upstreams.env });
  const { uploader, upload, stream, socket, talking, tunneller, tunnel } = await beginAll(t, gw, upstreams);
  gw.child.kill('SIGTERM');
  await eventually('the closed port', async () => ((await fetch(`${gw.url}/healthz`).catch(() => undefined)) ? undefined : true));

  tunneller.write('pong');
  await eventually('the second echo', () => (tunnel.text() === 'pingpong' ? true : undefined));
  uploader.write(HALF);
  await upload.closed;
  t.match(upload.text(), /^HTTP\/1\.1 200 .*Connection: close.*took 100000/is);
  upstreams.finishStream();
  await stream.closed;
  t.match(stream.text(), /"w1 ".*data: \[DONE\]\n\n\r\n0\r\n\r\n$/s);
  const told = closing(socket);
  const done = talking.until('response.completed');
  upstreams.sockets.sockets[0]?.send(JSON.stringify({ type: 'response.completed', response: { id: 'resp_1', status: 'completed' } }));
  await done;
  t.match(await told, { code: 1001 });
  await tunnel.closed;
  t.match(await gw.child.ended, { code: 0, signal: null });

  t.match(await callsOf(gw), {
    upload: { decision: 'allow', upstream_status: 200, request_bytes: 100_000 },
    stream: { decision: 'allow', stream_outcome: 'complete', metering: { tokens_in: 11, tokens_out: 7 } },
    socket: { decision: 'allow', stream_outcome: 'complete' },
  });
});

t.test('what is not over by GW_DRAIN_TIMEOUT is cut, told as such and recorded, and the process ends with code 0', async (t) => {
  const upstreams = await startUpstreams(t);
  const gw = await startGatewayProcess(t, { env: { ...upstreams.env, GW_DRAIN_TIMEOUT: '500ms' } });
  const { upload, stream, socket, tunneller, tunnel } = await beginAll(t, gw, upstreams);
  // A tunnel that is never silent is no reason to stay either.
  const chatter = setInterval(() => tunneller.write('x'), 50);
  t.teardown(() => clearInterval(chatter));
  const cut = closing(socket);
  const started = performance.now();
  gw.child.kill('SIGTERM');
  t.match(await gw.child.ended, { code: 0, signal: null });
  const tookMs = performance.now() - started;
  t.ok(tookMs < 30_000, `and not only after the default:  ${Math.round(tookMs)} ms`);
  await Promise.all([upload.closed, stream.closed, tunnel.closed]);
  t.match(upload.text(), /^HTTP\/1\.1 503 .*Retry-After: 1\r\n.*The gateway is stopping/s);
  t.notMatch(stream.text(), /DONE|\r\n0\r\n\r\n$/);
  t.match(await cut, { code: 1001, reason: 'the gateway is stopping' });

  t.match(await callsOf(gw), {
    upload: { decision: 'error', status_code: 503, reason_codes: ['shutting_down'], request_bytes: 50_000 },
    stream: { decision: 'allow', stream_outcome: 'aborted', error: { code: 'shutting_down' } },
    socket: { decision: 'allow', stream_outcome: 'aborted', error: { code: 'shutting_down' } },
  });
});
