import type { Clock } from './clock.ts';
import type { Logger } from './log.ts';
import type { Maybe } from './maybe.ts';

/** The longest time that a timer of Node can wait, milliseconds: one that is to wait longer fires at once. */
const LONGEST_MS = 2 ** 31 - 1;

export interface Job {
  /**
   * Milliseconds from the end of a run to the beginning of the next one. A function is asked after each run; where it
   * says undefined nothing runs until `within`, `rearm` or `now` is called.
   */
  readonly everyMs: number | (() => number | undefined);
  /** Milliseconds to the first run; absent: as between two runs. */
  readonly firstMs?: number;
  readonly run: () => Maybe<unknown>;
  /** What the log says when a run throws; the job goes on. */
  readonly failed: string;
  /** As what the log says it; `warn` when absent. */
  readonly failedLevel?: 'warn' | 'error';
}

/** A job that was begun by {@link every}. It keeps no process alive. */
export interface RunningJob {
  /** Runs now, or once more after the run that is under way. Resolves when that run is over, and never rejects. */
  now(): Promise<void>;
  /** Runs in `ms` milliseconds, unless it runs sooner anyway. */
  within(ms: number): void;
  /** Asks again when the next run is due, counted from now. */
  rearm(): void;
  /** Ends the job; resolves when the run that is under way is over. */
  stop(): Promise<void>;
}

/** Runs a job again and again, never twice at once, until it is stopped. */
export function every(ground: { readonly clock: Clock; readonly log: Pick<Logger, 'warn' | 'error'> }, job: Job): RunningJob {
  return new Repeated(ground.clock, ground.log, job);
}

class Repeated implements RunningJob {
  readonly #clock: Clock;
  readonly #log: Pick<Logger, 'warn' | 'error'>;
  readonly #job: Job;
  #cancel: () => void = () => undefined;
  /** Monotonic milliseconds at which the timer fires; undefined: there is no timer. */
  #dueAt: number | undefined;
  #running: Promise<void> | undefined;
  /** The run that is to follow the one under way. */
  #next: Promise<void> | undefined;
  /** What `within` was asked for during a run, milliseconds. */
  #wanted: number | undefined;
  #stopped = false;

  constructor(clock: Clock, log: Pick<Logger, 'warn' | 'error'>, job: Job) {
    this.#clock = clock;
    this.#log = log;
    this.#job = job;
    if (job.firstMs === undefined) this.rearm();
    else this.#arm(job.firstMs);
  }

  now(): Promise<void> {
    if (this.#stopped) return this.stop();
    if (this.#running === undefined) {
      this.#run();
      return this.#running ?? Promise.resolve();
    }
    this.#next ??= this.#running.then(() => {
      this.#next = undefined;
      return this.now();
    });
    return this.#next;
  }

  within(ms: number): void {
    if (this.#running !== undefined) this.#wanted = Math.min(ms, this.#wanted ?? ms);
    else if (this.#dueAt === undefined || this.#dueAt > this.#clock.monotonic() + ms) this.#arm(ms);
  }

  rearm(): void {
    if (this.#running !== undefined) return;
    const { everyMs } = this.#job;
    const ms = typeof everyMs === 'number' ? everyMs : everyMs();
    const wanted = this.#wanted;
    this.#wanted = undefined;
    if (ms !== undefined) this.#arm(wanted === undefined ? ms : Math.min(ms, wanted));
    else if (wanted !== undefined) this.#arm(wanted);
    else this.#disarm();
  }

  stop(): Promise<void> {
    this.#stopped = true;
    this.#disarm();
    return this.#running ?? Promise.resolve();
  }

  #arm(ms: number): void {
    this.#disarm();
    if (this.#stopped) return;
    this.#dueAt = this.#clock.monotonic() + ms;
    this.#cancel = this.#clock.after(Math.min(ms, LONGEST_MS), () => {
      if (ms > LONGEST_MS) this.#arm(ms - LONGEST_MS);
      else this.#run();
    });
  }

  #disarm(): void {
    this.#cancel();
    this.#dueAt = undefined;
  }

  #run(): void {
    this.#disarm();
    // What a run asks for before it first waits is asked for during the run, too.
    this.#running = Promise.resolve();
    try {
      const ended = this.#job.run();
      if (ended instanceof Promise) {
        this.#running = ended.catch((error: unknown) => this.#failed(error)).then(() => this.#over());
        return;
      }
    } catch (error) {
      this.#failed(error);
    }
    this.#over();
  }

  #over(): void {
    this.#running = undefined;
    if (!this.#stopped) this.rearm();
  }

  #failed(error: unknown): void {
    const { failed, failedLevel = 'warn' } = this.#job;
    this.#log[failedLevel]({ err: error }, failed);
  }
}
