// What a change of policy does is told before anything is lost, on every face; single rules can be put and deleted
// (decisions 5.10, 5.11).
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import t, { type Test } from 'tap';
import { ADMIN_TOKEN } from '../support/gateway.ts';
import { bundleOf, type Governed, startGoverned } from '../support/governed.ts';
import { type Answer, codeIn, type Manage, managedOf } from '../support/managed.ts';
import { gw } from '../support/run-gw.ts';
import { tempDir } from '../support/temp-dir.ts';

type Json = Readonly<Record<string, unknown>>;

const BASE = bundleOf('  identity: [{id: all, effect: {decision: allow}}]\n');
/** An org's own rules: two refusals, one of them in a layer that has no allow. */
const OVERLAY = `# rules of acme; ask olga before you change them
schema: gw.policy_bundle.v1
inline_rules:
  targets:
    # expensive, see the review of May
    - id: no.gpt4
      when: {field: context.action.params.model, equals: gpt-4}
      effect: {decision: deny, reason_codes: [too_dear]}
  risk:
    - id: no.uploads # legal
      when: {field: context.action.type, equals: ai.files}
      effect: {decision: deny}
`;
const ALLOW_4O = {
  when: {
    all: [
      { field: 'context.attribution.project_id', equals: 'x' },
      { field: 'context.action.params.model', equals: 'gpt-4o' },
    ],
  },
  effect: { decision: 'allow' },
};
/** What an assistant writes who is asked to "allow gpt-4o for project x". */
const WHOLE = `schema: gw.policy_bundle.v1
inline_rules:
  targets:
    - id: allow.gpt4o.x
      when: {all: [{field: context.attribution.project_id, equals: x}, {field: context.action.params.model, equals: gpt-4o}]}
      effect: {decision: allow}
`;

interface Scene extends Governed {
  readonly manage: Manage;
  readonly reader: Manage;
  readonly other: Manage;
  /** Calls a tool by an official client. */
  tool(name: string, args?: Json): Promise<{ readonly isError: boolean; readonly text: string; readonly answer: Json }>;
  asked(model: string, more?: object): Promise<string>;
  overlay(): Promise<string | undefined>;
}

async function scene(t: Test, overlay = OVERLAY, env: Readonly<Record<string, string>> = {}): Promise<Scene> {
  const governed = await startGoverned(t, { bundle: BASE, env });
  const { manage, keyOf, with: withKey } = await managedOf(governed.gw);
  if (overlay !== '') t.equal((await manage('PUT', 'policies', { bundle_yaml: overlay })).status, 200);
  const { key } = await keyOf('acme', ['read', 'write'], 'mcp');
  const client = new Client({ name: 'assistant', version: '1' });
  const transport = new StreamableHTTPClientTransport(new URL(`${governed.gw.url}/mcp`), {
    requestInit: { headers: { authorization: `Bearer ${key}` } },
  });
  await client.connect(transport);
  await client.listTools();
  t.teardown(() => client.close());
  return {
    ...governed,
    manage,
    reader: withKey((await keyOf('acme', ['read'])).key),
    other: withKey((await keyOf('other')).key),
    tool: async (name, args = {}) => {
      const { content, isError } = (await client.callTool({ name, arguments: args })) as { content: { text: string }[]; isError?: boolean };
      const text = content[0]?.text ?? '';
      return { isError: isError === true, text, answer: JSON.parse(text) as Json };
    },
    asked: async (model, more = {}) => {
      const { status, body } = await governed.execute({ org_id: 'acme', ...more }, { params: { model, messages: [] } });
      return status === 200 ? 'allow' : String((body['reason_codes'] as string[] | undefined)?.[0] ?? status);
    },
    overlay: async () => overlayIn(await manage('GET', 'policies')),
  };
}

function overlayIn({ body }: Answer): string | undefined {
  const { data } = body as { data: readonly { level: string; bundle_yaml?: string }[] };
  return data.find(({ level }) => level === 'org')?.bundle_yaml;
}

const change = ({ body }: Answer) => (body as { change: Json }).change;

