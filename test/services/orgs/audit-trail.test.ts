// The audit trail: each change that a person makes is committed with the entry that says so, and an entry tells names
// and hashes, never a value.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { EventBus } from '../../../src/base/events/bus.ts';
import type { DurableEvent } from '../../../src/base/events/destination.ts';
import { canonicalJson } from '../../../src/base/json/jcs.ts';
import { newestFirst, uuidv7 } from '../../../src/base/lib/ids.ts';
import { silentLogger } from '../../../src/base/lib/log.ts';
import { sha256Hex } from '../../../src/base/lib/sha256.ts';
import type { AuditEntry } from '../../../src/base/model/audit-entry.ts';
import { OPERATIONS } from '../../../src/operations/operation-table.ts';
import { AuditTrail } from '../../../src/services/orgs/audit-trail.ts';
import { policyTold } from '../../../src/services/policy/audit-policy.ts';
import { changesOf } from '../../../src/services/registers/audit-changes.ts';
import { entityPage } from '../../../src/services/registers/entity-page.ts';
import { Outbox } from '../../../src/services/sending/outbox.ts';
import type { Effect, Store } from '../../../src/storage/contract/store.ts';
import { openEmbeddedStore } from '../../../src/storage/embedded/open-embedded-store.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { ADMIN_TOKEN, startTestGateway, type TestGateway } from '../../support/gateway.ts';
import { ALLOW_ALL, bundleOf } from '../../support/governed.ts';
import { listOf } from '../../support/price-lists.ts';
import { gw as runGw } from '../../support/run-gw.ts';
import { type HasTeardown, tempDir } from '../../support/temp-dir.ts';

const hashOf = (value: unknown): string => sha256Hex(canonicalJson(value));
const ADMIN = { principal: { kind: 'admin', id: 'admin' }, operation: 'things.put', from: '127.0.0.1' } as const;
const put = (key: string, value: unknown): Effect => ({ op: 'put', space: 'thing', key, value });

async function open(t: HasTeardown) {
  const clock = fakeClock();
  const store: Store = await openEmbeddedStore({ dir: tempDir(t), fsync: 'off', clock, log: silentLogger });
  t.teardown(() => store.close());
  const events = new EventBus(silentLogger);
  const told: AuditEntry[] = [];
  events.subscribe(['audit'], (entry) => void told.push(entry));
  let deliver: (batch: readonly DurableEvent[]) => void = () => undefined;
  const delivered = new Promise<readonly DurableEvent[]>((resolve) => {
    deliver = resolve;
  });
  const destination = { id: 'siem', deliver: (batch: readonly DurableEvent[]) => Promise.resolve(deliver(batch)) };
  const outbox = await Outbox.open({ store, clock, log: silentLogger, writer: 'node', destinations: [destination] });
  return { clock, store, told, outbox, delivered, trail: new AuditTrail({ store, clock, events, outbox }) };
}

t.test('keys of ids that sort by time list the newest first, and lead back to the ids', async (t) => {
  const ids = Array.from({ length: 50 }, (_, at) => uuidv7(1_700_000_000_000 + at * 1_000));
  const keys = ids.map(newestFirst);
  t.same([...keys].sort(), keys.toReversed());
  t.same(keys.map(newestFirst), ids);
});

t.test('what changed is told by the names of members and the hashes of their values', async (t) => {
  const before = { name: 'a', limits: { day: 1, month: 2 }, gone: true };
  const after = { name: 'b', limits: { day: 1, month: 3 }, list: [1] };
  t.same(changesOf('thing', before, after), [
    { entity: 'thing', member: 'gone', before: hashOf(true), after: null },
    { entity: 'thing', member: 'limits.month', before: hashOf(2), after: hashOf(3) },
    { entity: 'thing', member: 'list', before: null, after: hashOf([1]) },
    { entity: 'thing', member: 'name', before: hashOf('a'), after: hashOf('b') },
  ]);
  t.same(changesOf('thing', before, before), []);
  t.same(changesOf('thing', undefined, 'text'), [{ entity: 'thing', member: 'value', before: null, after: hashOf('text') }]);
});

