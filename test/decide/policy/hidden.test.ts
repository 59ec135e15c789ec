import t from 'tap';
import { PLAIN_READING, type Reading } from '../../../src/base/catalogue/reading.ts';
import { permits, severityOf } from '../../../src/base/model/reason-codes.ts';
import { decide, observe } from '../../../src/decide/policy/evaluate.ts';
import type { Facts } from '../../../src/decide/policy/facts.ts';
import { recheck } from '../../../src/decide/policy/recheck.ts';
import { fc } from '../../support/properties.ts';
import { bundleOf, policyOf, someFacts } from './policy-facts.ts';

const HIDDEN: Reading = { ...PLAIN_READING, hidesModel: true, hidesBody: true };
const NOT_UNDERSTOOD = ['operation_not_understood'];

/** A call whose operation nobody knows: what its body says is missing in the facts. */
function hiddenCall(changes: Partial<Facts> = {}): Facts {
  return someFacts({ target_path: '/v1/brand/new', params: {}, stream: false, reading: HIDDEN, ...changes });
}

const MODEL = 'context.action.params.model';
const ALLOW_HOST = { id: 'host', when: { field: 'action.target_host', equals: 'api.openai.com' }, effect: { decision: 'allow' } };
const deny = (id: string, when: unknown, more: Readonly<Record<string, unknown>> = {}) => ({
  id,
  when,
  effect: { decision: 'deny', ...more },
});

t.test('a rule that needs what a call hides refuses it, whichever way it asks', async (t) => {
  const asked: readonly (readonly [string, unknown])[] = [
    ['a bad model', { field: MODEL, equals: 'gpt-4' }],
    ['no good model', { field: MODEL, not_in: ['gpt-4o-mini'] }],
    ['no model', { field: MODEL, exists: false }],
    ['some model', { field: MODEL, exists: true }],
    ['a stream', { field: 'context.stream', equals: true }],
    ['another param', { field: 'context.action.params.tools', exists: true }],
    ['tokens', { field: 'context.estimates.tokens_out_max', gt: 4096 }],
    ['a cost', { field: 'context.estimates.cost_usd', gt: '1' }],
    [
      'one of two',
      {
        any: [
          { field: 'context.purpose', equals: 'x' },
          { field: MODEL, equals: 'gpt-4' },
        ],
      },
    ],
  ];
  for (const [name, when] of asked) {
    const policy = policyOf(bundleOf({ connectors: [ALLOW_HOST], targets: [deny('asks', when)] }));
    const { decision, reason_codes, reason } = decide(policy, hiddenCall());
    t.strictSame([decision, reason_codes], ['deny', NOT_UNDERSTOOD], name);
    t.match(reason, /^rule "asks" of the targets layer needs context\..*context\.action\.target_path/, 'it says which, and what to do');
    t.strictSame(recheck(policy, hiddenCall())?.reason_codes, NOT_UNDERSTOOD, 'so does the second look');
  }
});

t.test('a rule that does not need it leaves the call alone', async (t) => {
  const needs = { field: MODEL, equals: 'gpt-4' };
  const path = { field: 'context.action.target_path', starts_with: '/v1/brand/' };
  const unneeded: readonly (readonly [string, readonly unknown[], string])[] = [
    ['nothing asks', [], 'allow'],
    ['another condition does not hold', [deny('a', { all: [{ field: 'context.purpose', equals: 'x' }, needs] })], 'allow'],
    ['its path is excepted', [deny('a', { all: [needs, { not: path }] })], 'allow'],
    ['a rule before it ends the layer', [{ ...ALLOW_HOST, priority: 1 }, deny('a', needs)], 'allow'],
    ['another one refuses for certain', [deny('a', path, { reason_codes: ['by_path'] }), deny('b', needs)], 'deny'],
    ['it would only allow what is allowed', [ALLOW_HOST, { id: 'a', when: needs, effect: { decision: 'allow' } }], 'allow'],
  ];
  for (const [name, targets, want] of unneeded) {
    const verdict = decide(policyOf(bundleOf({ connectors: [ALLOW_HOST], targets })), hiddenCall());
    if (targets.length === 0) t.equal(verdict.decision, 'deny', 'an empty layer denies');
    else t.equal(verdict.decision, want, name);
    t.notSame(verdict.reason_codes, NOT_UNDERSTOOD, name);
  }
});

t.test('an allow by a hidden value allows nothing, and its effects are not guessed', async (t) => {
  const allowList = policyOf(bundleOf({ targets: [{ id: 'a', when: { field: MODEL, in: ['m'] }, effect: { decision: 'allow' } }] }));
  t.strictSame(decide(allowList, hiddenCall()).reason_codes, NOT_UNDERSTOOD);
  const capped = { id: 'a', when: { field: MODEL, in: ['m'] }, effect: { decision: 'allow', budget: { usd_max: '1' } } };
  t.strictSame(decide(policyOf(bundleOf({ connectors: [ALLOW_HOST], budgets: [capped] })), hiddenCall()).reason_codes, NOT_UNDERSTOOD);
});

