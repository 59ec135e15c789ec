import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { compilePolicy } from '../../src/decide/policy/compile.ts';
import { explain } from '../../src/policy-tools/explain.ts';
import { recordedRequest } from '../../src/policy-tools/recorded-request.ts';
import { ADMIN_TOKEN } from '../support/gateway.ts';
import { bundleOf, CHAT, type Governed, startGoverned } from '../support/governed.ts';
import { gw } from '../support/run-gw.ts';
import { tempDir } from '../support/temp-dir.ts';

/*
 * explain and diff against records of a real gateway: what is stored must be enough to say why, and to say what another
 * policy would have said.
 */

const PROMPT = 'the-secret-prompt';
const RULES = `  connectors:
    - {id: openai, when: {field: context.connector.id, equals: openai}, effect: {decision: allow}}
  budgets:
    - id: no.big.models
      when: {all: [{field: context.action.params.model, glob: "gpt-4*"}, {field: context.purpose, not_in: [research]}]}
      effect: {decision: deny, reason_codes: [model_not_allowed]}
`;
const chat = (model: string) => ({ params: { ...CHAT, model, messages: [{ role: 'user', content: PROMPT }] } });

async function call({ execute }: Governed, model: string, purpose?: string): Promise<string> {
  const { body } = await execute(purpose === undefined ? {} : { context: { purpose } }, chat(model));
  return String(body['record_id']);
}

t.test('explain asks a running gateway for the record and says which rule decided and what it saw', async (t) => {
  const governed = await startGoverned(t, { bundle: bundleOf(RULES) });
  const id = await call(governed, 'gpt-4-turbo');
  const file = join(tempDir(t), 'bundle.yaml');
  writeFileSync(file, bundleOf(RULES));
  const env = { GW_ADMIN_TOKEN: ADMIN_TOKEN, GW_PORT: String(governed.gw.port) };
  const { code, out, err } = await gw(['policy', 'explain', '--record', id, '--policies', file], { env });
  t.same({ code, err }, { code: 0, err: '' });
  t.equal(
    out.replaceAll(file, 'bundle.yaml'),
    `deny [model_not_allowed]: rule "no.big.models" of the budgets layer decided deny
bundle test, version 7

connectors (allow-list: no match is a denial) allow
  + connectors/openai (allow): matched  bundle.yaml:6
      yes  context.connector.id equals openai  is openai

budgets (block-list: no match is no opinion) deny, evaluation stopped here
  + budgets/no.big.models (deny): matched  bundle.yaml:8
      a missing field counts against the caller here
      yes  all of
        yes  context.action.params.model glob "gpt-4*"  is gpt-4-turbo
        yes  context.purpose not_in [research]  (missing)
`,
  );
  const record = join(tempDir(t), 'record.json');
  writeFileSync(record, JSON.stringify(await governed.gw.record(id)));
  t.equal((await gw(['policy', 'explain', record, '--policies', file])).out, out, 'a record file says the same');
  const url = governed.gw.url;
  const ask = (...argv: string[]) => gw(['policy', 'explain', '--policies', file, ...argv], { env: { ...env, GW_PORT: '1' } });
  t.match(await ask('--record', id, '--url', url), { code: 0 });
  t.match(await ask('--record', id), { code: 2, err: /cannot be asked: .*ECONNREFUSED/ });
  t.match(await ask('--record', '0197a0c0-0000-7000-8000-000000000001', '--url', url), { code: 2, err: /has no record 0197/ });
  t.match(await ask('--record', id, '--url', 'ftp://x'), { code: 2, err: /--url takes the address of a gateway/ });
  const wrong = await gw(['policy', 'explain', '--policies', file, '--record', id], {
    env: { ...env, GW_ADMIN_TOKEN: 'another-token-0123456789' },
  });
  t.match(wrong, { code: 2, err: /does not accept the admin token/ });
});