t.test('what is no secret is shown, and what may be one is not, of whatever is changed', (t) => {
  for (const [entity, value, shown] of [
    ['budget_refused', { level: 'exceeded', periodStart: '2026-11-01' }, true],
    ['budget_alerted', { level: 'warning' }, true],
    ['rate_limit_workload', { requests_per_minute: 5 }, true],
    ['quarantine', { reason: 'too fast', caller_ip: '192.0.2.1' }, true],
    ['alert_history', { outcome: 'failed', channel_name: 'ops' }, true],
    ['alert_history', { detail: 'https://hooks.example/KEY' }, false],
    ['policy', { folder_hash: 'ab', put_at: '2026-11-01T00:00:00Z' }, true],
    ['policy', { bundle_yaml: 'rules' }, false],
    ['price_list', { list: { taken_by: 'admin', kept: 3 }, revision: 2 }, true],
    // The name of one that came from an address is made without user and password.
    ['price_list', { list: { name: 'https://prices.example/list.json' } }, true],
    ['price_list', { list: { text: 'rates' } }, false],
    ['cp_org', { status: 'active' }, true],
    ['cp_bundle', { bundle_yaml: 'rules', signature: 's' }, false],
    ['cp_credential', { value: { name: 'k' }, org_id: 'acme' }, true],
    ['cp_credential', { sealed: { text: 'x' } }, false],
    ['credential', { sealed: { text: 'x' } }, false],
    ['workload_token', 'hash', false],
  ] as const)
    for (const { member, after_value: told } of changesOf(entity, undefined, value))
      t.equal(told !== undefined, shown, `${entity} ${member}`);
  t.end();
});

// Holds: changes-are-audited
t.test('a change and its entry are there together or not at all', async (t) => {
  const { store, told, trail, outbox, delivered } = await open(t);
  await trail.commitFor(ADMIN)('one', [put('one', { org_id: 'acme', size: 1 })]);
  const page = await trail.page({}, { after: undefined, limit: 10 });
  t.match(page.items, [
    { operation: 'things.put', object: 'one', org_id: 'acme', from: '127.0.0.1', changes: [{ member: 'org_id' }, { member: 'size' }] },
  ]);
  t.same(told, page.items);
  const conflict = trail.commitFor(ADMIN)('one', [put('one', { size: 2 })], [{ space: 'thing', key: 'one', version: undefined }]);
  await t.rejects(conflict, { code: 'conflict' });
  t.equal((await trail.page({}, { after: undefined, limit: 10 })).items.length, 1, 'no entry');
  t.equal(told.length, 1);
  t.match(await store.get('thing', 'one'), { size: 1 });
  t.equal(outbox.waiting, 1, 'and one event for destinations');
  outbox.start();
  t.match(await delivered, [{ name: 'audit', event: page.items[0] }]);
  await outbox.close();
});

t.test('an entry has no more changes than fit into its bytes, and says how many it leaves out', async (t) => {
  const { trail } = await open(t);
  const told = Array.from({ length: 150 }, (_, at) => ({
    entity: 'policy_rule',
    rule: `targets/r${at}@base`,
    member: 'rule',
    before: null,
    after: hashOf(at),
    after_value: 'x'.repeat(200),
  }));
  await trail.commitFor(ADMIN)('one', [], [], [], () => told);
  const [entry] = (await trail.page({}, { after: undefined, limit: 1 })).items;
  t.ok(JSON.stringify(entry?.changes).length <= 32_768 + 150);
  t.equal((entry?.changes.length ?? 0) + (entry?.more_changes ?? 0), 150);
  t.ok((entry?.more_changes ?? 0) > 0);
  t.same((await trail.page({ object: 'r1' }, { after: undefined, limit: 5 })).items, [entry], 'a rule is found by its id');
  t.same((await trail.page({ object: 'r' }, { after: undefined, limit: 5 })).items, []);
});

