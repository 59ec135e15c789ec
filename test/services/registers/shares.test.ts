// One org takes all that it can of each bounded place, under names that exist and names that are made up; another org
// finds a place all the same (decision 7.12).
import { randomBytes } from 'node:crypto';
import t from 'tap';
import { EventBus } from '../../../src/base/events/bus.ts';
import { newestFirst } from '../../../src/base/lib/ids.ts';
import { silentLogger } from '../../../src/base/lib/log.ts';
import { SecretBox } from '../../../src/base/lib/secret-box.ts';
import type { Approval } from '../../../src/base/model/approval.ts';
import { CONTROL_BOUNDS } from '../../../src/base/model/org-bounds.ts';
import { DomainCallers } from '../../../src/services/learning/domain-callers.ts';
import { DomainTable } from '../../../src/services/learning/domain-table.ts';
import { RiskProfiles } from '../../../src/services/learning/risk-profiles.ts';
import { DeferredUsage } from '../../../src/services/money/deferred-usage.ts';
import { IdempotencyService } from '../../../src/services/money/idempotency.ts';
import { MonthlyRequestService } from '../../../src/services/money/monthly-requests.ts';
import { RateLimitService } from '../../../src/services/money/rate-limits.ts';
import { ApiKeyService } from '../../../src/services/people/api-keys.ts';
import { UnpricedModels } from '../../../src/services/prices/unpriced-models.ts';
import { type ApprovalRequest, ApprovalService } from '../../../src/services/review/approvals.ts';
import { QuarantineService } from '../../../src/services/review/quarantines.ts';
import { Outbox } from '../../../src/services/sending/outbox.ts';
import { SpanQueue } from '../../../src/services/sending/traces/span-queue.ts';
import type { Effect, Store } from '../../../src/storage/contract/store.ts';
import { openEmbeddedStore } from '../../../src/storage/embedded/open-embedded-store.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { type HasTeardown, tempDir } from '../../support/temp-dir.ts';

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
  'orgs that are made up, of several addresses': (n) => ({ org: `o${n}`, workload: 'ci', address: `198.51.100.${n % 20}` }),
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
  return { ...given, box, ttlMs: HOUR_MS, rejectForMs: HOUR_MS, keepContent: false, maxPending: PLACES, writer: 'w' };
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
  await before.close();
  const after = await ApprovalService.open(options);
  t.teardown(() => after.close());
  t.equal(after.pending, pending);
  t.match(await after.ask(asked({ org: 'a', workload: 'ci', address: '' }, 99)), { kind: 'full', full: 'caller' });
  const [first] = (await after.page({ orgId: 'a', status: 'pending' }, { after: undefined, limit: 1 })).items;
  await after.decide(first?.approval_id ?? '', {
    status: 'denied',
    reason: undefined,
    principal: { kind: 'admin', id: 'admin', scopes: ['admin'] },
  });
  t.match(
    await after.ask(asked({ org: 'a', workload: 'ci', address: '' }, 99)),
    { kind: 'opened' },
    'what is decided gives its place back',
  );
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
  const keys = await ApiKeyService.open({ ...given, store });
  for (let n = 0; n < 30; n += 1) await keys.create({ orgId: n === 3 ? 'b' : 'a', name: 'k', expiresAtMs: undefined });
  const [ofB] = await keys.list('b');
  read();
  t.equal((await keys.list('c')).length, 0);
  t.equal((await keys.list('b')).length, 1);
  t.ok(read() <= 2, 'keys of one org');
  t.equal((await keys.list()).length, 30);
  t.ok((await keys.revoke(ofB?.id ?? ''))?.revoked_at);
  t.ok((await (await ApiKeyService.open({ ...given, store })).list('b'))[0]?.revoked_at, 'also after a start');
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

/**
 * What gives way when a place is full: `flood` takes as much as it can, and tells what is left of one thing of another
 * org that was there first.
 */
interface Evicting {
  readonly what: string;
  readonly open: (
    t: HasTeardown,
  ) => Promise<{ add(caller: Caller, n: number): Promise<unknown>; has(caller: Caller): boolean | Promise<boolean> }>;
}

