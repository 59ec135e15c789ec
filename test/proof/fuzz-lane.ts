import { Worker } from 'node:worker_threads';
import { MAX_INPUT } from '../fuzz/mutator.ts';
import type { CleanUp } from './checks.ts';
import type { FuzzJob, FuzzResult } from './fuzz-worker.ts';

/** Without any progress for this long, one input holds its parser for good. */
const HUNG_MS = 20_000;
/**
 * Of the garbage-collected heap of one worker: a parser that keeps what it has read fills it within a few thousand
 * inputs.
 */
const HEAP_MB = 256;

/** A worker and its jobs, one after the other. */
export class Lane {
  readonly #current = new SharedArrayBuffer(8 + MAX_INPUT);
  readonly #cleanUp: CleanUp;
  #worker: Worker | undefined;

  constructor(cleanUp: CleanUp) {
    this.#cleanUp = cleanUp;
  }

  /** Runs a job to its end. A worker that hangs or dies is a finding, with the input that it was at. */
  run(job: Omit<FuzzJob, 'current'>): Promise<FuzzResult> {
    const worker = this.#worker ?? this.#start();
    const words = new Int32Array(this.#current, 0, 2);
    words.fill(0);
    worker.postMessage({ ...job, current: this.#current });
    return new Promise((resolve) => {
      let seen = -1;
      const timer = setInterval(() => {
        const now = Atomics.load(words, 0);
        if (now === seen) died('it hangs');
        seen = now;
      }, HUNG_MS);
      const done = (result: FuzzResult): void => {
        clearInterval(timer);
        worker.off('message', done).off('error', failed).off('exit', ended);
        resolve(result);
      };
      const died = (what: string): void => {
        const input = Uint8Array.from(new Uint8Array(this.#current, 8, words[1] ?? 0));
        const inputs = Atomics.load(words, 0);
        this.#worker = undefined;
        done({ job, inputs, findings: [{ what: `input ${inputs}: ${what}`, input }], slowestMs: 0, labels: 2, ms: 0 });
        void worker.terminate();
      };
      const failed = (error: unknown): void => died(error instanceof Error ? (error.stack ?? error.message) : String(error));
      const ended = (): void => died('the worker ended');
      worker.on('message', done).on('error', failed).on('exit', ended);
    });
  }

  async end(): Promise<void> {
    await this.#worker?.terminate();
  }

  #start(): Worker {
    const worker = new Worker(new URL('./fuzz-worker.js', import.meta.url), { resourceLimits: { maxOldGenerationSizeMb: HEAP_MB } });
    this.#cleanUp.teardown(() => worker.terminate());
    this.#worker = worker;
    return worker;
  }
}
