import type { Attribution } from '../../base/model/attribution.ts';
import { type Decision, permits, severityOf } from '../../base/model/decision.ts';
import { type AttributionKey, attributionFrom } from './attribution-keys.ts';
import type { CompiledPolicy, CompiledRule } from './compiled.ts';
import type { Facts } from './facts.ts';
import { GATE_CODES } from './layers.ts';
import { type Hit, type LayerOutcome, type RateLimited, type RunContext, runLayer } from './layer-run.ts';
import { mergeEffects } from './merge.ts';
import type { MatchedRule, Verdict } from './verdict.ts';

/** Reason codes of rules that decide and state none. A denial in a gating layer has the layer's own. */
const DEFAULT_CODES: Readonly<Partial<Record<Decision, string>>> = {
  rate_limit: 'rate_limited',
  require_approval: 'approval_required',
  require_attribution: 'attribution_required',
  quarantine: 'quarantined',
};

/**
 * Decides one request: deny by default, layers in order, the most restrictive outcome wins (policy.md 1 to 8). Pure: no clock, no I/O, no state.
 * @param rateLimited tells of the buckets of rules that decide `rate_limit`; without it all have tokens. When `effects.rate_limits` of a first verdict names
 *   rules, whoever holds the buckets looks at them and calls again (policy.md 2).
 */
export function decide(policy: CompiledPolicy, facts: Facts, rateLimited?: RateLimited): Verdict {
  const defaults = collectDefaults(policy.defaultRules, facts);
  const context: RunContext = { facts, defaults, rateLimited, strategy: policy.strategy };
  const outcomes: LayerOutcome[] = [];
  let deciding: LayerOutcome | undefined;
  let stoppedAt: string | undefined;
  for (const layer of policy.layers) {
    const outcome = runLayer(layer, context);
    outcomes.push(outcome);
    if (outcome.decision === undefined) continue;
    if (deciding?.decision === undefined || severityOf(outcome.decision) > severityOf(deciding.decision)) deciding = outcome;
    if (!policy.stopOn.has(outcome.decision)) continue;
    stoppedAt = layer.name;
    break;
  }
  return conclude(outcomes, deciding, stoppedAt, context);
}

function conclude(outcomes: readonly LayerOutcome[], deciding: LayerOutcome | undefined, stoppedAt: string | undefined, context: RunContext): Verdict {
  const { facts, defaults } = context;
  const decision = deciding?.decision ?? 'deny';
  const runs = permits(decision);
  const hits = deciding === undefined ? [] : contributing(outcomes, runs);
  const rules = hits.map((hit) => hit.rule);
  const merged = mergeEffects(rules, defaults, facts);
  const verdict = {
    decision: decision === 'downgrade' && merged.downgradeChangesNothing ? ('allow' as const) : decision,
    reason: deciding === undefined ? 'no rule allows this request' : reasonOf(deciding),
    reason_codes: deciding === undefined ? ['default_deny'] : reasonCodes(outcomes, runs),
    matched: hits.map((hit) => matchedOf(hit, facts)),
    stopped_at: stoppedAt,
    effects: merged.effects,
  };
  if (!runs || !merged.noCredentialLeft) return verdict;
  const code = 'no_credential_candidate';
  return { ...verdict, decision: 'deny', reason: 'the rules ask for different credentials, so none is left', reason_codes: [...new Set([...verdict.reason_codes, code])] };
}

/** Hits below the ending rule of their layer count when the request runs, or when they themselves refused it. */
function contributing(outcomes: readonly LayerOutcome[], runs: boolean): readonly Hit[] {
  const hits: Hit[] = [];
  for (const outcome of outcomes) {
    for (const hit of outcome.hits) {
      if (!hit.below || runs || hit.lacking.length > 0) hits.push(hit);
    }
  }
  return hits;
}

function matchedOf({ rule }: Hit, facts: Facts): MatchedRule {
  return rule.missingMark?.(facts) ? rule.matchedMissing : rule.matched;
}

/** Union in order: the codes that rules state, the missing attribution, the layers' own, and a default for a rule that refused without one. */
function reasonCodes(outcomes: readonly LayerOutcome[], runs: boolean): readonly string[] {
  const codes = new Set<string>();
  for (const { layer, decision, decider, code, hits } of outcomes) {
    for (const hit of hits) {
      if (hit.below && !runs && hit.lacking.length === 0) continue;
      const stated = hit.rule.effects.reasonCodes ?? [];
      for (const own of stated) codes.add(own);
      for (const name of hit.lacking) codes.add(`missing:${name}`);
      if (hit !== decider || decision === undefined || permits(decision) || stated.length > 0 || hit.lacking.length > 0) continue;
      codes.add(DEFAULT_CODES[decision] ?? GATE_CODES[layer.name] ?? 'policy_denied');
    }
    if (code !== undefined) codes.add(code);
  }
  return [...codes];
}

/** The reason of the rule that decided, else a sentence that says what happened (specification: `require_attribution: project_id required`). */
function reasonOf({ layer, decision, decider, code }: LayerOutcome): string | undefined {
  if (decider === undefined) {
    return code === 'strict_conflict' ? `rules of the ${layer.name} layer disagree` : `no rule of the ${layer.name} layer allows this request`;
  }
  const { rule, lacking } = decider;
  const own = rule.decision === decision ? rule.effects.reason : undefined;
  if (own !== undefined || decision === undefined || permits(decision)) return own;
  if (lacking.length > 0) return `require_attribution: ${lacking.join(', ')} required`;
  return `rule "${rule.id}" of the ${layer.name} layer decided ${decision}`;
}

/** Per key the first by order, only where the request has no value of its own; undefined when there is none (decision 6.11). */
function collectDefaults(rules: readonly CompiledRule[], facts: Facts): Attribution | undefined {
  let values: (readonly [AttributionKey, string])[] | undefined;
  for (const rule of rules) {
    if (!rule.matches(facts)) continue;
    for (const entry of rule.effects.defaults ?? []) {
      if (entry[0].get(facts.attribution) !== undefined) continue;
      values ??= [];
      values.push(entry);
    }
  }
  return values && attributionFrom(values);
}
