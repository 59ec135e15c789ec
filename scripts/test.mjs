/*
 * `npm test [-- pattern ...]`: sets the clone up, runs every compiled test file (those whose path contains a pattern, if any), and ends with the line
 * `N passed, N failed`. `--skipped` runs those in which the last run of all files skipped a test: with the peers that were missing then, CI judges what is left.
 * `--times` puts what the files took into scripts/test-times.json, by which a fresh clone begins with the slow ones.
 */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { parseArgs } from 'node:util';
import { filesBelow, projectRoot, setUp } from './setup.mjs';
import { asProgram, runFiles, withTimes } from './test-files.mjs';

const timesFile = join(projectRoot, 'build', '.test-times.json');
const outputFolder = join(projectRoot, 'build', 'failed-tests');
const skippingFile = join(projectRoot, 'build', '.test-skipping.json');
const tableFile = join(projectRoot, 'scripts', 'test-times.json');

await asProgram(async () => {
  await setUp();
  const options = { skipped: { type: 'boolean' }, times: { type: 'boolean' } };
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  return await runAll(positionals, { onlySkipping: values.skipped === true, keepTimes: values.times === true });
});

async function runAll(patterns, { onlySkipping, keepTimes }) {
  rmSync(outputFolder, { recursive: true, force: true });
  const files = filesBelow(join(projectRoot, 'build', 'test'))
    .filter((file) => file.endsWith('.test.js'))
    .filter(
      (file) => patterns.length === 0 || patterns.some((pattern) => relative(projectRoot, file).includes(pattern.replace(/\.ts$/, '.js'))),
    )
    .filter(onlySkipping ? skippedBefore() : () => true);
  const times = readJson(timesFile) ?? {};
  const table = readJson(tableFile);
  const code = await runFiles(files, {
    root: join(projectRoot, 'build'),
    jobs: jobs(),
    times,
    table,
    skipsFail: process.env.CI === 'true',
    noteSkipping: (names) => {
      if (patterns.length === 0 && !onlySkipping) writeJson(skippingFile, names);
    },
    // Of several files the lines about what failed would be lost among all the others. Where nobody can look into build/ later, they stay.
    ...(process.env.CI === 'true' || files.length === 1 ? {} : { keepOutput }),
    write: (text) => process.stdout.write(text),
  });
  writeJson(timesFile, times);
  if (keepTimes) {
    const names = files.map((file) => relative(join(projectRoot, 'build'), file).replace(/\.js$/, '.ts'));
    const taken = Object.fromEntries(names.map((name) => [name, times[name]]));
    writeFileSync(tableFile, `${JSON.stringify(withTimes(table, taken), undefined, 2)}\n`);
  }
  return code;
}

function keepOutput(name, output) {
  const file = join(outputFolder, `${name}.tap`);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, output);
  return relative(projectRoot, file);
}

/** @throws Error when no run of all files has ended in this clone */
function skippedBefore() {
  const names = readJson(skippingFile);
  if (names === undefined) throw new Error('--skipped follows a run of all files: npm test');
  const skipping = new Set(names.map((name) => join(projectRoot, 'build', name.replace(/\.ts$/, '.js'))));
  return (file) => skipping.has(file);
}

function jobs() {
  const wanted = Number(process.env.TEST_JOBS);
  return Number.isInteger(wanted) && wanted > 0 ? wanted : availableParallelism();
}

function readJson(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return undefined;
  }
}

function writeJson(file, value) {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, JSON.stringify(value));
}
