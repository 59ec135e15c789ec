import t from 'tap';
import { FIELD_NAMES, resolveField } from '../../../src/decide/policy/fields.ts';
import { giveFacts, plainCall } from '../../../src/decide/policy/given-facts.ts';
import { readSuite } from '../../../src/decide/policy/suite.ts';
import { inputOf, mismatches } from '../../../src/decide/policy/suite-case.ts';
import { compileAll } from './policy-facts.ts';

const SAMPLES: Readonly<Record<string, unknown>> = {
  text: 'x',
  connector: 'x',
  host: 'x.example',
  method: 'PUT',
  integer: 7,
  number: 0.5,
  money: '0.25',
  boolean: true,
  time: '2027-01-31T08:00:00.000Z',
  list: ['a', 'b'],
  connector_list: ['a'],
  header_names: ['a'],
  open: 'x',
};

t.test('every field that a rule can name can be given, as a record observes it, and be taken away', async (t) => {
  for (const name of FIELD_NAMES) {
    const path = name.replace('<key>', 'k').replace('<path>', 'a.b').replace('<name>', 'k');
    const field = resolveField(path);
    if (field === undefined) throw new Error(`no field ${path}`);
    const value = field.type === 'enum' ? field.values?.at(-1) : SAMPLES[field.type];
    const facts = plainCall();
    t.same(giveFacts(facts, { [`context.${path}`]: value }), [], path);
    const got = field.get(facts);
    const shown = got instanceof Set ? [...got] : (field.observed?.(got) ?? got);
    t.same(shown, value, path);
    t.same(giveFacts(facts, { [path]: null }), [], path);
    // A call names its own model at least.
    const left = path === 'action.models' ? ['gpt-4o'] : undefined;
    t.same(field.get(facts) ?? undefined, left, `${path} taken away`);
  }
});

t.test('maps stand for the names below them, and body and labels are replaced as a whole', async (t) => {
  const facts = plainCall();
  giveFacts(facts, {
    action: { method: 'get', params: { model: 'm', stream: true, opts: { a: [1, 2] } } },
    context: { labels: { team: 'blue' } },
    org_attribution: { project_id: 'p', 'labels.env': 'prod' },
  });
  t.match(facts, { action_method: 'GET', stream: true, labels: { team: 'blue' }, target_host: 'api.openai.com' });
  t.same(facts.params, { model: 'm', stream: true, opts: { a: [1, 2] } });
  t.same(facts.org_attribution, { project_id: 'p', labels: { env: 'prod' } });
  giveFacts(facts, { 'action.params.opts.a.1': 9, 'action.params.model': null, 'context.labels.env': 'prod' });
  t.same(facts.params, { model: null, stream: true, opts: { a: [1, 9] } });
  t.same(facts.labels, { team: 'blue', env: 'prod' });
  giveFacts(facts, { 'action.params.__proto__': 1 });
  t.equal(Object.getPrototypeOf(facts.params), Object.prototype);
});

t.test('what is no field, or no value of it, is told with the nearest name', async (t) => {
  t.match(giveFacts(plainCall(), { 'action.params': 5, purpse: 'x', 'estimates.tokens_in': '5', connection_type: 'x', 'a.b': { c: 1 } }), [
    { path: 'action.params' },
    { path: 'purpse', hint: 'did you mean "purpose"?' },
    { path: 'estimates.tokens_in', message: 'estimates.tokens_in is a whole number' },
    { path: 'connection_type' },
    { path: 'a.b.c' },
  ]);
  t.match(giveFacts(plainCall(), { 'contxt.purpose': 'x' }), [{ path: 'contxt.purpose', hint: 'did you mean "context.purpose"?' }]);
});

