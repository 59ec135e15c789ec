/*
 * `npm start`: sets the clone up when needed, then runs the gateway from build/ and stays in front of it: same input
 * and output, signals passed on once, same exit code, and no gateway left behind when this process dies, however it
 * dies.
 */
import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { withoutProxies } from './child-environment.mjs';
import { projectRoot, setUp } from './setup.mjs';

/** A Ctrl-C arrives twice under npm: from the terminal and from npm itself. A deliberate second one comes later. */
const REPEAT_MS = 300;

/** Starts the gateway of build/. It ends when this process does, however that ends. */
export function spawnGateway(args, more = {}) {
  const environment = { ...withoutProxies(process.env), ...more };
  // Certificate, look-up and file work shares the thread pool; its size is read before the program's first line runs.
  environment.UV_THREADPOOL_SIZE ??= '16';
  return spawn(
    process.execPath,
    [
      ...process.execArgv,
      '--enable-source-maps',
      '--import',
      pathToFileURL(join(projectRoot, 'scripts', 'stop-with-parent.mjs')).href,
      join(projectRoot, 'build', 'src', 'main.js'),
      'start',
      ...args,
    ],
    // Its own process group, so that a terminal's Ctrl-C reaches it through this process only; the channel tells it
    // when this process is gone.
    { env: environment, stdio: ['inherit', 'inherit', 'inherit', 'ipc'], detached: process.platform !== 'win32' },
  );
}

/** Passes signals on, each once, to what `kill` reaches; as SIGTERM when npm, the parent, is killed outright. */
export function passSignals(kill) {
  const lastSeen = new Map();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR2']) {
    process.on(signal, () => {
      const now = performance.now();
      if (now - (lastSeen.get(signal) ?? Number.NEGATIVE_INFINITY) < REPEAT_MS) return;
      lastSeen.set(signal, now);
      kill(signal);
    });
  }
  // Under npm the parent is npm or its shell; when that is killed outright, nobody would pass on a signal any more.
  if (process.env.npm_lifecycle_event === undefined) return;
  const parent = process.ppid;
  setInterval(() => {
    if (process.ppid !== parent) kill('SIGTERM');
  }, 1000).unref();
}

async function main() {
  try {
    await setUp({ typeCheck: false });
  } catch (error) {
    process.stderr.write(`${error.message}\n`);
    process.exit(1);
  }
  const gateway = spawnGateway(process.argv.slice(2));
  passSignals((signal) => gateway.kill(signal));
  gateway.on('error', (error) => {
    process.stderr.write(`cannot start the gateway: ${error.message}\n`);
    process.exit(1);
  });
  gateway.on('exit', (code, signal) => process.exit(code ?? 128 + (constants.signals[signal] ?? 0)));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main();
