import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import t from 'tap';
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
