// gw-mcp in this process, with streams in the place of standard input and output.
import { PassThrough } from 'node:stream';
import type { Clock } from '../../src/base/lib/clock.ts';
import { silentLogger } from '../../src/base/lib/log.ts';
import { runGwMcp } from '../../src/cli/mcp/gw-mcp.ts';
import { fakeClock } from '../support/fake-clock.ts';
import type { HasTeardown } from '../support/temp-dir.ts';

export interface GwMcpPlace {
  /** The exit code. */
  readonly ended: Promise<number>;
  /** All that was said on standard error so far. */
  readonly stderr: () => string;
  /** What standard error says next, from now on, that matches. */
  said(pattern: RegExp): Promise<RegExpExecArray>;
  /** Writes bytes as they are. */
  write(text: string | Buffer): void;
  /** Sends a message, and gives the next line that is answered. */
  ask(message: unknown): Promise<unknown>;
  /** The next line. */
  next(): Promise<unknown>;
  /** Lines that nobody has asked for. */
  readonly unread: readonly string[];
  /** Ends the input. */
  end(): void;
  /** As a signal does. */
  stop(): void;
}

export function runPlace(
  t: HasTeardown,
  args: readonly string[],
  { env = {}, clock = fakeClock() }: { readonly env?: Readonly<Record<string, string>>; readonly clock?: Clock } = {},
): GwMcpPlace {
  const [input, output] = [new PassThrough(), new PassThrough()];
  const stop = new AbortController();
  const lines: string[] = [];
  const waiting: ((line: string) => void)[] = [];
  let rest = '';
  output.setEncoding('utf8').on('data', (chunk: string) => {
    const parts = (rest + chunk).split('\n');
    rest = parts.pop() ?? '';
    for (const line of parts) {
      const take = waiting.shift();
      if (take === undefined) lines.push(line);
      else take(line);
    }
  });
  let said = '';
  const listeners = new Set<() => void>();
  const stderr = (text: string): void => {
    said += text;
    for (const listener of listeners) listener();
  };
  const ended = runGwMcp(args, { env, input, output, stderr, signal: stop.signal, clock, log: silentLogger });
  t.teardown(async () => {
    stop.abort();
    await ended;
  });
  const next = async (): Promise<unknown> => {
    const line = lines.shift() ?? (await new Promise<string>((resolve) => waiting.push(resolve)));
    return JSON.parse(line) as unknown;
  };
  return {
    ended,
    stderr: () => said,
    said: (pattern) =>
      new Promise((resolve) => {
        const look = (): void => {
          const found = pattern.exec(said);
          if (found === null) return;
          listeners.delete(look);
          resolve(found);
        };
        listeners.add(look);
        look();
      }),
    write: (text) => void input.write(text),
    ask: (message) => {
      input.write(`${JSON.stringify(message)}\n`);
      return next();
    },
    next,
    unread: lines,
    end: () => void input.end(),
    stop: () => stop.abort(),
  };
}