const EVICTING: readonly Evicting[] = [
  {
    what: 'profiles of callers',
    open: async (t) => {
      const profiles = new RiskProfiles({ ...(await ground(t)), maxCallers: PLACES });
      t.teardown(() => profiles.close());
      const who = ({ org, workload, address, name = 'x' }: Caller) => ({
        orgId: org,
        workloadId: workload,
        callerIp: address,
        callerId: name,
      });
      return {
        add: async (caller, n) => profiles.of(who({ name: `n${n}`, ...caller })),
        // At once: it is in memory.
        has: (caller) => !(profiles.of(who(caller)) instanceof Promise),
      };
    },
  },
  {
    what: 'responses that are waited for',
    open: async (t) => {
      const given = await ground(t);
      const allowance = { take: () => undefined, giveBack: () => undefined };
      const leases = { isShared: false };
      const options = {
        ...given,
        allowance,
        leases,
        counters: {},
        cachedRates: false,
        catalogues: {},
        knownOrg: KNOWN.org,
        maxOpen: PLACES,
      };
      const deferred = await DeferredUsage.open(options as unknown as Parameters<typeof DeferredUsage.open>[0]);
      t.teardown(() => deferred.close());
      return {
        add: async ({ org }, n) => {
          const call = deferred.begin('h', org === 'b' ? 'of b' : `r${n}`, 0);
          if (call !== undefined) await deferred.hold(call, `grant ${n}`, 0, org);
        },
        // Another call of the same response has begun it.
        has: () => deferred.begin('h', 'of b', 0) === undefined,
      };
    },
  },
  {
    what: 'models without a price',
    open: async (t) => {
      const { clock, events } = await ground(t);
      const unpriced = new UnpricedModels({ clock, events, knownOrg: KNOWN.org });
      t.teardown(() => unpriced.close());
      return {
        add: ({ org }, n) => {
          const record = { org_id: org, provider: 'p', model: org === 'b' ? 'of b' : `m${n}`, metering: { rate_source: 'default' } };
          events.emit('execution', { record } as unknown as Parameters<typeof events.emit<'execution'>>[1]);
          return Promise.resolve();
        },
        has: () => unpriced.list().some(({ model }) => model === 'of b'),
      };
    },
  },
  {
    what: 'domains that were discovered',
    open: () => {
      const table = new DomainTable(PLACES, () => undefined);
      let now = 0;
      const add = ({ org, address }: Caller, n: number): Promise<void> => {
        const domain = org === 'b' ? 'of-b.example' : `d${n}.example`;
        const marks = {
          pinned: false,
          wantsClientCertificate: false,
          namedLike: undefined,
          dirty: true,
          isStored: false,
          isAnew: false,
          stored: undefined,
          from: address,
          callers: new DomainCallers(),
        };
        // Each name of the flood is met more often than that of the other org.
        const requests = org === 'b' ? 1 : 5;
        now += 1;
        table.add({ domain, connections: 0, requests, developer: 0, ambient: 0, firstSeen: now, lastSeen: now, ...marks });
        return Promise.resolve();
      };
      return Promise.resolve({ add, has: () => table.get('of-b.example') !== undefined });
    },
  },
  {
    what: 'spans that wait',
    open: () => {
      const queue = new SpanQueue();
      const add = ({ org, address }: Caller): Promise<void> => {
        if (queue.makeRoom({ address, org }) !== undefined) queue.push(`${org} `, 40, { address, org });
        return Promise.resolve();
      };
      return Promise.resolve({
        add,
        has: () => {
          for (let batch = queue.take(); batch; batch = queue.take()) if (batch.text.includes('b ')) return true;
          return false;
        },
      });
    },
  },
];

for (const { what, open } of EVICTING) {
  t.test(`${what}: a flood pushes out its own`, async (t) => {
    for (const [who, caller] of Object.entries(FLOODS)) {
      const { add, has } = await open(t);
      await add({ ...HONEST, name: 'x' }, 0);
      for (let n = 0; n < 300; n += 1) await add(caller(n), n);
      t.ok(await has({ ...HONEST, name: 'x' }), who);
      const late = await open(t);
      for (let n = 0; n < 300; n += 1) await late.add(caller(n), n);
      await late.add({ ...HONEST, name: 'x' }, 0);
      t.ok(await late.has({ ...HONEST, name: 'x' }), `${who}, who was there first`);
    }
  });
}

t.test('of orgs that are made up the first few have buckets and months of their own, and all others share theirs', async (t) => {
  const { store, clock } = await ground(t);
  const knownOrg = KNOWN.org;
  const initial = { refill_rate: 1, max_tokens: 3, window_duration: '1m' };
  const rates = await RateLimitService.open({ store, clock, initial, ownOrg: 'a', knownOrg });
  const rule = { layer: 'risk', rule_id: 'few', requests_per_minute: 2 };
  const plans = { alike: { limit: 3, overage: false }, of: () => ({ limit: 3, overage: false }) };
  const months = await MonthlyRequestService.open({ store, clock, plans, knownOrg });
  let [taken, byRule, counted] = [0, 0, 0];
  const few = CONTROL_BOUNDS.rateBuckets.one;
  for (let n = 0; n < few + 50; n += 1) {
    if (rates.take(`o${n}`, 'ci', []) === undefined) taken += 1;
    if (rates.take(`o${n}`, 'web', [rule]) === undefined) byRule += 1;
    if (months.look(`o${n}`) === undefined && months.count(`o${n}`) !== undefined) counted += 1;
  }
  t.same([taken, byRule, counted], [few + 3, few + 2, few + 3]);
  t.ok(rates.look('o999', 'ci', []));
  t.same(rates.exhausted('o999', 'web', [rule]), [rule]);
  t.same(rates.keys('o999'), ['ci', 'web']);
  t.equal(rates.look('o1', 'ci', []), undefined, 'one of the first is held up by nobody else');
  t.equal(rates.take('b', 'ci', [rule]), undefined, 'known orgs have their own');
  t.match(months.count('b'), { key: 'b' });
  t.same(rates.keys('b'), ['ci']);
  rates.giveBack('o998', 'ci', []);
  t.equal(rates.take('o999', 'ci', []), undefined, 'what is given back, is given back to all of them');
});

