/*
 * Brings a clone to the point where build/ is current: installs the locked dependencies, then compiles. Plain Node
 * without dependencies, since it runs before anything is installed. Both steps are skipped when their inputs have not
 * changed.
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { checkedOutCommit } from './checked-out-commit.mjs';
import { buildConsole } from './console.mjs';

export const projectRoot = dirname(dirname(fileURLToPath(import.meta.url)));

const SOURCE_FOLDERS = ['src', 'test', 'bench'];
/** For browsers: bundled, and checked by a configuration of its own (src/console/tsconfig.json). */
const consoleFolder = join(projectRoot, 'src', 'console');
const consoleStampFile = join(projectRoot, 'build', '.console-stamp');
const stampFile = join(projectRoot, 'build', '.stamp');
/**
 * The registry of providers, and its tree as `src/base/catalogue/catalogue.ts` reads it: the YAML of that length takes
 * a cold process half a second.
 */
const registryFile = join(projectRoot, 'src', 'base', 'catalogue', 'data', 'providers.yaml');
const registryTree = join(projectRoot, 'build', 'catalogue', 'providers.json');

/** Set for what the set-up starts, so that npm does not compile in the middle of it (prepare.mjs). */
export const SET_UP_RUNS = 'AI_REQUEST_GATEWAY_SET_UP';
/** What `gw version` says besides the number; in the package as well. */
const versionFile = join(projectRoot, 'build', 'version.json');

/**
 * Installs and compiles what is out of date. Throws an Error whose message is ready to be shown. `typeCheck: false`
 * only writes the JavaScript, in a third of the time: enough to start a product whose types the tests have checked.
 */
export async function setUp({ typeCheck = true } = {}) {
  requireNode();
  if (!installed()) await install();
  await build(typeCheck);
  await setUpConsole(typeCheck);
  writeVersion();
}

/** Compiles with what is installed, without a look at the types. Throws as {@link setUp} does. */
export async function compileClone() {
  requireNode();
  await build(false);
  await setUpConsole(false);
  writeVersion();
}

function requireNode() {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  if (major < 20 || (major === 20 && minor < 19)) throw new Error(`Node 20.19 or newer is needed, this is ${process.versions.node}`);
}

/** The installed tree is compared with the lock file by content: time stamps lie after a checkout or a copy. */
function installed() {
  const wanted = readJson(join(projectRoot, 'package-lock.json'))?.packages;
  const present = readJson(join(projectRoot, 'node_modules', '.package-lock.json'))?.packages;
  if (wanted === undefined) throw new Error('package-lock.json is missing');
  if (present === undefined) return false;
  return Object.entries(wanted).every(
    ([path, entry]) => path === '' || entry.optional === true || present[path]?.version === entry.version,
  );
}

function readJson(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return undefined;
  }
}

async function install() {
  const started = performance.now();
  process.stderr.write('setup: installing the locked dependencies (npm ci) ... ');
  const options = ['ci', '--include=dev', '--no-audit', '--no-fund', '--loglevel=error', '--progress=false'];
  const { code, output } = process.env.npm_execpath
    ? await run(process.execPath, [process.env.npm_execpath, ...options])
    : await run(process.platform === 'win32' ? 'npm.cmd' : 'npm', options);
  process.stderr.write(code === 0 ? `${seconds(started)}\n` : 'failed\n');
  if (code !== 0) throw new Error(`npm ci failed:\n${output}`);
}

/** Compiles when a source, the compiler's settings or the lock file changed since the last good build. */
async function build(typeCheck) {
  const sources = SOURCE_FOLDERS.flatMap((folder) => filesBelow(join(projectRoot, folder)).filter(isCompiled));
  const digest = digestOf([...sources, join(projectRoot, 'tsconfig.json'), join(projectRoot, 'package-lock.json')]);
  const complete = () => sources.every((source) => existsSync(outputOf(source)));
  const stamp = readJson(stampFile);
  const current = stamp?.digest === digest && complete();
  if (current && (stamp.typesChecked || !typeCheck)) return writeRegistryTree(false);

  const started = performance.now();
  process.stderr.write(typeCheck ? 'setup: compiling and checking types ... ' : 'setup: compiling ... ');
  removeOrphans(new Set(sources));
  let result = await compile(typeCheck);
  if (result.code === 0 && !complete()) {
    // Somebody removed a part of build/: by its notes the compiler believes that it is still there.
    rmSync(join(projectRoot, 'build', '.tsbuildinfo'), { force: true });
    result = await compile(typeCheck);
  }
  process.stderr.write(result.code === 0 ? `${seconds(started)}\n` : 'failed\n');
  if (result.code !== 0) throw new Error(`tsc failed:\n${result.output}`);
  await writeRegistryTree(true);
  mkdirSync(dirname(stampFile), { recursive: true });
  writeFileSync(stampFile, JSON.stringify({ digest, typesChecked: typeCheck }));
}

/**
 * Bundles the console when a source of it has changed, and checks its types when these, or what can be asked of the
 * gateway, have.
 */
