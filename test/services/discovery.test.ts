import t from 'tap';
import { loadCatalogue } from '../../src/base/catalogue/catalogue.ts';
import { silentLogger } from '../../src/base/lib/log.ts';
import { Discovery } from '../../src/services/discovery.ts';
import type { Store } from '../../src/storage/contract/store.ts';
import { openEmbeddedStore } from '../../src/storage/embedded/open-embedded-store.ts';
import { type FakeClock, fakeClock } from '../support/fake-clock.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';

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

function open(store: Store, clock: FakeClock, maxDomains?: number): Promise<Discovery> {
  return Discovery.open({
    store,
    clock,
    log: silentLogger,
    catalogues: { current: () => catalogue },
    ...(maxDomains === undefined ? {} : { maxDomains }),
  });
}

t.test('a domain is counted, labelled and told apart by its connector', async (t) => {
  const clock = fakeClock(Date.UTC(2026, 0, 2));
  const discovery = await open(await openStore(t), clock);
  const { events } = discovery;
  events.connected?.('api.openai.com');
  events.connected?.('chat.deepseek.com');
  clock.advance(1000);
  events.connected?.('chat.deepseek.com');
  events.passed?.('chat.deepseek.com');
  events.handshakeRejected?.({ host: 'api.openai.com', signal: 'alert' });
  events.clientCertificateWanted?.('bank.example');
  t.same(discovery.list(), [
    {
      domain: 'bank.example',
      connections: 0,
      requests: 0,
      first_seen: '2026-01-02T00:00:01.000Z',
      last_seen: '2026-01-02T00:00:01.000Z',
      managed: false,
      pinned: false,
      wants_client_certificate: true,
    },
    {
      domain: 'api.openai.com',
      connections: 1,
      requests: 0,
      first_seen: '2026-01-02T00:00:00.000Z',
      last_seen: '2026-01-02T00:00:01.000Z',
      vendor: catalogue.domain('api.openai.com')?.vendor,
      category: 'api',
      managed: true,
      connector_id: 'openai',
      pinned: true,
      wants_client_certificate: false,
    },
    {
      domain: 'chat.deepseek.com',
      connections: 2,
      requests: 1,
      first_seen: '2026-01-02T00:00:00.000Z',
      last_seen: '2026-01-02T00:00:01.000Z',
      vendor: catalogue.domain('chat.deepseek.com')?.vendor,
      category: catalogue.domain('chat.deepseek.com')?.category,
      managed: false,
      pinned: false,
      wants_client_certificate: false,
    },
  ]);
  t.same(
    discovery.list(true).map(({ domain }) => domain),
    ['api.openai.com'],
  );
  t.same(
    discovery.list(false).map(({ domain }) => domain),
    ['bank.example', 'chat.deepseek.com'],
  );
});

t.test('nothing is written while requests run; a minute later all of it is, in one commit, and only what changed', async (t) => {
  const store = await openStore(t);
  const commits: number[] = [];
  const watched = committing(store, (record, effects) => {
    commits.push(effects.length);
    return store.commit(record, effects);
  });
  const clock = fakeClock();
  const discovery = await open(watched, clock);
  for (let i = 0; i < 1000; i++) discovery.events.passed?.(`host-${i % 10}.example`);
  t.same(commits, []);
  clock.advance(MINUTE);
  await discovery.save();
  t.same(commits, [10]);
  discovery.events.passed?.('host-3.example');
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
    before.events.connected?.(host);
    clock.advance(10);
  }
  before.events.handshakeRejected?.({ host: 'z.example', signal: 'silent_close' });
  const shown = before.list();
  await before.close();
  t.equal(clock.pending, 0, 'no timer is left');
  const after = await open(store, clock);
  t.same(after.list(), shown);
  after.events.connected?.('a.example');
  t.match(after.list()[0], { domain: 'a.example', connections: 2 });
});

t.test('the list is bounded, and the store with it', async (t) => {
  const store = await openStore(t);
  const clock = fakeClock();
  const discovery = await open(store, clock, 3);
  for (let i = 0; i < 3; i++) discovery.events.connected?.(`${i}.example`);
  await discovery.save();
  for (let i = 3; i < 10; i++) discovery.events.connected?.(`${i}.example`);
  await discovery.save();
  t.equal(discovery.size, 3);
  t.same(
    (await store.list('discovered_domain')).map(({ key }) => key),
    ['7.example', '8.example', '9.example'],
  );
});

t.test('names that come and go between two saves are nothing that the store has to forget', async (t) => {
  const store = await openStore(t);
  let deleted = 0;
  const counting = committing(store, (record, effects) => {
    deleted += effects.filter(({ op }) => op === 'delete').length;
    return store.commit(record, effects);
  });
  const discovery = await open(counting, fakeClock(), 3);
  for (let i = 0; i < 3; i++) discovery.events.connected?.(`${i}.example`);
  await discovery.save();
  for (let i = 3; i < 1_000; i++) discovery.events.connected?.(`${i}.example`);
  discovery.events.connected?.('0.example');
  for (let i = 1_000; i < 2_000; i++) discovery.events.connected?.(`${i}.example`);
  await discovery.save();
  t.equal(deleted, 3);
  t.same(
    (await store.list('discovered_domain')).map(({ key }) => key),
    ['1997.example', '1998.example', '1999.example'],
  );
});

t.test('a reset forgets everything, and what comes back begins at zero', async (t) => {
  const store = await openStore(t);
  const discovery = await open(store, fakeClock());
  discovery.events.connected?.('a.example');
  await discovery.save();
  discovery.events.connected?.('b.example');
  await discovery.reset();
  t.same([discovery.list(), await store.list('discovered_domain')], [[], []]);
  discovery.events.connected?.('a.example');
  await discovery.save();
  t.match(await store.list('discovered_domain'), [{ key: 'a.example', value: { connections: 1 } }]);
});

t.test('what could not be saved is saved the next time', async (t) => {
  const store = await openStore(t);
  let full = true;
  const flaky = committing(store, (...args) => (full ? Promise.reject(new Error('disk full')) : store.commit(...args)));
  const discovery = await open(flaky, fakeClock(), 1);
  discovery.events.connected?.('a.example');
  await t.rejects(discovery.save(), /disk full/);
  discovery.events.connected?.('b.example');
  full = false;
  await discovery.save();
  t.match(await store.list('discovered_domain'), [{ key: 'b.example' }]);
});
