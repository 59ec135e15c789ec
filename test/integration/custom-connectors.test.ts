import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { ALLOW_ALL, bundleOf, CHAT, type Governed, startGoverned } from '../support/governed.ts';
import { type Manage, managedOf } from '../support/managed.ts';
import { connectThrough, h1Request } from '../support/raw-clients.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';
import { startPlainUpstream } from '../support/tls-upstream.ts';

const HOST = 'llm.corp.example';
const KEY = 'sk-of-the-connector-123456';
const bearer = { name: 'Ours', base_url: `https://${HOST}/api/v1`, auth_mode: 'bearer' };

interface Scene extends Governed {
  readonly acme: Manage;
  readonly other: Manage;
}

async function scene(t: HasTeardown, env: Record<string, string> = {}, bundle = ALLOW_ALL): Promise<Scene> {
  const governed = await startGoverned(t, { bundle, hosts: [HOST, 'two.corp.example'], env });
  const { manage, keyOf, with: withKey } = await managedOf(governed.gw);
  return { ...governed, acme: manage, other: withKey((await keyOf('other')).key) };
}

async function made(manage: Manage, body: object): Promise<{ id: string; connector_id: string }> {
  const answer = await manage('POST', 'connectors', body);
  if (answer.status !== 201) throw new Error(JSON.stringify(answer.body));
  return answer.body as { id: string; connector_id: string };
}

async function storeKey({ gw }: Governed, connectorId: string, more: object = {}): Promise<void> {
  const body = { credential_id: 'cred-custom', connector_id: connectorId, mode: 'alias', secret_ref: KEY, ...more };
  const answer = await gw.admin('PUT', '/v1/admin/credentials', body);
  if (answer.status !== 200) throw new Error(answer.text);
}

const JSON_TYPE = ['Content-Type', 'application/json'];
/** Of a CONNECT: the host is opened for callers of the org alone. */
const FOR_ACME = { 'X-GW-Org-ID': 'acme' };
const ofAcme = ['X-GW-Org-ID', 'acme', ...JSON_TYPE];
const call = (path: string, headers: readonly string[] = ofAcme) => ({ method: 'POST', path, headers, body: JSON.stringify(CHAT) });
const last = ({ upstream }: Governed) => upstream.requests.at(-1);

t.test('the stored key arrives as each auth mode says, and a change counts on the next call of an open tunnel', async (t) => {
  const one = await scene(t);
  const { id, connector_id: connectorId } = await made(one.acme, bearer);
  t.equal(connectorId, `custom:${id}`);
  await storeKey(one, id);
  const tunnel = await connectThrough(one.gw.port, `${HOST}:443`, one.gw.caPem, { headers: FOR_ACME });
  t.teardown(() => tunnel.destroy());
  const ask = (headers?: readonly string[]) => h1Request(tunnel, HOST, call('/api/v1/chat/completions', headers));

  const first = await ask();
  t.equal(first.status, 200);
  t.equal(last(one)?.headers['authorization'], `Bearer ${KEY}`);
  t.match(await one.recordOf(first), {
    connector_id: connectorId,
    credential_id: 'cred-custom',
    org_id: 'acme',
    action_type: 'ai.infer',
    model: 'gpt-4o-mini',
    metering: { tokens_in: 11, tokens_out: 7, usage_reported: true },
  });

  const change = async (body: object) => t.equal((await one.acme('PUT', `connectors/${id}`, body)).status, 200);
  await change({ auth_mode: 'header', auth_header: 'X-Own-Key' });
  await ask([...ofAcme, 'X-Own-Key', 'mine', 'Authorization', 'Bearer ']);
  t.equal(last(one)?.headers['x-own-key'], 'mine', 'a key of the caller goes before a stored one');
  await ask();
  t.equal(last(one)?.headers['x-own-key'], KEY);
  t.equal(last(one)?.headers['authorization'], undefined);

  await change({ auth_mode: 'query', auth_query: 'api_key' });
  const byQuery = await h1Request(tunnel, HOST, call('/api/v1/chat/completions?trace=1'));
  t.equal(last(one)?.url, `/api/v1/chat/completions?trace=1&api_key=${KEY}`);
  const record = await one.recordOf(byQuery);
  t.notOk(JSON.stringify(record).includes(KEY), 'no record holds a key that goes in the query');
  t.match(record, { credential_id: 'cred-custom' });

  await change({ auth_mode: 'none' });
  await ask();
  t.notOk(JSON.stringify(last(one)?.rawHeaders).includes(KEY) || last(one)?.url.includes(KEY));

  await change({ auth_mode: 'bearer' });
  t.equal((await one.acme('POST', `connectors/${id}/disable`)).status, 200);
  const off = await ask();
  t.equal(last(one)?.headers['authorization'], undefined, 'one that is switched off is used by nobody');
  t.match(await one.recordOf(off), { connector_id: 'generic_http' });
  t.equal((await one.acme('POST', `connectors/${id}/enable`)).status, 200);
  await ask();
  t.equal(last(one)?.headers['authorization'], `Bearer ${KEY}`);
  t.equal((await one.acme('DELETE', `connectors/${id}`)).status, 200);
  await ask();
  t.equal(last(one)?.headers['authorization'], undefined);
  t.equal((await one.acme('DELETE', `connectors/${id}`)).status, 404);
});

