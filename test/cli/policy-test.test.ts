import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import t from 'tap';
import { exactly } from '../support/exactly.ts';
import { gw } from '../support/run-gw.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';

const BUNDLE = `schema: gw.policy_bundle.v1
inline_rules:
  connectors:
    - id: allow.openai
      when: {field: context.connector.id, equals: openai}
      effect: {decision: allow}
  budgets:
    - id: no.gpt4
      when: {field: context.action.params.model, equals: gpt-4}
      effect: {decision: deny, reason_codes: [model_not_allowed]}
    - id: never.asked
      when: {field: context.purpose, equals: x}
      effect: {decision: deny}
`;
const suite = (cases: string, head = 'policies: ..\n') => `schema: gw.policy_tests.v1\n${head}cases:\n${cases}`;
const PASSES =
  '  - {name: small, facts: {action.params.model: gpt-4o-mini}, expect: {decision: allow, matched: [connectors/allow.openai]}}\n';
const FAILS = '  - {name: "big & <odd>", facts: {action.params.model: gpt-4}, expect: {decision: allow, reason_codes: []}}\n';

function folder(t: HasTeardown, files: Readonly<Record<string, string>>): string {
  const dir = tempDir(t);
  for (const [name, text] of Object.entries({ 'policies/bundle.yaml': BUNDLE, ...files })) {
    mkdirSync(dirname(join(dir, name)), { recursive: true });
    writeFileSync(join(dir, name), text);
  }
  return join(dir, 'policies');
}

t.test('a suite that passes says so, and which rules no case was decided by', async (t) => {
  const dir = folder(t, { 'policies/tests/models.yaml': suite(PASSES) });
  const { code, out } = await gw(['policy', 'test'], { env: { GW_POLICIES_DIR: dir } });
  t.equal(code, 0);
  t.equal(
    out.replaceAll(dir, 'DIR'),
    `DIR/tests/models.yaml 1 passed; 1 of 3 rules matched
  never matched budgets/no.gpt4  DIR/bundle.yaml:8
  never matched budgets/never.asked  DIR/bundle.yaml:11
`,
  );
  t.equal((await gw(['policy', 'test', '--strict', join(dir, 'tests')])).code, 1, 'strict asks that every rule is tested');
});

t.test('a failed case shows what was expected, what came and the rules behind it; JUnit holds the same', async (t) => {
  const dir = folder(t, { 'policies/tests/models.yaml': suite(PASSES + FAILS) });
  const file = join(dir, 'tests', 'models.yaml');
  const junit = join(dir, 'junit.xml');
  const { code, out } = await gw(['policy', 'test', file, '--junit', junit]);
  t.equal(code, 1);
  t.ok(
    out.replaceAll(dir, 'DIR').startsWith(`FAIL DIR/tests/models.yaml:5 big & <odd>
  decision
    expected allow
    got      deny
  reason_codes
    expected []
    got      [model_not_allowed]
  matched rules:
    connectors/allow.openai allow  DIR/bundle.yaml:4
    budgets/no.gpt4 deny  DIR/bundle.yaml:8

DIR/tests/models.yaml 1 passed, 1 failed; 2 of 3 rules matched
`),
    out,
  );
  const xml = readFileSync(junit, 'utf8').replaceAll(dir, 'DIR');
  t.match(xml, '<testsuites name="gw policy test" tests="2" failures="1" errors="0">');
  t.match(xml, 'name="big &amp; &lt;odd&gt;" file="DIR/tests/models.yaml" line="5">');
  t.match(xml, '<failure message="decision: expected allow, got deny">decision: expected allow, got deny&#10;reason_codes: expected []');
  const json = JSON.parse((await gw(['policy', 'test', file, '--json'])).out);
  t.match(json.suites[0].cases[1], { passed: false, mismatches: [{ member: 'decision', expected: 'allow', actual: 'deny' }, {}] });
});

t.test('the connector follows from the host unless the case names it', async (t) => {
  const cases = `  - {name: elsewhere, facts: {action.target_host: api.anthropic.com}, expect: {decision: deny, reason_codes: [connector_not_allowed]}}
  - {name: named, facts: {action.target_host: api.anthropic.com, connector.id: openai}, expect: {decision: allow}}
  - {name: none, facts: {connector.id: null}, expect: {decision: deny}}
  - {name: unknown, facts: {action.target_host: example.com}, expect: {decision: deny, reason_codes: [connector_not_allowed]}}
`;
  const dir = folder(t, { 'policies/tests/hosts.yaml': suite(cases) });
  t.match(await gw(['policy', 'test', join(dir, 'tests')]), { code: 0 });
});

t.test('a policy that does not load fails its cases with the mistakes', async (t) => {
  const dir = folder(t, { 'policies/tests/a.yaml': suite(PASSES), 'policies/bundle.yaml': `${BUNDLE}bundel_id: x\n` });
  t.match(await gw(['policy', 'test', join(dir, 'tests')]), {
    code: 1,
    out: /the policy does not load:\n {4}.*bundle\.yaml:14:1: unknown key of a bundle "bundel_id" \(did you mean "bundle_id"\?\)/,
  });
});

t.test('the policy comes from the suite, from --policies or from the case; else the suite is unusable', async (t) => {
  const dir = folder(t, {
    'alone.yaml': suite(PASSES, ''),
    'own.yaml': suite('  - {name: a, bundle: "schema: gw.policy_bundle.v1", expect: {decision: deny}}\n', ''),
  });
  const alone = join(dir, '..', 'alone.yaml');
  t.match(await gw(['policy', 'test', alone]), { code: 2, err: /does not say which policy decides its cases/ });
  t.match(await gw(['policy', 'test', alone, '--policies', dir]), { code: 0 });
  t.match(await gw(['policy', 'test', join(dir, '..', 'own.yaml')]), { code: 0, out: /1 passed\n$/ });
});

