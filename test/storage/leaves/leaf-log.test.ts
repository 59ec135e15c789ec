import { randomBytes } from 'node:crypto';
import { appendFileSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { HEADER_BYTES } from '../../../src/storage/leaves/leaf-header.ts';
import { LeafLog } from '../../../src/storage/leaves/leaf-log.ts';
import { ROW_BYTES } from '../../../src/storage/leaves/leaf-rows.ts';

function hashes(count: number): Buffer[] {
  return Array.from({ length: count }, () => randomBytes(32));
}

function flipped(bytes: Buffer, at: number): Buffer {
  bytes[at] = (bytes[at] ?? 0) ^ 1;
  return bytes;
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
  t.equal(statSync(path).size, HEADER_BYTES + 3_000 * ROW_BYTES, 'a million leaves are 36 MB');
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
    ['a row of another place', () => appendFileSync(path, readFileSync(path).subarray(HEADER_BYTES, HEADER_BYTES + ROW_BYTES))],
  ] as const) {
    tear();
    const torn = await LeafLog.open(path, 10);
    t.equal(torn.count, 10, what);
    t.equal(statSync(path).size, HEADER_BYTES + 10 * ROW_BYTES);
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
  flipped(bytes, HEADER_BYTES + 4 * ROW_BYTES + 3);
  writeFileSync(path, bytes);
  await t.rejects(LeafLog.open(path, 10), {
    message: /10 leaves have been signed for, and only the first 4 can be read/,
  });
  t.equal(statSync(path).size, HEADER_BYTES + 10 * ROW_BYTES);
  truncateSync(path, HEADER_BYTES + 9 * ROW_BYTES);
  await t.rejects(LeafLog.open(path, 10), { message: /only the first 4 can be read/ });
});

t.test('damage among leaves that were acknowledged and not signed for is refused, in the last write too', async (t) => {
  const path = join(t.testdir(), 'acme.leaves');
  const log = await LeafLog.open(path, 0);
  await log.append(hashes(6));
  await log.append(hashes(4));
  await log.close();
  const whole = readFileSync(path);
  for (const [what, damage] of [
    ['a bit of the last row', (bytes: Buffer) => flipped(bytes, bytes.length - 1)],
    ['a bit in the middle', (bytes: Buffer) => flipped(bytes, HEADER_BYTES + 7 * ROW_BYTES)],
    ['its last row is gone', (bytes: Buffer) => bytes.subarray(0, bytes.length - ROW_BYTES)],
    ['half of its last row is gone', (bytes: Buffer) => bytes.subarray(0, bytes.length - 20)],
    ['all rows are gone', (bytes: Buffer) => bytes.subarray(0, HEADER_BYTES)],
    ['most of its header is gone too', (bytes: Buffer) => bytes.subarray(0, 600)],
  ] as const) {
    const damaged = damage(Buffer.from(whole));
    writeFileSync(path, damaged);
    await t.rejects(
      LeafLog.open(path, 5),
      { message: /is damaged: 10 leaves have been acknowledged.*5 are under signed roots.*put back a copy/ },
      what,
    );
    t.same(readFileSync(path), damaged, 'nothing in it is changed');
  }
  const headless = Buffer.from(whole);
  headless.fill(0, 0, HEADER_BYTES);
  writeFileSync(path, headless);
  await t.rejects(LeafLog.open(path, 5), { message: /its header cannot be read/ });
});

t.test('a crash while the count was written leaves the one before, and whole rows behind it are kept and count', async (t) => {
  const path = join(t.testdir(), 'acme.leaves');
  const log = await LeafLog.open(path, 0);
  const given = hashes(9);
  for (const hash of given) await log.append([hash]);
  await log.close();
  const bytes = readFileSync(path);
  const slots = [0, 512].map((at) => Number(bytes.readBigUInt64BE(at + 4)));
  t.same([...slots].sort(), [8, 9]);
  flipped(bytes, slots[0] === 9 ? 8 : 520);
  writeFileSync(path, bytes);
  const again = await LeafLog.open(path, 5);
  t.equal(again.count, 9);
  await again.close();
  const now = readFileSync(path);
  t.equal(Math.max(...[0, 512].map((at) => Number(now.readBigUInt64BE(at + 4)))), 9, 'the next start expects them');
});

t.test('a file is as long as its leaves ask for', async (t) => {
  const path = join(t.testdir(), 'acme.leaves');
  const log = await LeafLog.open(path, 0);
  await log.append(hashes(3));
  await log.close();
  t.equal(await LeafLog.differs(path, 3), false);
  t.equal(await LeafLog.differs(path, 2), true);
  t.equal(await LeafLog.differs(path, 4), true);
});
