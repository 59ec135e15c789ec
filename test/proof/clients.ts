import { createHash, randomUUID } from 'node:crypto';
import { type ClientHttp2Session, type ClientHttp2Stream, constants } from 'node:http2';
import type { Socket } from 'node:net';
import type { Writable } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import { connectPlain, connectThrough, h2Session, openTunnel } from '../support/raw-clients.ts';
import { destroyWhenBroken } from './broken-connection.ts';
import { type CallPlan, CallResult, type Door, isOther, type Sending, wireCall } from './calls.ts';
import { sleep } from './checks.ts';
import { H1Answer } from './h1-answer.ts';
import { TUNNEL_TAG } from './store-audit.ts';

const H2_CHECK_MS = 1_000;
/**
 * Half of the time after which the upstream, or the gateway, closes what is idle: who uses a connection in the moment
 * of its end loses a request.
 */
const KEEP_OTHER_MS = 2_500;
const KEEP_MS = 37_500;

export interface Gateway {
  /** Where clients connect, which may be before the gateway. */
  readonly port: number;
  readonly caPem: string;
  /** As the gateway knows its own port; default `port`. */
  readonly ownPort?: number;
  /** Root of what stands behind passed tunnels. */
  readonly upstreamCaPem: string;
  /** A CONNECT to this host has a record of its own. */
  readonly recordsTunnel?: (host: string) => boolean;
}

/**
 * Real connections to a gateway, kept as an application keeps them: each lane has one http/1.1 connection for each
 * door, all lanes together have one h2 session.
 */
export class Clients {
  readonly #gateway: Gateway;
  readonly #sockets = new Map<string, Kept>();
  readonly #all = new Set<Socket>();
  /** By host. */
  readonly #sessions = new Map<string, Promise<Session>>();
  /** Calls that have no end yet. */
  readonly open = new Set<CallResult>();
  /** Of calls over h2 that have no end yet. */
  readonly #streams = new Map<CallResult, ClientHttp2Stream>();
  /** Callers of the tunnels that were opened and have a record of their own. */
  readonly tunnels: string[] = [];

  constructor(gateway: Gateway) {
    this.#gateway = gateway;
  }

  /**
   * Makes one call. Never rejects: how it ended stands in the result. `lane` undefined: on a connection of its own,
   * closed afterwards.
   */
  async perform(plan: CallPlan, lane: number | undefined): Promise<CallResult> {
    const result = new CallResult(plan);
    this.open.add(result);
    try {
      if (plan.door === 'connect-h2' || plan.door === 'other-h2') await this.#overH2(result, lane === undefined);
      else await this.#overH1(result, lane);
    } catch (error) {
      result.failure = error instanceof Error ? error.message : String(error);
    }
    result.finish();
    this.open.delete(result);
    return result;
  }

  /**
   * Where a call over h2 stands that does not come to its end: windows, queues and bytes on this side. Undefined for
   * other calls.
   */
  standOf(result: CallResult): string | undefined {
    const stream = this.#streams.get(result);
    const session = stream?.session;
    if (stream === undefined || session === undefined) return undefined;
    const { bytesRead, bytesWritten, writableLength } = session.socket;
    return `client: ${JSON.stringify({ session: session.state, stream: stream.state, bytesRead, bytesWritten, unwritten: writableLength, unsent: stream.writableLength, flowing: stream.readableFlowing })}`;
  }

