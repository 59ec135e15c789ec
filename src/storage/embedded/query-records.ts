import type { FileHandle } from 'node:fs/promises';
import { nextTurn } from '../../base/lib/loop-turns.ts';
import type { RecordQuery } from '../contract/record-query.ts';
import { checkQuery, unknownPosition } from '../contract/record-query.ts';
import type { StoredRecord } from '../contract/store.ts';
import { type Frame, frameAt, frameHasRecord, frameText } from './frame.ts';
import { parsePosition, positionText } from './location.ts';
import type { RecordColumns } from './record-columns.ts';
import { corruptFrame, knownPlace, onSegment, type Place, recordPage } from './record-pages.ts';
import type { SegmentColumns } from './segment-columns.ts';
import { readBytes, readFrame } from './segment-reader.ts';
import type { Segments } from './segments.ts';
import { selectRows } from './select-rows.ts';

/** Rows that are looked at in one go: a fraction of a millisecond. Behind them the event loop turns. */
const ROWS_PER_TURN = 65_536;
/** Of two frames that are not further apart one read brings both. */
const GAP_BYTES = 16 * 1024;
const MAX_READ_BYTES = 256 * 1024;
const SEGMENTS_AT_ONCE = 16;

/** What was found in one segment. */
interface Found {
  readonly segment: number;
  readonly columns: RecordColumns;
  /** In the order of the page. */
  readonly rows: readonly number[];
}

export interface QueryGround {
  readonly segments: Segments;
  readonly columns: SegmentColumns;
  readonly recordById: (recordId: string) => Promise<StoredRecord | undefined>;
}

/**
 * The page of a query. Without filters it is read straight from the journal, and one record is found by its id.
 * @throws TypeError for what the contract does not allow; GatewayError `invalid_request` for an unknown position
 */
export async function recordsOf(ground: QueryGround, query: RecordQuery): Promise<readonly StoredRecord[]> {
  const { after: position, limit, newestFirst = false, record_id: id, signal: _signal, ...filters } = query;
  checkQuery(query);
  const { segments, columns } = ground;
  let after = position === undefined ? undefined : knownPlace(position, segments.last);
  if (after && after.segment < segments.first) {
    if (newestFirst) return [];
    after = undefined;
  }
  if (id !== undefined) return oneRecord(ground, query, after, await ground.recordById(id));
  const hasFilters = Object.values(filters).some((filter) => filter !== undefined);
  return hasFilters ? queryRecords(segments, columns, query, after) : recordPage(segments, { limit, newestFirst }, after);
}

/** The record of an id, when it is behind the place and all other filters are true of it. */
async function oneRecord(
  { columns }: QueryGround,
  query: RecordQuery,
  after: Place | undefined,
  record: StoredRecord | undefined,
): Promise<readonly StoredRecord[]> {
  const place = record && parsePosition(record.position);
  if (after) await rowAt(columns, after);
  if (!record || !place) return [];
  if (after && (query.newestFirst ? !isBefore(place, after) : !isBefore(after, place))) return [];
  const row = await rowAt(columns, place);
  if (!row) return [];
  const only = { from: row.row, to: row.row + 1, limit: 1, newestFirst: false };
  return selectRows(row.columns, query, only).length > 0 ? [record] : [];
}

function isBefore(a: Place, b: Place): boolean {
  return a.segment === b.segment ? a.offset < b.offset : a.segment < b.segment;
}

/**
 * The row of a record; undefined when its segment is gone.
 * @throws GatewayError when there is no record at this place
 */
async function rowAt(
  all: SegmentColumns,
  { segment, offset }: Place,
): Promise<{ readonly columns: RecordColumns; readonly row: number } | undefined> {
  const columns = await all.of(segment);
  if (columns === undefined) return undefined;
  const row = firstAtLeast(columns.offsets, columns.rows, offset);
  if (row >= columns.rows || columns.offsets[row] !== offset) throw unknownPosition();
  return { columns, row };
}

/**
 * The page of a query with filters: rows are chosen in the columns, segment by segment and in order, until there are
 * enough, and then the records of these alone are read. Segments without a record of `since` or later are passed over.
 */
async function queryRecords(
  segments: Segments,
  columns: SegmentColumns,
  query: RecordQuery,
  after: Place | undefined,
): Promise<readonly StoredRecord[]> {
  for (;;) {
    const found = await choose(segments, columns, query, after);
    const page: StoredRecord[] = [];
    let isWhole = true;
    for (let at = 0; at < found.length; at += SEGMENTS_AT_ONCE) {
      const read = await Promise.all(found.slice(at, at + SEGMENTS_AT_ONCE).map((one) => readFound(segments, one)));
      for (const records of read) {
        isWhole &&= records !== undefined;
        page.push(...(records ?? []));
      }
    }
    // Retention took a segment between the look and the reading: what comes behind it takes its place.
    if (isWhole) return page;
  }
}

