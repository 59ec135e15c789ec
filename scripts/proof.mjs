/*
 * `npm run proof`: the long proofs, one after the other, each a program of its own in build/test/proof. Arguments:
 * `--tenth` (what CI runs), `--soak` (an hour of soak and nothing else), `--only NAME` (one of `PROOFS`); all others
 * are for the proofs themselves, which list them in test/proof/settings.ts. Ends with `N passed, N failed`.
 */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { forTests } from './child-environment.mjs';
import { projectRoot, setUp } from './setup.mjs';

const PROOFS = [
  'kills',
  'approvals',
  'delegations',
  'chaos',
  'soak',
  'hosts',
  'budgets',
  'memory',
  'million',
  'fuzz',
  'ledger',
  'control-plane',
  'neighbours',
  'cluster',
];

try {
  process.exitCode = await main();
} catch (error) {
  process.stdout.write(`${error.message}\n0 passed, 1 failed\n`);
  process.exitCode = 1;
}

async function main() {
  const { proofs, options } = wanted();
  if (!existsSync('/proc/self/fd')) throw new Error('the proofs read /proc and run on Linux only');
  // Types are for the tests to check; a proof is about what runs.
  await setUp({ typeCheck: false });
  const { proofSettings } = await import(pathToFileURL(join(projectRoot, 'build', 'test', 'proof', 'settings.js')).href);
  proofSettings(options);
  const total = { passed: 0, failed: 0 };
  for (const proof of proofs) {
    const { passed, failed } = await run(proof, options);
    total.passed += passed;
    total.failed += failed;
  }
  process.stdout.write(`${total.passed} passed, ${total.failed} failed\n`);
  return total.failed > 0 || total.passed === 0 ? 1 : 0;
}

/** Which proofs, and what they are told. */
function wanted() {
  const options = { tenth: { type: 'boolean' }, soak: { type: 'boolean' }, only: { type: 'string' } };
  // Not strict: what is not ours is passed on as it was written, and the proofs are strict about it.
  const { values, tokens } = parseArgs({ options, strict: false, tokens: true });
  const ours = new Set(
    tokens
      .filter(({ name }) => name in options)
      .flatMap(({ index, value, inlineValue }) => (value === undefined || inlineValue ? [index] : [index, index + 1])),
  );
  const only = values.soak ? 'soak' : values.only;
  if (only !== undefined && !PROOFS.includes(only)) throw new Error(`--only takes one of ${PROOFS.join(', ')}`);
  if (values.tenth && values.soak) throw new Error('--tenth and --soak exclude each other');
  const passedOn = process.argv.slice(2).filter((_, index) => !ours.has(index));
  const length = values.tenth ? ['--tenth'] : values.soak ? ['--long'] : [];
  return { proofs: only === undefined ? PROOFS : [only], options: [...length, ...passedOn] };
}

/**
 * Runs one proof; its own closing line is read and kept back. A proof that ends without one, or wrongly, has failed.
 */
async function run(proof, options) {
  const started = performance.now();
  const file = join(projectRoot, 'build', 'test', 'proof', `${proof}.js`);
  const child = spawn(process.execPath, ['--enable-source-maps', file, ...options], {
    cwd: projectRoot,
    env: forTests(process.env),
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  // A proof that is interrupted is to stop its gateways itself; without a signal of its own it would outlive this
  // script.
  const pass = (signal) => child.kill(signal);
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, pass);
  let rest = '';
  let sum;
  child.stdout.setEncoding('utf8').on('data', (text) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      const found = /^(\d+) passed, (\d+) failed$/.exec(line);
      if (found) sum = { passed: Number(found[1]), failed: Number(found[2]) };
      else process.stdout.write(`${line}\n`);
    }
  });
  const code = await new Promise((resolve) => {
    child.on('error', () => resolve(-1));
    child.on('close', (code, signal) => resolve(code ?? signal));
  });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.off(signal, pass);
  process.stdout.write(`       ${proof}: ${((performance.now() - started) / 1_000).toFixed(0)} s\n`);
  if (sum !== undefined && (code === 0 || sum.failed > 0)) return sum;
  process.stdout.write(`FAILED ${proof} ended with ${code}\n`);
  return { passed: sum?.passed ?? 0, failed: (sum?.failed ?? 0) + 1 };
}