t.test('idempotent answers of one org leave place for those of another, in keys and in bytes, also after a start', async (t) => {
  const { store, clock, log } = await ground(t);
  const options = { store, clock, log, box: new SecretBox([randomBytes(32)]), known: KNOWN, maxKeys: 30, maxBytes: 1_000 };
  const before = await IdempotencyService.open(options);
  const result = { upstream_status: 200, content_type: 'application/json', stream: false, whole: true };
  const call = { record_id: 'r', action_hash: 'h', status: 200, trace: {}, result };
  let turn = 0;
  // Of many addresses: one has a share of what its org has.
  const of = (orgId: string) => {
    turn += 1;
    return { orgId, workloadId: 'made-up', callerIp: `10.0.0.${turn}` };
  };
  const keep = async (service: IdempotencyService, org: string, key: string, bytes = 100) => {
    const effects = service.keep(of(org), key, call, Buffer.alloc(bytes));
    if (effects.length > 0) await store.commit(undefined, effects);
    return effects.length > 0;
  };
  const whole = async (service: IdempotencyService, org: string, key: string) => (await service.find(org, key))?.result?.whole;
  for (const who of [(_n: number) => 'a', (n: number) => `o${n}`]) for (let n = 0; n < 60; n += 1) await keep(before, who(n), `k${n}`);
  t.equal(await whole(before, 'a', 'k0'), true);
  t.equal(await whole(before, 'a', 'k10'), false, 'that it was executed is known, its answer is not');
  t.equal((await before.result('a', 'k10'))?.length, undefined);
  t.equal(await before.find('a', 'k59'), undefined);
  await before.close();
  const after = await IdempotencyService.open(options);
  t.notOk(await keep(after, 'a', 'more'));
  t.notOk(await keep(after, 'o99', 'more'));
  t.ok(await keep(after, 'b', 'one'));
  t.equal(await whole(after, 'b', 'one'), true);
  const failed = after.keep(of('b'), 'two', call, Buffer.alloc(1));
  t.ok(failed.length > 0);
  after.forget('b', 'two');
  clock.set(clock.now() + 25 * HOUR_MS);
  await Promise.all([after.sweep(), after.sweep()]);
  for (let n = 0; n < 15; n += 1) t.ok(await keep(after, 'a', `again ${n}`, 1), 'what is swept gives its place back');
  t.notOk(await keep(after, 'a', 'too many', 1));
  await after.close();
  t.same(await store.counter('idempotent_kept', 'a'), { keys: 15n, bytes: 15n });
  t.same(await store.counter('idempotent_kept', 'b'), { keys: 0n, bytes: 0n });
});

t.test('idempotent answers of one caller leave place for those of others of his org, also after a start and a day', async (t) => {
  const { store, clock, log } = await ground(t);
  const options = { store, clock, log, box: new SecretBox([randomBytes(32)]), known: KNOWN, maxKeys: 30, maxBytes: 3_000 };
  const result = { upstream_status: 200, content_type: 'application/json', stream: false, whole: true };
  const call = { record_id: 'r', action_hash: 'h', status: 200, trace: {}, result };
  let kept = 0;
  const keep = async (service: IdempotencyService, workloadId: string, callerIp: string, apiKeyId?: string) => {
    kept += 1;
    const effects = service.keep({ orgId: 'a', workloadId, callerIp, apiKeyId }, `k${kept}`, call, Buffer.alloc(100));
    if (effects.length > 0) await store.commit(undefined, effects);
    return effects.length > 0;
  };
  const before = await IdempotencyService.open(options);
  let taken = 0;
  for (let n = 0; n < 30; n += 1) if (await keep(before, `made-up-${n}`, '10.0.0.1')) taken += 1;
  t.equal(taken, 10, 'made-up workloads are one caller, by the address');
  t.ok(await keep(before, 'x', '10.0.0.2'), 'another address');
  await before.close();
  const after = await IdempotencyService.open(options);
  await after.sweep();
  t.notOk(await keep(after, 'more', '10.0.0.1'), 'who had them before the start is known');
  t.ok(await keep(after, 'ci', '10.0.0.1'), 'a registered workload at that address');
  t.ok(await keep(after, 'y', '10.0.0.1', 'key-1'), 'a key');
  clock.set(clock.now() + 25 * HOUR_MS);
  await after.sweep();
  taken = 0;
  for (let n = 0; n < 30; n += 1) if (await keep(after, 'more', '10.0.0.1')) taken += 1;
  t.equal(taken, 10, 'what is swept gives its place back to the caller');
  await after.close();
});