// Holds: connectors-of-their-org
t.test('a connector is its org’s alone: another org neither sees it nor gets its key, on any door', async (t) => {
  const one = await scene(t);
  const { id, connector_id: connectorId } = await made(one.acme, bearer);
  await storeKey(one, connectorId);
  const theirs = ['X-GW-Org-ID', 'other', ...JSON_TYPE];
  const proxied = await one.through(`${HOST}:443`, call('/api/v1/chat/completions', theirs), FOR_ACME);
  t.equal(proxied.status, 200);
  t.equal(last(one)?.headers['authorization'], undefined);
  t.equal(proxied.headers['x-gw-record-id'], undefined, 'to another org its host is any host, in its own tunnels too');
  t.equal((await one.send(call(`/proxy/${id}/chat/completions`, theirs))).status, 400, 'their prefix is nobody’s');
  const action = { target_host: HOST, target_path: '/api/v1/chat/completions' };
  const hinted = await one.execute({ org_id: 'other', connector_hint: connectorId, credential_hint: undefined }, action);
  t.equal(hinted.status, 400);
  const stolen = await one.execute({ org_id: 'other', credential_hint: 'cred-custom' }, action);
  t.not(stolen.status, 200);
  t.equal(one.upstream.requests.length, 1);

  for (const [method, path, body] of [
    ['GET', `connectors/${id}`],
    ['PUT', `connectors/${id}`, { name: 'Mine' }],
    ['DELETE', `connectors/${id}`],
    ['POST', `connectors/${id}/enable`],
    ['POST', `connectors/${id}/disable`],
  ] as const)
    t.equal((await one.other(method, path, body)).status, 404, `${method} ${path}`);
  t.same((await one.other('GET', 'connectors')).body, { data: [], next_cursor: null, has_more: false });
  t.match((await one.acme('GET', 'connectors')).body, { data: [{ id, name: 'Ours' }] });

  const { id: own } = await made(one.other, { ...bearer, name: 'Theirs', auth_mode: 'header', auth_header: 'api-key' });
  t.not(own, id, 'each org may have one for the same host');
  await one.through(`${HOST}:443`, call('/api/v1/chat/completions'), FOR_ACME);
  t.equal(last(one)?.headers['authorization'], `Bearer ${KEY}`);
  const again = await one.through(`${HOST}:443`, call('/api/v1/chat/completions', theirs), { 'X-GW-Org-ID': 'other' });
  t.match(await one.recordOf(again), { connector_id: `custom:${own}` });
  t.equal(last(one)?.headers['authorization'], undefined);
});

