// What people do leaves a trail that can be read: programs with the admin token, approvers, what changed and who, and
// where a workload's token may stand.
import t from 'tap';
import type { AuditEntry } from '../../src/base/model/audit-entry.ts';
import type { KeyScope } from '../../src/base/model/keys.ts';
import { runningClock } from '../support/fake-clock.ts';
import { startTestGateway } from '../support/gateway.ts';
import { ALLOW_ALL, bundleOf, CHAT, chat, startGoverned } from '../support/governed.ts';
import { codeIn, type Manage, startManaged } from '../support/managed.ts';
import type { RawResponse } from '../support/raw-clients.ts';

const ASK_ALL = bundleOf(`  targets:
    - {id: ask, when: {field: action.type, exists: true}, effect: {decision: require_approval}}
`);

interface Made {
  readonly id: string;
  readonly key: string;
  readonly expires_at: string;
}

const entriesOf = async (
  gw: { admin: (method: string, path: string) => Promise<{ body: unknown }> },
  query = '',
): Promise<readonly AuditEntry[]> => ((await gw.admin('GET', `/v1/admin/audit?limit=500${query}`)).body as { items: AuditEntry[] }).items;

const SESSION = { org_id: 'acme', name: 'gw on host', kind: 'management', scopes: ['read', 'write'] };

t.test(
  'keys of sessions of the admin token make no entries; that it is used makes one in an hour, and what is done is done by it',
  async (t) => {
    let ahead = 0;
    const clock = { ...runningClock, now: () => runningClock.now() + ahead };
    const { gw, with: withKey } = await startManaged(t, { clock });
    const before = (await entriesOf(gw)).length;
    const make = async (user: string): Promise<Made> =>
      (await gw.admin('POST', '/v1/admin/mgmt-keys', { ...SESSION, session: { program: 'gw', user } })).body as Made;
    for (let times = 0; times < 3; times += 1) {
      const { id, key } = await make('olga@host');
      t.equal((await withKey(key)('GET', 'workloads')).status, 200);
      const listed = (await withKey(key)('GET', 'keys')).body as { data: { id: string }[] };
      t.notOk(
        listed.data.some((one) => one.id === id),
        'a program is not shown the key by which it asks',
      );
      t.equal((await gw.admin('DELETE', `/v1/admin/mgmt-keys/${id}`)).status, 200);
      t.equal((await withKey(key)('GET', 'workloads')).status, 401, 'it ends at once');
    }
    const used = await entriesOf(gw);
    t.equal(used.length, before + 1);
    t.match(used[0], { operation: 'admin_token.use', org_id: 'acme', from: '127.0.0.1', changes: [] });
    t.strictSame(used[0]?.principal, { kind: 'admin', id: 'admin', program: 'gw', user: 'olga@host' });
    const { key } = await make('olga@host');
    await withKey(key)('PUT', 'workloads', { workload_id: 'bot', name: 'Bot' });
    const changed = await entriesOf(gw, '&operation=workloads');
    t.match(changed, [{ operation: 'mgmt.workloads.put', object: 'bot', principal: { kind: 'admin', id: 'admin', user: 'olga@host' } }]);
    t.notMatch(JSON.stringify(changed), /gw on host/, 'no key of five minutes is named');
    await make('otto@host');
    t.equal((await entriesOf(gw, '&operation=admin_token.use')).length, 2, 'another person is another session');
    ahead = 3_600_001;
    await make('olga@host');
    t.equal((await entriesOf(gw, '&operation=admin_token.use')).length, 3, 'and so is the next hour');
    const left = (await gw.admin('GET', '/v1/admin/mgmt-keys?org_id=acme')).body as { keys: { session?: object }[] };
    t.equal(
      left.keys.filter(({ session }) => session !== undefined).length,
      1,
      'keys that nobody has revoked are gone when they have expired',
    );
  },
);

t.test('a key of a session ends within an hour, whatever it asks for, and any other key is told of as ever', async (t) => {
  const { gw } = await startManaged(t);
  const asked = runningClock.now();
  const { expires_at: end } = (await gw.admin('POST', '/v1/admin/mgmt-keys', { ...SESSION, session: { program: 'gw' } })).body as Made;
  t.ok(Date.parse(end) >= asked + 3_600_000 && Date.parse(end) <= runningClock.now() + 3_600_000);
  const before = (await entriesOf(gw)).length;
  const { id } = (await gw.admin('POST', '/v1/admin/mgmt-keys', SESSION)).body as Made;
  await gw.admin('DELETE', `/v1/admin/mgmt-keys/${id}`);
  t.match((await entriesOf(gw)).slice(0, -before), [
    { operation: 'mgmt_keys.revoke', object: id },
    { operation: 'mgmt_keys.create', object_name: 'gw on host' },
  ]);
});

