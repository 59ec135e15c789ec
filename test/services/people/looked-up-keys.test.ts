// API keys of a control plane: one look for each, kept over a restart and while nobody answers, and never let in on a
// guess.
import t from 'tap';
import { silentLogger } from '../../../src/base/lib/log.ts';
import { sha256Hex } from '../../../src/base/lib/sha256.ts';
import { type FoundKey, LookedUpKeys } from '../../../src/services/people/looked-up-keys.ts';
import { openEmbeddedStore } from '../../../src/storage/embedded/open-embedded-store.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { type HasTeardown, tempDir } from '../../support/temp-dir.ts';

const KEY: FoundKey = { id: 'key-1', org_id: 'acme', name: 'ci' };
const PLAIN = 'gwk_of-a-test';
const NOT_KNOWN = { code: 'key_lookup_failed', status: 503, headers: ['Retry-After', '1'] };

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
    const keys = await LookedUpKeys.open({ store, clock, log: silentLogger, from, lookedUp: (how) => void lookups.push(how) });
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
  await t.rejects(Promise.resolve(keys.judge('gwk_new')), NOT_KNOWN, 'nobody knows whether it counts');
  clock.advance(1_800_000);
  t.match(keys.judge(PLAIN), { result: 'expired' }, 'its time comes all the same');
  await t.rejects(Promise.resolve((await open('other@cp:7443')).judge(PLAIN)), NOT_KNOWN, 'a copy of another org is none');
});

t.test('a look that gets no answer ends in three seconds', async (t) => {
  const { clock, plane, open } = await scene(t);
  plane.silent = true;
  const keys = await open();
  const verdict = keys.judge(PLAIN);
  clock.advance(3_000);
  await t.rejects(Promise.resolve(verdict), NOT_KNOWN);
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
  await t.rejects(Promise.resolve((await open()).judge('gwk_2000')), NOT_KNOWN);
});

t.test('an address with made-up keys takes half of the places, and nobody else is told that his key is unknown', async (t) => {
  const { plane, asked, open, clock, known, lookups } = await scene(t);
  const keys = await open();
  const judge = (key: string, from: string) => Promise.resolve(keys.judge(key, from));
  await judge(PLAIN, '192.0.2.9');
  for (let i = 0; i < 3; i++) known.set(sha256Hex(`gwk_good-${i}`), { ...KEY, id: `good-${i}` });
  plane.silent = true;
  const before = asked.length;
  const flood = Array.from({ length: 200 }, (_, i) => judge(`gwk_${i}`, `2001:db8::${i.toString(16)}`).catch((error: unknown) => error));
  t.equal(asked.length - before, 32, 'a network is one address');
  plane.silent = false;
  for (let i = 0; i < 3; i++) t.match(await judge(`gwk_good-${i}`, '192.0.2.1'), { result: 'valid' }, 'somebody else is looked up');
  t.match(keys.judge(PLAIN, '2001:db8::1'), { result: 'valid' }, 'who is kept is let in at once, from wherever he comes');
  clock.advance(3_000);
  t.match(await Promise.all(flood), Array(200).fill(NOT_KNOWN));
  t.match(await judge('gwk_201', '2001:db8::1'), { result: 'invalid_key' }, 'its places are free again');
  t.equal(lookups.filter((how) => how === 'miss').length, 201);
});

t.test('made-up keys of any number of addresses hold up no look at a key that is kept, and push none out', async (t) => {
  const { plane, asked, open, clock, known } = await scene(t);
  const keys = await open();
  await keys.judge(PLAIN);
  clock.advance(300_000);
  plane.silent = true;
  const flood = Array.from({ length: 1_000 }, (_, i) =>
    Promise.resolve(keys.judge(`gwk_${i}`, `192.0.2.${i}`)).catch((error: unknown) => error),
  );
  t.equal(asked.length, 1 + 64);
  plane.silent = false;
  known.set(sha256Hex(PLAIN), { ...KEY, revoked_at: '2026-11-21T12:00:00.000Z' });
  t.match(await keys.judge(PLAIN), { result: 'revoked' }, 'it is looked up again, so that a flood keeps no revoked key alive');
  clock.advance(3_000);
  t.match(await Promise.all(flood), Array(1_000).fill(NOT_KNOWN));
  for (let i = 0; i < 10_500; i++) await keys.judge(`gwk_${i}`, '192.0.2.1');
  t.equal(keys.list().length, 1);
});

t.test('what one node has looked up the other keeps too, and what is revoked or gone at one is so at the other', async (t) => {
  const { known, plane, open } = await scene(t);
  const [one, other] = [await open(), await open()];
  const strange = await open('acme@another:7443');
  t.match(await one.judge(PLAIN), { result: 'valid' });
  plane.reachable = false;
  t.match(other.judge(PLAIN), { result: 'valid' }, 'it is there while nobody answers');
  t.same(strange.list(), [], 'those of another control plane are not');
  plane.reachable = true;
  known.set(sha256Hex(PLAIN), { ...KEY, revoked_at: '2026-11-21T12:00:00.000Z' });
  await one.changed();
  plane.reachable = false;
  t.match(other.judge(PLAIN), { result: 'revoked' });
  await one.erase();
  t.same(other.list(), []);
});