t.test('explain tells what a record does not hold, and that another bundle decided', async (t) => {
  const governed = await startGoverned(t, { bundle: bundleOf(RULES) });
  const dir = tempDir(t);
  const record = join(dir, 'record.json');
  writeFileSync(record, JSON.stringify(await governed.gw.record(await call(governed, 'gpt-4o-mini', 'research'))));
  const other = join(dir, 'other.yaml');
  writeFileSync(
    other,
    `schema: gw.policy_bundle.v1
bundle_id: other
inline_rules:
  risk:
    - {id: a, when: {field: context.labels.team, equals: x}, effect: {decision: deny}}
    - {id: b, when: {all: [{field: context.labels.team, equals: x}, {field: context.workload.id, equals: nobody}]}, effect: {decision: deny}}
    - {id: c, when: {field: context.action.params.messages.0.content, contains: secret}, effect: {decision: deny}}
`,
  );
  const { code, out, err } = await gw(['policy', 'explain', record, '--policies', other]);
  t.same({ code, err }, { code: 0, err: '' });
  t.match(
    out,
    /the record says allow: another policy decided then, bundle test, version 7, content [0-9a-f]{16}\nbundle other, version 0\n/,
  );
  t.match(out, 'not known of this call, since no record holds it: context.labels.team');
  t.match(out, '? risk/a (deny): cannot be said');
  t.match(out, '- risk/b (deny): did not match');
  t.match(out, 'unknown context.labels.team equals x  (not known)');
  t.match(out, '? risk/c (deny): cannot be said');
});

t.test('explain says when a record was decided by more than its rules, and sees what they saw then', async (t) => {
  const rules = (cap: string) => `  connectors:
    - {id: openai, when: {field: context.connector.id, equals: openai}, effect: {decision: allow, budget: {usd_max: "${cap}"}}}
  risk:
    - {id: nobody.pays, when: {field: attribution.project_id, exists: false}, effect: {default_attribution: {project_id: shared}}}
    - {id: who, effect: {enforce_attribution: {require: [project_id]}}}
`;
  const dir = tempDir(t);
  const explainLast = async (cap: string, policies: string) => {
    const governed = await startGoverned(t, { bundle: bundleOf(rules(cap)) });
    const record = join(dir, 'record.json');
    const stored = await governed.gw.record(await call(governed, 'gpt-4o'));
    writeFileSync(record, JSON.stringify(stored));
    const file = join(dir, 'bundle.yaml');
    writeFileSync(file, bundleOf(policies));
    const plain = await gw(['policy', 'explain', record, '--policies', file]);
    const json = await gw(['policy', 'explain', record, '--policies', file, '--json']);
    return { stored, out: plain.out, json: JSON.parse(json.out) as { readonly recorded?: object } };
  };

  const capped = await explainLast('0.000001', rules('0.000001'));
  t.match(capped.stored, { decision: 'deny', reason_codes: ['budget_usd_max_exceeded'] });
  t.match(capped.out, /^allow\nthe record says deny \[budget_usd_max_exceeded\]: the rules let the call run; what is checked after them/);
  t.match(capped.json, { recorded: { decision: 'deny', reason_codes: ['budget_usd_max_exceeded'], because: 'after_the_rules' } });

  const paid = await explainLast('5', rules('5'));
  t.match(paid.stored, { decision: 'allow', project_id: 'shared' });
  t.match(paid.out, /^allow\nbundle test/);
  t.match(paid.out, 'risk/nobody.pays (effects only): matched');
  t.match(paid.out, 'yes  context.attribution.project_id exists false  (missing)');
  t.equal(paid.json.recorded, undefined);

  const changed = await explainLast('5', `${rules('5')}    - {id: shut, effect: {decision: deny, reason_codes: [shut]}}\n`);
  t.match(changed.out, /^deny \[shut\].*\nthe record says allow: other rules took part then/);
  t.match(changed.json, { recorded: { because: 'other_rules' } });
});

