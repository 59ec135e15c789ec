import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Events } from '../../base/events/bus.ts';
import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { every, type RunningJob } from '../../base/lib/every.ts';
import { inFolder } from '../../base/lib/file-system.ts';
import { codeOf } from '../../base/lib/gateway-error.ts';
import type { Logger } from '../../base/lib/log.ts';
import { Turn } from '../../base/lib/turn.ts';
import type { Store } from '../../storage/contract/store.ts';

const SPACE = 'clock';
const KEY = 'last_known';
const CHECK_EVERY_MS = 60_000;
const NOTED_EVERY_MS = 3_600_000;
const SAID_AGAIN_AFTER_MS = 86_400_000;
const DAY_MS = 86_400_000;
/** Clocks that are set by a time service are nearer than this. */
const BEHIND_MS = 5 * 60_000;

/** Where an operator says that the clock is right; see `gw journal confirm-clock`. */
export interface ClockConfirmation {
  /** What the clock said when it was confirmed, milliseconds since the epoch; undefined when it was not. */
  read(): Promise<number | undefined>;
  clear(): Promise<void>;
}

export interface ClockWatchOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  readonly events: Events;
  /** `GW_RECORD_RETENTION` */
  readonly retentionMs: number;
  readonly confirmation: ClockConfirmation;
}

type Verdict = 'right' | 'ahead' | 'behind';

/**
 * Doubts a clock that stands far from where it was known to be: last noted in the store, and from then on counted by
 * the monotonic clock. A clock that is ahead makes everything old, and what is removed for its age does not come back
 * when the clock is set right. A gateway that was off for so long looks just the same, so that an operator has to say
 * which it is; until then nothing is removed.
 */
export class ClockWatch {
  readonly #options: ClockWatchOptions;
  readonly #toleranceMs: number;
  /** The latest time of day that is believed, and the monotonic milliseconds of that moment. It never goes back. */
  #known: number;
  #knownAt: number;
  /** What the log says of it. */
  #said: Verdict = 'right';
  #saidAt = Number.NEGATIVE_INFINITY;
  #notedAt = Number.NEGATIVE_INFINITY;
  #job: RunningJob | undefined;
  readonly #turn = new Turn();

  private constructor(options: ClockWatchOptions, known: number) {
    this.#options = options;
    this.#toleranceMs = clockToleranceMs(options.retentionMs);
    this.#known = known;
    this.#knownAt = options.clock.monotonic();
  }

