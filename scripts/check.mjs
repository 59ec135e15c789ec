/*
 * `npm run check`: everything about the code that is not a test. Ends with the line `N passed, N failed`, one count per check.
 */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { filesBelow, projectRoot, setUp } from './setup.mjs';

const bin = (packageName, ...path) => join(projectRoot, 'node_modules', packageName, ...path);

const CHECKS = [
  {
    name: 'format and lint (biome)',
    run: () => node(bin('@biomejs/biome', 'bin', 'biome'), 'ci', '--colors=off', '--max-diagnostics=50', '.'),
  },
  { name: 'types in use (eslint)', run: () => node(bin('eslint', 'bin', 'eslint.js'), '--max-warnings=0', '.') },
  { name: 'rule of imports (dependency-cruiser)', run: floors },
  { name: 'tests that read the real clock', run: () => node(join(projectRoot, 'scripts', 'real-clock.mjs'), '--check') },
  { name: 'reference pages', run: () => node(join(projectRoot, 'scripts', 'reference.mjs'), '--check'), needs: 'scripts/reference.mjs' },
  { name: 'protocol', run: () => node(join(projectRoot, 'scripts', 'protocol.mjs'), '--check') },
  { name: 'policy schemas', run: () => node(join(projectRoot, 'scripts', 'policy-schema.mjs'), '--check') },
  // Fails where `npm ci` would: the lock file has to name the optional packages of every platform, which `npm install` forgets too easily.
  { name: 'lock file', run: () => npm('ci', '--dry-run', '--ignore-scripts', '--loglevel=error') },
  { name: 'package contents', run: packageContents },
];

/** What a published package must hold, and what must never slip into it. */
const PACKAGE_MUST_HOLD = [
  'LICENSE',
  'NOTICE',
  'README.md',
  'SECURITY.md',
  'bin/gw.mjs',
  'bin/gw-mcp.mjs',
  'build/catalogue/providers.json',
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
  /^build\/(?!src\/|catalogue\/|version\.json$)/,
  /\.(key|pem|p12|tsbuildinfo|log|map)$/,
  /(^|\/)\.env/,
];

try {
  await setUp();
} catch (error) {
  process.stdout.write(`${error.message}\n0 passed, 1 failed\n`);
  process.exit(1);
}

const applicable = CHECKS.filter(({ needs }) => needs === undefined || existsSync(join(projectRoot, needs)));
const results = await Promise.all(
  applicable.map(async ({ name, run }) => {
    const started = performance.now();
    const { ok, output } = await run();
    process.stdout.write(
      `${ok ? 'ok    ' : 'FAILED'} ${name}, ${((performance.now() - started) / 1000).toFixed(1)} s\n${ok ? '' : `${output}\n`}`,
    );
    return ok;
  }),
);
const failed = results.filter((ok) => !ok).length;
process.stdout.write(`${results.length - failed} passed, ${failed} failed\n`);
process.exitCode = failed > 0 ? 1 : 0;

/** An empty or unparsable tree passes the linter silently, so the files that it saw are counted. */
async function floors() {
  const result = await node(
    bin('dependency-cruiser', 'bin', 'dependency-cruise.mjs'),
    'src',
    '--config',
    '.dependency-cruiser.cjs',
    '--output-type',
    'err-long',
  );
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
  return command(...program, ...args);
}

function node(...args) {
  return command(process.execPath, ...args);
}

function command(program, ...args) {
  return new Promise((resolve) => {
    const child = spawn(program, args, { cwd: projectRoot, stdio: ['ignore', 'pipe', 'pipe'] });
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
