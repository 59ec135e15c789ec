// `gw policy explain --record` judges as the gateway does: by its own bundle, however it came there, with what the org
// has laid over it, and says where that has changed.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { ADMIN_TOKEN } from '../support/gateway.ts';
import { bundleOf, CHAT, type Governed, chat as proxied, startGoverned } from '../support/governed.ts';
import { managedAs } from '../support/managed.ts';
import { gw } from '../support/run-gw.ts';
import { tempDir } from '../support/temp-dir.ts';

const ALLOW = '  connectors:\n    - {id: openai, when: {field: context.connector.id, equals: openai}, effect: {decision: allow}}\n';
const DENY = (id: string, test: string) => `    - {id: ${id}, when: {field: ${test}}, effect: {decision: deny, reason_codes: [${id}]}}\n`;

async function called({ execute }: Governed, envelope: object = {}): Promise<string> {
  return String((await execute(envelope, { params: CHAT })).body['record_id']);
}

/** What the command says of a record, asked without any policy of its own. */
async function explained({ gw: gateway }: Governed, id: string, ...more: readonly string[]) {
  const env = { GW_ADMIN_TOKEN: ADMIN_TOKEN, GW_PORT: String(gateway.port), GW_POLICIES_DIR: '/nowhere' };
  const { code, out, err } = await gw(['policy', 'explain', '--record', id, ...more], { env });
  const json = await gw(['policy', 'explain', '--record', id, '--json', ...more], { env });
  return { code, out, err, json: (json.code === 0 ? JSON.parse(json.out) : {}) as Record<string, unknown> };
}

t.test(
  'it asks the gateway for the policy that judges the org of the record: a bundle that was put, and the overlay of the org',
  async (t) => {
    const governed = await startGoverned(t, { bundle: bundleOf(ALLOW), env: { GW_PLAN_TIER: 'pro' } });
    const { gw: gateway } = governed;
    await gateway.admin('PUT', '/v1/admin/policies', {
      bundle_yaml: bundleOf(`${ALLOW}  risk:\n${DENY('put', 'context.labels.team, equals: red')}`),
    });
    const { manage } = await managedAs(gateway, 'default');
    const overlay = bundleOf(`  targets:\n${DENY('ours', 'context.attribution.labels.team, equals: blue')}`);
    t.match(await manage('PUT', 'policies', { bundle_yaml: overlay }), { status: 200 });
    const cases = [
      ['red', 'put', 'risk/put (deny): matched  bundle_yaml:'],
      ['blue', 'ours', 'targets/ours@org (deny): matched  org overlay:'],
    ] as const;
    for (const [team, code, rule] of cases) {
      const { out, err, json } = await explained(governed, await called(governed, { attribution: { labels: { team } } }));
      t.equal(err, '');
      t.match(out, `deny [${code}]`);
      t.match(out, rule);
      t.notMatch(out, /the record says|not known/);
      t.match(json, { decided_by: { same: true, content_hash: /^[0-9a-f]{16}$/ }, not_known: [], recorded: undefined });
    }
    const texts = (await gateway.admin('GET', '/v1/admin/policies/texts')).body as { content_hash: string; org: unknown[] };
    t.same(texts.org, [], 'without an org what holds for all');
    t.match(await gateway.admin('GET', '/v1/admin/policies/texts?org=x'), { status: 400 });
    t.match(await gateway.admin('GET', '/v1/admin/policies/texts?org_id=default'), {
      body: { plan_tier: 'pro', bundle: { file: 'bundle_yaml' }, org: [{ file: 'org overlay', text: overlay }], node: [], generated: [] },
    });
  },
);

t.test('a policy that was changed since under the same name and version is told by its content', async (t) => {
  const governed = await startGoverned(t, { bundle: bundleOf(ALLOW) });
  const id = await called(governed);
  t.match(await explained(governed, id), { out: /^allow\nbundle test, version 7\n/, json: { decided_by: { same: true } } });
  await governed.gw.admin('PUT', '/v1/admin/policies', {
    bundle_yaml: bundleOf(`${ALLOW}  risk:\n    - {id: shut, effect: {decision: deny}}\n`),
  });
  const changed = await explained(governed, id);
  t.match(
    changed.out,
    /^deny \[policy_denied\].*\nthe record says allow: another policy decided then, bundle test, version 7, content [0-9a-f]{16}\n/,
  );
  t.match(changed.json, { decided_by: { bundle_id: 'test', version: '7', same: false }, recorded: { decision: 'allow' } });
  await governed.gw.admin('PUT', '/v1/admin/policies', {
    bundle_yaml: bundleOf(`${ALLOW}  risk:\n${DENY('other', 'context.caller_id, equals: x')}`),
  });
  t.match((await explained(governed, id)).out, /^allow\nthe record says the same, by another policy: bundle test, version 7, content/);
});

t.test('what a record does not hold is named, and so is what no record tells of: caps and buckets', async (t) => {
  const rules = `${ALLOW}  budgets:
    - {id: cap, effect: {budget: {usd_max: "9", monthly_usd_max: "90"}, rate_limit: {requests_per_minute: 60}}}
`;
  const governed = await startGoverned(t, { bundle: bundleOf(rules) });
  const dir = join(tempDir(t), 'policies');
  mkdirSync(dir);
  const ask = (text: string) => {
    writeFileSync(join(dir, 'bundle.yaml'), text);
    return (id: string) => explained(governed, id, '--policies', dir);
  };
  const id = await called(governed, { attribution: { project_id: 'p' } });
  const { json } = await explained(governed, id);
  t.match(json['not_known'], [
    /budget\.usd_max \(9 USD\)/,
    /budget\.monthly_usd_max \(90 USD\)/,
    'whether the bucket of budgets/cap was empty',
  ]);
  const reads = (field: string) => bundleOf(`${ALLOW}  risk:\n${DENY('no', `${field}, equals: x`)}`);
  for (const field of ['context.purpose', 'context.labels.team'])
    t.match((await ask(reads(field))(id)).json, { not_known: [field] }, `of a structured call: ${field}`);
  t.match((await ask(reads('context.delegation.token_id'))(id)).json, { not_known: [] }, 'a call without a delegation has none');
  const byUrl = await governed.recordOf(await governed.send(proxied([])));
  t.match((await ask(reads('context.purpose'))(String(byUrl['record_id']))).json, { not_known: [] }, 'by a base URL no call has a purpose');
  t.match((await ask(reads('context.labels.team'))(String(byUrl['record_id']))).json, { not_known: ['context.labels.team'] });
});
