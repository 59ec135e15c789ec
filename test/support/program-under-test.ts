/*
 * Which program tests run: that of this clone, or the package as a user installs it. A file of tests runs for the
 * second by being imported where the variable is set (test/packages/installed-*.test.ts).
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { npmEnvironment } from '../packages/npm-place.ts';
import { bareEnvironment } from './child.ts';
import { requirePeer } from './peers.ts';

/** Its value is `installed` where the package is tested. */
export const PROGRAM_VARIABLE = 'TEST_PROGRAM';

/**
 * Whether tests run the package, in the place of what the clone has compiled: asked each time, since this module may be
 * loaded before a file of tests says so.
 */
export function isInstalled(): boolean {
  return process.env[PROGRAM_VARIABLE] === 'installed';
}

/** What Node runs for `gw`: the compiled program, beside the compiled tests, or that of the package. */
export function programUnderTest(): string {
  return isInstalled() ? installedProgram() : fileURLToPath(new URL('../../src/main.js', import.meta.url));
}

/**
 * `gw` of the package as `npm install --global` lays it out, with the dependencies of production alone. It is packed
 * once for each state of the project, which all test files share: npm packs it, and what it needs is linked from here,
 * so that no registry is asked.
 * @throws Error when npm cannot pack it
 */
export function installedProgram(): string {
  found ??= join(installedPrefix(), 'bin', 'gw');
  return found;
}

let found: string | undefined;

function installedPrefix(): string {
  const root = packageRoot();
  const prefix = join(root, 'build', 'installed', stateOf(root));
  if (!existsSync(prefix)) install(root, prefix);
  return prefix;
}

function install(root: string, prefix: string): void {
  const parent = join(prefix, '..');
  mkdirSync(parent, { recursive: true });
  const former = readdirSync(parent);
  const place = mkdtempSync(join(parent, 'new-'));
  const modules = join(place, 'lib', 'node_modules');
  const home = join(modules, 'ai-request-gateway');
  for (const folder of [home, join(home, 'node_modules'), join(place, 'bin')]) mkdirSync(folder, { recursive: true });
  made(requirePeer('npm'), ['pack', '--ignore-scripts', '--silent', '--pack-destination', place], root);
  const [tarball = ''] = readdirSync(place).filter((name) => name.endsWith('.tgz'));
  made('tar', ['--extract', '--gzip', '--strip-components', '1', '--file', join(place, tarball), '--directory', home], place);
  for (const name of productionDependencies(root)) {
    mkdirSync(join(home, 'node_modules', name, '..'), { recursive: true });
    symlinkSync(join(root, 'node_modules', name), join(home, 'node_modules', name));
  }
  symlinkSync('../lib/node_modules/ai-request-gateway/bin/gw.mjs', join(place, 'bin', 'gw'));
  try {
    renameSync(place, prefix);
  } catch (error) {
    // Another file of tests was as fast.
    rmSync(place, { recursive: true, force: true });
    if (!existsSync(prefix)) throw error;
  }
  for (const name of former.filter((one) => !one.startsWith('new-'))) rmSync(join(parent, name), { recursive: true, force: true });
}

function made(program: string, args: readonly string[], cwd: string): void {
  const { status, stderr, error } = spawnSync(program, args, { cwd, env: { ...bareEnvironment(), ...npmEnvironment() }, encoding: 'utf8' });
  if (status !== 0) throw new Error(`${program} ${args.join(' ')}: ${error?.message ?? stderr}`);
}

/** Those that the package itself names: a module that is only there for the workshop is not found. */
function productionDependencies(root: string): readonly string[] {
  const { dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { dependencies: Record<string, string> };
  return Object.keys(dependencies);
}

/** Changes with whatever the package is made of. */
function stateOf(root: string): string {
  const { files } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { files: readonly string[] };
  const hash = createHash('sha256');
  for (const name of ['package.json', ...files.filter((one) => !one.startsWith('!'))]) {
    const path = join(root, name);
    const below = statSync(path).isDirectory() ? readdirSync(path, { recursive: true, encoding: 'utf8' }).sort() : [''];
    for (const file of below) {
      const { size, mtimeMs } = statSync(join(path, file));
      hash.update(`${name}/${file}\0${size}\0${mtimeMs}\0`);
    }
  }
  return hash.digest('hex').slice(0, 16);
}
