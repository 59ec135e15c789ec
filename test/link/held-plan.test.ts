import t from 'tap';
import { silentLogger } from '../../src/base/lib/log.ts';
import { PLAN_TIERS, planTierOf } from '../../src/base/model/org.ts';
import { HeldPlan } from '../../src/link/held-plan.ts';
import { orgSaid } from '../support/org-said.ts';

function place() {
  const tiers: string[] = [];
  const plans: unknown[] = [];
  const plan = new HeldPlan({
    log: silentLogger,
    orgId: 'acme',
    policies: { holdTier: (tier) => Promise.resolve(void tiers.push(tier)) },
    orgPlans: { told: (...told) => void plans.push(told) },
  });
  return { plan, tiers, plans };
}

t.test('each tier is held, and a word that is none changes nothing and is told until another comes', async (t) => {
  const { plan, tiers } = place();
  for (const tier of PLAN_TIERS) await plan.heed(orgSaid({ plan_tier: tier }));
  t.same(tiers, ['starter', 'pro', 'enterprise']);
  for (const word of ['professional', 'community', 'gold', 'Pro', ' pro']) {
    t.equal(planTierOf(word), undefined, word);
    await plan.heed(orgSaid({ plan_tier: word }));
    t.match(plan.warnings(), [{ code: 'unknown_plan_tier', message: new RegExp(word) }]);
  }
  await plan.heed(orgSaid({ plan_tier: '' }));
  t.same([tiers.length, plan.warnings()], [3, []], 'one that says none leaves it as it is');
});

t.test('a monthly limit is held where there is one', async (t) => {
  const { plan, plans } = place();
  await plan.heed(orgSaid({ monthly_request_limit: '5', overage_enabled: true }));
  await plan.heed(orgSaid({ monthly_request_limit: '0' }));
  await plan.heed(orgSaid());
  await plan.heed(orgSaid({ monthly_request_limit: '-1' }));
  t.same(plans, [
    ['acme', { limit: 5, overage: true }],
    ['acme', { limit: 0, overage: false }],
    ['acme', undefined],
    ['acme', undefined],
  ]);
});
