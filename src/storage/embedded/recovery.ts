import type { Logger } from '../../base/lib/log.ts';
import type { StoreError } from '../contract/store.ts';
import type { Counters } from './counters.ts';
import { journalDamaged } from './damage.ts';
import { type Frame, frameEffects, frameHasRecord, frameRecordHash, frameRecordId } from './frame.ts';
import type { JournalFiles, SegmentFile } from './inspect-journal.ts';
import { newerFormat } from './inspect-journal.ts';
import { type IndexState, type LevelIndex, ROW } from './level-index.ts';
import { locationText } from './location.ts';
import { decodeEffects, pinCells } from './prepared-commit.ts';
import { FORMAT_VERSION, SEGMENT_HEADER_BYTES } from './segment-header.ts';
import { walkFrames, withFile } from './segment-reader.ts';
import { countFrame, Segments } from './segments.ts';
import type { Tail } from './tail.ts';

/** Where journal and index stand to each other; nothing was changed to find out. */
export interface JournalPlace {
  readonly segments: Segments;
  /** The state of the index, or that of an empty one. */
  readonly state: IndexState;
  /** Segments that retention dropped and whose files are still there. */
  readonly unfinished: readonly { readonly segment: number; readonly end: number }[];
  readonly journal: JournalFiles;
}

/**
 * Compares the journal with what the index says of it. Rejects with a StoreError when the index knows of frames that
 * are not there any more.
 */
export async function placeJournal(
  folder: string,
  index: LevelIndex,
  journal: JournalFiles,
  log: Pick<Logger, 'warn'>,
): Promise<JournalPlace> {
  const known = await index.state();
  if (known && known.format > FORMAT_VERSION) throw newerFormat('The index', known.format);
  const firstOnDisk = journal.files[0]?.segment ?? 1;
  if (known === undefined && firstOnDisk > 1)
    throw journalDamaged(
      `the index is empty and the journal in ${folder} does not begin at segment 1`,
      'Settings and totals of before were in the index',
    );
  const first = known?.first ?? 1;
  const files = journal.files.filter((file) => file.segment >= first);
  const unfinished = journal.files.filter((file) => file.segment < first).map(({ segment, bytes }) => ({ segment, end: bytes }));
  if (files.length > 0 && files[0]?.segment !== first) throw missing(folder, first);
  const segments = new Segments(folder, first);
  const state = known ?? { format: FORMAT_VERSION, segment: first, offset: SEGMENT_HEADER_BYTES, first, synced: false };
  for (const file of files) addSegment(segments, file, file.segment < state.segment ? sealedRow(index, file.segment) : undefined, state);
  const last = segments.get(segments.last);
  if (last && journal.last) last.end = journal.last.end;
  for (const info of segments) info.sealed = info.segment < segments.last;
  checkPosition(folder, segments, state, known !== undefined, log);
  return { segments, state, unfinished, journal };
}

/**
 * Applies everything behind the index's position to the tail, exactly once, and counts the records of those segments.
 * `flush` is called behind a whole segment that was replayed, so that even an index that is built anew needs the memory
 * of one segment.
 */
export async function catchUp(
  place: JournalPlace,
  tail: Tail,
  counters: Counters,
  log: Pick<Logger, 'info'>,
  flush: (segment: number, end: number) => Promise<void>,
): Promise<{ readonly lastReplayedId: string }> {
  const { segments, state, journal } = place;
  let lastReplayedId = '';
  let commits = 0;
  for (const info of segments) {
    if (info.segment < state.segment) continue;
    const { segment, end } = info;
    const from = segment === state.segment ? state.offset : SEGMENT_HEADER_BYTES;
    if (segment === segments.last && journal.last && from >= end) {
      info.records = journal.last.records;
      info.newest = journal.last.newest;
      continue;
    }
    const stop = await withFile(segments.path(segment), (file) =>
      walkFrames(file, SEGMENT_HEADER_BYTES, end, (frame, offset) => {
        countFrame(info, end, frameHasRecord(frame), frame.committedAt);
        if (offset < from) return false;
        commits += 1;
        const id = replay(frame, segment, offset, tail, counters);
        if (id > lastReplayedId) lastReplayedId = id;
        return false;
      }),
    );
    if (stop < end)
      throw journalDamaged(
        `segment ${segment}, offset ${stop} (${segments.path(segment)}), is no whole frame`,
        'The records there are lost; those behind it may be whole',
      );
    if (info.sealed && tail.active.commits > 0) await flush(segment, end);
  }
  if (commits > 0) log.info({ commits }, 'The end of the journal was replayed into the index');
  return { lastReplayedId };
}