// Holds: changes-are-audited
t.test('the trail shows what is no secret before and after, with names, and hides what may be one', async (t) => {
  const { gw, manage } = await startManaged(t);
  await manage('PUT', 'workloads', { workload_id: 'bot', name: 'Bot' });
  await manage('PUT', 'workloads', { workload_id: 'bot', name: 'Support bot' });
  const made = (await manage('POST', 'budgets/limits', { scope: 'project', scope_id: 'support', limit_usd: '250' })).body as {
    limit_id: string;
  };
  await manage('POST', 'alerts/channels', {
    name: 'ops',
    kind: 'slack',
    config: { webhook_url: 'https://hooks.slack.com/services/planted' },
  });
  await manage('PUT', 'credentials', { id: 'main', provider: 'openai', mode: 'alias', secret: 'sk-planted' });
  await manage('POST', 'workloads/bot/token');
  const all = await entriesOf(gw);
  const one = (operation: string) => all.find((entry) => entry.operation === operation);
  t.match(one('mgmt.workloads.put'), {
    object: 'bot',
    object_name: 'Support bot',
    principal: { kind: 'management_key', name: 'key of acme' },
    changes: [{ member: 'name', before: /^[0-9a-f]{64}$/, before_value: 'Bot', after_value: 'Support bot' }],
  });
  t.match(one('mgmt.budgets.create'), { object: made.limit_id, object_name: 'project support' });
  t.match(one('mgmt.workloads.token'), {
    object: 'bot',
    object_name: 'Support bot',
    changes: [{ entity: 'workload_token', after: String }],
  });
  t.notOk('after_value' in (one('mgmt.workloads.token')?.changes[0] ?? {}));
  t.notMatch(JSON.stringify(all), /planted/);
  t.match(JSON.stringify(one('mgmt.alerts.channels.create')), /"member":"name".*"after_value":"ops"/);
});

t.test('a key reads the trail of its org alone, filtered by who, what, which thing and when, page by page', async (t) => {
  const { manage, keyOf, with: withKey } = await startManaged(t);
  const other = withKey((await keyOf('globex', ['read', 'write'])).key);
  await other('PUT', 'workloads', { workload_id: 'theirs' });
  for (const name of ['a', 'b', 'c']) await manage('PUT', 'workloads', { workload_id: name });
  await manage('DELETE', 'workloads/a');
  const read = async (query: string, as: Manage = manage) =>
    (await as('GET', `audit${query}`)).body as { data: AuditEntry[]; next_cursor: string | null };
  const { data } = await read('');
  t.ok(data.length >= 5 && data.every((entry) => entry.org_id === 'acme'));
  t.notMatch(JSON.stringify(data), /theirs/);
  t.same(
    (await read('?object=a')).data.map(({ operation }) => operation),
    ['mgmt.workloads.remove', 'mgmt.workloads.put'],
  );
  t.equal((await read('?operation=workloads')).data.length, 4);
  t.equal((await read('?operation=workloads.remove')).data.length, 1);
  t.equal((await read('?operation=work')).data.length, 0, 'the beginning of a name is not its name');
  t.equal((await read('?principal=key+of+acme&operation=workloads')).data.length, 4);
  t.equal((await read('?principal=admin')).data.length, 1, 'the key was made with the admin token');
  t.same((await read(`?to=${new Date(runningClock.now() - 86_400_000).toISOString()}`)).data, []);
  const first = await read('?limit=2');
  const second = await read(`?limit=500&cursor=${first.next_cursor}`);
  t.same([...first.data, ...second.data], data);
  t.equal(codeIn(await withKey((await keyOf('acme', ['approve'])).key)('GET', 'audit')), 'insufficient_scope');
});

