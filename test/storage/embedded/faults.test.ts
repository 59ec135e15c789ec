import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { Store } from '../../../src/storage/contract/store.ts';
import { segmentFileName } from '../../../src/storage/embedded/segment-header.ts';
import { makeRecord, type Tap, turns, until } from '../../contract/store-under-test.ts';
import { runningClock } from '../../support/fake-clock.ts';
import { StoreRig } from './store-rig.ts';

const DAY_MS = 86_400_000;

function segmentNames(dir: string): string[] {
  return readdirSync(join(dir, 'journal')).sort();
}

function journalBytes(dir: string): number {
  return segmentNames(dir).reduce((sum, name) => sum + statSync(join(dir, 'journal', name)).size, 0);
}

async function commitMany(store: Store, from: number, to: number, pad = 300): Promise<void> {
  await Promise.all(Array.from({ length: to - from + 1 }, (_, n) => store.commit(makeRecord(from + n, { pad }), [])));
}

await t.test('commits of one turn of the event loop are one write', async (t) => {
  const rig = new StoreRig(t, { segmentBytes: 1 << 20 });
  const store = await rig.open();
  const before = rig.files.writes;
  await commitMany(store, 1, 64);
  t.equal(rig.files.writes - before, 1);
});

await t.test('fsync always: nothing is acknowledged before it is on the medium', async (t) => {
  const rig = new StoreRig(t, { fsync: 'always' });
  const store = await rig.open();
  for (let n = 1; n <= 5; n += 1) {
    const before = rig.files.syncs;
    await store.commit(makeRecord(n), []);
    t.equal(rig.files.syncs, before + 1);
  }
  rig.files.failSync = true;
  await t.rejects(store.commit(makeRecord(6), []), { code: 'record_store_unavailable' });
  t.equal(store.writable, false);
  rig.files.failSync = false;
  rig.clock.advance(500);
  await until(() => store.writable);
  t.equal(await store.recordById(makeRecord(6).record_id), undefined);
  await store.commit(makeRecord(6), []);
});

await t.test('fsync by interval: once per interval while there is something to force, not at all when idle', async (t) => {
  const rig = new StoreRig(t, { fsync: 1_000, segmentBytes: 1 << 20 });
  const store = await rig.open();
  const before = rig.files.syncs;
  for (let n = 1; n <= 50; n += 1) await store.commit(makeRecord(n), []);
  rig.clock.advance(999);
  await turns();
  t.equal(rig.files.syncs, before);
  rig.clock.advance(1);
  await until(() => rig.files.syncs > before);
  await turns(100);
  t.equal(rig.files.syncs, before + 1);
  for (let n = 0; n < 5; n += 1) {
    rig.clock.advance(10_000);
    await turns();
  }
  t.equal(rig.files.syncs, before + 1);
  t.equal(rig.clock.timers, 0, 'an idle store has no timer');
});

await t.test('a segment that ends while it is being forced to the medium stays open until it is', async (t) => {
  const rig = new StoreRig(t, { fsync: 1_000 });
  const store = await rig.open();
  let goOn: () => void = () => undefined;
  rig.files.beforeSync = new Promise((resolve) => {
    goOn = resolve;
  });
  await store.commit(makeRecord(1), []);
  const before = rig.files.syncs;
  rig.clock.advance(1_000);
  await until(() => rig.files.syncs > before);
  await store.commit(makeRecord(2, { pad: 16_000 }), []);
  t.equal(segmentNames(rig.dir).length, 2);
  goOn();
  await store.sync();
  t.same(
    rig.lines.filter(({ level }) => level === 'error'),
    [],
  );
  t.equal(store.writable, true);
});

await t.test('fsync off: the medium is never waited for, until sync is asked', async (t) => {
  const rig = new StoreRig(t, { fsync: 'off' });
  const store = await rig.open();
  await commitMany(store, 1, 200);
  rig.clock.advance(10_000);
  await turns(50);
  t.equal(rig.files.syncs, 0);
  await store.sync();
  t.ok(rig.files.syncs > 0);
});

await t.test('slow writes go through the thread pool, and come back when they are quick again', async (t) => {
  const rig = new StoreRig(t, { segmentBytes: 1 << 20 });
  const store = await rig.open();
  rig.files.writeTakes = 3;
  await store.commit(makeRecord(1), []);
  const synchronous = rig.files.writes;
  for (let n = 2; n <= 6; n += 1) await store.commit(makeRecord(n), []);
  t.equal(rig.files.writes, synchronous);
  t.equal(rig.files.asynchronousWrites, 5);
  const two = [store.commit(makeRecord(7), []), store.commit(makeRecord(8), [])];
  await turns(1);
  const three = [store.commit(makeRecord(9), []), store.commit(makeRecord(10), [])];
  await Promise.all([...two, ...three]);
  t.equal((await store.records({ limit: 50 })).length, 10);
  rig.files.writeTakes = 0;
  for (let n = 11; n <= 40; n += 1) await store.commit(makeRecord(n), []);
  t.ok(rig.files.writes > synchronous, 'synchronous again');
  t.equal(rig.files.asynchronousWrites < 30, true);
});

