import { usdFromPico } from '../../base/lib/money.ts';
import type { Attribution } from '../../base/model/action-request.ts';
import { attributionEntries, attributionFrom } from './attribution-keys.ts';
import type { CompiledRule } from './compiled.ts';
import type { CredentialChoice } from './effects.ts';
import type { Facts } from './facts.ts';
import { type CompiledMutation, overlaps } from './mutations.ts';
import type { Effects } from './verdict.ts';

export interface MergedEffects {
  readonly effects: Effects;
  /** False when a rule that decides `downgrade` changes something that is not so already. */
  readonly downgradeChangesNothing: boolean;
  /** Two rules ask for credentials that no credential can be both. */
  readonly noCredentialLeft: boolean;
  /** As in a verdict; one array is shared by all that have nothing. */
  readonly overridden: readonly string[];
}

const NO_NAMES: readonly never[] = [];
const NO_EFFECTS: Effects = Object.freeze({
  rate_limits: NO_NAMES,
  require_attribution: NO_NAMES,
  default_attribution: Object.freeze({}),
  mutations: NO_NAMES,
});
const NOTHING: MergedEffects = { effects: NO_EFFECTS, downgradeChangesNothing: true, noCredentialLeft: false, overridden: NO_NAMES };

/** Merges the effects of the contributing rules, which come in policy order ("Merging effects" of policy.md). */
export function mergeEffects(rules: readonly CompiledRule[], defaults: Attribution | undefined, facts: Facts): MergedEffects {
  if (defaults === undefined && !rules.some(hasEffects)) {
    return rules.some(replacesOthers) ? { ...NOTHING, overridden: rules.flatMap((rule) => rule.replaces) } : NOTHING;
  }
  const lost: string[] = rules.flatMap((rule) => rule.replaces);
  const usdMax = least(rules, (rule) => rule.effects.usdMaxPico);
  const monthlyUsdMax = least(rules, (rule) => rule.effects.monthlyUsdMaxPico);
  const connector = mergeConnector(rules, lost);
  const credential = mergeCredential(rules, lost);
  const overrides = mergeOverrides(rules);
  const mutations = mergeMutations(rules, facts, lost);
  const effects: Effects = {
    ...(usdMax === undefined ? {} : { usd_max: usdFromPico(usdMax) }),
    ...(monthlyUsdMax === undefined ? {} : { monthly_usd_max: usdFromPico(monthlyUsdMax) }),
    rate_limits: rules.flatMap(({ layer, id, effects: { requestsPerMinute } }) =>
      requestsPerMinute === undefined ? [] : [{ layer, rule_id: id, requests_per_minute: requestsPerMinute }],
    ),
    ...(connector === undefined ? {} : { select_connector: connector }),
    ...(credential.choice === undefined ? {} : { select_credential: credential.choice }),
    require_attribution: [...new Set(rules.flatMap((rule) => rule.require.map((key) => key.name)))],
    ...(overrides === undefined ? {} : { allow_overrides: overrides }),
    default_attribution: defaults === undefined ? NO_EFFECTS.default_attribution : applicable(defaults, facts.attribution, overrides),
    mutations: mutations.list.map(({ key, value }) => ({ key, value })),
  };
  return { effects, downgradeChangesNothing: !mutations.downgraded, noCredentialLeft: credential.conflict, overridden: lost };
}

function hasEffects({ effects }: CompiledRule): boolean {
  for (const name in effects) if (name !== 'decision' && name !== 'reason' && name !== 'reasonCodes') return true;
  return false;
}

function least(rules: readonly CompiledRule[], get: (rule: CompiledRule) => bigint | undefined): bigint | undefined {
  let min: bigint | undefined;
  for (const rule of rules) {
    const value = get(rule);
    if (value !== undefined && (min === undefined || value < min)) min = value;
  }
  return min;
}

/** The first by order; another one that comes later is lost. */
function mergeConnector(rules: readonly CompiledRule[], lost: string[]): string | undefined {
  let chosen: string | undefined;
  for (const rule of rules) {
    const asked = rule.effects.selectConnector;
    chosen ??= asked;
    if (asked !== undefined && asked !== chosen) lost.push(effectOf(rule, 'select_connector'));
  }
  return chosen;
}

/** How the trace names one effect of a rule. */
function effectOf({ layer, id, matched }: CompiledRule, effect: string): string {
  return `${layer}/${id}@${matched.level}#${effect}`;
}

function replacesOthers({ replaces }: CompiledRule): boolean {
  return replaces.length > 0;
}

/** `credential_id` is the first by order, the filters intersect: two different values leave no candidate. */
function mergeCredential(rules: readonly CompiledRule[], lost: string[]): { choice: CredentialChoice | undefined; conflict: boolean } {
  let choice: CredentialChoice | undefined;
  let conflict = false;
  for (const rule of rules) {
    const asked = rule.effects.selectCredential;
    if (asked === undefined) continue;
    const chosen: CredentialChoice = choice ?? asked;
    if (differ(chosen, asked, 'credential_id')) lost.push(effectOf(rule, 'select_credential'));
    conflict ||= CREDENTIAL_FILTERS.some((name) => differ(chosen, asked, name));
    choice = { ...asked, ...chosen };
  }
  return { choice, conflict };
}

const CREDENTIAL_FILTERS = ['provider', 'mode', 'billing_owner'] as const;

function differ(a: CredentialChoice, b: CredentialChoice, name: keyof CredentialChoice): boolean {
  return a[name] !== undefined && b[name] !== undefined && a[name] !== b[name];
}

/** Intersection of the rules that state one; undefined: nobody does, unrestricted. */
function mergeOverrides(rules: readonly CompiledRule[]): readonly string[] | undefined {
  let names: readonly string[] | undefined;
  for (const { effects } of rules) {
    const { allowOverrides } = effects;
    if (allowOverrides !== undefined) names = names === undefined ? allowOverrides : names.filter((name) => allowOverrides.includes(name));
  }
  return names;
}

/**
 * Defaults count where the request has no value, or one that its caller may not give: what is dropped must not shut the
 * default out.
 */
function applicable(defaults: Attribution, own: Attribution, overrides: readonly string[] | undefined): Attribution {
  return attributionFrom(
    attributionEntries(defaults).filter(([key]) => key.get(own) === undefined || overrides?.includes(key.name) === false),
  );
}

/** In order; a key that is already written, or lies within or around one, is skipped. */
function mergeMutations(
  rules: readonly CompiledRule[],
  facts: Facts,
  lost: string[],
): { list: readonly CompiledMutation[]; downgraded: boolean } {
  const list: CompiledMutation[] = [];
  let downgraded = false;
  for (const rule of rules) {
    for (const mutation of rule.effects.mutations ?? []) {
      if (list.some((written) => overlaps(written.key, mutation.key))) {
        lost.push(effectOf(rule, `mutations.${mutation.key}`));
        continue;
      }
      list.push(mutation);
      if (rule.decision === 'downgrade' && !mutation.changesNothing(facts)) downgraded = true;
    }
  }
  return { list, downgraded };
}
