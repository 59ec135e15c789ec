import { type Maybe, when } from '../../base/lib/maybe.ts';
import { permits } from '../../base/model/decision.ts';
import { approvedRules, isSameDelegation } from '../../decide/policy/approval-standing.ts';
import { askedBy } from '../../decide/policy/asking-rules.ts';
import type { CompiledPolicy } from '../../decide/policy/compiled.ts';
import { decide } from '../../decide/policy/evaluate.ts';
import type { Facts } from '../../decide/policy/facts.ts';
import { observe } from '../../decide/policy/observe.ts';
import type { Verdict } from '../../decide/policy/verdict.ts';
import type { Allowance } from '../../services/money/allowance.ts';
import type { ActivePolicy } from '../../services/policy/active-policy.ts';
import { actionHashIfAny } from '../parts/action-hash.ts';
import type { Approving } from '../parts/approving.ts';
import { askedUnder } from '../parts/ask-for-approval.ts';
import { CallFacts } from '../parts/call-facts.ts';
import type { Pipeline } from '../parts/call-services.ts';
import { holdCaller } from '../parts/hold-caller.ts';
import { cannotWait, isBound } from '../parts/is-bound.ts';
import type { Claims, Intake, Parts } from '../parts/parts.ts';
import { type Control, defineStage, EndedWith } from '../parts/stage.ts';
import { refusalFrom } from '../parts/verdict-refusal.ts';

type Read = Pick<Parts, 'arrival' | 'claims' | 'caller' | 'snapshot' | 'action' | 'content' | 'attributed' | 'offer' | 'asked'> & {
  readonly intake?: Intake | undefined;
  readonly delegated?: Parts['delegated'];
  readonly risk?: Parts['risk'];
};
type Made = Pick<Parts, 'facts' | 'judgement' | 'approving'>;

const NOT_ASKED: Approving = { rules: [], given: [], requestHash: undefined, onceGiven: undefined };

/**
 * Asks the policy snapshot that this request started with. What an approval could let through goes on, and is ended behind everything else that may refuse it
 * (await-approval.ts); where one was given already for rules that ask, policy is asked once more with that.
 */
export const decidePolicy = defineStage({
  name: 'decide',
  reads: ['arrival', 'claims', 'caller', 'snapshot', 'action', 'content', 'attributed', 'offer', 'asked'],
  sees: ['intake', 'delegated', 'risk'],
  makes: ['facts', 'judgement', 'approving'],
  run(parts, pipeline, control) {
    const { claims, snapshot } = parts;
    const { active } = snapshot;
    const facts = factsOf(parts, false);
    return when(verdictOf(active, facts, claims, pipeline), (verdict) => {
      const needsApproval = verdict.decision === 'require_approval' && pipeline.approvals !== undefined;
      return needsApproval
        ? withApproval(parts, { active, facts, verdict }, pipeline, control)
        : conclude(parts, { active, facts, verdict }, NOT_ASKED, pipeline, control);
    });
  },
});

interface Decided {
  readonly active: ActivePolicy;
  readonly facts: CallFacts;
  readonly verdict: Verdict;
}

function factsOf(
  { arrival, claims, caller, delegated, action, attributed, offer, asked, risk }: Read,
  approved: Facts['approved'],
): CallFacts {
  return new CallFacts({
    arrival,
    claims,
    caller,
    delegated,
    action,
    attribution: attributed,
    route: offer,
    content: asked,
    risk,
    approved,
  });
}

