import { MessageChannel } from 'node:worker_threads';
import type { Clock } from '../base/lib/clock.ts';
import { codeOf, messageOf } from '../base/lib/gateway-error.ts';
import { terminalOutput } from '../base/lib/shown-text.ts';
import type { CliIo } from './command.ts';
import { USUAL_WIDTH } from './folded-text.ts';
import { LineReader } from './mcp/line-reader.ts';
import { programName } from './program-name.ts';
import type { StandardOutput } from './standard-output.ts';

/** Bytes; the gateway's own have a few hundred. */
const MAX_LOG_LINE = 1_048_576;

/** Input and output of this process, for a command that a person has typed. */
export function processIo(output: StandardOutput): CliIo {
  // Where nobody can be told there is nobody to tell: that must not end what is under way with a stack trace.
  process.stderr.on('error', () => undefined);
  const { stdout, stderr } = process;
  return {
    program: programName(process.argv[1], process.cwd()),
    colours: stdout.isTTY === true && stdout.hasColors(),
    columns: stdout.isTTY === true ? stdout.columns || USUAL_WIDTH : undefined,
    // For programs the bytes are exact; a person sees nothing that a command forgot to write out.
    stdout: (text) => output.write(stdout.isTTY === true ? terminalOutput(text, true) : text),
    stderr: (text) => void stderr.write(stderr.isTTY === true ? terminalOutput(text, true) : text),
    written: () => output.written(),
    stdinLines,
    stdin,
  };
}

async function* stdinLines(): AsyncGenerator<string> {
  const reader = new LineReader(MAX_LOG_LINE);
  for await (const chunk of process.stdin) {
    if (!(chunk instanceof Buffer)) continue;
    for (const read of reader.read(chunk)) if ('line' in read) yield read.line.toString('utf8');
  }
}

async function stdin(limit: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of process.stdin) {
    if (!(chunk instanceof Uint8Array)) continue;
    size += chunk.byteLength;
    if (size > limit) throw new Error(`the input is larger than ${limit} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/**
 * Waits, and holds the process meanwhile.
 * @param ms milliseconds
 * @returns whether the time has passed; false: it was stopped
 */
export function heldPause(ms: number, signal: AbortSignal, clock: Clock): Promise<boolean> {
  if (signal.aborted) return Promise.resolve(false);
  return new Promise((resolve) => {
    const release = keepAlive();
    const done = (passed: boolean) => {
      cancel();
      release();
      signal.removeEventListener('abort', stopped);
      resolve(passed);
    };
    const stopped = () => done(false);
    const cancel = clock.after(ms, () => done(true));
    signal.addEventListener('abort', stopped);
  });
}

/**
 * Holds the process while a command waits for time or a signal: neither the clock nor a listener for signals does.
 * @returns lets go of it
 */
export function keepAlive(): () => void {
  const { port1 } = new MessageChannel();
  port1.on('message', () => undefined);
  return () => port1.close();
}

/** What people are told of the usual ways in which a file cannot be read or made, by the code of the system. */
const WORDS: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EISDIR: 'it is a folder, not a file',
  EACCES: 'this user may not read it, or not write there',
  EEXIST: 'it is there already, and is not overwritten: name another file',
};

/** Why a file cannot be read or made, without the words of the system where it is a usual reason. */
export function whyUnreadable(error: unknown): string {
  const code = codeOf(error);
  return (Object.hasOwn(WORDS, code) ? WORDS[code] : undefined) ?? messageOf(error);
}
