// Registered projects and the defaults of an org: what is stored, what several writers of a store make of it, and what
// may not be at the same time.
import t from 'tap';
import { GatewayError } from '../../../src/base/lib/gateway-error.ts';
import { silentLogger } from '../../../src/base/lib/log.ts';
import { ProjectService } from '../../../src/services/people/projects.ts';
import { WorkloadService } from '../../../src/services/people/workloads.ts';
import type { Store } from '../../../src/storage/contract/store.ts';
import { openEmbeddedStore } from '../../../src/storage/embedded/open-embedded-store.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { type HasTeardown, tempDir } from '../../support/temp-dir.ts';

const NOW = Date.UTC(2026, 10, 24, 12);

async function openStore(t: HasTeardown, dir = tempDir(t)): Promise<Store> {
  const store = await openEmbeddedStore({ dir, fsync: 'off', clock: fakeClock(NOW), log: silentLogger });
  t.teardown(() => store.close());
  return store;
}

async function open(store: Store) {
  const clock = fakeClock(NOW);
  const projects = await ProjectService.open(store, clock);
  const { orgDefaults, ...workloads } = await opened(store);
  const mayArchive = (orgId: string, projectId: string) => orgDefaults.isNotDefault(orgId, projectId);
  return {
    projects,
    orgDefaults,
    ...workloads,
    update: (orgId: string, projectId: string, change: Parameters<ProjectService['update']>[2]) =>
      projects.update(orgId, projectId, change, { mayArchive }),
    set: (orgId: string, change: Parameters<typeof orgDefaults.change>[1]) => orgDefaults.change(orgId, change, { clock }),
  };
}

async function opened(store: Store) {
  const workloads = await WorkloadService.open(store);
  return { workloads, orgDefaults: workloads.orgDefaults };
}

const failsWith = (code: string) => (error: unknown) => error instanceof GatewayError && error.code === code;

async function rejects(t: Tap, promise: Promise<unknown>, code: string, message: string): Promise<void> {
  t.ok(await promise.then(() => false, failsWith(code)), message);
}
type Tap = { ok(value: unknown, message: string): void };

t.test('a project is made once, changed in parts, archived and removed, and every writer of the store knows at once', async (t) => {
  const store = await openStore(t);
  const [one, two] = [await open(store), await open(store)];
  const made = await one.projects.create('acme', 'apollo', { description: 'To the moon' });
  t.same(made, {
    project_id: 'apollo',
    org_id: 'acme',
    display_name: 'apollo',
    description: 'To the moon',
    status: 'active',
    created_at: '2026-11-24T12:00:00.000Z',
  });
  await rejects(t, two.projects.create('acme', 'apollo', {}), 'conflict', 'a second one of the same id');
  await Promise.all([one.update('acme', 'apollo', { display_name: 'Apollo' }), two.update('acme', 'apollo', { description: '' })]);
  for (const { projects } of [one, two]) {
    t.match(projects.get('acme', 'apollo'), { display_name: 'Apollo', description: '', status: 'active' }, 'neither change is lost');
    t.notOk(projects.isArchived('acme', 'apollo'));
  }
  await two.update('acme', 'apollo', { status: 'archived' });
  for (const { projects } of [one, two]) {
    t.ok(projects.isArchived('acme', 'apollo'));
    t.notOk(projects.isArchived('acme', undefined) || projects.isArchived('other', 'apollo') || projects.isArchived('acme', 'zeus'));
  }
  await one.update('acme', 'apollo', { status: 'active' });
  t.notOk(two.projects.isArchived('acme', 'apollo'));
  await one.update('acme', 'apollo', { status: 'archived' });
  t.ok(await one.projects.remove('acme', 'apollo'));
  t.notOk(await two.projects.remove('acme', 'apollo'));
  t.notOk(two.projects.isArchived('acme', 'apollo'), 'what is not registered is a name like any other');
  t.equal(await one.update('acme', 'apollo', { status: 'archived' }), undefined);
});

