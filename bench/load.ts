/*
 * The benchmark's load generator, alone in its process: N connections, each sending one request after the other and reading the whole answer. It parses
 * as little as it can, so that it is never what is measured. Arguments: one JSON object; answer: one JSON line.
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
    tcp.once('data', (chunk: Buffer) => (chunk.toString('latin1').startsWith('HTTP/1.1 200') ? resolve() : reject(new Error(chunk.toString()))));
  });
  return once(connectTls({ socket: tcp, servername: 'api.openai.com', ca, ALPNProtocols: ['http/1.1'] }), 'secureConnect');
}

function once<T extends Socket>(socket: T, event: string): Promise<T> {
  return new Promise((resolve, reject) => {
    socket.once(event, () => resolve(socket));
    socket.once('error', reject);
  });
}

/** One request; resolves when the last byte of its answer is here, with the time of the first body byte. */
function call(socket: Socket): Promise<void> {
  return new Promise((resolve, reject) => {
    let head = '';
    let expected = -1;
    let got = 0;
    let last = Buffer.alloc(0);
    const done = () => {
      socket.off('data', onData);
      socket.off('close', onClose);
      resolve();
    };
    const onClose = () => reject(new Error('the connection was closed'));
    const onData = (chunk: Buffer) => {
      let body = chunk;
      if (expected < 0) {
        head += chunk.toString('latin1');
        const end = head.indexOf('\r\n\r\n');
        if (end < 0) return;
        if (!head.startsWith('HTTP/1.1 200')) {
          reject(new Error(head.slice(0, 400)));
          return;
        }
        expected = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? Number.POSITIVE_INFINITY);
        body = Buffer.from(head.slice(end + 2), 'latin1');
        got = -2;
      }
      got += body.length;
      if (got >= expected) done();
      else if (expected === Number.POSITIVE_INFINITY) {
        last = Buffer.concat([last.subarray(Math.max(0, last.length - 8)), body.subarray(Math.max(0, body.length - 8))]);
        if (last.subarray(-CHUNKED_END.length).equals(CHUNKED_END)) done();
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
