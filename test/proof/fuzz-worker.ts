import { parentPort } from 'node:worker_threads';
import { corpusOf } from '../fuzz/corpus.ts';
import { Mutator } from '../fuzz/mutator.ts';
import type { FuzzTarget } from '../fuzz/target.ts';
import { FUZZ_TARGETS } from '../fuzz/targets.ts';

/** What a worker is to do. */
export interface FuzzJob {
  readonly target: string;
  readonly inputs: number;
  /** Ends the job before all inputs were made. */
  readonly limitMs: number;
  readonly seed: string;
  /**
   * Two 32-bit words, the number of the input being run and its length, then the input: what is left when the worker
   * hangs or dies.
   */
  readonly current: SharedArrayBuffer;
}

/** One input that broke a rule. */
export interface Finding {
  readonly what: string;
  readonly input: Uint8Array;
}

export interface FuzzResult {
  readonly job: Omit<FuzzJob, 'current'>;
  /** How many were made. */
  readonly inputs: number;
  readonly ms: number;
  readonly findings: readonly Finding[];
  readonly slowestMs: number;
  readonly labels: number;
}

/** Of {@link FuzzTarget.stallMs}. An input is tried again, since a busy machine makes any input slow now and then. */
const STALL_MS = 250;
const TRIES = 10;
const MAX_FINDINGS = 5;

parentPort?.on('message', (job: FuzzJob) => {
  const target = FUZZ_TARGETS.find(({ name }) => name === job.target);
  if (target === undefined) throw new Error(`no target ${job.target}`);
  void attack(target, job).then((result) => parentPort?.postMessage(result));
});

async function attack(target: FuzzTarget, job: FuzzJob): Promise<FuzzResult> {
  const mutator = new Mutator({ ...target, corpus: corpusOf(target.name).map(({ bytes }) => bytes), seed: job.seed });
  const words = new Int32Array(job.current, 0, 2);
  const bytes = new Uint8Array(job.current, 8);
  const labels = new Set<string>();
  const findings = new Map<string, Finding>();
  const begun = performance.now();
  const stallMs = target.stallMs ?? STALL_MS;
  let slowestMs = 0;
  let inputs = 0;
  while (inputs < job.inputs && findings.size < MAX_FINDINGS && performance.now() - begun < job.limitMs) {
    inputs++;
    const input = mutator.next();
    bytes.set(input);
    words[1] = input.length;
    Atomics.store(words, 0, inputs);
    try {
      const started = performance.now();
      const result = target.run(input);
      const label = typeof result === 'string' ? result : await result;
      const ms = performance.now() - started;
      if (ms > slowestMs) slowestMs = ms > stallMs ? Math.max(slowestMs, await confirmed(target, input, ms, stallMs)) : ms;
      if (slowestMs > stallMs) {
        findings.set('stall', { what: `took ${slowestMs.toFixed(0)} ms`, input: Uint8Array.from(input) });
        slowestMs = 0;
      }
      if (!labels.has(label)) {
        labels.add(label);
        mutator.keep(input);
      }
    } catch (error) {
      const what = error instanceof Error ? (error.stack ?? error.message) : String(error);
      const key = what.replace(/\d+/g, '#').split('\n', 3).join();
      if (!findings.has(key)) findings.set(key, { what, input: Uint8Array.from(input) });
    }
  }
  const { current: _current, ...asked } = job;
  return { job: asked, inputs, ms: performance.now() - begun, findings: [...findings.values()], slowestMs, labels: labels.size };
}

/**
 * The fastest of several runs, or the first that is no stall. CPU time counts where it is less: it is that of the whole
 * process, so at least that of this thread, and does not grow when others are busy.
 */
async function confirmed(target: FuzzTarget, input: Buffer, first: number, stallMs: number): Promise<number> {
  let fastest = first;
  for (let i = 1; i < TRIES && fastest > stallMs; i++) {
    const cpu = process.cpuUsage();
    const started = performance.now();
    await target.run(input);
    const { user, system } = process.cpuUsage(cpu);
    fastest = Math.min(fastest, performance.now() - started, (user + system) / 1_000);
  }
  return fastest;
}
