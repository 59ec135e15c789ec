/*
 * `npm run peers`: installs the independent programs that the tests hold the gateway against (browsers, TLS tools, HTTP
 * clients, another Node). Debian packages by apt-get, those that are missing only; programs whose package would start a
 * service, and the second Node, are unpacked into a cache folder outside of the project (AI_REQUEST_GATEWAY_PEERS, else
 * ~/.cache/ai-request-gateway/peers), and so are Python environments with the official SDKs, and coding agents of npm
 * in the versions that are named here. Those are optional: not every machine reaches a package index, and CI passes
 * without them. The tests run without any of them and then skip what they cannot judge.
 */
import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { onPath } from './on-path.mjs';

const peers = JSON.parse(readFileSync(new URL('peers.json', import.meta.url), 'utf8'));
const cacheFolder = process.env.AI_REQUEST_GATEWAY_PEERS ?? join(homedir(), '.cache', 'ai-request-gateway', 'peers');
const NPM_QUIET = ['--no-save', '--no-package-lock', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
/** Of one coding agent; a slow registry must not eat up the time of everything behind it. */
const TOOL_LIMIT_MS = 120_000;
const failures = [];

const missing = Object.entries(peers).filter(([name, peer]) => !present(name, peer));
if (missing.length > 0) install();
for (const [name, peer] of Object.entries(peers)) {
  const there = present(name, peer);
  if (!there && !failures.includes(name)) failures.push(name);
  process.stdout.write(`${there ? 'present' : peer.optional ? 'absent ' : 'MISSING'}  ${name}\n`);
}
process.exitCode = failures.some((name) => !peers[name].optional) ? 1 : 0;

function install() {
  const debian = missing.filter(([, peer]) => peer.package);
  if (debian.length > 0) installDebian(debian);
  for (const [name, peer] of missing) if (peer.npm) extractNode(name, peer);
  for (const [name, peer] of missing) if (peer.pip) makeEnvironment(name, peer);
  for (const [name, peer] of missing) if (peer.tool) installTool(name, peer);
}

function installDebian(wanted) {
  const packages = [...new Set(wanted.filter(([, peer]) => !peer.extract).map(([, peer]) => peer.package))];
  if (run('apt-get', ['--version']).status !== 0) {
    process.stdout.write(`peers: no apt-get here, please install by hand: ${packages.join(' ')}\n`);
    return;
  }
  const [program, ...options] = process.getuid?.() === 0 ? ['apt-get'] : ['sudo', '-n', 'apt-get'];
  const environment = { DEBIAN_FRONTEND: 'noninteractive' };
  process.stdout.write('peers: reading the package lists\n');
  run(program, [...options, 'update', '-qq'], environment);
  if (packages.length > 0) {
    process.stdout.write(`peers: installing ${packages.join(' ')}\n`);
    const { status, error, stderr } = run(
      program,
      [...options, 'install', '-y', '-qq', '--no-install-recommends', ...packages],
      environment,
    );
    if (status !== 0) process.stdout.write(`peers: apt-get install failed: ${lastLines(error?.message ?? stderr)}\n`);
  }
  for (const [name, peer] of wanted) if (peer.extract) (peer.tree ? extractTree : extractDebian)(name, peer);
}

/**
 * A program that needs its modules: the whole package, the libraries that it is linked with beside it, and a command
 * that tells it where they are.
 */
function extractTree(name, { package: own, tree: libraries, extract, libraries: folders, arguments: more }) {
  process.stdout.write(`peers: unpacking ${name} from ${own}\n`);
  inTemporaryFolder(name, (folder) => {
    check(name, run('apt-get', ['download', own, ...libraries], {}, folder));
    const unpacked = join(folder, 'unpacked');
    for (const archive of readdirSync(folder).filter((file) => file.endsWith('.deb')))
      check(name, run('dpkg-deb', ['-x', archive, unpacked], {}, folder));
    const tree = join(cacheFolder, name, 'tree');
    rmSync(tree, { recursive: true, force: true });
    mkdirSync(dirname(tree), { recursive: true });
    cpSync(unpacked, tree, { recursive: true, verbatimSymlinks: true });
    const shared = ['lib', 'usr/lib'].flatMap((parent) =>
      existsSync(join(tree, parent))
        ? readdirSync(join(tree, parent)).flatMap((at) => (at.endsWith('-linux-gnu') ? join(parent, at) : []))
        : [],
    );
    const path = [...folders, ...shared].map((at) => join(tree, at)).join(':');
    const command = join(folder, 'command');
    writeFileSync(
      command,
      `#!/bin/sh\nLD_LIBRARY_PATH='${path}' exec '${join(tree, extract)}' ${more.replace('{tree}', `'${tree}'`)} "$@"\n`,
      { mode: 0o755 },
    );
    return command;
  });
}

/** Only the program itself: installing the package would register, and on most machines start, a service. */
function extractDebian(name, peer) {
  process.stdout.write(`peers: unpacking ${name} from ${peer.package}\n`);
  inTemporaryFolder(name, (folder) => {
    check(name, run('apt-get', ['download', peer.package], {}, folder));
    const archive = readdirSync(folder).find((file) => file.endsWith('.deb'));
    check(name, run('dpkg-deb', ['-x', archive, 'unpacked'], {}, folder));
    return join(folder, 'unpacked', peer.extract);
  });
}

/**
 * npm's binary package of the platform: the package called `node` would need its install script, and as a dependency it
 * takes over `npm run`.
 */
function extractNode(name, peer) {
  const platform = process.platform === 'win32' ? 'win' : process.platform;
  process.stdout.write(`peers: fetching Node ${peer.npm}\n`);
  inTemporaryFolder(name, (folder) => {
    const packageName = `node-${platform}-${process.arch}`;
    check(name, run('npm', ['install', '--prefix', folder, ...NPM_QUIET, `${packageName}@${peer.npm}`]));
    return join(folder, 'node_modules', packageName, ...peer.extract.split('/'));
  });
}

/**
 * An environment of its own: packages of the system stay as they are. It cannot be moved, so it is made in place and
 * removed when that fails.
 */
function makeEnvironment(name, peer) {
  process.stdout.write(`peers: making a Python environment with ${peer.pip.join(', ')}\n`);
  const folder = join(cacheFolder, name);
  try {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(cacheFolder, { recursive: true });
    check(name, run('python3', ['-m', 'venv', folder]));
    check(name, run(cached(name), ['-m', 'pip', 'install', '--quiet', '--retries', '0', '--disable-pip-version-check', ...peer.pip]));
  } catch (error) {
    rmSync(folder, { recursive: true, force: true });
    process.stdout.write(`peers: ${name}: ${error.message}\n`);
    failures.push(name);
  }
}

/**
 * A program of npm with all that it needs, in a folder of its own. Install scripts run where its row says that it
 * cannot be without.
 */
function installTool(name, { tool, scripts = false }) {
  const quiet = scripts ? NPM_QUIET.filter((option) => option !== '--ignore-scripts') : NPM_QUIET;
  process.stdout.write(`peers: fetching ${tool}\n`);
  const folder = join(cacheFolder, name);
  try {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    check(name, run('npm', ['install', '--prefix', folder, ...quiet, tool], {}, folder, TOOL_LIMIT_MS));
  } catch (error) {
    rmSync(folder, { recursive: true, force: true });
    process.stdout.write(`peers: ${name}: ${error.message}\n`);
    failures.push(name);
  }
}

function inTemporaryFolder(name, produce) {
  mkdirSync(cacheFolder, { recursive: true });
  const folder = mkdtempSync(join(tmpdir(), 'gw-peers-'));
  try {
    const file = produce(folder);
    const target = cached(name);
    mkdirSync(dirname(target), { recursive: true });
    // Renamed into place, so that a test that looks meanwhile never meets half a program.
    copyFileSync(file, `${target}.new`);
    renameSync(`${target}.new`, target);
  } catch (error) {
    process.stdout.write(`peers: ${name}: ${error.message}\n`);
    failures.push(name);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function cached(name) {
  const { pip, tool, extract } = peers[name];
  return join(cacheFolder, name, pip || tool ? extract : extract.split('/').at(-1));
}

function present(name, peer) {
  if (peer.extract && existsSync(cached(name))) return peer.probe === undefined || run(cached(name), peer.probe).status === 0;
  const found = (peer.commands ?? []).map((command) => onPath(command)).find((file) => file !== undefined);
  return found !== undefined && (peer.probe === undefined || run(found, peer.probe).status === 0);
}

function run(program, args, environment = {}, cwd = undefined, timeout = undefined) {
  const env = { ...process.env, ...environment };
  return spawnSync(program, args, { cwd, timeout, encoding: 'utf8', env, stdio: ['ignore', 'pipe', 'pipe'] });
}

function check(what, { status, error, stderr, stdout }) {
  if (status !== 0) throw new Error(`${what} failed: ${error?.message ?? lastLines(`${stderr}${stdout}`)}`);
}

function lastLines(text) {
  return text.trim().split('\n').slice(-5).join('\n');
}
