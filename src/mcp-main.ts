#!/usr/bin/env node
import { systemClock } from './base/lib/clock.ts';
import { createLogger } from './base/lib/log.ts';
import { runGwMcp } from './cli/mcp/gw-mcp.ts';

/** A second one ends the process at once. */
const STOP_SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

// Written over the arguments, so that no secret among them stays in the list of processes.
process.title = 'gw-mcp';

const stop = new AbortController();
for (const signal of STOP_SIGNALS) {
  process.on(signal, () => {
    if (stop.signal.aborted) process.exit(130);
    stop.abort();
  });
}
// A client that has gone reads nothing more, and there is nothing left to do for it.
process.stdout.on('error', () => stop.abort());

const code = await runGwMcp(process.argv.slice(2), {
  input: process.stdin,
  output: process.stdout,
  stderr: (text) => void process.stderr.write(text),
  signal: stop.signal,
  clock: systemClock,
  log: createLogger({ level: 'info', format: 'json', destination: process.stderr }),
});
// Nothing that is left behind may hold up an end that was asked for.
process.exit(code);
