import t from 'tap';
import { permits } from '../../../src/base/model/reason-codes.ts';
import { decide } from '../../../src/decide/policy/evaluate.ts';
import type { Facts } from '../../../src/decide/policy/facts.ts';
import { GATE_CODES } from '../../../src/decide/policy/layers.ts';
import { fc } from '../../support/properties.ts';
import { bundleOf, compileAll, policyOf, someFacts } from './policy-facts.ts';

const LAYERS = ['identity', 'connectors', 'credentials', 'targets', 'budgets', 'risk', 'transforms', 'custom.x'];
const REFUSALS = ['deny', 'quarantine', 'require_approval', 'require_attribution', 'rate_limit'];

const clause = fc.oneof(
  fc.record({ field: fc.constant('context.workload.id'), equals: fc.constantFrom('w1', 'w2', 'w3') }),
  fc.record({ field: fc.constant('context.purpose'), not_in: fc.subarray(['a', 'b'], { minLength: 1 }) }),
  fc.record({
    field: fc.constant('context.action.params.model'),
    in: fc.subarray(['gpt-4o', 'x', 'y'], { minLength: 1 }),
    negate: fc.boolean(),
  }),
  fc.record({ field: fc.constant('context.estimates.tokens_in'), gt: fc.constantFrom(5, 50) }),
  fc.record({ field: fc.constant('context.attribution.project_id'), exists: fc.boolean() }),
);
const when = fc.oneof(
  { weight: 4, arbitrary: clause },
  fc.record({ any: fc.array(clause, { minLength: 1, maxLength: 3 }), negate: fc.boolean() }),
  fc.record({ not: clause }),
);

const effect = fc.oneof(
  fc.record({ decision: fc.constantFrom('allow', 'allow', 'downgrade', ...REFUSALS), rate_limit: fc.constant({ requests_per_minute: 5 }) }),
  fc.record({ decision: fc.constant('allow'), enforce_attribution: fc.constant({ require: ['project_id'] }) }),
  fc.record({ enforce_attribution: fc.constant({ require: ['project_id'] }) }),
  fc.record({ select_connector: fc.constantFrom('openai', 'gemini') }),
);

interface DrawnRule {
  readonly layer: string;
  readonly rule: Readonly<Record<string, unknown>>;
}

const drawnRule = fc
  .record({
    layer: fc.constantFrom(...LAYERS),
    priority: fc.integer({ min: -2, max: 2 }),
    when: fc.option(when, { nil: undefined }),
    effect,
  })
  .map(({ layer, ...rule }): DrawnRule => ({ layer, rule }));
const rules = fc
  .array(drawnRule, { maxLength: 12 })
  .map((drawn) => drawn.map(({ layer, rule }, i): DrawnRule => ({ layer, rule: { id: `r${i}`, ...rule } })));
const evaluation = fc.record({ merge_strategy: fc.constantFrom('first_match', 'strict'), stop_on: fc.subarray([...REFUSALS]) });
const facts = fc
  .record({
    workload_id: fc.constantFrom('w1', 'w2'),
    purpose: fc.constantFrom('a', 'c', undefined),
    model: fc.constantFrom('gpt-4o', 'x', 7, undefined),
    project: fc.boolean(),
  })
  .map(
    ({ model, project, ...rest }): Facts =>
      someFacts({ ...rest, params: model === undefined ? {} : { model }, attribution: project ? { project_id: 'p' } : {} }),
  );

function layered(drawn: readonly DrawnRule[]): Record<string, unknown[]> {
  const layers: Record<string, unknown[]> = {};
  for (const { layer, rule } of drawn) layers[layer] = [...(layers[layer] ?? []), rule];
  return layers;
}

