import { createHash } from 'node:crypto';
import { createServer as createPlainServer, type IncomingMessage, type Server } from 'node:http';
import { createSecureServer, type Http2SecureServer, type Http2ServerRequest } from 'node:http2';
import type { Writable } from 'node:stream';
import { certificateOf, closeServer, listenOnFreePort, trackSockets } from '../support/tls-upstream.ts';
import { destroyWhenBroken } from './broken-connection.ts';
import type { CleanUp } from './checks.ts';
import { type Pace, readPace, streamEvents, wholeAnswer } from './paced-answer.ts';
import { acceptSockets, type SeenSocket } from './sockets.ts';

/**
 * The provider that it stands for, one that only bystanders call, a host that is no provider, and a known AI domain
 * that is none.
 */
export const AI_HOST = 'api.openai.com';
export const BYSTANDER_HOST = 'api.mistral.ai';
export const OTHER_HOST = 'stub.example';
export const KNOWN_HOST = 'chat.deepseek.com';

/** Less than the second within which a call that broke off is to be over. */
const CHECK_MS = 200;

/**
 * How far the upstream got with a call. `terminal`: the event that applications act on is written; `ended`: the body's
 * end is.
 */
export type Moment = 'received' | 'answering' | 'terminal' | 'ended';

/** One call as the upstream saw it. Times are of `performance.now()`. */
export interface SeenCall {
  moment: Moment;
  readonly arrivedAt: number;
  /** When its exchange was over, by whichever side. */
  overAt: number | undefined;
  /** Of the connection that it came by. */
  readonly remotePort: number;
  /** How often it came: nothing is sent twice. */
  arrivals: number;
}

export interface UpstreamPorts {
  readonly tls: number;
  readonly plain: number;
}

export interface PacedUpstream {
  readonly ports: UpstreamPorts;
  /** Settings that lead a gateway here; `faulty`: ports that stand before these for every host but the bystanders'. */
  readonly env: (caFile: string, faulty?: UpstreamPorts) => Record<string, string>;
  readonly caPem: string;
  /** By tag; the caller removes what it no longer needs. */
  readonly calls: Map<string, SeenCall>;
  /** WebSockets that were accepted, by tag. */
  readonly sockets: Map<string, SeenSocket>;
  /** Called at each moment of any call. */
  onMoment: (moment: Moment) => void;
}

/**
 * A provider, behind TLS and plain, whose answers are paced call by call, so that what hits the gateway in between hits
 * every stage of an answer.
 */
export async function startPacedUpstream(cleanUp: CleanUp): Promise<PacedUpstream> {
  const hosts = [AI_HOST, OTHER_HOST, KNOWN_HOST, BYSTANDER_HOST];
  const { certPem, keyPem, caPem } = certificateOf('good', hosts);
  const calls = new Map<string, SeenCall>();
  const sockets = new Map<string, SeenSocket>();
  const upstream = { calls, sockets, caPem, onMoment: (_moment: Moment): void => undefined };
  const mark = (call: SeenCall, moment: Moment): void => {
    call.moment = moment;
    upstream.onMoment(moment);
  };
  const take = (request: Request, response: Response): void => void serve(request, response, calls, mark);
  const secure = createSecureServer({ cert: certPem, key: keyPem, allowHTTP1: true });
  secure.on('secureConnection', (socket) => destroyWhenBroken(socket, CHECK_MS));
  acceptSockets(secure, sockets);
  const ports = {
    tls: await open(secure, take, cleanUp),
    plain: await open(createPlainServer(), take, cleanUp),
  };
  const env = (caFile: string, faulty: UpstreamPorts = ports) => ({
    GW_UPSTREAM_CONNECT_TO: hosts
      .flatMap((host) => {
        const { tls, plain } = host === BYSTANDER_HOST ? ports : faulty;
        return [`${host}:443=127.0.0.1:${tls}`, `${host}:80=127.0.0.1:${plain}`];
      })
      .join(','),
    GW_UPSTREAM_CA_FILE: caFile,
  });
  return Object.assign(upstream, { ports, env });
}