t.test('every door honours the path of the base URL, and the default model', async (t) => {
  const one = await scene(t);
  const { id, connector_id: connectorId } = await made(one.acme, { ...bearer, default_model: 'our-model' });
  await storeKey(one, connectorId);
  const params = { messages: CHAT.messages };
  const direct = await one.execute({ org_id: 'acme', credential_hint: undefined }, { target_host: HOST, params });
  t.equal(direct.status, 200);
  t.equal(last(one)?.url, '/api/v1/chat/completions');
  t.same(JSON.parse(String(last(one)?.body)), { model: 'our-model', ...params });
  t.equal(last(one)?.headers['authorization'], `Bearer ${KEY}`);
  const record = await one.gw.record(String(direct.headers.get('x-gw-record-id')));
  t.match(record, { connector_id: connectorId, model: 'our-model' });
  const embedded = await one.execute(
    { org_id: 'acme', connector_hint: connectorId, credential_hint: undefined },
    { type: 'ai.embed', target_host: 'any.example', params: { model: 'e', input: 'x' } },
  );
  t.equal(embedded.status, 200);
  t.equal(last(one)?.url, '/api/v1/embeddings', 'a hint leads to its host');
  t.equal(last(one)?.headers['host'], HOST);
  for (const prefix of [`/proxy/${id}`, `/proxy/${connectorId}`, `/proxy/${id}/api/v1`]) {
    const answer = await one.send(call(`${prefix}/chat/completions`));
    t.equal(answer.status, 200);
    t.equal(last(one)?.url, '/api/v1/chat/completions', prefix);
  }
  const atRoot = await made(one.acme, { name: 'Root', base_url: 'https://two.corp.example/', auth_mode: 'none' });
  await one.execute({ org_id: 'acme', connector_hint: atRoot.id, credential_hint: undefined });
  t.equal(last(one)?.url, '/v1/chat/completions', 'without a path /v1 is meant');
  await one.acme('PUT', `connectors/${atRoot.id}`, { dialect: 'anthropic' });
  await one.execute({ org_id: 'acme', connector_hint: atRoot.id, credential_hint: undefined }, { params: { ...CHAT, max_tokens: 4 } });
  t.equal(last(one)?.url, '/v1/messages');
  t.equal(last(one)?.headers['anthropic-version'], '2023-06-01');
});

t.test('policy names it, and what it selects is refused once it is switched off', async (t) => {
  const governed = await startGoverned(t, { bundle: ALLOW_ALL, hosts: [HOST] });
  const { manage: acme } = await managedOf(governed.gw);
  const { id, connector_id: connectorId } = await made(acme, bearer);
  await storeKey(governed, id);
  const bundle = bundleOf(
    `  connectors:\n    - {id: ours, when: {field: context.action.type, equals: ai.infer}, effect: {decision: allow, select_connector: "${connectorId}"}}\n  targets:\n    - {id: all, effect: {decision: allow}}\n`,
  );
  t.equal((await governed.gw.admin('PUT', '/v1/admin/policies', { bundle_yaml: bundle })).status, 200);
  const moved = await governed.execute({ org_id: 'acme', credential_hint: undefined });
  t.equal(moved.status, 200, moved.text);
  t.equal(last(governed)?.headers['host'], HOST);
  t.equal(last(governed)?.headers['authorization'], `Bearer ${KEY}`);
  await acme('POST', `connectors/${id}/disable`);
  const refused = await governed.execute({ org_id: 'acme', credential_hint: undefined });
  t.match(refused, { status: 403 });
  t.match(refused.text, /connector_not_available/);
  const record = await governed.gw.record(String(refused.headers.get('x-gw-record-id')));
  t.match(record, { decision: 'deny' });
});

t.test('discovery, the list of connectors and restarts know it', async (t) => {
  const one = await scene(t);
  const { id, connector_id: connectorId } = await made(one.acme, bearer);
  await storeKey(one, id);
  await one.through(`${HOST}:443`, call('/api/v1/chat/completions'), FOR_ACME);
  const discovered = await one.gw.admin('GET', '/v1/admin/discovery/domains');
  t.match(discovered.body, { domains: [{ domain: HOST, managed: false, org_connector: true }] }, 'one org’s is no label for all');
  t.match((await one.gw.admin('GET', '/v1/admin/connectors')).text, `"connector_id":"${connectorId}"`);
  await one.gw.gateway.stop();
  const again = await startGoverned(t, { bundle: ALLOW_ALL, hosts: [HOST], env: { GW_DATA_DIR: one.gw.dataDir } });
  await again.through(`${HOST}:443`, call('/api/v1/chat/completions'), FOR_ACME);
  t.equal(last(again)?.headers['authorization'], `Bearer ${KEY}`);
});

