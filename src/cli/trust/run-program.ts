import { spawn } from 'node:child_process';
import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import type { Environment } from '../../base/config/settings-reader.ts';
import { shellVariable } from '../../base/config/settings-reader.ts';
import { type Clock, systemClock } from '../../base/lib/clock.ts';

const MAX_OUTPUT = 1_048_576;
const USUAL_TIMEOUT_MS = 30_000;

/** How a program has ended. */
export interface Ran {
  /** -1: it could not be started, or did not end in time. */
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface ProgramOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Given as standard input; absent: that is empty. */
  readonly input?: string;
  readonly timeoutMs?: number;
  readonly cwd?: string;
  readonly clock?: Clock;
}

/** Runs a program, without a shell, to its end. Never rejects. */
export function runProgram(command: string, args: readonly string[], options: ProgramOptions): Promise<Ran> {
  const { env, input = '', timeoutMs = USUAL_TIMEOUT_MS, cwd, clock = systemClock } = options;
  return new Promise((resolve) => {
    const child = spawn(command, args, { env, stdio: 'pipe', ...(cwd === undefined ? {} : { cwd }) });
    const texts = { stdout: '', stderr: '' };
    let late = false;
    const cancel = clock.after(timeoutMs, () => {
      late = true;
      child.kill('SIGKILL');
    });
    for (const stream of ['stdout', 'stderr'] as const) {
      child[stream].setEncoding('utf8').on('data', (text: string) => {
        if (texts[stream].length < MAX_OUTPUT) texts[stream] += text;
      });
    }
    // One that does not read has ended, which is told below.
    child.stdin.on('error', () => undefined).end(input);
    child.once('error', (error) => {
      cancel();
      resolve({ code: -1, stdout: '', stderr: error.message });
    });
    child.once('close', (code) => {
      cancel();
      resolve(
        late
          ? { code: -1, ...texts, stderr: `${texts.stderr}it did not end within ${timeoutMs / 1_000} s` }
          : { code: code ?? -1, ...texts },
      );
    });
  });
}

/** The path of a program; the shell's `PATH`, and then where administrators' programs are. Undefined: there is none. */
export function findProgram(
  name: string,
  env: Environment | undefined,
  beside: readonly string[] = ['/usr/sbin', '/sbin'],
): string | undefined {
  const folders = [...(shellVariable('PATH', env) ?? '').split(delimiter), ...beside];
  const names = process.platform === 'win32' ? [`${name}.exe`, name] : [name];
  return folders
    .filter((folder) => folder !== '')
    .flatMap((folder) => names.map((one) => join(folder, one)))
    .find(isProgram);
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
