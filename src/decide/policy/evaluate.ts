import { MAX_RECORDED, shorten } from '../../base/lib/text.ts';
import type { Attribution } from '../../base/model/action-request.ts';
import { type Decision, permits, severityOf } from '../../base/model/reason-codes.ts';
import { attributionFrom } from './attribution-keys.ts';
import type { CompiledLayer, CompiledPolicy, CompiledRule } from './compiled.ts';
import { verdictOfAll } from './every-model.ts';
import type { Facts } from './facts.ts';
import { firstOpenRule, hidesSomething, type OpenRule } from './hidden.ts';
import { decisionOf, type Hit, type LayerOutcome, type RateLimited, type RunContext, runLayer } from './layer-run.ts';
import { GATE_CODES } from './layers.ts';
import { mergeEffects } from './merge.ts';
import { left, type MatchedRule, MOST_STEPS, TooCostly, type Verdict } from './verdict.ts';

/** Reason codes of rules that decide and state none. A denial in a gating layer has the layer's own. */
const DEFAULT_CODES: Readonly<Partial<Record<Decision, string>>> = {
  rate_limit: 'rate_limited',
  require_approval: 'approval_required',
  require_attribution: 'attribution_required',
  quarantine: 'quarantined',
};
/** Reason code of a request whose verdict depends on what it hides. */
const NOT_UNDERSTOOD = 'operation_not_understood';
const TO_LET_PASS = 'to let it pass, except its context.action.target_path in the condition of that rule';
const NO_CREDENTIAL = 'no_credential_candidate';
const DENY = severityOf('deny');

/**
 * Decides one request: deny by default, layers in order, the most restrictive outcome wins (policy.md 1 to 8), of each
 * model that it names (decision 6.3). Pure: no clock, no I/O, no state. What would take too long to judge is denied
 * (`policy_too_costly`).
 * @param rateLimited tells of the buckets of rules that decide `rate_limit`; without it all have tokens. When
 * `effects.rate_limits` of a first verdict names rules, whoever holds the buckets looks at them and calls again
 * (policy.md 2).
 */
export function decide(policy: CompiledPolicy, facts: Facts, rateLimited?: RateLimited): Verdict {
  left[0] = MOST_STEPS - policy.ruleCount * (1 + (facts.further?.length ?? 0));
  try {
    const own = decideOne(policy, facts, rateLimited);
    return facts.further === undefined ? own : verdictOfAll(facts, own, (one) => decideOne(policy, one, rateLimited));
  } catch (error) {
    return refusedAsCostly(error, facts);
  } finally {
    left[0] = Number.POSITIVE_INFINITY;
  }
}

/** The verdict of a call that would take too long to judge. @throws what else went wrong */
export function refusedAsCostly(error: unknown, facts: Facts): Verdict {
  if (!(error instanceof TooCostly)) throw error;
  const { effects, overridden } = mergeEffects([], undefined, facts);
  return {
    decision: 'deny',
    reason: `${error.message} on the texts of this request; shorter texts, or fewer patterns on them, let it pass`,
    reason_codes: ['policy_too_costly'],
    matched: [],
    stopped_at: undefined,
    effects,
    overridden,
  };
}

function decideOne(policy: CompiledPolicy, facts: Facts, rateLimited: RateLimited | undefined): Verdict {
  const context = contextOf(policy, facts, rateLimited);
  const verdict = decideLayers(policy, policy.layers, context) ?? defaultDeny(context);
  return hidesSomething(facts) ? asFarAsKnown(policy, policy.layers, context, verdict) : verdict;
}

/**
 * The verdict, unless it depends on what the request hides: nobody is allowed anything, or blamed for anything, by a
 * value that is not known.
 */
export function asFarAsKnown<V extends Verdict | undefined>(
  policy: CompiledPolicy,
  layers: readonly CompiledLayer[],
  context: RunContext,
  verdict: V,
): V | Verdict {
  const open = firstOpenRule(policy, layers, context.facts, verdict);
  return open === undefined ? verdict : notUnderstood(open, context);
}