t.test('a suite with mistakes reports all of them with their place', async (t) => {
  const { errors } = readSuite({
    file: 's.yaml',
    text: [
      'schema: gw.policy_tests.v1',
      'facs: {}',
      'tier: gold',
      'cases:',
      '  - {name: a, facts: {purpse: x}, expect: {decision: deny}}',
      '  - {name: a, expect: {decison: deny}, errors: []}',
      '  - {facts: [], expect: {}}',
      '  - nonsense',
    ].join('\n'),
  });
  t.match(errors, [
    { code: 'unknown_key', line: 2, hint: 'did you mean "facts"?' },
    { code: 'bad_value', line: 3 },
    { code: 'unknown_field', line: 5, path: 'cases[0].facts.purpse' },
    { code: 'missing_key', line: 6, message: 'a case needs either expect or errors' },
    { code: 'bad_value', line: 6, message: 'two cases have the name "a"' },
    { code: 'unknown_key', line: 6, hint: 'did you mean "decision"?' },
    { code: 'missing_key', line: 7, message: 'the case has no name' },
    { code: 'bad_type', line: 7 },
    { code: 'empty', line: 7 },
    { code: 'bad_type', line: 8 },
  ]);
  t.match(readSuite({ file: 's.yaml', text: 'cases: []' }).errors, [{ code: 'bad_schema' }]);
  t.match(readSuite({ file: 's.yaml', text: 'schema: gw.policy_tests.v1\ncases: []' }).errors, [{ code: 'empty' }]);
  t.match(readSuite({ file: 's.yaml', text: 'schema: gw.policy_tests.v1' }).errors, [{ code: 'missing_key' }]);
  t.match(readSuite({ file: 's.yaml', text: 'a: [' }).errors, [{ code: 'syntax' }]);
});

t.test('a case that is not as expected says what differs, and what a case states replaces what its suite states', async (t) => {
  const { suite } = readSuite({
    file: 's.yaml',
    text: `
schema: gw.policy_tests.v1
bundle: "{schema: gw.policy_bundle.v1, inline_rules: {risk: [{id: a, effect: {decision: allow}}]}}"
facts: {purpose: p, labels: {team: blue}}
cases:
  - {name: as expected, expect: {decision: allow, matched: [risk/a]}}
  - {name: other, facts: {labels.team: red}, expect: {decision: deny, effects: {mutations: [], select_connector: openai}}}
  - {name: own bundle, bundle: "schema: gw.policy_bundle.v1", expect: {reason_codes: [default_deny]}}
  - {name: loads, errors: [{code: bad_schema}]}
  - {name: does not load, bundle: "{}", expect: {decision: deny}}
`,
  });
  const found = suite?.cases.map((one) => {
    const { bundle, ...input } = inputOf(one);
    return mismatches(one, compileAll({ text: bundle.text, ...input }));
  });
  t.match(found, [
    [],
    [
      { member: 'decision', expected: 'deny', actual: 'allow' },
      { member: 'effects.select_connector', expected: 'openai', actual: null },
    ],
    [],
    [{ member: 'errors', expected: [{ code: 'bad_schema' }], actual: [] }],
    [{ member: 'errors', expected: [], actual: [{ code: 'bad_schema' }] }],
  ]);
  t.same(suite?.cases[1]?.facts.labels, { team: 'red' });
  t.equal(suite?.cases[0]?.facts.purpose, 'p');
});

t.test('a label that a case gives by one of its names is there by both, unless it is taken away by one', async (t) => {
  const asked = (facts: string) => {
    const text = `schema: gw.policy_tests.v1\ncases: [{name: a, facts: ${facts}, expect: {decision: deny}}]\n`;
    const { labels, attribution } = readSuite({ text, file: 'suite.yaml' }).suite?.cases[0]?.facts ?? plainCall();
    return [labels['team'], attribution.labels?.['team']];
  };
  t.same(asked('{labels.team: red}'), ['red', 'red']);
  t.same(asked('{attribution.labels.team: red}'), ['red', 'red']);
  t.same(asked('{attribution: {labels: {team: red}}}'), ['red', 'red']);
  t.same(asked('{labels.team: red, attribution.labels.team: blue}'), ['red', 'blue']);
  t.same(asked('{attribution.labels.team: red, labels.team: null}'), [undefined, 'red']);
  t.same(asked('{labels.other: red}'), [undefined, undefined]);
});
