import t from 'tap';
import { loadCatalogue } from '../../../src/base/catalogue/catalogue.ts';
import { silentLogger } from '../../../src/base/lib/log.ts';
import type { TrafficClass } from '../../../src/base/model/action-request.ts';
import { Discovery, type DomainQuery } from '../../../src/services/learning/discovery.ts';
import { DomainCallers } from '../../../src/services/learning/domain-callers.ts';
import type { Store } from '../../../src/storage/contract/store.ts';
import { openEmbeddedStore } from '../../../src/storage/embedded/open-embedded-store.ts';
import { type FakeClock, fakeClock } from '../../support/fake-clock.ts';
import { type HasTeardown, tempDir } from '../../support/temp-dir.ts';

const catalogue = loadCatalogue();
const MINUTE = 60_000;

async function openStore(t: HasTeardown, dir = tempDir(t)): Promise<Store> {
  const store = await openEmbeddedStore({ dir, fsync: 'off', clock: fakeClock(), log: silentLogger });
  t.teardown(() => store.close());
  return store;
}

/** The store with another way to commit. */
function committing(store: Store, commit: Store['commit']): Store {
  return new Proxy(store, {
    get(target, name) {
      if (name === 'commit') return commit;
      const member: unknown = Reflect.get(target, name, target);
      return typeof member === 'function' ? (member.bind(target) as unknown) : member;
    },
  });
}

/** Somebody goes to a host. */
const to = (host: string, trafficClass: TrafficClass = 'developer', orgId = 'default', workloadId = 'default') => ({
  host,
  trafficClass,
  orgId,
  workloadId,
});
const counts = (connections: number, requests: number, ambient = 0) => ({
  hits: connections + requests,
  connections,
  requests,
  traffic: { developer: connections + requests - ambient, ambient },
});

function open(store: Store, clock: FakeClock, maxDomains?: number): Promise<Discovery> {
  return Discovery.open({
    store,
    clock,
    log: silentLogger,
    catalogues: { current: () => catalogue },
    workloads: {
      get: (_org, id) => (['default', 'bot'].includes(id) ? { workload_id: id } : undefined),
      defaultWorkloadId: () => 'default',
    },
    ...(maxDomains === undefined ? {} : { maxDomains }),
  });
}

t.test('a domain is counted, labelled and told apart by its connector', async (t) => {
  const clock = fakeClock(Date.UTC(2026, 0, 2));
  const discovery = await open(await openStore(t), clock);
  const { events } = discovery;
  events.connected?.(to('api.openai.com'));
  events.connected?.(to('chat.deepseek.com'));
  clock.advance(1000);
  events.connected?.(to('chat.deepseek.com'));
  events.passed?.(to('chat.deepseek.com', 'ambient'));
  events.handshakeRejected?.({ host: 'api.openai.com', signal: 'alert' });
  events.clientCertificateWanted?.('bank.example');
  t.same(discovery.list().domains, [
    {
      domain: 'api.openai.com',
      ...counts(1, 0),
      first_seen: '2026-01-02T00:00:00.000Z',
      last_seen: '2026-01-02T00:00:01.000Z',
      vendor: catalogue.domain('api.openai.com')?.vendor,
      category: 'api',
      managed: true,
      connector_id: 'openai',
      pinned: true,
      wants_client_certificate: false,
      workloads: [
        {
          org_id: 'default',
          workload_id: 'default',
          hits: 1,
          first_seen: '2026-01-02T00:00:00.000Z',
          last_seen: '2026-01-02T00:00:00.000Z',
        },
      ],
    },
    {
      domain: 'bank.example',
      ...counts(0, 0),
      first_seen: '2026-01-02T00:00:01.000Z',
      last_seen: '2026-01-02T00:00:01.000Z',
      managed: false,
      pinned: false,
      wants_client_certificate: true,
      workloads: [],
    },
    {
      domain: 'chat.deepseek.com',
      ...counts(2, 1, 1),
      first_seen: '2026-01-02T00:00:00.000Z',
      last_seen: '2026-01-02T00:00:01.000Z',
      vendor: catalogue.domain('chat.deepseek.com')?.vendor,
      category: catalogue.domain('chat.deepseek.com')?.category,
      managed: false,
      pinned: false,
      wants_client_certificate: false,
      looks_like: 'deepseek',
      looks_like_by: 'name',
      workloads: [
        {
          org_id: 'default',
          workload_id: 'default',
          hits: 3,
          first_seen: '2026-01-02T00:00:00.000Z',
          last_seen: '2026-01-02T00:00:01.000Z',
        },
      ],
    },
  ]);
  t.same(
    discovery.list({ managed: true }).domains.map(({ domain }) => domain),
    ['api.openai.com'],
  );
  t.same(
    discovery.list({ managed: false }).domains.map(({ domain }) => domain),
    ['bank.example', 'chat.deepseek.com'],
  );
});

