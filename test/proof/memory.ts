/*
 * What those hold who take nothing and say nothing: answers that nobody reads, and connections that idle. What those
 * hold who send is in held-bodies.ts.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { atMost } from '../support/child.ts';
import { connectPlain, connectThrough, h2Session, openTunnel } from '../support/raw-clients.ts';
import { certificateOf, closeServer, listenOnFreePort, trackSockets } from '../support/tls-upstream.ts';
import { type Checks, type CleanUp, prove, sleep } from './checks.ts';
import { drained } from './clients.ts';
import { heldBodies } from './held-bodies.ts';
import { residentMb } from './process-state.ts';
import { COLLECT_ON_SIGNAL, collectGarbage, ProofGateway, proofEnvironment, proofFolders } from './proof-gateway.ts';
import { proofSettings } from './settings.ts';

const MEGABYTE = 1_048_576;
const AI_HOST = 'api.openai.com';
const OTHER_HOST = 'stub.example';
/** Of the answer that nobody reads, and how much more than before it may take at any moment, MB. */
const ANSWER_MB = { tenth: 60, full: 600, long: 600 };
const STALLED_LIMIT_MB = 80;
/** An upstream that was not asked for more for so long is held back. */
const HELD_BACK_MS = 1_000;
const CONNECTIONS = { tenth: 2_000, full: 5_000, long: 5_000 };
const HANDSHAKES_AT_ONCE = 50;
/**
 * Resident memory of an idle intercepted connection, KB beyond that of the bare interceptor; of a passed tunnel, in
 * all.
 */
const INTERCEPTED_LIMIT_KB = 20;
const PASSED_LIMIT_KB = 40;
/** Idle connections are closed after a while, and a busy machine may take longer to open them all. */
const MIN_IDLE_SHARE = 0.9;
/** Of the idle connections, those that fill what the process has at hand already. */
const FILLING_SHARE = 0.25;
const FLOOR = fileURLToPath(new URL('../../bench/floor-interceptor.js', import.meta.url));

interface BigUpstream {
  readonly port: number;
  readonly caPem: string;
  /** Bytes that the answer under way has given away. */
  written: number;
}

/** An answer of which not a byte is read yet, and how to let go of its connection. */
interface Unread {
  readonly answer: Readable;
  close(): void;
}

const FILE = '/v1/files/big/content';
const IDENTITY = { authorization: 'Bearer sk-proof' };

/** Asks for the big answer at each door. */
const STALLED_DOORS: Readonly<Record<string, (gateway: ProofGateway, upstreamCaPem: string) => Promise<Unread>>> = {
  'structured API, a stream': async ({ port }) => overH1(await connectPlain(port), { path: '/v1/actions:execute', body: envelope() }),
  redirect: async ({ port }) => overH1(await connectPlain(port), { path: `/proxy/openai${FILE}` }),
  'redirect, a stream': async ({ port }) => overH1(await connectPlain(port), { path: '/proxy/openai/v1/chat/completions', body: chat() }),
  'absolute-form': async ({ port }) => overH1(await connectPlain(port), { path: `https://${AI_HOST}${FILE}`, host: AI_HOST }),
  'CONNECT, http/1.1': async ({ port, caPem }) =>
    overH1(await connectThrough(port, `${AI_HOST}:443`, caPem), { path: FILE, host: AI_HOST }),
  'CONNECT, h2': async ({ port, caPem }) => {
    const session = h2Session(await connectThrough(port, `${AI_HOST}:443`, caPem, { alpn: ['h2'] }), AI_HOST);
    const answer = session.request({ ':path': FILE, ...IDENTITY });
    await once(answer, 'response');
    return { answer, close: () => session.destroy() };
  },
  'passed tunnel': async ({ port }, upstreamCaPem) =>
    overH1(await connectThrough(port, `${OTHER_HOST}:443`, upstreamCaPem), { path: FILE, host: OTHER_HOST }),
  'passed absolute-form': async ({ port }) => overH1(await connectPlain(port), { path: `https://${OTHER_HOST}${FILE}`, host: OTHER_HOST }),
};

function chat(): string {
  return JSON.stringify({ model: 'gpt-4o-mini', stream: true, messages: [] });
}

function envelope(): string {
  const action = {
    type: 'ai.infer',
    method: 'POST',
    target_host: AI_HOST,
    target_path: '/v1/chat/completions',
    params: JSON.parse(chat()) as unknown,
  };
  return JSON.stringify({ schema: 'gw.action_request.v2', org_id: 'default', workload_id: 'default', credential_hint: 'sk-proof', action });
}

