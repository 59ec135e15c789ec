/*
 * What those hold who send: heads without their bodies, bodies in pieces of one byte, and calls whose answers take
 * long.
 */
import { once } from 'node:events';
import { createServer } from 'node:https';
import type { Socket } from 'node:net';
import { connectPlain, readResponse } from '../support/raw-clients.ts';
import { certificateOf, closeServer, listenOnFreePort, trackSockets } from '../support/tls-upstream.ts';
import { type Checks, type CleanUp, sleep } from './checks.ts';
import { residentMb } from './process-state.ts';
import { collectGarbage, ProofGateway, proofEnvironment, proofFolders } from './proof-gateway.ts';
import type { ProofSettings } from './settings.ts';

const MEGABYTE = 1_048_576;
const AI_HOST = 'api.openai.com';
const CHAT = '/proxy/openai/v1/chat/completions';
const FORM = 'multipart/form-data; boundary=BB';
/** What a stranger may announce with one head, and with how many of them. */
const ANNOUNCED = 33_554_432;
const HEADS = 64;
/** Bodies in pieces, how many of them and of how many bytes; each byte is six on its way. */
const PIECES = { bodies: 8, bytes: { tenth: 500_000, full: 2_000_000, long: 2_000_000 } };
/**
 * Resident memory beyond what was there before, what the collector has not come to yet included: for each byte some
 * tens, where objects of their own take more than a hundred, and more the longer they are held.
 */
const PIECES_LIMIT_MB = 350;
/** Calls under way, each with a body of so many megabytes. */
const CALLS = { tenth: 20, full: 60, long: 60 };
const BODY_MB = 4;
/** Of what their bodies are in all. Beside it there are a connection to either side, and what the allocator keeps. */
const CALLS_LIMIT_SHARE = 0.6;
const GIVE_UP_MS = 120_000;

/** Kinds of bodies in pieces: the head, what comes whole, and what each piece is. */
const KINDS: Readonly<Record<string, { readonly path: string; readonly type: string; readonly opening: string }>> = {
  'a call': { path: CHAT, type: 'application/json', opening: '{"model":"gpt-4o-mini","messages":[{"role":"user","content":"' },
  'a structured call': { path: '/v1/actions:execute', type: 'application/json', opening: '{"request_id":"' },
  'a file of a form': {
    path: '/proxy/openai/v1/audio/transcriptions',
    type: FORM,
    opening: '--BB\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n',
  },
};

export async function heldBodies(checks: Checks, cleanUp: CleanUp, length: ProofSettings['length']): Promise<void> {
  const { certPem, keyPem, caPem } = certificateOf('good', [AI_HOST]);
  const state = { waiting: 0 };
  const server = createServer({ cert: certPem, key: keyPem }, (request, response) => {
    response.on('error', () => undefined);
    request.resume().on('end', () => {
      if (request.headers['x-wait'] === undefined) response.setHeader('Content-Type', 'application/json').end('{}');
      else state.waiting += 1;
    });
  });
  const sockets = trackSockets(server);
  const port = await listenOnFreePort(server);
  cleanUp.teardown(() => closeServer(server, sockets));
  const folders = proofFolders(cleanUp);
  const env = (caFile: string) => ({ GW_UPSTREAM_CONNECT_TO: `${AI_HOST}:443=127.0.0.1:${port}`, GW_UPSTREAM_CA_FILE: caFile });
  const gateway = await ProofGateway.start(cleanUp, proofEnvironment(folders, { caPem, env }), folders.work);
  await headsAlone(checks, gateway);
  for (const name of Object.keys(KINDS)) await inPieces(checks, gateway, name, PIECES.bytes[length]);
  await underWay(checks, gateway, state, CALLS[length]);
  checks.check('its log reports no error', gateway.complaints());
  await gateway.stop();
}

function head(path: string, fields: string): string {
  return `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer sk-proof\r\n${fields}\r\n`;
}

async function open(port: number): Promise<Socket> {
  const socket = await connectPlain(port);
  socket.on('error', () => undefined);
  return socket;
}