t.test(
  'what a domain looks like is told by its name, better by a request, of those that no connector covers, and it is kept',
  async (t) => {
    const dir = tempDir(t);
    const store = await openEmbeddedStore({ dir, fsync: 'off', clock: fakeClock(), log: silentLogger });
    const discovery = await open(store, fakeClock());
    const { events } = discovery;
    const looks = (list: Discovery, query: DomainQuery = {}) =>
      Object.fromEntries(list.list(query).domains.map((shown) => [shown.domain, [shown.looks_like, shown.looks_like_by]]));
    for (const host of ['res.openai.azure.example', 'inner.example', 'www.example', 'api.openai.com']) events.connected?.(to(host));
    t.equal(discovery.knowsLook('inner.example'), false);
    for (const host of ['inner.example', 'res.openai.azure.example', 'api.openai.com']) {
      events.lookedLike?.({ host, like: 'anthropic_messages' });
      events.lookedLike?.({ host, like: 'openai_chat' });
    }
    events.connected?.(to('vpce-1.bedrock-runtime.us-east-1.vpce.example'));
    const all = {
      'res.openai.azure.example': ['anthropic_messages', 'request'],
      'inner.example': ['anthropic_messages', 'request'],
      'vpce-1.bedrock-runtime.us-east-1.vpce.example': ['bedrock', 'name'],
      'www.example': [undefined, undefined],
      'api.openai.com': [undefined, undefined],
    };
    t.strictSame(looks(discovery), all);
    t.equal(discovery.knowsLook('inner.example'), true);
    t.equal(discovery.lookalikes, 3);
    t.same(Object.keys(looks(discovery, { lookalike: false })).sort(), ['api.openai.com', 'www.example']);
    t.same(Object.keys(looks(discovery, { lookalike: true })).length, 3);
    t.equal(discovery.list({ sort: 'hits' }).domains[0]?.hits, 1, 'a look is no hit');
    await discovery.close();
    await store.close();
    const again = await open(await openStore(t, dir), fakeClock());
    t.strictSame(looks(again), all);
  },
);

t.test('nothing is written while requests run; a minute later all of it is, in one commit, and only what changed', async (t) => {
  const store = await openStore(t);
  const commits: number[] = [];
  const watched = committing(store, (record, effects) => {
    commits.push(effects.length);
    return store.commit(record, effects);
  });
  const clock = fakeClock();
  const discovery = await open(watched, clock);
  for (let i = 0; i < 1000; i++) discovery.events.passed?.(to(`host-${i % 10}.example`));
  t.same(commits, []);
  clock.advance(MINUTE);
  await discovery.save();
  t.same(commits, [10]);
  discovery.events.passed?.(to('host-3.example'));
  clock.advance(MINUTE);
  await discovery.save();
  t.same(commits, [10, 1]);
  clock.advance(10 * MINUTE);
  await discovery.save();
  t.same(commits, [10, 1], 'nothing changed');
});

t.test('counts, order and marks survive a restart', async (t) => {
  const store = await openStore(t);
  const clock = fakeClock();
  const before = await open(store, clock);
  for (const host of ['z.example', 'a.example', 'm.example']) {
    before.events.connected?.(to(host));
    clock.advance(10);
  }
  before.events.handshakeRejected?.({ host: 'z.example', signal: 'silent_close' });
  const shown = before.list();
  await before.close();
  t.equal(clock.pending, 0, 'no timer is left');
  const after = await open(store, clock);
  t.same(after.list(), shown);
  after.events.connected?.(to('a.example'));
  t.match(after.list().domains[0], { domain: 'a.example', connections: 2 });
});

