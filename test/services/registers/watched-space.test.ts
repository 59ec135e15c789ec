// What a space in memory says while others change the store, and after changes of which nothing was told.
import t from 'tap';
import { silentLogger } from '../../../src/base/lib/log.ts';
import { RateLimitService } from '../../../src/services/money/rate-limits.ts';
import { OrgService } from '../../../src/services/people/orgs.ts';
import { WorkloadService } from '../../../src/services/people/workloads.ts';
import { WatchedSpace } from '../../../src/services/registers/watched-space.ts';
import type { EntityEvent, Store } from '../../../src/storage/contract/store.ts';
import { openEmbeddedStore } from '../../../src/storage/embedded/open-embedded-store.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { type HasTeardown, tempDir } from '../../support/temp-dir.ts';

async function openStore(t: HasTeardown, dir = tempDir(t)): Promise<Store> {
  const store = await openEmbeddedStore({ dir, fsync: 'off', clock: fakeClock(), log: silentLogger });
  t.teardown(() => store.close());
  return store;
}

const put = (key: string, value: unknown) => ({ op: 'put' as const, space: 's', key, value });
const text = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);

/** A store whose watchers are told by the test, and whose lists come when it says so. */
function held(rows: Map<string, unknown>) {
  let tell: (event: EntityEvent) => unknown = () => undefined;
  const lists: (() => void)[] = [];
  let isHeld = false;
  const store = {
    watch: (_space: string, listener: typeof tell) => {
      tell = listener;
      return Promise.resolve(() => undefined);
    },
    entities: () => {
      const found = [...rows].map(([key, value]) => ({ key, value, version: String(value) }));
      return isHeld ? new Promise((resolve) => lists.push(() => resolve(found))) : Promise.resolve(found);
    },
  } as unknown as Store;
  return {
    store,
    lists,
    hold: () => (isHeld = true),
    tell: (event: EntityEvent): unknown => tell(event),
    change(key: string, value: unknown): unknown {
      if (value === undefined) rows.delete(key);
      else rows.set(key, value);
      return tell({ key, value, version: value === undefined ? undefined : String(value) });
    },
  };
}

t.test('it says what is stored, whoever has put or deleted it, and tells of each change with what was before', async (t) => {
  const store = await openStore(t);
  await store.commit(undefined, [put('a', '1'), put('b', 7)]);
  const told: unknown[] = [];
  const changed = (...change: unknown[]): void => void told.push(change);
  const space = await WatchedSpace.open(store, 's', { read: text, changed });
  t.same([space.size, space.get('a'), space.has('b')], [1, '1', false], 'what is none of these counts as absent');
  await store.commit(undefined, [put('a', '2'), put('c', '3')]);
  await space.refresh('c');
  await store.commit(undefined, [{ op: 'delete', space: 's', key: 'a' }]);
  await space.refresh('a');
  t.same([...space.values()], ['3']);
  t.same(told, [
    ['a', '1', undefined],
    ['a', '2', '1'],
    ['c', '3', undefined],
    ['a', undefined, '2'],
  ]);
});

t.test('after changes of which nothing was told it is read anew, and what is told meanwhile is newer', async (t) => {
  const rows = new Map<string, unknown>([
    ['gone', 'x'],
    ['kept', 'x'],
    ['raced', 'x'],
  ]);
  const under = held(rows);
  const space = await WatchedSpace.open(under.store, 's', { read: text });
  rows.delete('gone');
  rows.set('new', 'y');
  under.hold();
  const read = under.tell({ lost: true });
  void under.change('raced', undefined);
  void under.change('told', 'z');
  t.equal(under.lists.length, 1);
  under.lists[0]?.();
  await read;
  t.same(
    ['gone', 'kept', 'raced', 'new', 'told'].map((key) => space.get(key)),
    [undefined, 'x', undefined, 'y', 'z'],
  );
});

t.test('of two readings the later counts, whichever ends first', async (t) => {
  const rows = new Map<string, unknown>([['a', 'old']]);
  const under = held(rows);
  const space = await WatchedSpace.open(under.store, 's', { read: text });
  under.hold();
  const first = under.tell({ lost: true });
  rows.set('a', 'new');
  const second = under.tell({ lost: true });
  under.lists[1]?.();
  await second;
  under.lists[0]?.();
  await first;
  t.equal(space.get('a'), 'new');
});