async function withApproval(parts: Read, decided: Decided, pipeline: Pipeline, control: Control): Promise<Made | EndedWith<keyof Made>> {
  const { claims, offer } = parts;
  const { active } = decided;
  const requestHash = isBound(parts, decided.facts) ? actionHashIfAny(parts, offer) : undefined;
  if (requestHash === undefined) return conclude(parts, { ...decided, verdict: cannotWait(decided.verdict) }, NOT_ASKED, pipeline, control);
  const under = askedUnder(parts);
  const usable = (await pipeline.approvals?.usable(claims.orgId, requestHash)) ?? [];
  const given = usable.filter((approval) => isSameDelegation(approval, under));
  const facts = given.length === 0 ? decided.facts : factsOf(parts, approvedRules(given));
  const verdict = given.length === 0 ? decided.verdict : await verdictOf(active, facts, claims, pipeline);
  const onceGiven = verdict.decision === 'require_approval' ? await onceGivenTo(parts, active, pipeline) : undefined;
  const approving = { rules: askedBy(active.policy, verdict.matched), given, requestHash, onceGiven };
  return conclude(parts, { active, facts, verdict: onceGiven ? goingWhere(verdict, onceGiven) : verdict }, approving, pipeline, control);
}

/** What policy would say of a call that waits when all have agreed; undefined where it would refuse it: that is said when it comes again. */
async function onceGivenTo(parts: Read, active: ActivePolicy, pipeline: Pipeline): Promise<Verdict | undefined> {
  const verdict = await verdictOf(active, factsOf(parts, true), parts.claims, pipeline);
  return permits(verdict.decision) ? verdict : undefined;
}

/** It waits with the route that it will take, so that a person sees that; the limits of layers that were not evaluated do not hold it yet (decision 6.2). */
function goingWhere(verdict: Verdict, onceGiven: Verdict): Verdict {
  const { usd_max: _request, monthly_usd_max: _month, ...others } = onceGiven.effects;
  const { usd_max: usdMax, monthly_usd_max: monthlyUsdMax, rate_limits } = verdict.effects;
  const own = {
    ...(usdMax === undefined ? {} : { usd_max: usdMax }),
    ...(monthlyUsdMax === undefined ? {} : { monthly_usd_max: monthlyUsdMax }),
  };
  return { ...verdict, effects: { ...others, ...own, rate_limits } };
}

function conclude(
  { arrival, claims }: Read,
  { active, facts, verdict }: Decided,
  approving: Approving,
  pipeline: Pipeline,
  control: Control,
): Maybe<Made | EndedWith<keyof Made>> {
  const { shadow, allowance } = pipeline;
  const judgement = { active, verdict, shadow: shadow?.judge(facts, verdict), observed: observedOf(active, facts, verdict) };
  const waits = approving.rules.length > 0 && verdict.decision === 'require_approval';
  if (waits || permits(verdict.decision)) return { facts, judgement, approving };
  return when(refusalFrom(verdict, arrival.line, claims, allowance), (refusal) => {
    holdCaller(refusal, { arrival, claims }, pipeline, control);
    return new EndedWith(refusal, { facts, judgement, approving });
  });
}

/** With the further model that decided, where one did. */
function observedOf({ policy }: ActivePolicy, facts: Facts, { model }: Verdict): Readonly<Record<string, unknown>> {
  const observed = observe(policy, facts);
  return model === undefined ? observed : { ...observed, decided_model: model };
}

function verdictOf({ policy }: ActivePolicy, facts: Facts, claims: Claims, { allowance }: Pipeline): Maybe<Verdict> {
  return withBuckets(decide(policy, facts), { policy, facts, claims }, allowance);
}

interface Asked {
  readonly policy: CompiledPolicy;
  readonly facts: Facts;
  readonly claims: Claims;
}

/**
 * A rule that decides `rate_limit` has an opinion only while its bucket is empty. Evaluation knows nothing of buckets, so it is asked once more when one of
 * those that matched is empty (policy.md 2).
 */
function withBuckets(verdict: Verdict, { policy, facts, claims }: Asked, allowance: Allowance): Maybe<Verdict> {
  const rules = verdict.effects.rate_limits;
  if (rules.length === 0) return verdict;
  const { orgId, workloadId } = claims;
  return when(allowance.peek({ orgId, workloadId, rate: { rules, alone: true } }), ({ empty }) => {
    if (empty.length === 0) return verdict;
    return decide(policy, facts, (layer, ruleId) => empty.some((rule) => rule.layer === layer && rule.rule_id === ruleId));
  });
}
