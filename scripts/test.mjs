/*
 * `npm test [-- pattern ...]`: sets the clone up, runs every compiled test file (those whose path contains a pattern,
 * if any), and ends with the line `N passed, N failed`. A file runs as on a machine that has nothing but Node, unless
 * scripts/needs-peers.json lists it. `--watch` then runs a file again when something has changed that it imports.
 * `--times` puts what the files took into scripts/test-times.json, by which a fresh clone begins with the slow ones. Of
 * CI: `--but-dates` leaves out what `npm run dates` runs as this would, and `--without-peers` runs the listed files,
 * but those that `npm run dates` runs, as on a machine that has nothing but Node.
 */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { parseArgs } from 'node:util';
import { Imports } from './import-closure.mjs';
import { filesBelow, projectRoot, setUp } from './setup.mjs';
import { asProgram, runFiles, tableOf, withTimes } from './test-files.mjs';
import { watchBuild } from './watched-build.mjs';

const timesFile = join(projectRoot, 'build', '.test-times.json');
const outputFolder = join(projectRoot, 'build', 'failed-tests');
const tableFile = join(projectRoot, 'scripts', 'test-times.json');

await asProgram(async () => {
  const flags = ['watch', 'times', 'but-dates', 'without-peers'];
  const options = Object.fromEntries(flags.map((name) => [name, { type: 'boolean' }]));
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  await setUp({ typeCheck: !values.watch });
  if (values.watch) return await watchFiles(positionals);
  return await runAll(chosen(positionals, values), { keepTimes: values.times === true });
});

function chosen(patterns, options = {}) {
  const { oneMoment, everyMoment } = tableOf('real-clock.json');
  const [needing, moved] = [new Set(tableOf('needs-peers.json')), new Set(oneMoment)];
  const ofDates = new Set([...oneMoment, ...everyMoment]);
  return filesBelow(join(projectRoot, 'build', 'test'))
    .filter((file) => file.endsWith('.test.js'))
    .map((file) => ({ file, name: sourceOf(file) }))
    .filter(({ name }) => patterns.length === 0 || patterns.some((pattern) => name.includes(pattern.replace(/\.js$/, '.ts'))))
    .filter(({ name }) => !options['without-peers'] || (needing.has(name) && !moved.has(name)))
    .filter(({ name }) => !options['but-dates'] || needing.has(name) || !ofDates.has(name))
    .map(({ file, name }) => ({ file, peers: !needing.has(name) ? 'none' : options['without-peers'] ? 'missing' : undefined }));
}

async function runAll(files, { keepTimes = false } = {}) {
  rmSync(outputFolder, { recursive: true, force: true });
  const times = readJson(timesFile) ?? {};
  const table = readJson(tableFile);
  const isMissing = files.some(({ peers }) => peers === 'missing');
  const code = await runFiles(files, {
    root: join(projectRoot, 'build'),
    jobs: jobs(),
    times: isMissing ? { ...times } : times,
    table,
    skipsFail: process.env.CI === 'true' && !isMissing,
    // Of several files the lines about what failed would be lost among all the others. Where nobody can look into
    // build/ later, they stay.
    ...(process.env.CI === 'true' || files.length === 1 ? {} : { keepOutput }),
    write: (text) => process.stdout.write(text),
  });
  writeJson(timesFile, times);
  if (keepTimes) {
    const taken = Object.fromEntries(files.map(({ file }) => [sourceOf(file), times[sourceOf(file)]]));
    writeFileSync(tableFile, `${JSON.stringify(withTimes(table, taken), undefined, 2)}\n`);
  }
  return code;
}

/** Runs the files, and then those that import what was compiled, one run after the other, until it is ended. */
async function watchFiles(patterns) {
  const changed = new Set();
  let isRunning = false;
  const runChanged = async () => {
    if (isRunning) return;
    isRunning = true;
    while (changed.size > 0) {
      const compiled = new Set(changed);
      changed.clear();
      const imports = new Imports();
      const files = chosen(patterns).filter(({ file }) => [...imports.below(file)].some((one) => compiled.has(one)));
      if (files.length > 0) await runAll(files);
    }
    isRunning = false;
  };
  await runAll(chosen(patterns));
  await watchBuild({
    onBuilt: ({ files, isKept }) => {
      if (isKept) process.stdout.write('nothing runs before these errors are mended\n');
      for (const file of files) changed.add(file);
      void runChanged();
    },
    write: (text) => process.stdout.write(text),
  });
  return await new Promise(() => undefined);
}

function sourceOf(file) {
  return relative(join(projectRoot, 'build'), file).replaceAll('\\', '/').replace(/\.js$/, '.ts');
}

function keepOutput(name, output) {
  const file = join(outputFolder, `${name}.tap`);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, output);
  return relative(projectRoot, file);
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
