#!/usr/bin/env node
import { loadConfig } from './base/config/config.ts';
import { inheritedSockets } from './base/config/inherited-sockets.ts';
import { terminalOutput } from './base/lib/shown-text.ts';
import { messageOf } from './base/lib/thrown.ts';
import { asTyped, programName } from './cli/program-name.ts';
import { runCli } from './cli/run.ts';

/** A second one ends the process at once. SIGHUP is what a terminal sends that is closed. */
const STOP_SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

const program = programName(process.argv[1], process.cwd());

/**
 * Starts the gateway, and stops it at the first signal: one that comes before the ports are open ends the start.
 * @returns the exit code, when the gateway has stopped
 */
async function serve(): Promise<number> {
  const stop = new AbortController();
  const asked = new Promise<void>((resolve) => stop.signal.addEventListener('abort', () => resolve()));
  for (const signal of STOP_SIGNALS) {
    process.on(signal, () => {
      if (stop.signal.aborted) process.exit(130);
      stop.abort();
    });
  }
  const { config: given, warnings } = loadConfig();
  for (const warning of warnings) process.stderr.write(asTyped(`warning: ${warning}\n`, program));
  // Loaded here, so that the small commands do not wait for what they do not use.
  const [{ startGateway }, { announcement }, { withShippedPolicies }] = await Promise.all([
    import('./app/gateway.ts'),
    import('./app/announce.ts'),
    import('./app/shipped-policies.ts'),
  ]);
  const { config, note } = withShippedPolicies(given);
  if (note !== undefined) process.stderr.write(asTyped(`note: ${note}\n`, program));
  try {
    const gateway = await startGateway(config, { inherited: inheritedSockets(), signal: stop.signal });
    process.stdout.write(asTyped(announcement(gateway, config), program));
    await asked;
    await gateway.stop();
  } catch (error) {
    if (error !== stop.signal.reason) throw error;
  }
  return 0;
}

// A reader that has gone (`gw env | head -1`) ends neither the gateway nor a command with a stack trace.
process.stdout.on('error', () => undefined);

const [command = 'start', ...rest] = process.argv.slice(2);
if (command !== 'start' || rest.length > 0) {
  process.exitCode = await runCli([command, ...rest]);
} else {
  try {
    // Nothing that is left behind may hold up an end that was asked for.
    process.exit(await serve());
  } catch (error) {
    process.stderr.write(asTyped(`${terminalOutput(messageOf(error))}\n`, program));
    process.exitCode = 1;
  }
}