t.test(
  'the list is bounded, and the store with it; what was counted of domains that were let go is told, over a restart too',
  async (t) => {
    const store = await openStore(t);
    const clock = fakeClock();
    const discovery = await open(store, clock, 10);
    for (let i = 0; i < 5; i++) discovery.events.connected?.(to(`${i}.example`));
    await discovery.save();
    for (let i = 5; i < 1_000; i++) discovery.events.connected?.(to(`${i}.example`, 'ambient'));
    const { domains, total, other } = discovery.list();
    t.ok(domains.length <= 10 && domains.length === total);
    const left = 1_000 - domains.length;
    t.match(other, { domains: left, hits: left, connections: left, requests: 0 });
    t.equal(other.traffic.developer + other.traffic.ambient, left);
    t.equal(
      domains.reduce((sum, { hits }) => sum + hits, other.hits),
      1_000,
      'nothing that was counted is lost',
    );
    await discovery.close();
    t.equal((await store.list('discovered_domain')).length, domains.length);
    const after = await open(store, clock, 10);
    t.same(after.list(), { domains, total, other });
    await after.reset();
    t.match(after.list(), { domains: [], total: 0, other: { domains: 0, hits: 0 } });
    t.same(await store.list('discovered_other'), []);
  },
);

t.test('names that somebody makes up push out no domain with traffic of its own, and do not keep a new one from the list', async (t) => {
  const clock = fakeClock();
  const discovery = await open(await openStore(t), clock, 100);
  const real = Array.from({ length: 40 }, (_, at) => `real-${at}.example`);
  for (const host of real) for (let hit = 0; hit < 3; hit++) discovery.events.passed?.(to(host));
  const shown = (host: string) => discovery.list().domains.find(({ domain }) => domain === host);
  let newcomer = 0;
  for (let i = 0; i < 10_000; i++) {
    clock.advance(1);
    discovery.events.connected?.(to(`made-up-${i}.example`));
    if (i % 500 < 5) newcomer += Number(discovery.events.passed?.(to('newcomer.example')) === undefined);
    if (i % 50 === 0) t.ok(discovery.size <= 100);
  }
  for (const host of real) t.match(shown(host), { hits: 3 }, host);
  t.match(shown('newcomer.example'), { hits: newcomer }, 'five times in a row are more than the made-up ones have');
  t.match(shown('made-up-9999.example'), { hits: 1 }, 'what is met just now is shown, whatever it is');
});

t.test(
  'a name, and a mark, are saved within five seconds; counts once a minute; made-up names cause no more saves than that',
  async (t) => {
    const store = await openStore(t);
    let commits = 0;
    const counting = committing(store, (record, effects) => {
      commits += 1;
      return store.commit(record, effects);
    });
    const clock = fakeClock();
    const discovery = await open(counting, clock);
    const settled = () => discovery.save();
    discovery.events.connected?.(to('a.example'));
    clock.advance(5_000);
    await settled();
    t.match(await store.list('discovered_domain'), [{ key: 'a.example', value: { connections: 1, pinned: false } }]);
    t.equal(commits, 1);
    for (let i = 0; i < 100; i++) {
      discovery.events.connected?.(to(`${i}.example`));
      clock.advance(400);
    }
    t.equal(commits, 1, 'the rest waits for the minute');
    clock.advance(15_000);
    await settled();
    t.equal(commits, 2);
    discovery.events.handshakeRejected?.({ host: 'a.example', signal: 'alert' });
    clock.advance(5_000);
    await settled();
    t.equal(commits, 3);
    const [marked] = (await store.list('discovered_domain')).filter(({ key }) => key === 'a.example');
    t.match(marked, { value: { pinned: true } });
    await discovery.close();
    t.equal(clock.pending, 0, 'no timer is left');
  },
);

t.test('the list is ordered, filtered and cut as it is asked', async (t) => {
  const clock = fakeClock();
  const discovery = await open(await openStore(t), clock);
  for (const [host, hits] of [
    ['chat.deepseek.com', 1],
    ['www.example.com', 3],
    ['api.openai.com', 2],
  ] as const) {
    for (let i = 0; i < hits; i++) discovery.events.passed?.(to(host, host === 'www.example.com' ? 'ambient' : 'developer'));
    clock.advance(1);
  }
  discovery.events.connected?.(to('chat.deepseek.com'));
  const names = (query: DomainQuery) => discovery.list(query).domains.map(({ domain }) => domain);
  t.same(names({}), ['chat.deepseek.com', 'api.openai.com', 'www.example.com']);
  t.same(names({ sort: 'hits' }), ['www.example.com', 'api.openai.com', 'chat.deepseek.com']);
  t.same(names({ sort: 'first_seen' }), ['api.openai.com', 'www.example.com', 'chat.deepseek.com']);
  t.same(names({ sort: 'requests', limit: 1 }), ['www.example.com']);
  t.equal(discovery.list({ limit: 1 }).total, 3);
  t.same(names({ category: 'chat_app' }), ['chat.deepseek.com']);
  t.same(names({ vendor: 'deepseek' }), ['chat.deepseek.com']);
  t.same(names({ trafficClass: 'ambient' }), ['www.example.com']);
  t.same(names({ managed: true, trafficClass: 'ambient' }), []);
});

