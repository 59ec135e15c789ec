import t from 'tap';
import type { ErrorDetail } from '../../../src/base/lib/gateway-error.ts';
import type { PolicyInput } from '../../../src/decide/policy/compile.ts';
import { checkPolicy } from '../../../src/policy-tools/check.ts';

const TARGETS = 'schema: gw.policy_bundle.v1\ninline_rules:\n  targets:\n';
const bundle = (rules: string) => TARGETS + rules.replace(/^/gm, '    ');

/** `code rule_id`, in the order in which they are shown. */
function codes(text: string, overlays: PolicyInput['overlays'] = {}): string[] {
  return warnings(text, overlays).map(({ code, rule_id }) => `${code} ${rule_id}`);
}

function warnings(text: string, overlays: PolicyInput['overlays'] = {}): readonly ErrorDetail[] {
  const input: PolicyInput = { bundle: { text, file: 'bundle.yaml' }, overlays, tier: 'enterprise' };
  const { policy, errors, warnings } = checkPolicy(input, { allowUnsupported: true });
  if (policy === undefined) throw new Error(JSON.stringify(errors));
  return warnings;
}

const overlay = (rules: string) => ({
  text: `schema: gw.policy_bundle.v1\ninline_rules: {targets: [${rules}]}\n`,
  file: 'overlays/org.yaml',
});