await t.test('a write is not slow because the event loop came late to see its end', async (t) => {
  const rig = new StoreRig(t, { segmentBytes: 1 << 20 });
  const store = await rig.open();
  rig.files.writeTakes = 3;
  await store.commit(makeRecord(1), []);
  const synchronous = rig.files.writes;
  rig.files.doneAtOnce = true;
  for (let n = 2; n <= 20; n += 1) await store.commit(makeRecord(n), []);
  t.equal(rig.files.writes, synchronous + 1, 'tried again after 16');
});

await t.test('a write that failed in the middle leaves no byte behind, synchronous or not', async (t) => {
  for (const writeTakes of [0, 3]) {
    const rig = new StoreRig(t, { segmentBytes: 1 << 20 });
    const store = await rig.open();
    rig.files.writeTakes = writeTakes;
    await commitMany(store, 1, 3);
    const size = journalBytes(rig.dir);
    rig.files.room = 1_500;
    const group = await Promise.allSettled([4, 5, 6].map((n) => store.commit(makeRecord(n, { pad: 300 }), [])));
    t.strictSame(
      group.map((one) => one.status),
      ['rejected', 'rejected', 'rejected'],
    );
    t.equal(journalBytes(rig.dir), size);
    t.equal(rig.lines.filter((line) => line.level === 'error').length, 1, 'said once');
  }
});

await t.test('while what a failed write left cannot be cut, nothing else is written', async (t) => {
  const rig = new StoreRig(t, { segmentBytes: 1 << 20 });
  const store = await rig.open();
  await commitMany(store, 1, 2);
  rig.files.room = 1_500;
  rig.files.failTruncate = true;
  await t.rejects(Promise.all([3, 4].map((n) => store.commit(makeRecord(n, { pad: 300 }), []))), { code: 'record_store_unavailable' });
  rig.files.room = Number.POSITIVE_INFINITY;
  for (let n = 0; n < 3; n += 1) {
    rig.clock.advance(500);
    await turns();
    t.equal(store.writable, false);
  }
  rig.files.failTruncate = false;
  rig.clock.advance(500);
  await until(() => store.writable);
  await store.commit(makeRecord(5), []);
  const again = await rig.open(rig.snapshot('after'));
  t.strictSame(
    (await again.records({ limit: 9 })).map((record) => record.text),
    [makeRecord(1, { pad: 300 }).text, makeRecord(2, { pad: 300 }).text, makeRecord(5).text],
  );
});

await t.test(
  'retention removes whole segment files and their rows, and is finished at the next start when it was interrupted',
  async (t) => {
    const rig = new StoreRig(t);
    const store = await rig.open();
    await commitMany(store, 1, 100);
    for (let n = 101; n <= 200; n += 1) await store.commit(makeRecord(n, { pad: 300 }), []);
    const names = segmentNames(rig.dir);
    t.ok(names.length > 5);
    const bytes = journalBytes(rig.dir);
    const copy = rig.snapshot('files');
    const removed = await store.removeRecordsBefore(makeRecord(150).committed_at);
    t.ok(removed > 100 && removed < 150);
    const left = segmentNames(rig.dir);
    t.ok(left.length < names.length && journalBytes(rig.dir) < bytes);
    t.equal(left.at(-1), names.at(-1));
    // As if the process had died before the last file was unlinked.
    const name = names[names.indexOf(left[0] ?? '') - 1] ?? '';
    copyFileSync(join(copy, 'journal', name), join(rig.dir, 'journal', name));
    await store.close();
    const again = await rig.open();
    await again.close();
    t.strictSame(segmentNames(rig.dir), left);
    const last = await rig.open();
    t.equal((await last.records({ limit: 500 })).length, 200 - removed);
    await last.commit(makeRecord(1), []);
    t.equal((await last.recordById(makeRecord(1).record_id))?.text, makeRecord(1).text, 'the rows are gone: the id is free');
  },
);

