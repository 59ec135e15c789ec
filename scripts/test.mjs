/*
 * `npm test [-- pattern ...]`: sets the clone up, runs every compiled test file (those whose path contains a pattern, if any), and ends with the line
 * `N passed, N failed`.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { filesBelow, projectRoot, setUp } from './setup.mjs';
import { asProgram, runFiles } from './test-files.mjs';

const timesFile = join(projectRoot, 'build', '.test-times.json');

await asProgram(async () => {
  await setUp();
  return await runAll(process.argv.slice(2));
});

async function runAll(patterns) {
  const files = filesBelow(join(projectRoot, 'build', 'test'))
    .filter((file) => file.endsWith('.test.js'))
    .filter(
      (file) => patterns.length === 0 || patterns.some((pattern) => relative(projectRoot, file).includes(pattern.replace(/\.ts$/, '.js'))),
    );
  const times = readTimes();
  const code = await runFiles(files, {
    root: join(projectRoot, 'build'),
    jobs: jobs(),
    times,
    skipsFail: process.env.CI === 'true',
    write: (text) => process.stdout.write(text),
  });
  writeTimes(times);
  return code;
}

function jobs() {
  const wanted = Number(process.env.TEST_JOBS);
  return Number.isInteger(wanted) && wanted > 0 ? wanted : availableParallelism();
}

function readTimes() {
  try {
    return JSON.parse(readFileSync(timesFile, 'utf8'));
  } catch {
    return {};
  }
}

function writeTimes(times) {
  mkdirSync(dirname(timesFile), { recursive: true });
  writeFileSync(timesFile, JSON.stringify(times));
}