async function open(
  server: Server | Http2SecureServer,
  take: (request: Request, response: Response) => void,
  cleanUp: CleanUp,
): Promise<number> {
  // Short, so that idle connections are gone soon after the load is.
  Object.assign(server, { keepAliveTimeout: 5_000 });
  server.on('tlsClientError', () => undefined);
  server.on('clientError', (_error, socket) => socket.destroy());
  server.on('request', take);
  const sockets = trackSockets(server);
  const port = await listenOnFreePort(server);
  cleanUp.teardown(() => closeServer(server, sockets));
  return port;
}

/** Of either protocol. */
type Request = IncomingMessage | Http2ServerRequest;
interface Response extends Writable {
  writeHead(status: number, headers: Readonly<Record<string, string>>): this;
}
type Mark = (call: SeenCall, moment: Moment) => void;

async function serve(request: Request, response: Response, calls: Map<string, SeenCall>, mark: Mark): Promise<void> {
  response.on('error', () => undefined);
  const early = readPace(request.headers['x-proof-pace'], undefined);
  // An upload counts from its head on: its client may leave in the middle.
  const begun = early === undefined ? undefined : arrived(early, request, response, calls);
  const body = await bodyOf(request);
  if (body === undefined) return;
  const pace = early ?? readPace(undefined, body);
  if (pace === undefined) {
    response.writeHead(200, { 'Content-Type': 'text/plain' }).end('not an AI call\n');
    return;
  }
  const call = begun ?? arrived(pace, request, response, calls);
  const sent = early === undefined ? undefined : createHash('sha256').update(body).digest('hex');
  answer(response, pace, sent, (moment) => mark(call, moment));
}

function arrived(pace: Pace, request: Request, response: Response, calls: Map<string, SeenCall>): SeenCall {
  const before = calls.get(pace.tag)?.arrivals ?? 0;
  const call: SeenCall = {
    moment: 'received',
    arrivedAt: performance.now(),
    overAt: undefined,
    remotePort: request.socket.remotePort ?? 0,
    arrivals: before + 1,
  };
  calls.set(pace.tag, call);
  response.once('close', () => {
    call.overAt = performance.now();
  });
  return call;
}

/** Undefined when the client left in the middle of it. */
function bodyOf(request: Request): Promise<Buffer | undefined> {
  return new Promise((resolve) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => resolve(Buffer.concat(parts)));
    request.on('error', () => undefined);
    request.on('close', () => resolve(undefined));
  });
}

function answer(response: Response, pace: Pace, sent: string | undefined, mark: (moment: Moment) => void): void {
  mark('received');
  let timer: NodeJS.Timeout | undefined;
  const later = (ms: number, step: () => void): void => {
    timer = setTimeout(step, ms);
  };
  response.on('close', () => clearTimeout(timer));
  later(pace.delay, () => (pace.events === 0 ? answerWhole(response, pace, sent, mark) : answerStream(response, pace, sent, mark, later)));
}

function answerWhole(response: Response, pace: Pace, sent: string | undefined, mark: (moment: Moment) => void): void {
  const body = wholeAnswer(pace, sent);
  response.writeHead(200, { 'Content-Type': 'application/json', ...(pace.chunked ? {} : { 'Content-Length': String(body.length) }) });
  mark('answering');
  response.end(body);
  mark('ended');
}

function answerStream(
  response: Response,
  pace: Pace,
  sent: string | undefined,
  mark: (moment: Moment) => void,
  later: (ms: number, step: () => void) => void,
): void {
  const events = streamEvents(pace, sent);
  let next = 0;
  const step = (): void => {
    response.write(events[next]);
    next += 1;
    if (next < events.length) {
      later(pace.gap, step);
      return;
    }
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
