// How many things of each kind an org may have: who adds too many is told so, another org is not touched, and what two
// add at once counts for both (decision 7.12).
import t from 'tap';
import { EventBus } from '../../../src/base/events/bus.ts';
import { silentLogger } from '../../../src/base/lib/log.ts';
import { ENTITY_BOUNDS } from '../../../src/base/model/org-bounds.ts';
import { HELD_OF_PLANE } from '../../../src/control-plane/state/held-of-plane.ts';
import { AuditTrail } from '../../../src/services/orgs/audit-trail.ts';
import { HELD_OF_ORGS } from '../../../src/services/orgs/held-of-orgs.ts';
import { type HeldThings, OrgHoldings } from '../../../src/services/orgs/org-holdings.ts';
import type { Effect } from '../../../src/storage/contract/store.ts';
import { openEmbeddedStore } from '../../../src/storage/embedded/open-embedded-store.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { type HasTeardown, tempDir } from '../../support/temp-dir.ts';

const MOST = 3;
const ASKING = { principal: { kind: 'admin', id: 'admin' }, operation: 'test', from: '127.0.0.1' } as const;

async function open(t: HasTeardown, things: readonly HeldThings[]) {
  const clock = fakeClock();
  const store = await openEmbeddedStore({ dir: tempDir(t), fsync: 'off', clock, log: silentLogger });
  t.teardown(() => store.close());
  const another = async () => {
    const holdings = await OrgHoldings.open(store, things);
    const outbox = { post: () => ({ effects: [], stored() {}, failed() {} }) };
    return new AuditTrail({ store, clock, events: new EventBus(silentLogger), outbox, holdings }).commitFor(ASKING);
  };
  return { store, another, commit: await another() };
}

/** Something of an org, as it is stored in such a space. */
function thing({ space, countOf }: HeldThings, org: string, id: string): Effect & { readonly op: 'put' } {
  const nodes = countOf === undefined ? [] : ['one'];
  if (space.startsWith('cp_')) return { op: 'put', space, key: `${org} ${id}`, value: { org_id: org, value: { node_ids: nodes }, id } };
  const value = { org_id: org, id, credential: { org_id: org, node_ids: nodes } };
  return { op: 'put', space, key: `${org}-${id}`, value };
}

for (const [where, held] of [
  ['gateway', HELD_OF_ORGS],
  ['control plane', HELD_OF_PLANE],
] as const) {
  for (const kind of held) {
    const { space, bound } = kind;
    t.test(`${where}: ${bound.what}: an org that has as many as it may is told so, and another one is not`, async (t) => {
      const { store, another, commit } = await open(t, [{ ...kind, bound: { ...bound, org: MOST } }]);
      const put = (org: string, id: string, by = commit) => by(id, [thing(kind, org, id)]);
      for (const id of ['1', '2', '3']) await put('a', id);
      await t.rejects(put('a', '4'), { code: 'limit_reached', status: 409, message: bound.what });
      await put('a', '3');
      await put('b', '1');
      const later = await another();
      await t.rejects(put('a', '4', later), { code: 'limit_reached' }, 'also after a start');
      await store.commit(undefined, [{ op: 'delete', space, key: thing(kind, 'a', '1').key }]);
      const both = await Promise.allSettled([put('a', '4', later), put('a', '5', later)]);
      t.same(
        both.map(({ status }) => status),
        ['fulfilled', 'rejected'],
        'of two at once there is place for one',
      );
      t.equal((await store.list(space)).length, 4);
    });
  }
}

t.test('several in one commit are added all or none, with what goes along', async (t) => {
  const [kind] = HELD_OF_ORGS;
  if (kind === undefined) throw new Error('no kind');
  const { store, commit } = await open(t, [{ ...kind, bound: { ...kind.bound, org: MOST } }]);
  const things = (...ids: readonly string[]) => ids.map((id) => thing(kind, 'a', id));
  await t.rejects(commit(undefined, things('1', '2', '3', '4')), { code: 'limit_reached' });
  await t.rejects(commit(undefined, things('1', '2'), [], [{ operation: 'x', object: 'y', effects: things('3', '4') }]), {
    code: 'limit_reached',
  });
  t.equal((await store.list(kind.space)).length, 0);
  await commit(undefined, things('1', '2', '3'));
  await t.rejects(commit(undefined, things('4')), { code: 'limit_reached' });
});

t.test('a commit that fails takes nothing, and what was there beyond the bound stays and can be changed', async (t) => {
  const [kind] = HELD_OF_ORGS;
  if (kind === undefined) throw new Error('no kind');
  const { store, another } = await open(t, []);
  await store.commit(
    undefined,
    ['1', '2', '3', '4', '5'].map((id) => thing(kind, 'a', id)),
  );
  const few = await OrgHoldings.open(store, [{ ...kind, bound: { ...kind.bound, org: MOST } }]);
  t.doesNotThrow(() => few.take([thing(kind, 'a', '5')]).release());
  t.throws(() => few.take([thing(kind, 'a', '6')]), { code: 'limit_reached' });
  t.throws(() => few.take([{ ...thing(kind, 'a', '7'), key: thing(kind, 'a', '1').key, value: { org_id: 'a' } }, thing(kind, 'a', '8')]), {
    code: 'limit_reached',
  });
  for (let n = 0; n < 10; n += 1) few.take(['1', '2', '3'].map((id) => thing(kind, 'b', id))).release();
  t.doesNotThrow(() => few.take(['1', '2', '3'].map((id) => thing(kind, 'b', id))).release(), 'what failed took nothing');
  await t.resolves((await another())('6', [thing(kind, 'a', '6')]));
  t.doesNotThrow(() => few.take([{ ...thing(kind, 'a', '9'), value: { id: 'of no org' } }]).release());
});

t.test('a revoked key counts no more', async (t) => {
  const kind = HELD_OF_ORGS.find(({ bound }) => bound === ENTITY_BOUNDS.managementKeys);
  if (kind === undefined) throw new Error('no kind');
  const { commit } = await open(t, [{ ...kind, bound: { ...kind.bound, org: 1 } }]);
  const key = thing(kind, 'a', '1');
  await commit('1', [key]);
  await t.rejects(commit('2', [thing(kind, 'a', '2')]), { code: 'limit_reached' });
  await commit('1', [{ ...key, value: { ...(key.value as object), revoked_at: 'now' } }]);
  await commit('2', [thing(kind, 'a', '2')]);
});
