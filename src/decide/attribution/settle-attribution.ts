/*
 * Attribution: who is charged. Pure: values in, values out. The order in which givers are asked is decision 6.11:
 * caller, delegation, workload, rules, org. An empty text is no value: who sends one must not keep out what others
 * give.
 */
import type { Attribution } from '../../base/model/action-request.ts';

type Labels = Readonly<Record<string, string>>;

const IDS = ['customer_id', 'account_id', 'project_id'] as const;

/** Members of `first`, completed by those of `second`; labels are completed one by one. */
export function mergeAttribution(first: Attribution, second: Attribution | undefined): Attribution {
  if (!second) return first;
  const merged: { -readonly [K in keyof Attribution]: Attribution[K] } = {};
  for (const id of IDS) {
    const value = first[id] || second[id];
    if (value !== undefined) merged[id] = value;
  }
  if (first.labels || second.labels) merged.labels = mergeLabels(first.labels ?? {}, second.labels ?? {});
  return merged;
}

/** Labels of `first`, completed by those of `second`. */
export function mergeLabels(first: Labels, second: Labels): Labels {
  const given = Object.entries(first).filter(([name, value]) => value !== '' || !Object.hasOwn(second, name));
  return Object.fromEntries([...Object.entries(second), ...given]);
}

/**
 * Drops what the caller may not set (specification, "enforce_attribution": `allow_overrides` also restricts
 * `labels.<key>` entries).
 */
export function restrictOverrides(caller: Attribution, allowed: readonly string[] | undefined): Attribution {
  if (!allowed) return caller;
  const kept: { -readonly [K in keyof Attribution]: Attribution[K] } = {};
  for (const id of IDS) {
    const value = caller[id];
    if (value !== undefined && allowed.includes(id)) kept[id] = value;
  }
  const labels = Object.entries(caller.labels ?? {}).filter(([key]) => allowed.includes(`labels.${key}`));
  if (labels.length > 0) kept.labels = Object.fromEntries(labels);
  return kept;
}

/** The value of an attribution name as rules write it: an id, or `labels.<key>`. */
export function attributionValue(attribution: Attribution, name: string): string | undefined {
  if (name.startsWith('labels.')) {
    const key = name.slice('labels.'.length);
    return attribution.labels && Object.hasOwn(attribution.labels, key) ? attribution.labels[key] : undefined;
  }
  const id = IDS.find((known) => known === name);
  return id && attribution[id];
}

/** The merged effects of policy that concern attribution. */
export interface AttributionEffects {
  readonly require_attribution: readonly string[];
  /** Undefined: unrestricted. */
  readonly allow_overrides?: readonly string[];
  readonly default_attribution: Attribution;
}

export interface Settled {
  readonly attribution: Attribution;
  /** Required names that nobody gave. */
  readonly missing: readonly string[];
}

/** What a delegation says of attribution. */
export interface DelegatedAttribution {
  readonly defaults: Attribution;
  /** What the caller may say itself; undefined: everything. */
  readonly overrides: readonly string[] | undefined;
}

/** What the caller says, as far as its delegation lets it, and what the delegation says of the rest. */
export function delegatedAttribution(caller: Attribution, { overrides, defaults }: DelegatedAttribution): Attribution {
  return mergeAttribution(restrictOverrides(caller, overrides), defaults);
}

/** The attribution that is recorded, after the merged effects of all matching rules. */
export function settleAttribution(input: {
  readonly caller: Attribution;
  readonly delegation?: DelegatedAttribution | undefined;
  readonly workload: Attribution | undefined;
  readonly org: Attribution | undefined;
  readonly effects: AttributionEffects;
}): Settled {
  const { caller, delegation, workload, org, effects } = input;
  const allowed = restrictOverrides(caller, effects.allow_overrides);
  const given = delegation === undefined ? allowed : delegatedAttribution(allowed, delegation);
  const own = workload === undefined ? given : mergeAttribution(given, workload);
  const ruled = mergeAttribution(own, effects.default_attribution);
  const attribution = org === undefined ? ruled : mergeAttribution(ruled, org);
  const missing = effects.require_attribution.filter((name) => !attributionValue(attribution, name));
  return { attribution, missing };
}
