import type { CliIo } from '../../src/cli/command.ts';
import { runCli } from '../../src/cli/run.ts';

export interface Outcome {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Runs one command of `gw` in this process. */
export async function gw(
  argv: readonly string[],
  options: {
    stdin?: string;
    env?: Record<string, string>;
    colours?: boolean;
    columns?: number;
    lines?: readonly string[];
  } = {},
): Promise<Outcome> {
  let out = '';
  let err = '';
  const io: CliIo = {
    stdout(text) {
      out += text;
    },
    stderr(text) {
      err += text;
    },
    stdin: () => Promise.resolve(Buffer.from(options.stdin ?? '')),
    async *stdinLines() {
      await Promise.resolve();
      yield* options.lines ?? (options.stdin ?? '').split('\n');
    },
    columns: options.columns,
    env: options.env ?? {},
    colours: options.colours ?? false,
  };
  return { code: await runCli(argv, io), out, err };
}
