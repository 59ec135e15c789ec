import * as fs from 'node:fs';
import { type Clock, systemClock } from './clock.ts';
import { codeOf } from './gateway-error.ts';

/**
 * How long a line waits for company: a write of its own would cost more than the request that it tells of may cost in
 * all.
 */
const WAIT_MS = 10;
const RETRY_MS = 50;
const FIRST_CAPACITY = 64 * 1024;
/** A reader that takes nothing must not fill our memory: what is beyond this is dropped, and the loss is told. */
const MAX_WAITING = 16 * 1024 * 1024;
/** How long flushing at the end may wait for a slow reader. */
const LAST_WAIT_MS = 1_000;
/** UTF-8 bytes per UTF-16 code unit. */
const MOST_BYTES = 3;

/** What is used of `node:fs`; tests put a stubborn one in its place. */
export interface WritableFile {
  write(fd: number, bytes: Buffer, offset: number, length: number, at: null, done: (error: Error | null, written: number) => void): void;
  writeSync(fd: number, bytes: Buffer, offset: number): number;
}

/**
 * Writes lines to a file descriptor behind the event loop, in groups. Whoever makes one flushes it when the process
 * exits.
 */
export class LineWriter {
  readonly #fd: number;
  readonly #clock: Clock;
  readonly #file: WritableFile;
  /**
   * Lines are copied here at once: kept as strings they would outlive a collection of garbage, which then costs more
   * than the lines.
   */
  #waiting = Buffer.allocUnsafeSlow(FIRST_CAPACITY);
  #end = 0;
  /** Takes the place of `#waiting` while that is written. */
  #spare = Buffer.allocUnsafeSlow(FIRST_CAPACITY);
  #dropped = 0;
  #writing = false;
  #scheduled = false;

  constructor(fd: number, clock: Clock = systemClock, file: WritableFile = fs) {
    this.#fd = fd;
    this.#clock = clock;
    this.#file = file;
  }

  /** Takes one line with its line end. */
  write(line: string): void {
    if (!this.#hasRoom(line.length * MOST_BYTES)) {
      this.#dropped++;
      return;
    }
    this.#end += this.#waiting.write(line, this.#end);
    if (!this.#scheduled && !this.#writing) this.#later();
  }

  /** Writes at once what waits. A reader that is gone loses it. */
  flush(): void {
    this.#tellLoss();
    const bytes = this.#waiting.subarray(0, this.#end);
    this.#end = 0;
    for (let at = 0, waited = 0; at < bytes.length; ) {
      try {
        at += this.#file.writeSync(this.#fd, bytes, at);
      } catch (error) {
        if (!isBusy(error) || waited >= LAST_WAIT_MS) return;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, RETRY_MS);
        waited += RETRY_MS;
      }
    }
  }

  #later(): void {
    this.#scheduled = true;
    this.#clock.after(WAIT_MS, () => {
      this.#scheduled = false;
      if (!this.#writing && this.#end > 0) this.#next();
    });
  }

  #next(): void {
    this.#tellLoss();
    const bytes = this.#waiting.subarray(0, this.#end);
    [this.#waiting, this.#spare] = [this.#spare, this.#waiting];
    this.#end = 0;
    this.#put(bytes, 0);
  }

  #tellLoss(): void {
    if (this.#dropped === 0) return;
    const line = `${JSON.stringify({ level: 'warn', dropped: this.#dropped, msg: 'the reader of the log is too slow; lines were dropped' })}\n`;
    if (!this.#hasRoom(line.length)) return;
    this.#dropped = 0;
    this.#end += this.#waiting.write(line, this.#end);
  }

  #hasRoom(bytes: number): boolean {
    const needed = this.#end + bytes;
    if (needed <= this.#waiting.length) return true;
    if (needed > MAX_WAITING) return false;
    const grown = Buffer.allocUnsafeSlow(Math.max(needed, this.#waiting.length * 2));
    this.#waiting.copy(grown, 0, 0, this.#end);
    this.#waiting = grown;
    return true;
  }

  #put(bytes: Buffer, from: number): void {
    this.#writing = true;
    this.#file.write(this.#fd, bytes, from, bytes.length - from, null, (error, written) => {
      if (error !== null && isBusy(error)) this.#clock.after(RETRY_MS, () => this.#put(bytes, from));
      else if (error === null && from + written < bytes.length) this.#put(bytes, from + written);
      else this.#written();
    });
  }

  #written(): void {
    this.#writing = false;
    if (this.#spare.length > FIRST_CAPACITY) this.#spare = Buffer.allocUnsafeSlow(FIRST_CAPACITY);
    if (this.#end > 0) this.#later();
  }
}

function isBusy(error: unknown): boolean {
  return ['EAGAIN', 'EBUSY'].includes(codeOf(error));
}
