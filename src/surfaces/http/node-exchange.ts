import type { IncomingMessage, ServerResponse } from 'node:http';
import { ByteCollector } from '../../base/lib/byte-collector.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Arrival, ArrivalHead, BodySource, ReplySink } from '../../base/model/arrival.ts';

/** What counts the bytes that are held of a body. */
export interface BodyHold {
  /** More has come. @param stop ends the reading @throws GatewayError `overloaded` */
  arrive(bytes: number, stop: (reason: GatewayError) => void): void;
  /** Nothing more is to come. */
  settle(): void;
}

/** One exchange of `node:http` as routes see it. @param startedAt monotonic milliseconds @param hold of its body */
export function arrivalOf(request: IncomingMessage, response: ServerResponse, startedAt: number, hold: BodyHold): Arrival {
  return { head: headOf(request, startedAt), body: new NodeBody(request, response, hold), reply: new NodeReply(response) };
}

function headOf(request: IncomingMessage, startedAt: number): ArrivalHead {
  const headers = Object.fromEntries(
    Object.entries(request.headers).map(([name, value]) => [name, Array.isArray(value) ? value.join(', ') : value]),
  );
  return {
    door: 'origin',
    trafficClass: 'developer',
    method: request.method ?? 'GET',
    rawTarget: request.url ?? '/',
    rawHeaders: request.rawHeaders,
    headers,
    httpVersion: request.httpVersion === '1.0' ? '1.0' : '1.1',
    secure: false,
    remoteAddress: request.socket.remoteAddress ?? '',
    startedAt,
  };
}

class NodeBody implements BodySource {
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #hold: BodyHold;
  readonly declaredLength: number | undefined;

  constructor(request: IncomingMessage, response: ServerResponse, hold: BodyHold) {
    this.#request = request;
    this.#response = response;
    this.#hold = hold;
    const { 'content-length': length, 'transfer-encoding': coding } = request.headers;
    this.declaredLength = length === undefined ? (coding === undefined ? 0 : undefined) : Number(length);
  }

  get trailers(): readonly string[] {
    return this.#request.rawTrailers;
  }

  async readAll(limit: number): Promise<Uint8Array> {
    try {
      if ((this.declaredLength ?? 0) > limit) throw new GatewayError('body_too_large', `The body is larger than ${limit} bytes.`);
      return await readBody(this.#request, limit, this.#hold);
    } catch (error) {
      // The rest of a body that is not taken is not read: the answer closes its connection.
      this.#response.shouldKeepAlive = false;
      throw error;
    }
  }

  async *stream(): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      for await (const chunk of this.#request.iterator({ destroyOnReturn: false })) if (chunk instanceof Uint8Array) yield chunk;
    } catch (error) {
      // biome-ignore lint/style/useErrorCause: the cause is in the third argument
      throw new GatewayError('client_gone', 'The client left before its request was complete.', { cause: error });
    }
  }
}

class NodeReply implements ReplySink {
  readonly #response: ServerResponse;

  constructor(response: ServerResponse) {
    this.#response = response;
    response.on('error', () => undefined);
  }

  get headSent(): boolean {
    return this.#response.headersSent;
  }

  get gone(): boolean {
    return this.#response.destroyed || this.#response.closed;
  }

  info(): void {
    // No route here has anything to say ahead of its answer.
  }

  head(status: number, rawHeaders: readonly string[], length?: number): void {
    if (this.gone) return;
    this.#response.writeHead(status, [...rawHeaders, ...(length === undefined ? [] : ['Content-Length', String(length)])]);
  }

  write(chunk: Uint8Array): boolean {
    return this.gone || this.#response.write(chunk);
  }

  onDrain(listener: () => void): void {
    this.#response.on('drain', listener);
  }

  end(): void {
    if (!this.gone) this.#response.end();
  }

  sendWhole(status: number, rawHeaders: readonly string[], body: Uint8Array): void {
    if (this.gone) return;
    this.head(status, rawHeaders, body.length);
    this.#response.end(body);
  }

  reset(): void {
    this.#response.destroy();
  }

  onGone(listener: () => void): void {
    this.#response.once('close', () => {
      if (!this.#response.writableFinished) listener();
    });
  }
}

/**
 * Reads a body of `node:http`, held as the bytes that it has however it was cut. What is left of one that is not taken
 * is not read.
 * @param limit bytes
 * @throws GatewayError `body_too_large`, `client_gone`, and what `hold` throws
 */
export function readBody(request: IncomingMessage, limit: number, hold: BodyHold): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const collector = new ByteCollector();
    const leave = (): void => {
      request.off('data', onData).off('end', onEnd).off('close', onGone).off('error', onGone);
      request.on('error', () => undefined);
    };
    const stop = (reason: unknown): void => {
      leave();
      request.pause();
      reject(reason instanceof Error ? reason : new Error(String(reason)));
    };
    const onData = (chunk: Uint8Array): void => {
      collector.push(chunk);
      try {
        if (collector.size > limit) throw new GatewayError('body_too_large', `The body is larger than ${limit} bytes.`);
        hold.arrive(chunk.length, stop);
      } catch (error) {
        stop(error);
      }
    };
    const onEnd = (): void => {
      leave();
      hold.settle();
      if (request.complete) resolve(collector.take());
      else reject(gone());
    };
    const onGone = (cause?: unknown): void => {
      leave();
      reject(gone(cause));
    };
    if (request.destroyed) onGone();
    else request.on('data', onData).on('end', onEnd).on('close', onGone).on('error', onGone);
  });
}

function gone(cause?: unknown): GatewayError {
  return new GatewayError('client_gone', 'The client left before its request was complete.', { cause });
}
