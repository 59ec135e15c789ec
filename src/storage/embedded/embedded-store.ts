import type { Clock } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Logger } from '../../base/lib/log.ts';
import { Turn } from '../../base/lib/turn.ts';
import { notAsExpected, recordExists, unavailable } from '../contract/commit-rules.ts';
import { versionOf } from '../contract/entity-version.ts';
import type { RecordQuery } from '../contract/record-query.ts';
import {
  type CounterRow,
  type Effect,
  type Entity,
  type EntityEvent,
  type EntityPage,
  type Expectation,
  type RecordCommit,
  type Store,
  type StoredRecord,
  StoreError,
} from '../contract/store.ts';
import { type CounterOfSpace, countersOfAll, type EntityText, entitiesOfAll, type RowLimits, type RowPlace } from './all-spaces.ts';
import { CommitQueue } from './commit-queue.ts';
import { type Counters, decodeTotals } from './counters.ts';
import type { Files } from './files.ts';
import { type Frame, frameHasRecord, frameRecordHash, frameRecordId, frameText } from './frame.ts';
import type { Indexer } from './indexer.ts';
import { type JournalExtent, type JournalPiece, journalExtent, type PieceLimits, readJournal } from './journal-feed.ts';
import type { JournalWriter } from './journal-writer.ts';
import { type LevelIndex, ROW } from './level-index.ts';
import { locationText, parseLocation, parsePosition, positionText } from './location.ts';
import { mergeRows } from './merge-rows.ts';
import { joinedToRead, joinKey, type PreparedCommit, prepareCommit } from './prepared-commit.ts';
import { recordsOf } from './query-records.ts';
import { corruptFrame, onSegment } from './record-pages.ts';
import { type DroppedSegment, eraseSegment, removableThrough } from './retention.ts';
import type { SegmentColumns } from './segment-columns.ts';
import { SEGMENT_HEADER_BYTES } from './segment-header.ts';
import { readFrame } from './segment-reader.ts';
import { countFrame, type Segments } from './segments.ts';
import type { RecordKey, Tail } from './tail.ts';
import { Watchers } from './watchers.ts';

const REMOVE_AGAIN_MS = 60_000;

/** The opened parts, made by `openEmbeddedStore`. */
export interface StoreParts {
  readonly clock: Clock;
  readonly log: Pick<Logger, 'info' | 'warn' | 'error'>;
  readonly segments: Segments;
  readonly files: Files;
  readonly writer: JournalWriter;
  readonly index: LevelIndex;
  readonly columns: SegmentColumns;
  readonly tail: Tail;
  readonly counters: Counters;
  readonly indexer: Indexer;
  /** The largest record id in the index; ids grow with time, so that most new ones need no look-up. */
  readonly lastRecordId: string | undefined;
  /** Segments that retention dropped without finishing. */
  readonly unfinished: readonly DroppedSegment[];
  /** Told how many segments wait to be removed after it failed, and that none does any more. */
  readonly onUnremoved: (segments: number) => void;
  /** Releases the lock; the last step of closing. */
  readonly release: () => Promise<void>;
}

/**
 * The embedded driver of the storage contract: a journal, and LevelDB behind it. README.md follows a record through it.
 */
export class EmbeddedStore implements Store {
  readonly #parts: StoreParts;
  readonly #indexer: Indexer;
  readonly #queue: CommitQueue;
  readonly #watchers: Watchers;
  /** Ids of commits that are not visible yet. */
  readonly #pendingIds = new Set<string>();
  #lastRecordId: string;
  readonly #removing = new Turn();
  /** Oldest first. */
  readonly #dropped: DroppedSegment[];
  #removalFailed = false;
  #cancelRemoval: (() => void) | undefined;
  #closing: Promise<void> | undefined;