t.test('the order of rules and of files never changes a verdict', async (t) => {
  const shuffled = rules.chain((drawn) =>
    fc.record({ drawn: fc.constant(drawn), other: fc.shuffledSubarray(drawn, { minLength: drawn.length }) }),
  );
  fc.assert(
    fc.property(shuffled, evaluation, facts, fc.boolean(), ({ drawn, other }, header, given, limited) => {
      const first = decide(policyOf(bundleOf(layered(drawn), header)), given, () => limited);
      t.same(
        decide(policyOf(bundleOf(layered(other), header)), given, () => limited),
        first,
      );
      const addons = other.map(({ layer, rule }, i) => ({
        text: JSON.stringify({ schema: 'gw.rule_file.v1', layer, rules: [rule] }),
        file: `${i}.yaml`,
      }));
      const { policy } = compileAll({ text: JSON.stringify({ schema: 'gw.policy_bundle.v1', evaluation: header }), addons });
      if (policy === undefined) throw new Error('the add-ons do not load');
      t.same(
        decide(policy, given, () => limited),
        first,
      );
    }),
    { numRuns: 60 },
  );
});

t.test('one more refusing rule never turns a refusal into an allow, but for the first one in an empty gating layer', async (t) => {
  const refusal = fc
    .record({
      layer: fc.constantFrom(...LAYERS),
      priority: fc.integer({ min: -2, max: 2 }),
      when: fc.option(when, { nil: undefined }),
      decision: fc.constantFrom(...REFUSALS),
    })
    .map(({ layer, decision, ...rule }) => ({
      layer,
      rule: {
        id: 'more',
        ...rule,
        effect: {
          decision,
          rate_limit: { requests_per_minute: 1 },
          default_attribution: { project_id: 'given' },
        },
      },
    }));
  const emptied = fc.subarray(LAYERS, { maxLength: 2 });
  let refusedBefore = 0;
  fc.assert(
    fc.property(rules, emptied, refusal, evaluation, facts, fc.boolean(), (drawn, empty, more, header, given, limited) => {
      const before = layered(drawn);
      for (const layer of empty) before[layer] ??= [];
      fc.pre(!(before[more.layer]?.length === 0 && more.layer in GATE_CODES));
      const was = decide(policyOf(bundleOf(before, header)), given, () => limited);
      if (permits(was.decision)) return;
      refusedBefore++;
      const after = { ...before, [more.layer]: [...(before[more.layer] ?? []), more.rule] };
      const is = decide(policyOf(bundleOf(after, header)), given, () => limited);
      if (permits(is.decision)) throw new Error(`a refusal became ${is.decision}`);
    }),
    { numRuns: 150 },
  );
  t.ok(refusedBefore > 20, 'the law was tried on enough refusals');
  const lacking = {
    budgets: [{ id: 'who', effect: { enforce_attribution: { require: ['project_id'] } } }],
    risk: [{ id: 'ok', priority: 1, effect: { decision: 'allow' } }],
  };
  t.equal(decide(policyOf(bundleOf(lacking)), someFacts()).decision, 'require_attribution');
  for (const decision of REFUSALS) {
    const more = { id: 'more', effect: { decision, rate_limit: { requests_per_minute: 1 }, default_attribution: { project_id: 'given' } } };
    t.equal(
      decide(policyOf(bundleOf({ ...lacking, risk: [...lacking.risk, more] })), someFacts()).decision,
      'require_attribution',
      `a rule that decides ${decision} supplies nothing that another one requires`,
    );
  }
  const exception = { risk: [{ id: 'ok', effect: { decision: 'allow' } }], targets: [] as unknown[] };
  t.equal(decide(policyOf(bundleOf(exception)), someFacts()).decision, 'deny');
  exception.targets.push({
    id: 'bad',
    when: { field: 'context.action.target_host', equals: 'evil.example' },
    effect: { decision: 'deny' },
  });
  t.equal(decide(policyOf(bundleOf(exception)), someFacts()).decision, 'allow', 'the one exception');
});

t.test('nothing is allowed without a matching rule that allows', async () => {
  fc.assert(
    fc.property(rules, evaluation, facts, (drawn, header, given) => {
      const verdict = decide(policyOf(bundleOf(layered(drawn), header)), given);
      if (!permits(verdict.decision)) return;
      const allowing = drawn.filter(({ rule }) => JSON.stringify(rule['effect']).match(/allow|downgrade/)).map(({ rule }) => rule['id']);
      if (!verdict.matched.some((rule) => allowing.includes(rule.rule_id))) throw new Error('allowed by nobody');
    }),
    { numRuns: 60 },
  );
});

