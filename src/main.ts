#!/usr/bin/env node
import { loadConfig } from './base/config/config.ts';
import { messageOf } from './base/lib/thrown.ts';
import { runCli } from './cli/run.ts';

/** Starts the gateway and stops it on SIGTERM or SIGINT; a second signal ends the process at once. */
async function start(): Promise<void> {
  const { config, warnings } = loadConfig();
  for (const warning of warnings) process.stderr.write(`warning: ${warning}\n`);
  // Loaded here, so that the small commands do not wait for what they do not use.
  const [{ startGateway }, { announcement }] = await Promise.all([import('./app/gateway.ts'), import('./app/announce.ts')]);
  const gateway = await startGateway(config);
  process.stdout.write(announcement(gateway, config));
  let stopping = false;
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      if (stopping) process.exit(130);
      stopping = true;
      void gateway.stop().then(() => process.exit(0));
    });
  }
}

// A reader that has gone (`gw env | head -1`) ends neither the gateway nor a command with a stack trace.
process.stdout.on('error', () => undefined);

const [command = 'start', ...rest] = process.argv.slice(2);
if (command !== 'start' || rest.length > 0) {
  process.exitCode = await runCli([command, ...rest]);
} else {
  try {
    await start();
  } catch (error) {
    process.stderr.write(`${messageOf(error)}\n`);
    process.exitCode = 1;
  }
}
