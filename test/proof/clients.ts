import { type ClientHttp2Session, constants } from 'node:http2';
import type { Socket } from 'node:net';
import { connectPlain, connectThrough, h2Session } from '../support/raw-clients.ts';
import { type CallPlan, CallResult, wireCall } from './calls.ts';
import { H1Answer } from './h1-answer.ts';
import { AI_HOST } from './paced-upstream.ts';

/**
 * Real connections to a gateway, kept as an application keeps them: each lane has one plain and one intercepted http/1.1 connection, all lanes together
 * have one h2 session.
 */
export class Clients {
  readonly #port: number;
  readonly #caPem: string;
  readonly #sockets = new Map<string, Socket>();
  readonly #all = new Set<Socket>();
  #session: Promise<ClientHttp2Session> | undefined;
  /** Calls that have no end yet. */
  readonly open = new Set<CallResult>();

  constructor(port: number, caPem: string) {
    this.#port = port;
    this.#caPem = caPem;
  }

  /** Makes one call. Never rejects: how it ended stands in the result. `lane` undefined: on a connection of its own, closed afterwards. */
  async perform(plan: CallPlan, lane: number | undefined): Promise<CallResult> {
    const result = new CallResult(plan);
    this.open.add(result);
    try {
      if (plan.door === 'connect-h2') await this.#overH2(result, lane === undefined);
      else await this.#overH1(result, lane);
    } catch (error) {
      result.failure = error instanceof Error ? error.message : String(error);
    }
    this.open.delete(result);
    return result;
  }

  /** Breaks everything that is open. */
  close(): void {
    for (const socket of this.#all) socket.destroy();
    this.#sockets.clear();
    this.#session = undefined;
  }

  async #overH1(result: CallResult, lane: number | undefined): Promise<void> {
    const tunnelled = result.plan.door === 'connect-h1';
    const key = `${lane}/${tunnelled ? 'tunnel' : 'plain'}`;
    const kept = lane === undefined ? undefined : this.#sockets.get(key);
    const socket =
      kept ?? this.#track(tunnelled ? await connectThrough(this.#port, `${AI_HOST}:443`, this.#caPem) : await connectPlain(this.#port));
    if (kept === undefined && lane !== undefined) {
      this.#sockets.set(key, socket);
      socket.once('close', () => this.#sockets.delete(key));
    }
    await exchange(socket, result, this.#port);
    if (lane === undefined || !result.complete) {
      this.#sockets.delete(key);
      socket.destroy();
    }
  }

  async #overH2(result: CallResult, alone: boolean): Promise<void> {
    const session = await (alone ? this.#openSession() : this.#sharedSession());
    const { path, headers, body } = wireCall(result.plan, this.#port);
    await new Promise<void>((resolve) => {
      const stream = session.request({ ':method': 'POST', ':path': path, ...headers });
      const timer = leaveLater(result, () => stream.close(constants.NGHTTP2_CANCEL));
      stream.on('response', (head) => result.head(head[':status'] ?? 0, head));
      stream.on('data', (piece: Buffer) => result.body(piece));
      // A session that breaks ends its streams without an error, and then `end` does not come.
      stream.on('end', () => {
        result.complete = stream.rstCode === 0 && !stream.aborted && result.status !== 0;
      });
      stream.on('error', (error) => {
        result.failure = error.message;
      });
      stream.on('close', () => {
        clearTimeout(timer);
        if (stream.rstCode !== 0) result.complete = false;
        if (!result.complete) result.failure ??= `stream closed with code ${stream.rstCode}`;
        resolve();
      });
      stream.end(body);
    });
    if (alone) session.destroy();
  }

  #sharedSession(): Promise<ClientHttp2Session> {
    if (this.#session) return this.#session;
    const opening = this.#openSession();
    const forget = () => {
      if (this.#session === opening) this.#session = undefined;
    };
    opening.then((session) => session.once('close', forget), forget);
    this.#session = opening;
    return opening;
  }

  async #openSession(): Promise<ClientHttp2Session> {
    const socket = this.#track(await connectThrough(this.#port, `${AI_HOST}:443`, this.#caPem, { alpn: ['h2'] }));
    return h2Session(socket, AI_HOST);
  }

  #track<T extends Socket>(socket: T): T {
    this.#all.add(socket);
    socket.on('error', () => undefined);
    socket.once('close', () => this.#all.delete(socket));
    return socket;
  }
}

/** Sends the call and reads its answer as far as it comes. */
function exchange(socket: Socket, result: CallResult, port: number): Promise<void> {
  const { path, host, headers, body } = wireCall(result.plan, port);
  let head = `POST ${path} HTTP/1.1\r\nHost: ${host}\r\nContent-Length: ${body.length}\r\n`;
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
    else socket.write(Buffer.concat([Buffer.from(`${head}\r\n`, 'latin1'), body]));
  });
}

function leaveLater(result: CallResult, leave: () => void): NodeJS.Timeout | undefined {
  const { abortAfter } = result.plan;
  if (abortAfter === undefined) return undefined;
  return setTimeout(() => {
    result.aborted = true;
    leave();
  }, abortAfter);
}