await t.test(
  'what retention could not remove is said and counted, and removed as soon as it can be, also when that shows at a start',
  async (t) => {
    const unremoved: number[] = [];
    const rig = new StoreRig(t, { onUnremoved: (segments) => unremoved.push(segments) });
    const said = (): unknown[] =>
      rig.lines.filter(({ message }) => message.startsWith('Records past')).map(({ level, fields }) => ({ level, fields }));
    const store = await rig.open();
    for (let n = 1; n <= 200; n += 1) await store.commit(makeRecord(n, { pad: 300 }), []);
    const names = segmentNames(rig.dir);
    rig.files.failRemove = true;
    await t.rejects(store.removeRecordsBefore(makeRecord(150).committed_at), { code: 'EIO' });
    const files = unremoved[0] ?? 0;
    t.ok(files >= 3);
    t.same(segmentNames(rig.dir), names);
    const first = join(rig.dir, 'journal', segmentFileName(1));
    t.match(said(), [{ level: 'error', fields: { files, first, err: { code: 'EIO' } } }]);
    await store.close();

    rig.lines.length = 0;
    const again = await rig.open();
    await until(() => said().length > 0);
    t.match(said(), [{ level: 'error', fields: { files, first, err: { code: 'EIO' } } }], 'a start says it as well');
    const visible = (await again.records({ limit: 500 })).length;
    t.ok(visible < 200 && visible >= 51);
    rig.clock.advance(59_999);
    rig.files.failRemove = false;
    t.same(segmentNames(rig.dir), names);
    rig.clock.advance(1);
    await until(() => unremoved.at(-1) === 0);
    t.same(unremoved, [files, files, 0]);
    t.same(segmentNames(rig.dir), names.slice(files));
    t.match(said().at(-1), { level: 'info' });
    t.equal((await again.records({ limit: 500 })).length, visible);
    t.equal(await again.removeRecordsBefore(makeRecord(150).committed_at), 0);
  },
);

await t.test('a quiet store begins a new segment every day, so that retention reaches its records', async (t) => {
  const rig = new StoreRig(t, { segmentBytes: 1 << 20 });
  const store = await rig.open();
  for (let day = 0; day < 5; day += 1) {
    await store.commit({ ...makeRecord(day), committed_at: rig.clock.now() }, []);
    rig.clock.advance(DAY_MS);
  }
  t.strictSame(segmentNames(rig.dir), [1, 2, 3, 4, 5].map(segmentFileName));
  t.equal(await store.removeRecordsBefore(rig.clock.now() - 3 * DAY_MS), 2);
});

await t.test('files are for the owner only', async (t) => {
  const rig = new StoreRig(t);
  await rig.open();
  t.equal(statSync(join(rig.dir, 'journal')).mode & 0o077, 0);
  t.equal(statSync(join(rig.dir, 'journal', segmentFileName(1))).mode & 0o077, 0);
});

await t.test('a commit larger than a frame may be is refused alone', async (t) => {
  const rig = new StoreRig(t);
  const store = await rig.open();
  const text = 'x'.repeat(65 * 1024 * 1024);
  const both = [store.commit({ ...makeRecord(1), text }, []), store.commit(makeRecord(2), [])];
  const [large, small] = await Promise.allSettled(both);
  t.equal(large?.status, 'rejected');
  t.equal(small?.status, 'fulfilled');
  t.equal((await store.records({ limit: 5 })).length, 1);
  t.ok(store.writable);
});

/** A real disk that is full: a small tmpfs, where that is allowed. */
function mountTmpfs(t: Tap, folder: string): boolean {
  mkdirSync(folder, { recursive: true });
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=3m', 'tmpfs', folder], { stdio: 'ignore' });
  } catch {
    return false;
  }
  t.teardown(() => execFileSync('umount', ['-l', folder], { stdio: 'ignore' }));
  return true;
}

await t.test('on a real full disk commits are refused, nothing is lost, and room brings the store back', async (t) => {
  const rig = new StoreRig(t);
  const folder = `${rig.dir}-disk`;
  if (!mountTmpfs(t, folder)) {
    t.pass('a small disk', { skip: 'needs the right to mount one' });
    return;
  }
  const real = new StoreRig(t, { clock: runningClock, segmentBytes: 256 * 1024, fsync: 20 });
  const dir = join(folder, 'data');
  const store = await real.open(dir);
  const ballast = join(folder, 'ballast');
  writeFileSync(ballast, Buffer.alloc(1024 * 1024));
  const stored: number[] = [];
  for (let n = 1; n < 20_000 && store.writable; n += 1) {
    await store.commit(makeRecord(n, { pad: 400 }), [{ op: 'add', space: 'c', key: 'k', amounts: { n: 1n } }]).then(
      () => stored.push(n),
      () => undefined,
    );
  }
  t.ok(stored.length > 100);
  t.equal(store.writable, false);
  rmSync(ballast);
  const deadline = performance.now() + 60_000;
  while (!store.writable && performance.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 50));
  t.equal(store.writable, true);
  await store.commit(makeRecord(30_000), []);
  await store.close();
  const again = await real.open(dir);
  t.equal((await again.records({ limit: 30_000 })).length, stored.length + 1);
  t.strictSame(await again.counter('c', 'k'), { n: BigInt(stored.length) });
  await again.close();
});