t.test('what callers write, and what rules write into calls, is not shown of a rule', async (t) => {
  const content = (secret: string) => ({
    when: {
      all: [
        { field: 'context.action.params.model', equals: 'gpt-4o' },
        { field: 'action.params.metadata.token', in: [secret, 'b'] },
        { field: 'context.action.params.max_tokens', gt: 5 },
      ],
    },
    conditions: { 'action.params.user': secret, caller_id: 'ben', 'context.action.params.key': { starts_with: secret } },
    effect: {
      mutations: [
        { key: 'action.params.user', value: secret },
        { key: 'action.params.model', value: 'small' },
      ],
    },
  });
  const edit = { layer: 'targets', rule_id: 'x', level: 'org', before: content('secret-1'), after: content('secret-2') } as const;
  const header = { before: {}, after: {} };
  const changes = policyTold({ header, edits: [edit] })(true);
  t.strictSame(
    changes.map(({ member }) => member),
    ['conditions.action.params.user', 'conditions.context.action.params.key.starts_with', 'effect.mutations', 'when.all'],
  );
  const added = policyTold({ header, edits: [{ ...edit, before: undefined }] })(true);
  t.notMatch(JSON.stringify([changes, added]), /secret-/);
  t.match(changes[2]?.after_value, /"value":"small"/);
  t.match(changes[3]?.after_value, /gpt-4o.*\(not shown\).*"gt":5/);
  t.match(
    policyTold({ header, edits: [{ ...edit, level: 'base' }] })(true),
    [{ member: 'rule', before_value: '{}' }],
    'the bundle is the operator’s',
  );
});

t.test('an operation is found by its beginning, or by any word of it', async (t) => {
  const { trail } = await open(t);
  for (const id of ['mgmt.policies.rules.put', 'workloads.put'])
    await trail.commitFor({ ...ADMIN, operation: id })(id, [{ op: 'put', space: 'things', key: id, value: {} }]);
  const found = async (operation: string) =>
    (await trail.page({ operation }, { after: undefined, limit: 5 })).items.map((one) => one.operation);
  for (const word of ['mgmt.policies', 'policies', 'policy', 'policies.rules', 'rule'])
    t.strictSame(await found(word), ['mgmt.policies.rules.put'], word);
  t.strictSame(await found('workload'), ['workloads.put']);
  t.strictSame(await found('put'), ['workloads.put', 'mgmt.policies.rules.put']);
  t.strictSame(await found('pol'), []);
});

t.test('pages are of the newest first, go on behind what is gone, and pass over what is not asked for', async (t) => {
  const { clock, store, trail } = await open(t);
  const start = clock.now();
  for (let at = 0; at < 450; at += 1) {
    clock.advance(1_000);
    await trail.commitFor({ ...ADMIN, operation: at % 10 === 0 ? 'tenth' : 'other' })(`n${at}`, []);
  }
  const all: string[] = [];
  let after: string | undefined;
  do {
    const { items, next } = await trail.page({}, { after, limit: 100 });
    all.push(...items.map(({ object }) => object ?? ''));
    after = next;
    // Whatever comes in front, or goes at the seam, changes nothing behind it.
    await trail.commitFor(ADMIN)('later', []);
    if (next) await store.commit(undefined, [{ op: 'delete', space: 'audit', key: newestFirst(next) }]);
  } while (after !== undefined);
  t.same(
    all,
    Array.from({ length: 450 }, (_, at) => `n${449 - at}`),
  );
  const tenth = await trail.page({ operation: 'tenth', since: start + 260_000, until: start + 350_000 }, { after: undefined, limit: 5 });
  t.same(
    tenth.items.map(({ object }) => object),
    ['n340', 'n330', 'n320', 'n310', 'n300'],
  );
  t.not(tenth.next, undefined);
  t.same(await entityPage(store, 'nothing', { after: undefined, limit: 1 }, (value) => value), { items: [], next: undefined });
});

t.test('entries beyond their age are removed, and none that is younger', async (t) => {
  const { clock, trail } = await open(t);
  // Ids never go back, whatever clocks do.
  clock.advance(3_600_000);
  await trail.commitFor(ADMIN)('old', []);
  clock.advance(1_000);
  const from = clock.now();
  await trail.commitFor(ADMIN)('of that moment', []);
  clock.advance(1_000);
  await trail.commitFor(ADMIN)('young', []);
  t.equal(await trail.removeBefore(from), 1);
  t.same(
    (await trail.page({}, { after: undefined, limit: 5 })).items.map(({ object }) => object),
    ['young', 'of that moment'],
  );
});