t.test('plain http and addresses that are not public are for hosts that GW_EGRESS_ALLOW names, and no key goes there', async (t) => {
  const plain = await startPlainUpstream();
  t.teardown(() => plain.close());
  const one = await scene(t, { GW_EGRESS_ALLOW: '127.0.0.1' });
  const base = `http://127.0.0.1:${plain.port}`;
  const { id } = await made(one.acme, { name: 'Local', base_url: base, auth_mode: 'none' });
  const answer = await one.execute({ org_id: 'acme', connector_hint: id, credential_hint: undefined });
  t.equal(answer.status, 200, answer.text);
  t.equal(plain.requests.at(-1)?.url, '/v1/chat/completions');
  t.equal((await one.send(call(`/proxy/${id}/chat/completions`))).status, 200);
  t.equal(plain.requests.length, 2);
  t.equal((await one.gw.admin('GET', '/v1/admin/connectors')).status, 200, 'the gateway’s own routes are there as before');
  t.equal((await one.acme('PUT', `connectors/${id}`, { auth_mode: 'bearer' })).status, 400);
});

t.test('what is wrong is told by name, and changes nothing', async (t) => {
  const one = await scene(t);
  const { id } = await made(one.acme, bearer);
  const bad: readonly (readonly [object, string])[] = [
    [{ base_url: 'http://plain.example' }, 'base_url'],
    [{ base_url: 'https://10.0.0.7/v1' }, 'base_url'],
    [{ base_url: 'https://localhost/v1' }, 'base_url'],
    [{ base_url: 'https://[::1]/v1' }, 'base_url'],
    [{ base_url: 'https://0x7f.1/' }, 'base_url'],
    [{ base_url: 'https://user:pw@two.corp.example' }, 'base_url'],
    [{ base_url: 'https://two.corp.example/v1?x=1' }, 'base_url'],
    [{ base_url: 'https://two.corp.example/a/../b' }, 'base_url'],
    [{ base_url: 'ftp://two.corp.example' }, 'base_url'],
    [{ base_url: 'https://two.corp.example:99999' }, 'base_url'],
    [{ auth_mode: 'oauth' }, 'auth_mode'],
    [{ auth_mode: 'header' }, 'auth_header'],
    [{ auth_mode: 'header', auth_header: 'Host' }, 'auth_header'],
    [{ auth_mode: 'header', auth_header: 'X-GW-Org-ID' }, 'auth_header'],
    [{ auth_mode: 'query' }, 'auth_query'],
    [{ auth_mode: 'query', auth_query: 'a&b' }, 'auth_query'],
    [{ auth_query: 'key' }, 'auth_query'],
    [{ dialect: 'morse' }, 'dialect'],
    [{ enabled: 'yes' }, 'enabled'],
    [{ name: '' }, 'name'],
    [{ org_id: 'other' }, 'org_id'],
  ];
  for (const [change, path] of bad) {
    const answer = await one.acme('POST', 'connectors', { ...bearer, base_url: 'https://two.corp.example', ...change });
    t.equal(answer.status, 400, JSON.stringify(change));
    t.match(JSON.stringify(answer.body), `"path":"${path}"`);
    if (path !== 'base_url' || 'base_url' in change)
      t.equal((await one.acme('PUT', `connectors/${id}`, change)).status, 400, `PUT ${path}`);
  }
  for (const url of [`https://${HOST}`, `https://${HOST}:8443/other`, 'https://api.openai.com/v1', 'https://x.openai.azure.com'])
    t.equal((await one.acme('POST', 'connectors', { ...bearer, base_url: url })).status, 409, url);
  t.equal((await one.acme('POST', 'connectors', { name: 'x' })).status, 400);

  const shown = await one.acme('GET', `connectors/${id}`);
  const etag = String(shown.headers.get('etag'));
  const renamed = await one.acme('PUT', `connectors/${id}`, { name: 'Renamed' }, { 'if-match': etag });
  t.match(renamed, { status: 200, body: { name: 'Renamed', base_url: bearer.base_url, enabled: true, default_model: null } });
  t.equal((await one.acme('PUT', `connectors/${id}`, { name: 'Late' }, { 'if-match': etag })).status, 412);
  t.equal((await one.acme('DELETE', `connectors/${id}`, undefined, { 'if-match': etag })).status, 412);
  await storeKey(one, id);
  t.equal((await one.acme('PUT', `connectors/${id}`, { base_url: 'https://two.corp.example' })).status, 409, 'a key stays with its host');
  t.equal((await one.acme('PUT', `connectors/${id}`, { base_url: `https://${HOST}/v2` })).status, 200);
  await one.through(`${HOST}:443`, call('/v2/chat/completions'), FOR_ACME);
  t.match(last(one), { url: '/v2/chat/completions', headers: { authorization: `Bearer ${KEY}` } });
  const elsewhere = await one.gw.admin('PUT', '/v1/admin/credentials', {
    credential_id: 'c2',
    connector_id: `custom:${id}`,
    mode: 'alias',
    secret_ref: KEY,
    target_hosts: ['two.corp.example'],
  });
  t.equal(elsewhere.status, 400);
  const nobody = { credential_id: 'c3', connector_id: 'custom:nobody', mode: 'alias', secret_ref: KEY };
  t.equal((await one.gw.admin('PUT', '/v1/admin/credentials', nobody)).status, 400);
  t.ok((await one.gw.admin('GET', '/v1/admin/audit')).text.includes('mgmt.connectors.update'));
});