  /** Breaks everything that is open. */
  close(): void {
    for (const socket of this.#all) socket.destroy();
    this.#sockets.clear();
    this.#sessions.clear();
  }

  async #overH1(result: CallResult, lane: number | undefined): Promise<void> {
    const { door, host } = result.plan;
    const key = `${lane}/${WAY[door]}/${host}`;
    const kept = lane === undefined ? undefined : this.#keptFor(key, door);
    const socket = kept ?? this.#track(await this.#connect(door, host));
    const forget = (): void => {
      if (this.#sockets.get(key)?.socket === socket) this.#sockets.delete(key);
    };
    if (kept === undefined) socket.once('close', forget);
    result.localPort = socket.localPort ?? 0;
    await exchange(socket, result, this.#gateway);
    if (lane !== undefined && result.complete && result.sent && !result.last && !socket.destroyed) {
      this.#sockets.set(key, { socket, usedAt: performance.now() });
    } else {
      forget();
      socket.destroy();
    }
  }

  /** The kept connection, unless whoever answers on it is about to close it. */
  #keptFor(key: string, door: Door): Socket | undefined {
    const kept = this.#sockets.get(key);
    if (kept === undefined || performance.now() - kept.usedAt < (WAY[door] === 'other-tunnel' ? KEEP_OTHER_MS : KEEP_MS))
      return kept?.socket;
    kept.socket.destroy();
    return undefined;
  }

  #connect(door: Door, host: string): Promise<Socket> {
    const { port, caPem } = this.#gateway;
    switch (WAY[door]) {
      case 'plain':
        return connectPlain(port);
      case 'tunnel':
        return connectThrough(port, `${host}:443`, caPem);
      case 'other-tunnel':
        return this.#throughToOther(host, ['http/1.1']);
      case 'plain-tunnel':
        return openTunnel(port, `${host}:80`);
    }
  }

  async #throughToOther(host: string, alpn: readonly string[]): Promise<TLSSocket> {
    const { port, upstreamCaPem, recordsTunnel } = this.#gateway;
    const authority = `${host}:443`;
    if (!recordsTunnel?.(host)) return connectThrough(port, authority, upstreamCaPem, { alpn });
    const caller = `${TUNNEL_TAG}${randomUUID()}`;
    const tunnel = await connectThrough(port, authority, upstreamCaPem, { alpn, headers: { 'X-GW-Caller-ID': caller } });
    this.tunnels.push(caller);
    return tunnel;
  }

  async #overH2(result: CallResult, alone: boolean): Promise<void> {
    const { session, localPort } = await (alone ? this.#openSession(result.plan) : this.#sharedSession(result.plan));
    result.localPort = localPort;
    const { path, headers, body } = wireCall(result.plan, 0);
    result.bodySent = sha256(body);
    await new Promise<void>((resolve) => {
      const stream = session.request({ ':method': 'POST', ':path': path, ...headers });
      this.#streams.set(result, stream);
      const timer = leaveLater(result, () => stream.close(constants.NGHTTP2_CANCEL));
      stream.on('response', (head) => result.head(head[':status'] ?? 0, head));
      stream.on('data', (piece: Buffer) => result.body(piece));
      // A session that breaks ends its streams without an error, and then `end` does not come.
      stream.on('end', () => {
        result.complete = stream.rstCode === 0 && !stream.aborted && result.status !== 0;
        // Of an upload that was answered and stopped at once node:http2 keeps what it cannot send any more, and the
        // stream with it.
        if (stream.closed) stream.destroy();
      });
      stream.on('error', (error) => {
        result.failure = error.message;
      });
      stream.on('close', () => {
        clearTimeout(timer);
        this.#streams.delete(result);
        if (stream.rstCode !== 0) result.complete = false;
        if (!result.complete) result.failure ??= `stream closed with code ${stream.rstCode}`;
        resolve();
      });
      void give(stream, body, result.plan.sending, (piece) => piece).then((sent) => {
        result.sent = sent;
        if (sent) stream.end();
      });
    });
    if (alone) session.destroy();
  }

  #sharedSession(plan: CallPlan): Promise<Session> {
    const shared = this.#sessions.get(plan.host);
    if (shared) return shared;
    const opening = this.#openSession(plan);
    const forget = () => {
      if (this.#sessions.get(plan.host) === opening) this.#sessions.delete(plan.host);
    };
    opening.then(({ session }) => session.once('close', forget), forget);
    this.#sessions.set(plan.host, opening);
    return opening;
  }

  async #openSession({ door, host }: CallPlan): Promise<Session> {
    const { port, caPem } = this.#gateway;
    const alpn = ['h2'];
    const tunnel = isOther(door) ? this.#throughToOther(host, alpn) : connectThrough(port, `${host}:443`, caPem, { alpn });
    const socket = this.#track(await tunnel);
    const session = h2Session(socket, host);
    destroyWhenBroken(socket, H2_CHECK_MS);
    return { session, localPort: socket.localPort ?? 0 };
  }

  #track<T extends Socket>(socket: T): T {
    this.#all.add(socket);
    socket.on('error', () => undefined);
    socket.once('close', () => this.#all.delete(socket));
    return socket;
  }
}

