import { Worker } from 'node:worker_threads';
import type { Clock } from './clock.ts';
import { messageOf } from './gateway-error.ts';

/** Megabytes; V8 takes three times as many, which makes a thread that lives for a second no faster. */
const YOUNG_MB = 16;

export interface InThread {
  readonly clock: Clock;
  /** What runs in the thread. */
  readonly worker: URL;
  /** Megabytes of its heap. */
  readonly maxMemoryMb: number;
  /** For each answer, milliseconds. */
  readonly limitMs: number;
  /** Handed over to the thread. */
  readonly message: unknown;
  /** Takes what comes. @returns whether that was the last of it */
  readonly onAnswer: (answer: unknown) => boolean;
}

/**
 * Has something done in a thread, which is begun for it and ends behind its last answer, so that others are served
 * meanwhile. Never rejects.
 * @returns why it ended before the last answer; undefined when it did not
 */
export async function inThread({ clock, worker, maxMemoryMb, limitMs, message, onAnswer }: InThread): Promise<string | undefined> {
  let cancel = (): void => undefined;
  let thread: Worker | undefined;
  let over = false;
  try {
    return await new Promise<string | undefined>((resolve) => {
      const wait = (): void => {
        cancel();
        cancel = clock.after(limitMs, () => resolve(`reading it took more than ${limitMs / 1000} seconds`));
      };
      // Nothing of the process is needed there, least of all its environment.
      thread = new Worker(worker, { env: {}, resourceLimits: { maxOldGenerationSizeMb: maxMemoryMb, maxYoungGenerationSizeMb: YOUNG_MB } });
      thread.on('message', (answer: unknown) => {
        if (over) return;
        if (onAnswer(answer)) resolve(undefined);
        else wait();
      });
      // What it had sent may arrive behind the word that it fails, and never behind its end.
      let failure: string | undefined;
      thread.on('error', (error) => {
        failure = messageOf(error);
      });
      thread.on('exit', (code) => resolve(failure ?? `the thread that read it ended (${code})`));
      thread.postMessage(message);
      wait();
    });
  } catch (error) {
    return messageOf(error);
  } finally {
    over = true;
    cancel();
    void thread?.terminate();
  }
}
