import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type Frame, frameHasRecord, frameRecordHash, frameRecordId, MIN_FRAME_BYTES } from './frame.ts';
import { inspectHeader, segmentNames } from './inspect-journal.ts';
import { SEGMENT_HEADER_BYTES, segmentFileName } from './segment-header.ts';
import { findFrame, walkFrames, withFile } from './segment-reader.ts';

/** Bytes of a segment: from, and behind the last of them. */
export interface Range {
  readonly from: number;
  readonly to: number;
}

/** A record that can be read, and where. */
export interface SoundRecord {
  readonly id: string;
  readonly hash: string;
  readonly offset: number;
  readonly length: number;
}

/**
 * What is to be done with one segment; offsets of whole frames never change, since the index and older positions name
 * them.
 */
export interface SegmentPlan {
  readonly segment: number;
  readonly path: string;
  /** Milliseconds since the epoch, for a header that is written anew. */
  readonly createdAt: number;
  /** `missing`: there is no file. */
  readonly header: 'whole' | 'damaged' | 'missing';
  /** What no frame can be read of, to be covered by a frame that says nothing. */
  readonly fills: readonly Range[];
  /** Where the file is to end. */
  readonly end: number;
  readonly size: number;
  readonly records: number;
  /** Where they lie; of a damaged segment only. */
  readonly kept: readonly SoundRecord[];
  /** Newest `committed_at` of its records; -Infinity without records. */
  readonly newest: number;
  /** Ids of records that can be read but not kept. */
  readonly dropped: readonly string[];
  /** Bytes behind the last whole frame that are an unfinished write, as a crash leaves it. */
  readonly torn: number;
}

/** True when there is anything to do that a start would not do by itself. */
export function isDamaged({ header, fills, end, size, torn }: SegmentPlan): boolean {
  return header !== 'whole' || fills.length > 0 || end !== size - torn;
}

export interface PlanOptions {
  /** Segments before it are none of ours any more. */
  readonly first: number;
  /** The last segment there must be. */
  readonly last: number;
  /** Offset as far as which the index has read a segment; 0 when it has not. */
  readonly indexedTo: (segment: number) => number;
}

/** By the name of a frame that lies behind damage, where that frame is first met in the journal: `segment offset`. */
type Places = ReadonlyMap<string, string>;

/**
 * Reads every segment and says what a repair would do. Changes nothing. What lies behind damage may be an old piece of
 * the journal that the disk has put there; it must not count twice, so that such frames are looked for in all of it
 * first.
 */
export async function planRepair(folder: string, options: PlanOptions): Promise<readonly SegmentPlan[]> {
  const suspects = new Set<string>();
  const plans = await planAll(folder, options, new Map(), suspects);
  return suspects.size === 0 ? plans : planAll(folder, options, await firstPlaces(folder, options.first, suspects), new Set());
}

async function planAll(folder: string, options: PlanOptions, places: Places, suspects: Set<string>): Promise<readonly SegmentPlan[]> {
  const { first, last, indexedTo } = options;
  const names = new Map((await segmentNames(folder)).map(({ segment, name }) => [segment, name]));
  const through = Math.max(last, ...names.keys());
  const plans: SegmentPlan[] = [];
  let createdAt = 0;
  for (let segment = first; segment <= through; segment += 1) {
    const path = join(folder, names.get(segment) ?? segmentFileName(segment));
    const look = { segment, path, isLast: segment === through, atLeast: indexedTo(segment), createdAt, places, suspects };
    const plan = names.has(segment) ? await planSegment(look) : missing(look);
    // A last file that was begun and never written to is removed by every start.
    if (plan === undefined) continue;
    createdAt = plan.createdAt;
    plans.push(plan);
  }
  return plans;
}

async function firstPlaces(folder: string, first: number, suspects: ReadonlySet<string>): Promise<Places> {
  const places = new Map<string, string>();
  for (const { segment, name } of await segmentNames(folder)) {
    if (segment < first) continue;
    await eachFrame(join(folder, name), 0, (frame, offset) => {
      const of = nameOf(frame);
      if (suspects.has(of) && !places.has(of)) places.set(of, `${segment} ${offset}`);
      return undefined;
    });
  }
  return places;
}

/** Visits every whole frame of a file from `from` on, also those behind damage. */
async function eachFrame(path: string, from: number, visit: (frame: Frame, offset: number) => undefined): Promise<void> {
  await withFile(path, async (file) => {
    const { size } = await file.stat();
    let at: number | undefined = from;
    while (at !== undefined && at < size) {
      const end = await walkFrames(file, at, size, visit);
      at = end < size ? await findFrame(file, end + (end === at ? 1 : 0), size) : undefined;
    }
  });
}

