import type { Clock } from '../../base/lib/clock.ts';
import type { Logger } from '../../base/lib/log.ts';
import { unavailable } from '../contract/commit-rules.ts';
import { FrameBuffer } from './frame.ts';
import type { JournalWriter } from './journal-writer.ts';
import type { EntityEffect, PreparedCommit } from './prepared-commit.ts';

export interface CommitQueueOptions {
  readonly writer: JournalWriter;
  readonly clock: Clock;
  readonly log: Pick<Logger, 'info' | 'error'>;
  /** Makes a stored commit visible; `offset` is where its frame lies in the active segment. MUST NOT throw. */
  readonly onStored: (commit: PreparedCommit, offset: number, length: number) => void;
  /** Lets go of a commit that was not stored. */
  readonly onRejected: (commit: PreparedCommit) => void;
  /** Called once per stored group. */
  readonly onGroup: () => void;
  /** True while commits must wait for room behind the journal. */
  readonly full: () => boolean;
}

/** Stands where a promise puts its own as it is made. */
function notYet(): void {}

/** A commit that was handed over. */
class Waiting {
  readonly commit: PreparedCommit;
  /** Of its frame. */
  readonly length: number;
  resolve: () => void = notYet;
  reject: (error: unknown) => void = notYet;
  readonly stored = new Promise<void>((resolve, reject) => {
    this.resolve = resolve;
    this.reject = reject;
  });

  constructor(commit: PreparedCommit, length: number) {
    this.commit = commit;
    this.length = length;
  }
}

const PROBE_EVERY_MS = 500;

/**
 * Group commit: everything that is handed over in one turn of the event loop is written at its end by one write. While
 * a slow write or a sync is under way, what comes meanwhile is the next group.
 */
export class CommitQueue {
  readonly #options: CommitQueueOptions;
  #waiting: Waiting[] = [];
  /** The group that is being written. */
  #group: readonly Waiting[] = [];
  /** Frames of what waits, in the same order; the other buffer is the one being written. */
  #frames = new FrameBuffer();
  #spare = new FrameBuffer();
  #scheduled = false;
  #writing = false;
  #failed = false;
  #cancelProbe: (() => void) | undefined;
  #probing: Promise<void> | undefined;
  readonly #idle: (() => void)[] = [];
  readonly #flushTurn = (): void => {
    this.#scheduled = false;
    this.#flush();
  };

  constructor(options: CommitQueueOptions) {
    this.#options = options;
  }

  /** False from a failed write until a probe succeeded. */
  get healthy(): boolean {
    return !this.#failed;
  }

  /** Resolves when the commit is stored and visible. Throws a RangeError when it is too large for a frame. */
  push(commit: PreparedCommit): Promise<void> {
    const waiting = new Waiting(commit, this.#frames.append(commit));
    this.#waiting.push(waiting);
    if (!this.#scheduled && !this.#writing) this.#schedule();
    return waiting.stored;
  }

  /**
   * The last thing that commits which are not visible yet do to an entity, and what settles when it is known whether it
   * is done; undefined when they leave it alone.
   */
  lastEffectOn(key: string): { readonly effect: EntityEffect; readonly stored: Promise<void> } | undefined {
    for (const waiting of [this.#waiting, this.#group]) {
      for (let at = waiting.length - 1; at >= 0; at -= 1) {
        const effect = waiting[at]?.commit.effects.findLast((one) => one.op !== 'add' && one.key === key);
        if (effect && effect.op !== 'add') return { effect, stored: waiting[at]?.stored ?? Promise.resolve() };
      }
    }
    return undefined;
  }

  /** What waited for room goes on. */
  resume(): void {
    if (this.#waiting.length > 0 && !this.#scheduled && !this.#writing) this.#schedule();
  }

  /**
   * Resolves when nothing waits and nothing is being written; what runs then in the same turn has the writer for
   * itself.
   */
  async drained(): Promise<void> {
    while (this.#waiting.length > 0 || this.#writing || this.#probing) {
      if (this.#probing) await this.#probing;
      else await new Promise<void>((resolve) => this.#idle.push(resolve));
    }
  }

  /** Stops probing; resolves when nothing is under way. */
  async stop(): Promise<void> {
    await this.drained();
    this.#cancelProbe?.();
    if (this.#failed) this.#cut();
  }

  #schedule(): void {
    this.#scheduled = true;
    setImmediate(this.#flushTurn);
  }

  #flush(): void {
    if (this.#waiting.length === 0 || this.#writing || this.#options.full()) return;
    const group = this.#waiting;
    const frames = this.#frames;
    this.#waiting = [];
    this.#group = group;
    this.#frames = this.#spare;
    this.#spare = frames;
    let stored: Promise<void> | undefined;
    try {
      stored = this.#options.writer.append(frames.bytes);
    } catch (error) {
      this.#fail(group, error);
      this.#over();
      return;
    }
    if (stored === undefined) {
      this.#settle(group);
      this.#over();
      return;
    }
    this.#writing = true;
    stored
      .then(
        () => this.#settle(group),
        (error: unknown) => this.#fail(group, error),
      )
      .finally(() => {
        this.#writing = false;
        this.#over();
      });
  }

  /** After a group, whatever became of it. */
  #over(): void {
    this.#group = [];
    this.#spare.clear();
    if (this.#waiting.length > 0) this.resume();
    else for (const wake of this.#idle.splice(0)) wake();
  }

  #settle(group: readonly Waiting[]): void {
    const { active } = this.#options.writer;
    for (const { commit, length, resolve } of group) {
      this.#options.onStored(commit, active.end, length);
      resolve();
    }
    this.#options.onGroup();
  }

  /** Nothing of the group is visible, and what came behind it would only fail too. */
  #fail(group: readonly Waiting[], cause: unknown): void {
    const refused = [...group, ...this.#waiting.splice(0)];
    this.#frames.clear();
    if (!this.#failed)
      this.#options.log.error({ err: cause, commits: refused.length }, 'The journal cannot be written; nothing is accepted until it can');
    this.#failed = true;
    this.#cut();
    this.#probeLater();
    for (const { commit, reject } of refused) {
      this.#options.onRejected(commit);
      reject(unavailable(cause));
    }
  }

  #cut(): void {
    try {
      this.#options.writer.cut();
    } catch {
      // The probe cuts again before anything else is written.
    }
  }

  #probeLater(): void {
    this.#cancelProbe?.();
    this.#cancelProbe = this.#options.clock.after(PROBE_EVERY_MS, () => {
      this.#probing ??= this.#probe().finally(() => {
        this.#probing = undefined;
      });
    });
  }

  async #probe(): Promise<void> {
    try {
      await this.#options.writer.recover();
    } catch {
      return this.#probeLater();
    }
    this.#failed = false;
    this.#options.log.info({}, 'The journal can be written again');
  }
}
