import { randomBytes } from 'node:crypto';
import { appendFileSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { LeafLog } from '../../../src/storage/leaves/leaf-log.ts';
import { ROW_BYTES } from '../../../src/storage/leaves/leaf-rows.ts';

function hashes(count: number): Buffer[] {
  return Array.from({ length: count }, () => randomBytes(32));
}

t.test('what was appended is found and read at its place, also by the next start', async (t) => {
  const path = join(t.testdir(), 'acme.leaves');
  const given = hashes(3_000);
  const log = await LeafLog.open(path, 0);
  t.equal(log.count, 0);
  await log.append(given.slice(0, 1_000));
  await Promise.all([log.append(given.slice(1_000, 2_000)), log.append(given.slice(2_000))]);
  t.equal(log.count, 3_000);
  await log.close();
  await log.close();
  await t.rejects(log.append(hashes(1)), { message: /closed/ });
  const again = await LeafLog.open(path, 3_000);
  t.equal(again.count, 3_000);
  for (const place of [0, 1, 999, 1_000, 2_999]) t.equal(await again.find(given[place] as Buffer), place);
  t.equal(await again.find(randomBytes(32)), undefined);
  t.same(await again.read(998, 4), given.slice(998, 1_002));
  t.same(await again.read(2_999, 10), given.slice(2_999));
  t.same(await again.read(3_000, 10), []);
  t.equal(statSync(path).size, 3_000 * ROW_BYTES, 'a million leaves are 36 MB');
  await again.close();
});

t.test('a hash that is there already is not added again, within one call and over starts', async (t) => {
  const path = join(t.testdir(), 'acme.leaves');
  const [one, two] = hashes(2) as [Buffer, Buffer];
  const log = await LeafLog.open(path, 0);
  await log.append([one, one, two]);
  await Promise.all([log.append([two, one]), log.append([two])]);
  t.equal(log.count, 2);
  await log.close();
  const again = await LeafLog.open(path, 2);
  await again.append([one, two]);
  t.equal(again.count, 2);
  t.throws(() => again.append([Buffer.alloc(31)]), TypeError);
  await again.close();
});

t.test('hashes that somebody has made to begin alike are told apart', async (t) => {
  const log = await LeafLog.open(join(t.testdir(), 'acme.leaves'), 0);
  const alike = hashes(50).map((hash) => Buffer.concat([Buffer.alloc(8, 1), hash.subarray(8)]));
  await log.append(alike);
  t.equal(log.count, 50);
  for (const [place, hash] of alike.entries()) t.equal(await log.find(hash), place);
  await log.close();
});

t.test('rows that a crash has torn are cut off, and the next ones stand in their place', async (t) => {
  const path = join(t.testdir(), 'acme.leaves');
  const given = hashes(10);
  const log = await LeafLog.open(path, 0);
  await log.append(given);
  await log.close();
  for (const [what, tear] of [
    ['half a row', () => appendFileSync(path, randomBytes(20))],
    ['rows of zeros', () => appendFileSync(path, Buffer.alloc(5 * ROW_BYTES))],
    ['a row of another place', () => appendFileSync(path, readFileSync(path).subarray(0, ROW_BYTES))],
  ] as const) {
    tear();
    const torn = await LeafLog.open(path, 10);
    t.equal(torn.count, 10, what);
    t.equal(statSync(path).size, 10 * ROW_BYTES);
    await torn.close();
  }
  const more = await LeafLog.open(path, 10);
  const [next] = hashes(1) as [Buffer];
  await more.append([next]);
  t.equal(await more.find(next), 10);
  await more.close();
});

t.test('a file that has lost what was signed for is not opened, and nothing in it is changed', async (t) => {
  const path = join(t.testdir(), 'acme.leaves');
  const log = await LeafLog.open(path, 0);
  await log.append(hashes(10));
  await log.close();
  const bytes = readFileSync(path);
  bytes[4 * ROW_BYTES + 3] = (bytes[4 * ROW_BYTES + 3] ?? 0) ^ 1;
  writeFileSync(path, bytes);
  await t.rejects(LeafLog.open(path, 10), {
    message: /10 leaves have been signed for, and only the first 4 can be read/,
  });
  t.equal(statSync(path).size, 10 * ROW_BYTES);
  truncateSync(path, 9 * ROW_BYTES);
  await t.rejects(LeafLog.open(path, 10), { message: /only the first 4 can be read/ });
});
