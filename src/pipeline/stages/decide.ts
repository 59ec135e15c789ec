import { type Maybe, when } from '../../base/lib/maybe.ts';
import { permits } from '../../base/model/decision.ts';
import type { CompiledPolicy } from '../../decide/policy/compiled.ts';
import { decide } from '../../decide/policy/evaluate.ts';
import type { Facts } from '../../decide/policy/facts.ts';
import { hidesSomething } from '../../decide/policy/hidden.ts';
import { observe } from '../../decide/policy/observe.ts';
import type { Verdict } from '../../decide/policy/verdict.ts';
import type { ActivePolicy } from '../../services/active-policy.ts';
import { actionHashOf } from '../parts/action-hash.ts';
import { CallFacts } from '../parts/call-facts.ts';
import type { Pipeline, RateLimits } from '../parts/call-services.ts';
import { holdCaller } from '../parts/hold-caller.ts';
import type { Approving, Claims, Intake, Parts } from '../parts/parts.ts';
import { type Control, defineStage, EndedWith } from '../parts/stage.ts';
import { refusalFrom } from '../parts/verdict-refusal.ts';

type Read = Pick<Parts, 'arrival' | 'claims' | 'caller' | 'snapshot' | 'action' | 'attributed' | 'offer' | 'asked'> & {
  readonly intake?: Intake | undefined;
  readonly delegated?: Parts['delegated'];
  readonly risk?: Parts['risk'];
};
type Made = Pick<Parts, 'facts' | 'judgement' | 'approving'>;

const NEEDED = 'approval_required';
const NOT_ASKED: Approving = { waits: false, given: undefined };
const WAITS: Approving = { waits: true, given: undefined };

/**
 * Asks the policy snapshot that this request started with. What an approval could let through goes on, and is ended behind everything else that may refuse it
 * (await-approval.ts); where one was given already, policy is asked once more with that.
 */
export const decidePolicy = defineStage({
  name: 'decide',
  reads: ['arrival', 'claims', 'caller', 'snapshot', 'action', 'attributed', 'offer', 'asked'],
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

function factsOf({ arrival, claims, caller, delegated, action, attributed, offer, asked, risk }: Read, approved: boolean): CallFacts {
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
  const { claims, action } = parts;
  const { active, verdict } = decided;
  if (!isBound(parts, decided.facts)) return conclude(parts, { ...decided, verdict: notPossible(verdict) }, NOT_ASKED, pipeline, control);
  const given = await pipeline.approvals?.find(claims.orgId, actionHashOf(action.request));
  if (given === undefined) return conclude(parts, decided, WAITS, pipeline, control);
  const facts = factsOf(parts, true);
  const approved = await verdictOf(active, facts, claims, pipeline);
  return conclude(parts, { active, facts, verdict: approved }, { waits: false, given }, pipeline, control);
}

function conclude(
  { arrival, claims }: Read,
  { active, facts, verdict }: Decided,
  approving: Approving,
  pipeline: Pipeline,
  control: Control,
): Maybe<Made | EndedWith<keyof Made>> {
  const { shadow, rateLimits } = pipeline;
  const judgement = { active, verdict, shadow: shadow?.judge(facts, verdict), observed: observedOf(active, facts, verdict) };
  if (approving.waits || permits(verdict.decision)) return { facts, judgement, approving };
  return when(refusalFrom(verdict, arrival.line, claims, rateLimits), (refusal) => {
    holdCaller(refusal, { arrival, claims }, pipeline, control);
    return new EndedWith(refusal, { facts, judgement, approving });
  });
}

/** With the further model that decided, where one did. */
function observedOf({ policy }: ActivePolicy, facts: Facts, { model }: Verdict): Readonly<Record<string, unknown>> {
  const observed = observe(policy, facts);
  return model === undefined ? observed : { ...observed, decided_model: model };
}

/** Whether everything of the request that could matter is in its action hash: then what is approved is what runs. */
function isBound({ action, asked, intake }: Read, facts: Facts): boolean {
  if (action.isEnvelope) return true;
  if (intake?.streamed !== undefined || hidesSomething(facts)) return false;
  return asked.body === undefined ? (intake?.requestBytes ?? 0) === 0 : asked.body.kind !== 'form';
}

function notPossible(verdict: Verdict): Verdict {
  const reason = `${verdict.reason ?? NEEDED}; this call cannot wait for an approval, because not all of its body is read`;
  return { ...verdict, reason, reason_codes: [...verdict.reason_codes, 'approval_not_possible'] };
}

function verdictOf({ policy }: ActivePolicy, facts: Facts, claims: Claims, { rateLimits }: Pipeline): Maybe<Verdict> {
  return withBuckets(decide(policy, facts), { policy, facts, claims }, rateLimits);
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
function withBuckets(verdict: Verdict, { policy, facts, claims }: Asked, rateLimits: RateLimits): Maybe<Verdict> {
  const rules = verdict.effects.rate_limits;
  if (rules.length === 0) return verdict;
  const { orgId, workloadId } = claims;
  return when(allOf(rules.map((rule) => rateLimits.exhausted(orgId, workloadId, rule))), (exhausted) => {
    const empty = rules.filter((_, at) => exhausted[at]);
    if (empty.length === 0) return verdict;
    return decide(policy, facts, (layer, ruleId) => empty.some((rule) => rule.layer === layer && rule.rule_id === ruleId));
  });
}

function allOf<T>(values: readonly Maybe<T>[]): Maybe<readonly T[]> {
  return values.some((value) => value instanceof Promise) ? Promise.all(values) : (values as readonly T[]);
}
