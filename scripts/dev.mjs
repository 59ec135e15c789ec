/*
 * `npm run dev [-- arguments of start]`: runs the gateway, compiles as sources change, and starts it again with what
 * was compiled: same folders, same ports. While the sources have an error, which is shown, the gateway that runs goes
 * on.
 */
import { watch } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { projectRoot, setUp, writeRegistryTree } from './setup.mjs';
import { passSignals, spawnGateway } from './start.mjs';
import { watchBuild } from './watched-build.mjs';

/** What a gateway that is replaced has for calls that are under way. */
const GRACE_MS = 2_000;
/** A save of an editor is several changes. */
const PAUSE_MS = 100;

/** One program, started again when it is asked for: the next one starts when the last has ended. */
export class Restarted {
  #start;
  #write;
  #child;
  #isAsked = false;
  #isEnding = false;

  /** @param start starts the program and returns its process */
  constructor({ start, write }) {
    this.#start = start;
    this.#write = write;
    this.#begin();
  }

  /** Starts it again. Asked while the last one ends, it starts once. */
  again() {
    if (this.#child === undefined) this.#begin();
    else if (!this.#isAsked) this.#stop();
  }

  /** Passes a signal on; the program is not started again. */
  end(signal) {
    this.#isEnding = true;
    if (this.#child === undefined) process.exit(0);
    this.#child.kill(signal);
  }

  #stop() {
    const child = this.#child;
    this.#isAsked = true;
    child.kill('SIGTERM');
    // The second one ends it at once.
    const timer = setTimeout(() => child.kill('SIGTERM'), GRACE_MS);
    child.once('exit', () => clearTimeout(timer));
  }

  #begin() {
    const child = this.#start();
    this.#child = child;
    const ended = (how) => {
      this.#child = undefined;
      if (this.#isEnding) process.exit(typeof how === 'number' ? how : 0);
      if (this.#isAsked) {
        this.#isAsked = false;
        this.#begin();
      } else this.#write(`dev: the gateway has ended (${how}); the next change starts it again\n`);
    };
    child.once('error', (error) => ended(error.message));
    child.once('exit', (code, signal) => ended(code ?? signal));
  }
}

/** Ports that the system would choose are chosen once. */
async function keptPorts(environment) {
  const asked = ['GW_PORT', 'GW_AMBIENT_PORT'].filter((name) => environment[name] === '0');
  return Object.fromEntries(await Promise.all(asked.map(async (name) => [name, String(await freePort())])));
}

function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer().on('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

async function main() {
  const write = (text) => process.stderr.write(text);
  await setUp({ typeCheck: false });
  const ports = await keptPorts(process.env);
  const gateway = new Restarted({ start: () => spawnGateway(process.argv.slice(2), ports), write });
  passSignals((signal) => gateway.end(signal));
  const again = (what) => {
    write(`dev: ${what}, starting again\n`);
    gateway.again();
  };
  await watchBuild({
    stops: (path) => path.startsWith('src/'),
    onBuilt: ({ files, isKept }) => {
      const sources = files.filter((file) => file.startsWith(join(projectRoot, 'build', 'src')));
      if (isKept) write('dev: the gateway goes on as it was before these errors\n');
      else if (sources.length > 0) again(`compiled ${sources.length} ${sources.length === 1 ? 'file' : 'files'}`);
    },
    write,
  });
  let pause;
  // Data that is read at the start: providers, prices, pages.
  watch(join(projectRoot, 'src'), { recursive: true }, (_, name) => {
    if (name === null || name.endsWith('.ts') || !/\.\w+$/.test(name)) return;
    clearTimeout(pause);
    pause = setTimeout(() => {
      writeRegistryTree(false).then(
        () => again(`${name} has changed`),
        (error) => write(`dev: ${error.message}\n`),
      );
    }, PAUSE_MS);
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  await main().catch((error) => {
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
  });
