import { GatewayError } from '../../base/lib/gateway-error.ts';
import { type Effect, type RecordCommit, StoreError } from '../contract/store.ts';
import { type Frame, frameEffects, frameHasRecord, frameRecordHash, frameRecordId, frameText, MAX_FRAME_BYTES } from './frame.ts';
import { parsePosition, positionText } from './location.ts';
import { decodeEffects, type PreparedEffect } from './prepared-commit.ts';
import { corruptFrame, onSegment } from './record-pages.ts';
import { SEGMENT_HEADER_BYTES } from './segment-header.ts';
import { walkFrames } from './segment-reader.ts';
import type { Segments } from './segments.ts';

/** One commit as the journal has it. */
export interface JournalCommit {
  readonly record: RecordCommit | undefined;
  readonly effects: readonly Effect[];
}

/** Some commits in the order in which they became visible. */
export interface JournalPiece {
  readonly commits: readonly JournalCommit[];
  /** Behind the last of them: where the next piece begins. */
  readonly next: string;
  /** Nothing that is visible stands behind it. */
  readonly isLast: boolean;
}

/** How much a piece has at most; one commit is taken whatever its size. */
export interface PieceLimits {
  readonly commits: number;
  /** Of frames. */
  readonly bytes: number;
}

/** What a journal has of commits. */
export interface JournalExtent {
  /** The place of the oldest commit that is kept, and the place behind the last one. */
  readonly begin: string;
  readonly end: string;
  readonly records: number;
}

/** The extent of the visible commits. */
export function journalExtent(segments: Segments): JournalExtent {
  let records = 0;
  for (const info of segments) records += info.records;
  const end = segments.get(segments.last)?.end ?? SEGMENT_HEADER_BYTES;
  return { begin: positionText(segments.first, SEGMENT_HEADER_BYTES), end: positionText(segments.last, end), records };
}

const FIRST_CHUNK_BYTES = 256 * 1024;

/**
 * What stands in a journal behind a place, for who carries it elsewhere: every visible commit once, in order. Places
 * are opaque, sort as the journal does, and stay valid when what was before them is removed.
 * @param from a `next` that was given before; undefined: from the oldest commit that is kept
 * @throws StoreError `corrupt` for a damaged frame, or when commits behind the place are not there any more;
 * GatewayError `invalid_request` for what is no place
 */
export async function readJournal(segments: Segments, from: string | undefined, limits: PieceLimits): Promise<JournalPiece> {
  let place = placeOf(segments, from);
  const commits: JournalCommit[] = [];
  let bytes = 0;
  const take = (frame: Frame): boolean => {
    bytes += frame.length;
    const commit = commitOf(frame);
    if (commit !== undefined) commits.push(commit);
    return commits.length >= limits.commits || bytes >= limits.bytes;
  };
  for (;;) {
    const offset = await readSegment(segments, place, take);
    const { last } = segments;
    const isWhole = offset >= (segments.get(place.segment)?.end ?? SEGMENT_HEADER_BYTES);
    const isFull = commits.length >= limits.commits || bytes >= limits.bytes;
    if (isFull || place.segment >= last)
      return { commits, next: positionText(place.segment, offset), isLast: isWhole && place.segment >= last };
    place = { segment: place.segment + 1, offset: SEGMENT_HEADER_BYTES };
  }
}

interface FeedPlace {
  readonly segment: number;
  readonly offset: number;
}

function placeOf(segments: Segments, from: string | undefined): FeedPlace {
  if (from === undefined) return { segment: segments.first, offset: SEGMENT_HEADER_BYTES };
  const place = parsePosition(from);
  const end = place && segments.get(place.segment)?.end;
  if (place === undefined || place.segment > segments.last || place.offset < SEGMENT_HEADER_BYTES || place.offset > (end ?? place.offset))
    throw new GatewayError('invalid_request', 'This journal never gave out the place from which it is to be read');
  if (place.segment < segments.first)
    throw new StoreError('corrupt', `The journal begins at segment ${segments.first}, and segment ${place.segment} is asked for`);
  return place;
}

/** Takes the visible frames of one segment until it is told to stop. @returns where it has stopped */
async function readSegment(segments: Segments, { segment, offset }: FeedPlace, take: (frame: Frame) => boolean): Promise<number> {
  const end = segments.get(segment)?.end ?? SEGMENT_HEADER_BYTES;
  if (offset >= end) return offset;
  const stopped = await onSegment(segments, segment, async (file) => {
    let at = offset;
    let chunk = FIRST_CHUNK_BYTES;
    let isDone = false;
    while (at < end && !isDone) {
      const stop = await walkFrames(file, at, Math.min(end, at + chunk), (frame) => (isDone = take(frame)));
      if (stop === at && chunk >= Math.min(end - at, MAX_FRAME_BYTES)) throw corruptFrame(segment, at);
      chunk = stop === at ? chunk * 4 : FIRST_CHUNK_BYTES;
      at = stop;
    }
    return at;
  });
  if (stopped === undefined) throw new StoreError('corrupt', `Segment ${segment} of the journal was removed while it was read`);
  return stopped;
}

/** Undefined for a frame that says nothing: what a repair has put in the place of a damaged one. */
function commitOf(frame: Frame): JournalCommit | undefined {
  const effects = decodeEffects(frameEffects(frame)).map(effectOf);
  if (!frameHasRecord(frame)) return effects.length === 0 ? undefined : { record: undefined, effects };
  const record = {
    record_id: frameRecordId(frame),
    record_hash: frameRecordHash(frame),
    text: frameText(frame),
    committed_at: frame.committedAt,
  };
  return { record, effects };
}

/** The effect as it was handed over. */
function effectOf(effect: PreparedEffect): Effect {
  const between = effect.key.indexOf('\0');
  const [space, key] = [effect.key.slice(0, between), effect.key.slice(between + 1)];
  if (effect.op === 'add') return { op: 'add', space, key, amounts: Object.fromEntries(effect.amounts) };
  return effect.op === 'delete' ? { op: 'delete', space, key } : { op: 'put', space, key, value: JSON.parse(effect.value) as unknown };
}
