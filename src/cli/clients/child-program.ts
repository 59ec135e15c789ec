/* A program that a command runs in its own place: same terminal, same signals, same end. */
import { type ChildProcess, spawn } from 'node:child_process';
import { constants } from 'node:os';
import type { Environment } from '../../base/config/settings-reader.ts';
import { codeOf, messageOf } from '../../base/lib/gateway-error.ts';

/** As shells and `env` have them. */
const NOT_RUNNABLE = 126;
const NOT_FOUND = 127;
const BY_SIGNAL = 128;

/** What a terminal sends to all programs in front of it by itself: handed on once more they would arrive twice. */
const OF_TERMINAL: readonly NodeJS.Signals[] = ['SIGINT', 'SIGQUIT'];
const HANDED_ON: readonly NodeJS.Signals[] = [...OF_TERMINAL, 'SIGTERM', 'SIGHUP', 'SIGUSR2', 'SIGWINCH', 'SIGCONT'];

export interface ProgramEnd {
  /** That of the program; 128 and the signal's number when one ended it; 126 and 127 when it could not be started. */
  readonly code: number;
  /** Why it could not be started. */
  readonly problem?: string;
}

/**
 * Runs a program to its end.
 * @param env its whole environment
 */
export async function runProgram(command: string, args: readonly string[], env: Environment): Promise<ProgramEnd> {
  const child = spawn(command, args, { env: { ...env }, stdio: 'inherit' });
  const stopHandingOn = handOnSignals(child);
  try {
    return await endOf(child, command);
  } finally {
    stopHandingOn();
  }
}

function handOnSignals(child: ChildProcess): () => void {
  const hasTerminal = process.stdin.isTTY === true;
  const listeners = HANDED_ON.map((signal) => {
    const handOn = () => {
      if (!(hasTerminal && OF_TERMINAL.includes(signal))) child.kill(signal);
    };
    process.on(signal, handOn);
    return () => void process.off(signal, handOn);
  });
  return () => {
    for (const off of listeners) off();
  };
}

function endOf(child: ChildProcess, command: string): Promise<ProgramEnd> {
  return new Promise((resolve) => {
    child.once('error', (error) => resolve(notStarted(command, error)));
    child.once('exit', (code, signal) => resolve({ code: code ?? BY_SIGNAL + (signal === null ? 0 : constants.signals[signal]) }));
  });
}

function notStarted(command: string, error: Error): ProgramEnd {
  const code = codeOf(error);
  if (code === 'ENOENT') return { code: NOT_FOUND, problem: `there is no program "${command}"` };
  if (code === 'EACCES') return { code: NOT_RUNNABLE, problem: `"${command}" is no program that may be run` };
  return { code: NOT_RUNNABLE, problem: messageOf(error) };
}
