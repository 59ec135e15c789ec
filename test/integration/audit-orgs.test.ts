// Of which org an entry of the audit trail is, and to whose destinations it goes: of every operation that changes
// something (decisions 9.6, 11.3).
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { AuditEntry } from '../../src/base/model/audit-entry.ts';
import { EXAMPLES } from '../../src/operations/management/examples.ts';
import { exampleArgs } from '../../src/operations/management/operation-example.ts';
import { planOf, requestOf, takenNames } from '../../src/operations/operation-request.ts';
import { OPERATIONS } from '../../src/operations/operation-table.ts';
import { exampleOrg } from '../support/example-org.ts';
import type { TestGateway } from '../support/gateway.ts';
import { bundleOf, CHAT, startGoverned } from '../support/governed.ts';
import { Inbox } from '../support/inbox.ts';
import { managedOf } from '../support/managed.ts';
import { listOf } from '../support/price-lists.ts';
import { tempDir } from '../support/temp-dir.ts';

const [ACME, GLOBEX, OPERATOR] = ['acme.example.com', 'globex.example.com', 'operator.example.com'];
const HOSTS = [ACME, GLOBEX, OPERATOR];
const RULES = `  targets:
    - {id: lock, when: {field: caller_id, equals: mallory}, effect: {decision: quarantine}}
    - {id: ask, when: {field: caller_id, equals: ben}, effect: {decision: require_approval}}
    - {id: all, effect: {decision: allow}}
`;

/** Of whom the entry is; undefined: it is the gateway's. */
type Owner = 'acme' | 'globex' | undefined;

