/*
 * `npm run check`: everything about the code that is not a test. Ends with the line `N passed, N failed`, one count per
 * check. `--changed` looks at the files that differ from the last commit: at these alone where that suffices, and at
 * nothing that they cannot have broken. It compiles nothing, so that pages are held against the last build.
 */
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { parseArgs } from 'node:util';
import { Imports } from './import-closure.mjs';
import { filesBelow, projectRoot, setUp } from './setup.mjs';

const bin = (packageName, ...path) => join(projectRoot, 'node_modules', packageName, ...path);
const script = (name, ...args) => node(join(projectRoot, 'scripts', name), ...args);

const BIOME = [bin('@biomejs/biome', 'bin', 'biome'), 'ci', '--colors=off', '--max-diagnostics=50'];
/** They read every file of the project; the compiler knows the first, the rule of imports the second. */
const SLOW_LINTS = ['--skip=correctness/useImportExtensions', '--skip=suspicious/noImportCycles', '--no-errors-on-unmatched'];
/**
 * By content: a clone and a checkout have other times. What a change of types does to other files is found in a clone
 * that has no cache, and by the compiler.
 */
const ESLINT = [
  bin('eslint', 'bin', 'eslint.js'),
  '--max-warnings=0',
  '--cache',
  '--cache-strategy=content',
  `--cache-location=${join('build', '.eslintcache')}`,
];
const CRUISE = [
  bin('dependency-cruiser', 'bin', 'dependency-cruise.mjs'),
  '--config',
  '.dependency-cruiser.cjs',
  '--output-type',
  'err-long',
];

/**
 * `changed`, where a check can look at less: what it does about these files. `of`: paths without which a change breaks
 * nothing of it.
 */
const CHECKS = [
  {
    name: 'format and lint (biome)',
    run: () => node(...BIOME, '.'),
    changed: (files) => node(...BIOME, ...SLOW_LINTS, ...files),
    of: /\.(ts|mjs|cjs|js|json)$/,
  },
  { name: 'types in use (eslint)', run: () => node(...ESLINT, '.'), changed: lintChanged, of: /^(src|test|bench)\/.*\.ts$/ },
  { name: 'rule of imports (dependency-cruiser)', run: floors, changed: changedImports, of: /^src\/.*\.ts$/ },
  {
    name: 'tests that read the real clock',
    run: () => script('real-clock.mjs', '--check'),
    changed: (files) => (files.length > 0 ? script('real-clock.mjs', '--check', ...files) : NOTHING),
    of: /^test\/.*\.test\.ts$/,
  },
  {
    name: 'reference pages',
    run: () => script('reference.mjs', '--check'),
    of: /^docs\/|^scripts\/.*(reference|page)|^src\/(.*(table|settings|codes|routes|commands|fields|bounds|events|stages)\.ts|operations\/|cli\/|control-plane\/admin\/)/,
  },
  { name: 'protocol', run: () => script('protocol.mjs', '--check'), of: /proto/ },
  {
    name: 'policy schemas',
    run: () => script('policy-schema.mjs', '--check'),
    of: /^policies\/schema|policy-schema|^src\/decide\/policy\//,
  },
  // Fails where `npm ci` would: the lock file has to name the optional packages of every platform, which `npm install`
  // forgets too easily.
  { name: 'lock file', run: () => npm('ci', '--dry-run', '--ignore-scripts', '--loglevel=error'), of: /^package(-lock)?\.json$/ },
  { name: 'package contents', run: packageContents, of: /^package\.json$|^\.npmignore$/ },
];

/** Of files that are gone. */
const NOTHING = { ok: true, output: '' };

/** What a published package must hold, and what must never slip into it. */
const PACKAGE_MUST_HOLD = [
  'LICENSE',
  'NOTICE',
  'README.md',
  'SECURITY.md',
  'bin/gw.mjs',
  'bin/gw-mcp.mjs',
  'build/catalogue/providers.json',
  'build/console/index.html',
  'build/src/main.js',
  'build/version.json',
  'policies/bundle.yaml',
  'policies/presets/catalogue.yaml',
  'policies/rules/registered-providers.yaml',
  'preload/node20-proxy.cjs',
  'src/base/catalogue/data/price-list.json',
  'src/control-plane/proto/control-plane.proto',
  'src/surfaces/pages/site/approval.html',
  'deploy/docker/healthcheck.mjs',
  'deploy/kubernetes/kustomization.yaml',
  'systemd/ai-request-gateway.service',
  'systemd/ai-request-gateway.socket',
  'systemd/environment',
  'systemd/install.sh',
  'systemd/uninstall.sh',
];
const PACKAGE_MUST_NOT_HOLD = [
  /(^|\/)node_modules\//,
  /^(test|scripts|bench|data|credentials)\//,
  /^build\/(?!src\/|catalogue\/|console\/|version\.json$)/,
  /\.(key|pem|p12|tsbuildinfo|log|map)$/,
  /(^|\/)\.env/,
];

const { values } = parseArgs({ options: { changed: { type: 'boolean' } } });
let checks = CHECKS;
try {
  if (values.changed) checks = checksOf(changedFiles());
  else await setUp();
} catch (error) {
  process.stdout.write(`${error.message}\n0 passed, 1 failed\n`);
  process.exit(1);
}

