import { join } from 'node:path';
import { frameHasRecord, frameRecordHash, frameRecordId, frameText } from './frame.ts';
import { inspectHeader, segmentNames } from './inspect-journal.ts';
import { journalFolder } from './layout.ts';
import { SEGMENT_HEADER_BYTES } from './segment-header.ts';
import { findFrame, walkFrames, withFile } from './segment-reader.ts';

/** One thing a deep check found, in journal order. */
export type JournalFinding =
  | { readonly kind: 'record'; readonly segment: number; readonly offset: number; readonly recordId: string; readonly recordHash: string; readonly text: string }
  /** A commit without a record. */
  | { readonly kind: 'effects'; readonly segment: number; readonly offset: number }
  /** Bytes that are no frame; good frames, or a later segment, follow. */
  | { readonly kind: 'damage'; readonly segment: number; readonly offset: number; readonly bytes: number; readonly message: string }
  /** An unfinished write at the very end: cut at the next start. Also seen when the gateway is writing meanwhile. */
  | { readonly kind: 'torn'; readonly segment: number; readonly offset: number; readonly bytes: number }
  | { readonly kind: 'segment'; readonly segment: number; readonly records: number; readonly bytes: number };

const FRAMES_PER_TURN = 256;

/**
 * Walks all frames of the journal in a data folder and verifies each; changes nothing and needs no lock. Goes on behind damage. Throws a StoreError for a
 * newer format only.
 */
export async function* checkJournal(dir: string): AsyncGenerator<JournalFinding, void> {
  const folder = journalFolder(dir);
  const names = await segmentNames(folder);
  let expected = names[0]?.segment ?? 1;
  for (const { segment, name } of names) {
    for (; expected < segment; expected += 1) yield { kind: 'damage', segment: expected, offset: 0, bytes: 0, message: 'the segment is missing' };
    expected = segment + 1;
    yield* checkSegment(join(folder, name), segment, segment === names.at(-1)?.segment);
  }
}

async function* checkSegment(path: string, segment: number, isLast: boolean): AsyncGenerator<JournalFinding, void> {
  const known = await inspectHeader(path, segment);
  const size = known?.bytes ?? (await withFile(path, async (file) => (await file.stat()).size));
  let records = 0;
  let at = SEGMENT_HEADER_BYTES;
  if (known === undefined) {
    const next = await nextFrame(path, 0, size);
    if (next === undefined && isLast) return yield { kind: 'torn', segment, offset: 0, bytes: size };
    yield { kind: 'damage', segment, offset: 0, bytes: next ?? size, message: 'the header is damaged' };
    at = next ?? size;
  }
  while (at < size) {
    const found: JournalFinding[] = [];
    const from = at;
    at = await withFile(path, (file) =>
      walkFrames(file, from, size, (frame, offset) => {
        if (frameHasRecord(frame)) {
          found.push({ kind: 'record', segment, offset, recordId: frameRecordId(frame), recordHash: frameRecordHash(frame), text: frameText(frame) });
        } else found.push({ kind: 'effects', segment, offset });
        return found.length >= FRAMES_PER_TURN;
      }),
    );
    for (const finding of found) {
      if (finding.kind === 'record') records += 1;
      yield finding;
    }
    if (at >= size || found.length >= FRAMES_PER_TURN) continue;
    const next = await nextFrame(path, at + 1, size);
    if (next === undefined && isLast) yield { kind: 'torn', segment, offset: at, bytes: size - at };
    else yield { kind: 'damage', segment, offset: at, bytes: (next ?? size) - at, message: 'the frame is damaged' };
    at = next ?? size;
  }
  yield { kind: 'segment', segment, records, bytes: size };
}

function nextFrame(path: string, from: number, size: number): Promise<number | undefined> {
  return withFile(path, (file) => findFrame(file, from, size));
}