t.test('explain never shows content or secrets of a request', async (t) => {
  const dir = tempDir(t);
  const [bundle, request] = [join(dir, 'bundle.yaml'), join(dir, 'request.json')];
  writeFileSync(
    bundle,
    bundleOf(`  risk:
    - id: a
      when:
        any:
          - {field: action.params.messages.0.content, contains: x}
          - {field: action.params.messages, exists: true}
          - {field: action.params.model, equals: x}
          - {field: action.target_path, glob: "/x"}
          - {field: action.header.authorization, equals: true}
          - {field: action.headers_present, in: [x]}
      effect: {decision: deny}
`),
  );
  writeFileSync(
    request,
    JSON.stringify({
      schema: 'gw.action_request.v2',
      org_id: 'acme',
      workload_id: 'w',
      credential_hint: 'sk-secret-key',
      action: {
        type: 'ai.infer',
        method: 'POST',
        target_host: 'api.openai.com',
        target_path: '/v1/chat/completions?key=sk-secret-key',
        headers: { Authorization: 'Bearer sk-secret-key' },
        ...chat('gpt-4o'),
      },
    }),
  );
  for (const argv of [[], ['--json']]) {
    const { code, out } = await gw(['policy', 'explain', request, '--policies', bundle, ...argv]);
    t.equal(code, 0);
    t.notMatch(out, PROMPT);
    t.notMatch(out, 'sk-secret-key');
    t.match(out, argv.length === 0 ? '(content, never shown)' : '"state": "hidden"');
    t.match(out, '/v1/chat/completions?key');
  }
});

t.test('explain takes fields, a case of a suite, standard input; mistakes in them are named', async (t) => {
  const dir = tempDir(t);
  const [bundle, suite] = [join(dir, 'bundle.yaml'), join(dir, 'suite.yaml')];
  writeFileSync(bundle, bundleOf(RULES));
  writeFileSync(
    suite,
    'schema: gw.policy_tests.v1\npolicies: bundle.yaml\ncases:\n  - {name: big, facts: {action.params.model: gpt-4}, expect: {decision: deny}}\n',
  );
  const ask = (argv: readonly string[], stdin = '') => gw(['policy', 'explain', ...argv], { stdin });
  const byFields = await ask(['-', '--policies', bundle], 'action: {params: {model: gpt-4}}');
  t.match(byFields, { code: 0, out: /^deny/ });
  t.equal((await ask([suite, '--case', 'big'])).out, byFields.out);
  t.match(await ask(['-', '--policies', bundle], 'action: {params: {model: gpt-4}}\ncontext.purpos: x'), {
    code: 2,
    err: /context\.purpos: unknown field "context\.purpos" \(did you mean "context\.purpose"\?\)/,
  });
  t.match(await ask([suite]), { code: 2, err: /--case takes the name of a case of .*: "big"/ });
  t.match(await ask(['-', '--policies', bundle], '[a'), { code: 2, err: /standard input:1:/ });
  t.match(await ask([]), { code: 2, err: /give one request/ });
});