t.test('of those who make the same at once one does', async (t) => {
  const store = await openStore(t);
  const { projects } = await open(store);
  const made = await Promise.allSettled(Array.from({ length: 20 }, () => projects.create('acme', 'apollo', {})));
  t.equal(made.filter(({ status }) => status === 'fulfilled').length, 1);
});

t.test('an org sees its own projects, by status, in the order of their ids, also after a restart', async (t) => {
  const dir = tempDir(t);
  const store = await openStore(t, dir);
  const before = await open(store);
  for (const [org, id] of [
    ['acme', 'b'],
    ['acme', 'a'],
    ['other', 'a'],
    ['acme', 'c'],
  ] as const)
    await before.projects.create(org, id, {});
  await before.update('acme', 'b', { status: 'archived' });
  await store.close();
  const { projects } = await open(await openStore(t, dir));
  const ids = (list: ReturnType<typeof projects.list>) => list.map(({ project_id: id }) => id);
  t.same(
    [ids(projects.list('acme')), ids(projects.list('acme', 'active')), ids(projects.list('acme', 'archived')), ids(projects.list('other'))],
    [['a', 'b', 'c'], ['a', 'c'], ['b'], ['a']],
  );
  t.ok(projects.isArchived('acme', 'b'));
});

t.test('org defaults are set in parts and taken back, for that org alone', async (t) => {
  const store = await openStore(t);
  const [one, two] = [await open(store), await open(store)];
  const fresh = { org_id: 'acme', workload_id: 'default', project_id: null, updated_at: null };
  t.same(one.orgDefaults.get('acme'), fresh, 'what holds for every org');
  await one.workloads.put({ workload_id: 'ci', org_id: 'acme' });
  t.match(await one.set('acme', { workload_id: 'ci' }), { workload_id: 'ci', project_id: null, updated_at: '2026-11-24T12:00:00.000Z' });
  t.match(await two.set('acme', { project_id: 'apollo' }), { workload_id: 'ci', project_id: 'apollo' });
  for (const { workloads } of [one, two]) {
    t.equal(workloads.defaultWorkloadId('acme'), 'ci');
    t.same(workloads.defaultAttribution('acme'), { project_id: 'apollo' });
    t.equal(workloads.defaultWorkloadId('other'), 'default');
    t.equal(workloads.defaultAttribution('other'), undefined);
  }
  t.match(await one.set('acme', { workload_id: null, project_id: null }), { ...fresh, updated_at: '2026-11-24T12:00:00.000Z' });
  await Promise.all([one.set('acme', { workload_id: 'ci' }), two.set('acme', { project_id: 'zeus' })]);
  t.match(one.orgDefaults.get('acme'), { workload_id: 'ci', project_id: 'zeus' }, 'two at once lose nothing of each other');
  await rejects(t, one.set('acme', { workload_id: 'nobody' }), 'invalid_request', 'a workload that there is not');
  await rejects(t, one.set('other', { workload_id: 'ci' }), 'invalid_request', 'a workload of another org');
});

// Holds: archived-projects-pay-nothing
t.test('no project is archived and the default of its org, whoever is first', async (t) => {
  const store = await openStore(t);
  const one = await open(store);
  for (const id of ['apollo', 'zeus']) await one.projects.create('acme', id, {});
  await one.set('acme', { project_id: 'apollo' });
  await rejects(t, one.update('acme', 'apollo', { status: 'archived' }), 'conflict', 'the default');
  await one.update('acme', 'zeus', { status: 'archived' });
  await rejects(t, one.set('acme', { project_id: 'zeus' }), 'conflict', 'an archived one');
  await one.set('acme', { project_id: null });
  for (let round = 0; round < 20; round += 1) {
    const id = `race-${round}`;
    await one.projects.create('acme', id, {});
    const [archived, set] = await Promise.allSettled([one.update('acme', id, { status: 'archived' }), one.set('acme', { project_id: id })]);
    t.equal([archived, set].filter(({ status }) => status === 'fulfilled').length, 1, 'one of both');
    await one.set('acme', { project_id: null });
  }
});
