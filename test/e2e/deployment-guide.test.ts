// The guide to the deployment modes, followed word by word: each block is typed into the terminal that it names, and
// what stands below it must be in what was answered.
import { type ChildProcess, spawn } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { bareEnvironment, eventually } from '../support/child.ts';
import { requirePeer, skipWithout } from '../support/peers.ts';
import { tempDir } from '../support/temp-dir.ts';
import { startTlsUpstream } from '../support/tls-upstream.ts';
import { startTypedCommands } from '../support/typed-commands.ts';
import { towards } from '../support/upstreams.ts';

const GUIDE = readFileSync(join(packageRoot(), 'docs', 'guides', 'deployment-modes.md'), 'utf8');
const HOST = 'api.openai.com';
/** For one block: no judgement of speed. */
const BLOCK_MS = 600_000;
const DONE = 'this-block-is-done';

interface Block {
  readonly terminal: string;
  readonly commands: string;
  /** Each must be in what the block has said, in order; `…` is whatever there is. */
  readonly expected: readonly string[];
}

/** Blocks in the order of the page. */
function blocks(): readonly Block[] {
  const found = GUIDE.matchAll(/^```sh (control-plane|gateway)\n([\s\S]*?)^```$(?:\n\n^```text\n([\s\S]*?)^```$)?/gm);
  return [...found].map(([, terminal = '', commands = '', said = '']) => ({
    terminal,
    commands,
    expected: said.split('\n').filter((line) => line !== ''),
  }));
}

/** Ports that the system gives to nobody who does not ask for them by number. */
async function quietPorts(count: number): Promise<readonly number[]> {
  const found: number[] = [];
  while (found.length < count) {
    const port = 20_000 + Math.floor(Math.random() * 12_000);
    const free = await new Promise<boolean>((resolve) => {
      const server = createServer();
      server.once('error', () => resolve(false));
      server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
    });
    if (free && !found.includes(port)) found.push(port);
  }
  return found;
}

/** A shell to which one block after the other is typed. */
class Terminal {
  readonly #shell: ChildProcess;
  #said = '';

  constructor(t: Test, cwd: string, env: Readonly<Record<string, string>>) {
    // A process group of its own: what a block has left in the background ends with it.
    const shell = spawn('bash', ['--noprofile', '--norc'], { cwd, env, stdio: 'pipe', detached: true });
    this.#shell = shell;
    for (const stream of [shell.stdout, shell.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        this.#said += text;
      });
    }
    t.teardown(async () => {
      const closed = new Promise((resolve) => shell.once('close', resolve));
      const { pid } = shell;
      if (pid === undefined || shell.exitCode !== null) return;
      process.kill(-pid, 'SIGKILL');
      await closed;
    });
  }

  /** @returns what the block has said, and the status of its last command */
  async type(commands: string): Promise<{ readonly said: string; readonly status: number }> {
    this.#said = '';
    this.#shell.stdin?.write(`${commands}\nprintf '\\n${DONE} %s\\n' $?\n`);
    return eventually(
      `the end of: ${commands}`,
      () => {
        const end = new RegExp(`^${DONE} (\\d+)$`, 'm').exec(this.#said);
        return end === null ? undefined : { said: this.#said.slice(0, end.index), status: Number(end[1]) };
      },
      BLOCK_MS,
    ).catch((error: unknown) => {
      throw new Error(`${String(error)}\n${this.#said}`);
    });
  }
}

t.test('every command of the guide works as it is printed', { skip: skipWithout(['curl']) }, async (t) => {
  const upstream = await startTlsUpstream({
    hosts: [HOST],
    handler: (_request, response, whole) =>
      void whole.then(() =>
        response.setHeader('content-type', 'application/json').end('{"usage":{"prompt_tokens":11,"completion_tokens":7}}'),
      ),
  });
  t.teardown(() => upstream.close());
  const dir = tempDir(t);
  const bin = join(dir, 'bin');
  const work = join(dir, 'work');
  for (const folder of [bin, work]) mkdirSync(folder);
  writeFileSync(join(bin, 'gw'), `#!/bin/sh\n${await startTypedCommands(t)}\n`);
  writeFileSync(join(bin, 'curl'), `#!/bin/sh\nexec "${requirePeer('curl')}" "$@"\n`);
  for (const name of ['gw', 'curl']) chmodSync(join(bin, name), 0o755);
  const [gateway = 0, ambient = 0, grpc = 0, http = 0] = await quietPorts(4);
  const bare = bareEnvironment();
  const env = {
    ...bare,
    PATH: `${bin}:${bare['PATH'] ?? ''}`,
    HOME: dir,
    OPENAI_API_KEY: 'sk-of-the-guide-0123456789',
    GW_PORT: String(gateway),
    GW_AMBIENT_PORT: String(ambient),
    GW_HEALTHZ_STARTUP_GRACE: '0s',
    CP_GRPC_PORT: String(grpc),
    CP_HTTP_PORT: String(http),
    ...towards(t, upstream, [HOST]),
  };
  const terminals = new Map(['control-plane', 'gateway'].map((name) => [name, new Terminal(t, work, env)]));
  const ports: Readonly<Record<string, number>> = { 7080: gateway, 7443: grpc, 7444: http };
  let ran = 0;
  for (const { terminal, commands, expected } of blocks()) {
    const typed = commands.replace(/\b(?:7080|7443|7444)\b/g, (port) => String(ports[port]));
    const { said, status } = (await terminals.get(terminal)?.type(typed)) ?? { said: '', status: -1 };
    const first = commands.slice(0, commands.indexOf('\n')).slice(0, 60);
    t.equal(status, 0, `${first}: ${said.slice(-2_000)}`);
    let at = 0;
    for (const line of expected) {
      const pattern = new RegExp(
        line
          .split('…')
          .map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
          .join('.*'),
      );
      const found = pattern.exec(said.slice(at));
      t.ok(found !== null, `${first}: ${line}${found === null ? ` is not in ${said.slice(-2_000)}` : ''}`);
      at += (found?.index ?? 0) + (found?.[0].length ?? 0);
    }
    ran += 1;
  }
  t.ok(ran >= 15, 'the guide has its blocks');
});