t.test('explain and test know the rates, the hint and the action types that the gateway knows', async (t) => {
  const dir = tempDir(t);
  const [bundle, request, suite, rates, other] = ['b.yaml', 'request.json', 'suite.yaml', 'rates.yaml', 'other.yaml'].map((name) =>
    join(dir, name),
  ) as [string, string, string, string, string];
  const rules = `  connectors:
    - {id: all, when: {field: context.connector.id, exists: true}, effect: {decision: allow}}
  targets:
    - {id: here, when: {field: action.target_host, exists: true}, effect: {decision: allow}}
    - {id: path, when: {field: action.target_path, exists: true}, effect: {decision: allow}}
  budgets:
    - {id: dear, when: {field: context.estimates.cost_usd, gt: 1}, effect: {decision: deny, reason: dear}}
    - {id: tokens, when: {field: context.estimates.tokens_in, gt: 100000}, effect: {decision: deny}}
`;
  writeFileSync(bundle, bundleOf(rules));
  writeFileSync(rates, 'rates:\n  - {provider: openai, model: our-model, in: 1000, out: 20000}\n');
  writeFileSync(other, 'rates:\n  - {provider: openai, model: our-model, in: 1, out: 2}\n');
  const env = { GW_PRICING_FILE: rates, GW_ACTION_TYPE_CONNECTORS: 'acme.chat=anthropic' };
  const governed = await startGoverned(t, { bundle: bundleOf(rules), env });
  const params = { model: 'our-model', max_tokens: 100, messages: [{ role: 'user', content: 'a few words of a prompt' }] };
  const explained = async (call: object, settings: Record<string, string>, argv: readonly string[] = []) => {
    writeFileSync(request, JSON.stringify(call));
    const { out } = await gw(['policy', 'explain', request, '--policies', bundle, '--json', ...argv], { env: settings });
    return JSON.parse(out) as {
      verdict: { decision: string; reason?: string };
      layers: { rules: { condition: { field: string; observed: unknown } }[] }[];
    };
  };
  for (const [name, extra, action] of [
    ['rates of a file', {}, {}],
    ['a hint', { connector_hint: 'mistral' }, {}],
    ['an action type', {}, { type: 'acme.chat', target_host: 'api.anthropic.com' }],
    [
      'a model that stands in the path',
      {},
      { target_host: 'generativelanguage.googleapis.com', params: { ...params, model: 'models/our-model' } },
    ],
    ['a host of nobody', {}, { type: 'http.request', target_host: 'www.example.com', target_path: '/x' }],
  ] as const) {
    const call = { type: 'ai.infer', method: 'POST', target_host: 'api.openai.com', params, ...action };
    const hint = name === 'a host of nobody' ? { credential_hint: undefined } : {};
    const { body } = await governed.execute({ ...extra, ...hint }, call);
    const record = await governed.gw.record(String(body['record_id']));
    const { attributes } = record['policy_trace'] as { attributes: Record<string, unknown> };
    const whole = { schema: 'gw.action_request.v2', org_id: 'default', workload_id: 'default', action: call, ...extra };
    const { verdict, layers } = await explained(whole, env);
    t.equal(verdict.decision, record['decision'], name);
    const seen = layers.flatMap((layer) =>
      layer.rules.map(({ condition }) => [condition.field.replace('context.', ''), condition.observed]),
    );
    t.same(
      Object.fromEntries(seen),
      Object.fromEntries(Object.entries(attributes).map(([field, value]) => [field.replace('context.', ''), value])),
      name,
    );
  }
  const dear = { workload_id: 'default', action: { type: 'ai.infer', method: 'POST', target_host: 'api.openai.com', params } };
  t.match((await explained(dear, env)).verdict, { decision: 'deny', reason: 'dear' });
  t.match((await explained(dear, {})).verdict, { decision: 'allow' }, 'the shipped list does not know the model');
  t.match((await explained(dear, {}, ['--pricing', rates])).verdict, { decision: 'deny' });
  t.match((await explained(dear, env, ['--pricing', other])).verdict, { decision: 'allow' }, 'the option goes before the setting');
  writeFileSync(request, JSON.stringify({ ...dear, connector_hint: 'nobody' }));
  t.match(await gw(['policy', 'explain', request, '--policies', bundle]), {
    code: 2,
    err: /connector_hint: "nobody" is not a registered connector id/,
  });
  const gemini = { ...dear.action, target_host: 'generativelanguage.googleapis.com' };
  for (const [action, mistake] of [
    [{ ...gemini, params: {} }, /action\.params\.model: is required/],
    [{ ...gemini, params: { model: '\ud800' } }, /action\.params\.model: is not well-formed/],
    [{ ...gemini, target_host: 'api.elevenlabs.io' }, /action\.target_path: is required/],
  ] as const) {
    writeFileSync(request, JSON.stringify({ ...dear, action }));
    t.match(await gw(['policy', 'explain', request, '--policies', bundle]), { code: 2, err: mistake });
  }

  const facts = '{action.params.model: our-model, action.params.max_tokens: 100}';
  writeFileSync(
    suite,
    `schema: gw.policy_tests.v1\npolicies: b.yaml\ncases:
  - {name: dear, facts: ${facts}, expect: {decision: deny, reason: dear}}
  - {name: stated tokens, facts: {action.params.model: our-model, estimates: {tokens_in: 1, tokens_out_max: 1}}, expect: {decision: allow}}
  - {name: stated cost, facts: {action.params.model: our-model, estimates.cost_usd: "0.5"}, expect: {decision: allow}}
`,
  );
  t.equal((await gw(['policy', 'test', suite], { env })).code, 0);
  t.match(await gw(['policy', 'test', suite], { env: {} }), { code: 1, out: /FAIL .* dear/ });
  t.equal((await gw(['policy', 'test', suite, '--pricing', rates], { env: {} })).code, 0);
  t.match(await gw(['policy', 'explain', suite, '--case', 'dear', '--pricing', rates]), { code: 0, out: /^deny/ });
  writeFileSync(rates, 'rates: [{model: x, in: a}]\n');
  for (const argv of [
    ['test', suite],
    ['explain', request, '--policies', bundle],
  ])
    t.match(await gw(['policy', ...argv], { env }), { code: 2, err: /rates\.yaml:1:/ }, 'rates that do not load');
  t.match(await gw(['policy', 'test', suite, '--pricing', join(dir, 'none.yaml')]), { code: 2, err: /none\.yaml: cannot be read/ });
  t.match(await gw(['policy', 'test', suite], { env: { GW_ACTION_TYPE_CONNECTORS: 'acme.a=nobody' } }), {
    code: 2,
    err: /"nobody" is no connector/,
  });
});

