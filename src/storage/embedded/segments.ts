import { join } from 'node:path';
import { SEGMENT_HEADER_BYTES, segmentFileName } from './segment-header.ts';

/** What is known about one segment without opening it. */
export interface SegmentInfo {
  readonly segment: number;
  readonly createdAt: number;
  /** End of the last visible frame. */
  end: number;
  records: number;
  /** Newest `committed_at` of its records; -Infinity without records. */
  newest: number;
  sealed: boolean;
}

/**
 * The segments of a journal, oldest first, without gaps. The last one is written to; readers see each as far as `end`.
 */
export class Segments {
  readonly folder: string;
  readonly #infos = new Map<number, SegmentInfo>();
  #first: number;
  #last: number;

  constructor(folder: string, first: number) {
    this.folder = folder;
    this.#first = first;
    this.#last = first - 1;
  }

  get first(): number {
    return this.#first;
  }

  get last(): number {
    return this.#last;
  }

  path(segment: number): string {
    return join(this.folder, segmentFileName(segment));
  }

  get(segment: number): SegmentInfo | undefined {
    return this.#infos.get(segment);
  }

  add(segment: number, createdAt: number): SegmentInfo {
    if (segment !== this.#last + 1) throw new Error(`Segment ${segment} does not follow ${this.#last}`);
    const info: SegmentInfo = {
      segment,
      createdAt,
      end: SEGMENT_HEADER_BYTES,
      records: 0,
      newest: Number.NEGATIVE_INFINITY,
      sealed: false,
    };
    this.#infos.set(segment, info);
    this.#last = segment;
    return info;
  }

  /** Forgets the oldest segments up to `segment`; readers do not see them from here on. */
  dropThrough(segment: number): void {
    for (; this.#first <= segment; this.#first += 1) this.#infos.delete(this.#first);
  }

  *[Symbol.iterator](): Generator<SegmentInfo> {
    for (let segment = this.#first; segment <= this.#last; segment += 1) {
      const info = this.#infos.get(segment);
      if (info) yield info;
    }
  }
}

/** Counts a visible frame of the segment. */
export function countFrame(info: SegmentInfo, end: number, hasRecord: boolean, committedAt: number): void {
  info.end = end;
  if (!hasRecord) return;
  info.records += 1;
  if (committedAt > info.newest) info.newest = committedAt;
}
