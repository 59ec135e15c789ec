#!/usr/bin/env node
import { systemClock } from './base/lib/clock.ts';
import { createLogger } from './base/lib/log.ts';
import { STOP_SIGNALS } from './base/lib/stopping.ts';
import { EXIT_NO, EXIT_OK } from './cli/command.ts';
import { runGwMcp } from './cli/mcp/gw-mcp.ts';
import { isReaderGone, lossText, wholeOutput } from './cli/standard-output.ts';

// Written over the arguments, so that no secret among them stays in the list of processes.
process.title = 'gw-mcp';

const stop = new AbortController();
// A second signal ends the process at once.
for (const signal of STOP_SIGNALS) {
  process.on(signal, () => {
    if (stop.signal.aborted) process.exit(130);
    stop.abort();
  });
}
// A client that has gone reads nothing more, and there is nothing left to do for it.
const losses: Error[] = [];
const output = wholeOutput();
output.on('error', (error) => {
  losses.push(error);
  stop.abort();
});
process.stderr.on('error', () => undefined);

const code = await runGwMcp(process.argv.slice(2), {
  input: process.stdin,
  output,
  stderr: (text) => void process.stderr.write(text),
  signal: stop.signal,
  clock: systemClock,
  log: createLogger({ level: 'info', format: 'json', destination: process.stderr }),
});
// What was said last is taken, as far as somebody takes it.
if (losses.length === 0 && !stop.signal.aborted) await new Promise<void>((resolve) => output.write('', () => resolve()));
const [loss] = losses.filter((error) => !isReaderGone(error));
if (loss !== undefined) process.stderr.write(`gw-mcp: ${lossText(loss)}\n`);
// Nothing that is left behind may hold up an end that was asked for.
process.exit(loss !== undefined && code === EXIT_OK ? EXIT_NO : code);
