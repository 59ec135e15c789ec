// API keys of a control plane: one look for each, kept over a restart and while nobody answers, and never let in on a guess.
import t from 'tap';
import { silentLogger } from '../../src/base/lib/log.ts';
import { sha256Hex } from '../../src/base/lib/sha256.ts';
import { type FoundKey, RemoteKeys } from '../../src/services/remote-keys.ts';
import { openEmbeddedStore } from '../../src/storage/embedded/open-embedded-store.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';

const KEY: FoundKey = { id: 'key-1', org_id: 'acme', name: 'ci' };
const PLAIN = 'gwk_of-a-test';

/** A control plane that knows what `known` says. */
async function scene(t: HasTeardown) {
  const clock = fakeClock();
  const store = await openEmbeddedStore({ dir: tempDir(t), fsync: 'off', clock, log: silentLogger });
  t.teardown(() => store.close());
  const known = new Map<string, FoundKey>([[sha256Hex(PLAIN), KEY]]);
  const lookups: string[] = [];
  const plane = { reachable: true, version: '1', answers: true, silent: false };
  const asked: string[] = [];
  const source = {
    get reachable() {
      return plane.reachable;
    },
    lookUp: (hash: Uint8Array) => {
      const hex = Buffer.from(hash).toString('hex');
      asked.push(hex);
      if (plane.silent) return new Promise<never>(() => undefined);
      if (!plane.answers) return Promise.reject(new Error('nobody is there'));
      return Promise.resolve({ key: known.get(hex), version: plane.version });
    },
  };
  const open = async (from = 'acme@cp:7443') => {
    const keys = await RemoteKeys.open({ store, clock, log: silentLogger, from, lookedUp: (how) => void lookups.push(how) });
    keys.attach(source);
    return keys;
  };
  return { clock, store, known, lookups, plane, asked, open };
}

t.test('a key is looked up once in five minutes, whoever comes with it at once, and only its hash is kept', async (t) => {
  const { clock, store, lookups, asked, open } = await scene(t);
  const keys = await open();
  const verdicts = await Promise.all([keys.judge(PLAIN), keys.judge(PLAIN), keys.judge(PLAIN)]);
  t.match(verdicts, Array(3).fill({ result: 'valid', key: { ...KEY, key_prefix: PLAIN.slice(0, 12) } }));
  t.same(asked, [sha256Hex(PLAIN)]);
  t.match(keys.judge(PLAIN), { result: 'valid' }, 'at once from then on');
  t.same(lookups, ['fallback', 'hit']);
  t.notOk(JSON.stringify(await store.list('remote_api_key')).includes(PLAIN));
  clock.advance(300_000);
  t.match(await keys.judge(PLAIN), { result: 'valid' });
  t.equal(asked.length, 2);
});

t.test('a key that nobody knows is refused, and not asked for again at once', async (t) => {
  const { clock, known, lookups, asked, plane, open } = await scene(t);
  const keys = await open();
  for (let i = 0; i < 5; i++) t.same(await keys.judge('gwk_wrong'), { result: 'invalid_key' });
  t.equal(asked.length, 1);
  t.same(lookups, Array(5).fill('miss'));
  known.set(sha256Hex('gwk_wrong'), { ...KEY, id: 'key-2' });
  plane.version = '2';
  await keys.changed();
  t.match(await keys.judge('gwk_wrong'), { result: 'valid' }, 'what was unknown is asked for when keys have changed');
  t.same(await keys.judge('gwk_other'), { result: 'invalid_key' });
  clock.advance(10_001);
  t.same(await keys.judge('gwk_other'), { result: 'invalid_key' });
  t.equal(asked.filter((hash) => hash === sha256Hex('gwk_other')).length, 2);
});

t.test('while nobody answers, who was let in once is let in, also after a restart, and nobody else', async (t) => {
  const { clock, plane, asked, open, known } = await scene(t);
  known.set(sha256Hex(PLAIN), { ...KEY, expires_at: new Date(clock.now() + 3_600_000).toISOString() });
  await (await open()).judge(PLAIN);
  plane.answers = false;
  const keys = await open();
  t.match(await keys.judge(PLAIN), { result: 'valid' }, 'a look that fails leaves it as it was');
  plane.reachable = false;
  clock.advance(1_800_000);
  const before = asked.length;
  t.match(keys.judge(PLAIN), { result: 'valid' }, 'at once');
  t.equal(asked.length, before);
  t.same(await keys.judge('gwk_new'), { result: 'invalid_key' });
  clock.advance(1_800_000);
  t.match(keys.judge(PLAIN), { result: 'expired' }, 'its time comes all the same');
  t.same(await (await open('other@cp:7443')).judge(PLAIN), { result: 'invalid_key' }, 'a copy of another org is none');
});

t.test('a look that gets no answer ends in three seconds', async (t) => {
  const { clock, plane, open } = await scene(t);
  plane.silent = true;
  const keys = await open();
  const verdict = keys.judge(PLAIN);
  clock.advance(3_000);
  t.same(await verdict, { result: 'invalid_key' });
});

t.test('when keys have changed, every one that is kept is looked up again before its version counts', async (t) => {
  const { plane, known, open, store } = await scene(t);
  const keys = await open();
  await keys.judge(PLAIN);
  t.equal(keys.version, '1');
  known.set(sha256Hex(PLAIN), { ...KEY, revoked_at: '2026-11-21T12:00:00.000Z' });
  plane.version = '2';
  plane.answers = false;
  await t.rejects(keys.changed(), /nobody is there/);
  t.equal(keys.version, '1', 'it is stale still');
  plane.answers = true;
  await keys.changed();
  t.equal(keys.version, '2');
  t.match(keys.judge(PLAIN), { result: 'revoked', key: { id: 'key-1' } });
  known.delete(sha256Hex(PLAIN));
  plane.version = '3';
  await keys.judge('gwk_stranger');
  t.equal(keys.version, '2', 'an answer of a newer version alone says nothing of the others');
  t.same(await keys.judge(PLAIN), { result: 'invalid_key' }, 'which are looked up when they come');
  t.same(await store.list('remote_api_key'), []);
});

t.test('an erasure leaves no key, and 2,000 are kept at most', async (t) => {
  const { plane, known, open, store, asked } = await scene(t);
  const keys = await open();
  for (let i = 0; i < 2_001; i++) {
    known.set(sha256Hex(`gwk_${i}`), { ...KEY, id: `key-${i}` });
    await keys.judge(`gwk_${i}`);
  }
  t.equal(keys.list('acme').length, 2_000);
  t.equal((await store.list('remote_api_key')).length, 2_000);
  const before = asked.length;
  t.match(await keys.judge('gwk_0'), { result: 'valid' }, 'the one that was pushed out is looked up');
  t.equal(asked.length, before + 1);
  plane.answers = false;
  await keys.erase();
  t.same(keys.list(), []);
  t.same(await store.list('remote_api_key'), []);
  t.same(await (await open()).judge('gwk_2000'), { result: 'invalid_key' });
});

t.test('of strangers who come at once, 64 are looked up and the others are refused', async (t) => {
  const { plane, asked, open, clock } = await scene(t);
  plane.silent = true;
  const keys = await open();
  const verdicts = Array.from({ length: 200 }, (_, i) => Promise.resolve(keys.judge(`gwk_${i}`)));
  t.equal(asked.length, 64);
  clock.advance(3_000);
  t.same(await Promise.all(verdicts), Array(200).fill({ result: 'invalid_key' }));
});
