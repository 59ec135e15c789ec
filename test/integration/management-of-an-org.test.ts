// What an org manages of its own: workloads, credentials, its rate limiter, approvals and quarantine; and that another
// org sees and changes none of it.
import t from 'tap';
import { ENTITY_BOUNDS } from '../../src/base/model/org-bounds.ts';
import { OPERATIONS } from '../../src/operations/operation-table.ts';
import { ToolTable } from '../../src/operations/tools.ts';
import { bundleOf, chat, startGoverned } from '../support/governed.ts';
import { codeIn, managedOf, startManaged } from '../support/managed.ts';

type Items = { readonly data: readonly Readonly<Record<string, unknown>>[] };
const ids = (body: unknown, member: string) => (body as Items).data.map((one) => one[member]);

t.test('workloads of an org are its own; those of every org are seen and not changed', async (t) => {
  const { manage, keyOf, with: withKey, gw } = await startManaged(t);
  const other = withKey((await keyOf('globex')).key);
  const put = await manage('PUT', 'workloads', { workload_id: 'ci', name: 'CI' });
  t.strictSame(put.body, { workload_id: 'ci', name: 'CI', org_id: 'acme' });
  t.strictSame(ids((await manage('GET', 'workloads')).body, 'workload_id'), ['ci', 'default']);
  t.strictSame(ids((await other('GET', 'workloads')).body, 'workload_id'), ['default']);
  t.equal(codeIn(await other('DELETE', 'workloads/ci')), 'not_found');
  const theirs = await other('PUT', 'workloads', { workload_id: 'ci', name: 'theirs' }, { 'if-none-match': '*' });
  t.strictSame(theirs.body, { workload_id: 'ci', name: 'theirs', org_id: 'globex' }, 'what another org has is neither in the way nor told');
  t.match((await manage('GET', 'workloads')).body, { data: [{ workload_id: 'ci', name: 'CI' }, { workload_id: 'default' }] });
  t.equal(codeIn(await manage('DELETE', 'workloads/default')), 'conflict');
  t.equal(codeIn(await manage('PUT', 'workloads', { workload_id: 'default' })), 'conflict');
  t.equal((await manage('PUT', 'workloads', { workload_id: 'x', org_id: 'globex' })).status, 400);
  const { workloads } = (await gw.admin('GET', '/v1/admin/workloads')).body as { workloads: readonly { workload_id: string }[] };
  t.strictSame(
    workloads.map((one) => one.workload_id),
    ['ci', 'ci', 'default'],
  );
  t.equal((await manage('DELETE', 'workloads/ci')).status, 200);
  t.equal(codeIn(await manage('DELETE', 'workloads/ci')), 'not_found');
  t.match((await other('GET', 'workloads')).body, { data: [{ workload_id: 'ci', name: 'theirs' }, { workload_id: 'default' }] });
});

const WHOLE = {
  name: 'CI',
  allowed_connection_types: ['direct_api'],
  default_attribution: { project_id: 'apollo', customer_id: 'acme', labels: { team: 'red', env: 'prod' } },
};

t.test('an update of a workload changes what it names, keeps the rest and takes away what it says null of, by each face', async (t) => {
  const { manage, gw } = await startManaged(t);
  const tools = new ToolTable(OPERATIONS, [], []);
  const faces: Readonly<Record<string, (workload: object) => Promise<unknown>>> = {
    rest: async (workload) => (await manage('PUT', 'workloads', workload)).body,
    admin: async (workload) => (await gw.admin('PUT', '/v1/admin/workloads', { org_id: 'acme', ...workload })).body,
    tool: async (workload) => {
      const asked = tools.requestOf('update_workload', workload, () => 0);
      return 'answer' in asked ? asked.answer : (await manage(asked.method, asked.path, asked.body, asked.headers)).body;
    },
  };
  for (const [face, update] of Object.entries(faces)) {
    const own = { workload_id: `of-${face}` };
    const whole = { ...own, ...WHOLE };
    await manage('PUT', 'workloads', whole);
    const is = { ...whole, org_id: 'acme' };
    t.strictSame(await update(own), is, `${face}: nothing is named`);
    const renamed = { ...is, name: 'Builds', default_attribution: { ...WHOLE.default_attribution, customer_id: 'globex' } };
    t.strictSame(await update({ ...own, name: 'Builds', default_attribution: { customer_id: 'globex' } }), renamed, face);
    const labelled = { ...renamed.default_attribution, labels: { env: 'prod', cost: 'low' } };
    t.strictSame(
      await update({ ...own, default_attribution: { labels: { team: null, cost: 'low' } } }),
      { ...renamed, default_attribution: labelled },
      `${face}: label by label`,
    );
    const { customer_id: _customer, labels: _labels, ...left } = labelled;
    t.strictSame(
      await update({ ...own, default_attribution: { customer_id: null, labels: null } }),
      { ...renamed, default_attribution: left },
      `${face}: members of a member`,
    );
    t.strictSame(
      await update({ ...own, name: null, allowed_connection_types: null, default_attribution: null }),
      { ...own, org_id: 'acme' },
      `${face}: null takes away`,
    );
  }
  t.equal((await manage('PUT', 'workloads', { workload_id: 'x', default_attribution: { labels: { team: 1 } } })).status, 400);
});

