import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import type { CliIo } from '../../src/cli/command.ts';
import { runCli } from '../../src/cli/run.ts';
import { bareEnvironment } from './child.ts';
import { isInstalled, programUnderTest } from './program-under-test.ts';

export interface Outcome {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Runs one command of `gw`: in this process, and that of the package in one of its own. */
export async function gw(
  argv: readonly string[],
  options: {
    stdin?: string;
    env?: Record<string, string>;
    colours?: boolean;
    columns?: number;
    program?: string;
    lines?: readonly string[];
  } = {},
): Promise<Outcome> {
  if (isInstalled()) return installed(argv, options);
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
    ...(options.program === undefined ? {} : { program: options.program }),
    env: options.env ?? {},
    colours: options.colours ?? false,
  };
  return { code: await runCli(argv, io), out, err };
}

async function installed(
  argv: readonly string[],
  { stdin = '', env = {} }: { readonly stdin?: string; readonly env?: Readonly<Record<string, string>> },
): Promise<Outcome> {
  const child = spawn(process.execPath, [programUnderTest(), ...argv], { env: { ...bareEnvironment(), ...env }, stdio: 'pipe' });
  const [out, err] = [child.stdout, child.stderr].map((stream) => text(stream));
  child.stdin.on('error', () => undefined).end(stdin);
  const [code] = (await once(child, 'close')) as [number | null];
  return { code: code ?? -1, out: (await out) ?? '', err: (await err) ?? '' };
}
