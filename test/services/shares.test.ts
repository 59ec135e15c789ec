// One org takes all that it can of each bounded place, under names that exist and names that are made up; another org finds a place all the same (decision 7.12).
import { randomBytes } from 'node:crypto';
import t from 'tap';
import { EventBus } from '../../src/base/events/bus.ts';
import { silentLogger } from '../../src/base/lib/log.ts';
import { newestFirst } from '../../src/base/lib/newest-first.ts';
import { SecretBox } from '../../src/base/lib/secret-box.ts';
import type { Approval } from '../../src/base/model/approval.ts';
import { type ApprovalRequest, ApprovalService } from '../../src/services/approvals.ts';
import { Outbox } from '../../src/services/outbox.ts';
import { QuarantineService } from '../../src/services/quarantines.ts';
import type { Effect, Store } from '../../src/storage/contract/store.ts';
import { openEmbeddedStore } from '../../src/storage/embedded/open-embedded-store.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';

const HOUR_MS = 3_600_000;
const PLACES = 40;
const KNOWN = {
  org: (id: string) => id === 'a' || id === 'b',
  workload: (_org: string, id: string) => id === 'ci' || id === 'web',
};

/** A call of somebody, which says of itself what a caller can say. */
interface Caller {
  readonly org: string;
  readonly workload: string;
  readonly address: string;
  readonly name?: string;
}

const HONEST: Caller = { org: 'b', workload: 'ci', address: '192.0.2.1' };

/** Ways to be many, by number. */
const FLOODS: Readonly<Record<string, (n: number) => Caller>> = {
  'one caller': () => ({ org: 'a', workload: 'ci', address: '192.0.2.9' }),
  'callers of names that they make up': (n) => ({ org: 'a', workload: 'ci', address: '192.0.2.9', name: `c${n}` }),
  'workloads that are made up': (n) => ({ org: 'a', workload: `w${n}`, address: '192.0.2.9' }),
  'orgs that are made up': (n) => ({ org: `o${n}`, workload: 'ci', address: '192.0.2.9' }),
  'orgs that are made up, of many addresses': (n) => ({ org: `o${n}`, workload: 'ci', address: `198.51.100.${n % 250}` }),
};

/** A bounded place: something of a caller that takes one, and whether it did. */
type Place = (t: HasTeardown) => Promise<(caller: Caller, n: number) => Promise<boolean>>;

async function ground(t: HasTeardown) {
  const clock = fakeClock();
  const store = await openEmbeddedStore({ dir: tempDir(t), fsync: 'off', clock, log: silentLogger });
  t.teardown(() => store.close());
  const outbox = await Outbox.open({ store, clock, log: silentLogger, writer: 'node' });
  return { clock, store, outbox, log: silentLogger, events: new EventBus(silentLogger), known: KNOWN };
}

function approvalOptions(given: Awaited<ReturnType<typeof ground>>) {
  const box = new SecretBox([randomBytes(32)]);
  return { ...given, box, ttlMs: HOUR_MS, rejectForMs: HOUR_MS, keepContent: false, maxPending: PLACES };
}

function asked({ org, workload, address }: Caller, n: number): ApprovalRequest {
  return {
    org_id: org,
    workload_id: workload,
    caller_ip: address,
    reason: 'ask first',
    reason_codes: [],
    rules: [{ id: 'risk/ask', hash: 'h1', reason: undefined }],
    connection_type: 'direct_api',
    attribution: {},
    action: { type: 'ai.infer', method: 'POST', target_host: 'h', target_path: '/', stream: false, param_sizes: {} },
    action_hash: `${org} ${workload} ${n}`,
    record_id: 'r',
    content: () => '',
  };
}

async function approvals(t: HasTeardown): Promise<ApprovalService> {
  const service = await ApprovalService.open(approvalOptions(await ground(t)));
  t.teardown(() => service.close());
  return service;
}

const PLACES_OF_CALLERS: Readonly<Record<string, Place>> = {
  'requests that wait for an approval': async (t) => {
    const service = await approvals(t);
    return async (caller, n) => (await service.ask(asked(caller, n))).kind === 'opened';
  },
  'entries of the quarantine': async (t) => {
    const service = await QuarantineService.open({ ...(await ground(t)), maxHeld: PLACES });
    return (caller, n) => {
      const { org, workload, address, name = `n${n}` } = caller;
      const whom = { orgId: org, workloadId: workload, callerIp: address, callerId: name };
      service.hold(whom, { reason: 'odd', reason_codes: [] });
      return Promise.resolve(service.holding(whom) !== undefined && service.holding({ ...whom, callerId: 'another' }) === undefined);
    };
  },
};

for (const [what, place] of Object.entries(PLACES_OF_CALLERS)) {
  t.test(`${what}: whoever takes all that he can leaves the next org its own`, async (t) => {
    for (const [who, caller] of Object.entries(FLOODS)) {
      const take = await place(t);
      let taken = 0;
      for (let n = 0; n < 3 * PLACES; n += 1) if (await take(caller(n), n)) taken += 1;
      t.ok(taken > 0 && taken <= PLACES / 2, `${who}: ${taken} of ${PLACES}`);
      for (let n = 0; n < 5; n += 1) t.ok(await take(HONEST, 1_000 + n), `${who}: another org's ${n}`);
      const other = { ...caller(0), workload: 'web', org: 'a', address: '203.0.113.1' };
      if (caller(0).org === 'a') t.equal(await take(other, 2_000), true, `${who}: another workload of the same org`);
    }
  });
}