const SECRET = 'sk-secret-of-the-provider';
/** What is asked, in order, by the id of its operation. `{made}`: the id of what the request before it made. */
const WRITES: Readonly<Record<string, readonly [path: string, body?: unknown]>> = {
  'workloads.put': ['/v1/admin/workloads', { workload_id: 'ci', name: 'CI' }],
  'workloads.issue_token': ['/v1/admin/workloads/ci/token'],
  'workloads.remove_token': ['/v1/admin/workloads/ci/token'],
  'workloads.remove': ['/v1/admin/workloads/ci'],
  'org.suspend': ['/v1/admin/org/suspend', { reason: 'unpaid' }],
  'org.reactivate': ['/v1/admin/org/reactivate'],
  'org_plans.put': ['/v1/admin/org-plans/acme', { monthly_request_limit: 5 }],
  'org_plans.remove': ['/v1/admin/org-plans/acme'],
  'api_keys.create': ['/v1/admin/api-keys', { name: 'k' }],
  'api_keys.revoke': ['/v1/admin/api-keys/{made}'],
  'mgmt_keys.create': ['/v1/admin/mgmt-keys', { name: 'k', kind: 'mcp', scopes: ['read'] }],
  'mgmt_keys.revoke': ['/v1/admin/mgmt-keys/{made}'],
  'quarantine.release': ['/v1/admin/quarantine/{held}/release'],
  stop: ['/v1/admin/stop', { scope: { org: 'acme', provider: 'openai' }, reason: 'leak', confirm: 'stop' }],
  resume: ['/v1/admin/resume', { scope: { org: 'acme', provider: 'openai' } }],
  'approvals.approve': ['/v1/admin/approvals/{asked}/approve'],
  'approvals.deny': ['/v1/admin/approvals/{asked}/deny'],
  'delegations.revoked.put': ['/v1/admin/delegations/revoked', { delegation_id: 'd' }],
  'delegations.revoked.remove': ['/v1/admin/delegations/revoked/d'],
  'policies.put': ['/v1/admin/policies', { bundle_yaml: ALLOW_ALL }],
  'policies.reload': ['/v1/admin/policies/reload'],
  'addons.enable': ['/v1/orgs/acme/addons/provider-openai/enable'],
  'addons.disable': ['/v1/orgs/acme/addons/provider-openai/disable'],
  'ratelimit.configure': ['/v1/admin/ratelimit/config', { refill_rate: 5, max_tokens: 5, window_duration: '1m' }],
  'discovery.reset': ['/v1/admin/discovery/domains'],
  'budgets.create': ['/v1/admin/budgets/limits', { scope: 'org', limit_usd: '5' }],
  'budgets.override': ['/v1/admin/budgets/limits/{made}/override', { limit_usd: '9', until: '2099-01-01T00:00:00Z' }],
  'budgets.end_override': ['/v1/admin/budgets/limits/{made}/override'],
  'budgets.remove': ['/v1/admin/budgets/limits/{made}'],
  'credentials.put': [
    '/v1/admin/credentials',
    { credential_id: 'c', connector_id: 'openai', mode: 'alias', distribution: 'node_scoped', secret_ref: SECRET },
  ],
  'credentials.assign': ['/v1/admin/credentials/c/nodes', { node_ids: ['n'] }],
  'credentials.remove': ['/v1/admin/credentials/c'],
  'credentials.reload': ['/v1/admin/credentials/reload'],
  'prices.update': ['/v1/admin/prices/update', { list: listOf({ 'gpt-4.1': { input_mtok: 0, output_mtok: 0 } }) }],
  'prices.accept': ['/v1/admin/prices/accept', { all: true }],
  'ca.rotate': ['/v1/admin/ca/rotate', { switch_at: '2026-01-01T00:00:00Z' }],
  'ca.finish': ['/v1/admin/ca/finish'],
};

/**
 * Change something only after what does not stand in the table: a delivery that has failed
 * (`test/integration/exports.test.ts`), a root that waits (`root-rotation-api.test.ts`), a bundle of a control plane
 * (`control-plane-policy.test.ts`), a button in a chat (`chat-buttons.test.ts`), another node (`nodes.test.ts`).
 */
const ELSEWHERE: readonly string[] = [
  ...['dead_letters.resend', 'ca.cancel', 'policy_cache.clear', 'chat_users.remove', 'nodes.forget', 'sessions.revoke'],
];

const QUARANTINE_ALL = bundleOf(`  targets:
    - {id: lock, when: {field: caller_id, exists: false}, effect: {decision: quarantine}}
    - {id: ask, when: {field: caller_id, exists: true}, effect: {decision: require_approval}}
`);

/** Has somebody put into quarantine. @returns the id of the entry */
async function heldBy(gw: TestGateway): Promise<string> {
  await fetch(`${gw.url}/proxy/openai/v1/models`);
  return ((await gw.admin('GET', '/v1/admin/quarantine')).body as { items: { quarantine_id: string }[] }).items[0]?.quarantine_id ?? '';
}