t.test('a model that the path names is known, the rest is not', async (t) => {
  const named = hiddenCall({ params: { model: 'm' }, reading: { ...HIDDEN, hidesModel: false } });
  const byModel = policyOf(
    bundleOf({ connectors: [ALLOW_HOST], targets: [deny('a', { field: MODEL, equals: 'm' }, { reason_codes: ['x'] })] }),
  );
  t.strictSame(decide(byModel, named).reason_codes, ['x']);
  const byStream = policyOf(bundleOf({ connectors: [ALLOW_HOST], risk: [deny('a', { field: 'context.stream', equals: true })] }));
  t.strictSame(decide(byStream, named).reason_codes, NOT_UNDERSTOOD);
  const stored = someFacts({ params: { max_tokens: 5 }, reading: { ...PLAIN_READING, hidesModel: true } });
  t.strictSame(decide(byModel, stored).reason_codes, NOT_UNDERSTOOD, 'where the provider takes it from what it keeps it is hidden');
  t.equal(decide(byStream, stored).decision, 'allow');
  t.notOk(`context.${MODEL}` in observe(byModel, hiddenCall()), 'a record says nothing of what nobody saw');
});

const clause = fc.oneof(
  fc.record({ field: fc.constant('context.workload.id'), equals: fc.constantFrom('w1', 'w2') }),
  fc.record({ field: fc.constant(MODEL), in: fc.subarray(['gpt-4o', 'x'], { minLength: 1 }), negate: fc.boolean() }),
  fc.record({ field: fc.constant(MODEL), exists: fc.boolean() }),
  fc.record({ field: fc.constant('context.stream'), equals: fc.boolean() }),
  fc.record({ field: fc.constant('context.estimates.tokens_in'), gt: fc.constantFrom(5, 50) }),
);
const when = fc.oneof(
  { weight: 3, arbitrary: clause },
  fc.record({ any: fc.array(clause, { minLength: 1, maxLength: 3 }), negate: fc.boolean() }),
  fc.record({ all: fc.array(clause, { minLength: 1, maxLength: 3 }) }),
);
const DECISIONS = ['allow', 'allow', 'allow', 'downgrade', 'deny', 'require_approval', 'quarantine', 'rate_limit'] as const;
const effect = fc.oneof(
  fc.record({ decision: fc.constantFrom(...DECISIONS), rate_limit: fc.constant({ requests_per_minute: 5 }) }),
  fc.record({ decision: fc.constant('allow'), budget: fc.constant({ usd_max: '1' }) }),
  fc.record({ decision: fc.constant('allow'), default_attribution: fc.constant({ project_id: 'p' }) }),
  fc.record({ enforce_attribution: fc.constant({ require: ['project_id'] }) }),
  fc.record({ budget: fc.constant({ usd_max: '2' }) }),
);
const drawn = fc.array(
  fc.record({
    layer: fc.constantFrom('connectors', 'targets', 'budgets', 'risk'),
    rule: fc.record({ priority: fc.integer({ min: -1, max: 1 }), when: fc.option(when, { nil: undefined }), effect }),
  }),
  { maxLength: 7 },
);
const evaluation = fc.record({
  merge_strategy: fc.constantFrom('first_match', 'strict'),
  stop_on: fc.subarray(['deny', 'require_approval', 'allow', 'downgrade']),
});
const value = fc.record({
  model: fc.constantFrom('gpt-4o', 'x', 'y', undefined),
  stream: fc.boolean(),
  tokens: fc.constantFrom(1, 10, 100),
});

t.test('what a call with hidden values is allowed it would be allowed whatever they are, and no less strictly', async (t) => {
  let permitted = 0;
  let hiddenMattered = 0;
  fc.assert(
    fc.property(drawn, evaluation, fc.array(value, { minLength: 4, maxLength: 12 }), (rules, header, values) => {
      const layers: Record<string, unknown[]> = {};
      rules.forEach(({ layer, rule }, i) => {
        layers[layer] = [...(layers[layer] ?? []), { id: `r${i}`, ...rule }];
      });
      const policy = policyOf(bundleOf(layers, header));
      const verdict = decide(policy, hiddenCall());
      if (verdict.reason_codes[0] === NOT_UNDERSTOOD[0]) hiddenMattered++;
      if (!permits(verdict.decision)) return;
      permitted++;
      for (const { model, stream, tokens } of values) {
        const facts = someFacts({
          target_path: '/v1/brand/new',
          params: model === undefined ? {} : { model },
          stream,
          estimates: { tokens_in: tokens, tokens_out_max: tokens, cost_pico: BigInt(tokens) },
        });
        const told = decide(policy, facts);
        if (severityOf(told.decision) > severityOf(verdict.decision)) t.fail(`${told.decision}: ${JSON.stringify(layers)}`);
        if (Number(verdict.effects.usd_max ?? 9) > Number(told.effects.usd_max ?? 9)) t.fail('a cap is left out');
      }
    }),
    { numRuns: 1500 },
  );
  t.ok(permitted > 50 && hiddenMattered > 50, `${permitted} were allowed, ${hiddenMattered} were refused for what they hide`);
});

