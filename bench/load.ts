/*
 * The benchmark's load generator, alone in its process: N connections, each sending one request after the other and
 * reading the whole answer. It parses as little as it can, so that it is never what is measured. Arguments: one JSON
 * object; answer: one JSON line.
 */
import { readFileSync } from 'node:fs';
import { connect as connectTcp, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';

interface Job {
  readonly via: 'tls' | 'plain' | 'connect';
  readonly port: number;
  readonly caFile?: string;
  readonly path: string;
  readonly host: string;
  readonly body: string;
  readonly concurrency: number;
  readonly seconds: number;
}

const job = JSON.parse(process.argv[2] ?? '{}') as Job;
const ca = job.caFile === undefined ? undefined : readFileSync(job.caFile);
const request = Buffer.from(
  `POST ${job.path} HTTP/1.1\r\nHost: ${job.host}\r\nAuthorization: Bearer sk-bench\r\nContent-Type: application/json\r\n` +
    `Content-Length: ${Buffer.byteLength(job.body)}\r\n\r\n${job.body}`,
);
const CHUNKED_END = Buffer.from('\r\n0\r\n\r\n');

async function open(): Promise<Socket> {
  if (job.via === 'tls') return once(connectTls({ port: job.port, host: '127.0.0.1', servername: 'api.openai.com', ca }), 'secureConnect');
  const tcp = await once(connectTcp(job.port, '127.0.0.1'), 'connect');
  tcp.setNoDelay(true);
  if (job.via === 'plain') return tcp;
  tcp.write('CONNECT api.openai.com:443 HTTP/1.1\r\nHost: api.openai.com:443\r\n\r\n');
  await new Promise<void>((resolve, reject) => {
    tcp.once('data', (chunk: Buffer) =>
      chunk.toString('latin1').startsWith('HTTP/1.1 200') ? resolve() : reject(new Error(chunk.toString())),
    );
  });
  return once(connectTls({ socket: tcp, servername: 'api.openai.com', ca, ALPNProtocols: ['http/1.1'] }), 'secureConnect');
}

function once<T extends Socket>(socket: T, event: string): Promise<T> {
  return new Promise((resolve, reject) => {
    socket.once(event, () => resolve(socket));
    socket.once('error', reject);
  });
}

/** Reads one answer, however it is cut: by Content-Length, or chunked to its last chunk. */
class AnswerReader {
  #head = '';
  #left = Number.NaN;
  #tail: Buffer = Buffer.alloc(0);

  /** True when the answer is complete. @throws Error when it is not a 200 */
  push(chunk: Buffer): boolean {
    if (!Number.isNaN(this.#left)) return this.#body(chunk);
    this.#head += chunk.toString('latin1');
    const end = this.#head.indexOf('\r\n\r\n');
    if (end < 0) return false;
    if (!this.#head.startsWith('HTTP/1.1 200')) throw new Error(this.#head.slice(0, 400));
    const length = /content-length: (\d+)/i.exec(this.#head)?.[1];
    // The line end before the body belongs to the pattern that ends a chunked body.
    this.#left = length === undefined ? Number.POSITIVE_INFINITY : Number(length) + 2;
    return this.#body(Buffer.from(this.#head.slice(end + 2), 'latin1'));
  }

  #body(chunk: Buffer): boolean {
    if (Number.isFinite(this.#left)) {
      this.#left -= chunk.length;
      return this.#left <= 0;
    }
    this.#tail = chunk.length >= CHUNKED_END.length ? chunk : Buffer.concat([this.#tail, chunk]);
    this.#tail = this.#tail.subarray(-CHUNKED_END.length);
    return this.#tail.equals(CHUNKED_END);
  }
}

/** One request; resolves when the last byte of its answer is here. */
function call(socket: Socket): Promise<void> {
  return new Promise((resolve, reject) => {
    const reader = new AnswerReader();
    const stop = () => {
      socket.off('data', onData);
      socket.off('close', onClose);
    };
    const onClose = () => reject(new Error('the connection was closed'));
    const onData = (chunk: Buffer) => {
      try {
        if (!reader.push(chunk)) return;
        stop();
        resolve();
      } catch (error) {
        reject(error instanceof Error ? error : new Error(String(error)));
      }
    };
    socket.on('data', onData);
    socket.once('close', onClose);
    socket.write(request);
  });
}

async function worker(until: number, times: number[]): Promise<void> {
  const socket = await open();
  while (performance.now() < until) {
    const start = performance.now();
    await call(socket);
    times.push(performance.now() - start);
  }
  socket.destroy();
}

const times: number[] = [];
const started = performance.now();
const until = started + job.seconds * 1000;
await Promise.all(Array.from({ length: job.concurrency }, () => worker(until, times)));
const elapsed = (performance.now() - started) / 1000;
times.sort((a, b) => a - b);
const at = (share: number) => times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? 0;
process.stdout.write(`${JSON.stringify({ requests: times.length, perSecond: times.length / elapsed, p50: at(0.5), p99: at(0.99) })}\n`);
process.exit(0);
