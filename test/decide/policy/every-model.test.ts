import t from 'tap';
import { PLAIN_READING } from '../../../src/base/catalogue/reading.ts';
import { severityOf } from '../../../src/base/model/reason-codes.ts';
import { decide, observe } from '../../../src/decide/policy/evaluate.ts';
import { factsOfEveryModel } from '../../../src/decide/policy/every-model.ts';
import type { Facts, FurtherModel } from '../../../src/decide/policy/facts.ts';
import { recheck } from '../../../src/decide/policy/recheck.ts';
import { fc } from '../../support/properties.ts';
import { bundleOf, policyOf, someFacts } from './policy-facts.ts';

const ALLOW = { id: 'all', effect: { decision: 'allow' } };
const MODEL = 'context.action.params.model';

function naming(further: readonly (string | FurtherModel)[], changes: Partial<Facts> = {}): Facts {
  const all = further.map((one) => (typeof one === 'string' ? { model: one, said: undefined } : one));
  return someFacts({ models: ['gpt-4o', ...all.map(({ model }) => model)], further: all, ...changes });
}

t.test('what stands with a further model holds for it in place of what the body says', async (t) => {
  const facts = naming([{ model: 'opus', said: { model: 'opus', max_tokens: 9000 } }]);
  const [own, other] = factsOfEveryModel(facts);
  t.equal(own, facts);
  t.match(other, {
    params: { model: 'opus', max_tokens: 9000, messages: [{ content: 'secret prompt' }] },
    models: ['gpt-4o', 'opus'],
    further: undefined,
  });
  t.equal(other?.header_names, facts.header_names);
  const policy = policyOf(
    bundleOf({
      connectors: [ALLOW],
      targets: [{ id: 'long', when: { field: 'action.params.max_tokens', gt: 100 }, effect: { decision: 'deny', reason_codes: ['long'] } }],
    }),
  );
  t.match(decide(policy, facts), { decision: 'deny', reason_codes: ['long'], model: 'opus' });
  t.equal(decide(policy, naming(['opus'])).decision, 'allow');
  const short = policyOf(
    bundleOf({
      connectors: [ALLOW],
      transforms: [{ id: 'm', effect: { mutations: [{ key: 'action.params.max_completion_tokens', value: 50 }] } }],
    }),
  );
  t.match(decide(short, facts).reason_codes, ['mutation_not_applicable'], 'a maximum by another of its names');
  t.equal(decide(short, naming([{ model: 'opus', said: { temperature: 1 } }])).decision, 'allow');
});

t.test('the layers of a final choice are asked about each of them', async (t) => {
  const policy = policyOf(
    bundleOf({
      connectors: [ALLOW, { id: 'b', when: { field: MODEL, equals: 'opus' }, effect: { decision: 'deny', reason_codes: ['no_opus'] } }],
    }),
  );
  t.match(recheck(policy, naming(['opus'])), { decision: 'deny', reason_codes: ['no_opus'] });
  t.equal(recheck(policy, naming(['sonnet'])), undefined);
});

t.test('a call that hides some of its models is decided as one that hides all', async (t) => {
  const policy = policyOf(
    bundleOf({ connectors: [ALLOW], targets: [{ id: 'a', when: { field: 'action.models', in: ['x'] }, effect: { decision: 'deny' } }] }),
  );
  const hidden = someFacts({ reading: { ...PLAIN_READING, hidesModel: true, hidesPrice: true } });
  t.same(decide(policy, hidden).reason_codes, ['operation_not_understood']);
});

t.test('what a record keeps of it is the names', async (t) => {
  const policy = policyOf(bundleOf({ connectors: [ALLOW] }));
  t.same(observe(policy, naming(['opus'])), { 'context.action.models': ['gpt-4o', 'opus'] }, 'whatever the rules read');
  t.same(observe(policy, someFacts()), {});
});

const model = fc.constantFrom('gpt-4o', 'opus', 'x', 'y');
const when = fc.oneof(
  fc.record({ field: fc.constant(MODEL), in: fc.subarray(['gpt-4o', 'opus', 'x'], { minLength: 1 }), negate: fc.boolean() }),
  fc.record({ field: fc.constant('context.action.models'), not_in: fc.subarray(['opus', 'x'], { minLength: 1 }) }),
  fc.record({ field: fc.constant(MODEL), glob: fc.constant('g*') }),
);
const effect = fc.oneof(
  fc.record({ decision: fc.constantFrom('allow', 'allow', 'downgrade', 'deny', 'require_approval', 'quarantine') }),
  fc.record({ decision: fc.constant('allow'), budget: fc.record({ usd_max: fc.constantFrom('1', '2', '10') }) }),
  fc.record({ budget: fc.record({ monthly_usd_max: fc.constantFrom('3', '20') }) }),
  fc.record({ rate_limit: fc.constant({ requests_per_minute: 5 }) }),
);
const rules = fc.array(
  fc.record({
    layer: fc.constantFrom('connectors', 'targets', 'budgets', 'custom.more'),
    rule: fc.record({ priority: fc.integer({ min: -1, max: 1 }), when: fc.option(when, { nil: undefined }), effect }),
  }),
  { maxLength: 6 },
);

t.test('no model of a call is let through more mildly than it would be alone', async () => {
  fc.assert(
    fc.property(
      rules,
      fc.array(model, { minLength: 1, maxLength: 4 }),
      fc.constantFrom('first_match', 'strict'),
      (drawn, names, merge_strategy) => {
        const layers: Record<string, unknown[]> = {};
        for (const [at, { layer, rule }] of drawn.entries()) {
          layers[layer] ??= [];
          layers[layer].push({ id: `r${at}`, ...JSON.parse(JSON.stringify(rule)) });
        }
        const policy = policyOf(bundleOf(layers, { merge_strategy }));
        const facts = naming(names);
        const together = decide(policy, facts);
        for (const one of factsOfEveryModel(facts)) {
          const alone = decide(policy, { ...one, further: undefined });
          if (severityOf(together.decision) < severityOf(alone.decision)) throw new Error(`${alone.decision} became ${together.decision}`);
          if (together.decision !== 'allow') continue;
          const { usd_max: cap, monthly_usd_max: monthly, rate_limits: limits } = alone.effects;
          if (cap !== undefined && Number(together.effects.usd_max) > Number(cap)) throw new Error('a cap is lost');
          if (monthly !== undefined && Number(together.effects.monthly_usd_max) > Number(monthly))
            throw new Error('a cap of the month is lost');
          for (const limit of limits)
            if (!together.effects.rate_limits.some(({ rule_id }) => rule_id === limit.rule_id)) throw new Error('a bucket is lost');
        }
      },
    ),
    { numRuns: 2000 },
  );
});
