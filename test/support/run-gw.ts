import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { realpathSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { pathToFileURL } from 'node:url';
import type { CliIo } from '../../src/cli/command.ts';
import { runCli } from '../../src/cli/run.ts';
import { bareEnvironment } from './child.ts';
import { isInstalled, programUnderTest } from './program-under-test.ts';

export interface Outcome {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

let wasStarted = false;

/**
 * Runs one command of `gw` in this process. Of the package the first is a process, as a user starts it; all others are
 * run here by the code of the package, since a process for each would only load the same again.
 */
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
  if (isInstalled() && !wasStarted) {
    wasStarted = true;
    return installed(argv, options);
  }
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
    env: isInstalled() ? { ...bareEnvironment(), ...options.env } : (options.env ?? {}),
    colours: options.colours ?? false,
  };
  const run = isInstalled() ? await installedCli() : runCli;
  return { code: await run(argv, io), out, err };
}

/** The commands of the package, of its own files. */
async function installedCli(): Promise<typeof runCli> {
  const file = join(realpathSync(programUnderTest()), '..', '..', 'build', 'src', 'cli', 'run.js');
  return ((await import(pathToFileURL(file).href)) as { readonly runCli: typeof runCli }).runCli;
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
