import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Clock } from '../../../src/base/lib/clock.ts';
import type { EmbeddedStore } from '../../../src/storage/embedded/embedded-store.ts';
import { type Files, systemFiles } from '../../../src/storage/embedded/files.ts';
import { type EmbeddedStoreOptions, openEmbeddedStore } from '../../../src/storage/embedded/open-embedded-store.ts';
import type { Tap } from '../../contract/store-under-test.ts';

/** A clock that only moves when it is told to. */
export class ManualClock implements Clock {
  #now = 1_795_000_000_000;
  #monotonic = 0;
  #timers: { at: number; callback: () => void }[] = [];

  now(): number {
    return this.#now;
  }

  monotonic(): number {
    return this.#monotonic;
  }

  after(ms: number, callback: () => void): () => void {
    const timer = { at: this.#monotonic + ms, callback };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  }

  get timers(): number {
    return this.#timers.length;
  }

  advance(ms: number): void {
    this.#now += ms;
    this.#monotonic += ms;
    const due = this.#timers.filter((timer) => timer.at <= this.#monotonic);
    this.#timers = this.#timers.filter((timer) => timer.at > this.#monotonic);
    for (const timer of due) timer.callback();
  }
}

/** Passes through to the system until told to fail. */
export class FaultyFiles implements Files {
  /** Bytes that still fit; a write beyond them writes what fits and then fails. */
  room = Number.POSITIVE_INFINITY;
  failTruncate = false;
  failSync = false;
  failRemove = false;
  /** What the disk waits for before it forces anything to the medium. */
  beforeSync: Promise<void> | undefined;
  /** Milliseconds every write takes on the clock. */
  writeTakes = 0;
  /** Asynchronous writes are done before the event loop comes round. */
  doneAtOnce = false;
  writes = 0;
  asynchronousWrites = 0;
  syncs = 0;
  readonly clock: ManualClock;

  constructor(clock: ManualClock) {
    this.clock = clock;
  }

  create = systemFiles.create;
  open = systemFiles.open;
  close = systemFiles.close;
  unlink = systemFiles.unlink;
  syncFolder = systemFiles.syncFolder;

  writeSync(fd: number, bytes: Buffer, from: number, length: number, position: number): number {
    this.writes += 1;
    this.clock.advance(this.writeTakes);
    const fits = Math.min(length, this.room);
    if (fits <= 0) throw full();
    this.room -= fits;
    return systemFiles.writeSync(fd, bytes, from, fits, position);
  }

  async write(fd: number, bytes: Buffer, from: number, length: number, position: number): Promise<number> {
    this.asynchronousWrites += 1;
    this.clock.advance(this.writeTakes);
    const fits = Math.min(length, this.room);
    if (fits <= 0) throw full();
    this.room -= fits;
    return (this.doneAtOnce ? systemFiles.writeSync : systemFiles.write)(fd, bytes, from, fits, position);
  }

  truncate(fd: number, length: number): void {
    if (this.failTruncate) throw Object.assign(new Error('EIO: i/o error, ftruncate'), { code: 'EIO' });
    systemFiles.truncate(fd, length);
  }

  async remove(path: string): Promise<void> {
    if (this.failRemove) throw Object.assign(new Error('EIO: i/o error, unlink'), { code: 'EIO' });
    return systemFiles.remove(path);
  }

  async datasync(fd: number): Promise<void> {
    this.syncs += 1;
    if (this.failSync) throw Object.assign(new Error('EIO: i/o error, fdatasync'), { code: 'EIO' });
    await this.beforeSync;
    return systemFiles.datasync(fd);
  }
}

function full(): Error {
  return Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });
}

export interface LoggedLine {
  readonly level: 'info' | 'warn' | 'error';
  readonly fields: object;
  readonly message: string;
}

/** One data folder of a test, removed with it; every store opened through it is closed with it. */
export class StoreRig {
  readonly dir: string;
  readonly clock = new ManualClock();
  readonly files = new FaultyFiles(this.clock);
  readonly lines: LoggedLine[] = [];
  readonly #t: Tap;
  readonly #options: Partial<EmbeddedStoreOptions>;

  constructor(t: Tap, options: Partial<EmbeddedStoreOptions> = {}) {
    this.#t = t;
    this.#options = options;
    const root = mkdtempSync(join(tmpdir(), 'gw-store-'));
    this.dir = join(root, 'data');
    t.teardown(() => rmSync(root, { recursive: true, force: true }));
  }

  async open(dir: string = this.dir): Promise<EmbeddedStore> {
    const store = await openEmbeddedStore({
      dir,
      fsync: 'off',
      clock: this.clock,
      files: this.files,
      segmentBytes: 16 * 1024,
      log: {
        info: (fields, message) => this.lines.push({ level: 'info', fields, message }),
        warn: (fields, message) => this.lines.push({ level: 'warn', fields, message }),
        error: (fields, message) => this.lines.push({ level: 'error', fields, message }),
      },
      ...this.#options,
    });
    this.#t.teardown(() => store.close());
    return store;
  }

  /** Another folder with the bytes of now: what a process that died at this moment would have left behind. */
  snapshot(name: string, from: string = this.dir): string {
    const copy = `${this.dir}-${name}`;
    rmSync(copy, { recursive: true, force: true });
    cpSync(from, copy, { recursive: true });
    return copy;
  }
}
