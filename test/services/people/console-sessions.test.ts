// Sessions of the console in a store: how many there may be, which give way, and what is removed when it is over.
import { join } from 'node:path';
import t from 'tap';
import { timestamp } from '../../../src/base/lib/clock.ts';
import { silentLogger } from '../../../src/base/lib/log.ts';
import { SecretBox } from '../../../src/base/lib/secret-box.ts';
import { CONTROL_BOUNDS } from '../../../src/base/model/org-bounds.ts';
import type { Principal } from '../../../src/base/model/principal.ts';
import { CONSOLE_SESSIONS, ConsoleSessions } from '../../../src/services/people/console-sessions.ts';
import { ManagementKeyService } from '../../../src/services/people/management-keys.ts';
import { commitAlone } from '../../../src/services/registers/commit.ts';
import { entityRows } from '../../../src/storage/contract/store-pages.ts';
import { openEmbeddedStore } from '../../../src/storage/embedded/open-embedded-store.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { type HasTeardown, tempDir } from '../../support/temp-dir.ts';

const ADMIN_TOKEN = 'an-admin-token-of-this-test-alone-0123456789';
const ADMIN: Principal = { kind: 'admin', id: 'admin', scopes: ['admin'] };
const [HOUR, DAY] = [3_600_000, 86_400_000];
const [OLD_KEY, NEW_KEY] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)];

async function place(t: HasTeardown) {
  const clock = fakeClock();
  const store = await openEmbeddedStore({ dir: join(tempDir(t), 'store'), fsync: 'off', clock, log: silentLogger });
  t.teardown(() => store.close());
  const keys = await ManagementKeyService.open({ store, clock });
  const ground = { store, clock, log: silentLogger, keys, idleMs: 12 * HOUR, maxMs: 7 * DAY };
  const open = ({ adminToken = ADMIN_TOKEN, secrets = [OLD_KEY] } = {}) =>
    ConsoleSessions.open({ ...ground, adminToken, box: new SecretBox(secrets) });
  const commit = commitAlone(store);
  const signIn = async (sessions: ConsoleSessions, secret = ADMIN_TOKEN, browser?: string): Promise<string> =>
    (await sessions.signIn(secret, { address: '192.0.2.1', browser }, () => commit))?.value ?? '';
  const kept = async (space = CONSOLE_SESSIONS): Promise<readonly unknown[]> => {
    const found: unknown[] = [];
    for await (const { value } of entityRows(store, space)) found.push(value);
    return found;
  };
  return { clock, keys, open, commit, signIn, kept };
}

t.test('of those of an org the one that nobody has used for longest gives way', async (t) => {
  const { clock, keys, open, signIn, kept } = await place(t);
  const sessions = await open();
  const { org: most } = CONTROL_BOUNDS.consoleSessions;
  const { plain } = await keys.create({ orgId: 'acme', name: 'olga', kind: 'management', scopes: ['read'], expiresAtMs: undefined });
  const [ofKey, used, idle] = [await signIn(sessions, plain), await signIn(sessions), await signIn(sessions)];
  clock.advance(1_000);
  for (let count = 2; count < most; count += 1) await signIn(sessions);
  t.equal((await sessions.list()).length, most + 1);
  clock.advance(60_000);
  t.ok(await sessions.personOf(used));
  const isSeen = async () => (await sessions.list()).some(({ last_seen_at: at }) => at === timestamp(clock.now()));
  while (!(await isSeen())) await new Promise((resolve) => setImmediate(resolve));
  await signIn(sessions);
  t.notOk(await sessions.personOf(idle));
  for (const value of [used, ofKey]) t.ok(await sessions.personOf(value), 'that of another org has nothing to do with it');
  t.equal((await kept()).length, most + 1);
});

t.test('what is stored opens nothing', async (t) => {
  const { keys, open, signIn, kept, commit } = await place(t);
  const sessions = await open();
  const { plain } = await keys.create({ orgId: 'acme', name: 'olga', kind: 'management', scopes: ['read'], expiresAtMs: undefined });
  const values = [await signIn(sessions), await signIn(sessions, plain, `Firefox ${'x'.repeat(300)}\ud800`)];
  const { code = '' } = (await sessions.invite(ADMIN, commit)) ?? {};
  const text = JSON.stringify([await kept(), await kept('console_link')]);
  for (const secret of [...values, code, plain, ADMIN_TOKEN]) t.notOk(text.includes(secret));
  t.match(await sessions.list('acme'), [{ browser: /^Firefox x{192}…$/, address: '192.0.2.1' }]);
});

t.test('what is over is removed, and nothing else', async (t) => {
  const { clock, keys, open, signIn, kept, commit } = await place(t);
  const sessions = await open();
  const { plain, key } = await keys.create({ orgId: 'acme', name: 'olga', kind: 'management', scopes: ['read'], expiresAtMs: undefined });
  await signIn(sessions);
  await signIn(sessions, plain);
  await sessions.invite(ADMIN, commit);
  t.equal(await sessions.removeEnded(), 0);
  await keys.revoke(key.id, undefined);
  clock.advance(120_000);
  const elsewhere = await open({ adminToken: 'the-admin-token-of-another-node-0123456789' });
  t.same(await elsewhere.list(), [], 'that of another admin token is none here');
  t.equal(await elsewhere.removeEnded(), 2, 'the session of the key, and the link');
  t.match(await kept(), [{ kind: 'admin' }], 'but it may be one at another node');
  clock.advance(12 * HOUR);
  t.equal(await sessions.removeEnded(), 1);
  t.same(await kept(), []);
});

t.test('sessions of the admin token outlive a key of secrets that another has followed, as long as it is known', async (t) => {
  const { open, signIn } = await place(t);
  const value = await signIn(await open());
  t.ok(await (await open({ secrets: [NEW_KEY, OLD_KEY] })).personOf(value));
  t.notOk(await (await open({ secrets: [NEW_KEY] })).personOf(value));
  t.notOk(await (await open({ adminToken: 'another-admin-token-of-this-test-0123456789' })).personOf(value));
});