t.test('its key is stored by its own org alone, and a file may name one that is gone', async (t) => {
  const dir = tempDir(t);
  const one = await scene(t);
  const { id, connector_id: connectorId } = await made(one.acme, bearer);
  const body = { id: 'cred-own', provider: id, mode: 'alias', secret: KEY };
  const refused = await one.other('PUT', 'credentials', { ...body, id: 'cred-theirs' });
  t.match(refused, { status: 400, body: { error: { details: [{ path: 'provider' }] } } });
  const unknown = await one.other('PUT', 'credentials', { ...body, id: 'cred-theirs', provider: 'custom:nobody' });
  t.same(refused.body, unknown.body, 'as one that is not there');
  t.match(await one.acme('PUT', 'credentials', body), { status: 200, body: { provider: connectorId } });
  await one.through(`${HOST}:443`, call('/api/v1/chat/completions'), FOR_ACME);
  t.equal(last(one)?.headers['authorization'], `Bearer ${KEY}`);
  const named = { credential_id: 'c', org_id: 'other', connector_id: connectorId, mode: 'alias', secret_ref: KEY };
  t.equal((await one.gw.admin('PUT', '/v1/admin/credentials', named)).status, 400);

  writeFileSync(
    join(dir, 'a.yaml'),
    `credential_id: of-file\nconnector_id: "${connectorId}"\nmode: alias\nsecret_ref: ${KEY}\ntarget_hosts: [${HOST}]\n`,
  );
  await one.acme('DELETE', `connectors/${id}`);
  await one.gw.gateway.stop();
  // Opened, so that what is sent in it is seen.
  const again = await scene(t, { GW_DATA_DIR: one.gw.dataDir, GW_CREDENTIALS_DIR: dir, GW_PROXY_NON_AI: 'govern' });
  await again.through(`${HOST}:443`, call('/api/v1/chat/completions'), FOR_ACME);
  t.match((await again.gw.admin('GET', '/v1/admin/credentials')).text, /of-file/);
  t.equal(again.upstream.requests.length, 1);
  t.equal(last(again)?.headers['authorization'], undefined, 'and its key goes nowhere');
});

t.test('of two who make a connector for one host at the same moment one succeeds', async (t) => {
  const one = await scene(t);
  const answers = await Promise.all([1, 2, 3, 4].map(() => one.acme('POST', 'connectors', bearer)));
  t.same(answers.map(({ status }) => status).sort(), [201, 409, 409, 409]);
  t.equal(((await one.acme('GET', 'connectors')).body as { data: unknown[] }).data.length, 1);
});