t.test('a layer that was not asked, an empty one and rules behind the end are told apart', async (t) => {
  const { policy } = compilePolicy({
    bundle: {
      file: 'b',
      text: `schema: gw.policy_bundle.v1
inline_rules:
  identity: [{id: ok, effect: {decision: allow}}, {id: late, priority: -1, effect: {decision: deny}}]
  targets: []
  risk: [{id: never, effect: {decision: deny}}]`,
    },
    tier: 'enterprise',
  });
  if (policy === undefined) throw new Error('the bundle does not load');
  const record = { policy_trace: { bundle_id: 'unnamed', version: '0' }, record_id: 'r', decision: 'deny' };
  const facts = recordedRequest(record, [policy])?.facts;
  if (facts === undefined) throw new Error('no facts');
  const { layers } = explain(policy, facts);
  t.match(layers, [
    { layer: 'identity', kind: 'allow_list', decision: 'allow', rules: [{ outcome: 'matched' }, { outcome: 'after_the_end' }] },
    { layer: 'targets', kind: 'empty', decision: 'deny', code: 'target_not_allowed', stopped: true },
    { layer: 'risk', evaluated: false, rules: [{ outcome: 'not_evaluated' }] },
  ]);
});

t.test('diff replays what a gateway stored and says what another policy would change', async (t) => {
  const governed = await startGoverned(t, { bundle: bundleOf(RULES) });
  const dir = tempDir(t);
  const [before, after] = [join(dir, 'old.yaml'), join(dir, 'new.yaml')];
  writeFileSync(before, bundleOf(RULES));
  writeFileSync(after, bundleOf(RULES.replace('"gpt-4*"', '"gpt-4o**"').replace('version: "7"', 'version: "8"')));
  const denied = await call(governed, 'gpt-4-turbo');
  const researched = await call(governed, 'gpt-4-turbo', 'research');
  const small = await call(governed, 'gpt-4o-mini');
  const records = [];
  for (const id of [denied, researched, small]) records.push(await governed.gw.record(id));
  const lines = join(dir, 'records.jsonl');
  writeFileSync(lines, records.map((record) => `${JSON.stringify(record)}\n`).join(''));

  const same = await gw(['policy', 'diff', before, before, '--records', lines]);
  t.same(same, { code: 0, out: '3 records: 0 would change, 3 would not\n', err: '' });
  const changed = await gw(['policy', 'diff', before, after, '--records', lines]);
  t.equal(
    changed.out,
    `1 x deny -> allow
    ${denied}
      - deny  [model_not_allowed]  by connectors/openai, budgets/no.big.models
      + allow  by connectors/openai

3 records: 1 would change, 2 would not
`,
  );
  t.equal(changed.code, 1);

  const inUse = await gw(['policy', 'diff', before, after, '--data', governed.gw.dataDir]);
  t.match(inUse, { code: 2, err: /is in use|has it open|another/i });
  await governed.gw.gateway.stop();
  t.equal((await gw(['policy', 'diff', before, after, '--data', governed.gw.dataDir])).out, changed.out, 'the data folder says the same');
  const last = JSON.parse((await gw(['policy', 'diff', before, after, '--data', governed.gw.dataDir, '--last', '2', '--json'])).out);
  t.match(last, { records: 2, changed: 0, unchanged: 2 });
});