function replay(frame: Frame, segment: number, offset: number, tail: Tail, counters: Counters): string {
  const effects = decodeEffects(frameEffects(frame));
  const cells = pinCells(effects, counters);
  const id = frameHasRecord(frame) ? frameRecordId(frame) : '';
  if (id === '') tail.apply('', '', '', effects, cells);
  else tail.apply(id, frameRecordHash(frame), locationText(segment, offset, frame.length), effects, cells);
  for (const cell of cells) counters.unpin(cell);
  return id;
}

export interface SealedRow {
  readonly end: number;
  readonly records: number;
  readonly newest: number | null;
}

/** What the index says of a closed segment. */
export function sealedRow(index: LevelIndex, segment: number): SealedRow | undefined {
  const text = index.get(ROW.segment + segment.toString(16).padStart(8, '0'));
  if (text === undefined) return undefined;
  const row: unknown = JSON.parse(text);
  if (typeof row !== 'object' || row === null || !('end' in row) || !('records' in row) || !('newest' in row)) return undefined;
  const { end, records, newest } = row;
  if (typeof end !== 'number' || typeof records !== 'number' || !(typeof newest === 'number' || newest === null)) return undefined;
  return { end, records, newest };
}

function addSegment(segments: Segments, file: SegmentFile, row: SealedRow | undefined, state: IndexState): void {
  const info = segments.add(file.segment, file.createdAt);
  info.end = file.bytes;
  if (file.segment >= state.segment) return;
  if (row === undefined)
    throw journalDamaged(
      `the index does not know segment ${file.segment} (${file.path}) although it was written behind it`,
      'None of its records may be lost',
    );
  if (file.bytes < row.end && state.synced)
    throw journalDamaged(
      `segment ${file.segment}, offset ${file.bytes} (${file.path}), ends ${row.end - file.bytes} bytes too early`,
      'The records of these bytes are lost',
    );
  info.end = Math.min(file.bytes, row.end);
  info.records = row.records;
  info.newest = row.newest ?? Number.NEGATIVE_INFINITY;
}

/**
 * The index may lag behind the journal, never lead: bytes up to its position are forced to the medium before it is
 * written. Without fsync the death of the machine can leave it ahead; that is said, and the lost records are gone.
 */
function checkPosition(folder: string, segments: Segments, state: IndexState, wasIndexed: boolean, log: Pick<Logger, 'warn'>): void {
  if (!wasIndexed) return;
  const end = segments.get(state.segment)?.end;
  if (end !== undefined && end >= state.offset) return;
  if (state.synced && end === undefined) throw missing(folder, state.segment);
  if (state.synced && end !== undefined)
    throw journalDamaged(
      `segment ${state.segment}, offset ${end} (${segments.path(state.segment)}), ends ${state.offset - end} bytes before what the index has read`,
      'The records of these bytes are lost',
    );
  log.warn(
    { segment: state.segment, offset: state.offset, end },
    'The journal ends before the index does: records of the last moments were lost with the machine',
  );
}

export function missing(folder: string, segment: number): StoreError {
  return journalDamaged(`segment ${segment} is missing in ${folder}`, 'Its records are lost');
}