async function overH1(socket: Socket, { path, host = '127.0.0.1', body }: { path: string; host?: string; body?: string }): Promise<Unread> {
  const call = httpRequest({
    createConnection: () => socket,
    method: body === undefined ? 'GET' : 'POST',
    path,
    headers: {
      host,
      ...IDENTITY,
      ...(body === undefined ? {} : { 'content-type': 'application/json', 'content-length': String(body.length) }),
    },
  });
  call.end(body);
  const [answer] = (await once(call, 'response')) as [IncomingMessage];
  if (answer.statusCode !== 200) throw new Error(`${path} is answered ${answer.statusCode}`);
  return { answer, close: () => socket.destroy() };
}

await prove(async (checks, cleanUp) => {
  const { length, rounds } = proofSettings();
  const megabytes = ANSWER_MB[length];
  const upstream = await startBigUpstream(cleanUp, megabytes);
  const folders = proofFolders(cleanUp);
  const env = (caFile: string) => ({
    GW_UPSTREAM_CONNECT_TO: [AI_HOST, OTHER_HOST].map((host) => `${host}:443=127.0.0.1:${upstream.port}`).join(','),
    GW_UPSTREAM_CA_FILE: caFile,
  });
  const settings = proofEnvironment(folders, { caPem: upstream.caPem, env });
  const gateway = await ProofGateway.start(cleanUp, settings, folders.work);
  checks.note(`memory: answers of ${megabytes} MB that nobody reads, then ${rounds ?? CONNECTIONS[length]} idle connections`);
  for (const [door, open] of Object.entries(STALLED_DOORS)) await stall(checks, gateway, upstream, { door, megabytes, open });
  await idle(checks, cleanUp, gateway, upstream, {
    caFile: settings['GW_UPSTREAM_CA_FILE'] ?? '',
    root: folders.root,
    count: rounds ?? CONNECTIONS[length],
  });
  checks.check('its log reports no error', gateway.complaints());
  const end = await gateway.stop();
  await heldBodies(checks, cleanUp, length);
  checks.check('SIGTERM ends it in order', end.code === 0 ? [] : [`exit code ${end.code ?? end.signal}: ${end.stderr}`]);
});

/**
 * Answers every GET with many megabytes, every POST with a stream of events of that size, and everything else with a
 * few bytes.
 */
async function startBigUpstream(cleanUp: CleanUp, megabytes: number): Promise<BigUpstream> {
  const { certPem, keyPem, caPem } = certificateOf('good', [AI_HOST, OTHER_HOST]);
  const piece = Buffer.alloc(MEGABYTE, 'x');
  const event = Buffer.from(`data: {"id":"c","choices":[{"delta":{"content":"${'x'.repeat(MEGABYTE - 60)}"}}]}\n\n`);
  const upstream = { port: 0, caPem, written: 0 };
  const give = async (response: ServerResponse, bytes: Buffer): Promise<void> => {
    upstream.written = 0;
    for (let at = 0; at < megabytes && !response.destroyed; at += 1) {
      const more = response.write(bytes);
      upstream.written += bytes.length;
      if (!more) await drained(response);
    }
  };
  const server = createServer({ cert: certPem, key: keyPem }, (request: IncomingMessage, response) => {
    response.on('error', () => undefined);
    request.resume().on('end', () => {
      if (request.url === '/v1/models') {
        response.end('{"data":[]}');
      } else if (request.method === 'GET') {
        response.writeHead(200, { 'Content-Type': 'application/octet-stream', 'Content-Length': String(megabytes * MEGABYTE) });
        void give(response, piece).then(() => response.end());
      } else {
        response.writeHead(200, { 'Content-Type': 'text/event-stream' });
        void give(response, event).then(() => response.end('data: [DONE]\n\n'));
      }
    });
  });
  server.keepAliveTimeout = 120_000;
  const sockets = trackSockets(server);
  upstream.port = await listenOnFreePort(server);
  cleanUp.teardown(() => closeServer(server, sockets));
  return upstream;
}

/** Reads nothing until the upstream is held back, then everything. */
async function stall(
  checks: Checks,
  gateway: ProofGateway,
  upstream: BigUpstream,
  { door, megabytes, open }: { door: string; megabytes: number; open: (gateway: ProofGateway, caPem: string) => Promise<Unread> },
): Promise<void> {
  await collectGarbage(gateway.pid);
  const base = residentMb(gateway.pid);
  let peak = 0;
  const watch = setInterval(() => {
    peak = Math.max(peak, residentMb(gateway.pid) - base);
  }, 20);
  const { answer, close } = await open(gateway, upstream.caPem);
  let seen = -1;
  for (let since = performance.now(); performance.now() - since < HELD_BACK_MS; await sleep(50)) {
    if (upstream.written !== seen) since = performance.now();
    seen = upstream.written;
  }
  const heldAt = upstream.written / MEGABYTE;
  let read = 0;
  answer.on('data', (piece: Buffer) => {
    read += piece.length;
  });
  await once(answer, 'end');
  clearInterval(watch);
  close();
  checks.check(
    `${door}: the upstream is held back after ${heldAt.toFixed(0)} MB; at most ${peak.toFixed(0)} MB more than before (limit ${STALLED_LIMIT_MB} MB)`,
    [
      ...(heldAt < megabytes ? [] : ['it was never held back']),
      ...(peak <= STALLED_LIMIT_MB ? [] : ['the answer piles up']),
      ...(read >= (megabytes - 1) * MEGABYTE ? [] : [`${read} bytes came`]),
    ],
  );
}