  /**
   * To be opened before anything is written with a time of now.
   * @throws Error when the store cannot be read
   */
  static async open(options: ClockWatchOptions): Promise<ClockWatch> {
    const noted = (await options.store.get(SPACE, KEY)) as { at: number } | undefined;
    const watch = new ClockWatch(options, noted?.at ?? (await newestRecordAt(options.store)) ?? options.clock.now());
    await watch.check();
    watch.#job = every(options, {
      everyMs: CHECK_EVERY_MS,
      run: () => watch.check(),
      failed: 'the clock could not be judged',
    });
    return watch;
  }

  /** False while the clock is so far ahead of what is known that nothing may be removed, or given up, for its age. */
  get mayExpire(): boolean {
    return this.#judge() !== 'ahead';
  }

  /**
   * Days of which sums may be asked: that of the clock, and that on which the gateway was last known to run.
   * Milliseconds since the epoch.
   */
  get moments(): readonly number[] {
    return [this.#options.clock.now(), this.#expected()];
  }

  /** Judges the clock, looks whether it was confirmed, and notes once an hour where it stands. Never rejects. */
  check(): Promise<void> {
    return this.#turn.take(() => this.#check());
  }

  async close(): Promise<void> {
    await this.#job?.stop();
    await this.#turn.over();
  }

  async #check(): Promise<void> {
    const { clock, log, events } = this.#options;
    await this.#confirm(this.#judge());
    if (this.#judge() === 'right' && this.#said !== 'right') {
      log.info({ time: timestamp(clock.now()) }, 'the clock is where it should be');
      const wasHeld = this.#said === 'ahead';
      this.#said = 'right';
      if (wasHeld) events.emit('clockBelieved', clock.now());
    }
    if (clock.monotonic() - this.#notedAt >= NOTED_EVERY_MS) await this.#note();
  }

  /** Where the clock should stand. */
  #expected(): number {
    return this.#known + (this.#options.clock.monotonic() - this.#knownAt);
  }

  #judge(): Verdict {
    const { clock } = this.#options;
    const now = clock.now();
    const ahead = now - this.#expected();
    if (ahead > this.#toleranceMs) return this.#doubt('ahead', now);
    if (ahead < -BEHIND_MS) return this.#doubt('behind', now);
    if (ahead > 0) this.#believe(now);
    return 'right';
  }

  #doubt(verdict: 'ahead' | 'behind', now: number): Verdict {
    if (verdict !== this.#said || this.#options.clock.monotonic() - this.#saidAt >= SAID_AGAIN_AFTER_MS) this.#say(verdict, now);
    return verdict;
  }

  #believe(now: number): void {
    this.#known = now;
    this.#knownAt = this.#options.clock.monotonic();
  }

  #say(verdict: 'ahead' | 'behind', now: number): void {
    const { clock, log } = this.#options;
    this.#said = verdict;
    this.#saidAt = clock.monotonic();
    const fields = { time: timestamp(now), expected: timestamp(this.#expected()) };
    if (verdict === 'ahead')
      log.warn(
        fields,
        'the clock is far ahead of when this gateway was last known to run: nothing is removed for its age until that is settled. Set the clock right; or, if it is (the gateway was off for so long), run "gw journal confirm-clock"',
      );
    else
      log.warn(
        fields,
        'the clock is behind what this gateway has stored already: records of now seem older than those before them. Set the clock right; or, if it is (it was ahead before), run "gw journal confirm-clock"',
      );
  }

  /** A confirmation counts for the clock that it saw: one that has jumped since is to be confirmed again. */
  async #confirm(verdict: Verdict): Promise<void> {
    const { clock, log, confirmation } = this.#options;
    try {
      const confirmed = await confirmation.read();
      if (confirmed === undefined) return;
      const now = clock.now();
      const counts = now - confirmed <= this.#toleranceMs && confirmed - now <= BEHIND_MS;
      if (counts && verdict !== 'right') {
        this.#believe(now);
        await this.#note();
      } else if (!counts) {
        log.warn(
          { time: timestamp(now), confirmed: timestamp(confirmed) },
          'the clock that was confirmed is not that of now: confirm it again',
        );
      }
      await confirmation.clear();
    } catch (error) {
      log.warn({ err: error }, 'whether the clock was confirmed cannot be read; it is tried again');
    }
  }

  async #note(): Promise<void> {
    const { store, clock, log } = this.#options;
    try {
      await store.commit(undefined, [{ op: 'put', space: SPACE, key: KEY, value: { at: Math.floor(this.#expected()) } }]);
      this.#notedAt = clock.monotonic();
    } catch (error) {
      log.warn({ err: error }, 'where the clock stands could not be noted; it is tried again');
    }
  }
}

/**
 * How far a clock may go ahead between two looks without being doubted: a quarter of the retention, so that no more
 * than that can go too early, from a day, for machines that are off at night, to a week.
 */
export function clockToleranceMs(retentionMs: number): number {
  return Math.min(7 * DAY_MS, Math.max(DAY_MS, retentionMs / 4));
}

/** For folders of a version that did not note the time. */
async function newestRecordAt(store: Store): Promise<number | undefined> {
  const [newest] = await store.records({ limit: 1, newestFirst: true });
  if (newest === undefined) return undefined;
  // What is stored was written by this program and has not changed since.
  const at = Date.parse((JSON.parse(newest.text) as { completed_at: string }).completed_at);
  return Number.isNaN(at) ? undefined : at;
}

const SETTING = 'GW_DATA_DIR';

/** A file, so that it can be made while a gateway runs and while none does. */
function fileIn(dataDir: string): string {
  return join(dataDir, 'clock-confirmed');
}

export function clockConfirmation(dataDir: string): ClockConfirmation {
  const file = fileIn(dataDir);
  return {
    async read() {
      try {
        const at = Date.parse((await readFile(file, 'utf8')).trim());
        return Number.isNaN(at) ? undefined : at;
      } catch (error) {
        if (codeOf(error) === 'ENOENT') return undefined;
        throw error;
      }
    },
    clear: () => rm(file, { force: true }),
  };
}

/** @param now milliseconds since the epoch @throws Error that names the setting when the folder cannot be written */
export async function confirmClock(dataDir: string, now: number): Promise<void> {
  await inFolder(SETTING, dataDir, () => writeFile(fileIn(dataDir), `${timestamp(now)}\n`, { mode: 0o644 }));
}
