import { isJsonObject } from '../../base/json/json-object.ts';
import type { PolicyText } from './bundle.ts';
import type { PolicyInput, PolicyResult } from './compile.ts';
import { decide } from './evaluate.ts';
import { judgeCaps } from './judge-caps.ts';
import type { RateLimited } from './layer-run.ts';
import type { SuiteCase } from './suite.ts';
import type { Verdict } from './verdict.ts';

/** What a suite names by path, read by whoever has the files. */
export interface NamedPolicy {
  readonly policies?: Omit<PolicyInput, 'tier'>;
  /** Texts of the suite's `rule_files`. */
  readonly addons?: readonly PolicyText[];
}

/** A member of the decision that is not as expected. */
export interface Mismatch {
  /** `decision`, `effects.mutations`, `errors`. */
  readonly member: string;
  readonly expected: unknown;
  readonly actual: unknown;
}

const EMPTY_BUNDLE = 'schema: gw.policy_bundle.v1';

/** The texts that decide a case: its own, over those that its suite names. */
export function inputOf({ policy }: SuiteCase, named: NamedPolicy = {}): PolicyInput {
  const { bundle, files, addons = [], org, node, tier = 'enterprise', put = false } = policy;
  const base = bundle === undefined ? named.policies : undefined;
  const text = (given: string | undefined, file: string) => (given === undefined ? undefined : { text: given, file });
  const own = addons.map((addon, i) => ({ text: addon, file: `addons/${i + 1}.yaml` }));
  return {
    bundle: base?.bundle ?? { text: bundle ?? EMPTY_BUNDLE, file: 'bundle.yaml' },
    files: put ? undefined : new Map([...(base?.files ?? []), ...Object.entries(files ?? {})]),
    addons: put ? [] : [...(base?.addons ?? []), ...(named.addons ?? []), ...own],
    overlays: {
      org: text(org, 'overlays/org.yaml') ?? base?.overlays?.org,
      node: text(node, 'overlays/node.yaml') ?? base?.overlays?.node,
    },
    tier,
  };
}

/** Runs a case against what {@link inputOf} compiled to; nothing when everything is as expected. */
export function mismatches(one: SuiteCase, { policy, errors }: PolicyResult): readonly Mismatch[] {
  if (one.errors !== undefined) return unequal('errors', one.errors, named(errors ?? [], one.errors));
  if (policy === undefined) return [{ member: 'errors', expected: [], actual: errors }];
  return compare(one, verdictOf(one, policy));
}

/** The decision that the case is about, by the rules and by the caps that they set. */
export function verdictOf(one: SuiteCase, policy: Parameters<typeof decide>[0]): Verdict {
  const { facts, costAfter, spentPico } = one;
  const verdict = decide(policy, facts, emptyBuckets(one));
  return judgeCaps(verdict, costAfter(verdict.effects.mutations), spentPico).verdict;
}

/** The buckets that the case says are empty. */
export function emptyBuckets({ rateLimited }: SuiteCase): RateLimited | undefined {
  return rateLimited && ((layer, id) => rateLimited.includes(id) || rateLimited.includes(`${layer}/${id}`));
}

function compare({ expect = {} }: SuiteCase, verdict: Verdict): readonly Mismatch[] {
  const { effects, ...members } = expect;
  const actual = shownVerdict(verdict);
  const found = Object.entries(members).flatMap(([member, value]) => unequal(member, value, actual[member]));
  const merged: Readonly<Record<string, unknown>> = { ...verdict.effects };
  for (const [member, value] of Object.entries(isJsonObject(effects) ? effects : {})) {
    found.push(...unequal(`effects.${member}`, value, merged[member] ?? null));
  }
  return found;
}

/**
 * A verdict as cases write it: rules are `layer/id`, with `@level` when an overlay brought them and `?` when a missing
 * field took the restrictive side.
 */
export function shownVerdict(verdict: Verdict): Readonly<Record<string, unknown>> {
  const { stopped_at = null, reason = null, model = null, matched } = verdict;
  const rules = matched.map(
    ({ layer, rule_id, level, missing_field }) => `${layer}/${rule_id}${level === 'base' ? '' : `@${level}`}${missing_field ? '?' : ''}`,
  );
  return { ...verdict, stopped_at, reason, model, matched: rules };
}

/** Of each mistake the members that the expectation at its place names; of unexpected ones where and what they are. */
function named(errors: readonly object[], expected: SuiteCase['errors']): readonly unknown[] {
  return errors.map((error, i) => {
    const asked = Object.keys(expected?.[i] ?? { code: 0, line: 0, column: 0, message: 0 });
    return Object.fromEntries(Object.entries(error).filter(([name]) => asked.includes(name)));
  });
}

function unequal(member: string, expected: unknown, actual: unknown): Mismatch[] {
  return same(expected, actual) ? [] : [{ member, expected, actual }];
}

function same(a: unknown, b: unknown): boolean {
  if (Array.isArray(a)) return Array.isArray(b) && a.length === b.length && a.every((item, i) => same(item, b[i]));
  if (!isJsonObject(a) || !isJsonObject(b)) return Object.is(a, b);
  const names = Object.keys(a);
  return names.length === Object.keys(b).length && names.every((name) => Object.hasOwn(b, name) && same(a[name], b[name]));
}