const CASES: readonly (readonly [name: string, text: string, expected: readonly string[]])[] = [
  [
    'yes and no are texts, and so are on and off',
    bundle(
      '- {id: a, conditions: {action.params.store: yes}, effect: {decision: deny}}\n' +
        '- {id: b, conditions: {action.params.store: {in: [x, Off]}}, effect: {decision: deny}}\n' +
        '- {id: c, conditions: {action.params.store: "no", labels.opt: {equals: no}}, effect: {decision: deny}}\n' +
        '- {id: d, conditions: {action.params.store: {in: [true, "on"]}, action.params.user: only}, effect: {decision: deny}}',
    ),
    ['text_not_boolean a', 'text_not_boolean b'],
  ],
  [
    'an empty list holds for nothing, and negated for everything',
    bundle(
      '- {id: a, conditions: {org_id: {in: []}}, effect: {decision: deny}}\n- {id: b, conditions: {org_id: {not_in: []}}, effect: {decision: deny}}',
    ),
    ['empty_list a', 'empty_list b'],
  ],
  ['an allow with a condition is fine', bundle('- {id: a, conditions: {stream: true}, effect: {decision: allow}}'), []],
  ['an allow without one is not', bundle('- {id: a, effect: {decision: allow}}'), ['unconditional_allow a']],
  [
    'nor a downgrade',
    bundle('- {id: a, effect: {decision: downgrade, mutations: [{key: action.params.model, value: m}]}}'),
    ['unconditional_allow a'],
  ],
  ['a deny without a condition is meant', bundle('- {id: a, effect: {decision: deny}}'), []],

  ['a negation on a field that each request has', bundle('- {id: a, conditions: {org_id: {not_in: [x]}}, effect: {decision: deny}}'), []],
  [
    'a negation on one that may be missing',
    bundle('- {id: a, conditions: {caller_id: {not_in: [x]}}, effect: {decision: deny}}'),
    ['negation_on_optional a'],
  ],
  [
    'under negate',
    bundle('- {id: a, when: {field: labels.x, equals: x, negate: true}, effect: {decision: deny}}'),
    ['negation_on_optional a'],
  ],
  [
    'an even number of negations is none',
    bundle('- {id: a, when: {field: labels.x, not_in: [x], negate: true}, effect: {decision: deny}}'),
    [],
  ],
  [
    'whoever asks exists has thought of it',
    bundle('- {id: a, conditions: {caller_id: {exists: true, not_in: [x]}}, effect: {decision: deny}}'),
    [],
  ],

  [
    'money as a number, in a list too',
    bundle('- {id: a, conditions: {estimates.cost_usd: {in: [0.5, "1"]}}, effect: {budget: {usd_max: 2}}}'),
    ['money_as_number a', 'money_as_number a'],
  ],
  ['money as text', bundle('- {id: a, conditions: {estimates.cost_usd: {gt: "0.5"}}, effect: {budget: {usd_max: "2"}}}'), []],

  [
    'a rule below one that decides all of its requests',
    bundle(`- {id: a, conditions: {stream: true}, priority: 1, effect: {decision: deny}}
- {id: b, conditions: {caller_id: p, stream: true}, effect: {decision: deny}}
- {id: c, conditions: {caller_id: p}, effect: {decision: deny}}`),
    ['unreachable_rule b'],
  ],
  [
    'the order of the file does not matter, priority does',
    bundle(`- {id: b, conditions: {caller_id: p}, effect: {decision: deny}}
- {id: a, priority: 1, effect: {decision: deny}}`),
    ['unreachable_rule b'],
  ],
  [
    'rules that may have no opinion end no layer',
    bundle(`- {id: a, priority: 1, effect: {decision: rate_limit, rate_limit: {requests_per_minute: 1}}}
- {id: b, priority: 1, effect: {decision: require_attribution, enforce_attribution: {require: [project_id]}}}
- {id: c, conditions: {caller_id: p}, effect: {decision: deny}}`),
    [],
  ],
  [
    'effects below an allowing rule still count, below a refusing one they do not',
    `schema: gw.policy_bundle.v1
inline_rules:
  budgets:
    - {id: a, conditions: {stream: true}, priority: 1, effect: {decision: allow}}
    - {id: b, conditions: {stream: true}, effect: {budget: {usd_max: "1"}}}
  risk:
    - {id: a, conditions: {stream: true}, priority: 1, effect: {decision: deny}}
    - {id: b, conditions: {stream: true}, effect: {budget: {usd_max: "1"}}}`,
    ['unreachable_rule b'],
  ],
  [
    'a negation means different things in an allowing and in a refusing rule',
    bundle(`- {id: a, conditions: {caller_id: {not_in: [x]}}, priority: 1, effect: {decision: allow}}
- {id: b, conditions: {caller_id: {not_in: [x]}, stream: true}, effect: {decision: allow}}
- {id: c, conditions: {caller_id: {not_in: [x]}}, effect: {decision: deny}}`),
    ['negation_on_optional a', 'unreachable_rule b', 'negation_on_optional b', 'negation_on_optional c'],
  ],
  [
    'tests that exclude each other',
    bundle(`- {id: a, when: {all: [{field: workload.id, equals: x}, {field: workload.id, in: [y, z]}]}, effect: {decision: deny}}
- {id: b, conditions: {caller_id: {exists: false, equals: x}}, effect: {decision: deny}}
- {id: c, conditions: {org_id: {in: [x, y], not_in: [y, x]}}, effect: {decision: deny}}
- {id: d, when: {any: [{field: workload.id, equals: x}, {field: workload.id, equals: y}]}, effect: {decision: deny}}
- {id: list, conditions: {risk.signals: {in: [x]}}, when: {field: risk.signals, in: [y]}, effect: {decision: deny}}`),
    ['unreachable_rule a', 'unreachable_rule b', 'unreachable_rule c'],
  ],
  [
    'texts that are one, and numbers and times that no value can be',
    bundle(`- {id: a, when: {all: [{field: action.params.model, equals: x}, {field: action.params.model, equals: y}]}, effect: {decision: deny}}
- {id: b, conditions: {attribution.labels.team: {in: [x, y], starts_with: z}}, effect: {decision: deny}}
- {id: c, conditions: {estimates.cost_usd: {gt: "5", lt: "1"}}, effect: {decision: deny}}
- {id: d, conditions: {estimates.cost_usd: {gte: "5", lt: "5"}}, effect: {decision: deny}}
- {id: e, conditions: {time: {gte: "2027-02-01T00:00:00Z", lt: "2027-01-01T00:00:00Z"}}, effect: {decision: deny}}
- {id: f, conditions: {workload.id: {equals: x, glob: "y-*"}}, effect: {decision: deny}}
- {id: g, conditions: {action.params.n: {equals: 3, gt: 5}, estimates.tokens_in: {equals: 3, gt: 5}}, effect: {decision: deny}}`),
    ['a', 'b', 'c', 'd', 'e', 'f', 'g'].map((id) => `unreachable_rule ${id}`),
  ],
  [
    'what a value can be is no contradiction',
    bundle(`- {id: a, when: {all: [{field: action.params.model, equals: GPT-4}, {field: action.params.model, equals: gpt-4}]}, effect: {decision: deny}}
- {id: b, conditions: {action.params.model: {in: [x, y], starts_with: y}}, effect: {decision: deny}}
- {id: c, conditions: {estimates.cost_usd: {gte: "5", lte: "5"}}, effect: {decision: deny}}
- {id: d, conditions: {estimates.cost_usd: {gt: "5", gte: "7"}}, effect: {decision: deny}}
- {id: e, conditions: {action.params.x: {in: [1], gt: 5}, action.params.stop: {in: [x], contains: y}}, effect: {decision: deny}}
- {id: f, conditions: {action.params.model: {equals: GPT-4, starts_with: gpt}}, effect: {decision: deny}}
- {id: g, conditions: {time: {gte: "2027-01-01T00:00:00Z", lt: "2027-02-01T00:00:00Z"}}, effect: {decision: deny}}`),
    [],
  ],
  [
    'an asterisk where a text is compared as a whole',
    bundle(`- {id: a, conditions: {action.params.model: "gpt-4*"}, effect: {decision: deny}}
- {id: b, conditions: {workload.id: {in: [x, "intern-*"]}}, effect: {decision: deny}}
- {id: c, conditions: {action.params.model: {glob: "gpt-4*"}, attribution.labels.x: "*"}, effect: {decision: deny}}`),
    ['never_equal a', 'never_equal b'],
  ],
  [
    'a number or a truth value where only texts are',
    bundle(`- {id: a, conditions: {context.labels.cost_center: 4711}, effect: {decision: deny}}
- {id: b, when: {field: context.attribution.labels.x, in: ["1", 2]}, effect: {decision: deny}}
- {id: c, conditions: {context.action.params.model: true, context.action.params.seed: 7}, effect: {decision: deny}}
- {id: d, conditions: {context.labels.cost_center: "4711", context.action.params.model: {starts_with: "4"}}, effect: {decision: deny}}`),
    ['never_equal a', 'never_equal b', 'never_equal c'],
  ],
  [
    'a member of the body that is spelt nearly as a known one',
    bundle(`- {id: a, conditions: {context.action.params.modle: gpt-4}, effect: {decision: deny}}
- {id: b, when: {field: context.action.params.message.0, exists: true}, effect: {decision: deny}}
- {id: c, when: {field: context.action.params.max_token, exists: true}, effect: {decision: deny}}
- {id: d, conditions: {context.action.params.top_k: 1, context.action.params.mode: x, context.action.params.stream_options.include_usage: true}, effect: {decision: deny}}`),
    ['near_parameter a', 'near_parameter c'],
  ],
  [
    'layers behind one that stops everything',
    `schema: gw.policy_bundle.v1
inline_rules:
  targets: [{id: a, effect: {decision: deny}}]
  risk: [{id: b, conditions: {stream: true}, effect: {decision: deny}}]`,
    ['unreachable_rule b'],
  ],
  [
    'and behind an empty gating layer, unless nothing stops',
    `schema: gw.policy_bundle.v1
inline_rules: {targets: [], risk: [{id: b, conditions: {stream: true}, effect: {decision: deny}}]}`,
    ['unreachable_rule b'],
  ],
  [
    'stop_on: [] evaluates every layer',
    `schema: gw.policy_bundle.v1
evaluation: {stop_on: []}
inline_rules: {targets: [], risk: [{id: b, conditions: {stream: true}, effect: {decision: deny}}]}`,
    [],
  ],
  [
    'one allowing rule among refusing ones makes the layer an allow-list',
    bundle(`- {id: a, conditions: {stream: true}, effect: {decision: deny}}
- {id: b, conditions: {caller_id: p}, effect: {decision: allow}}`),
    ['becomes_allow_list b'],
  ],
  [
    'one that ranks below all refusals exempts from none of them: the layer is meant to be an allow-list',
    bundle(`- {id: a, priority: 1, conditions: {stream: true}, effect: {decision: deny}}
- {id: b, conditions: {caller_id: p}, effect: {decision: allow}}`),
    [],
  ],
  [
    'files beside inline rules do not count',
    `schema: gw.policy_bundle.v1
files: [rules/a.yaml, rules/b.yaml]
inline_rules: {risk: [{id: a, conditions: {stream: true}, effect: {decision: deny}}]}`,
    ['files_do_not_count undefined'],
  ],
  [
    'outside of the gating layers nothing is an allow-list',
    `schema: gw.policy_bundle.v1
inline_rules: {risk: [{id: a, conditions: {stream: true}, effect: {decision: deny}}, {id: b, conditions: {caller_id: p}, effect: {decision: allow}}]}`,
    [],
  ],
  [
    'in strict every matching rule is asked, so none is shadowed',
    `schema: gw.policy_bundle.v1
evaluation: {merge_strategy: strict}
inline_rules: {risk: [{id: a, priority: 1, effect: {decision: deny}}, {id: b, conditions: {stream: true}, effect: {decision: deny}}]}`,
    [],
  ],
];

