import { codeOf } from '../../base/lib/gateway-error.ts';
import type { Files } from './files.ts';
import { frameHasRecord, frameRecordHash, frameRecordId } from './frame.ts';
import { type Indexer, segmentKey } from './indexer.ts';
import { type IndexRow, ROW } from './level-index.ts';
import { onSegment } from './record-pages.ts';
import { SEGMENT_HEADER_BYTES } from './segment-header.ts';
import { walkFrames } from './segment-reader.ts';
import type { Segments } from './segments.ts';

/** Invisible, while rows of it and its file may still be there. */
export interface DroppedSegment {
  readonly segment: number;
  /** Of its last visible frame. */
  readonly end: number;
}

const ROWS_PER_BATCH = 8_192;

/** The newest segment that may go: every segment up to it is sealed and holds no record of `epochMs` or later. */
export function removableThrough(segments: Segments, epochMs: number): number | undefined {
  let through: number | undefined;
  for (const info of segments) {
    if (!info.sealed || info.newest >= epochMs) break;
    through = info.segment;
  }
  return through;
}

/**
 * Removes one segment that readers do not see any more: first its rows in the index, then the file. Interrupted at any
 * point, it is done again from the start at the next opening, since the file goes last.
 */
export async function eraseSegment(segments: Segments, { segment, end }: DroppedSegment, indexer: Indexer, files: Files): Promise<void> {
  await onSegment(segments, segment, async (file) => {
    let at = SEGMENT_HEADER_BYTES;
    while (at < end) {
      const rows: IndexRow[] = [];
      const stop = await walkFrames(file, at, end, (frame) => {
        if (frameHasRecord(frame))
          rows.push([ROW.recordId + frameRecordId(frame), undefined], [ROW.recordHash + frameRecordHash(frame), undefined]);
        return rows.length >= ROWS_PER_BATCH;
      });
      await indexer.deleteRows(rows);
      if (stop === at) break;
      at = stop;
    }
  });
  await indexer.deleteRows([[segmentKey(segment), undefined]]);
  await files.remove(segments.path(segment)).catch((error: unknown) => {
    if (codeOf(error) !== 'ENOENT') throw error;
  });
}
