/*
 * What commands print, written to its end: a write that fails is told and makes the exit code other than 0. A reader
 * that has gone (`gw env | head -1`) has what it wanted, and is no failure.
 */
import { writeSync } from 'node:fs';
import { Socket } from 'node:net';
import { Writable } from 'node:stream';
import { codeOf, messageOf } from '../base/lib/gateway-error.ts';
import { type CliIo, EXIT_OK, EXIT_USAGE } from './command.ts';

const STANDARD_OUTPUT = 1;
/** What the system says of a reader that has gone. */
const READER_GONE: ReadonlySet<string> = new Set(['EPIPE', 'ECONNRESET', 'EOF']);

/** Nothing more of what is printed is taken: a command that prints for long ends with it. */
export class OutputLost extends Error {
  override readonly name = 'OutputLost';
}

/** As that of `node:fs`; tests put a stubborn one in its place. */
export type WriteSync = (fd: number, bytes: Uint8Array, offset: number) => number;

/**
 * Standard output as a stream. Pipes and terminals are the process's own; for files and devices Node's takes a part
 * that was written for the whole, so the rest of it would be lost without an error where the disk becomes full.
 */
export function wholeOutput(own: Writable = process.stdout, write: WriteSync = writeSync): Writable {
  if (own instanceof Socket) return own;
  return new Writable({
    write(chunk: Buffer, _encoding, done) {
      try {
        for (let at = 0; at < chunk.length; ) at += write(STANDARD_OUTPUT, chunk, at);
      } catch (error) {
        done(error instanceof Error ? error : new Error(messageOf(error)));
        return;
      }
      done();
    },
  });
}

/** Prints texts, and knows whether all of them were taken. */
export class StandardOutput {
  readonly #stream: Writable;
  #pending = 0;
  #error: Error | undefined;
  readonly #waiting: (() => void)[] = [];

  constructor(stream: Writable = wholeOutput()) {
    this.#stream = stream;
    stream.on('error', (error) => this.#fail(error));
  }

  /** What is printed after a failure is dropped. */
  write(text: string): void {
    if (this.#error !== undefined) return;
    this.#pending += 1;
    this.#stream.write(text, (error) => {
      this.#pending -= 1;
      if (error) this.#fail(error);
      if (this.#pending === 0) this.#wake();
    });
  }

  /** Waits until what was printed is taken. @throws OutputLost when it is not, or nothing more will be */
  async written(): Promise<void> {
    if (this.#pending > 0 && this.#error === undefined) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    if (this.#error !== undefined) throw new OutputLost(messageOf(this.#error), { cause: this.#error });
  }

  /**
   * Waits for the last of it.
   * @param code with which the command ended
   * @param tell says to a person that something is missing
   * @returns the exit code of the program
   */
  async end(code: number, tell: (text: string) => void): Promise<number> {
    await this.written().catch(() => undefined);
    if (this.#error === undefined || isReaderGone(this.#error)) return code;
    tell(lossText(this.#error));
    return code === EXIT_OK ? EXIT_USAGE : code;
  }

  #fail(error: Error): void {
    this.#error ??= error;
    this.#wake();
  }

  #wake(): void {
    for (const wake of this.#waiting.splice(0)) wake();
  }
}

/** Whether a failed write means no more than that nobody reads on. */
export function isReaderGone(error: Error): boolean {
  return READER_GONE.has(codeOf(error));
}

/**
 * Before a command waits for a person who has read what it printed.
 * @throws OutputLost when that is not whole; a reader that has gone is none
 */
export async function isShown(io: Pick<CliIo, 'written'>): Promise<void> {
  try {
    await io.written?.();
  } catch (error) {
    if (!(error instanceof OutputLost && error.cause instanceof Error && isReaderGone(error.cause))) throw error;
  }
}

/** For a person, with what is to be thought of what was printed. */
export function lossText(error: Error): string {
  return `standard output cannot be written (${messageOf(error)}): what was printed is not whole`;
}
