import { copyFile, open, rename, rm, stat } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import type { Clock } from '../../base/lib/clock.ts';
import { makeFolder } from '../../base/lib/file-system.ts';
import type { Logger } from '../../base/lib/log.ts';
import { StoreError } from '../contract/store.ts';
import { claimFolder } from './folder-claim.ts';
import { fillerFrame, MAX_FRAME_BYTES } from './frame.ts';
import { segmentRow } from './indexer.ts';
import { segmentNames } from './inspect-journal.ts';
import { columnsFolder, formatFile, indexFolder, journalFolder } from './layout.ts';
import { type IndexRow, type IndexState, type LevelIndex, ROW } from './level-index.ts';
import { locationText, parseLocation } from './location.ts';
import { checkFormat, openEmbeddedStore, openIndexOf } from './open-embedded-store.ts';
import { sealedRow } from './recovery.ts';
import { isDamaged, planRepair, type Range, type SegmentPlan } from './repair-plan.ts';
import { encodeSegmentHeader, FORMAT_VERSION, SEGMENT_HEADER_BYTES } from './segment-header.ts';

export interface RepairOptions {
  /** The folder of the store. */
  readonly dir: string;
  readonly clock: Clock;
  readonly log: Pick<Logger, 'info' | 'warn' | 'error'>;
  /** Only says what would be done. */
  readonly dryRun: boolean;
  /** Makes the index anew from the journal, also where what only the index knew is lost by that. */
  readonly rebuildIndex: boolean;
}

export interface RepairReport {
  /** The damaged segments. */
  readonly segments: readonly SegmentPlan[];
  /** Records that were whole, of all segments. */
  readonly recordsKept: number;
  /** Records that the index knows and that cannot be read any more; undefined when the index cannot be asked. */
  readonly recordsLost: number | undefined;
  readonly bytesLost: number;
  /** What becomes of the index. */
  readonly index: 'kept' | 'rebuilt';
  /** Segments before the first one that is there, which the index knew. */
  readonly forgottenBefore: number | undefined;
  /** The file that names the format of the folder; it is written anew. */
  readonly formatDamaged: boolean;
  /** Where the damaged files were copied; undefined when nothing was changed. */
  readonly setAside: string | undefined;
}

/**
 * Repairs the journal of a folder that no gateway holds: damaged files are copied aside, what can be read of them stays
 * where it was, and the rest is covered by frames that say nothing. Entities and counters of the index stay, so that
 * what lost records have cost is still counted; an index that cannot be opened, or on demand, is made anew from the
 * journal. Run twice it finds nothing to do.
 * @throws StoreError `in_use`; `corrupt` when the index cannot be opened and the journal alone does not hold everything
 */
export async function repairJournal(options: RepairOptions): Promise<RepairReport> {
  const dir = resolve(options.dir);
  const unclaim = await claimFolder(dir);
  if (unclaim === undefined) throw new StoreError('in_use', `${dir} is open in this process`);
  let report: RepairReport;
  try {
    report = await repairClaimed({ ...options, dir });
  } finally {
    unclaim();
  }
  const changed = report.setAside !== undefined || report.forgottenBefore !== undefined || report.formatDamaged;
  // What does not open now was not repaired.
  if (changed && !options.dryRun) {
    const store = await openEmbeddedStore({ dir, fsync: 'always', clock: options.clock, log: options.log });
    await store.close();
  }
  return report;
}

async function repairClaimed(options: RepairOptions): Promise<RepairReport> {
  const { dir, dryRun, rebuildIndex } = options;
  const formatDamaged = await isFormatDamaged(dir);
  const firstOnDisk = (await segmentNames(journalFolder(dir)))[0]?.segment ?? 1;
  const index = (await exists(indexFolder(dir))) ? await openIndexOf(dir) : new StoreError('corrupt', `The index of ${dir} is missing`);
  try {
    const known = index instanceof Error ? undefined : await index.state();
    if (firstOnDisk > 1 && known === undefined && !rebuildIndex) throw onlyInIndex(dir, index);
    const report =
      index instanceof Error || known === undefined || rebuildIndex
        ? await repairForNewIndex(options, firstOnDisk, index)
        : await repairWithIndex(options, firstOnDisk, index, known);
    if (formatDamaged && !dryRun) await rm(formatFile(dir));
    return { ...report, formatDamaged };
  } finally {
    if (!(index instanceof Error)) await index.close();
  }
}

/** The segments say their version too, so that nothing is lost with this file. @throws StoreError `newer_format` */
async function isFormatDamaged(dir: string): Promise<boolean> {
  try {
    await checkFormat(dir);
    return false;
  } catch (error) {
    if (error instanceof StoreError && error.code === 'corrupt') return true;
    throw error;
  }
}

function onlyInIndex(dir: string, index: LevelIndex | Error): StoreError {
  const why = index instanceof Error ? index.message : `The index of ${dir} is empty`;
  return new StoreError(
    'corrupt',
    `${why}; retention has removed the first segments of the journal, so that settings and totals from then were in the index alone. Restore a backup, or give them up by --rebuild-index`,
  );
}