function notUnderstood({ rule, fields }: OpenRule, { facts, defaults }: RunContext): Verdict {
  const { effects, overridden } = mergeEffects([], defaults, facts);
  const needs = fields.join(', ');
  return {
    decision: 'deny',
    reason: `rule "${rule.id}" of the ${rule.layer} layer needs ${needs}, which the gateway cannot know of this operation; ${TO_LET_PASS}`,
    reason_codes: [NOT_UNDERSTOOD],
    matched: [],
    stopped_at: undefined,
    effects,
    overridden,
  };
}

export function contextOf(policy: CompiledPolicy, facts: Facts, rateLimited: RateLimited | undefined): RunContext {
  const { strategy, defaultRules } = policy;
  if (defaultRules.length === 0) return { facts, defaults: undefined, supplied: undefined, rateLimited, strategy };
  const matching = defaultRules.filter((rule) => rule.matches(facts));
  const milder = matching.filter((rule) => {
    const decision = decisionOf(rule, facts);
    return decision === undefined || permits(decision);
  });
  return { facts, defaults: collectDefaults(matching), supplied: collectDefaults(milder), rateLimited, strategy };
}

/** The combined verdict of these layers, undefined when none of them has an opinion. */
export function decideLayers(policy: CompiledPolicy, layers: readonly CompiledLayer[], context: RunContext): Verdict | undefined {
  const outcomes: LayerOutcome[] = [];
  let deciding: DecidedOutcome | undefined;
  let stoppedAt: string | undefined;
  for (const layer of layers) {
    const outcome = runLayer(layer, context);
    outcomes.push(outcome);
    if (!isDecided(outcome)) continue;
    if (deciding === undefined || severityOf(outcome.decision) > severityOf(deciding.decision)) deciding = outcome;
    if (!policy.stopOn.has(outcome.decision)) continue;
    stoppedAt = layer.name;
    break;
  }
  return deciding && conclude(outcomes, deciding, stoppedAt, context);
}

type DecidedOutcome = LayerOutcome & { readonly decision: Decision };

function isDecided(outcome: LayerOutcome): outcome is DecidedOutcome {
  return outcome.decision !== undefined;
}

/** Nothing refused and nothing allowed (policy.md 1). */
function defaultDeny({ facts, defaults }: RunContext): Verdict {
  const { effects, overridden } = mergeEffects([], defaults, facts);
  return {
    decision: 'deny',
    reason: 'no rule allows this request',
    reason_codes: ['default_deny'],
    matched: [],
    stopped_at: undefined,
    effects,
    overridden,
  };
}

function conclude(
  outcomes: readonly LayerOutcome[],
  deciding: DecidedOutcome,
  stoppedAt: string | undefined,
  context: RunContext,
): Verdict {
  const { facts, defaults } = context;
  const { decision } = deciding;
  const runs = permits(decision);
  const hits = contributing(outcomes, runs);
  const merged = mergeEffects(
    hits.map((hit) => hit.rule),
    defaults,
    facts,
  );
  const verdict: Verdict = {
    decision: decision === 'downgrade' && merged.downgradeChangesNothing ? 'allow' : decision,
    reason: reasonOf(deciding),
    reason_codes: reasonCodes(outcomes, runs),
    matched: hits.map((hit) => matchedOf(hit, facts)),
    stopped_at: stoppedAt,
    effects: merged.effects,
    overridden: merged.overridden,
  };
  return merged.noCredentialLeft && severityOf(decision) < DENY ? withoutCredential(verdict) : verdict;
}

function withoutCredential(verdict: Verdict): Verdict {
  const reasonCodes = [...verdict.reason_codes.filter((code) => code !== NO_CREDENTIAL), NO_CREDENTIAL];
  return { ...verdict, decision: 'deny', reason: 'the rules ask for different credentials, so none is left', reason_codes: reasonCodes };
}

