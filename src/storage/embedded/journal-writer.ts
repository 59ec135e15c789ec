import type { Clock } from '../../base/lib/clock.ts';
import type { Files } from './files.ts';
import { encodeSegmentHeader, SEGMENT_HEADER_BYTES } from './segment-header.ts';
import type { SegmentInfo, Segments } from './segments.ts';

/** When written bytes are forced to the medium: with every group, every so many milliseconds, never. */
export type Fsync = 'always' | 'off' | number;

export interface JournalWriterOptions {
  readonly segments: Segments;
  readonly files: Files;
  readonly clock: Clock;
  readonly fsync: Fsync;
  /** A segment is closed when the next group would make it larger. */
  readonly segmentBytes: number;
  /** A segment is closed when it is this old, so that retention reaches the records of a quiet gateway. */
  readonly segmentAgeMs: number;
}

interface OpenFile {
  readonly fd: number;
  /** Holds bytes that may not be on the medium. */
  dirty: boolean;
}

interface OpenSegment {
  readonly info: SegmentInfo;
  readonly file: OpenFile;
}

/** A write that takes longer than this makes the next ones asynchronous. */
const SLOW_WRITE_MS = 2;
/** So many asynchronous writes in a row must be quick before writing is synchronous again. */
const QUICK_WRITES = 16;
/**
 * Quick is a write that takes no longer than this, or is done when the event loop comes round: under load the loop is
 * what its end waits for.
 */
const QUICK_WRITE_MS = 1;
/** Larger than the slack that a file system may have left in the file's last block. */
const PROBE = Buffer.alloc(64 * 1024);

/**
 * Appends groups of frames to the last segment, always at the end of the last frame that is visible: what a failed
 * write left behind is truncated before anything else is written. One group at a time.
 */
export class JournalWriter {
  readonly #options: JournalWriterOptions;
  /** The active segment's file last; before it those of sealed segments that are not synced yet. */
  readonly #open: OpenFile[] = [];
  #slow = false;
  #quickWrites = 0;
  #namesDirty = false;
  #syncing: Promise<void> | undefined;
  /** The segment that is written to. A field, because every commit asks for it several times. */
  active: SegmentInfo;

  private constructor(options: JournalWriterOptions, { info, file }: OpenSegment) {
    this.#options = options;
    this.active = info;
    this.#open.push(file);
  }

  /** Opens the last segment, or creates the first one. Throws the system's errors. */
  static open(options: JournalWriterOptions): JournalWriter {
    const { segments, files } = options;
    const info = segments.get(segments.last);
    if (info) return new JournalWriter(options, { info, file: { fd: files.open(segments.path(segments.last)), dirty: true } });
    const writer = new JournalWriter(options, createSegment(options));
    writer.#namesDirty = true;
    return writer;
  }

  /** True while writes go through the thread pool because the disk was slow. */
  get asynchronous(): boolean {
    return this.#slow;
  }