t.test('a budget limit names a connector that its own org has, and a removed one takes what stands for it with it', async (t) => {
  const one = await scene(t);
  const { id, connector_id: connectorId } = await made(one.acme, bearer);
  const { id: kept } = await made(one.acme, { ...bearer, base_url: 'https://two.corp.example/v1' });
  const limitOn = (manage: Manage, name: string) =>
    manage('POST', 'budgets/limits', { scope: 'provider', scope_id: name, limit_usd: '5', actions: ['alert', 'cap'] });
  for (const name of [connectorId, `catalog:${id}`, `Custom:${id.toUpperCase()}`, id, `custom:${kept}`])
    t.equal((await limitOn(one.acme, name)).status, 201, name);
  for (const [manage, name] of [
    [one.other, connectorId],
    [one.acme, 'custom:0197a0c0-0000-7000-8000-000000000004'],
    [one.acme, 'catalog:nobody'],
  ] as const) {
    const details = [{ path: 'scope_id', message: /^must be a provider id/ }];
    t.match(
      await limitOn(manage, name),
      { status: 400, body: { error: { code: 'invalid_request', details } } },
      `as one that nobody has: ${name}`,
    );
  }
  t.match(await one.acme('PUT', `connectors/${kept}`, { default_model: 'm' }), { body: { default_model: 'm' } });
  t.match(await one.acme('PUT', `connectors/${kept}`, { default_model: '' }), { body: { default_model: null } }, 'what tools say for null');
  const limits = async () => ((await one.acme('GET', 'budgets/limits')).body as { data: { limit_id: string; scope_id: string }[] }).data;
  t.same(
    (await limits()).map((limit) => limit.scope_id),
    [...Array<string>(4).fill(connectorId), `custom:${kept}`],
  );

  await storeKey(one, id);
  await storeKey(one, id, { credential_id: 'cred-second', org_id: 'acme' });
  await storeKey(one, kept, { credential_id: 'cred-kept' });
  const [limit, , , , ofKept] = (await limits()).map((row) => row.limit_id);
  const channel = await one.acme('POST', 'alerts/channels', { name: 'm', kind: 'email', config: { to_addresses: ['a@corp.example'] } });
  const { channel_id: channelId } = channel.body as { channel_id: string };
  for (const limitId of [limit, ofKept])
    t.equal((await one.acme('POST', 'alerts/subscriptions', { channel_id: channelId, limit_id: limitId })).status, 201);
  const until = '2999-01-01T00:00:00Z';
  t.equal((await one.acme('POST', `budgets/limits/${limit ?? ''}/override`, { limit_usd: '6', until })).status, 200);
  t.match(await one.acme('GET', 'records?provider=custom:x'), { status: 200 });

  t.equal((await one.acme('DELETE', `connectors/${id}`)).status, 200);
  t.same(
    (await limits()).map((row) => row.limit_id),
    [ofKept],
  );
  const credentials = (await one.gw.admin('GET', '/v1/admin/credentials')).body as { credentials: { credential_id: string }[] };
  t.same(
    credentials.credentials.map((row) => row.credential_id),
    ['cred-kept'],
  );
  const subscriptions = (await one.acme('GET', 'alerts/subscriptions')).body as { data: { limit_id: string }[] };
  t.same(
    subscriptions.data.map((row) => row.limit_id),
    [ofKept],
  );
  const { items } = (await one.gw.admin('GET', '/v1/admin/audit?limit=9')).body as {
    items: { operation: string; object: string; at: string; org_id?: string }[];
  };
  const removals = items.filter(({ operation }) => operation.endsWith('.remove'));
  t.same(
    removals.map(({ operation }) => operation).sort(),
    [
      ...Array<string>(4).fill('budgets.remove'),
      ...Array<string>(2).fill('credentials.remove'),
      'mgmt.alerts.subscriptions.remove',
      'mgmt.connectors.remove',
    ],
    'each thing has its entry',
  );
  t.ok(removals.some(({ operation, object }) => operation === 'credentials.remove' && object === 'cred-second'));

  await one.gw.gateway.stop();
  const again = await scene(t, { GW_DATA_DIR: one.gw.dataDir });
  const { gw } = again;
  const after = (await gw.admin('GET', '/v1/admin/credentials')).body as typeof credentials;
  t.same(
    after.credentials.map((row) => row.credential_id),
    ['cred-kept'],
    'for good',
  );
  t.match((await gw.admin('GET', '/v1/admin/budgets/limits')).body, { limits: [{ limit_id: ofKept }] });
});
