/*
 * `npm run record`: after a change of an operation, everything that is made of its table or of what it answers, in the
 * order in which one follows from the other: the recorded answers of its example and of the routes, the reference
 * pages, the schemas and the snapshots of the tools. Read the difference (`git diff`) before it is kept.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { projectRoot, setUp } from './setup.mjs';

const RECORDED = join('src', 'operations', 'management', 'example-answers.ts');
const STEPS = [
  { run: ['build/test/integration/management-examples.test.js'], env: { RECORD_EXAMPLES: '1' } },
  { run: ['node_modules/@biomejs/biome/bin/biome', 'format', '--write', RECORDED], compile: true },
  { run: ['build/test/integration/recorded-answers.test.js'], env: { RECORD_ANSWERS: '1' } },
  { run: ['scripts/reference.mjs'] },
  { run: ['scripts/protocol.mjs'] },
  { run: ['scripts/policy-schema.mjs'] },
  { run: ['scripts/tool-snapshots.mjs'] },
];

try {
  await setUp();
  for (const { run, env = {}, compile = false } of STEPS) {
    const { status, stdout, stderr } = spawnSync(process.execPath, run, {
      cwd: projectRoot,
      env: { ...process.env, ...env },
      encoding: 'utf8',
    });
    if (status !== 0) throw new Error(`${run[0]} failed:\n${stdout}${stderr}`);
    process.stdout.write(`done: ${run.join(' ')}\n`);
    if (compile) await setUp();
  }
} catch (error) {
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
}