  constructor(parts: StoreParts) {
    this.#parts = parts;
    this.#lastRecordId = parts.lastRecordId ?? '';
    this.#indexer = parts.indexer;
    this.#watchers = new Watchers(parts.log);
    this.#queue = new CommitQueue({
      writer: parts.writer,
      clock: parts.clock,
      log: parts.log,
      onStored: (commit, offset, length) => this.#apply(commit, offset, length),
      onRejected: (commit) => this.#release(commit),
      onGroup: () => {
        this.#indexer.notice();
        this.#watchers.tellNoted();
      },
      full: () => this.#indexer.full,
    });
    this.#indexer.afterRounds(() => this.#queue.resume());
    this.#indexer.notice();
    this.#dropped = [...parts.unfinished];
    void this.#removing.take(() => this.#eraseDropped()).catch(ignore);
    parts.columns.prepare();
  }

  get writable(): boolean {
    return this.#closing === undefined && this.#queue.healthy && this.#indexer.healthy;
  }

  commit(record: RecordCommit | undefined, effects: readonly Effect[], expect?: readonly Expectation[]): Promise<void> {
    if (!this.writable) return Promise.reject(unavailable());
    let commit: PreparedCommit | undefined;
    try {
      if (record && this.#exists(record.record_id)) throw recordExists();
      commit = prepareCommit(record, effects, this.#parts.clock.now(), this.#parts.counters);
      const changed = expect && this.#notAsExpected(expect);
      if (changed) {
        this.#release(commit);
        return changed.then(() => Promise.reject(notAsExpected()));
      }
      if (record) this.#pendingIds.add(record.record_id);
      return this.#queue.push(commit);
    } catch (error) {
      if (commit) this.#release(commit);
      const known = error instanceof GatewayError || error instanceof TypeError || error instanceof RangeError;
      return Promise.reject(known ? error : unavailable(error));
    }
  }

  async recordById(recordId: string): Promise<StoredRecord | undefined> {
    return this.#record('id', ROW.recordId, recordId, frameRecordId);
  }

  async recordByHash(recordHash: string): Promise<StoredRecord | undefined> {
    return this.#record('hash', ROW.recordHash, recordHash, frameRecordHash);
  }

  async records(query: RecordQuery): Promise<readonly StoredRecord[]> {
    this.#mustBeOpen();
    const { segments, columns } = this.#parts;
    return recordsOf({ segments, columns, recordById: (id) => this.recordById(id) }, query);
  }

  async get(space: string, key: string): Promise<unknown> {
    const text = this.#textOf(space, key);
    return text === undefined ? undefined : JSON.parse(text);
  }

  async entity(space: string, key: string): Promise<Entity | undefined> {
    const text = this.#textOf(space, key);
    return text === undefined ? undefined : { value: JSON.parse(text), version: versionOf(text) };
  }

  async list(space: string, page?: EntityPage): Promise<readonly { readonly key: string; readonly value: unknown }[]> {
    const rows = await this.#entityRows(space, page);
    return rows.map(([key, text]) => ({ key, value: JSON.parse(text) as unknown }));
  }

  async entities(space: string, page?: EntityPage): Promise<readonly (Entity & { readonly key: string })[]> {
    const rows = await this.#entityRows(space, page);
    return rows.map(([key, text]) => ({ key, value: JSON.parse(text) as unknown, version: versionOf(text) }));
  }

  async watch(space: string, listener: (event: EntityEvent) => void | Promise<void>): Promise<() => void> {
    this.#mustBeOpen();
    return this.#watchers.add(space, listener);
  }

  async counter(space: string, key: string): Promise<Readonly<Record<string, bigint>>> {
    this.#mustBeOpen();
    try {
      return Object.fromEntries(this.#parts.counters.totals(joinKey(space, key)));
    } catch (error) {
      throw error instanceof TypeError ? error : unavailable(error);
    }
  }

  async counters(
    space: string,
    page: { readonly prefix?: string; readonly after?: string; readonly limit: number },
  ): Promise<readonly CounterRow[]> {
    this.#mustBeOpen();
    const { limit } = page;
    const start = `${space}\0`;
    const prefix = start + (page.prefix ?? '');
    const after = page.after === undefined ? undefined : start + page.after;
    const { index, tail } = this.#parts;
    // Counters are never deleted, so a page needs no more rows of either.
    const stored = index.rows(ROW.counter + prefix, after === undefined ? undefined : ROW.counter + after, limit);
    const rows = await readRows(stored, tail.totals(prefix, after, limit), { limit });
    return rows.map(([key, text]) => ({ key: key.slice(start.length), amounts: Object.fromEntries(decodeTotals(text)) }));
  }

  /**
   * Whole segments at a time, so that a record may stay until the youngest one of its segment is old enough: a day
   * longer, while the clock is right.
   */
  async removeRecordsBefore(epochMs: number): Promise<number> {
    this.#mustBeOpen();
    return this.#removing.take(() => this.#remove(epochMs));
  }

  /**
   * The same of what stands before a place in the journal, as {@link journal} gives them: nothing from there on goes,
   * however old it is.
   */
  async removeJournalBefore(epochMs: number, place: string): Promise<number> {
    this.#mustBeOpen();
    const segment = parsePosition(place)?.segment ?? 0;
    return this.#removing.take(() => this.#remove(epochMs, segment - 1));
  }

  /** Visible commits in their order, from a place on; see {@link readJournal}. */
  async journal(from: string | undefined, limits: PieceLimits): Promise<JournalPiece> {
    this.#mustBeOpen();
    return readJournal(this.#parts.segments, from, limits);
  }

  /** Entities of all spaces behind a place; see {@link entitiesOfAll}. */
  async allEntities(after: RowPlace | undefined, limits: RowLimits): Promise<readonly EntityText[]> {
    this.#mustBeOpen();
    return readable(entitiesOfAll(this.#parts, after, limits));
  }

  /** Counters of all spaces behind a place; see {@link countersOfAll}. */
  async allCounters(after: RowPlace | undefined, limits: RowLimits): Promise<readonly CounterOfSpace[]> {
    this.#mustBeOpen();
    return readable(countersOfAll(this.#parts, after, limits));
  }

  /** How far the journal reaches now. */
  get extent(): JournalExtent {
    return journalExtent(this.#parts.segments);
  }

  /** Forces everything stored so far to the medium (fsync). Rejects (`record_store_unavailable`) when that fails. */
  async sync(): Promise<void> {
    this.#mustBeOpen();
    try {
      await this.#parts.writer.sync();
    } catch (error) {
      throw unavailable(error);
    }
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const { writer, columns, log, release } = this.#parts;
    this.#cancelRemoval?.();
    await this.#removing.over();
    // What failed meanwhile does not come back to a closed store.
    this.#cancelRemoval?.();
    await this.#queue.stop();
    this.#watchers.close();
    await columns.close();
    await this.#indexer.stop();
    try {
      await this.#indexer.flush({ sync: true });
    } catch (error) {
      log.error({ err: error }, 'The record index was not completed on closing; the journal is replayed at the next start');
    }
    writer.close();
    await release();
  }

  /** @param last the newest segment that may go */
  async #remove(epochMs: number, last = Number.POSITIVE_INFINITY): Promise<number> {
    const { segments, writer, log } = this.#parts;
    if (writer.active.records > 0 && writer.active.newest < epochMs) {
      await this.#queue.drained();
      if (writer.active.newest < epochMs) writer.rotate();
    }
    const through = Math.min(removableThrough(segments, epochMs) ?? 0, last);
    if (through < segments.first) return 0;
    // The effects of these segments must be safe in the index, on the medium, before their frames go.
    await this.#indexer.flush({ sync: true });
    const gone = [...segments].filter((info) => info.segment <= through);
    const removed = gone.reduce((sum, info) => sum + info.records, 0);
    segments.dropThrough(through);
    this.#parts.columns.dropThrough(through);
    this.#dropped.push(...gone);
    await this.#eraseDropped();
    log.info({ records: removed, segments: gone.length }, 'Records past their retention were removed');
    return removed;
  }

  /** Removes what readers do not see any more. Rejects when something cannot be; that is tried again until it can. */
  async #eraseDropped(): Promise<void> {
    const { segments, columns, files, log, clock, onUnremoved } = this.#parts;
    this.#cancelRemoval?.();
    try {
      for (let next = this.#dropped[0]; next; next = this.#dropped[0]) {
        await columns.remove(next.segment);
        await eraseSegment(segments, next, this.#indexer, files);
        this.#dropped.shift();
      }
    } catch (error) {
      const left = this.#dropped.map(({ segment }) => segments.path(segment));
      log.error({ err: error, files: left.length, first: left[0] }, 'Records past their retention could not be removed; it is tried again');
      this.#removalFailed = true;
      onUnremoved(left.length);
      this.#cancelRemoval = clock.after(REMOVE_AGAIN_MS, () => void this.#removing.take(() => this.#eraseDropped()).catch(ignore));
      throw error;
    }
    if (this.#removalFailed) {
      log.info({}, 'Records past their retention are removed now');
      onUnremoved(0);
    }
    this.#removalFailed = false;
  }

  #apply(commit: PreparedCommit, offset: number, length: number): void {
    const { writer, tail, columns } = this.#parts;
    const { active } = writer;
    const hasRecord = commit.recordId !== '';
    countFrame(active, offset + length, hasRecord, commit.committedAt);
    tail.apply(
      commit.recordId,
      commit.recordHash,
      hasRecord ? locationText(active.segment, offset, length) : '',
      commit.effects,
      commit.cells,
    );
    if (hasRecord) columns.append(active.segment, offset, commit.members, commit.committedAt);
    this.#watchers.note(commit.effects);
    if (commit.recordId > this.#lastRecordId) this.#lastRecordId = commit.recordId;
    this.#release(commit);
  }

  /** Lets go of what a commit held, stored or not. */
  #release(commit: PreparedCommit): void {
    for (const cell of commit.cells) this.#parts.counters.unpin(cell);
    if (commit.recordId !== '') this.#pendingIds.delete(commit.recordId);
  }

  #exists(recordId: string): boolean {
    if (this.#pendingIds.has(recordId)) return true;
    if (recordId > this.#lastRecordId) return false;
    return this.#parts.tail.record('id', recordId) !== undefined || this.#parts.index.get(ROW.recordId + recordId) !== undefined;
  }

  /**
   * Undefined when all is as it is expected to be. What was handed over before counts, stored or not: when it cannot be
   * stored, neither is what came behind it.
   * @returns what resolves when that which is otherwise is stored, so that whoever then reads sees it
   */
  #notAsExpected(expect: readonly Expectation[]): Promise<void> | undefined {
    for (const { space, key, version } of expect) {
      const joined = joinKey(space, key);
      const pending = this.#queue.lastEffectOn(joined);
      const stored = pending ? undefined : this.#entityText(joined);
      const text = pending?.effect.op === 'put' ? pending.effect.value : stored;
      if (version !== (text === undefined ? undefined : versionOf(text))) return pending?.stored ?? Promise.resolve();
    }
    return undefined;
  }

  /** The visible value of an entity. */
  #textOf(space: string, key: string): string | undefined {
    const joined = joinedToRead(space, key);
    if (joined !== undefined) return this.#entityText(joined);
    this.#mustBeOpen();
    return undefined;
  }

  /** The same by its joined key. */
  #entityText(joined: string): string | undefined {
    this.#mustBeOpen();
    const found = this.#parts.tail.entity(joined);
    return found ? found.value : this.#row(ROW.entity + joined);
  }

  /** Visible entities of a space, by their keys in it. */
  async #entityRows(space: string, page: EntityPage = {}): Promise<readonly (readonly [key: string, text: string])[]> {
    this.#mustBeOpen();
    const start = `${space}\0`;
    const prefix = start + (page.prefix ?? '');
    const after = page.after === undefined ? undefined : start + page.after;
    const { limit = Number.POSITIVE_INFINITY } = page;
    const stored = this.#parts.index.rows(ROW.entity + prefix, after === undefined ? undefined : ROW.entity + after);
    const rows = await readRows(stored, this.#parts.tail.entities(prefix, after, limit), { limit });
    return rows.map(([key, text]) => [key.slice(start.length), text]);
  }

  async #record(by: RecordKey, letter: string, name: string, nameOf: (frame: Frame) => string): Promise<StoredRecord | undefined> {
    this.#mustBeOpen();
    const row = this.#parts.tail.record(by, name) ?? this.#row(letter + name);
    if (row === undefined) return undefined;
    const { segment, offset, length } = parseLocation(row);
    const { segments } = this.#parts;
    const end = segments.get(segment)?.end ?? SEGMENT_HEADER_BYTES;
    if (offset + length > end) return undefined;
    return onSegment(segments, segment, async (file) => {
      const frame = await readFrame(file, offset, end, length);
      if (frame === undefined) throw corruptFrame(segment, offset);
      // After the death of the machine without fsync a row can outlive its record; another frame may lie there now.
      if (!frameHasRecord(frame) || nameOf(frame) !== name) return undefined;
      return { text: frameText(frame), position: positionText(segment, offset) };
    });
  }

  #row(key: string): string | undefined {
    try {
      return this.#parts.index.get(key);
    } catch (error) {
      throw unavailable(error);
    }
  }

  #mustBeOpen(): void {
    if (this.#closing) throw new StoreError('closed', 'The store is closed');
  }
}

/** Of a promise whose failure is told where it happens, or to who asked for it. */
function ignore(): void {}

/**
 * Rows of index and tail together; what LevelDB throws while it is opened again is the store's failure, not the
 * caller's.
 */
function readRows(...page: Parameters<typeof mergeRows>): ReturnType<typeof mergeRows> {
  return readable(mergeRows(...page));
}

async function readable<T>(rows: Promise<T>): Promise<T> {
  try {
    return await rows;
  } catch (error) {
    throw unavailable(error);
  }
}
