/*
 * The command line `gw`. Each command is one file and one row of the table in run.ts. Commands talk through the CliIo
 * that they are given and answer with an exit code; they start no server and keep nothing running.
 */
import type { Environment } from '../base/config/settings-reader.ts';

/** Where a command reads and writes. */
export interface CliIo {
  stdout(text: string): void;
  stderr(text: string): void;
  /**
   * Waits until what was printed is taken: for commands that print for long.
   * @throws OutputLost when nothing more is taken; absent: it always is
   */
  written?(): Promise<void>;
  /** Standard input to its end, at most `limit` bytes. @throws Error above it */
  stdin(limit: number): Promise<Uint8Array>;
  /** Lines of standard input as they come; those that are too long for one of a log are left out. */
  stdinLines?(): AsyncIterable<string>;
  /** Whether standard output is a terminal that shows colours. */
  readonly colours?: boolean;
  /** Of the terminal, in cells; absent: it is none. */
  readonly columns?: number | undefined;
  /** How a person calls it again, in texts that say what to do next; absent: `gw`. */
  readonly program?: string;
  /** Absent: the environment of the process. */
  readonly env?: Environment;
}

export interface Command {
  readonly name: string;
  /** What follows the name, as usage text. */
  readonly usage: string;
  /** One line. */
  readonly summary: string;
  /** Its options one by one, for `--help`. */
  readonly help?: string;
  /** What its group does when nothing else is said behind it: `gw audit` for `gw audit list`. */
  readonly usual?: true;
  /** Its arguments end with another program and that program's own, which are none of ours. */
  readonly wraps?: true;
  /**
   * Returns the exit code: 0 done, 1 the answer is no, 2 wrong use, unusable input, or an output that cannot be
   * written; 3 of `gw verify` alone.
   */
  run(args: readonly string[], io: CliIo): Promise<number>;
}

/** Wrong use of a command: one line for a person. */
export class UsageError extends Error {}

/** What a command was given, or has to ask, cannot be used: one line for a person. */
export class Unusable extends Error {}

/** A running gateway has answered that it will not. */
export class GatewayRefusal extends Error {
  readonly status: number;
  /** Of the gateway's table of errors; empty when it gave none. */
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export const EXIT_OK = 0;
export const EXIT_NO = 1;
export const EXIT_USAGE = 2;
/** A ledger was restored from a backup, and says so: neither verified as it was, nor a fork (decision 13.23). */
export const EXIT_RESTORED = 3;