t.test('test, explain and diff judge an operation that nobody knows as the gateway does', async (t) => {
  const rules = `  connectors:
    - {id: all, effect: {decision: allow}}
  targets:
    - {id: no.big, when: {field: context.action.params.model, equals: gpt-4}, effect: {decision: deny}}
`;
  const governed = await startGoverned(t, { bundle: bundleOf(rules) });
  const dir = tempDir(t);
  const [bundle, suite, lines, plain] = ['bundle.yaml', 'suite.yaml', 'records.jsonl', 'plain.yaml'].map((name) => join(dir, name));
  if (!bundle || !suite || !lines || !plain) throw new Error('no files');
  writeFileSync(bundle, bundleOf(rules));
  writeFileSync(plain, bundleOf('  connectors:\n    - {id: all, effect: {decision: allow}}\n').replace('version: "7"', 'version: "8"'));
  const { body } = await governed.execute({}, { target_path: '/v1/brand/new' });
  t.same(body['reason_codes'], ['operation_not_understood']);
  const record = await governed.gw.record(String(body['record_id']));
  writeFileSync(lines, `${JSON.stringify(record)}\n`);
  const unknown =
    'facts: {action.target_path: /v1/brand/new, action.params.model: gpt-4o-mini}, expect: {decision: deny, reason_codes: [operation_not_understood]}';
  const azure = `facts: {action.target_host: res.openai.azure.com, action.target_path: /openai/deployments/GPT-4/brand/new, action.params.model: x}, expect: {decision: deny, matched: [connectors/all, targets/no.big]}`;
  writeFileSync(
    suite,
    `schema: gw.policy_tests.v1\npolicies: bundle.yaml\ncases:\n  - {name: unknown, ${unknown}}\n  - {name: in the path, ${azure}}\n`,
  );
  t.match(await gw(['policy', 'test', suite]), { code: 0, out: /2 passed/ });
  const explained = await gw(['policy', 'explain', suite, '--case', 'unknown']);
  t.match(explained.out, /^deny.*operation_not_understood/s);
  t.match(explained.out, '? targets/no.big (deny): cannot be said');
  writeFileSync(join(dir, 'record.json'), JSON.stringify(record));
  t.match((await gw(['policy', 'explain', join(dir, 'record.json'), '--policies', bundle])).out, /^deny.*operation_not_understood/s);
  t.match(await gw(['policy', 'diff', bundle, bundle, '--records', lines]), { code: 0, out: '1 record: 0 would change, 1 would not\n' });
  t.match(await gw(['policy', 'diff', bundle, plain, '--records', lines]), { code: 1, out: /1 x deny -> allow/ });
});

