// Keys of the management API: how the first one comes about, what each opens, whose they show, and how they end.
import t from 'tap';
import { codeIn, startManaged } from '../support/managed.ts';

interface Key {
  readonly id: string;
  readonly key?: string;
  readonly key_prefix: string;
  readonly name: string;
}

interface Page {
  readonly data: readonly Key[];
  readonly next_cursor: string | null;
  readonly has_more: boolean;
}

t.test('a key is shown once, has the form that is promised, and opens its own surface alone', async (t) => {
  const { gw, manage, with: withKey } = await startManaged(t);
  const made = await manage('POST', 'keys', { name: 'Ops', kind: 'management', scopes: ['read'] });
  t.equal(made.status, 201);
  const { key = '', key_prefix: prefix, id } = made.body as Key;
  t.match(key, /^mgk_[A-Za-z0-9_-]{43}$/);
  t.equal(prefix, key.slice(0, 16));
  const list = (await manage('GET', 'keys')).body as Page;
  t.ok(list.data.some((one) => one.id === id && !('key' in one)));
  t.notMatch(JSON.stringify(list), key);
  t.equal((await withKey(key)('GET', 'keys')).status, 200);
  t.equal(codeIn(await withKey(key)('POST', 'keys', { name: 'x', kind: 'management', scopes: ['read'] })), 'insufficient_scope');
  t.equal((await withKey(key)('GET', '/v1/admin/workloads')).status, 401);
  const mcp = await manage('POST', 'keys', { name: 'Assistant', kind: 'mcp', scopes: ['read', 'write'] });
  t.match((mcp.body as Key).key, /^mcpk_[A-Za-z0-9_-]{43}$/);
  t.equal((await withKey((mcp.body as Key).key)('GET', 'keys')).status, 401);
  t.equal((await withKey(undefined)('GET', 'keys')).status, 401);
  t.equal((await withKey('test-admin-token-0123456789')('GET', 'keys')).status, 401);
  t.equal((await fetch(`${gw.url}/mgmt/v1/openapi.json`)).status, 200);
});

t.test('a revoked key lets nobody in from the next request on, and is gone', async (t) => {
  const { manage, keyOf, with: withKey } = await startManaged(t);
  const { id, key } = await keyOf('acme');
  t.equal((await withKey(key)('GET', 'keys')).status, 200);
  t.strictSame((await manage('DELETE', `keys/${id}`)).body, { id, status: 'revoked' });
  t.equal((await withKey(key)('GET', 'keys')).status, 401);
  t.equal(codeIn(await manage('DELETE', `keys/${id}`)), 'key_not_found');
  t.notOk(((await manage('GET', 'keys')).body as Page).data.some((one) => one.id === id));
});

t.test('keys of another org are as if they were not there', async (t) => {
  const { gw, manage, keyOf } = await startManaged(t);
  const other = await keyOf('globex');
  t.notOk(((await manage('GET', 'keys')).body as Page).data.some((one) => one.id === other.id));
  t.equal(codeIn(await manage('DELETE', `keys/${other.id}`)), 'key_not_found');
  const all = (await gw.admin('GET', '/v1/admin/mgmt-keys')).body as { keys: readonly Key[] };
  t.ok(all.keys.some((one) => one.id === other.id));
  t.equal((await gw.admin('DELETE', `/v1/admin/mgmt-keys/${other.id}`)).status, 200);
});

t.test('on a gateway of one org a key for another one is a mistake', async (t) => {
  const { gw } = await startManaged(t, { env: { GW_ORG_ID: 'acme' } });
  const body = { org_id: 'globex', name: 'x', kind: 'mcp', scopes: ['read'] };
  const refused = await gw.admin('POST', '/v1/admin/mgmt-keys', body);
  t.equal(refused.status, 400);
  t.match(refused.text, 'org_id');
});

t.test('bad members and parameters are told by their names', async (t) => {
  const { manage } = await startManaged(t);
  const bad = await manage('POST', 'keys', { name: '', kind: 'admin', scopes: ['write'], expires_at: '2020-01-01T00:00:00Z', more: 1 });
  t.equal(bad.status, 400);
  const { details } = (bad.body as { error: { details: readonly { path: string }[] } }).error;
  t.strictSame(details.map(({ path }) => path).sort(), ['expires_at', 'kind', 'more', 'name', 'scopes']);
  for (const query of ['limit=501', 'limit=0', 'cursor=x', 'page=2']) t.equal((await manage('GET', `keys?${query}`)).status, 400, query);
});

t.test('pages neither repeat nor skip while keys are made', async (t) => {
  const { manage } = await startManaged(t);
  const make = async (name: string) => ((await manage('POST', 'keys', { name, kind: 'mcp', scopes: ['read'] })).body as Key).id;
  const before: string[] = [];
  for (let at = 0; at < 5; at += 1) before.push(await make(`k${at}`));
  const seen: string[] = [];
  let cursor: string | null = null;
  do {
    const page: Page = (await manage('GET', `keys?limit=2${cursor === null ? '' : `&cursor=${cursor}`}`)).body as Page;
    seen.push(...page.data.map(({ id }) => id));
    t.equal(page.has_more, page.next_cursor !== null);
    if (seen.length < 6) await make('meanwhile');
    cursor = page.next_cursor;
  } while (cursor !== null);
  t.equal(new Set(seen).size, seen.length);
  for (const id of before) t.ok(seen.includes(id));
});

t.test('what is changed is in the audit trail, without the key', async (t) => {
  const { gw, manage } = await startManaged(t);
  const made = (await manage('POST', 'keys', { name: 'Ops', kind: 'management', scopes: ['read'] })).body as Key;
  const trail = (await gw.admin('GET', '/v1/admin/audit?operation=mgmt.keys.create')).body as {
    items: readonly { principal: { kind: string }; object: string }[];
  };
  t.equal(trail.items[0]?.object, made.id);
  t.equal(trail.items[0]?.principal.kind, 'management_key');
  t.notMatch(JSON.stringify(trail), made.key ?? 'no key');
});