/** What the admin API is asked, in this order. `{name}`: what the step before has made. */
const STEPS: readonly (readonly [id: string, owner: Owner, path: string, body?: unknown])[] = [
  ['workloads.put', 'acme', '/v1/admin/workloads', { workload_id: 'ci', org_id: 'acme' }],
  ['workloads.issue_token', 'acme', '/v1/admin/workloads/ci/token'],
  ['workloads.remove_token', 'acme', '/v1/admin/workloads/ci/token'],
  ['workloads.put', 'globex', '/v1/admin/workloads', { workload_id: 'theirs', org_id: 'globex' }],
  ['workloads.issue_token', 'globex', '/v1/admin/workloads/theirs/token'],
  ['workloads.remove', 'acme', '/v1/admin/workloads/ci'],
  ['workloads.put', undefined, '/v1/admin/workloads', { workload_id: 'for-all' }],
  ['workloads.issue_token', undefined, '/v1/admin/workloads/for-all/token'],
  ['workloads.remove_token', undefined, '/v1/admin/workloads/for-all/token'],
  ['workloads.remove', undefined, '/v1/admin/workloads/for-all'],
  ['api_keys.create', 'acme', '/v1/admin/api-keys', { name: 'k', org_id: 'acme' }],
  ['api_keys.revoke', 'acme', '/v1/admin/api-keys/{made}'],
  ['mgmt_keys.create', 'acme', '/v1/admin/mgmt-keys', { name: 'k', org_id: 'acme', kind: 'mcp', scopes: ['read'] }],
  ['mgmt_keys.revoke', 'acme', '/v1/admin/mgmt-keys/{made}'],
  ['quarantine.release', 'acme', '/v1/admin/quarantine/{held}/release'],
  ['stop', 'acme', '/v1/admin/stop', { scope: { org: 'acme', provider: 'openai' }, reason: 'leak', confirm: 'stop' }],
  ['resume', 'acme', '/v1/admin/resume', { scope: { org: 'acme', provider: 'openai' } }],
  ['approvals.approve', 'acme', '/v1/admin/approvals/{asked}/approve'],
  ['approvals.deny', 'acme', '/v1/admin/approvals/{asked}/deny'],
  ['org_plans.put', 'acme', '/v1/admin/org-plans/acme', { monthly_request_limit: 100000 }],
  ['org_plans.remove', 'acme', '/v1/admin/org-plans/acme'],
  ['addons.disable', 'acme', '/v1/orgs/acme/addons/provider-cohere/disable'],
  ['addons.enable', 'acme', '/v1/orgs/acme/addons/provider-cohere/enable'],
  ['org_plans.put', 'globex', '/v1/admin/org-plans/globex', { monthly_request_limit: 5 }],
  ['org_plans.remove', 'globex', '/v1/admin/org-plans/globex'],
  ['budgets.create', 'acme', '/v1/admin/budgets/limits', { org_id: 'acme', scope: 'org', limit_usd: '5' }],
  ['budgets.override', 'acme', '/v1/admin/budgets/limits/{made}/override', { limit_usd: '9', until: '2099-01-01T00:00:00Z' }],
  ['budgets.end_override', 'acme', '/v1/admin/budgets/limits/{made}/override'],
  ['budgets.remove', 'acme', '/v1/admin/budgets/limits/{made}'],
  ['credentials.put', 'acme', '/v1/admin/credentials', credential('c', 'acme')],
  ['credentials.assign', 'acme', '/v1/admin/credentials/c/nodes', { node_ids: ['n'] }],
  ['credentials.remove', 'acme', '/v1/admin/credentials/c'],
  ['credentials.put', undefined, '/v1/admin/credentials', credential('d', undefined)],
  ['credentials.reload', undefined, '/v1/admin/credentials/reload'],
  ['delegations.revoked.put', undefined, '/v1/admin/delegations/revoked', { delegation_id: 'd' }],
  ['delegations.revoked.remove', undefined, '/v1/admin/delegations/revoked/d'],
  ['policies.put', undefined, '/v1/admin/policies', { bundle_yaml: bundleOf(RULES) }],
  ['policies.reload', undefined, '/v1/admin/policies/reload'],
  ['ratelimit.configure', undefined, '/v1/admin/ratelimit/config', { refill_rate: 500, max_tokens: 500, window_duration: '1m' }],
  ['discovery.reset', undefined, '/v1/admin/discovery/domains'],
  ['prices.update', undefined, '/v1/admin/prices/update', { list: listOf({ 'gpt-4.1': { input_mtok: 0, output_mtok: 0 } }) }],
  ['prices.accept', undefined, '/v1/admin/prices/accept', { all: true }],
  ['ca.rotate', undefined, '/v1/admin/ca/rotate', { switch_at: '2026-01-01T00:00:00Z' }],
  ['ca.finish', undefined, '/v1/admin/ca/finish'],
];
/**
 * They need a gateway with an org, a delivery that has failed, a root that waits, a control plane, another node, a
 * button in a chat, a browser; below, or in the tests of those.
 */
const ELSEWHERE: readonly string[] = [
  ...['org.suspend', 'org.reactivate', 'dead_letters.resend', 'ca.cancel', 'policy_cache.clear', 'nodes.forget'],
  ...['chat_users.remove', 'sessions.revoke'],
];

/** Their entries name the thing and no value: what they change is a secret, or nothing was there to be changed. */
const WITHOUT_VALUES: readonly string[] = [
  ...['workloads.issue_token', 'workloads.remove_token', 'mgmt.workloads.token', 'mgmt.workloads.token.remove'],
  'discovery.reset',
];

/** Whether an entry says what somebody has changed: a member that a person set, as it was and as it is. */
function tellsWhat({ changes }: AuditEntry): boolean {
  return changes.some(
    ({ member, before_value: was, after_value: is }) =>
      !/(?:^|\.)(?:org_id|created_at|updated_at)$/.test(member) && (was ?? is) !== undefined,
  );
}

/** Of those that are told of here, in the order of the trail. */
function without(trail: readonly AuditEntry[]): readonly string[] {
  return [...new Set(trail.map(({ operation }) => operation).filter((id) => WITHOUT_VALUES.includes(id)))];
}