async function repairWithIndex(options: RepairOptions, firstOnDisk: number, index: LevelIndex, known: IndexState): Promise<RepairReport> {
  // Somebody removed the oldest segments: what retention does, too.
  const first = Math.max(known.first, firstOnDisk);
  const isBehind = known.segment < first;
  const state: IndexState = { ...known, first, ...(isBehind ? { segment: first, offset: SEGMENT_HEADER_BYTES } : {}) };
  const ends = new Map<number, number>([[state.segment, state.synced ? state.offset : 0]]);
  for (let segment = first; state.synced && segment < state.segment; segment += 1) {
    const row = sealedRow(index, segment);
    if (row) ends.set(segment, row.end);
  }
  const all = await planRepair(journalFolder(options.dir), {
    first,
    last: state.synced ? state.segment : first,
    indexedTo: (segment) => ends.get(segment) ?? 0,
  });
  const segments = all.filter(isDamaged);
  const lost = await lostRows(index, first, segments);
  const report = reportOf(all, segments, lost.filter(([key]) => key.startsWith(ROW.recordId)).length, 'kept');
  const forgottenBefore = first > known.first ? first : undefined;
  if (options.dryRun || (segments.length === 0 && lost.length === 0 && forgottenBefore === undefined))
    return { ...report, forgottenBefore };
  const setAside = await applyPlans(options, segments);
  const sealed = all.filter(({ segment }) => segment < state.segment).map((plan) => segmentRow({ ...plan, sealed: true }));
  await index.write([...lost, ...keptRows(segments, state), ...sealed], state, { sync: true });
  return { ...report, forgottenBefore, setAside };
}

async function repairForNewIndex(options: RepairOptions, firstOnDisk: number, index: LevelIndex | Error): Promise<RepairReport> {
  const { dir, dryRun } = options;
  const all = await planRepair(journalFolder(dir), { first: firstOnDisk, last: firstOnDisk, indexedTo: () => 0 });
  const segments = all.filter(isDamaged);
  const report = reportOf(all, segments, undefined, 'rebuilt');
  if (dryRun) return report;
  const setAside = await applyPlans(options, segments);
  if (!(index instanceof Error)) await index.close();
  if (await exists(indexFolder(dir))) await rename(indexFolder(dir), join(setAside, 'index'));
  if (firstOnDisk > 1) {
    const fresh = await openIndexOf(dir);
    if (fresh instanceof Error) throw fresh;
    const state = { format: FORMAT_VERSION, segment: firstOnDisk, offset: SEGMENT_HEADER_BYTES, first: firstOnDisk, synced: false };
    await fresh.write([], state, { sync: true });
    await fresh.close();
  }
  return { ...report, setAside };
}

/** Rows of records that are not there any more, as deletions. */
async function lostRows(index: LevelIndex, first: number, damaged: readonly SegmentPlan[]): Promise<readonly IndexRow[]> {
  const kept = new Map(
    damaged.map((plan) => [plan.segment, new Set(plan.kept.flatMap(({ id, hash }) => [ROW.recordId + id, ROW.recordHash + hash]))]),
  );
  const lost: IndexRow[] = [];
  for (const letter of [ROW.recordId, ROW.recordHash]) {
    for await (const [key, text] of index.rows(letter)) {
      const { segment } = parseLocation(text);
      if (segment < first || kept.get(segment)?.has(key) === false) lost.push([key, undefined]);
    }
  }
  return lost;
}

/**
 * Rows of the records of damaged segments that the index has read: where something had been added, they lie elsewhere
 * now.
 */
function keptRows(damaged: readonly SegmentPlan[], state: IndexState): readonly IndexRow[] {
  const rows: IndexRow[] = [];
  for (const { segment, kept } of damaged) {
    for (const { id, hash, offset, length } of kept) {
      if (segment > state.segment || (segment === state.segment && offset >= state.offset)) continue;
      const location = locationText(segment, offset, length);
      rows.push([ROW.recordId + id, location], [ROW.recordHash + hash, location]);
    }
  }
  return rows;
}

function reportOf(
  all: readonly SegmentPlan[],
  segments: readonly SegmentPlan[],
  recordsLost: number | undefined,
  index: RepairReport['index'],
): RepairReport {
  let bytesLost = 0;
  for (const { fills, end, size, torn } of segments) {
    for (const { from, to } of fills) bytesLost += Math.max(0, Math.min(to, size) - from);
    bytesLost += Math.max(0, size - torn - end);
  }
  const recordsKept = all.reduce((sum, { records }) => sum + records, 0);
  return { segments, recordsKept, recordsLost, bytesLost, index, forgottenBefore: undefined, formatDamaged: false, setAside: undefined };
}

/** Copies the files aside first, all of them, so that a full disk stops it before anything was changed. */
async function applyPlans({ dir, clock }: RepairOptions, plans: readonly SegmentPlan[]): Promise<string> {
  const aside = join(dir, 'set-aside', new Date(clock.now()).toISOString().replace(/[:.]/g, '-'));
  await makeFolder(aside, 0o700);
  for (const { path, header } of plans) if (header !== 'missing') await copyFile(path, join(aside, basename(path)));
  for (const plan of plans) await applyPlan(plan);
  await rm(columnsFolder(dir), { recursive: true, force: true });
  return aside;
}

async function applyPlan({ path, segment, createdAt, header, fills, end }: SegmentPlan): Promise<void> {
  const file = await open(path, header === 'missing' ? 'wx' : 'r+', 0o600);
  try {
    if (header !== 'whole') await file.write(encodeSegmentHeader(segment, createdAt), 0, SEGMENT_HEADER_BYTES, 0);
    for (const range of fills) await cover(range, (bytes, at) => file.write(bytes, 0, bytes.length, at));
    await file.truncate(end);
    await file.sync();
  } finally {
    await file.close();
  }
}

async function cover({ from, to }: Range, write: (bytes: Buffer, at: number) => Promise<unknown>): Promise<void> {
  // Half of what a frame may have: the last of them is never too small.
  const most = MAX_FRAME_BYTES / 2;
  for (let at = from; at < to; ) {
    const length = to - at <= most * 2 ? to - at : most;
    await write(fillerFrame(length), at);
    at += length;
  }
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