t.test('an assistant that is asked to allow gpt-4o for a project is told before anything is lost', async (t) => {
  const one = await scene(t);
  const whole = await one.tool('update_policy', { bundle_yaml: WHOLE });
  t.ok(whole.isError);
  t.match(whole.answer, {
    error: {
      code: 'confirmation_needed',
      message:
        /Nothing was changed\. It would lose 2 rules: targets\/no\.gpt4@org, risk\/no\.uploads@org\. The layer targets turns into an allow-list/,
      details: [
        { path: 'lost', rule_id: 'no.gpt4', file: 'org overlay', line: 6 },
        { path: 'lost', rule_id: 'no.uploads' },
        { path: 'new_allow_lists', message: /every call that targets\/allow\.gpt4o\.x does not match is denied \(target_not_allowed\)/ },
      ],
    },
  });
  t.match(whole.text, 'put that rule alone', 'it says how to do it right');
  t.equal(await one.overlay(), OVERLAY, 'nothing has changed');
  t.equal(await one.asked('gpt-4o-mini'), 'allow');

  const rule = await one.tool('put_policy_rule', { rule_id: 'allow.gpt4o.x', layer: 'targets', rule: JSON.stringify(ALLOW_4O) });
  t.ok(rule.isError, 'alone it still turns the layer into an allow-list');
  t.match(rule.answer, { error: { code: 'confirmation_needed', details: [{ path: 'new_allow_lists' }] } });
  t.equal(rule.text.includes('lost'), false);

  const before = { before: 'no.gpt4' };
  const budgets = await one.tool('put_policy_rule', { rule_id: 'allow.gpt4o.x', layer: 'budgets', rule: JSON.stringify(ALLOW_4O) });
  t.notOk(budgets.isError, 'in a layer that does not gate it is put');
  t.match(budgets.answer, {
    layer: 'budgets',
    change: { dry_run: false, added: ['budgets/allow.gpt4o.x@org'], lost: [], new_allow_lists: [] },
  });
  t.equal(await one.asked('gpt-4'), 'too_dear', 'the rules of before hold');
  t.equal(await one.asked('gpt-4o-mini'), 'allow');
  t.notOk(
    (
      await one.tool('put_policy_rule', {
        rule_id: 'also',
        layer: 'targets',
        ...before,
        rule: '{effect: {decision: allow}}',
        confirm: true,
      })
    ).isError,
  );
});

t.test('a dry run says everything and writes nothing, on each face', async (t) => {
  const one = await scene(t);
  t.equal(await one.asked('gpt-4o-mini'), 'allow');
  t.equal(await one.asked('gpt-4'), 'too_dear');
  const audits = async () => ((await one.gw.admin('GET', '/v1/admin/audit?limit=50')).body as { items: unknown[] }).items.length;
  const noted = await audits();
  const dry = await one.manage('PUT', 'policies', { bundle_yaml: WHOLE, dry_run: true });
  t.equal(dry.status, 200);
  const expected = {
    dry_run: true,
    counts: { added: 1, changed: 0, lost: 2 },
    added: ['targets/allow.gpt4o.x@org'],
    changed: [],
    lost: [
      { rule: 'targets/no.gpt4@org', because: 'left_out' },
      { rule: 'risk/no.uploads@org', because: 'left_out' },
    ],
    new_allow_lists: [{ layer: 'targets', allowed_by: ['targets/allow.gpt4o.x'], reason_code: 'target_not_allowed' }],
    denies_all: false,
    check: { errors: [], warnings: [] },
    records: {
      replayed: 2,
      changed: 2,
      groups: [
        { change: 'allow -> deny', records: 1 },
        { change: 'deny, other reason codes', records: 1 },
      ],
    },
  };
  t.match(change(dry), expected);
  t.match(await one.tool('update_policy', { bundle_yaml: WHOLE, dry_run: true }), { isError: false, answer: { change: expected } });
  t.equal(overlayIn(dry), OVERLAY, 'the answer shows what is in force');
  t.equal(await one.overlay(), OVERLAY);
  t.equal(await audits(), noted, 'no entry in the audit trail');
  t.equal(await one.asked('gpt-4'), 'too_dear');
  t.equal(codeIn(await one.reader('PUT', 'policies', { bundle_yaml: WHOLE, dry_run: true })), 'insufficient_scope');
  const merged = await one.manage('PUT', 'policies', { bundle_yaml: WHOLE, merge: true, dry_run: true });
  t.match(change(merged), { counts: { added: 1, changed: 0, lost: 0 }, new_allow_lists: [{ layer: 'targets' }] });
  const rule = await one.manage('PUT', 'policies/rules/allow.gpt4o.x', { layer: 'budgets', rule: ALLOW_4O, dry_run: true });
  t.match(change(rule), { dry_run: true, added: ['budgets/allow.gpt4o.x@org'], records: { changed: 0 } });
  const gone = await one.manage('DELETE', 'policies/rules/no.gpt4?dry_run=true');
  t.match(change(gone), { dry_run: true, lost: [{ rule: 'targets/no.gpt4@org' }], records: { changed: 2 } });
  t.equal(await one.overlay(), OVERLAY);
});

