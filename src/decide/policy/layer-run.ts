import type { Attribution } from '../../base/model/action-request.ts';
import { type Decision, permits, severityOf } from '../../base/model/reason-codes.ts';
import type { MergeStrategy } from './bundle.ts';
import type { CompiledLayer, CompiledRule } from './compiled.ts';
import type { Facts } from './facts.ts';
import type { Positions } from './rule-index.ts';

/** Whether the bucket of a rule that decides `rate_limit` is out of tokens (policy.md 2). */
export type RateLimited = (layer: string, ruleId: string) => boolean;

/** What every layer of one evaluation looks at. */
export interface RunContext {
  readonly facts: Facts;
  /** Collected from all matching rules before the first layer (decision 6.11). */
  readonly defaults: Attribution | undefined;
  /** Those of rules that do not refuse: what counts for the requirements of other rules (policy.md 2). */
  readonly supplied: Attribution | undefined;
  readonly rateLimited: RateLimited | undefined;
  readonly strategy: MergeStrategy;
}

/** A rule that matched. */
export interface Hit {
  readonly rule: CompiledRule;
  /**
   * Ranked below the rule that ended its layer: contributes only when the outcome lets the request run (policy.md 7).
   */
  readonly below: boolean;
  /** Names of required attribution that nobody gave. */
  readonly lacking: readonly string[];
}

export interface LayerOutcome {
  readonly layer: CompiledLayer;
  /** Undefined: the layer has no opinion. */
  readonly decision: Decision | undefined;
  /** The rule that decided; undefined for a denial by the layer itself. */
  readonly decider: Hit | undefined;
  /** Reason code of a denial by the layer itself. */
  readonly code: string | undefined;
  readonly hits: readonly Hit[];
}

const NONE: readonly never[] = [];
const REQUIRE_ATTRIBUTION = severityOf('require_attribution');

/** Evaluates one layer (policy.md 6 to 8). A rule that does not match costs one call and no memory. */
export function runLayer(layer: CompiledLayer, context: RunContext): LayerOutcome {
  const found = context.strategy === 'strict' ? runStrict(layer, context) : runFirstMatch(layer, context);
  if (found.decision !== undefined || layer.gateCode === undefined) return found;
  return { ...found, decision: 'deny', code: layer.gateCode };
}

function runFirstMatch(layer: CompiledLayer, context: RunContext): LayerOutcome {
  const { facts } = context;
  const scan = new Scan(layer, facts);
  let hits: Hit[] | undefined;
  let decision: Decision | undefined;
  let decider: Hit | undefined;
  for (let at = scan.next(); at !== -1; at = scan.next()) {
    if (decision !== undefined && (at > layer.lastEffectOnly || !permits(decision))) break;
    const rule = layer.rules[at];
    if (rule === undefined || (decision !== undefined && rule.decision !== undefined) || !rule.matches(facts)) continue;
    const hit: Hit = { rule, below: decision !== undefined, lacking: lackingOf(rule, context) };
    hits ??= [];
    hits.push(hit);
    const opinion = opinionOf(hit, context);
    if (opinion === undefined || (decision !== undefined && severityOf(opinion) <= severityOf(decision))) continue;
    decision = opinion;
    decider = hit;
  }
  return { layer, decision, decider, code: undefined, hits: hits ?? NONE };
}

/** All matching rules with a decision must agree, and so must the values of single-valued effects (policy.md 8). */
function runStrict(layer: CompiledLayer, context: RunContext): LayerOutcome {
  const { facts } = context;
  const scan = new Scan(layer, facts);
  const hits: Hit[] = [];
  for (let at = scan.next(); at !== -1; at = scan.next()) {
    const rule = layer.rules[at];
    if (rule?.matches(facts)) hits.push({ rule, below: false, lacking: lackingOf(rule, context) });
  }
  const stated = hits.filter(({ rule }) => rule.decision !== undefined);
  const speaking = stated.filter((hit) => opinionOf(hit, context) !== undefined);
  if (disagree(speaking, facts) || effectsConflict(hits))
    return { layer, decision: 'deny', decider: undefined, code: 'strict_conflict', hits };
  let decision: Decision | undefined;
  let decider: Hit | undefined;
  for (const hit of hits) {
    const opinion = opinionOf(hit, context);
    if (opinion === undefined || (decision !== undefined && severityOf(opinion) <= severityOf(decision))) continue;
    decision = opinion;
    decider = hit;
  }
  return { layer, decision, decider, code: undefined, hits };
}

