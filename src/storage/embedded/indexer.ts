import type { Clock } from '../../base/lib/clock.ts';
import type { Logger } from '../../base/lib/log.ts';
import { encodeTotals } from './counters.ts';
import { type IndexRow, type IndexState, type LevelIndex, ROW } from './level-index.ts';
import { FORMAT_VERSION } from './segment-header.ts';
import type { SegmentInfo, Segments } from './segments.ts';
import type { Generation, Tail } from './tail.ts';

export interface IndexerOptions {
  readonly index: LevelIndex;
  readonly tail: Tail;
  readonly segments: Segments;
  /** Where the journal ends, for what is visible now. */
  readonly position: () => { readonly segment: number; readonly end: number };
  /** Forces the journal to the medium. */
  readonly syncJournal: () => Promise<void>;
  readonly clock: Clock;
  readonly log: Pick<Logger, 'info' | 'error'>;
  /** False when the journal is never forced to the medium. */
  readonly durable: boolean;
  readonly everyMs: number;
}

const COMMITS_PER_ROUND = 4_096;
const WEIGHT_PER_ROUND = 8 * 1024 * 1024;
/** With so much waiting behind a round that is under way, commits wait too, so that memory stays bounded. */
const FULL_ROUNDS = 4;
const RETRY_MS = 1_000;

/**
 * A generation with what must be read of the live objects at the moment of freezing: totals and position belong
 * together.
 */
interface Round {
  readonly generation: Generation;
  readonly counters: readonly IndexRow[];
  readonly sealed: readonly IndexRow[];
  readonly state: IndexState;
}

/**
 * Writes what the tail collected to the index: one batch per round, with the position up to which the journal is in it.
 * The journal is forced to the medium first, so that after the death of the machine the index never knows more than the
 * journal.
 */
export class Indexer {
  readonly #options: IndexerOptions;
  #state: IndexState;
  #round: Round | undefined;
  #running: Promise<void> | undefined;
  #cancelTimer: (() => void) | undefined;
  #failed = false;
  #stopped = false;
  #onRound: () => void = () => undefined;

  constructor(options: IndexerOptions, state: IndexState) {
    this.#options = options;
    this.#state = state;
  }

  /** False while the index cannot be written; nothing may be committed then. */
  get healthy(): boolean {
    return !this.#failed;
  }

  /** The callback is called whenever a round is over: whoever waited for room may go on. */
  afterRounds(callback: () => void): void {
    this.#onRound = callback;
  }

  /** True when commits must wait for the round that is under way. */
  get full(): boolean {
    const { active } = this.#options.tail;
    return (
      this.#running !== undefined && (active.commits >= FULL_ROUNDS * COMMITS_PER_ROUND || active.weight >= FULL_ROUNDS * WEIGHT_PER_ROUND)
    );
  }

  /**
   * To be called after commits became visible: starts a round when enough has come together, else when `everyMs` is
   * over.
   */
  notice(): void {
    const { active } = this.#options.tail;
    if (this.#failed || this.#stopped || this.#running) return;
    if (active.commits >= COMMITS_PER_ROUND || active.weight >= WEIGHT_PER_ROUND) this.#start();
    else if (!this.#cancelTimer && active.commits > 0) this.#startAfter(this.#options.everyMs);
  }

  /**
   * Resolves when everything visible now is in the index; with `sync` on the medium. Rejects when the index cannot be
   * written.
   */
  async flush(options: { readonly sync: boolean }): Promise<void> {
    await this.#exclusively(async () => {
      if (this.#round) await this.#write(false);
      await this.#write(options.sync);
    });
  }

  /**
   * Deletes rows between two rounds and notes which segment is the oldest; both are on the medium when it resolves. The
   * position stays where it is.
   */
  async deleteRows(keys: Iterable<IndexRow>): Promise<void> {
    await this.#exclusively(async () => {
      const state = { ...this.#state, first: this.#options.segments.first };
      await this.#options.index.write(keys, state, { sync: true });
      this.#state = state;
    });
  }

  /** No round starts by itself any more; resolves when the last one is over. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancelTimer?.();
    while (this.#running) await this.#running;
  }

  #start(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    void this.#exclusively(() => this.#write(false)).catch(() => undefined);
  }

  #startAfter(ms: number): void {
    this.#cancelTimer?.();
    this.#cancelTimer = this.#options.clock.after(ms, () => {
      this.#cancelTimer = undefined;
      if (!this.#stopped && !this.#running) this.#start();
    });
  }

  /** One piece of work at a time. After a failure LevelDB is opened again before the next one, and a retry is due. */
  async #exclusively(work: () => Promise<void>): Promise<void> {
    while (this.#running) await this.#running;
    const done = this.#attempt(work);
    this.#running = done.then(
      () => undefined,
      () => undefined,
    );
    try {
      await done;
    } finally {
      this.#running = undefined;
      this.#onRound();
      this.notice();
    }
  }

  async #attempt(work: () => Promise<void>): Promise<void> {
    const { index, log } = this.#options;
    try {
      if (this.#failed) await index.reopen();
      await work();
    } catch (error) {
      if (!this.#failed) log.error({ err: error }, 'The record index cannot be written; nothing is accepted until it can');
      this.#failed = true;
      if (!this.#stopped) this.#startAfter(RETRY_MS);
      throw error;
    }
    if (this.#failed) log.info({}, 'The record index can be written again');
    this.#failed = false;
  }

  /** Writes the round that failed before, or else freezes a new one. */
  async #write(sync: boolean): Promise<void> {
    const { index, tail, syncJournal, durable } = this.#options;
    const round = this.#round ?? this.#freeze();
    this.#round = round;
    if (durable || sync) await syncJournal();
    await index.write(rowsOf(round), round.state, { sync });
    this.#state = round.state;
    this.#round = undefined;
    tail.drop();
  }

  #freeze(): Round {
    const { tail, segments, durable } = this.#options;
    const { segment, end } = this.#options.position();
    const generation = tail.freeze();
    const counters: IndexRow[] = [];
    for (const [key, cell] of generation.cells) counters.push([ROW.counter + key, encodeTotals(cell.totals)]);
    const sealed: IndexRow[] = [];
    for (let at = Math.max(this.#state.segment, segments.first); at < segment; at += 1) {
      const info = segments.get(at);
      if (info) sealed.push(segmentRow(info));
    }
    return {
      generation,
      counters,
      sealed,
      state: { format: FORMAT_VERSION, segment, offset: end, first: segments.first, synced: durable },
    };
  }
}

/** What the index keeps about a sealed segment. */
export function segmentRow(info: SegmentInfo): IndexRow {
  const { createdAt, end, records, newest } = info;
  return [segmentKey(info.segment), JSON.stringify({ createdAt, end, records, newest: records > 0 ? newest : null })];
}

export function segmentKey(segment: number): string {
  return ROW.segment + segment.toString(16).padStart(8, '0');
}

function* rowsOf({ generation, counters, sealed }: Round): Generator<IndexRow> {
  for (const [id, hash, location] of generation.records) {
    yield [ROW.recordId + id, location];
    yield [ROW.recordHash + hash, location];
  }
  for (const [key, value] of generation.entities) yield [ROW.entity + key, value];
  yield* counters;
  yield* sealed;
}