t.test('a key with the scope approve lists and decides what waits, and opens nothing else', async (t) => {
  const { gw, keyOf, with: withKey, manage } = await startManaged(t, { bundle: ASK_ALL });
  const approver = withKey((await keyOf('acme', ['approve'])).key);
  const envelope = { schema: 'gw.action_request.v2', org_id: 'acme', workload_id: 'default', credential_hint: 'sk-caller' };
  const ask = async (user: string) => {
    const action = { type: 'ai.infer', method: 'POST', target_host: 'api.openai.com', params: { ...CHAT, user } };
    const headers = { 'content-type': 'application/json' };
    const answer = await fetch(`${gw.url}/v1/actions:execute`, { method: 'POST', headers, body: JSON.stringify({ ...envelope, action }) });
    return ((await answer.json()) as { approval_id: string }).approval_id;
  };
  const [one, two] = [await ask('a'), await ask('b')];
  t.equal(((await approver('GET', 'approvals')).body as { data: unknown[] }).data.length, 2);
  t.equal((await approver('GET', 'quarantine')).status, 200);
  const approved = await approver('POST', `approvals/${one}/approve`, { decided_by: 'somebody else' });
  t.match(approved, {
    status: 200,
    body: {
      status: 'approved',
      decided_by: 'key of acme',
      decided_by_principal: { kind: 'management_key', name: 'key of acme' },
      decided_by_note: 'somebody else',
    },
  });
  t.equal((await approver('POST', `approvals/${two}/deny`)).status, 200);
  for (const [method, path] of [
    ['GET', 'workloads'],
    ['GET', 'records'],
    ['GET', 'keys'],
    ['GET', 'dashboard'],
  ] as const)
    t.match(
      await approver(method, path),
      { status: 403, body: { error: { code: 'insufficient_scope', message: /needs the scope `read`/ } } },
      path,
    );
  t.match(await approver('POST', 'keys', { name: 'x', kind: 'mcp', scopes: ['read'] }), {
    status: 403,
    body: { error: { message: /`write`/ } },
  });
  const reader = withKey((await keyOf('acme', ['read'])).key);
  t.match(await reader('POST', `approvals/${two}/approve`), {
    status: 403,
    body: { error: { message: /needs the scope `write` or `approve`/ } },
  });
  t.equal((await reader('GET', 'approvals')).status, 200);
  const both = withKey((await keyOf('acme', ['read', 'approve'])).key);
  t.equal((await both('GET', 'workloads')).status, 200);
  t.equal(codeIn(await both('PUT', 'workloads', { workload_id: 'x' })), 'insufficient_scope');
  t.match(await manage('POST', 'keys', { name: 'x', kind: 'management', scopes: ['write'] }), {
    status: 400,
    body: { error: { details: [{ path: 'scopes', message: 'must be ["read"], ["read", "write"], ["approve"] or ["read", "approve"]' }] } },
  });
});

t.test('an assistant of an approver is shown the tools that it may use, and no other', async (t) => {
  const { gw, keyOf } = await startManaged(t);
  const toolsOf = async (scopes: readonly KeyScope[]) => {
    const { key } = await keyOf('acme', scopes, 'mcp');
    const meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {} };
    const answer = await fetch(`${gw.url}/mcp`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
        accept: 'application/json',
        'mcp-protocol-version': '2026-07-28',
        'mcp-method': 'tools/list',
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta: meta } }),
    });
    const { result } = (await answer.json()) as { result: { tools: { name: string }[]; cacheScope: string } };
    return { names: result.tools.map(({ name }) => name), cacheScope: result.cacheScope };
  };
  const approver = await toolsOf(['approve']);
  t.strictSame(approver, {
    names: ['approve_request', 'deny_request', 'list_approvals', 'list_quarantine', 'release_quarantine'],
    cacheScope: 'private',
  });
  t.ok((await toolsOf(['read'])).names.includes('create_workload'), 'who reads is told of the scope that he lacks when he calls it');
});