t.test('an update of a workload is made of what somebody else has written meanwhile', async (t) => {
  const { manage } = await startManaged(t);
  await manage('PUT', 'workloads', { workload_id: 'ci' });
  const given = [{ name: 'CI' }, { allowed_connection_types: [] }, { default_attribution: { project_id: 'apollo' } }];
  const answers = await Promise.all(given.map((one) => manage('PUT', 'workloads', { workload_id: 'ci', ...one })));
  t.strictSame(
    answers.map(({ status }) => status),
    [200, 200, 200],
  );
  const [ci] = ((await manage('GET', 'workloads')).body as Items).data;
  t.match(ci, { name: 'CI', allowed_connection_types: [], default_attribution: { project_id: 'apollo' } });
});

t.test('who changes what somebody else has changed since is told so', async (t) => {
  const { manage } = await startManaged(t);
  const first = await manage('PUT', 'workloads', { workload_id: 'ci', name: 'one' }, { 'if-none-match': '*' });
  const etag = first.headers.get('etag') ?? '';
  t.equal((await manage('PUT', 'workloads', { workload_id: 'ci' }, { 'if-none-match': '*' })).status, 412);
  const [listed] = ((await manage('GET', 'workloads')).body as Items).data;
  t.equal(listed?.['etag'], etag);
  t.equal((await manage('PUT', 'workloads', { workload_id: 'ci', name: 'two' }, { 'if-match': etag })).status, 200);
  const late = await manage('PUT', 'workloads', { workload_id: 'ci', name: 'three' }, { 'if-match': etag });
  t.equal(codeIn(late), 'precondition_failed');
  t.equal(((await manage('GET', 'workloads')).body as Items).data[0]?.['name'], 'two');
  t.equal((await manage('PUT', 'workloads', { workload_id: 'new' }, { 'if-match': '*' })).status, 412);
});

t.test('credentials of an org: made, renamed, removed, never read, and never a variable of the environment', async (t) => {
  const { manage, keyOf, with: withKey } = await startManaged(t);
  const other = withKey((await keyOf('globex')).key);
  const secret = 'sk-planted-0123456789';
  const put = await manage('PUT', 'credentials', { id: 'main', provider: 'provider_a', mode: 'alias', secret, name: 'Main' });
  t.equal(put.status, 200, JSON.stringify(put.body));
  t.equal((put.body as { provider: string }).provider, 'openai');
  t.equal((await manage('PUT', 'credentials', { id: 'x', provider: 'openai', mode: 'alias', secret: 'env:GW_ADMIN_TOKEN' })).status, 400);
  const renamed = await manage('PATCH', 'credentials/main', { name: 'Production' }, { 'if-match': put.headers.get('etag') ?? '' });
  t.equal((renamed.body as { name: string }).name, 'Production');
  for (const scope of ['node_scoped', 'org_wide']) {
    const refused = await manage('PATCH', 'credentials/main', { scope });
    t.match(
      refused,
      { status: 400, body: { error: { code: 'invalid_request', details: [{ path: 'scope' }] } } },
      'it is fixed, and not offered',
    );
  }
  t.equal(codeIn(await manage('PATCH', 'credentials/main', { node_ids: ['n1'] })), 'INVALID_ARGUMENT');
  t.strictSame(ids((await manage('GET', 'credentials')).body, 'id'), ['main']);
  t.notMatch(JSON.stringify((await manage('GET', 'credentials')).body), secret);
  t.strictSame(ids((await other('GET', 'credentials')).body, 'id'), []);
  t.equal(codeIn(await other('PATCH', 'credentials/main', { name: 'Mine' })), 'not_found');
  t.equal(codeIn(await other('DELETE', 'credentials/main')), 'not_found');
  const theirs = { id: 'main', provider: 'openai', mode: 'alias', secret: 'sk-theirs', name: 'Theirs' };
  t.equal(
    (await other('PUT', 'credentials', theirs, { 'if-none-match': '*' })).status,
    200,
    'ids of another org are neither in the way nor told',
  );
  t.match((await manage('GET', 'credentials')).body, { data: [{ id: 'main', name: 'Production' }] });
  t.equal((await manage('DELETE', 'credentials/main')).status, 200);
  t.match((await other('GET', 'credentials')).body, { data: [{ id: 'main', name: 'Theirs' }] });
});

