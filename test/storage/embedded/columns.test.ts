// What queries ask of records is kept beside the journal: what happens to it when it is not there, does not fit, or its
// segment goes.
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import type { Store } from '../../../src/storage/contract/store.ts';
import { EPOCH, makeRecord, turns, until } from '../../contract/store-under-test.ts';
import { StoreRig } from './store-rig.ts';

const COUNT = 150;

async function filled(t: Test): Promise<StoreRig> {
  const rig = new StoreRig(t);
  const store = await rig.open();
  for (let n = 1; n <= COUNT; n += 1) {
    const record = makeRecord(n, { pad: 300 });
    const text = JSON.stringify({ ...(JSON.parse(record.text) as object), org_id: `org-${n % 3}` });
    await store.commit({ ...record, text }, []);
  }
  await store.close();
  return rig;
}

function files(rig: StoreRig): readonly string[] {
  return readdirSync(join(rig.dir, 'columns')).sort();
}

function segments(rig: StoreRig): readonly string[] {
  return readdirSync(join(rig.dir, 'journal')).sort();
}

async function found(store: Store): Promise<number> {
  return (await store.records({ org_id: 'org-1', limit: 500 })).length;
}

t.test('each closed segment has a file of columns, and the last one has none', async (t) => {
  const rig = await filled(t);
  t.ok(segments(rig).length > 4);
  t.strictSame(
    files(rig),
    segments(rig)
      .slice(0, -1)
      .map((name) => name.replace('.journal', '.columns')),
  );
});

t.test('files that are missing are made again after the start, and those of other segments go', async (t) => {
  const rig = await filled(t);
  const [first = '', second = ''] = files(rig);
  const whole = readFileSync(join(rig.dir, 'columns', first));
  for (const name of [first, second]) rmSync(join(rig.dir, 'columns', name));
  writeFileSync(join(rig.dir, 'columns', '0000ffff.columns'), 'x');
  rig.lines.length = 0;
  const store = await rig.open();
  await until(() => rig.lines.some(({ message }) => message.includes('read from the journal')));
  t.match(rig.lines.at(-1)?.fields, { segments: 2 });
  t.ok(readFileSync(join(rig.dir, 'columns', first)).equals(whole));
  t.notOk(files(rig).includes('0000ffff.columns'));
  t.equal(await found(store), COUNT / 3);
});

t.test('a file that is damaged, cut, of another segment, or of another state of it is thrown away', async (t) => {
  const rig = await filled(t);
  const [first = '', second = '', third = '', fourth = ''] = files(rig).map((name) => join(rig.dir, 'columns', name));
  const [whole, other] = [readFileSync(first), readFileSync(second)];
  const flipped = Buffer.from(other);
  flipped[flipped.length >> 1] = (flipped[flipped.length >> 1] ?? 0) ^ 1;
  writeFileSync(second, flipped);
  writeFileSync(first, other);
  writeFileSync(third, readFileSync(third).subarray(0, 100));
  writeFileSync(fourth, '');
  const store = await rig.open();
  t.equal(await found(store), COUNT / 3);
  await store.close();
  t.ok(readFileSync(first).equals(whole), 'the right one is there again');
  t.ok(readFileSync(second).equals(other));
});

t.test('a folder that was written before there were columns gets them', async (t) => {
  const rig = await filled(t);
  rmSync(join(rig.dir, 'columns'), { recursive: true });
  const store = await rig.open();
  t.equal(await found(store), COUNT / 3);
  await store.close();
  t.equal(files(rig).length, segments(rig).length - 1);
});

t.test('columns go with their segments, also while they are asked for', async (t) => {
  const rig = await filled(t);
  const store = await rig.open();
  const asked = Array.from({ length: 20 }, () => found(store));
  const removed = await store.removeRecordsBefore(EPOCH + 100);
  t.ok(removed > 50);
  for (const count of await Promise.all(asked)) t.ok(count >= (COUNT - removed) / 3 - 1 && count <= COUNT / 3);
  await turns();
  t.equal(await found(store), leftOf(removed));
  await store.close();
  t.equal(files(rig).length, segments(rig).length - 1);
});

function leftOf(removed: number): number {
  return Array.from({ length: COUNT }, (_, n) => n + 1).filter((n) => n > removed && n % 3 === 1).length;
}

t.test('where columns cannot be written queries are answered all the same', async (t) => {
  const rig = await filled(t);
  rmSync(join(rig.dir, 'columns'), { recursive: true });
  const store = await rig.open();
  rmSync(join(rig.dir, 'columns'), { recursive: true });
  t.equal(await found(store), COUNT / 3);
  t.equal(await found(store), COUNT / 3);
});