async function setUpConsole(typeCheck) {
  const sources = [...filesBelow(consoleFolder), join(projectRoot, 'scripts', 'console.mjs'), join(projectRoot, 'package-lock.json')];
  const stamp = readJson(consoleStampFile);
  // What it takes from other rooms is known from the last build.
  const digestWith = (shared) => digestOf([...sources, ...shared.map((path) => join(projectRoot, path)).filter(existsSync)]);
  let shared = stamp?.shared ?? [];
  const isBuilt =
    stamp?.shared !== undefined && stamp.digest === digestWith(shared) && existsSync(join(projectRoot, 'build', 'console', 'index.html'));
  if (!isBuilt) shared = (await buildConsole(projectRoot)).inputs.filter(isShared).sort();
  const checked = typeCheck ? await checkConsole(sources, stamp?.checked) : undefined;
  writeFileSync(consoleStampFile, JSON.stringify({ digest: digestWith(shared), shared, checked: checked ?? stamp?.checked }));
}

/** @param path of what was bundled, below the project, with slashes */
function isShared(path) {
  return path.startsWith('src/') && !path.startsWith('src/console/');
}

async function checkConsole(sources, before) {
  const program = readJson(stampFile)?.digest;
  const checked = `${digestOf(sources)} ${program}`;
  if (checked === before) return checked;
  for (const args of [
    [join(projectRoot, 'scripts', 'console-client.mjs')],
    [join(projectRoot, 'node_modules', 'typescript', 'bin', 'tsc'), '-p', consoleFolder, '--pretty', 'false'],
  ]) {
    const { code, output } = await run(process.execPath, args);
    if (code !== 0) throw new Error(`the console has mistakes:\n${output}`);
  }
  return checked;
}

/** What the compiler writes to build/: no declarations, and nothing of what is for browsers. */
function isCompiled(file) {
  return /(?<!\.d)\.ts$/.test(file) && !file.startsWith(`${consoleFolder}${sep}`);
}

/** Writes the tree of the registry when its text has changed. */
export async function writeRegistryTree(always) {
  const text = readFileSync(registryFile, 'utf8');
  const sha256 = createHash('sha256').update(text).digest('hex');
  if (!always && readJson(registryTree)?.sha256 === sha256) return;
  const { parseYaml } = await import(pathToFileURL(join(projectRoot, 'build', 'src', 'base', 'lib', 'yaml.js')).href);
  mkdirSync(dirname(registryTree), { recursive: true });
  writeFileSync(registryTree, JSON.stringify({ sha256, parsed: parseYaml(text, 'providers.yaml') }));
}

/**
 * Of the commit that is checked out, or that who builds names where there is no git (Dockerfile); a tree without one
 * names none.
 */
function writeVersion() {
  const commit = checkedOutCommit(projectRoot) ?? /^[0-9a-f]{40}$/.exec(process.env.BUILD_COMMIT ?? '')?.[0];
  if (commit === undefined ? !existsSync(versionFile) : readJson(versionFile)?.commit === commit) return;
  if (commit === undefined) rmSync(versionFile);
  else writeFileSync(versionFile, JSON.stringify({ commit }));
}

function compile(typeCheck) {
  const compiler = join(projectRoot, 'node_modules', 'typescript', 'bin', 'tsc');
  return run(process.execPath, [compiler, '-p', 'tsconfig.json', '--pretty', 'false', ...(typeCheck ? [] : ['--noCheck'])]);
}

function outputOf(source) {
  return join(projectRoot, 'build', relative(projectRoot, source)).replace(/\.ts$/, '.js');
}

function digestOf(files) {
  const hash = createHash('sha256');
  for (const file of files) {
    const content = readFileSync(file);
    hash.update(`${relative(projectRoot, file)}\0${content.length}\0`).update(content);
  }
  return hash.digest('hex');
}

/** A test whose source was deleted must not go on running; the compiler never removes what it wrote. */
function removeOrphans(sources) {
  for (const folder of SOURCE_FOLDERS) {
    for (const output of filesBelow(join(projectRoot, 'build', folder))) {
      const source = join(projectRoot, relative(join(projectRoot, 'build'), output)).replace(/\.js(\.map)?$/, '.ts');
      if (!sources.has(source)) rmSync(output);
    }
  }
}

/** All files below a folder, sorted by path; an absent folder has none. */
export function filesBelow(folder) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => `${entry.parentPath}${sep}${entry.name}`)
    .sort();
}

function seconds(started) {
  return `${((performance.now() - started) / 1000).toFixed(1)} s`;
}

function run(command, args) {
  return new Promise((resolve, reject) => {
    const env = { ...process.env, [SET_UP_RUNS]: '1' };
    const child = spawn(command, args, { cwd: projectRoot, env, stdio: ['ignore', 'pipe', 'pipe'], shell: command.endsWith('.cmd') });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => (output += text));
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, output: output.trim() }));
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await setUp().catch((error) => {
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
  });
}