t.test('what waited before a start counts after it, for the same org and caller', async (t) => {
  const options = approvalOptions(await ground(t));
  const before = await ApprovalService.open(options);
  for (let n = 0; n < PLACES; n += 1) await before.ask(asked({ org: 'a', workload: 'ci', address: '' }, n));
  const { pending } = before;
  before.close();
  const after = await ApprovalService.open(options);
  t.teardown(() => after.close());
  t.equal(after.pending, pending);
  t.match(await after.ask(asked({ org: 'a', workload: 'ci', address: '' }, 99)), { kind: 'full', full: 'caller' });
  const [first] = (await after.page({ orgId: 'a', status: 'pending' }, { after: undefined, limit: 1 })).items;
  await after.decide(first?.approval_id ?? '', {
    status: 'denied',
    by: 'olga',
    reason: undefined,
    principal: { kind: 'admin', id: 'admin', scopes: ['admin'] },
  });
  t.match(await after.ask(asked({ org: 'a', workload: 'ci', address: '' }, 99)), { kind: 'opened' }, 'what is decided gives its place back');
  t.match(await after.ask(asked({ org: 'b', workload: 'ci', address: '' }, 99)), { kind: 'opened' });
});

/** Counts the values that are read of a space. */
function counting(store: Store): { readonly store: Store; read(): number } {
  let read = 0;
  const counted: Pick<Store, 'get' | 'list'> = {
    get: (space, key) => {
      read += 1;
      return store.get(space, key);
    },
    list: async (space, page) => {
      const rows = await store.list(space, page);
      read += rows.length;
      return rows;
    },
  };
  const proxy = new Proxy(store, {
    get: (target, name) => {
      const own: unknown = Reflect.get(name === 'get' || name === 'list' ? counted : target, name);
      return typeof own === 'function' ? own.bind(target) : own;
    },
  });
  return {
    store: proxy,
    read: () => {
      const before = read;
      read = 0;
      return before;
    },
  };
}

t.test('a list of an org that has little reads little, also of a folder of an older version', async (t) => {
  const given = await ground(t);
  const made: Approval[] = [];
  const effects: Effect[] = [];
  const entries: Effect[] = [];
  for (let n = 0; n < 3_000; n += 1) {
    const id = `00000000-0000-7000-8000-${String(n).padStart(12, '0')}`;
    const { content: _content, rules: _rules, ...rest } = asked({ org: n % 1_000 === 5 ? 'b' : 'a', workload: 'ci', address: '' }, n);
    const approval: Approval = {
      ...rest,
      approval_id: id,
      status: n % 1_000 < 900 ? 'denied' : 'pending',
      created_at: '2020-01-01T00:00:00.000Z',
      expires_at: '2099-01-01T00:00:00.000Z',
      decided_by: null,
      decided_at: null,
    } as Approval;
    made.push(approval);
    effects.push({ op: 'put', space: 'approval', key: newestFirst(id), value: approval });
    if (approval.status === 'pending')
      effects.push({ op: 'put', space: 'approval_pending', key: id, value: Date.parse(approval.expires_at) });
    const entry = { quarantine_id: id, org_id: approval.org_id, workload_id: 'ci', released_at: null, released_by: null };
    entries.push({ op: 'put', space: 'quarantine', key: newestFirst(id), value: entry });
  }
  await given.store.commit(undefined, [...effects, ...entries]);
  const { store, read } = counting(given.store);
  const service = await ApprovalService.open({ ...approvalOptions(given), store });
  const quarantines = await QuarantineService.open({ ...given, store });
  t.teardown(() => service.close());
  t.equal(service.pending, 300);
  const all = { after: undefined, limit: 50 };
  const rows: readonly (readonly [string, () => Promise<{ readonly items: readonly unknown[] }>, found: number, most: number])[] = [
    ['of an org that has none', () => service.page({ orgId: 'c' }, all), 0, 5],
    ['of an org that has three', () => service.page({ orgId: 'b' }, all), 3, 10],
    ['that wait, of an org that has none', () => service.page({ orgId: 'b', status: 'pending' }, all), 0, 5],
    ['that wait, of all', () => service.page({ status: 'pending' }, all), 50, 500],
    ['in quarantine, of an org that has none', () => quarantines.page({ orgId: 'c' }, all), 0, 5],
    ['in quarantine, of an org that has three', () => quarantines.page({ orgId: 'b' }, all), 3, 10],
    ['held, of an org that has none', () => quarantines.page({ orgId: 'b', active: true }, all), 0, 5],
  ];
  read();
  for (const [what, page, found, most] of rows) {
    t.equal((await page()).items.length, found, what);
    const count = read();
    t.ok(count <= most, `${what}: ${count} read`);
  }
  const ids: string[] = [];
  for (let after: string | undefined; ; ) {
    const page = await service.page({ orgId: 'a', status: 'denied' }, { after, limit: 70 });
    ids.push(...page.items.map(({ approval_id: id }) => id));
    after = page.next;
    if (after === undefined) break;
  }
  const wanted = made.filter(({ org_id: org, status }) => org === 'a' && status === 'denied').map(({ approval_id: id }) => id);
  t.same(ids, wanted.reverse(), 'page by page, the newest first, each once');
  await service.removeBefore(Date.parse('2098-01-01T00:00:00Z'));
  t.same((await given.store.list('approval_by_org', { prefix: 'b|' })).length, (await service.page({ orgId: 'b' }, all)).items.length);
});