t.test('the longest entry of the domain list gives vendor and category', async (t) => {
  const discovery = await open(await openStore(t), fakeClock());
  for (const host of ['api.openai.com', 'openai.com', 'cdn.openai.com', 'api.openai.com.example']) discovery.events.connected?.(to(host));
  t.same(
    discovery.list().domains.map(({ domain, category }) => [domain, category]),
    [
      ['api.openai.com', 'api'],
      ['api.openai.com.example', undefined],
      ['cdn.openai.com', 'chat_app'],
      ['openai.com', 'chat_app'],
    ],
  );
});

t.test('names that come and go between two saves are nothing that the store has to forget', async (t) => {
  const store = await openStore(t);
  let deleted = 0;
  const counting = committing(store, (record, effects) => {
    deleted += effects.filter(({ op }) => op === 'delete').length;
    return store.commit(record, effects);
  });
  const discovery = await open(counting, fakeClock(), 10);
  for (let i = 0; i < 10; i++) discovery.events.connected?.(to(`${i}.example`));
  await discovery.save();
  for (let i = 10; i < 2_000; i++) discovery.events.connected?.(to(`${i}.example`));
  await discovery.save();
  t.ok(deleted <= 10);
  t.equal((await store.list('discovered_domain')).length, discovery.size);
});

t.test('counts that an earlier version kept are read; they say nothing of the ports', async (t) => {
  const store = await openStore(t);
  const value = { connections: 2, requests: 5, firstSeen: 1, lastSeen: 2, pinned: true, wantsClientCertificate: false };
  await store.commit(undefined, [{ op: 'put', space: 'discovered_domain', key: 'old.example', value }]);
  const discovery = await open(store, fakeClock());
  t.match(discovery.list().domains, [{ domain: 'old.example', hits: 7, pinned: true, traffic: { developer: 0, ambient: 0 } }]);
});

t.test('a reset forgets everything, and what comes back begins at zero', async (t) => {
  const store = await openStore(t);
  const discovery = await open(store, fakeClock());
  discovery.events.connected?.(to('a.example'));
  await discovery.save();
  discovery.events.connected?.(to('b.example'));
  await discovery.reset();
  t.same([discovery.list().domains, await store.list('discovered_domain')], [[], []]);
  discovery.events.connected?.(to('a.example'));
  await discovery.save();
  t.match(await store.list('discovered_domain'), [{ key: 'a.example', value: { connections: 1 } }]);
});

t.test('what could not be saved is saved the next time', async (t) => {
  const store = await openStore(t);
  let full = true;
  const flaky = committing(store, (...args) => (full ? Promise.reject(new Error('disk full')) : store.commit(...args)));
  const discovery = await open(flaky, fakeClock(), 1);
  discovery.events.connected?.(to('a.example'));
  await t.rejects(discovery.save(), /disk full/);
  discovery.events.connected?.(to('b.example'));
  full = false;
  await discovery.save();
  t.match(await store.list('discovered_domain'), [{ key: 'b.example' }]);
});

t.test('who went to a domain is counted by org and workload, kept over a restart, and shown to each org alone', async (t) => {
  const clock = fakeClock(Date.UTC(2026, 0, 2));
  const store = await openStore(t);
  const discovery = await open(store, clock);
  discovery.events.connected?.(to('chat.deepseek.com', 'developer', 'acme', 'bot'));
  discovery.events.connected?.(to('chat.deepseek.com', 'developer', 'acme', 'ci'));
  clock.advance(1000);
  discovery.events.passed?.(to('chat.deepseek.com', 'ambient', 'acme', 'bot'));
  discovery.events.connected?.(to('www.example.com', 'developer', 'globex', 'theirs'));
  discovery.events.connected?.(to('www.example.com', 'developer', 'acme', 'bot'));
  await discovery.save();
  for (const list of [discovery, await open(store, clock)]) {
    t.strictSame(
      list.listOf('acme', { ai: true }).map(({ domain, hits, workloads }) => [domain, hits, workloads]),
      [
        [
          'chat.deepseek.com',
          3,
          [
            { workload_id: 'bot', hits: 2, first_seen: '2026-01-02T00:00:00.000Z', last_seen: '2026-01-02T00:00:01.000Z' },
            { workload_id: 'ci', hits: 1, first_seen: '2026-01-02T00:00:00.000Z', last_seen: '2026-01-02T00:00:00.000Z' },
          ],
        ],
      ],
    );
    t.match(list.listOf('globex', {}), [{ domain: 'www.example.com', hits: 1, workloads: [{ workload_id: 'theirs' }] }]);
    t.same(list.listOf('nobody', {}), []);
    t.same(
      list.list({ ai: true }).domains.map(({ domain }) => domain),
      ['chat.deepseek.com'],
    );
    t.same(
      list.list({ workloadId: 'theirs' }).domains.map(({ domain }) => domain),
      ['www.example.com'],
    );
    t.strictSame(list.kinds(), {
      governed: { domains: 0, hits: 0 },
      ai: { domains: 1, hits: 3 },
      lookalike: { domains: 0, hits: 0 },
      other: { domains: 1, hits: 2 },
    });
  }
});