t.test('what loads and is probably not meant', async (t) => {
  for (const [name, text, expected] of CASES) t.strictSame(codes(text), expected, name);
});

t.test('overlays that change what a gating layer means', async (t) => {
  const refusing = bundle('- {id: a, conditions: {stream: true}, effect: {decision: deny}}');
  const allow = overlay('{id: o, conditions: {caller_id: p}, effect: {decision: allow}}');
  t.strictSame(codes(refusing, { org: allow }), ['becomes_allow_list o']);
  t.strictSame(codes(refusing, { org: allow, node: overlay('{id: n, conditions: {caller_id: q}, effect: {decision: allow}}') }), [
    'becomes_allow_list o',
  ]);
  const empty = 'schema: gw.policy_bundle.v1\ninline_rules: {targets: []}';
  t.strictSame(codes(empty, { org: overlay('{id: o, conditions: {caller_id: p}, effect: {decision: deny}}') }), ['opens_empty_layer o']);
  t.strictSame(codes(empty, { org: allow }), [], 'an allow-list still denies the rest');
});

t.test('a gating layer that loses its last rule is told, with the rule that takes it', async (t) => {
  const one = bundle('- {id: a, conditions: {stream: true}, effect: {decision: deny}}');
  const off = overlay('{id: a, disabled: true}');
  t.strictSame(codes(one, { org: off }), ['empties_layer a']);
  t.match(warnings(one, { org: off })[0], {
    file: 'overlays/org.yaml',
    line: 2,
    message: 'the layer targets has no rule left, so it counts as absent: it denies nothing',
  });
  const back = { ...overlay('{id: b, conditions: {caller_id: p}, effect: {decision: deny}}'), file: 'overlays/node.yaml' };
  t.strictSame(codes(one, { org: off, node: back }), [], 'a rule that comes later fills it, and opens nothing');
  const two = bundle(
    '- {id: a, conditions: {stream: true}, effect: {decision: deny}}\n- {id: b, conditions: {org_id: x}, effect: {decision: deny}}',
  );
  t.strictSame(codes(two, { org: off }), []);
  const empty = 'schema: gw.policy_bundle.v1\ninline_rules: {targets: []}';
  t.strictSame(codes(empty, { org: off }), ['disables_nothing a'], 'what is written down as empty goes on denying');
});