function credential(id: string, orgId: string | undefined): object {
  const named = { credential_id: id, connector_id: 'openai', mode: 'alias', distribution: 'node_scoped', secret_ref: 'sk-secret' };
  return orgId === undefined ? named : { ...named, org_id: orgId };
}

async function trailOf(gw: TestGateway, query = ''): Promise<readonly AuditEntry[]> {
  return ((await gw.admin('GET', `/v1/admin/audit?limit=500${query}`)).body as { items: AuditEntry[] }).items;
}

t.test('an entry of the admin API has the org of its object, and goes to the destinations of that org and of the operator', async (t) => {
  const asked = OPERATIONS.filter(({ annotations, scope, id }) => !annotations.readOnly && scope === 'admin' && !ELSEWHERE.includes(id));
  t.same([...new Set(STEPS.map(([id]) => id))].sort(), asked.map(({ id }) => id).sort(), 'the table has every one of them');
  const inbox = new Inbox(() => ({ status: 204 }));
  const dir = tempDir(t);
  writeFileSync(join(dir, 'f.yaml'), 'credential_id: f\nconnector_id: openai\nmode: alias\nsecret_ref: sk-file\n', { mode: 0o600 });
  const { gw, execute } = await startGoverned(t, {
    bundle: bundleOf(RULES),
    hosts: HOSTS,
    handler: inbox.handler(HOSTS, (_request, response) => response.writeHead(200).end('{}')),
    env: { GW_CREDENTIALS_DIR: dir, GW_EXPORT_WEBHOOK_URL: `https://${OPERATOR}/` },
  });
  const { keyOf, with: withKey } = await managedOf(gw);
  for (const [org, host] of [
    ['acme', ACME],
    ['globex', GLOBEX],
  ] as const) {
    const body = { name: org, kind: 'webhook', config: { url: `https://${host}/` }, event_types: ['audit'] };
    t.equal((await withKey((await keyOf(org)).key)('POST', 'export/destinations', body)).status, 201);
  }
  const before = (await trailOf(gw)).length;
  const call = async (caller_id: string, user: string) =>
    (await execute({ org_id: 'acme', caller_id }, { params: { ...CHAT, user } })).body['approval_id'];
  await call('mallory', 'x');
  const quarantine = (await gw.admin('GET', '/v1/admin/quarantine')).body as { items: { quarantine_id: string }[] };
  let made = '';
  for (const [at, [id, , path, body]] of STEPS.entries()) {
    const { method } = OPERATIONS.find((row) => row.id === id) ?? { method: 'GET' };
    const asking = path.includes('{asked}') ? String(await call('ben', `ask ${at}`)) : '';
    const full = path
      .replace('{made}', made)
      .replace('{asked}', asking)
      .replace('{held}', quarantine.items[0]?.quarantine_id ?? '');
    const { status, text } = await gw.admin(method, full, body);
    t.ok(status < 300, `${id}: ${status} ${text}`);
    made = /"(?:limit_)?id":"([0-9a-f-]{36})"/.exec(text)?.[1] ?? made;
  }
  const trail = (await trailOf(gw)).toReversed().slice(before);
  t.strictSame(
    trail.map(({ operation, org_id: org }) => [operation, org]),
    STEPS.map(([id, owner]) => [id, owner]),
  );
  t.strictSame(
    [...new Set(trail.filter((one) => !tellsWhat(one)).map(({ operation }) => operation))],
    without(trail),
    'each says what it changed',
  );
  const rates = trail
    .filter(({ operation }) => operation.startsWith('prices.'))
    .map(({ changes }) => changes.filter(({ entity }) => entity === 'price'));
  t.match(
    rates.at(-1),
    [
      { member: /gpt-4\.1 \w+/, after_value: '0' },
      { member: /gpt-4\.1 \w+/, after_value: '0' },
    ],
    'and which prices',
  );
  for (const owner of ['acme', 'globex'] as const) {
    const own = (await trailOf(gw, `&org_id=${owner}`)).map(({ operation }) => operation).toReversed();
    const expected = STEPS.filter(([, whose]) => whose === owner).map(([id]) => id);
    t.strictSame(own.slice(-expected.length), expected, `the list of ${owner}`);
  }
  const sentTo = (host: string | undefined) =>
    inbox.of(host ?? '').flatMap(({ body }) => (body['event_type'] === 'audit' ? [(body['payload'] as AuditEntry).audit_id] : []));
  const idsOf = (owner?: Owner) => trail.filter(({ org_id: org }) => owner === undefined || org === owner).map(({ audit_id: id }) => id);
  await inbox.until(
    () =>
      idsOf().every((id) => sentTo(OPERATOR).includes(id)) &&
      idsOf('acme').every((id) => sentTo(ACME).includes(id)) &&
      idsOf('globex').every((id) => sentTo(GLOBEX).includes(id)),
  );
  // What each of them got beside these is of the keys and destinations that were made before.
  const ofSteps = (host: string | undefined) => sentTo(host).filter((id) => idsOf().includes(id));
  t.strictSame(ofSteps(ACME).toSorted(), [...idsOf('acme')].toSorted(), 'acme gets what is its own');
  t.strictSame(ofSteps(GLOBEX).toSorted(), [...idsOf('globex')].toSorted(), 'globex gets what is its own');
  for (const { body } of [...inbox.of(ACME ?? ''), ...inbox.of(GLOBEX ?? '')])
    t.not(body['org_id'], '', 'nobody gets what is the gateway’s');
});