t.test('where a provider ignores case a rule does, whatever case it is written in, and elsewhere it does not', async (t) => {
  const folding: Reading = { ...PLAIN_READING, foldsModel: true, foldsPath: true };
  const facts = (reading: Reading, model: string, path = '/openai/deployments/x') =>
    someFacts({ params: { model }, target_path: path, reading });
  for (const test of [
    { equals: 'Evil-Model' },
    { in: ['other', 'EVIL-MODEL'] },
    { starts_with: 'EVIL-' },
    { glob: 'Evil-*' },
    { matches: '^Evil-M' },
    { contains: 'L-M' },
  ]) {
    const policy = policyOf(bundleOf({ connectors: [ALLOW_HOST], targets: [deny('a', { field: MODEL, ...test })] }));
    const at = (reading: Reading, model: string) => decide(policy, facts(reading, model)).decision;
    t.equal(at(folding, 'evil-model'), 'deny', JSON.stringify(test));
    t.equal(at(folding, 'good-model'), 'allow', JSON.stringify(test));
    t.equal(at(PLAIN_READING, 'evil-model'), 'allow', `${JSON.stringify(test)} of a provider that tells them apart`);
  }
  const notIn = policyOf(bundleOf({ connectors: [ALLOW_HOST], targets: [deny('a', { field: MODEL, not_in: ['Good-Model'] })] }));
  t.equal(decide(notIn, facts(folding, 'good-model')).decision, 'allow');
  t.equal(decide(notIn, facts(folding, 'evil-model')).decision, 'deny');
  const byPath = policyOf(
    bundleOf({ connectors: [ALLOW_HOST], targets: [deny('a', { field: 'action.target_path', glob: '/OpenAI/Files/**' })] }),
  );
  t.equal(decide(byPath, facts(folding, 'm', '/openai/files/f')).decision, 'deny');
  t.equal(decide(byPath, facts(PLAIN_READING, 'm', '/openai/files/f')).decision, 'allow');
});

t.test('a large layer finds rules in any case too', async (t) => {
  const many = Array.from({ length: 40 }, (_, i) => deny(`r${i}`, { field: MODEL, equals: `Model-${i}` }));
  const policy = policyOf(bundleOf({ connectors: [ALLOW_HOST], targets: many }));
  const folding: Reading = { ...PLAIN_READING, foldsModel: true };
  t.equal(decide(policy, someFacts({ params: { model: 'model-7' }, reading: folding })).decision, 'deny');
  t.equal(decide(policy, someFacts({ params: { model: 'model-7' } })).decision, 'allow');
  t.equal(decide(policy, someFacts({ params: { model: 'Model-7' } })).decision, 'deny');
});

t.test('a rule sees a param in each spelling that the parser takes, and in no other', async (t) => {
  const proto: Reading = { ...PLAIN_READING, names: 'proto' };
  for (const field of ['generationConfig.maxOutputTokens', 'generation_config.max_output_tokens']) {
    const policy = policyOf(bundleOf({ connectors: [ALLOW_HOST], targets: [deny('a', { field: `action.params.${field}`, gt: 10 })] }));
    for (const params of [
      { generationConfig: { maxOutputTokens: 11 } },
      { generationConfig: { max_output_tokens: 11 } },
      { generation_config: { maxOutputTokens: 11 } },
      { generation_config: { max_output_tokens: 11 } },
    ])
      t.equal(decide(policy, someFacts({ params, reading: proto })).decision, 'deny', `${field} ${JSON.stringify(params)}`);
    t.equal(decide(policy, someFacts({ params: { generationconfig: { maxOutputTokens: 11 } }, reading: proto })).decision, 'allow');
  }
  const policy = policyOf(bundleOf({ connectors: [ALLOW_HOST], targets: [deny('a', { field: 'action.params.max_tokens', gt: 10 })] }));
  t.equal(decide(policy, someFacts({ params: { maxTokens: 11 } })).decision, 'allow', 'to other parsers that is another name');
});