t.test('a program that puts a whole overlay is obeyed, and told what it has done', async (t) => {
  const one = await scene(t);
  const put = await one.manage('PUT', 'policies', { bundle_yaml: WHOLE });
  t.equal(put.status, 200);
  t.match(change(put), { dry_run: false, counts: { added: 1, lost: 2 }, new_allow_lists: [{ layer: 'targets' }] });
  t.notOk('check' in change(put), 'shortly');
  t.equal(codeIn(await one.manage('PUT', 'policies', { bundle_yaml: '', confirm: false })), 'confirmation_needed');
  t.match(change(await one.manage('PUT', 'policies', { bundle_yaml: '' })), {
    lost: [{ rule: 'targets/allow.gpt4o.x@org' }],
    no_longer_allow_lists: ['targets'],
  });
});

t.test('one rule is put, changed and deleted; comments and the order of all others stay', async (t) => {
  const one = await scene(t);
  const put = await one.manage('PUT', 'policies/rules/first', {
    layer: 'targets',
    before: 'no.gpt4',
    rule: 'effect: {decision: deny}\nconditions: {context.purpose: "no"}\n',
  });
  t.match(put, {
    status: 200,
    body: { rule_id: 'first', layer: 'targets', level: 'org', rule: /id: first/, change: { counts: { added: 1, changed: 0, lost: 0 } } },
  });
  const text = String(await one.overlay());
  for (const comment of ['# rules of acme; ask olga before you change them', '# expensive, see the review of May', '# legal'])
    t.match(text, comment);
  t.ok(text.indexOf('id: first') < text.indexOf('id: no.gpt4'));
  const changed = await one.manage('PUT', 'policies/rules/no.gpt4', {
    rule: '{id: no.gpt4, when: {field: context.action.params.model, starts_with: gpt-4}, effect: {decision: deny, reason_codes: [dear]}}',
  });
  t.match(changed, {
    status: 200,
    body: { layer: 'targets', change: { changed: ['targets/no.gpt4@org'], counts: { added: 0, lost: 0 } } },
  });
  t.equal(await one.asked('gpt-4o'), 'dear');
  t.match(String(await one.overlay()), /# expensive, see the review of May\n +- \{id: no\.gpt4/, 'the comment stays at its rule');
  const listed = await one.reader('GET', 'policies/rules');
  t.match(listed.body, {
    data: [
      { rule_id: 'all', layer: 'identity', level: 'base', from: 'bundle', in_force: true, decision: 'allow' },
      { rule_id: 'first', layer: 'targets', level: 'org', from: 'overlay', rule: /purpose/ },
      { rule_id: 'no.gpt4', layer: 'targets' },
      { rule_id: 'no.uploads', layer: 'risk' },
    ],
    has_more: false,
  });
  t.match((await one.reader('GET', 'policies/rules?limit=1&layer=targets')).body, { data: [{ rule_id: 'first' }], has_more: true });
  t.same((await one.other('GET', 'policies/rules')).body, {
    ...((await one.other('GET', 'policies/rules')).body as object),
    next_cursor: null,
  });
  t.equal(((await one.other('GET', 'policies/rules')).body as { data: unknown[] }).data.length, 1, 'another org sees the bundle alone');
  t.match(await one.reader('GET', 'policies/rules/no.uploads'), { status: 200, body: { layer: 'risk', rule: /# legal/ } });
  t.equal((await one.reader('GET', 'policies/rules/none')).status, 404);
  for (const id of ['first', 'no.gpt4']) t.equal((await one.manage('DELETE', `policies/rules/${id}`)).status, 200, id);
  t.match(String(await one.overlay()), 'no.uploads');
  t.notMatch(
    String(await one.overlay()),
    'targets:',
    'a layer without rules is not left behind: written down as empty it would deny everything',
  );
  t.equal(await one.asked('gpt-4'), 'allow');
  t.equal((await one.manage('DELETE', 'policies/rules/no.uploads')).status, 200);
  t.equal(await one.overlay(), undefined, 'nothing is left of the overlay');
  t.match(await one.manage('DELETE', 'policies/rules/all'), {
    status: 404,
    body: { error: { message: /stands in the bundle: put a rule of that id with disabled: true in the layer identity/ } },
  });
  const { items } = (await one.gw.admin('GET', '/v1/admin/audit?limit=50')).body as { items: readonly Json[] };
  t.match(
    items.find(({ operation }) => operation === 'mgmt.policies.rules.put'),
    { object: 'targets/no.gpt4' },
  );
  const ofPut = items.find(({ operation }) => operation === 'mgmt.policies.rules.put');
  t.strictSame(
    (ofPut?.['changes'] as readonly Json[] | undefined)?.map(({ entity, member }) => `${String(entity)} ${String(member)}`),
    [
      ...['effect.reason_codes', 'when.equals', 'when.starts_with'].map((member) => `policy_rule ${member}`),
      ...['policy_overlay bundle_yaml', 'policy_overlay put_at'],
    ],
  );
  t.match(
    items.find(({ operation }) => operation === 'mgmt.policies.rules.remove'),
    { object: 'risk/no.uploads' },
  );
});

t.test(
  'the audit trail tells which rules a change adds, changes and takes away, on every face, and no secret that a rule writes',
  async (t) => {
    const one = await scene(t);
    const changed = OVERLAY.replace('decision: deny, reason_codes: [too_dear]', 'decision: allow')
      .replace(/ {2}risk:[\s\S]*/, '')
      .concat('  transforms: [{id: tag, effect: {mutations: [{key: action.headers.x-team, value: planted-secret}]}}]\n');
    t.equal((await one.manage('PUT', 'policies', { bundle_yaml: changed, confirm: true })).status, 200);
    const newest = async (ask: () => Promise<unknown>, list: 'items' | 'data'): Promise<Json> =>
      ((await ask()) as Record<string, readonly Json[]>)[list]?.[0] ?? {};
    const told = await newest(async () => (await one.gw.admin('GET', '/v1/admin/audit?object=no.uploads&limit=1')).body, 'items');
    t.match(told, { operation: 'mgmt.policies.put', principal: { name: 'key of acme' }, org_id: 'acme' });
    const rules = (told['changes'] as readonly Json[]).filter(({ entity }) => entity === 'policy_rule');
    t.match(rules, [
      {
        rule: 'risk/no.uploads@org',
        member: 'rule',
        after: null,
        before_value: '{"effect":{"decision":"deny"},"when":{"equals":"ai.files","field":"context.action.type"}}',
      },
      { rule: 'targets/no.gpt4@org', member: 'effect.decision', before_value: 'deny', after_value: 'allow' },
      { rule: 'targets/no.gpt4@org', member: 'effect.reason_codes', before_value: '["too_dear"]', after: null },
      {
        rule: 'transforms/tag@org',
        member: 'rule',
        before: null,
        after_value: '{"effect":{"mutations":[{"key":"action.headers.x-team","value":"(not shown)"}]}}',
      },
    ]);
    t.equal(rules.length, 4);
    t.notMatch(JSON.stringify(told), 'planted-secret');
    t.same(
      await newest(async () => (await one.reader('GET', 'audit?object=targets/no.gpt4&limit=1')).body, 'data'),
      told,
      'the management API',
    );
    t.same(await newest(async () => (await one.tool('list_audit', { object: 'no.gpt4', limit: 1 })).answer, 'data'), told, 'the tool');
    t.equal((await one.manage('PUT', 'policies/rules/no.gpt4', { layer: 'targets', rule: '{effect: {decision: deny}}' })).status, 200);
    t.equal((await one.manage('PUT', 'policies/rules/no.gpt4', { layer: 'targets', rule: '{effect: {decision: allow}}' })).status, 200);
    t.equal((await one.manage('DELETE', 'policies/rules/no.gpt4')).status, 200);
    const env = { GW_PORT: String(one.gw.port), GW_ADMIN_TOKEN: ADMIN_TOKEN };
    const { out } = await gw(['audit', 'list', '--operation', 'rules', '--limit', '2'], { env, columns: 80 });
    t.match(
      out,
      /^\S+ {2}mgmt\.policies\.rules\.remove {2}targets\/no\.gpt4\n {2}key of acme removed rule targets\/no\.gpt4 of acme\n {2}- \{"effect":\{"decision":"allow"\}\}\n {2}from 127\.0\.0\.1 by management key /,
    );
    t.match(out, /\n {2}key of acme changed rule targets\/no\.gpt4 of acme: effect\.decision deny → allow\n {2}from /);
    for (const line of out.split('\n')) t.ok(line.length <= 80, line);
    const more = await gw(['audit', 'list', '--object', 'no.uploads', '--limit', '1'], { env });
    t.match(
      more.out,
      /\n {2}by key of acme .*\n {2}- rule risk\/no\.uploads: .*"deny".*\n {4}rule targets\/no\.gpt4: effect\.decision deny → allow\n {4}rule .*\n {2}\+ rule transforms\/tag: /,
    );
  },
);

t.test('a bundle that is put, reloaded or followed is told with its versions and rules; an org is told of them in short', async (t) => {
  const policies = tempDir(t);
  const text = (version: string, model: string) =>
    bundleOf(
      `  identity: [{id: all, effect: {decision: allow}}]\n  targets: [{id: no, when: {field: context.action.params.model, equals: ${model}}, effect: {decision: deny}}]\n`,
    ).replace(/version: .*/, `version: "${version}"`);
  const write = (version: string, model: string) => writeFileSync(join(policies, 'bundle.yaml'), text(version, model));
  write('1', 'a');
  const { gw: gateway } = await startGoverned(t, { env: { GW_POLICIES_DIR: policies } });
  const { manage } = await managedOf(gateway);
  const newest = async () => ((await gateway.admin('GET', '/v1/admin/audit?limit=1')).body as { items: readonly Json[] }).items[0] ?? {};
  const names = (was: string, is: string) => [
    { entity: 'policy', member: 'bundle_id', before_value: 'test', after_value: 'test' },
    { entity: 'policy', member: 'version', before_value: was, after_value: is },
  ];
  const rule = { entity: 'policy_rule', rule: 'targets/no@base' };
  write('2', 'b');
  t.equal((await gateway.admin('POST', '/v1/admin/policies/reload')).status, 200);
  const reloaded = await newest();
  t.match(reloaded, { operation: 'policies.reload', changes: names('1', '2') });
  t.match(
    (reloaded['changes'] as readonly Json[]).find((one) => one['rule']),
    { ...rule, member: 'when.equals', before_value: 'a', after_value: 'b' },
  );
  t.equal((await gateway.admin('PUT', '/v1/admin/policies', { bundle_yaml: text('3', 'c') })).status, 200);
  t.match(await newest(), {
    operation: 'policies.put',
    changes: [...names('2', '3'), {}, { member: 'source', before_value: 'file', after_value: 'api' }],
  });
  t.equal((await gateway.admin('POST', '/v1/admin/policies/reload')).status, 200);
  t.match(await newest(), { operation: 'policies.reload', changes: names('3', '2') }, 'back to what the folder has');
  write('4', 'd');
  t.equal((await manage('POST', 'policies/reload')).status, 200);
  const short = await newest();
  t.match(short, { operation: 'mgmt.policies.reload', org_id: 'acme', changes: names('2', '4') });
  const told = (short['changes'] as readonly Json[]).filter((one) => one['rule'] !== undefined);
  t.match(told, [
    { ...rule, member: 'rule', before_value: '{"effect":{"decision":"deny"}}', after_value: '{"effect":{"decision":"deny"}}' },
  ]);
  t.equal(told.length, 1, 'what the bundle says is the operator’s');
});

t.test('what cannot be put says why, and changes nothing', async (t) => {
  const one = await scene(t);
  const cases: readonly (readonly [path: string, body: Json, status: number, said: RegExp])[] = [
    ['new', { rule: '{effect: {decision: deny}}' }, 400, /layer.*is needed of a new rule: one of identity/s],
    ['new', { layer: 'target', rule: '{effect: {decision: deny}}' }, 400, /unknown layer.*did you mean \\"targets\\"/s],
    ['new', { layer: 'targets', rule: '{effect: {decision: perhaps}}' }, 400, /unknown_decision/],
    ['new', { layer: 'targets', rule: '{' }, 400, /no sound YAML/],
    ['new', { layer: 'targets', rule: '- a' }, 400, /must be one map/],
    ['new', { layer: 'targets', rule: '{id: other, effect: {decision: deny}}' }, 400, /has the id other, and is put as new/],
    ['new', { layer: 'targets', rule: '{effect: {decision: deny}}', before: 'none' }, 400, /no rule \\"none\\" here/],
    ['new', { layer: 'targets', rule: '{effect: {decision: deny}}', before: 'a', after: 'b' }, 400, /one of the two/],
    ['new', { layer: 'targets', rule: '{effect: {decision: deny}}', node_id: 'x' }, 400, /belongs to the level node/],
    ['new', { layer: 'targets', rule: '{effect: {decision: deny}}', if_match: '"x"' }, 412, /read it again/],
    ['new', { layer: 'targets', rule: 7 }, 400, /as YAML or JSON/],
    ['new', { layer: 'targets' }, 400, /as YAML or JSON/],
  ];
  for (const [id, body, status, said] of cases) {
    const answer = await one.manage('PUT', `policies/rules/${id}`, body);
    t.equal(answer.status, status, JSON.stringify(body));
    t.match(JSON.stringify(answer.body), said);
  }
  t.equal(await one.overlay(), OVERLAY);
  const long = `schema: gw.policy_bundle.v1\n${'#'.repeat(140_000)}\ninline_rules: {risk: [{id: a, effect: {decision: deny}, when: {field: context.purpose, equals: q}}]}\n`;
  t.equal((await one.manage('PUT', 'policies', { bundle_yaml: long })).status, 200);
  t.match(await one.manage('PUT', 'policies/rules/b', { layer: 'risk', rule: '{effect: {decision: deny}}' }), {
    status: 400,
    body: { error: { message: /at most 131072 are changed/ } },
  });
  const anchored =
    'schema: gw.policy_bundle.v1\ninline_rules: {risk: [{id: a, when: &w {field: context.purpose, equals: q}, effect: {decision: deny}}, {id: b, when: *w, effect: {decision: deny}}]}\n';
  t.equal((await one.manage('PUT', 'policies', { bundle_yaml: anchored })).status, 200);
  t.match(await one.manage('DELETE', 'policies/rules/a'), { status: 400, body: { error: { message: /needs what would be taken away/ } } });
});

t.test('two writers do not lose the rules of each other', async (t) => {
  const one = await scene(t);
  const { answer } = await one.tool('get_policy');
  const tag = answer['etag'];
  t.equal((await one.manage('GET', 'policies')).headers.get('etag'), tag);
  t.equal((await one.manage('GET', 'policies/rules')).headers.get('etag'), tag);
  const rule = { layer: 'risk', rule: '{when: {field: context.purpose, equals: q}, effect: {decision: deny}}' };
  const both = await Promise.all(['a', 'b', 'c', 'd'].map((id) => one.manage('PUT', `policies/rules/${id}`, rule)));
  t.same(
    both.map(({ status }) => status),
    [200, 200, 200, 200],
  );
  const text = String(await one.overlay());
  for (const id of ['a', 'b', 'c', 'd', 'no.gpt4', 'no.uploads']) t.match(text, `id: ${id}`);
  t.match(await one.tool('update_policy', { bundle_yaml: OVERLAY, confirm: true, if_match: tag }), {
    isError: true,
    answer: { error: { code: 'precondition_failed' } },
  });
  t.equal((await one.manage('PUT', 'policies/rules/e', rule, { 'if-match': String(tag) })).status, 412);
  const now = await one.manage('PUT', 'policies/rules/e', rule);
  t.equal((await one.manage('PUT', 'policies/rules/f', { ...rule, if_match: (now.body as Json)['etag'] })).status, 200);
});

t.test('nodes, replaced and disabled rules, merged fragments', async (t) => {
  const one = await scene(t, OVERLAY, { GW_NODE_ID: 'here' });
  const off = await one.manage('PUT', 'policies/rules/no.gpt4', { level: 'node', rule: { disabled: true } });
  t.match(off, {
    status: 200,
    body: { level: 'node', node_id: 'here', layer: 'targets', change: { lost: [{ rule: 'targets/no.gpt4@org', because: 'disabled' }] } },
  });
  t.equal(await one.asked('gpt-4'), 'allow');
  t.match((await one.manage('GET', 'policies/rules?rule_id=no.gpt4')).body, {
    data: [
      { level: 'org', in_force: false },
      { level: 'node', node_id: 'here', in_force: false, rule: /disabled/ },
    ],
  });
  t.match(await one.manage('DELETE', 'policies/rules/no.gpt4?level=node'), {
    status: 200,
    body: { change: { lost: [{ rule: 'targets/no.gpt4@node', because: 'left_out', instead: 'targets/no.gpt4@org' }] } },
  });
  t.equal(await one.asked('gpt-4'), 'too_dear');
  const fragment =
    'schema: gw.policy_bundle.v1\nevaluation: {merge_strategy: strict}\ninline_rules:\n  risk:\n    # theirs\n    - {id: more, when: {field: context.purpose, equals: q}, effect: {decision: deny}}\n    - {id: no.uploads, effect: {decision: deny}, when: {field: context.purpose, equals: r}}\n';
  const merged = await one.manage('PUT', 'policies', { bundle_yaml: fragment, merge: true });
  t.match(change(merged), { added: ['risk/more@org'], changed: ['risk/no.uploads@org'], lost: [], header: ['merge_strategy'] });
  t.match(String(overlayIn(merged)), /no\.gpt4[\s\S]*evaluation|evaluation[\s\S]*no\.gpt4/);
});

t.test('a policy is checked and tested before it is put', async (t) => {
  const one = await scene(t);
  const checked = await one.reader('POST', 'policies/check', { bundle_yaml: WHOLE });
  t.match(checked, { status: 200, body: { ok: true, rules: 2, errors: [] } });
  t.match((await one.reader('POST', 'policies/check', { bundle_yaml: WHOLE, merge: true })).body, { ok: true, rules: 4 });
  const doubtful =
    'schema: gw.policy_bundle.v1\ninline_rules:\n  budgets: [{id: small, when: {field: context.estimates.cost_usd, gt: 0.25}, effect: {decision: deny}}]\n';
  t.match((await one.reader('POST', 'policies/check', { bundle_yaml: doubtful })).body, {
    ok: true,
    warnings: [{ code: 'money_as_number', file: 'org overlay', line: 3 }],
  });
  t.match((await one.tool('check_policy', { bundle_yaml: doubtful.replace('deny', 'no') })).answer, {
    ok: false,
    errors: [{ code: 'unknown_decision', line: 3, rule_id: 'small' }],
  });
  t.match((await one.reader('POST', 'policies/check', { bundle_yaml: BASE.replace('allow', 'alow'), level: 'base' })).body, {
    ok: false,
    errors: [{ file: 'bundle_yaml', hint: /did you mean/ }],
  });
  t.match(await one.reader('POST', 'policies/check', { bundle_yaml: `# ${'x'.repeat(140_000)}\n` }), {
    status: 400,
    body: { error: { message: /check them with gw policy check/ } },
  });

  const requests = [
    { 'action.params.model': 'gpt-4' },
    '{action.params.model: gpt-4o, attribution.project_id: x}',
    { action: { params: { model: 'gpt-4o-mini' } } },
  ];
  const now = await one.reader('POST', 'policies/test', { requests });
  t.match(now, {
    status: 200,
    body: {
      ok: true,
      requests: [
        { decision: 'deny', reason_codes: ['too_dear'], matched: ['identity/all', 'targets/no.gpt4@org'], stopped_at: 'targets' },
        { decision: 'allow' },
        { decision: 'allow' },
      ],
      cases: [],
    },
  });
  const suite =
    'schema: gw.policy_tests.v1\ncases:\n  - {name: gpt-4o of x, facts: {action.params.model: gpt-4o, attribution.project_id: x}, expect: {decision: allow}}\n  - {name: mini, facts: {action.params.model: gpt-4o-mini}, expect: {decision: allow}}\n';
  t.match((await one.reader('POST', 'policies/test', { suite })).body, {
    ok: true,
    cases: [{ name: 'gpt-4o of x', passed: true }, { passed: true }],
  });
  const drafted = await one.tool('test_policy', { suite, bundle_yaml: WHOLE });
  t.match(drafted.answer, {
    ok: false,
    cases: [
      { passed: true },
      {
        name: 'mini',
        line: 4,
        passed: false,
        mismatches: [{ member: 'decision', expected: '"allow"', actual: '"deny"' }],
        reason_codes: ['target_not_allowed'],
      },
    ],
  });
  for (const [body, said] of [
    [{}, /requests/],
    [{ requests: ['{'] }, /requests\[0\]/],
    [{ requests: [{ 'action.params.model': 'x', 'workload.idd': 'y' }] }, /requests\[0\]\.workload\.idd/],
    [{ suite: 'cases: []' }, /schema/],
    [{ suite: `${suite}  - {name: own, bundle: "schema: gw.policy_bundle.v1", expect: {decision: deny}}\n` }, /brings a policy of its own/],
    [{ requests, bundle_yaml: '{' }, /does not load/],
    [{ requests, level: 'base', merge: true, bundle_yaml: BASE }, /belongs to an overlay/],
  ] as const) {
    const answer = await one.reader('POST', 'policies/test', body);
    t.equal(answer.status, 400, JSON.stringify(body));
    t.match(JSON.stringify(answer.body), said);
  }
  t.equal(await one.overlay(), OVERLAY);
});

t.test('the bundle of the gateway: a dry run, its suites, what it loses, stale writers', async (t) => {
  const one = await scene(t, '', { GW_APPROVAL_ENABLED: 'false' });
  const read = await one.gw.admin('GET', '/v1/admin/policies');
  const next = bundleOf(
    '  targets: [{id: only.4o, when: {field: context.action.params.model, equals: gpt-4o}, effect: {decision: allow}}]\n',
  );
  t.equal(await one.asked('gpt-4o-mini'), 'allow');
  const dry = await one.gw.admin('PUT', '/v1/admin/policies', { bundle_yaml: next, dry_run: true });
  t.match(dry, {
    status: 200,
    body: {
      source: 'file',
      change: {
        dry_run: true,
        added: ['targets/only.4o@base'],
        lost: [{ rule: 'identity/all@base' }],
        new_allow_lists: [{ layer: 'targets' }],
        no_longer_allow_lists: ['identity'],
        records: { changed: 1 },
      },
    },
  });
  t.equal(await one.asked('gpt-4o-mini'), 'allow');
  t.match(await one.gw.admin('PUT', '/v1/admin/policies', { bundle_yaml: next, confirm: false }), {
    status: 409,
    body: { error: { code: 'confirmation_needed' } },
  });
  // Nobody can be asked here, so that a rule which asks allows nothing.
  const asks = bundleOf('  identity: [{id: all, effect: {decision: require_approval}}]\n');
  t.match(await one.gw.admin('PUT', '/v1/admin/policies', { bundle_yaml: asks, confirm: false }), {
    status: 409,
    body: { error: { details: [{ path: 'denies_all', message: 'no call could be let through any more: no rule of it allows anything' }] } },
  });
  const put = await one.gw.admin('PUT', '/v1/admin/policies', { bundle_yaml: next });
  t.match(put, { status: 200, body: { source: 'api', change: { dry_run: false, counts: { added: 1, lost: 1 } } } });
  t.equal(await one.asked('gpt-4o-mini'), 'target_not_allowed');
  t.match(read.body, { source: 'file' });
});

t.test('`gw policies` shows what would change, and asks at a terminal', async (t) => {
  const one = await scene(t);
  const dir = tempDir(t);
  const file = join(dir, 'overlay.yaml');
  writeFileSync(file, WHOLE);
  const env = { GW_PORT: String(one.gw.port), GW_ADMIN_TOKEN: ADMIN_TOKEN, GW_ORG_ID: 'acme' };
  const run = (words: readonly string[], more: object = {}) => gw(['policies', ...words], { env, ...more });
  const dry = await run(['put', file, '--dry-run']);
  t.equal(dry.code, 0, dry.err);
  t.match(
    dry.out,
    /^\+ rule {4}targets\/allow\.gpt4o\.x@org\n- rule {4}targets\/no\.gpt4@org {2}lost: .*\n- rule {4}risk\/no\.uploads@org .*\n! denies {2}the layer targets turns into an allow-list/,
  );
  t.match(dry.out, /records {3}0 of the 0 newest calls would be decided otherwise\nNothing has been changed yet\.\n$/);
  for (const row of dry.out.split('\n')) t.ok(row.length <= 80, row);
  const refused = await run(['put', file]);
  t.equal(refused.code, 1);
  t.match(refused.err, /Nothing was changed\. It would lose 2 rules[\s\S]*Here --yes says so/);
  t.equal(await one.overlay(), OVERLAY);
  const terminal = (answer: string) => ({ columns: 80, lines: [answer] });
  const no = await run(['put', file], terminal('n'));
  t.match(no, { code: 1, err: /^Do it\? \[y\/N\] Nothing was changed\.\n$/, out: /- rule/ });
  t.equal(await one.overlay(), OVERLAY);
  const rule = ['rules', 'put', 'allow.gpt4o.x', '--layer', 'budgets', '--rule', JSON.stringify(ALLOW_4O)];
  t.match(await run(rule), { code: 0, out: '+ rule    budgets/allow.gpt4o.x@org\nIt is in force.\n', err: '' });
  t.match(await run(['rules', 'list', '--level', 'org']), { code: 0, out: /allow\.gpt4o\.x/ });
  t.match(await run(['rules', 'remove', 'allow.gpt4o.x', '--dry-run']), { code: 0, out: /^- rule {4}budgets\/allow\.gpt4o\.x@org/ });
  t.match(await run(['rules', 'remove', 'allow.gpt4o.x'], terminal('y')), { code: 0, out: /Done\.\n$/ });
  t.equal(await one.overlay(), OVERLAY, 'as it was, to the last comment');
  t.match(await run(['put', '-', '--yes', '--json'], { stdin: WHOLE }), { code: 0, out: /"dry_run":false/ });
  t.equal(await one.overlay(), WHOLE.trimEnd());
});
