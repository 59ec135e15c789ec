import { type Maybe, when } from '../../base/lib/maybe.ts';
import { roughMicros } from '../../base/lib/money.ts';
import type { Attribution } from '../../base/model/action-request.ts';
import { permits } from '../../base/model/reason-codes.ts';
import { delegatedAttribution, mergeAttribution, type Settled, settleAttribution } from '../../decide/attribution/settle-attribution.ts';
import { approvedRules, askedBy, isSameDelegation } from '../../decide/policy/approval-standing.ts';
import type { CompiledPolicy } from '../../decide/policy/compiled.ts';
import { decide, observe } from '../../decide/policy/evaluate.ts';
import type { Facts } from '../../decide/policy/facts.ts';
import type { Verdict } from '../../decide/policy/verdict.ts';
import { type RiskRequest, riskTarget } from '../../decide/risk/risk-profile.ts';
import type { Allowance } from '../../services/money/allowance.ts';
import type { ActivePolicy } from '../../services/policy/active-policy.ts';
import { actionHashIfAny, cannotWait, isBound } from '../parts/action-hash.ts';
import type { Approving } from '../parts/approving.ts';
import { askedUnder } from '../parts/ask-for-approval.ts';
import { CallFacts } from '../parts/call-facts.ts';
import type { Pipeline } from '../parts/call-services.ts';
import { callerOf } from '../parts/known.ts';
import type { CallRoute, Claims, Intake, Judgement, Parts, PolicySnapshot } from '../parts/parts.ts';
import { deny, Refusal } from '../parts/refusal.ts';
import { type Control, defineStage, EndedWith } from '../parts/stage.ts';
import { holdCaller, refusalFrom } from '../parts/verdict-refusal.ts';

const READ = ['arrival', 'claims', 'caller', 'snapshot', 'action', 'content', 'offer', 'asked'] as const;
type Read = Pick<Parts, (typeof READ)[number]> & {
  readonly intake?: Intake | undefined;
  readonly delegated?: Parts['delegated'];
};
type Made = Pick<Parts, 'facts' | 'judgement' | 'approving' | 'attribution'>;

/** A call, with what is known of it when policy is asked. */
interface Question {
  readonly parts: Read;
  /** Of the caller, with what its delegation and its workload say where it says nothing. */
  readonly attribution: Attribution;
  readonly risk: Judgement['risk'];
}

const NOT_ASKED: Approving = { rules: [], given: [], requestHash: undefined, onceGiven: undefined };

/**
 * Asks the policy snapshot that this request started with, once attribution has its defaults and the risk is scored
 * (decisions 4.6, 6.11, 9.3). A call that an approval could let through goes on, and is ended after everything else
 * that may refuse it (await-approval.ts); where one was given already for rules that ask, policy is asked once more
 * with that.
 */
export const decidePolicy = defineStage({
  name: 'decide',
  reads: READ,
  // Its own of before, where the call has waited for a person.
  sees: ['intake', 'delegated', 'judgement'],
  makes: ['facts', 'judgement', 'approving', 'attribution'],
  run(parts, pipeline, control) {
    const { arrival, claims, snapshot, offer } = parts;
    const attribution = defaultAttribution(parts);
    const before = parts.judgement;
    if (before !== undefined || !isScored(snapshot, pipeline)) return judge({ parts, attribution, risk: before?.risk }, pipeline, control);
    return when(pipeline.risks.score(callerOf(arrival, claims), arrival.recordId, riskRequest(offer, pipeline.clock.now())), (scored) => {
      control.settle(scored);
      return judge({ parts, attribution, risk: scored.risk }, pipeline, control);
    });
  },
});

function judge(question: Question, pipeline: Pipeline, control: Control): Maybe<Made | EndedWith<keyof Made>> {
  const { claims, snapshot } = question.parts;
  const { active } = snapshot;
  const facts = factsOf(question, false);
  return when(verdictOf(active, facts, claims, pipeline), (verdict) => {
    const needsApproval = verdict.decision === 'require_approval' && pipeline.approvals !== undefined;
    return needsApproval
      ? withApproval(question, { active, facts, verdict }, pipeline, control)
      : conclude(question, { active, facts, verdict }, NOT_ASKED, pipeline, control);
  });
}

/** What the caller left out comes from its workload (specification, "ActionRequest"; decision 6.11). */
function defaultAttribution({ claims, caller, delegated }: Read): Attribution {
  const given = delegated === undefined ? claims.attribution : delegatedAttribution(claims.attribution, delegated.attribution);
  return mergeAttribution(given, caller.workload.default_attribution);
}

function isScored({ active }: PolicySnapshot, { risks, shadow }: Pipeline): boolean {
  const { scores } = risks;
  return scores === 'where asked' ? active.policy.readsRisk || shadow?.readsRisk === true : scores;
}

