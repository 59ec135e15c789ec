import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { Socket } from 'node:net';
import { type WebSocket, WebSocketServer } from 'ws';
import { openaiStreamEvent } from '../support/openai-stream.ts';
import { certificateOf, closeServer, listenOnFreePort, trackSockets } from '../support/tls-upstream.ts';
import { type CleanUp, sleep } from './checks.ts';
import { AI_HOST } from './paced-upstream.ts';

/** Events that are written in one go, so that long streams run beside each other. */
const AT_ONCE = 10;

/**
 * What becomes of a call at the provider. `truncate`: its answer breaks off; `reset`: there is none; a number: an
 * answer of that status, without usage.
 */
export type Fate = 'answer' | 'truncate' | 'reset' | 500 | 502;

/**
 * What a call is told to cost. It travels as `metadata` of its params, which no door changes and no estimate counts.
 */
export interface Charge {
  readonly fate: Fate;
  readonly tokensIn: number;
  readonly tokensOut: number;
  /** Milliseconds before the answer. */
  readonly delay: number;
  /** Events of a stream; 0: a plain answer. */
  readonly events: number;
}

export interface ChargingUpstream {
  readonly caPem: string;
  /** Told of each call that has arrived. */
  onCall: () => void;
  env(caFile: string): Record<string, string>;
}

/** A provider that charges what each call tells it to, on every path and on responses sockets. */
export async function startChargingUpstream(cleanUp: CleanUp): Promise<ChargingUpstream> {
  const { caPem, certPem, keyPem } = certificateOf('good', [AI_HOST]);
  const server = createServer({ cert: certPem, key: keyPem });
  // An origin that closes what is idle may do so in the moment of the next call, and then that call has no answer.
  server.keepAliveTimeout = 120_000;
  const port = await listenOnFreePort(server);
  const upstream: ChargingUpstream = {
    caPem,
    onCall: () => undefined,
    env: (caFile) => ({ GW_UPSTREAM_CONNECT_TO: `${AI_HOST}:443=127.0.0.1:${port}`, GW_UPSTREAM_CA_FILE: caFile }),
  };
  server.on('tlsClientError', () => undefined);
  server.on('clientError', (_error, socket) => socket.destroy());
  server.on('request', (request, response) => serve(request, response, upstream));
  const sockets = new WebSocketServer({ noServer: true, perMessageDeflate: false });
  server.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) =>
    sockets.handleUpgrade(request, socket, head, (accepted) => talk(accepted, upstream)),
  );
  const open = trackSockets(server);
  cleanUp.teardown(() => closeServer(server, open));
  return upstream;
}

function serve(request: IncomingMessage, response: ServerResponse, upstream: ChargingUpstream): void {
  request.on('error', () => undefined);
  response.on('error', () => undefined);
  let text = '';
  request.setEncoding('utf8').on('data', (piece: string) => {
    text += piece;
  });
  request.on('end', () => {
    const { metadata } = JSON.parse(text) as { metadata: Charge };
    upstream.onCall();
    void answer(response, metadata);
  });
}

async function answer(response: ServerResponse, charge: Charge): Promise<void> {
  const { fate, delay, events } = charge;
  await sleep(delay);
  if (response.destroyed) return;
  if (fate === 'reset') response.destroy();
  else if (typeof fate === 'number') response.writeHead(fate, { 'Content-Type': 'application/json' }).end('{"error":{"message":"no"}}');
  else if (events === 0) answerWhole(response, charge);
  else await answerStream(response, charge);
}

function answerWhole(response: ServerResponse, { fate, tokensIn, tokensOut }: Charge): void {
  const usage = { prompt_tokens: tokensIn, completion_tokens: tokensOut, total_tokens: tokensIn + tokensOut };
  const body = JSON.stringify({ id: 'x', object: 'chat.completion', model: 'served', choices: [], usage });
  response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': body.length });
  if (fate === 'answer') response.end(body);
  else response.write(body.slice(0, -9), () => response.destroy());
}

async function answerStream(response: ServerResponse, { fate, tokensIn, tokensOut, events }: Charge): Promise<void> {
  response.writeHead(200, { 'Content-Type': 'text/event-stream' });
  for (let at = 0; at < events && !response.destroyed; at += 1) {
    // A stream names one model, here one that nobody has a price for: what was asked for is charged.
    response.write(openaiStreamEvent(at).replace('"gpt-4o-mini"', '"served"'));
    if (at % AT_ONCE === AT_ONCE - 1) await sleep(1);
  }
  if (fate !== 'answer') {
    setImmediate(() => response.destroy());
    return;
  }
  const usage = { prompt_tokens: tokensIn, completion_tokens: tokensOut, total_tokens: tokensIn + tokensOut };
  response.end(`data: ${JSON.stringify({ id: 'x', model: 'served', choices: [], usage })}\n\ndata: [DONE]\n\n`);
}

/** A responses socket. */
function talk(socket: WebSocket, upstream: ChargingUpstream): void {
  socket.on('error', () => undefined);
  let count = 0;
  socket.on('message', (data: Buffer) => {
    const event = JSON.parse(data.toString()) as { type: string; metadata?: Charge };
    if (event.type !== 'response.create' || event.metadata === undefined) return;
    count += 1;
    upstream.onCall();
    void respond(socket, event.metadata, `resp_${count}`);
  });
}

async function respond(socket: WebSocket, { fate, tokensIn, tokensOut, delay }: Charge, id: string): Promise<void> {
  const send = (type: string, more: object): void => socket.send(JSON.stringify({ type, ...more }));
  await sleep(delay);
  if (fate === 'reset') return socket.terminate();
  if (typeof fate === 'number') return send('error', { status: fate, error: { type: 'server_error', message: 'no' } });
  send('response.created', { response: { id, status: 'in_progress' } });
  if (fate === 'truncate') return socket.terminate();
  const usage = { input_tokens: tokensIn, output_tokens: tokensOut, total_tokens: tokensIn + tokensOut };
  send('response.completed', { response: { id, status: 'completed', usage } });
}