t.test('diff says what it cannot say, what policy never decided, and what it does not replay', async (t) => {
  const governed = await startGoverned(t, { bundle: bundleOf(RULES) });
  const dir = tempDir(t);
  const files = {
    old: bundleOf(RULES),
    label: bundleOf(`${RULES}  risk:\n    - {id: l, when: {field: context.labels.team, equals: x}, effect: {decision: deny}}\n`),
  };
  for (const [name, text] of Object.entries(files)) writeFileSync(join(dir, `${name}.yaml`), text);
  const record = await governed.gw.record(await call(governed, 'gpt-4o-mini', 'research'));
  const { policy_trace: _, ...undecided } = record;
  const lines = join(dir, 'records.jsonl');
  writeFileSync(
    lines,
    `${JSON.stringify(record)}\n\n${JSON.stringify(undecided)}\n${JSON.stringify({ ...record, decision: 'rate_limit' })}\n`,
  );
  const { code, out } = await gw(['policy', 'diff', join(dir, 'old.yaml'), join(dir, 'label.yaml'), '--records', lines]);
  t.equal(code, 0);
  t.equal(
    out,
    `3 records: 0 would change, 0 would not
2 cannot be judged: rules read what these records do not hold: context.labels.team (2)
1 were answered before policy was asked
`,
  );
  t.match((await gw(['policy', 'diff', join(dir, 'old.yaml'), join(dir, 'old.yaml'), '--records', lines])).out, '1 were decided otherwise');
});

t.test('wrong use of diff is exit code 2', async (t) => {
  const dir = tempDir(t);
  const bundle = join(dir, 'bundle.yaml');
  const bad = join(dir, 'bad.jsonl');
  writeFileSync(bundle, bundleOf(RULES));
  writeFileSync(bad, '{}\n');
  for (const [argv, err] of [
    [[bundle], /give two policies/],
    [[bundle, bundle], /give either --records FILE or --data FOLDER/],
    [[bundle, bundle, '--records', join(dir, 'no')], /there is no such file/],
    [[bundle, bundle, '--records', bad], /bad\.jsonl:1: this is not an execution record/],
    [[bundle, bundle, '--data', dir], /no store of a gateway/],
    [[bundle, join(dir, 'no.yaml'), '--records', bad], /no such file/],
    [[bundle, bundle, '--records', bad, '--last', '0'], /--last takes a number/],
  ] as const) {
    t.match(await gw(['policy', 'diff', ...argv]), { code: 2, err }, argv.join(' '));
  }
});

t.test('what check says of a bundle is what the gateway answers to a PUT of it', async (t) => {
  const governed = await startGoverned(t, { bundle: bundleOf(RULES) });
  const file = join(tempDir(t), 'bundle.yaml');
  const broken = bundleOf(RULES.replace('decision: deny', 'decision: deni').replace('glob:', 'like:').replace('budgets', 'budget'));
  writeFileSync(file, broken);
  const { problems } = JSON.parse((await gw(['policy', 'check', '--json', file])).out);
  t.equal(problems.length, 3);
  const answer = await fetch(`${governed.gw.url}/v1/admin/policies`, {
    method: 'PUT',
    headers: { 'GW-Admin-Token': ADMIN_TOKEN, 'Content-Type': 'application/json' },
    body: JSON.stringify({ bundle_yaml: broken }),
  });
  t.equal(answer.status, 400);
  const { error } = (await answer.json()) as { readonly error: { readonly details: readonly object[] } };
  t.strictSame(
    error.details.map((detail) => ({ severity: 'error', ...detail, file })),
    problems,
  );
});