interface Look {
  readonly segment: number;
  readonly path: string;
  readonly isLast: boolean;
  readonly atLeast: number;
  /** Of the segment before. */
  readonly createdAt: number;
  readonly places: Places;
  /** Gets the names of frames behind damage. */
  readonly suspects: Set<string>;
}

function missing({ segment, path, atLeast, createdAt }: Look): SegmentPlan {
  const fills = atLeast > SEGMENT_HEADER_BYTES ? [fillOf(SEGMENT_HEADER_BYTES, atLeast)] : [];
  return {
    segment,
    path,
    createdAt,
    header: 'missing',
    fills,
    end: fills.at(-1)?.to ?? SEGMENT_HEADER_BYTES,
    size: 0,
    records: 0,
    kept: [],
    newest: Number.NEGATIVE_INFINITY,
    dropped: [],
    torn: 0,
  };
}

async function planSegment(look: Look): Promise<SegmentPlan | undefined> {
  const { segment, path, isLast, atLeast, createdAt: before, places, suspects } = look;
  const header = await inspectHeader(path, segment);
  const { size, mtimeMs } = await stat(path);
  const scan = new SegmentScan(header === undefined ? 0 : SEGMENT_HEADER_BYTES, segment, places, suspects);
  await eachFrame(path, scan.end, (frame, offset) => scan.take(frame, offset));
  if (header === undefined && scan.end === 0 && isLast && atLeast === 0) return undefined;
  const fills = [...scan.fills];
  let end = scan.end === 0 ? SEGMENT_HEADER_BYTES : scan.end;
  const rest = size - scan.end;
  if (atLeast > end) {
    const fill = fillOf(end, atLeast);
    fills.push(fill);
    end = fill.to;
  }
  // What a crash leaves at the end of the last segment is no damage: nothing that was acknowledged is behind it, and
  // every start cuts it.
  const torn = isLast && header !== undefined && end === scan.end && !scan.endsInCopies ? rest : 0;
  const { kept, newest, dropped, oldest } = scan;
  const createdAt = header?.createdAt ?? oldest ?? Math.max(before, mtimeMs);
  const state = header ? 'whole' : 'damaged';
  const plan: SegmentPlan = {
    segment,
    path,
    createdAt,
    header: state,
    fills,
    end,
    size,
    records: kept.length,
    kept,
    newest,
    dropped,
    torn,
  };
  return isDamaged(plan) ? plan : { ...plan, kept: [] };
}

/** Whole frames of a segment in order, and the gaps between them. */
class SegmentScan {
  readonly fills: Range[] = [];
  readonly dropped: string[] = [];
  readonly kept: SoundRecord[] = [];
  newest = Number.NEGATIVE_INFINITY;
  oldest: number | undefined;
  /** Behind the last frame that is kept; 0 while not even the header is known. */
  end: number;
  /** Behind the last frame that is kept there are whole ones that are not. */
  endsInCopies = false;
  #isBehindDamage = false;
  readonly #segment: number;
  readonly #places: Places;
  readonly #suspects: Set<string>;

  constructor(end: number, segment: number, places: Places, suspects: Set<string>) {
    this.end = end;
    this.#segment = segment;
    this.#places = places;
    this.#suspects = suspects;
  }

  take(frame: Frame, offset: number): undefined {
    if (offset < SEGMENT_HEADER_BYTES) return undefined;
    const from = Math.max(this.end, SEGMENT_HEADER_BYTES);
    if (offset > from || this.#isBehindDamage) {
      this.#isBehindDamage = true;
      const name = nameOf(frame);
      this.#suspects.add(name);
      // Such a copy is left to the gap that it lies in.
      const place = this.#places.get(name);
      if (place !== undefined && place !== `${this.#segment} ${offset}`) {
        this.endsInCopies = true;
        return undefined;
      }
    }
    this.endsInCopies = false;
    if (offset > from) {
      const gap = offset - from;
      // No frame is so small: it takes the next one along.
      if (gap < MIN_FRAME_BYTES) {
        if (frameHasRecord(frame)) this.dropped.push(frameRecordId(frame));
        this.fills.push({ from, to: offset + frame.length });
        this.end = offset + frame.length;
        return undefined;
      }
      this.fills.push({ from, to: offset });
    }
    this.end = offset + frame.length;
    this.oldest ??= frame.committedAt;
    if (frameHasRecord(frame)) {
      this.kept.push({ id: frameRecordId(frame), hash: frameRecordHash(frame), offset, length: frame.length });
      this.newest = Math.max(this.newest, frame.committedAt);
    }
    return undefined;
  }
}

function nameOf(frame: Frame): string {
  if (frameHasRecord(frame)) return frameRecordId(frame);
  return `${frame.bytes.readUInt32LE(frame.start + 4)} ${frame.length} ${frame.committedAt}`;
}

function fillOf(from: number, to: number): Range {
  return { from, to: Math.max(to, from + MIN_FRAME_BYTES) };
}
