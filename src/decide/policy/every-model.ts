/*
 * A call may name more models than its own (decision 6.3): ones that may answer in its place, ones that run inside of
 * it. Policy is asked about each of them as if it were the call's own, and the most restrictive answer holds: what one
 * of them may not do, the call may not do.
 */
import type { NamedModels } from '../../base/catalogue/named-models.ts';
import { parseUsd } from '../../base/lib/money.ts';
import { permits, severityOf } from '../../base/model/reason-codes.ts';
import type { Facts, FurtherModel } from './facts.ts';
import type { Effects, MatchedRule, Mutation, Verdict } from './verdict.ts';

const PARAMS = 'action.params.';
const MODEL = `${PARAMS}model`;
/** A maximum of output by one of its names changes what is allowed by the others. */
const MAXIMUM = /max_?\w*tokens/i;
const NO_PLACE = 'mutation_not_applicable';
const NO_CREDENTIAL = 'no_credential_candidate';

/**
 * The models that a body names beside its own, as policy is asked about them: an inner one has settings of its own, and
 * reads the rest of the call as it is.
 */
export function furtherOf({ alternatives, inner }: NamedModels): readonly FurtherModel[] {
  return [...alternatives, ...inner].map(({ model, place, said }) => ({ model, said: place.as === 'alternative' ? said : undefined }));
}

/**
 * The body's members as policy sees them: where models are hidden, its own is no answer for all of them, so that no
 * rule that looks at a model lets the call pass.
 */
export function shownParams(params: Facts['params'], named: NamedModels | undefined): Facts['params'] {
  if (named?.hidden !== true || !Object.hasOwn(params, 'model')) return params;
  const { model: _, ...others } = params;
  return others;
}

/**
 * The facts of a call with a further model that it names in the place of its own, and what stands with that in the
 * place of the body's own members.
 */
export function factsWith(facts: Facts, { model, said }: FurtherModel): Facts {
  return {
    ...facts,
    // Not among the own members of every object that has facts.
    header_names: facts.header_names,
    params: { ...facts.params, ...said, model },
    further: undefined,
  };
}

/** The facts of a call once for each model that it names, its own first. */
export function factsOfEveryModel(facts: Facts): readonly Facts[] {
  return [facts, ...(facts.further ?? []).map((further) => factsWith(facts, further))];
}

/**
 * The most severe of the answers that {@link decideOne} gives, the first of equal ones; effects of all that let the
 * call go on hold together.
 */
export function verdictOfAll(facts: Facts, own: Verdict, decideOne: (facts: Facts) => Verdict): Verdict {
  const asked = (facts.further ?? []).map((further) => ({ further, verdict: answerFor(facts, further, own, decideOne) }));
  let combined = own;
  for (const { further, verdict } of asked) {
    const about = { ...verdict, model: verdict.model ?? further.model };
    combined = combine(combined, goesOn(about) ? (unapplied(about, further, own) ?? about) : about);
  }
  return combined;
}

function answerFor(facts: Facts, further: FurtherModel, own: Verdict, decideOne: (facts: Facts) => Verdict): Verdict {
  // The usual list of models to fall back on begins with the call's own.
  return further.said === undefined && further.model === facts.params['model'] ? own : decideOne(factsWith(facts, further));
}

/** Whether the effects of a verdict are applied, now or once a person has approved the call. */
function goesOn({ decision }: Verdict): boolean {
  return permits(decision) || decision === 'require_approval';
}

function combine(first: Verdict, second: Verdict): Verdict {
  const [worse, other] = severityOf(second.decision) > severityOf(first.decision) ? [second, first] : [first, second];
  if (!goesOn(worse)) return worse;
  const { effects, noCredential } = mergeEffects(first.effects, second.effects);
  const verdict: Verdict = {
    ...worse,
    reason: worse.reason ?? (worse.decision === other.decision ? other.reason : undefined),
    reason_codes: [...new Set([...first.reason_codes, ...second.reason_codes])],
    matched: mergeMatched(first.matched, second.matched),
    effects,
    overridden: [...new Set([...first.overridden, ...second.overridden])],
  };
  if (!noCredential) return verdict;
  const reason = 'the rules for the models that the call names ask for different credentials, so none is left';
  return { ...verdict, decision: 'deny', reason, reason_codes: [...verdict.reason_codes, NO_CREDENTIAL] };
}

