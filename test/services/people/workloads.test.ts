// Each org has ids of workloads of its own, in new stores and in those that had one space of ids for all orgs (decision
// 4.1).
import t from 'tap';
import { silentLogger } from '../../../src/base/lib/log.ts';
import { sha256Hex } from '../../../src/base/lib/sha256.ts';
import { WorkloadService } from '../../../src/services/people/workloads.ts';
import { openEmbeddedStore } from '../../../src/storage/embedded/open-embedded-store.ts';
import { runningClock } from '../../support/fake-clock.ts';
import { type HasTeardown, tempDir } from '../../support/temp-dir.ts';

async function openStore(t: HasTeardown) {
  const store = await openEmbeddedStore({ dir: tempDir(t), fsync: 'off', clock: runningClock, log: silentLogger });
  t.teardown(() => store.close());
  return store;
}

const OURS = { workload_id: 'ci', org_id: 'acme', name: 'ours' };
const THEIRS = { workload_id: 'ci', org_id: 'globex', name: 'theirs' };

t.test('two orgs have a workload of one id each, with tokens of their own', async (t) => {
  const workloads = await WorkloadService.open(await openStore(t));
  await workloads.put(OURS);
  await workloads.put(THEIRS);
  t.same([workloads.get('acme', 'ci'), workloads.get('globex', 'ci'), workloads.get('default', 'ci')], [OURS, THEIRS, undefined]);
  const token = (await workloads.issueToken(OURS)) ?? '';
  t.same([workloads.hasToken('acme', 'ci'), workloads.hasToken('globex', 'ci')], [true, false]);
  t.same([workloads.tokenMatches('acme', 'ci', token), workloads.tokenMatches('globex', 'ci', token)], [true, false]);
  t.equal(workloads.holderOf(token), workloads.get('acme', 'ci'));
  t.throws(() => workloads.named('ci', undefined), { code: 'conflict', message: /org_id/ });
  t.same([workloads.named('ci', 'globex'), workloads.named('ci', 'default')], [THEIRS, undefined]);
  t.equal(workloads.onlyOrgOf('ci'), undefined);
  await workloads.remove(THEIRS);
  t.same([workloads.named('ci', undefined), workloads.onlyOrgOf('ci'), workloads.get('globex', 'ci')], [OURS, 'acme', undefined]);
});

t.test('an own workload goes before one that counts for every org, which becomes that of an org with its token', async (t) => {
  const workloads = await WorkloadService.open(await openStore(t));
  await workloads.put(OURS);
  await workloads.put({ workload_id: 'ci', name: 'for all' });
  t.match([workloads.get('acme', 'ci'), workloads.get('globex', 'ci')], [{ name: 'ours' }, { name: 'for all' }]);
  t.same(
    workloads.usableBy('acme').map(({ workload_id: id, name }) => [id, name]),
    [
      ['ci', 'ours'],
      ['default', 'Default workload'],
    ],
  );
  const token = (await workloads.issueToken({ workload_id: 'ci' })) ?? '';
  t.notOk(workloads.hasToken('acme', 'ci'));
  await workloads.put(THEIRS);
  t.match([workloads.get('globex', 'ci'), workloads.get('other', 'ci')], [THEIRS, undefined]);
  t.ok(workloads.tokenMatches('globex', 'ci', token), 'who had a token to show has it to show still');
  await workloads.replaceAll([{ workload_id: 'ci', org_id: 'acme' }]);
  t.same(
    workloads.list().map(({ workload_id: id, org_id: org }) => [org, id]),
    [
      ['acme', 'ci'],
      [undefined, 'default'],
    ],
  );
});

t.test('a store of one space of ids is brought to the new keys once, with its tokens', async (t) => {
  const store = await openStore(t);
  await WorkloadService.open(store);
  const put = (space: string, key: string, value: unknown) => ({ op: 'put' as const, space, key, value });
  await store.commit(undefined, [
    put('workload', 'ci', OURS),
    put('workload', 'shared', { workload_id: 'shared' }),
    put('workload_token', 'ci', sha256Hex('gwt_ci')),
    put('workload_token', 'shared', sha256Hex('gwt_shared')),
  ]);
  for (let starts = 0; starts < 2; starts++) {
    const workloads = await WorkloadService.open(store);
    t.same(
      workloads.list().map(({ workload_id: id }) => id),
      ['ci', 'default', 'shared'],
    );
    t.ok(workloads.tokenMatches('acme', 'ci', 'gwt_ci'));
    t.ok(workloads.tokenMatches('globex', 'shared', 'gwt_shared'));
    t.same((await store.list('workload')).map(({ key }) => key).sort(), ['acme ci', 'default', 'shared']);
    t.same((await store.list('workload_token')).map(({ key }) => key).sort(), ['acme ci', 'shared']);
  }
});

t.test('more of them than one commit takes are brought there in parts, and a start that was cut off goes on where it was', async (t) => {
  const store = await openStore(t);
  await WorkloadService.open(store);
  const ids = Array.from({ length: 250 }, (_, at) => `w${at}`);
  await store.commit(
    undefined,
    ids.flatMap((id) => [
      { op: 'put' as const, space: 'workload', key: id, value: { workload_id: id, org_id: 'acme' } },
      { op: 'put' as const, space: 'workload_token', key: id, value: sha256Hex(`gwt_${id}`) },
    ]),
  );
  let left = 1;
  const cut = new Proxy(store, {
    get: (target, name) => {
      if (name === 'commit' && left-- === 0) return () => Promise.reject(new Error('killed'));
      const member: unknown = Reflect.get(target, name, target);
      return typeof member === 'function' ? member.bind(target) : member;
    },
  });
  await t.rejects(WorkloadService.open(cut), { message: 'killed' });
  t.equal((await store.list('workload')).length, ids.length + 1, 'none is lost, and none is there twice');
  const workloads = await WorkloadService.open(store);
  t.same(
    ids.filter((id) => !workloads.tokenMatches('acme', id, `gwt_${id}`)),
    [],
  );
  t.equal(workloads.list().length, ids.length + 1);
});
