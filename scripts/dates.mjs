/*
 * `npm run dates [-- pattern ...]`: runs the test files that read the real clock (scripts/real-clock.json) with that
 * clock moved, by faketime, to moments at which dates go wrong, each in a zone of its own. Ends with the line `N
 * passed, N failed`. `--turns` (what CI runs) runs each file at one moment instead of all of them, file by file at the
 * next one. `--at 2028-02-29T12:00:00Z` moves the clock there, `--zone Asia/Kolkata` in that zone. With either of them
 * it runs every test file whose path contains a pattern.
 */
import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { onPath } from './on-path.mjs';
import { filesBelow, projectRoot, setUp } from './setup.mjs';
import { asProgram, runFiles, tableOf } from './test-files.mjs';

const DAY_MS = 86_400_000;
/**
 * A file takes a part of a second to start, and then some to run: what begins anew is to begin in the midst of that, in
 * each file at another place.
 */
const SECONDS_BEFORE = 4;

await asProgram(main);

async function main() {
  const options = { at: { type: 'string' }, zone: { type: 'string' }, turns: { type: 'boolean' } };
  const { values, positionals: patterns } = parseArgs({ options, allowPositionals: true });
  const faketime = onPath('faketime');
  if (faketime === undefined) {
    const inCi = process.env.CI === 'true';
    process.stdout.write(`skipped: faketime not found, npm run peers installs it\n${inCi ? '0 passed, 1 failed\n' : ''}`);
    return inCi ? 1 : 0;
  }
  await setUp();
  const files = values.at === undefined && values.zone === undefined ? listed(faketime, values) : anyFiles(faketime, values);
  return await runFiles(
    files.filter(({ file }) => patterns.length === 0 || patterns.some((pattern) => file.includes(pattern.replace(/\.ts$/, '.js')))),
    {
      root: join(projectRoot, 'build'),
      // Most of them wait for processes, and for time to pass.
      jobs: Number(process.env.TEST_JOBS) || 2 * availableParallelism(),
      times: {},
      table: tableOf('test-times.json'),
      // A peer that does not follow a moved clock is none here.
      skipsFail: false,
      write: (text) => process.stdout.write(text),
    },
  );
}

function listed(faketime, { turns = false }) {
  const { moments, everyMoment, oneMoment } = tableOf('real-clock.json');
  const needsPeers = new Set(tableOf('needs-peers.json'));
  // An ordinary day of another year shows nothing that the days on which dates go wrong do not.
  const [firstMoment, ...otherMoments] = Object.keys(moments);
  const moved = (paths, at) =>
    paths.map((path, place) => ({ path, run: movedTo(faketime, builtFile(path), at, moments[at], (place % SECONDS_BEFORE) + 1) }));
  // What CI runs nowhere else runs as on a machine that has nothing but Node.
  const once = moved(oneMoment, firstMoment).map(({ path, run }) => ({ ...run, peers: needsPeers.has(path) ? 'missing' : 'none' }));
  const often = otherMoments.flatMap((moment, turn) =>
    moved(everyMoment, moment)
      .filter((_, place) => !turns || place % otherMoments.length === turn)
      .map(({ path, run }) => (needsPeers.has(path) ? run : { ...run, peers: 'none' })),
  );
  return [...once, ...often];
}

function anyFiles(faketime, { at = new Date().toISOString(), zone = 'UTC' }) {
  if (Number.isNaN(Date.parse(at))) throw new Error('--at takes a moment like 2028-02-29T12:00:00Z');
  return filesBelow(join(projectRoot, 'build', 'test'))
    .filter((file) => file.endsWith('.test.js'))
    .map((file) => movedTo(faketime, file, `${at} ${zone}`, { at, zone }, 0));
}

function builtFile(path) {
  const file = join(projectRoot, 'build', path.replace(/\.ts$/, '.js'));
  if (!existsSync(file)) throw new Error(`scripts/real-clock.json names ${path}, which is not there`);
  return file;
}

/** One run of a file, at a moment: `at`, `secondsBefore` it (`before`), or days from now (`days`). */
function movedTo(faketime, file, name, { at, before, days, zone }, secondsBefore) {
  const moved = () => {
    const now = Date.now();
    const moment = at ? Date.parse(at) : before ? Date.parse(before) - secondsBefore * 1_000 : now + days * DAY_MS;
    const offset = Math.round((moment - now) / 1_000);
    // Timers and time-outs go by the monotonic clock, which stays as it is.
    const command = [faketime, '-m', '--exclude-monotonic', '-f', offset < 0 ? `${offset}` : `+${offset}`];
    return { before: command, environment: { TZ: zone } };
  };
  return { file, at: name, moved };
}
