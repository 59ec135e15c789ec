// API keys: shown once, found by their hash, and good for nobody as soon as they are revoked, by whichever writer of
// the store, or their time has come.
import t from 'tap';
import { EventBus } from '../../../src/base/events/bus.ts';
import { silentLogger } from '../../../src/base/lib/log.ts';
import { sha256Hex } from '../../../src/base/lib/sha256.ts';
import { ApiKeyService } from '../../../src/services/people/api-keys.ts';
import type { Store } from '../../../src/storage/contract/store.ts';
import { openEmbeddedStore } from '../../../src/storage/embedded/open-embedded-store.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { startTestGateway } from '../../support/gateway.ts';
import { boundTo } from '../../support/played-line.ts';
import { type HasTeardown, tempDir } from '../../support/temp-dir.ts';

async function open(t: HasTeardown) {
  const clock = fakeClock();
  const store: Store = await openEmbeddedStore({ dir: tempDir(t), fsync: 'off', clock, log: silentLogger });
  t.teardown(() => store.close());
  const lookups: string[] = [];
  const events = new EventBus(silentLogger);
  events.subscribe(['apiKeyLookup'], (result) => void lookups.push(result));
  return { clock, store, lookups, service: () => ApiKeyService.open({ store, clock, events }) };
}

t.test('a key is good until it is revoked or its time has come, and only its hash is stored', async (t) => {
  const { clock, store, lookups, service } = await open(t);
  const keys = await service();
  const { plain, key } = await keys.create({ orgId: 'acme', name: 'ci', expiresAtMs: clock.now() + 60_000 });
  t.match(plain, /^gwk_[\w-]{43}$/);
  t.match(key, { org_id: 'acme', name: 'ci', key_prefix: plain.slice(0, 12) });
  t.notOk(JSON.stringify(await store.list('api_key')).includes(plain.slice(12)), 'nowhere in the store');
  t.match(await store.list('api_key'), [{ key: sha256Hex(plain) }]);
  t.match(await keys.judge(plain), { result: 'valid', key: { id: key.id } });
  t.match(keys.judge(plain), { result: 'valid' }, 'at once from then on');
  t.same(await keys.judge(`${plain}x`), { result: 'invalid_key' });
  t.same(lookups, ['fallback', 'hit', 'miss']);
  clock.advance(60_000);
  t.match(keys.judge(plain), { result: 'expired' });
  const other = await keys.create({ orgId: 'other', name: '', expiresAtMs: undefined });
  t.match(await keys.judge(other.plain), { result: 'valid' });
  t.match(await keys.revoke(other.key.id), { id: other.key.id, revoked_at: String });
  t.match(await keys.judge(other.plain), { result: 'revoked' });
  const again = await keys.revoke(other.key.id);
  clock.advance(1_000);
  t.same(await keys.revoke(other.key.id), again, 'the second time changes nothing');
  t.equal(await keys.revoke('none'), undefined);
  t.same(
    (await keys.list('other')).map(({ id }) => id),
    [other.key.id],
  );
  t.same(
    (await keys.list()).map(({ id }) => id),
    [key.id, other.key.id],
    'the oldest first',
  );
});

t.test('what another writer of the store revokes lets nobody in, not even somebody whose key was being looked up', async (t) => {
  const { clock, store, service } = await open(t);
  const [mine, theirs] = [await service(), await service()];
  const { plain, key } = await mine.create({ orgId: 'acme', name: '', expiresAtMs: undefined });
  t.match(await theirs.judge(plain), { result: 'valid' });
  await mine.revoke(key.id);
  t.match(await theirs.judge(plain), { result: 'revoked' });

  const second = await mine.create({ orgId: 'acme', name: '', expiresAtMs: undefined });
  let read: () => void = () => undefined;
  const held = new Promise<void>((resolve) => (read = resolve));
  const slow = {
    ...boundTo(store),
    get: async (space: string, name: string) => {
      const value = await store.get(space, name);
      await held;
      return value;
    },
  };
  const late = await ApiKeyService.open({ store: slow, clock, events: new EventBus(silentLogger) });
  const judged = late.judge(second.plain);
  await mine.revoke(second.key.id);
  read();
  await judged;
  t.match(await late.judge(second.plain), { result: 'revoked' }, 'what was read before is not kept');
});

t.test('thousands of keys are listed and revoked in pages', async (t) => {
  const { service } = await open(t);
  const keys = await service();
  const made = await Promise.all(
    Array.from({ length: 1_201 }, (_, at) => keys.create({ orgId: `o${at % 3}`, name: '', expiresAtMs: undefined })),
  );
  t.equal((await keys.list()).length, 1_201);
  t.equal((await keys.list('o1')).length, 400);
  for (const { key } of made.slice(-3)) t.match(await keys.revoke(key.id), { revoked_at: String });
});

t.test('operators make, list and revoke them; a key is shown once', async (t) => {
  const clock = fakeClock();
  const gw = await startTestGateway(t, { clock, env: { GW_ORG_ID: 'acme' } });
  const made = await gw.admin('POST', '/v1/admin/api-keys', { name: 'ci', expires_at: '2027-01-01T00:00:00Z' });
  t.match(made, { status: 201, body: { org_id: 'acme', name: 'ci', key: /^gwk_/, expires_at: '2027-01-01T00:00:00.000Z' } });
  const { key, ...shown } = made.body as { key: string; id: string };
  t.same((await gw.admin('GET', '/v1/admin/api-keys?org_id=acme')).body, { api_keys: [shown] });
  t.notOk((await gw.admin('GET', '/v1/admin/api-keys')).text.includes(key));
  t.match(await gw.admin('DELETE', `/v1/admin/api-keys/${shown.id}`), { status: 200, body: { id: shown.id, revoked_at: String } });
  t.equal((await gw.admin('DELETE', '/v1/admin/api-keys/none')).status, 404);
  t.equal((await gw.admin('POST', '/v1/admin/api-keys')).status, 201, 'all members are optional');
  for (const [body, path] of [
    [{ org_id: 'other' }, 'org_id'],
    [{ expires_at: '2020-01-01T00:00:00Z' }, 'expires_at'],
    [{ expires_at: 'tomorrow' }, 'expires_at'],
    [{ name: 7 }, 'name'],
    [{ scopes: [] }, 'scopes'],
  ] as const) {
    const answer = await gw.admin('POST', '/v1/admin/api-keys', body);
    t.equal(answer.status, 400, JSON.stringify(body));
    t.match(answer.text, `"path":"${path}"`);
  }
  t.equal((await fetch(`${gw.url}/v1/admin/api-keys`)).status, 401);
});