async function headsAlone(checks: Checks, { port }: ProofGateway): Promise<void> {
  const sockets: Socket[] = [];
  for (let count = 0; count < HEADS; count += 1) {
    const socket = await open(port);
    sockets.push(socket);
    socket.write(head(count % 2 === 0 ? CHAT : '/v1/actions:execute', `Expect: 100-continue\r\nContent-Length: ${ANNOUNCED}\r\n`));
    await once(socket, 'data');
  }
  const body = '{"model":"gpt-4o-mini","messages":[]}';
  const caller = await open(port);
  caller.write(head(CHAT, `Content-Length: ${body.length}\r\n`) + body);
  const { status } = await readResponse(caller, 'POST');
  for (const socket of [...sockets, caller]) socket.destroy();
  checks.check(
    `${HEADS} heads that announce ${ANNOUNCED / MEGABYTE} MB each keep nobody out`,
    status === 200 ? [] : [`another call is answered ${status}`],
  );
}

async function inPieces(checks: Checks, gateway: ProofGateway, name: string, bytes: number): Promise<void> {
  const kind = KINDS[name];
  if (kind === undefined) return;
  await collectGarbage(gateway.pid);
  const base = residentMb(gateway.pid);
  const sockets = await Promise.all(Array.from({ length: PIECES.bodies }, () => open(gateway.port)));
  const piece = Buffer.from('1\r\nx\r\n'.repeat(10_000));
  for (const socket of sockets) {
    socket.write(head(kind.path, `Content-Type: ${kind.type}\r\nTransfer-Encoding: chunked\r\n`));
    socket.write(`${kind.opening.length.toString(16)}\r\n${kind.opening}\r\n`);
    for (let sent = 0; sent < bytes; sent += 10_000) socket.write(piece);
  }
  const wanted = PIECES.bodies * bytes;
  let held = 0;
  let peak = 0;
  for (const end = performance.now() + GIVE_UP_MS; held < wanted && performance.now() < end; await sleep(100)) {
    held = (await gateway.metrics())['gw_buffered_bytes'] ?? 0;
    peak = Math.max(peak, residentMb(gateway.pid) - base);
  }
  for (const socket of sockets) socket.destroy();
  checks.check(
    `${name} in pieces of one byte: ${PIECES.bodies} of ${(bytes / MEGABYTE).toFixed(1)} MB take ${peak.toFixed(0)} MB (limit ${PIECES_LIMIT_MB} MB)`,
    [...(held < wanted ? [`of ${wanted} bytes ${held} are held`] : []), ...(peak <= PIECES_LIMIT_MB ? [] : ['pieces pile up'])],
  );
}

async function underWay(checks: Checks, gateway: ProofGateway, state: { waiting: number }, calls: number): Promise<void> {
  const content = 'The quick brown fox jumps over the lazy dog. '.repeat((BODY_MB * MEGABYTE) / 45);
  const body = Buffer.from(JSON.stringify({ model: 'gpt-4o-mini', messages: [{ role: 'user', content }] }));
  await collectGarbage(gateway.pid);
  const base = residentMb(gateway.pid);
  const sockets: Socket[] = [];
  for (let count = 0; count < calls; count += 1) {
    const socket = await open(gateway.port);
    sockets.push(socket);
    socket.write(head(CHAT, `X-Wait: 1\r\nContent-Length: ${body.length}\r\n`));
    socket.write(body);
    for (const end = performance.now() + GIVE_UP_MS; state.waiting <= count && performance.now() < end; ) await sleep(10);
  }
  await collectGarbage(gateway.pid);
  const more = residentMb(gateway.pid) - base;
  const limit = calls * BODY_MB * CALLS_LIMIT_SHARE;
  for (const socket of sockets) socket.destroy();
  checks.check(
    `${calls} calls with bodies of ${BODY_MB} MB that wait for their answers hold ${more.toFixed(0)} MB (limit ${limit.toFixed(0)} MB)`,
    [...(state.waiting === calls ? [] : [`${state.waiting} came`]), ...(more <= limit ? [] : ['they hold their bodies'])],
  );
}