function contributing(outcomes: readonly LayerOutcome[], runs: boolean): readonly Hit[] {
  return outcomes.flatMap((outcome) => outcome.hits.filter((hit) => contributes(hit, runs)));
}

/**
 * Hits below the ending rule of their layer count when the request runs, or when they themselves refused it (policy.md
 * 7).
 */
function contributes(hit: Hit, runs: boolean): boolean {
  return !hit.below || runs || hit.lacking.length > 0;
}

function matchedOf({ rule }: Hit, facts: Facts): MatchedRule {
  return rule.missingMark?.(facts) ? rule.matchedMissing : rule.matched;
}

/**
 * Union in order: the codes that rules state, the missing attribution, a default for a rule that refused without one,
 * the layers' own.
 */
function reasonCodes(outcomes: readonly LayerOutcome[], runs: boolean): readonly string[] {
  const codes = new Set<string>();
  for (const outcome of outcomes) {
    for (const hit of outcome.hits) {
      if (contributes(hit, runs)) addHitCodes(codes, outcome, hit);
    }
    if (outcome.code !== undefined) codes.add(outcome.code);
  }
  return [...codes];
}

function addHitCodes(codes: Set<string>, { layer, decision, decider }: LayerOutcome, hit: Hit): void {
  const stated = hit.rule.effects.reasonCodes ?? [];
  for (const code of stated) codes.add(code);
  for (const name of hit.lacking) codes.add(`missing:${name}`);
  if (hit !== decider || decision === undefined || permits(decision) || stated.length + hit.lacking.length > 0) return;
  codes.add(DEFAULT_CODES[decision] ?? GATE_CODES[layer.name] ?? 'policy_denied');
}

/** The reason of the rule that decided, else a sentence that says what happened (specification, "Policy outcomes"). */
function reasonOf({ layer, decision, decider, code }: DecidedOutcome): string | undefined {
  if (decider === undefined) {
    return code === 'strict_conflict'
      ? `rules of the ${layer.name} layer disagree`
      : `no rule of the ${layer.name} layer allows this request`;
  }
  const { rule, lacking } = decider;
  const own = rule.decision === decision ? rule.effects.reason : undefined;
  if (own !== undefined || permits(decision)) return own;
  if (lacking.length > 0) return `require_attribution: ${lacking.join(', ')} required`;
  return `rule "${rule.id}" of the ${layer.name} layer decided ${decision}`;
}

/** Per key the first by order; undefined when there is none (decision 6.11). */
function collectDefaults(rules: readonly CompiledRule[]): Attribution | undefined {
  return rules.length === 0 ? undefined : attributionFrom(rules.flatMap(({ effects }) => effects.defaults ?? []));
}

/**
 * The observed values of the fields that the policy's rules read, for `policy_trace.attributes` (decision 7.4). JSON
 * data; missing fields and content of the body (all of it but model, stream and numbers) are left out, a query has its
 * names only, money is decimal text; long texts and lists are cut.
 */
export function observe(policy: CompiledPolicy, facts: Facts): Record<string, unknown> {
  const seen: Record<string, unknown> = {};
  for (const { name, get, observed } of policy.fields) {
    const value = get(facts);
    if (value === undefined || value === null) continue;
    const kept = observed === undefined ? value : observed(value);
    if (kept !== undefined) seen[`context.${name}`] = short(kept);
  }
  // Whatever the rules read, they were asked about each of them.
  if (facts.models !== undefined) seen[MODELS] = short(facts.models);
  return seen;
}

const MODELS = 'context.action.models';

/** Names of headers are as many as a request likes. */
const MAX_ITEMS = 100;

function short(value: unknown): unknown {
  if (typeof value === 'string') return shorten(value, MAX_RECORDED);
  return Array.isArray(value) ? value.slice(0, MAX_ITEMS).map((item: unknown) => (typeof item === 'string' ? shorten(item) : item)) : value;
}