t.test('what a warning about texts says to write loads', async (t) => {
  const rule = (test: string) => bundle(`- {id: a, conditions: {context.labels.n: {${test}}}, effect: {decision: deny}}`);
  t.match(warnings(rule('equals: 5')), [{ code: 'never_equal', hint: 'write "5"' }]);
  t.strictSame(codes(rule('equals: "5"')), []);
  t.match(warnings(rule('gt: 5')), [{ message: /texts have no order/, hint: 'use equals, in or matches, with texts' }]);
  t.strictSame(codes(rule('matches: "^[6-9]$"')), []);
});

t.test('a warning names place, rule and what to do', async (t) => {
  const [first] = warnings(bundle('- id: a\n  conditions:\n    caller_id: {not_in: [x]}\n  effect: {decision: deny}\n'));
  t.strictSame(first, {
    path: 'inline_rules.targets[0]',
    message: 'context.caller_id may be missing, and under a negation the rule also refuses requests without it',
    file: 'bundle.yaml',
    line: 6,
    column: 21,
    rule_id: 'a',
    code: 'negation_on_optional',
    hint: 'say which is meant: beside it {field: context.caller_id, exists: true} leaves these requests out; any: [{field: context.caller_id, exists: false}, this test] takes them in',
  });
});

t.test('disabled that takes nothing away is told, by an overlay alone', async (t) => {
  const base = bundle(
    '- {id: a, conditions: {org_id: x}, effect: {decision: deny}}\n- {id: off, disabled: true, effect: {decision: deny}}',
  );
  t.same(codes(base), [], 'a rule that is switched off where it stands');
  t.same(codes(base, { org: overlay('{id: a, disabled: true}') }), ['empties_layer a']);
  t.same(codes(base, { org: overlay('{id: A, disabled: true}') }), ['disables_nothing A']);
  t.match(warnings(base, { org: overlay('{id: A, disabled: true}') })[0], {
    file: 'overlays/org.yaml',
    line: 2,
    message: 'disabled takes no rule away: the layer targets has no rule "A" below this overlay',
  });
  const node = { ...overlay('{id: a, disabled: true}'), file: 'overlays/node.yaml' };
  t.same(codes(base, { org: overlay('{id: a, disabled: true}'), node }), ['empties_layer a', 'disables_nothing a'], 'what is gone already');
});

