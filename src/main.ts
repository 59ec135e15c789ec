#!/usr/bin/env node
import { loadConfig } from './base/config/config.ts';
import { inheritedSockets } from './base/config/inherited-sockets.ts';
import { systemClock } from './base/lib/clock.ts';
import { codeOf, messageOf } from './base/lib/gateway-error.ts';
import { watchHeapGrowth } from './base/lib/heap-growth.ts';
import { terminalOutput } from './base/lib/shown-text.ts';
import { STOP_SIGNALS } from './base/lib/stopping.ts';
import { processIo } from './cli/process-io.ts';
import { asTyped, programName } from './cli/program-name.ts';
import { runCli } from './cli/run.ts';
import { StandardOutput } from './cli/standard-output.ts';

const program = programName(process.argv[1], process.cwd());

/**
 * Starts the gateway, and stops it at the first signal: one that comes before the ports are open ends the start. A
 * second one ends the process at once.
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
  const [{ startGateway }, { announcement }, { withShippedPolicies }, { rememberStart }] = await Promise.all([
    import('./app/gateway.ts'),
    import('./app/announce.ts'),
    import('./app/shipped-policies.ts'),
    import('./cli/gateways/remember-start.ts'),
  ]).catch((error: unknown) => {
    throw notLoaded(error);
  });
  const { config, note } = withShippedPolicies(given);
  if (note !== undefined) process.stderr.write(asTyped(`note: ${note}\n`, program));
  try {
    const gateway = await startGateway(config, { inherited: inheritedSockets(), signal: stop.signal });
    const noted = await rememberStart(gateway, config);
    process.stdout.write(asTyped(announcement(gateway, config, placeOf(noted.done)), program));
    // Of use to a person who tries it; a service is not found from folders.
    if (noted.problem !== undefined && process.stdout.isTTY)
      process.stderr.write(asTyped(`note: this gateway is found from this folder alone: ${terminalOutput(noted.problem)}\n`, program));
    watchHeapGrowth({ clock: systemClock });
    await asked;
    await gateway.stop();
    await noted.stopped();
  } catch (error) {
    if (error !== stop.signal.reason) throw error;
  }
  return 0;
}

/**
 * Node opens many modules at a time. Where a shell allows few open files it says so of some, and of others that they
 * are not there.
 */
function notLoaded(error: unknown): unknown {
  if (!['EMFILE', 'ERR_MODULE_NOT_FOUND'].includes(codeOf(error))) return error;
  const remedy = 'this shell may allow too few open files ("ulimit -n"): "ulimit -n 65536" before the start allows more';
  return new Error(`the program cannot be loaded: ${remedy}. ${messageOf(error)}`, { cause: error });
}

/** Where commands find the gateway as they are printed: those of a clone are found by npm below it. */
function placeOf(isNoted: boolean): string {
  if (!isNoted) return 'in this folder, with the same GW_ settings';
  return programName(process.argv[1], process.cwd()).startsWith('npx') ? 'in this folder' : 'from any folder';
}

// A reader that has gone, or a full disk, ends the gateway neither at its first words nor with a stack trace; a command
// tells of it (standard-output.ts).
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);

const [command = 'start', ...rest] = process.argv.slice(2);
if (command !== 'start' || rest.length > 0) {
  const output = new StandardOutput();
  const code = await runCli([command, ...rest], processIo(output));
  process.exitCode = await output.end(code, (text) => void process.stderr.write(`gw: ${terminalOutput(text)}\n`));
} else {
  try {
    // Nothing that is left behind may hold up an end that was asked for.
    process.exit(await serve());
  } catch (error) {
    process.stderr.write(asTyped(`${terminalOutput(messageOf(error))}\n`, program));
    process.exitCode = 1;
  }
}