t.test(
  'of one domain so many workloads are counted by name; those of the org with most share one place, and no count is lost',
  async (t) => {
    const callers = new DomainCallers();
    callers.count('globex', 'theirs', 1);
    for (let at = 0; at < 100; at += 1) callers.count('acme', `w${at}`, 10 + at);
    for (let times = 0; times < 5; times += 1) callers.count('acme', 'w99', 200);
    const all = callers.list();
    t.equal(all.length, 32);
    t.match(callers.list('globex'), [{ workloadId: 'theirs', hits: 1 }], 'another org keeps its own');
    t.equal(
      callers.list('acme').reduce((sum, { hits }) => sum + hits, 0),
      105,
    );
    t.match(
      callers.list('acme').find(({ workloadId }) => workloadId === undefined),
      { firstSeen: 10 },
    );
    t.strictSame(new DomainCallers(callers.stored()).list(), all);
    const orgs = new DomainCallers();
    for (let at = 0; at < 40; at += 1) orgs.count(`org${at}`, 'default', at);
    t.equal(orgs.list().length, 32);
    t.same([orgs.list('org0'), orgs.list('org39').length], [[], 1], 'of more orgs than that the one met longest ago gives up its place');
  },
);

t.test('what two nodes count of one domain is added, whoever saves last, and a reset is heard by both', async (t) => {
  const store = await openStore(t);
  const clock = fakeClock();
  const [one, other] = [await open(store, clock), await open(store, clock)];
  const shown = (list: Discovery) =>
    list.list().domains.map(({ domain, hits, workloads }) => [domain, hits, workloads.map(({ hits: of }) => of)]);
  for (let hit = 0; hit < 3; hit++) one.events.connected?.(to('a.example'));
  other.events.passed?.(to('a.example', 'ambient', 'default', 'bot'));
  await Promise.all([one.save(), other.save()]);
  one.events.connected?.(to('a.example'));
  other.events.handshakeRejected?.({ host: 'a.example', signal: 'alert' });
  t.same(shown(other), [['a.example', 4, [3, 1]]], 'what is not saved yet is known to one alone');
  await Promise.all([other.save(), one.save()]);
  for (const node of [one, other, await open(store, clock)]) {
    t.same(shown(node), [['a.example', 5, [4, 1]]]);
    t.match(node.list().domains, [{ connections: 4, requests: 1, traffic: { developer: 4, ambient: 1 }, pinned: true }]);
  }
  other.events.connected?.(to('b.example'));
  await one.reset();
  t.same([shown(one), shown(other)], [[], [['b.example', 1, [1]]]], 'what was never saved is no part of it');
  await other.save();
  t.same(shown(one), [['b.example', 1, [1]]]);
});

t.test('what two nodes let go is added', async (t) => {
  const store = await openStore(t);
  const clock = fakeClock();
  const [one, other] = [await open(store, clock, 5), await open(store, clock, 5)];
  for (let at = 0; at < 20; at++) one.events.connected?.(to(`one-${at}.example`));
  for (let at = 0; at < 10; at++) other.events.connected?.(to(`other-${at}.example`));
  const hits = (list: Discovery) => list.list().other.hits;
  t.same([hits(one), hits(other)], [15, 5]);
  await Promise.all([one.save(), other.save()]);
  t.ok(hits(one) >= 20 && hits(other) === hits(one));
  await other.reset();
  t.same([hits(one), hits(other)], [0, 0]);
});
