/*
 * Asks /healthz every 5 ms from a process of its own, so that a stall of the gateway is told from one of whoever makes
 * the load. Argument: the port. Each message from the parent ends a phase and is answered with what the phase saw.
 */
import { connectPlain } from '../support/raw-clients.ts';
import { H1Answer } from './h1-answer.ts';

/** Milliseconds. */
export interface Phase {
  readonly answers: number;
  readonly median: number;
  readonly p99: number;
  readonly longest: number;
}

const EVERY_MS = 5;

const port = Number(process.argv[2]);
const socket = await connectPlain(port);
let times: number[] = [];

function ask(): Promise<void> {
  const started = performance.now();
  return new Promise((resolve, reject) => {
    const answer = new H1Answer(() => undefined);
    const onData = (bytes: Buffer): void => {
      answer.push(bytes);
      if (!answer.complete) return;
      socket.off('data', onData);
      socket.off('close', reject);
      times.push(performance.now() - started);
      resolve();
    };
    socket.on('data', onData);
    socket.on('close', reject);
    socket.write(`GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`);
  });
}

process.on('message', () => {
  const sorted = times.sort((a, b) => a - b);
  times = [];
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
  const phase: Phase = { answers: sorted.length, median: at(0.5), p99: at(0.99), longest: at(1) };
  process.send?.(phase);
});
process.on('disconnect', () => process.exit(0));

for (;;) {
  const due = performance.now() + EVERY_MS;
  await ask();
  const wait = due - performance.now();
  if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
}