const results = await Promise.all(
  checks.map(async ({ name, run }) => {
    const started = performance.now();
    const { ok, output } = await run();
    process.stdout.write(
      `${ok ? 'ok    ' : 'FAILED'} ${name}, ${((performance.now() - started) / 1000).toFixed(1)} s\n${ok ? '' : `${output}\n`}`,
    );
    return ok;
  }),
);
const failed = results.filter((ok) => !ok).length;
if (checks.length === 0) process.stdout.write('nothing differs from the last commit that a check looks at\n');
process.stdout.write(`${results.length - failed} passed, ${failed} failed\n`);
process.exitCode = failed > 0 ? 1 : 0;

/** The checks that these files can fail, each about as few of them as suffice. */
function checksOf(files) {
  return CHECKS.map(({ name, run, changed, of }) => ({ name, run, changed, its: files.filter((file) => of.test(file)) }))
    .filter(({ its }) => its.length > 0)
    .map(({ name, run, changed, its }) => ({ name, run: changed === undefined ? run : () => changed(its.filter(isThere)) }));
}

/** What differs from the last commit, files that git does not know yet included. @throws Error outside of a clone */
function changedFiles() {
  const listed = [
    ['diff', '--name-only', '--no-renames', 'HEAD'],
    ['ls-files', '--others', '--exclude-standard'],
  ].map((args) => spawnSync('git', args, { cwd: projectRoot, encoding: 'utf8' }));
  const failure = listed.find(({ status }) => status !== 0);
  if (failure !== undefined) throw new Error(`--changed asks git: ${failure.error?.message ?? failure.stderr.trim()}`);
  return [...new Set(listed.flatMap(({ stdout }) => stdout.split('\n').filter(Boolean)))].sort();
}

function isThere(file) {
  return existsSync(join(projectRoot, file));
}

/** With the types of these files and of what they import; the whole project takes three times as long to read. */
async function lintChanged(files) {
  if (files.length === 0) return NOTHING;
  const folder = join(projectRoot, 'build');
  mkdirSync(folder, { recursive: true });
  const settings = {
    extends: '../tsconfig.json',
    compilerOptions: { rootDir: '..' },
    include: [],
    files: files.map((file) => `../${file}`),
  };
  writeFileSync(join(folder, '.changed-tsconfig.json'), JSON.stringify(settings));
  return await command(process.execPath, [...ESLINT, ...files], { ESLINT_PROJECT: './build/.changed-tsconfig.json' });
}

/** The imports of these files by the same rules, and circles that go through one of them. */
async function changedImports(files) {
  if (files.length === 0) return NOTHING;
  const { ok, output } = await node(...CRUISE, '--do-not-follow', '^src', ...files);
  const imports = new Imports();
  const circles = files.map((file) => imports.circle(join(projectRoot, file))).filter((way) => way !== undefined);
  const told = circles.map((way) => `circle: ${way.map((file) => relative(projectRoot, file)).join(' > ')}`);
  return { ok: ok && circles.length === 0, output: [...(ok ? [] : [output]), ...told].join('\n') };
}

/** An empty or unparsable tree passes the linter silently, so the files that it saw are counted. */
async function floors() {
  const result = await node(...CRUISE, 'src');
  const cruised = Number(/(\d+) modules/.exec(result.output)?.[1] ?? 0);
  const files = filesBelow(join(projectRoot, 'src')).filter((file) => file.endsWith('.ts')).length;
  if (cruised >= files) return result;
  return { ok: false, output: `${result.output}\nonly ${cruised} modules seen, src has ${files} files` };
}

async function packageContents() {
  const { ok, output, stdout } = await npm('pack', '--dry-run', '--json', '--ignore-scripts', '--loglevel=error');
  if (!ok) return { ok, output };
  const [listing] = Object.values(JSON.parse(stdout));
  const files = listing.files.map(({ path }) => path);
  const problems = [
    ...PACKAGE_MUST_HOLD.filter((path) => !files.includes(path)).map((path) => `missing: ${path}`),
    ...files.filter((path) => PACKAGE_MUST_NOT_HOLD.some((pattern) => pattern.test(path))).map((path) => `does not belong: ${path}`),
  ];
  return { ok: problems.length === 0, output: problems.join('\n') };
}

function npm(...args) {
  const program = process.env.npm_execpath ? [process.execPath, process.env.npm_execpath] : ['npm'];
  const [first, ...rest] = program;
  return command(first, [...rest, ...args]);
}

function node(...args) {
  return command(process.execPath, args);
}

function command(program, args, environment = {}) {
  return new Promise((resolve) => {
    const child = spawn(program, args, { cwd: projectRoot, env: { ...process.env, ...environment }, stdio: ['ignore', 'pipe', 'pipe'] });
    let stdout = '';
    let output = '';
    child.stdout.setEncoding('utf8').on('data', (text) => {
      stdout += text;
      output += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text) => {
      output += text;
    });
    child.on('error', (error) => resolve({ ok: false, output: error.message, stdout }));
    child.on('close', (code) => resolve({ ok: code === 0, output: output.trim(), stdout }));
  });
}