t.test('a suite with mistakes runs nothing and shows them as a compiler does', async (t) => {
  const dir = folder(t, {
    'policies/tests/a.yaml': suite(PASSES),
    'policies/tests/b.yaml': suite('  - {name: a, facts: {workload.idd: w}, expect: {decision: deny}}\n'),
  });
  const { code, out, err } = await gw(['policy', 'test', join(dir, 'tests')]);
  t.equal(code, 2);
  t.match(
    out,
    /b\.yaml:4:23: error\[unknown_field\]: unknown field "workload\.idd"\n.*\n 4 \| .*\n +\| +\^{12}\n.*did you mean "workload\.id"\?/,
  );
  t.notMatch(out, 'passed');
  t.match(err, /b\.yaml: not a suite of test cases/);
});

t.test('wrong use is exit code 2', async (t) => {
  const dir = folder(t, { 'policies/tests/models.yaml': suite(PASSES), 'policies/none/x.txt': '' });
  const file = join(dir, 'tests', 'models.yaml');
  const none = { GW_POLICIES_DIR: join(dir, 'none') };
  t.match(await gw(['policy', 'test'], { env: none }), { code: 2, err: /name a suite; there is no folder/ });
  for (const argv of [
    ['nope.yaml'],
    [join(dir, 'none')],
    [file, '--junit', join(dir, 'no', 'j.xml')],
    [file, '--policies', join(dir, 'no')],
    ['--jnit', 'x'],
  ]) {
    t.match(await gw(['policy', 'test', ...argv]), { code: 2, err: /^gw policy test: / }, argv.join(' '));
  }
});

const CAPPED = `schema: gw.policy_bundle.v1
bundle_id: capped
version: "1"
inline_rules:
  targets:
    - {id: all, effect: {decision: allow}}
    - {id: cheaper, when: {field: context.purpose, equals: cheap}, effect: {mutations: [{key: action.params.model, value: gpt-4o-mini}]}}
  budgets:
    - {id: cap, effect: {budget: {usd_max: "0.05", monthly_usd_max: "1"}}}
`;
const DEAR = 'action.params: {model: gpt-4, max_tokens: 1000, messages: []}';

t.test('caps are judged with the estimate of the described call, at the model that is sent', async (t) => {
  const cases = `  - {name: fits, facts: {action.params: {model: gpt-4, max_tokens: 833, messages: []}}, expect: {decision: allow}}
  - {name: too dear, facts: {${DEAR}}, expect: {decision: deny, reason: budget_exceeded, reason_codes: [budget_usd_max_exceeded]}}
  - {name: made cheaper, facts: {${DEAR}, purpose: cheap}, expect: {decision: allow}}
  - {name: stated tokens, facts: {${DEAR}, estimates: {tokens_out_max: 10}}, expect: {decision: allow}}
  - {name: more tokens, facts: {purpose: cheap, estimates: {tokens_in: 400000}}, expect: {decision: deny}}
  - {name: stated cost, facts: {estimates.cost_usd: "0.06"}, expect: {decision: deny}}
  - {name: a month that is used up, spent_usd: "0.9999", facts: {${DEAR}, purpose: cheap}, expect: {decision: deny, reason_codes: [budget_monthly_usd_max_exceeded]}}
  - {name: a cost that nobody knows, facts: {action.target_host: api.openai.com, action.target_path: /v1/unheard-of, action.method: POST}, expect: {decision: deny, reason_codes: [operation_not_understood]}}
`;
  const dir = folder(t, { 'policies/bundle.yaml': CAPPED, 'policies/tests/caps.yaml': suite(cases) });
  const { code, out } = await gw(['policy', 'test', join(dir, 'tests')]);
  t.equal(code, 0, out);
  t.match(out, /8 passed/);
});

t.test('explain says which cap a call was held against, and with which amounts', async (t) => {
  const cases = `  - {name: spent, spent_usd: "0.99", facts: {${DEAR}, purpose: cheap}, expect: {decision: allow}}\n`;
  const dir = folder(t, { 'policies/bundle.yaml': CAPPED, 'policies/tests/caps.yaml': suite(cases), 'dear.yaml': `${DEAR}\n` });
  const ask = (...args: readonly string[]) => gw(['policy', 'explain', ...args], { env: { GW_POLICIES_DIR: dir } });
  const dear = await ask(join(dir, '..', 'dear.yaml'));
  t.match(dear.out, /^deny \[budget_usd_max_exceeded\]: budget_exceeded\n/);
  t.match(dear.out, '\nthe cap of one request, 0.05 USD (budget.usd_max): the estimate of 0.06 USD is above it\n');
  t.match(
    dear.out,
    '\nthe cap of its project for a month, 1 USD (budget.monthly_usd_max): the estimate of 0.06 USD, beside 0 USD that are spent, fits\n',
  );
  const json = JSON.parse((await ask(join(dir, '..', 'dear.yaml'), '--json')).out) as { verdict: object; caps: object[] };
  t.match(json, {
    verdict: { decision: 'deny', reason_codes: ['budget_usd_max_exceeded'] },
    caps: [{ effect: 'usd_max', cap_usd: exactly('0.05'), cost_estimate_usd: exactly('0.06'), exceeded: true }, { exceeded: false }],
  });
  const spent = await ask(join(dir, 'tests', 'caps.yaml'), '--case', 'spent');
  t.match(spent.out, /^allow\n/);
  t.match(spent.out, 'the estimate of 0.0006 USD, beside 0.99 USD that are spent, fits');
});
