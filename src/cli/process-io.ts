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