function effectsConflict(hits: readonly Hit[]): boolean {
  const connectors = new Set<string>();
  const credentials = new Set<string>();
  for (const { rule } of hits) {
    const { selectConnector, selectCredential } = rule.effects;
    if (selectConnector !== undefined) connectors.add(selectConnector);
    if (selectCredential?.credential_id !== undefined) credentials.add(selectCredential.credential_id);
  }
  return connectors.size > 1 || credentials.size > 1;
}

/**
 * What a matching rule decides here: lacking attribution makes a milder rule decide `require_attribution`; a rule that
 * decides `require_attribution` and lacks nothing of what it requires, and one that decides `rate_limit` while its
 * bucket has tokens, have no opinion (decision 6.11, policy.md 2).
 */
function opinionOf({ rule, lacking }: Hit, { facts, rateLimited }: RunContext): Decision | undefined {
  const decision = decisionOf(rule, facts);
  if (lacking.length > 0 && (decision === undefined || severityOf(decision) < REQUIRE_ATTRIBUTION)) return 'require_attribution';
  if (decision === 'require_attribution') return rule.require.length > 0 && lacking.length === 0 ? undefined : decision;
  if (decision === 'rate_limit') return rateLimited?.(rule.layer, rule.id) === true ? decision : undefined;
  return decision;
}

/** What a rule decides of a request: what it waits for may have been given. */
export function decisionOf(rule: CompiledRule, { approved }: Facts): Decision | undefined {
  return rule.decision === 'require_approval' && isApproved(rule, approved) ? 'allow' : rule.decision;
}

function isApproved(rule: CompiledRule, approved: Facts['approved']): boolean {
  return typeof approved === 'boolean' ? approved : approved(rule);
}

/** Of rules that all ask for an approval some may have been given: they do not disagree. */
function disagree(stated: readonly Hit[], facts: Facts): boolean {
  const [first] = stated;
  if (first === undefined) return false;
  const counted = decisionOf(first.rule, facts);
  if (stated.every(({ rule }) => decisionOf(rule, facts) === counted)) return false;
  return !stated.every(({ rule }) => rule.decision === first.rule.decision);
}

function lackingOf(rule: CompiledRule, { facts, supplied }: RunContext): readonly string[] {
  let lacking: string[] | undefined;
  for (const key of rule.require) {
    if ((key.get(facts.attribution) ?? key.get(supplied) ?? key.get(facts.org_attribution)) !== undefined) continue;
    if (rule.effects.defaults?.some(([{ name }]) => name === key.name)) continue;
    lacking ??= [];
    lacking.push(key.name);
  }
  return lacking ?? NONE;
}

/** Walks the positions of a layer that this request can match, in order: the ascending lists of its index, merged. */
class Scan {
  readonly #lists: readonly Positions[];
  readonly #single: Positions | undefined;
  readonly #cursors: number[];

  constructor(layer: CompiledLayer, facts: Facts) {
    this.#lists = layer.index.candidates(facts);
    this.#single = this.#lists.length === 1 ? this.#lists[0] : undefined;
    this.#cursors = this.#lists.map(() => 0);
  }

  /** The next position, or -1. */
  next(): number {
    const cursors = this.#cursors;
    if (this.#single !== undefined) {
      const cursor = cursors[0] ?? 0;
      cursors[0] = cursor + 1;
      return this.#single[cursor] ?? -1;
    }
    let least = -1;
    let from = -1;
    for (let i = 0; i < cursors.length; i++) {
      const position = this.#lists[i]?.[cursors[i] ?? 0];
      if (position === undefined || (least !== -1 && position > least)) continue;
      least = position;
      from = i;
    }
    if (from !== -1) cursors[from] = (cursors[from] ?? 0) + 1;
    return least;
  }
}
