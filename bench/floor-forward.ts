import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Dispatcher, Pool } from 'undici';

const HOP = new Set(['host', 'connection', 'content-length', 'transfer-encoding', 'keep-alive', 'proxy-connection', 'accept-encoding']);

/**
 * Reads the request, sends it on and passes the answer back with back-pressure: what every proxy has to do, and nothing
 * more.
 */
export function forward(pool: Pool, request: IncomingMessage, response: ServerResponse, path: string): void {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    const headers: string[] = ['accept-encoding', 'identity'];
    for (let at = 0; at < request.rawHeaders.length; at += 2) {
      const name = request.rawHeaders[at] ?? '';
      if (!HOP.has(name.toLowerCase())) headers.push(name, request.rawHeaders[at + 1] ?? '');
    }
    const body = chunks.length === 1 ? chunks[0] : Buffer.concat(chunks);
    const method = request.method ?? 'GET';
    pool.dispatch({ path, method, headers, body: body?.length ? body : null }, new Answer(response));
  });
}

class Answer implements Dispatcher.DispatchHandler {
  readonly #response: ServerResponse;
  #held: Buffer[] | undefined;

  constructor(response: ServerResponse) {
    this.#response = response;
  }

  onConnect(): void {}

  onHeaders(status: number, raw: Buffer[], resume: () => void): boolean {
    const headers: string[] = [];
    let stream = false;
    for (let at = 0; at < raw.length; at += 2) {
      const name = raw[at]?.toString('latin1') ?? '';
      const value = raw[at + 1]?.toString('latin1') ?? '';
      const lower = name.toLowerCase();
      if (lower === 'content-type' && value.startsWith('text/event-stream')) stream = true;
      if (!HOP.has(lower)) headers.push(name, value);
    }
    if (!stream) this.#held = [];
    this.#response.on('drain', resume);
    this.#response.writeHead(status, headers);
    return true;
  }

  onData(chunk: Buffer): boolean {
    if (!this.#held) return this.#response.write(chunk);
    this.#held.push(chunk);
    return true;
  }

  onComplete(): void {
    if (this.#held) this.#response.end(this.#held.length === 1 ? this.#held[0] : Buffer.concat(this.#held));
    else this.#response.end();
  }

  onError(): void {
    this.#response.destroy();
  }
}