function riskRequest({ host, actionType, estimate }: CallRoute, at: number): RiskRequest {
  return {
    at,
    target: riskTarget(host, actionType),
    promptTokens: estimate?.tokensIn ?? 0,
    costMicros: roughMicros(estimate?.costPico ?? 0n),
  };
}

interface Decided {
  readonly active: ActivePolicy;
  readonly facts: CallFacts;
  readonly verdict: Verdict;
}

function factsOf({ parts, attribution, risk }: Question, approved: Facts['approved']): CallFacts {
  const { arrival, claims, caller, delegated, action, offer: route, asked: content } = parts;
  return new CallFacts({ arrival, claims, caller, delegated, action, attribution, route, content, risk, approved });
}

async function withApproval(
  question: Question,
  decided: Decided,
  pipeline: Pipeline,
  control: Control,
): Promise<Made | EndedWith<keyof Made>> {
  const { parts } = question;
  const { claims, offer } = parts;
  const { active } = decided;
  const requestHash = isBound(parts, decided.facts) ? actionHashIfAny(parts, offer) : undefined;
  if (requestHash === undefined)
    return conclude(question, { ...decided, verdict: cannotWait(decided.verdict) }, NOT_ASKED, pipeline, control);
  const under = askedUnder(parts);
  const usable = (await pipeline.approvals?.usable(claims.orgId, requestHash)) ?? [];
  const given = usable.filter((approval) => isSameDelegation(approval, under));
  const facts = given.length === 0 ? decided.facts : factsOf(question, approvedRules(given));
  const verdict = given.length === 0 ? decided.verdict : await verdictOf(active, facts, claims, pipeline);
  const onceGiven = verdict.decision === 'require_approval' ? await onceGivenTo(question, active, pipeline) : undefined;
  const approving = { rules: askedBy(active.policy, verdict.matched), given, requestHash, onceGiven };
  const where = onceGiven ? goingWhere(verdict, onceGiven) : verdict;
  return conclude(question, { active, facts, verdict: where }, approving, pipeline, control);
}

/**
 * What policy would say of a call that waits when all have agreed; undefined where it would refuse it: that is said
 * when it comes again.
 */
async function onceGivenTo(question: Question, active: ActivePolicy, pipeline: Pipeline): Promise<Verdict | undefined> {
  const verdict = await verdictOf(active, factsOf(question, true), question.parts.claims, pipeline);
  return permits(verdict.decision) ? verdict : undefined;
}

/**
 * It waits with the route that it will take, so that a person sees that; the limits of layers that were not evaluated
 * do not hold it yet (decision 6.2).
 */
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
  { parts, attribution, risk }: Question,
  { active, facts, verdict }: Decided,
  approving: Approving,
  pipeline: Pipeline,
  control: Control,
): Maybe<Made | EndedWith<keyof Made>> {
  const { arrival, claims } = parts;
  const { shadow, allowance, projects } = pipeline;
  const judgement = { active, verdict, risk, shadow: shadow?.judge(facts, verdict), observed: observedOf(active, facts, verdict) };
  const waits = approving.rules.length > 0 && verdict.decision === 'require_approval';
  if (waits || permits(verdict.decision)) {
    const settled = attributed(parts, verdict);
    const made = { facts, judgement, approving, attribution: settled.attribution };
    const refusal = notCharged(settled, claims, projects);
    return refusal ? new EndedWith(refusal, made) : made;
  }
  return when(refusalFrom(verdict, arrival.line, claims, allowance), (refusal) => {
    holdCaller(refusal, parts, pipeline, control);
    return new EndedWith(refusal, { facts, judgement, approving, attribution });
  });
}

/**
 * What matched rules say about attribution: overrides that are not allowed are dropped, the rules' defaults and then
 * the org's filled in.
 */
function attributed({ claims, caller, delegated }: Read, { effects }: Verdict): Settled {
  return settleAttribution({
    caller: claims.attribution,
    delegation: delegated?.attribution,
    workload: caller.workload.default_attribution,
    org: caller.orgAttribution,
    effects,
  });
}

/** What is required must be there, and nothing is charged to a project that is archived (decisions 4.6, 6.12). */
function notCharged({ attribution, missing }: Settled, { orgId }: Claims, projects: Pipeline['projects']): Refusal | undefined {
  if (missing.length > 0) {
    return new Refusal({
      decision: 'require_attribution',
      status: 403,
      reason: `require_attribution: ${missing.join(', ')} required`,
      reasonCodes: missing.map((name) => `missing:${name}`),
    });
  }
  const { project_id: projectId } = attribution;
  if (!projects.isArchived(orgId, projectId)) return undefined;
  return deny('project_archived', `The project ${String(projectId)} is archived: nothing is charged to it.`);
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
 * A rule that decides `rate_limit` has an opinion only while its bucket is empty. Evaluation knows nothing of buckets,
 * so it is asked once more when one of those that matched is empty (policy.md 2).
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