t.test('an entry of the management API has the org of its key, whatever it changes', async (t) => {
  const { gw, send, setUp } = await exampleOrg(t);
  const answers = new Map<string, unknown>();
  for (const { id, args = {} } of EXAMPLES) {
    const operation = OPERATIONS.find((one) => one.id === id);
    if (operation === undefined) throw new Error(id);
    const plan = planOf(
      operation,
      takenNames(operation),
      exampleArgs(args, (of) => answers.get(of)),
    );
    const { method, path, body } = requestOf(plan);
    const answer = await send('own', method, path, body);
    t.equal(answer.status, operation.output.status, `${id} ${path} ${JSON.stringify(answer.body)}`);
    answers.set(id, answer.body);
    if (id === 'mgmt.ratelimit.configure') await setUp();
  }
  const trail = (await trailOf(gw)).filter(({ principal }) => principal.kind === 'management_key');
  const writes = OPERATIONS.filter(({ id, annotations }) => id.startsWith('mgmt.') && !annotations.readOnly).map(({ id }) => id);
  // What is the same as in the admin API is called so.
  const isTold = (id: string) => trail.some(({ operation }) => operation === id || `mgmt.${operation}` === id);
  t.strictSame(
    writes.filter((id) => !isTold(id)),
    ['mgmt.exports.test'],
    'each has its entry, but the one that changes nothing',
  );
  t.strictSame(
    [...new Set(trail.filter((one) => !tellsWhat(one)).map(({ operation }) => operation))],
    without(trail),
    'each says what it changed',
  );
  t.strictSame(
    trail.filter(({ org_id: org }) => org !== 'acme').map(({ operation }) => operation),
    [],
  );
});

t.test('who suspends an org or lets it in again tells that org', async (t) => {
  const { gw } = await startGoverned(t, { env: { GW_ORG_ID: 'acme' } });
  await gw.admin('POST', '/v1/admin/org/suspend');
  await gw.admin('POST', '/v1/admin/org/reactivate');
  t.match(await trailOf(gw), [
    { operation: 'org.reactivate', org_id: 'acme' },
    { operation: 'org.suspend', org_id: 'acme' },
  ]);
});
