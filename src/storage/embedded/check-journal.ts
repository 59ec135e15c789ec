import { join } from 'node:path';
import { frameHasRecord, frameRecordHash, frameRecordId, frameText, isFiller } from './frame.ts';
import { inspectHeader, segmentNames } from './inspect-journal.ts';
import { journalFolder } from './layout.ts';
import { SEGMENT_HEADER_BYTES } from './segment-header.ts';
import { findFrame, walkFrames, withFile } from './segment-reader.ts';

/** One thing a deep check found, in journal order. */
export type JournalFinding =
  | {
      readonly kind: 'record';
      readonly segment: number;
      readonly offset: number;
      readonly recordId: string;
      readonly recordHash: string;
      readonly text: string;
    }
  /** What a repair has covered: records were here. */
  | { readonly kind: 'filler'; readonly segment: number; readonly offset: number; readonly bytes: number }
  /** A commit without a record. */
  | { readonly kind: 'effects'; readonly segment: number; readonly offset: number }
  /** Bytes that are no frame; good frames, or a later segment, follow. */
  | { readonly kind: 'damage'; readonly segment: number; readonly offset: number; readonly bytes: number; readonly message: string }
  /** An unfinished write at the very end: cut at the next start. Also seen when the gateway is writing meanwhile. */
  | { readonly kind: 'torn'; readonly segment: number; readonly offset: number; readonly bytes: number }
  | { readonly kind: 'segment'; readonly segment: number; readonly records: number; readonly bytes: number };

const FRAMES_PER_TURN = 256;

/**
 * Walks all frames of the journal in a data folder and verifies each; changes nothing and needs no lock. Goes on behind
 * damage. Throws a StoreError for a newer format only.
 */
export async function* checkJournal(dir: string): AsyncGenerator<JournalFinding, void> {
  const folder = journalFolder(dir);
  const names = await segmentNames(folder);
  let expected = names[0]?.segment ?? 1;
  for (const { segment, name } of names) {
    for (; expected < segment; expected += 1)
      yield { kind: 'damage', segment: expected, offset: 0, bytes: 0, message: 'the segment is missing' };
    expected = segment + 1;
    yield* checkSegment(join(folder, name), segment, segment === names.at(-1)?.segment);
  }
}

async function* checkSegment(path: string, segment: number, isLast: boolean): AsyncGenerator<JournalFinding, void> {
  const header = await inspectHeader(path, segment);
  const size = header?.bytes ?? (await withFile(path, async (file) => (await file.stat()).size));
  let records = 0;
  let at = SEGMENT_HEADER_BYTES;
  if (header === undefined) {
    const gap = await badBytes(path, segment, 0, size, isLast, 'the header is damaged');
    yield gap;
    at = gap.bytes;
  }
  while (at < size) {
    const { found, end } = await goodFrames(path, segment, at, size);
    for (const finding of found) {
      if (finding.kind === 'record') records += 1;
      yield finding;
    }
    at = end;
    if (at >= size || found.length >= FRAMES_PER_TURN) continue;
    const gap = await badBytes(path, segment, at, size, isLast, 'the frame is damaged');
    yield gap;
    at += gap.bytes;
  }
  yield { kind: 'segment', segment, records, bytes: size };
}

/** Good frames from `from` on, at most as many as one turn takes, and where they end. */
async function goodFrames(path: string, segment: number, from: number, size: number): Promise<{ found: JournalFinding[]; end: number }> {
  const found: JournalFinding[] = [];
  const end = await withFile(path, (file) =>
    walkFrames(file, from, size, (frame, offset) => {
      if (frameHasRecord(frame)) {
        found.push({
          kind: 'record',
          segment,
          offset,
          recordId: frameRecordId(frame),
          recordHash: frameRecordHash(frame),
          text: frameText(frame),
        });
      } else if (isFiller(frame)) found.push({ kind: 'filler', segment, offset, bytes: frame.length });
      else found.push({ kind: 'effects', segment, offset });
      return found.length >= FRAMES_PER_TURN;
    }),
  );
  return { found, end };
}

/**
 * What the bytes from `offset` to the next good frame are: damage, or in the last segment with nothing good behind them
 * a torn write.
 */
async function badBytes(
  path: string,
  segment: number,
  offset: number,
  size: number,
  isLast: boolean,
  message: string,
): Promise<Extract<JournalFinding, { kind: 'damage' | 'torn' }>> {
  const next = await withFile(path, (file) => findFrame(file, offset + 1, size));
  const bytes = (next ?? size) - offset;
  return next === undefined && isLast ? { kind: 'torn', segment, offset, bytes } : { kind: 'damage', segment, offset, bytes, message };
}