interface Idle {
  readonly caFile: string;
  readonly root: string;
  readonly count: number;
}

/** Many connections that have made one call and wait for the next. */
async function idle(
  checks: Checks,
  cleanUp: CleanUp,
  gateway: ProofGateway,
  upstream: BigUpstream,
  { caFile, root, count }: Idle,
): Promise<void> {
  const floor = await startFloor(cleanUp, upstream.port, caFile, root);
  const through = (port: number, host: string, caPem: string) => () => connectThrough(port, `${host}:443`, caPem);
  const bare = await idleKb(floor.child.pid ?? 0, count, through(floor.port, AI_HOST, floor.caPem), AI_HOST);
  checks.note(`       the bare interceptor: ${bare.toFixed(1)} KB for each of ${count} idle connections`);
  const own = await idleKb(gateway.pid, count, through(gateway.port, AI_HOST, gateway.caPem), AI_HOST);
  checks.check(
    `intercepted: ${own.toFixed(1)} KB for each of ${count} idle connections, ${(own - bare).toFixed(1)} KB beyond the bare interceptor (limit ${INTERCEPTED_LIMIT_KB} KB)`,
    own - bare <= INTERCEPTED_LIMIT_KB ? [] : ['they hold too much'],
  );
  const passed = await idleKb(gateway.pid, count, () => openTunnel(gateway.port, `${OTHER_HOST}:443`), undefined);
  checks.check(
    `passed tunnels: ${passed.toFixed(1)} KB for each of ${count} (limit ${PASSED_LIMIT_KB} KB)`,
    passed <= PASSED_LIMIT_KB ? [] : ['they hold too much'],
  );
  floor.child.kill('SIGTERM');
}

/** Resident memory that one of so many idle connections takes, KB. `host`: each makes one call to it first. */
async function idleKb(pid: number, count: number, open: () => Promise<Socket>, host: string | undefined): Promise<number> {
  const inTurn = atMost(HANDSHAKES_AT_ONCE);
  const openOne = async (): Promise<Socket> => {
    const socket = await open();
    socket.on('error', () => undefined);
    if (host !== undefined) await callOnce(socket, host);
    return socket;
  };
  // What the first connections compile and fill is nobody's share.
  for (const socket of await Promise.all(Array.from({ length: HANDSHAKES_AT_ONCE }, openOne))) socket.destroy();
  const openAll = (many: number): Promise<Socket[]> => Promise.all(Array.from({ length: many }, () => inTurn(openOne)));
  // So do the next ones go into memory that the process had before; what counts is what the others take beyond them.
  const first = await openAll(Math.round(count * FILLING_SHARE));
  await collectGarbage(pid);
  const before = residentMb(pid);
  const others = await openAll(count - first.length);
  await collectGarbage(pid);
  const after = residentMb(pid);
  const sockets = [...first, ...others];
  const idle = sockets.filter((socket) => !socket.destroyed).length;
  for (const socket of sockets) socket.destroy();
  await sleep(500);
  if (idle < count * MIN_IDLE_SHARE) throw new Error(`of ${count} connections ${count - idle} were closed before all were open`);
  return ((after - before) * 1_024) / others.length;
}

/** A small call whose connection stays open. */
async function callOnce(socket: Socket, host: string): Promise<void> {
  socket.write(`GET /v1/models HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer sk-proof\r\n\r\n`);
  let text = '';
  while (!text.includes('{"data":[]}')) {
    const [piece] = (await once(socket, 'data')) as [Buffer];
    text += piece.toString('latin1');
  }
}

/** The bare interceptor of the benchmark. */
async function startFloor(
  cleanUp: CleanUp,
  upstreamPort: number,
  caFile: string,
  root: string,
): Promise<{ child: ChildProcess; port: number; caPem: string }> {
  const child = spawn(process.execPath, [...COLLECT_ON_SIGNAL, FLOOR, String(upstreamPort), caFile, root], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  cleanUp.teardown(() => child.kill('SIGKILL'));
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  const { port } = JSON.parse(line.toString()) as { port: number };
  return { child, port, caPem: readFileSync(join(root, 'interceptor-ca.pem'), 'utf8') };
}