/**
 * A rule over one condition, and what is said of it: the doors at which it never matches or refuses everything, and
 * what to ask for.
 */
const DOORS: readonly (readonly [when: string, decision: string, message: RegExp, hint: RegExp])[] = [
  [
    '{field: context.purpose, equals: x}',
    'allow',
    /never matches a call by a base URL \(sdk_redirect\) or the proxy \(connect_proxy\)/,
    /attribution\.labels\.purpose/,
  ],
  ['{field: purpose, exists: true}', 'deny', /never matches/, /connection_type, equals: direct_api/],
  [
    '{field: purpose, exists: false}',
    'deny',
    /refuses every call by a base URL \(sdk_redirect\) or the proxy/,
    /attribution\.labels\.purpose/,
  ],
  ['{field: purpose, not_in: [x]}', 'deny', /refuses every call/, /./],
  ['{field: purpose, not_in: [x]}', 'allow', /never matches a call by a base URL/, /./],
  ['{all: [{field: connection_type, equals: connect_proxy}, {field: purpose, equals: x}]}', 'deny', /can never match$/, /purpose/],
  [
    '{all: [{field: traffic_class, equals: ambient}, {field: delegation.depth, gt: 1}]}',
    'deny',
    /delegation token, so this rule can never match$/,
    /remove/,
  ],
  [
    '{all: [{field: connection_type, not_equals: direct_api}, {field: delegation.token_id, exists: true}]}',
    'deny',
    /can never match$/,
    /./,
  ],
  ['{field: labels.Team, equals: x}', 'deny', /lower case.*never matches a call by a base URL/, /ask for context\.labels\.team;/],
  ['{field: attribution.labels.Cost Center, equals: x}', 'deny', /never matches a call/, /^say which doors/],
  [
    '{field: action.header.X-GW-Label-Team, equals: true}',
    'deny',
    /by the structured API \(direct_api\)/,
    /ask for context\.attribution\.labels\.team/,
  ],
  [
    '{field: action.header.X-GW-Project-ID, exists: false}',
    'deny',
    /refuses every call by the structured API/,
    /context\.attribution\.project_id/,
  ],
  ['{field: action.header.a b, exists: true}', 'deny', /no header can have this name, so this rule can never match/, /remove/],
];

t.test('a rule that waits for what never comes by a door that it is for is told, with what to ask for', async (t) => {
  for (const [when, decision, message, hint] of DOORS) {
    const rules = `- {id: a, when: ${when}, effect: {decision: ${decision}}}`;
    const [found, ...others] = warnings(bundle(rules)).filter(({ code }) => code === 'never_at_door');
    t.match(found, { rule_id: 'a', message, hint }, rules);
    t.same(others, [], rules);
  }
});

t.test('a rule that says for which doors it is, or asks for something else as well, is not told', async (t) => {
  for (const when of [
    '{all: [{field: connection_type, equals: direct_api}, {field: purpose, equals: x}]}',
    '{all: [{field: connection_type, in: [direct_api]}, {field: delegation.depth, gt: 1}]}',
    '{all: [{field: connection_type, not_in: [direct_api]}, {field: action.header.x-gw-label-team, equals: true}]}',
    '{any: [{field: purpose, equals: x}, {field: attribution.labels.purpose, equals: x}]}',
    '{field: labels.team, equals: x}',
    '{field: attribution.labels.cost_center, exists: true}',
    '{field: action.header.x-stainless-lang, exists: true}',
  ])
    t.same(codes(bundle(`- {id: a, when: ${when}, effect: {decision: deny}}`)), [], when);
});