  /**
   * Writes `bytes` behind the last visible frame. When it returns, or when what it returns resolves, they are stored,
   * and with `fsync: always` on the medium. Throws or rejects with the system's error; then {@link recover} must
   * succeed before the next append. The caller moves `active.end`.
   */
  append(bytes: Buffer): Promise<void> | undefined {
    this.#rotateIfDue(bytes.length);
    const { files, clock, fsync } = this.#options;
    const file = this.#file();
    if (this.#slow) return this.#appendAsynchronously(file, bytes);
    const started = clock.monotonic();
    const { end } = this.active;
    let written = 0;
    while (written < bytes.length) written += some(files.writeSync(file.fd, bytes, written, bytes.length - written, end + written));
    file.dirty = true;
    if (clock.monotonic() - started > SLOW_WRITE_MS) this.#slow = true;
    return fsync === 'always' ? this.sync() : undefined;
  }

  /**
   * Closes the active segment and begins the next one. Throws the system's errors and then leaves everything as it was.
   */
  rotate(): void {
    const { info, file } = createSegment(this.#options);
    this.active.sealed = true;
    this.active = info;
    this.#open.push(file);
    this.#namesDirty = true;
    // A sync that is under way holds files that count as clean already; it closes them when it is over.
    if (this.#syncing === undefined) this.#closeClean();
  }

  /**
   * Forces everything that was written before the call to the medium, one call after the other. Rejects with the
   * system's error.
   */
  async sync(): Promise<void> {
    while (this.#syncing) await this.#syncing.catch(() => undefined);
    this.#syncing = this.#syncDirty();
    try {
      await this.#syncing;
    } finally {
      this.#syncing = undefined;
    }
  }

  /**
   * After a failed append or sync: cuts what was left behind and tries whether the disk takes bytes again. Rejects with
   * the system's error.
   */
  async recover(): Promise<void> {
    const { files, fsync } = this.#options;
    const { fd } = this.#file();
    const end = this.active.end;
    files.truncate(fd, end);
    try {
      let written = 0;
      while (written < PROBE.length) written += some(await files.write(fd, PROBE, written, PROBE.length - written, end + written));
      this.#file().dirty = true;
      if (fsync !== 'off') await this.sync();
    } finally {
      files.truncate(fd, end);
    }
  }

  /** Cuts what a failed append left behind. Throws the system's error. */
  cut(): void {
    this.#options.files.truncate(this.#file().fd, this.active.end);
  }

  close(): void {
    for (const file of this.#open.splice(0)) this.#options.files.close(file.fd);
  }

  async #appendAsynchronously(file: OpenFile, bytes: Buffer): Promise<void> {
    const { files, clock, fsync } = this.#options;
    const started = clock.monotonic();
    const { end } = this.active;
    let cameRound = false;
    setImmediate(() => {
      cameRound = true;
    });
    let written = 0;
    while (written < bytes.length) written += some(await files.write(file.fd, bytes, written, bytes.length - written, end + written));
    file.dirty = true;
    const quick = !cameRound || clock.monotonic() - started <= QUICK_WRITE_MS;
    this.#quickWrites = quick ? this.#quickWrites + 1 : 0;
    if (this.#quickWrites >= QUICK_WRITES) {
      this.#slow = false;
      this.#quickWrites = 0;
    }
    if (fsync === 'always') await this.sync();
  }

  async #syncDirty(): Promise<void> {
    const { files, segments } = this.#options;
    if (this.#namesDirty) {
      await files.syncFolder(segments.folder);
      this.#namesDirty = false;
    }
    for (const file of this.#open.filter((open) => open.dirty)) {
      file.dirty = false;
      try {
        await files.datasync(file.fd);
      } catch (error) {
        file.dirty = true;
        throw error;
      }
    }
    this.#closeClean();
  }

  /** A segment of a clock that was ahead would wait for it otherwise. */
  #rotateIfDue(moreBytes: number): void {
    const { segmentBytes, segmentAgeMs, clock } = this.#options;
    const { end, createdAt } = this.active;
    if (end === SEGMENT_HEADER_BYTES) return;
    if (end + moreBytes > segmentBytes || Math.abs(clock.now() - createdAt) >= segmentAgeMs) this.rotate();
  }

  #file(): OpenFile {
    const file = this.#open.at(-1);
    if (file === undefined) throw new Error('The journal is closed');
    return file;
  }

  /** Closes the files of sealed segments that need no sync any more. */
  #closeClean(): void {
    const { files, fsync } = this.#options;
    for (let at = this.#open.length - 2; at >= 0; at -= 1) {
      const file = this.#open[at];
      if (file === undefined || (file.dirty && fsync !== 'off')) continue;
      this.#open.splice(at, 1);
      files.close(file.fd);
    }
  }
}

/** Creates the segment behind the last one. Throws the system's errors and then leaves everything as it was. */
function createSegment({ segments, files, clock }: JournalWriterOptions): OpenSegment {
  const segment = segments.last + 1;
  const createdAt = clock.now();
  const header = encodeSegmentHeader(segment, createdAt);
  const path = segments.path(segment);
  const fd = files.create(path);
  try {
    let written = 0;
    while (written < header.length) written += some(files.writeSync(fd, header, written, header.length - written, written));
  } catch (error) {
    files.close(fd);
    files.unlink(path);
    throw error;
  }
  return { info: segments.add(segment, createdAt), file: { fd, dirty: true } };
}

/** A write that reports success and no progress would be repeated for ever. */
function some(written: number): number {
  if (written > 0) return written;
  throw new Error('The disk takes no bytes and gives no reason');
}