t.test('the index of a large layer leaves out no rule that matches', async (t) => {
  const many = fc.array(
    fc.oneof(
      fc.record({ field: fc.constant('context.workload.id'), equals: fc.integer({ min: 0, max: 30 }).map((n) => `w${n}`) }),
      fc.record({
        field: fc.constant('context.action.params.model'),
        in: fc.array(
          fc.integer({ min: 0, max: 30 }).map((n) => `m${n}`),
          { minLength: 1, maxLength: 3 },
        ),
      }),
      fc.record({
        field: fc.constant('context.labels.team'),
        equals: fc.integer({ min: 0, max: 30 }).map((n) => `t${n}`),
        negate: fc.boolean(),
      }),
      clause,
    ),
    { minLength: 20, maxLength: 120 },
  );
  const model = fc.oneof(
    fc.integer({ min: 0, max: 30 }).map((n) => `m${n}`),
    fc.constant(['m1', 'm2']),
    fc.constant(5),
    fc.constant(undefined),
  );
  let found = 0;
  fc.assert(
    fc.property(many, fc.integer({ min: 0, max: 30 }), model, fc.integer({ min: 0, max: 30 }), (conditions, workload, asked, team) => {
      const policy = policyOf(
        bundleOf({
          risk: conditions.map((condition, i) => ({ id: `r${i}`, priority: i % 5, when: condition, effect: { decision: 'deny' } })),
        }),
      );
      const given = someFacts({
        workload_id: `w${workload}`,
        params: asked === undefined ? {} : { model: asked },
        labels: { team: `t${team}` },
      });
      const layer = policy.layers[0]!;
      const positions = layer.index
        .candidates(given)
        .flat()
        .sort((a, b) => a - b);
      t.equal(new Set(positions).size, positions.length, 'no position twice');
      const matching = (indexes: readonly number[]) => indexes.filter((index) => layer.rules[index]?.matches(given));
      const all = matching(layer.rules.map((_, i) => i));
      found += all.length;
      t.same(matching(positions), all);
    }),
    { numRuns: 30 },
  );
  t.ok(found > 100, 'rules matched');
});

t.test('no text makes the compiler throw', async () => {
  const scraps = [
    'schema: gw.policy_bundle.v1\n',
    'inline_rules:\n',
    '  risk:\n',
    '  - id: a\n',
    '    when: {field: stream, equals: ',
    '[',
    '}',
    '"',
    '&a *a',
    '!!x',
    '\t',
    '- ',
    ': ',
    '#',
    'null',
    '__proto__',
    'constructor: 1\n',
    '? ',
    '|',
    '>',
  ];
  fc.assert(
    fc.property(fc.array(fc.oneof(fc.constantFrom(...scraps), fc.string({ maxLength: 8 })), { maxLength: 14 }), (parts) => {
      const { policy, errors } = compileAll({ text: parts.join('') });
      if ((policy === undefined) === (errors === undefined)) throw new Error('either a policy or errors');
    }),
    { numRuns: 120 },
  );
  const shape = fc.object({
    key: fc.constantFrom(
      'id',
      'when',
      'all',
      'any',
      'not',
      'negate',
      'field',
      'equals',
      'in',
      'effect',
      'decision',
      'mutations',
      'key',
      'value',
      'conditions',
      '__proto__',
      'constructor',
      'toString',
    ),
    maxDepth: 4,
  });
  fc.assert(
    fc.property(fc.array(shape, { maxLength: 4 }), (drawn) => {
      const { policy, errors } = compileAll({ text: JSON.stringify({ schema: 'gw.policy_bundle.v1', inline_rules: { risk: drawn } }) });
      if ((policy === undefined) === (errors === undefined)) throw new Error('either a policy or errors');
    }),
    { numRuns: 120 },
  );
});