const basic = (user: string, password: string) => `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;
const INNER = '/v1/chat/completions';
const OPENAI = 'api.openai.com:443';

t.test('a workload token is taken wherever an API key is, and rotated and removed by the org', async (t) => {
  const governed = await startGoverned(t, { bundle: ALLOW_ALL });
  const { gw, send, through } = governed;
  const made = await gw.admin('POST', '/v1/admin/mgmt-keys', { ...SESSION });
  const manage = async (method: string, path: string, body?: unknown) => {
    const headers = { authorization: `Bearer ${(made.body as Made).key}`, 'content-type': 'application/json' };
    const answer = await fetch(`${gw.url}/mgmt/v1/${path}`, {
      method,
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: answer.status, body: (await answer.json()) as { token: string; error: { message: string } } };
  };
  await manage('PUT', 'workloads', { workload_id: 'bot' });
  const { token } = (await manage('POST', 'workloads/bot/token')).body;
  t.match(token, /^gwt_[A-Za-z0-9_-]{43}$/);
  const doors: readonly (readonly [string, (shown: string) => Promise<RawResponse>])[] = [
    ['redirect, X-GW-Workload-Token', (shown) => send(chat(['X-GW-Workload-Token', shown]))],
    ['redirect, X-GW-API-Key', (shown) => send(chat(['X-GW-API-Key', shown]))],
    [
      'redirect, Authorization',
      (shown) => send({ ...chat([]), headers: ['Content-Type', 'application/json', 'Authorization', `Bearer ${shown}`] }),
    ],
    ['tunnel, X-GW-API-Key inside', (shown) => through(OPENAI, chat(['X-GW-API-Key', shown], INNER))],
    ['CONNECT, password', (shown) => through(OPENAI, chat([], INNER), { 'Proxy-Authorization': basic('bot', shown) })],
    ['CONNECT, user alone', (shown) => through(OPENAI, chat([], INNER), { 'Proxy-Authorization': basic(shown, '') })],
    ['CONNECT, X-GW-API-Key', (shown) => through(OPENAI, chat([], INNER), { 'X-GW-API-Key': shown })],
    ['CONNECT, X-GW-Workload-Token', (shown) => through(OPENAI, chat([], INNER), { 'X-GW-Workload-Token': shown })],
  ];
  for (const [name, call] of doors) {
    t.match(await governed.recordOf(await call(token)), { org_id: 'acme', workload_id: 'bot' }, name);
  }
  const structured = async (headers: Record<string, string>) => {
    const envelope = { schema: 'gw.action_request.v2', org_id: 'acme', workload_id: 'bot', credential_hint: 'sk-caller' };
    const action = { type: 'ai.infer', method: 'POST', target_host: 'api.openai.com', params: CHAT };
    const answer = await fetch(`${gw.url}/v1/actions:execute`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ ...envelope, action }),
    });
    return { status: answer.status, text: await answer.text() };
  };
  for (const headers of [{ authorization: `Bearer ${token}` }, { 'x-gw-workload-token': token }, { 'x-gw-api-key': token }])
    t.equal((await structured(headers)).status, 200, JSON.stringify(Object.keys(headers)));
  t.match(await structured({}), { status: 401, text: /needs its token \(gwt_…: Authorization: Bearer, X-GW-Workload-Token/ });
  const again = (await manage('POST', 'workloads/bot/token')).body.token;
  t.equal((await structured({ authorization: `Bearer ${token}` })).status, 401, 'an older one counts no longer');
  t.equal((await structured({ authorization: `Bearer ${again}` })).status, 200);
  t.match(await manage('DELETE', 'workloads/bot/token'), { status: 200, body: { workload_id: 'bot', status: 'deleted' } });
  t.equal((await structured({})).status, 200, 'without one nothing is needed');
  t.equal((await manage('DELETE', 'workloads/bot/token')).status, 404);
  t.match(await manage('POST', 'workloads/default/token'), {
    status: 409,
    body: { error: { message: /admin token, by \/v1\/admin\/workloads\/default\/token/ } },
  });
});

t.test('a key in the wrong place is told where it belongs', async (t) => {
  const gw = await startTestGateway(t, { bundle: ALLOW_ALL, env: { GW_MANAGED_MODE: 'true', GW_ORG_ID: 'acme' } });
  await gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'bot', org_id: 'acme' });
  const { token } = (await gw.admin('POST', '/v1/admin/workloads/bot/token')).body as { token: string };
  const { key: apiKey } = (await gw.admin('POST', '/v1/admin/api-keys', { name: 'k' })).body as Made;
  const asked = async (path: string, shown: string, method = 'GET') =>
    (await fetch(`${gw.url}${path}`, { method, headers: { authorization: `Bearer ${shown}` } })).text();
  t.match(await asked('/v1/admin/workloads', apiKey), /admin token; what was sent is an API key, which is for calls/);
  t.match(await asked('/v1/admin/workloads', token), /what was sent is a workload token, which is for calls/);
  t.match(await asked('/mgmt/v1/workloads', apiKey), /needs a management key .*what was sent is an API key/);
  t.match(await asked('/mgmt/v1/workloads', 'mcpk_x'), /what was sent is an MCP key, which is for \/mcp/);
  t.match(await asked('/v1/records/x', token), /what was sent is a workload token/);
  t.match(
    await asked('/v1/actions:execute', token, 'POST'),
    /needs an API key .*what was sent is a workload token, which is taken beside it/,
  );
  t.match(await asked('/v1/actions:execute', 'mgk_x', 'POST'), /what was sent is a management key, which is for \/mgmt\/v1/);
  t.match(
    await asked('/proxy/openai/v1/chat/completions', token, 'POST'),
    /needs an API key .*the workload token that was sent is taken beside it/,
  );
});
