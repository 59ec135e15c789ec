import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import { openaiStreamEvent } from '../support/openai-stream.ts';
import { certificateOf, closeServer, listenOnFreePort, trackSockets } from '../support/tls-upstream.ts';
import type { CleanUp } from './checks.ts';

/** The provider that it stands for, and a host that is no provider. */
export const AI_HOST = 'api.openai.com';
export const OTHER_HOST = 'stub.example';

/** How an answer is to be given; travels in `metadata` of the call's body. */
export interface Pace {
  readonly tag: string;
  /** Milliseconds before the head. */
  readonly delay: number;
  /** 0: an answer that is no stream, with about `bytes` bytes. */
  readonly events: number;
  /** Milliseconds between two events. */
  readonly gap: number;
  /** Milliseconds from the terminal event to the end of the body. */
  readonly end: number;
  readonly bytes: number;
  /** False: Content-Length. */
  readonly chunked: boolean;
}

/** How far the upstream got with a call. `terminal`: the event that applications act on is written; `ended`: the body's end is. */
export type Moment = 'received' | 'answering' | 'terminal' | 'ended';

export interface PacedUpstream {
  readonly port: number;
  readonly env: (caFile: string) => Record<string, string>;
  readonly caPem: string;
  /** By tag; the caller removes what it no longer needs. */
  readonly moments: Map<string, Moment>;
  /** Called at each moment of any call. */
  onMoment: (moment: Moment) => void;
}

/** A provider behind TLS whose answers are paced call by call, so that what hits the gateway in between hits every stage of an answer. */
export async function startPacedUpstream(cleanUp: CleanUp): Promise<PacedUpstream> {
  const { certPem, keyPem, caPem } = certificateOf('good', [AI_HOST, OTHER_HOST]);
  const server = createServer({ cert: certPem, key: keyPem });
  // Short, so that idle connections are gone soon after the load is.
  server.keepAliveTimeout = 2_000;
  server.on('tlsClientError', () => undefined);
  const sockets = trackSockets(server);
  const moments = new Map<string, Moment>();
  const upstream = {
    moments,
    caPem,
    onMoment: (_moment: Moment): void => undefined,
  };
  const mark = (tag: string, moment: Moment): void => {
    moments.set(tag, moment);
    upstream.onMoment(moment);
  };
  server.on('request', (request, response) => {
    response.on('error', () => undefined);
    void bodyOf(request).then((body) => {
      if (body === undefined) return;
      const asked = read(body);
      if (asked === undefined) response.writeHead(200, { 'Content-Type': 'text/plain' }).end('not an AI call\n');
      else answer(response, asked, (moment) => mark(asked.metadata.tag, moment));
    });
  });
  const port = await listenOnFreePort(server);
  cleanUp.teardown(() => closeServer(server, sockets));
  const env = (caFile: string) => ({
    GW_UPSTREAM_CONNECT_TO: [AI_HOST, OTHER_HOST].map((host) => `${host}:443=127.0.0.1:${port}`).join(','),
    GW_UPSTREAM_CA_FILE: caFile,
  });
  return Object.assign(upstream, { port, env });
}

/** Undefined when the client left in the middle of it. */
function bodyOf(request: IncomingMessage): Promise<Buffer | undefined> {
  return new Promise((resolve) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => resolve(Buffer.concat(parts)));
    request.on('error', () => undefined);
    request.on('close', () => resolve(undefined));
  });
}

interface Asked {
  readonly model: string;
  readonly metadata: Pace;
}

function read(body: Buffer): Asked | undefined {
  return body.length === 0 ? undefined : (JSON.parse(body.toString('utf8')) as Asked);
}

function answer(response: ServerResponse, asked: Asked, mark: (moment: Moment) => void): void {
  mark('received');
  let timer: NodeJS.Timeout | undefined;
  const later = (ms: number, step: () => void): void => {
    timer = setTimeout(step, ms);
  };
  response.on('close', () => clearTimeout(timer));
  const { delay, events } = asked.metadata;
  later(delay, () => (events === 0 ? answerWhole(response, asked, mark) : answerStream(response, asked, mark, later)));
}

function answerWhole(response: ServerResponse, { model, metadata: pace }: Asked, mark: (moment: Moment) => void): void {
  const body = JSON.stringify({
    id: `chatcmpl-${pace.tag}`,
    object: 'chat.completion',
    model,
    choices: [{ index: 0, message: { role: 'assistant', content: 'x'.repeat(pace.bytes) }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 11 + (pace.bytes % 97), completion_tokens: 7 + (pace.bytes % 31), total_tokens: 18 },
  });
  response.writeHead(200, { 'Content-Type': 'application/json', ...(pace.chunked ? {} : { 'Content-Length': String(body.length) }) });
  mark('answering');
  response.end(body);
  mark('ended');
}

function answerStream(
  response: ServerResponse,
  { model, metadata: pace }: Asked,
  mark: (moment: Moment) => void,
  later: (ms: number, step: () => void) => void,
): void {
  const named = (event: string): string => event.replace('chatcmpl-1', `chatcmpl-${pace.tag}`).replace('gpt-4o-mini', model);
  const usage = { prompt_tokens: 11, completion_tokens: pace.events, total_tokens: 11 + pace.events };
  const tail = `data: ${JSON.stringify({ id: `chatcmpl-${pace.tag}`, object: 'chat.completion.chunk', model, choices: [], usage })}\n\n`;
  let next = 0;
  const step = (): void => {
    if (next < pace.events) {
      response.write(named(openaiStreamEvent(next)));
      next += 1;
      later(pace.gap, step);
      return;
    }
    response.write(`${tail}data: [DONE]\n\n`);
    mark('terminal');
    if (pace.end === 0) finish();
    else later(pace.end, finish);
  };
  const finish = (): void => {
    response.end();
    mark('ended');
  };
  response.writeHead(200, { 'Content-Type': 'text/event-stream; charset=utf-8' });
  mark('answering');
  step();
}