t.test('the rate limiter of an org is its own, and counts from the next call on', async (t) => {
  const { gw, send } = await startGoverned(t, { bundle: bundleOf('  targets:\n    - {id: all, effect: {decision: allow}}\n') });
  const { manage, keyOf, with: withKey } = await managedOf(gw);
  const other = withKey((await keyOf('globex')).key);
  const config = { refill_rate: 1, max_tokens: 1, window_duration: '1h' };
  t.equal((await manage('PUT', 'ratelimit/config', config)).status, 200);
  t.strictSame((await manage('GET', 'ratelimit/config')).body, config);
  t.notSame((await other('GET', 'ratelimit/config')).body, config);
  const call = async (org: string) => (await send(chat(['X-GW-Org-ID', org]))).status;
  t.equal(await call('acme'), 200);
  t.equal(await call('acme'), 403, 'its second call within the hour');
  t.strictSame([await call('globex'), await call('globex')], [200, 200]);
  t.strictSame((await manage('GET', 'ratelimit/keys')).body, { data: ['default'], next_cursor: null, has_more: false });
});

t.test('an org decides its own approvals and releases its own callers, by the name of the key', async (t) => {
  const rules = '  targets:\n    - {id: ask, effect: {decision: require_approval, reason: large}}\n';
  const { gw, send } = await startGoverned(t, { bundle: bundleOf(rules) });
  const { manage, keyOf, with: withKey } = await managedOf(gw);
  const other = withKey((await keyOf('globex')).key);
  await send(chat(['X-GW-Org-ID', 'acme']));
  const [waiting] = ((await manage('GET', 'approvals?status=pending')).body as Items).data;
  const id = String(waiting?.['approval_id']);
  t.strictSame((await other('GET', 'approvals')).body, { data: [], next_cursor: null, has_more: false });
  t.equal(codeIn(await other('POST', `approvals/${id}/approve`)), 'not_found');
  const approved = await manage('POST', `approvals/${id}/approve`);
  t.equal((approved.body as { decided_by: string }).decided_by, 'key of acme');
  t.equal(codeIn(await manage('POST', `approvals/${id}/deny`)), 'conflict');
  t.equal((await send(chat(['X-GW-Org-ID', 'acme']))).status, 200);
});

t.test('a tool is its operation: the same arguments, the same answer, and only one way to make what is there', async (t) => {
  const table = new ToolTable(OPERATIONS, [], []);
  t.strictSame(
    table.requestOf('create_workload', { workload_id: 'ci' }, () => 0),
    {
      method: 'PUT',
      path: '/mgmt/v1/workloads',
      headers: { 'if-none-match': '*' },
      body: { workload_id: 'ci' },
    },
  );
  t.strictSame(
    table.requestOf('delete_workload', { workload_id: 'a/b' }, () => 0),
    {
      method: 'DELETE',
      path: '/mgmt/v1/workloads/a%2Fb',
      headers: {},
    },
  );
  t.strictSame(
    table.requestOf('list_approvals', { status: 'pending', limit: 5 }, () => 0),
    {
      method: 'GET',
      path: '/mgmt/v1/approvals?status=pending&limit=5',
      headers: {},
    },
  );
  t.throws(() => table.requestOf('delete_workload', {}, () => 0), { code: 'invalid_request' });
  t.throws(() => table.requestOf('delete_workload', { workload_id: 'a', more: 1 }, () => 0), { code: 'invalid_request' });
  t.throws(() => table.requestOf('nothing', {}, () => 0), { code: 'not_found' });
  for (const { name, inputSchema, annotations, scope } of table.tools) {
    t.equal(inputSchema['type'], 'object', name);
    t.equal(annotations.readOnlyHint, scope === 'read' || scope === 'review', name);
    t.equal(annotations.readOnlyHint, /^(?:list|get|explain|check)_|^test_policy$/.test(name), name);
  }
});

t.test('an org that has laid down as much as it may is told so, by API and tool, and another org is not', async (t) => {
  const { manage, keyOf, with: withKey } = await startManaged(t);
  const other = withKey((await keyOf('globex')).key);
  const exported = (name: string) => ({ name, kind: 'webhook', config: { url: 'https://siem.example/events' } });
  const most = ENTITY_BOUNDS.exports.org;
  const all = await Promise.all(Array.from({ length: most + 5 }, (_, n) => manage('POST', 'export/destinations', exported(`e${n}`))));
  t.equal(all.filter(({ status }) => status === 201).length, most, 'also when they come at once');
  const refused = all.find(({ status }) => status !== 201);
  t.equal(refused?.status, 409);
  t.match(refused?.body, { error: { code: 'limit_reached', message: /acme has as many as it may of: export destinations \(50\)/ } });
  t.equal((await other('POST', 'export/destinations', exported('of another'))).status, 201);
  const [first] = ((await manage('GET', 'export/destinations')).body as Items).data;
  t.equal((await manage('DELETE', `export/destinations/${String(first?.['id'])}`)).status, 200);
  t.equal((await manage('POST', 'export/destinations', exported('in its place'))).status, 201);
});