/** Has somebody ask for an approval, where the path is that of one. @returns its id */
async function askedBy(gw: TestGateway, path: string): Promise<string> {
  if (!path.includes('{asked}')) return '';
  const envelope = {
    schema: 'gw.action_request.v2',
    org_id: 'acme',
    workload_id: 'default',
    caller_id: 'alice',
    credential_hint: 'sk-caller',
  };
  const params = { model: 'gpt-4o-mini', messages: [], user: path };
  const action = { type: 'ai.infer', method: 'POST', target_host: 'api.openai.com', params };
  const headers = { 'content-type': 'application/json' };
  const answer = await fetch(`${gw.url}/v1/actions:execute`, { method: 'POST', headers, body: JSON.stringify({ ...envelope, action }) });
  return String(((await answer.json()) as { approval_id?: string }).approval_id);
}

// Holds: changes-are-audited
t.test('every operation of the admin API that changes something leaves one entry, and none that fails or only reads', async (t) => {
  const dir = tempDir(t);
  const gw = await startTestGateway(t, { bundle: QUARANTINE_ALL, env: { GW_ORG_ID: 'acme', GW_CREDENTIALS_DIR: dir } });
  const held = await heldBy(gw);
  writeFileSync(join(dir, 'c.yaml'), `credential_id: f\nconnector_id: openai\nmode: alias\nsecret_ref: ${SECRET}\n`, { mode: 0o600 });
  const asked = OPERATIONS.filter(
    ({ annotations, scope, id }) => !annotations.readOnly && scope === 'admin' && !ELSEWHERE.includes(id),
  ).map(({ id }) => id);
  t.same(asked.toSorted(), Object.keys(WRITES).toSorted(), 'this table has every one of them');
  const entries = async (): Promise<readonly AuditEntry[]> =>
    ((await gw.admin('GET', '/v1/admin/audit?limit=500')).body as { items: AuditEntry[] }).items;
  let made = '';
  let count = 0;
  for (const [id, [path, body]] of Object.entries(WRITES)) {
    const { method } = OPERATIONS.find((row) => row.id === id) ?? { method: 'GET' };
    const { status, text } = await gw.admin(
      method,
      path
        .replace('{made}', made)
        .replace('{held}', held)
        .replace('{asked}', await askedBy(gw, path)),
      body,
    );
    t.ok(status < 300, `${id}: ${status} ${text}`);
    made = /"(?:limit_)?id":"([0-9a-f-]{36})"/.exec(text)?.[1] ?? made;
    const [newest, ...others] = await entries();
    t.match(newest, { operation: id, principal: { kind: 'admin', id: 'admin' }, from: '127.0.0.1' });
    t.equal(others.length, count, id);
    count += 1;
  }
  for (const path of ['/v1/admin/workloads/none', '/v1/admin/api-keys/none']) {
    t.equal((await gw.admin('DELETE', path)).status, 404);
  }
  await gw.admin('GET', '/v1/admin/workloads');
  const trail = await entries();
  t.equal(trail.length, count);
  const ofWorkload = trail.find(({ operation }) => operation === 'workloads.put');
  t.match(ofWorkload, { object: 'ci', changes: [{ entity: 'workload', member: 'name', before: null, after: hashOf('CI') }, {}] });
  t.match(
    trail.find(({ operation }) => operation === 'credentials.put'),
    { object: 'c', changes: [{ member: 'credential.connector_id' }] },
  );
  t.notOk(JSON.stringify(trail).includes(SECRET));
  t.notOk(JSON.stringify(trail).includes(hashOf(SECRET)), 'nor anything by which a secret could be guessed');
  const cli = await runGw(['audit', '--operation', 'budgets.remove', '--url', `http://127.0.0.1:${gw.port}`], {
    env: { GW_ADMIN_TOKEN: ADMIN_TOKEN },
  });
  t.match(cli, { code: 0, out: /budgets\.remove {2}[0-9a-f-]{36}\n {2}org\n {2}by admin from 127\.0\.0\.1\n {2}- actions: \["alert"\]\n/ });
  t.match((await gw.admin('GET', '/metrics')).text, /gw_changes_total\{operation="workloads\.put"\} 1/);
});