interface Kept {
  readonly socket: Socket;
  readonly usedAt: number;
}

interface Session {
  readonly session: ClientHttp2Session;
  readonly localPort: number;
}

/** Doors that can share a connection have the same way. */
const WAY: Readonly<Record<Door, 'plain' | 'tunnel' | 'plain-tunnel' | 'other-tunnel'>> = {
  direct: 'plain',
  redirect: 'plain',
  absolute: 'plain',
  'other-absolute': 'plain',
  'connect-h1': 'tunnel',
  'connect-h2': 'tunnel',
  'plain-tunnel': 'plain-tunnel',
  'other-tunnel': 'other-tunnel',
  'other-h2': 'other-tunnel',
};

/** Sends the call and reads its answer as far as it comes. */
function exchange(socket: Socket, result: CallResult, { port, ownPort = port }: Gateway): Promise<void> {
  const { path, origin, host, headers, body } = wireCall(result.plan, ownPort);
  const { sending } = result.plan;
  result.bodySent = sha256(body);
  let head = `POST ${origin}${path} HTTP/1.1\r\nHost: ${host}\r\n`;
  head += sending.chunked ? 'Transfer-Encoding: chunked\r\n' : `Content-Length: ${body.length}\r\n`;
  for (const [name, value] of Object.entries(headers)) head += `${name}: ${value}\r\n`;
  const answer = new H1Answer((piece) => result.body(piece));
  return new Promise((resolve) => {
    const timer = leaveLater(result, () => socket.destroy());
    const over = (failure?: string): void => {
      clearTimeout(timer);
      socket.off('data', onData);
      socket.off('close', onClose);
      if (failure !== undefined) result.failure = failure;
      result.complete = answer.complete;
      resolve();
    };
    const onClose = (): void => over('the connection was closed');
    const onData = (bytes: Buffer): void => {
      try {
        answer.push(bytes);
        if (result.status === 0 && answer.status !== 0) result.head(answer.status, answer.headers);
      } catch (error) {
        socket.destroy();
        over(String(error));
        return;
      }
      if (answer.complete) over();
    };
    socket.on('data', onData);
    socket.on('close', onClose);
    if (socket.destroyed) onClose();
    else void send(socket, Buffer.from(`${head}\r\n`, 'latin1'), body, result);
  });
}

async function send(socket: Socket, head: Buffer, body: Buffer, result: CallResult): Promise<void> {
  const { sending } = result.plan;
  const framed = sending.chunked
    ? (piece: Buffer) => Buffer.concat([Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n')])
    : (piece: Buffer) => piece;
  const end = Buffer.from(sending.chunked ? '0\r\n\r\n' : '');
  if (sending.pieces === 1) {
    socket.write(Buffer.concat([head, framed(body), end]));
    result.sent = true;
    return;
  }
  socket.write(head);
  result.sent = await give(socket, body, sending, framed);
  if (result.sent && end.length > 0) socket.write(end);
}

/** Writes a body piece by piece, as fast as it is taken. False when nobody takes it any more. */
async function give(to: Writable, body: Buffer, { pieces, gap }: Sending, framed: (piece: Buffer) => Buffer): Promise<boolean> {
  const length = Math.ceil(body.length / pieces);
  for (let at = 0; at < body.length; at += length) {
    if (to.destroyed || !to.writable) return false;
    const wait = !to.write(framed(body.subarray(at, at + length)));
    if (wait) await drained(to);
    if (gap > 0 && at + length < body.length) await sleep(gap);
  }
  return to.writable;
}

/** Resolves when `to` takes more, or will never again. */
export function drained(to: Writable): Promise<void> {
  return new Promise((resolve) => {
    const over = (): void => {
      to.off('drain', over).off('close', over);
      resolve();
    };
    to.on('drain', over).on('close', over);
    if (to.destroyed) over();
  });
}

function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}

function leaveLater(result: CallResult, leave: () => void): NodeJS.Timeout | undefined {
  const { abortAfter } = result.plan;
  if (abortAfter === undefined) return undefined;
  return setTimeout(() => {
    result.aborted = true;
    leave();
  }, abortAfter);
}
