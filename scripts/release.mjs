/*
 * `npm run release -- VERSION`: from a clean tree it moves what stands under Unreleased in CHANGELOG.md to the version,
 * sets the version, makes what is given out in dist/ (the npm package, SBOMs in both formats, SHA256SUMS), and only
 * then commits and tags. Nothing is pushed or published. When a step fails the files are as they were.
 *   --dry-run   says what would be done
 *   --artifacts makes dist/ of the version that is there, without a commit or tag
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { projectRoot, setUp } from './setup.mjs';

const CHANGED = ['CHANGELOG.md', 'package.json', 'package-lock.json'];
/** Of packages whose package.json names no license; each by its README. */
const LICENSES_READ = { 'semaphore@1.1.0': 'MIT' };
/** Characters; npm tells of every package that it misses. */
const ERROR_SHOWN = 2000;
const dist = join(projectRoot, 'dist');
const file = (name) => join(projectRoot, name);

try {
  await main(process.argv.slice(2));
} catch (error) {
  process.stderr.write(`release: ${error.message}\n`);
  process.exitCode = 1;
}

async function main(args) {
  const options = args.filter((arg) => arg.startsWith('--'));
  const [version, ...more] = args.filter((arg) => !arg.startsWith('--'));
  const unknown = options.find((option) => !['--dry-run', '--artifacts'].includes(option));
  if (unknown !== undefined || more.length > 0) throw new Error(`usage: release.mjs VERSION [--dry-run], or release.mjs --artifacts`);
  if (options.includes('--artifacts')) {
    if (version !== undefined) throw new Error('--artifacts takes the version that is there');
    await setUp({ typeCheck: false });
    return makeArtifacts(manifest().version);
  }
  const date = new Date().toISOString().slice(0, 10);
  const changelog = checked(version, date);
  if (options.includes('--dry-run')) return say(`would release ${version}, ${date}, from ${git('rev-parse', '--short', 'HEAD')}`);
  await setUp({ typeCheck: false });
  try {
    writeFileSync(file('CHANGELOG.md'), changelog);
    setVersion(version);
    makeArtifacts(version);
  } catch (error) {
    git('checkout', '--quiet', '--', ...CHANGED);
    throw error;
  }
  git('add', ...CHANGED);
  git('commit', '--quiet', '--message', `Release ${version}`);
  git('tag', '--annotate', `v${version}`, '--message', `AI Request Gateway ${version}`);
  say(`committed and tagged v${version}; next: git push --follow-tags`);
}

/** The changelog of the release, when everything is as it must be before one. */
function checked(version, date) {
  if (!/^\d+\.\d+\.\d+$/.test(version ?? '')) throw new Error('the version has three numbers, as in 0.2.0');
  const current = manifest().version;
  if (!isLater(version, current)) throw new Error(`${version} does not come after ${current}`);
  const dirty = git('status', '--porcelain');
  if (dirty !== '') throw new Error(`the tree has changes that are not committed:\n${dirty}`);
  if (git('tag', '--list', `v${version}`) !== '') throw new Error(`there is a tag v${version} already`);
  const text = readFileSync(file('CHANGELOG.md'), 'utf8');
  if (!/^## Unreleased\n\n\* /m.test(text)) throw new Error('CHANGELOG.md has nothing under Unreleased');
  return text.replace('## Unreleased\n', `## Unreleased\n\n## ${version}, ${date}\n`);
}

function isLater(version, current) {
  const [a, b] = [version, current].map((text) => text.split('.').map(Number));
  const differing = a.findIndex((part, index) => part !== b[index]);
  return differing !== -1 && a[differing] > b[differing];
}

function setVersion(version) {
  for (const name of ['package.json', 'package-lock.json']) {
    const content = JSON.parse(readFileSync(file(name), 'utf8'));
    content.version = version;
    if (content.packages !== undefined) content.packages[''].version = version;
    writeFileSync(file(name), `${JSON.stringify(content, null, 2)}\n`);
  }
}

function makeArtifacts(version) {
  rmSync(dist, { recursive: true, force: true });
  mkdirSync(dist);
  npm('pack', '--ignore-scripts', '--silent', '--pack-destination', dist);
  const base = `ai-request-gateway-${version}`;
  for (const format of ['cyclonedx', 'spdx']) write(`${base}.${format}.json`, billOfMaterials(format));
  const sums = readdirSync(dist)
    .sort()
    .map(
      (name) =>
        `${createHash('sha256')
          .update(readFileSync(join(dist, name)))
          .digest('hex')}  ${name}\n`,
    );
  writeFileSync(join(dist, 'SHA256SUMS'), sums.join(''));
  say(`dist/: ${readdirSync(dist).join(', ')}`);
}

/**
 * What `npm ci --omit=dev` installs. `npm sbom --omit dev` leaves out what a development dependency needs as well, so
 * npm is shown a lock file that has production dependencies alone; the folder has the product's name, by which npm
 * calls it.
 */
function billOfMaterials(format) {
  const place = mkdtempSync(join(tmpdir(), 'gw-release-'));
  try {
    const folder = join(place, manifest().name);
    mkdirSync(folder);
    const { devDependencies: _, ...own } = manifest();
    writeFileSync(join(folder, 'package.json'), JSON.stringify(own));
    writeFileSync(join(folder, 'package-lock.json'), JSON.stringify(productionLock()));
    const args = ['sbom', '--package-lock-only', '--sbom-format', format, '--sbom-type', 'application', '--prefix', folder];
    return JSON.parse(npm(...args));
  } finally {
    rmSync(place, { recursive: true, force: true });
  }
}

function productionLock() {
  const lock = JSON.parse(readFileSync(file('package-lock.json'), 'utf8'));
  const { devDependencies: _, ...root } = lock.packages[''];
  const packages = Object.entries(lock.packages).filter(([path, entry]) => path !== '' && !entry.dev && !entry.devOptional);
  return { ...lock, packages: { '': root, ...Object.fromEntries(packages.map(([path, entry]) => [path, licensed(path, entry)])) } };
}

function licensed(path, entry) {
  const name = path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);
  const license = entry.license ?? LICENSES_READ[`${name}@${entry.version}`];
  if (license === undefined)
    throw new Error(`${name}@${entry.version} names no license in the lock file; read it and add it to LICENSES_READ`);
  return { ...entry, license };
}

function write(name, content) {
  writeFileSync(join(dist, name), `${JSON.stringify(content, null, 2)}\n`);
}

function manifest() {
  return JSON.parse(readFileSync(file('package.json'), 'utf8'));
}

function git(...args) {
  return output('git', args);
}

function npm(...args) {
  const inner = process.env.npm_execpath;
  return inner ? output(process.execPath, [inner, ...args]) : output('npm', args);
}

function output(program, args) {
  const { status, error, stdout, stderr } = spawnSync(program, args, { cwd: projectRoot, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 });
  if (status !== 0) throw new Error(`${program} ${args.join(' ')} failed: ${error?.message ?? stderr.trim().slice(0, ERROR_SHOWN)}`);
  return stdout.trim();
}

function say(text) {
  process.stdout.write(`${text}\n`);
}