async function choose(segments: Segments, all: SegmentColumns, query: RecordQuery, after: Place | undefined): Promise<readonly Found[]> {
  if (after) await rowAt(all, after);
  const { newestFirst = false } = query;
  const found: Found[] = [];
  let left = query.limit;
  let looked = 0;
  for (const segment of worthALook(segments, query, after)) {
    query.signal?.throwIfAborted();
    const held = all.of(segment);
    const columns = held instanceof Promise ? await held : held;
    if (columns === undefined) continue;
    const [from, to] = range(columns, segment === after?.segment ? after.offset : undefined, newestFirst);
    const rows = selectRows(columns, query, { from, to, limit: left, newestFirst });
    if (rows.length > 0) found.push({ segment, columns, rows });
    left -= rows.length;
    if (left === 0) break;
    looked += to - from;
    if (looked < ROWS_PER_TURN) continue;
    looked = 0;
    await nextTurn();
  }
  return found;
}

/** The segments that may have something for the page, in its order. */
function* worthALook(segments: Segments, { newestFirst = false, since }: RecordQuery, after: Place | undefined): Generator<number, void> {
  const step = newestFirst ? -1 : 1;
  let segment = after?.segment ?? (newestFirst ? segments.last : segments.first);
  for (; segment >= segments.first && segment <= segments.last; segment += step) {
    const info = segments.get(segment);
    if (info && info.records > 0 && (since === undefined || info.newest >= since)) yield segment;
  }
}

/** The rows behind a frame, in the order of the page. */
function range({ offsets, rows }: RecordColumns, after: number | undefined, newestFirst: boolean): readonly [from: number, to: number] {
  if (after === undefined) return [0, rows];
  return newestFirst ? [0, firstAtLeast(offsets, rows, after)] : [firstAtLeast(offsets, rows, after + 1), rows];
}

function firstAtLeast(offsets: Uint32Array, rows: number, offset: number): number {
  let [low, high] = [0, rows];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((offsets[middle] ?? 0) >= offset) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Undefined when the segment is not there any more. */
async function readFound(segments: Segments, { segment, columns, rows }: Found): Promise<readonly StoredRecord[] | undefined> {
  const end = segments.get(segment)?.end;
  if (end === undefined) return undefined;
  const { offsets } = columns;
  const places = rows.map((row) => offsets[row] ?? 0);
  // Behind the frame of a row there may be others without a record; they are read with it.
  const endOf = new Map(rows.map((row, at) => [places[at] ?? 0, row + 1 < columns.rows ? (offsets[row + 1] ?? end) : end]));
  return onSegment(segments, segment, async (file) => {
    const texts = new Map<number, string>();
    await Promise.all(spansOf(endOf).map((span) => readSpan(file, segment, span, end, texts)));
    return places.map((offset) => ({ text: texts.get(offset) ?? '', position: positionText(segment, offset) }));
  });
}

interface Span {
  readonly offsets: number[];
  to: number;
}

/** What is read in one go. */
function spansOf(endOf: ReadonlyMap<number, number>): readonly Span[] {
  const spans: Span[] = [];
  for (const [offset, end] of [...endOf].sort(([a], [b]) => a - b)) {
    const last = spans.at(-1);
    const begin = last?.offsets[0] ?? 0;
    if (last && offset - last.to <= GAP_BYTES && end - begin <= MAX_READ_BYTES) {
      last.offsets.push(offset);
      last.to = end;
    } else spans.push({ offsets: [offset], to: end });
  }
  return spans;
}

async function readSpan(file: FileHandle, segment: number, { offsets, to }: Span, end: number, texts: Map<number, string>): Promise<void> {
  const begin = offsets[0] ?? 0;
  const isLong = to - begin > MAX_READ_BYTES;
  const bytes = isLong ? Buffer.alloc(0) : await readBytes(file, begin, to - begin);
  for (const offset of offsets) {
    const frame: Frame | undefined = isLong ? await readFrame(file, offset, end) : frameAt(bytes, offset - begin);
    if (frame === undefined || !frameHasRecord(frame)) throw corruptFrame(segment, offset);
    texts.set(offset, frameText(frame));
  }
}