// Holds: revoked-is-revoked
t.test('workloads, tokens and org defaults count at every node as soon as one changes them, and over a restart', async (t) => {
  const dir = tempDir(t);
  const store = await openStore(t, dir);
  const [one, two] = await Promise.all([WorkloadService.open(store), WorkloadService.open(store)]);
  for (const node of [one, two]) t.match(node.list(), [{ workload_id: 'default' }], 'of two who come to a fresh store one fills it');
  const ci = { workload_id: 'ci', org_id: 'acme' };
  await one.put(ci);
  const first = (await one.issueToken(ci)) ?? '';
  for (const node of [one, two])
    t.same([node.hasToken('acme', 'ci'), node.tokenMatches('acme', 'ci', first), node.holderOf(first)?.workload_id], [true, true, 'ci']);
  const second = (await two.issueToken(ci)) ?? '';
  for (const node of [one, two])
    t.same(
      [node.tokenMatches('acme', 'ci', first), node.holderOf(first)?.workload_id, node.holderOf(second)?.workload_id],
      [false, undefined, 'ci'],
    );
  await two.removeToken(ci);
  for (const node of [one, two]) t.same([node.hasToken('acme', 'ci'), node.holderOf(second)?.workload_id], [false, undefined]);
  const third = (await two.issueToken(ci)) ?? '';
  await one.remove(ci);
  for (const node of [one, two])
    t.same([node.get('acme', 'ci'), node.hasToken('acme', 'ci'), node.holderOf(third)?.workload_id], [undefined, false, undefined]);
  t.equal(await two.remove(ci), false);

  t.same([one.defaultWorkloadId('acme'), one.defaultAttribution('acme')], ['default', undefined]);
  const defaults = (key: string, value: object) => ({ op: 'put' as const, space: 'org_defaults', key, value });
  await store.commit(undefined, [
    defaults('acme', { project_id: 'apollo' }),
    defaults('bare', { workload_id: 'w', project_id: '' }),
    defaults('odd', { workload_id: 7 }),
  ]);
  await store.close();
  const again = await WorkloadService.open(await openStore(t, dir));
  for (const [org, ...expected] of [
    ['acme', 'default', { project_id: 'apollo' }],
    ['bare', 'w', undefined],
    ['odd', 'default', undefined],
  ] as const)
    t.same([again.defaultWorkloadId(org), again.defaultAttribution(org)], expected, org);
});

t.test('an org that one node suspends or reactivates is so at every node', async (t) => {
  const store = await openStore(t);
  const [one, two] = await Promise.all([OrgService.open(store), OrgService.open(store)]);
  await one.suspend('acme', 'unpaid');
  for (const node of [one, two])
    t.same([node.isActive('acme'), node.isActive('other'), node.status('acme').suspended_reason], [false, true, 'unpaid']);
  await two.reactivate('acme');
  for (const node of [one, two]) t.same([node.isActive('acme'), node.status('acme')], [true, { org_id: 'acme', status: 'active' }]);
});

t.test(
  'what management had laid down for the own org before there was one configuration is not lost, and what any node lays down counts at every one',
  async (t) => {
    const store = await openStore(t);
    const initial = { refill_rate: 60, max_tokens: 10, window_duration: '1m' };
    const old = { refill_rate: 5, max_tokens: 50, window_duration: '1m' };
    await store.commit(undefined, [{ op: 'put', space: 'rate_limit_org', key: 'acme', value: old }]);
    const open = () => RateLimitService.open({ store, clock: fakeClock(), initial, ownOrg: 'acme' });
    const [one, two] = [await open(), await open()];
    for (const { configs } of [one, two]) t.strictSame(configs.of(), old);
    await one.configs.put(undefined, initial);
    t.strictSame(two.configs.of(), initial, 'the other node knows');
    await two.configs.put('globex', { ...initial, max_tokens: 1 });
    t.equal(one.configs.of('globex').max_tokens, 1);
    await store.commit(undefined, [{ op: 'put', space: 'rate_limit_org', key: 'acme', value: old }]);
    t.strictSame(
      (await open()).configs.of(),
      { refill_rate: 5, max_tokens: 10, window_duration: '1m' },
      'the tighter of two that hid each other',
    );
  },
);