function mergeMatched(first: readonly MatchedRule[], second: readonly MatchedRule[]): readonly MatchedRule[] {
  const known = new Set(first.map(({ layer, rule_id }) => `${layer}/${rule_id}`));
  const more = second.filter(({ layer, rule_id }) => !known.has(`${layer}/${rule_id}`));
  return more.length === 0 ? first : [...first, ...more];
}

/** As the effects of several rules are merged (policy.md, "Merging effects"), those for the call's own model first. */
function mergeEffects(first: Effects, second: Effects): { readonly effects: Effects; readonly noCredential: boolean } {
  const usdMax = least(first.usd_max, second.usd_max);
  const monthlyUsdMax = least(first.monthly_usd_max, second.monthly_usd_max);
  const connector = first.select_connector ?? second.select_connector;
  const credential = mergeCredential(first.select_credential, second.select_credential);
  const overrides = mergeOverrides(first.allow_overrides, second.allow_overrides);
  const effects: Effects = {
    ...(usdMax === undefined ? {} : { usd_max: usdMax }),
    ...(monthlyUsdMax === undefined ? {} : { monthly_usd_max: monthlyUsdMax }),
    rate_limits: withoutTwins([...first.rate_limits, ...second.rate_limits]),
    ...(connector === undefined ? {} : { select_connector: connector }),
    ...(credential === undefined ? {} : { select_credential: credential }),
    require_attribution: [...new Set([...first.require_attribution, ...second.require_attribution])],
    ...(overrides === undefined ? {} : { allow_overrides: overrides }),
    default_attribution: mergeDefaults(first.default_attribution, second.default_attribution),
    mutations: [...first.mutations, ...second.mutations.filter(({ key }) => !first.mutations.some((written) => written.key === key))],
  };
  return { effects, noCredential: differ(first.select_credential, second.select_credential) };
}

function least(first: string | undefined, second: string | undefined): string | undefined {
  if (first === undefined || second === undefined) return first ?? second;
  return (parseUsd(second) ?? 0n) < (parseUsd(first) ?? 0n) ? second : first;
}

function withoutTwins(limits: Effects['rate_limits']): Effects['rate_limits'] {
  return limits.filter(({ layer, rule_id }, at) => limits.findIndex((other) => other.layer === layer && other.rule_id === rule_id) === at);
}

type Selected = Effects['select_credential'];

function mergeCredential(first: Selected, second: Selected): Selected {
  return first === undefined || second === undefined ? (first ?? second) : { ...second, ...first };
}

const CREDENTIAL_FILTERS = ['provider', 'mode', 'billing_owner'] as const;

function differ(first: Selected, second: Selected): boolean {
  return CREDENTIAL_FILTERS.some((name) => {
    const [a, b] = [first?.[name], second?.[name]];
    return a !== undefined && b !== undefined && a !== b;
  });
}

function mergeOverrides(first: Effects['allow_overrides'], second: Effects['allow_overrides']): Effects['allow_overrides'] {
  if (first === undefined || second === undefined) return first ?? second;
  return first.filter((name) => second.includes(name));
}

function mergeDefaults(first: Effects['default_attribution'], second: Effects['default_attribution']): Effects['default_attribution'] {
  const labels = { ...second.labels, ...first.labels };
  return { ...second, ...first, ...(Object.keys(labels).length === 0 ? {} : { labels }) };
}

/**
 * A denial where a mutation cannot do what its rule says of a further model: the name of that stands where no mutation
 * is applied, and a member that stands with it holds in place of the one that is changed. Undefined where nothing of
 * the kind is asked for.
 */
function unapplied(verdict: Verdict, { model, said }: FurtherModel, own: Verdict): Verdict | undefined {
  const lost = [...verdict.effects.mutations, ...own.effects.mutations].find((mutation) => isLost(mutation, model, said, verdict));
  if (lost === undefined) return undefined;
  return {
    ...verdict,
    decision: 'deny',
    reason: `Policy changes ${lost.key}, but the call also names the model "${model}", where that has no place.`,
    reason_codes: [NO_PLACE],
  };
}

function isLost({ key, value }: Mutation, model: string, said: FurtherModel['said'], verdict: Verdict): boolean {
  // What a rule makes of the call's own model says nothing of another one, unless it matched that too.
  if (key === MODEL) return value !== model && verdict.effects.mutations.some((own) => own.key === key);
  if (!key.startsWith(PARAMS) || said === undefined) return false;
  const [name = ''] = key.slice(PARAMS.length).split('.', 1);
  if (Object.hasOwn(said, name)) return said[name] !== value;
  return MAXIMUM.test(name) && Object.keys(said).some((own) => MAXIMUM.test(own));
}
