/*
 * A second, naive reading of the rule language, for comparison: plain data in, the parts of a decision out. It shares
 * no code with the evaluator, compiles nothing, has no index, and answers each question as the language's description
 * puts it. Slow and short on purpose.
 */

export type Value = string | number | boolean | null | undefined | readonly Value[] | { readonly [name: string]: Value };
export type Clause = Readonly<Record<string, unknown>>;

export interface ModelRule {
  readonly id: string;
  readonly priority?: number;
  readonly when?: Clause;
  readonly conditions?: Clause;
  readonly disabled?: boolean;
  readonly effect?: ModelEffect;
}

export interface ModelEffect {
  readonly decision?: string;
  readonly reason?: string;
  readonly reason_codes?: readonly string[];
  readonly rate_limit?: { readonly requests_per_minute: number };
  readonly budget?: { readonly usd_max?: string; readonly monthly_usd_max?: string };
  readonly select_connector?: string;
  readonly select_credential?: Readonly<Record<string, string>>;
  readonly enforce_attribution?: { readonly require?: readonly string[]; readonly allow_overrides?: readonly string[] };
  readonly default_attribution?: Readonly<Record<string, string>>;
  readonly mutations?: readonly { readonly key: string; readonly value: Value }[];
}

export interface ModelLevel {
  readonly level: 'base' | 'org' | 'node';
  readonly evaluation?: { readonly stop_on?: readonly string[]; readonly merge_strategy?: string };
  readonly layers: Readonly<Record<string, readonly ModelRule[]>>;
}

/** What a request is: fields by their names, attribution by flat names. */
export interface ModelRequest {
  readonly fields: Readonly<Record<string, Value>>;
  readonly attribution: Readonly<Record<string, string>>;
  readonly orgAttribution: Readonly<Record<string, string>>;
  /** Rules (`layer/id`) whose bucket is empty. */
  readonly rateLimited: ReadonlySet<string>;
}

export interface ModelVerdict {
  readonly decision: string;
  /** `layer/id`, with `@level` when an overlay brought the rule. */
  readonly matched: readonly string[];
  readonly reason_codes: readonly string[];
  readonly stopped_at: string | null;
  readonly effects: Readonly<Record<string, unknown>>;
}

const SEVERITY = ['allow', 'downgrade', 'rate_limit', 'require_approval', 'require_attribution', 'deny', 'quarantine'];
const ORDER = ['identity', 'connectors', 'credentials', 'targets', 'budgets', 'risk', 'transforms'];
const GATES: Readonly<Record<string, string>> = {
  identity: 'identity_not_allowed',
  connectors: 'connector_not_allowed',
  credentials: 'credential_not_allowed',
  targets: 'target_not_allowed',
};

const severity = (decision: string | undefined) => SEVERITY.indexOf(decision ?? '');
const runs = (decision: string | undefined) => decision === 'allow' || decision === 'downgrade';
const refuses = (decision: string | undefined) => decision !== undefined && !runs(decision);

interface Placed {
  readonly layer: string;
  readonly level: string;
  readonly rule: ModelRule;
}

/**
 * Base, then the overlays: the same layer and id replaces, `disabled` removes, a layer that is written down as empty is
 * present.
 */
function effective(levels: readonly ModelLevel[]): Map<string, Placed[]> {
  const layers = new Map<string, Placed[]>();
  const writtenEmpty = new Set<string>();
  for (const { level, layers: stated } of levels) {
    for (const [layer, rules] of Object.entries(stated)) {
      let kept = layers.get(layer) ?? [];
      if (rules.length === 0) writtenEmpty.add(layer);
      for (const rule of rules) {
        kept = kept.filter((other) => other.rule.id !== rule.id);
        if (rule.disabled !== true) kept.push({ layer, level, rule });
      }
      layers.set(layer, kept);
    }
  }
  for (const [layer, rules] of layers) if (rules.length === 0 && !writtenEmpty.has(layer)) layers.delete(layer);
  const names = [...layers.keys()].sort((a, b) => place(a) - place(b) || (a < b ? -1 : 1));
  return new Map(names.map((name) => [name, ranked(layers.get(name) ?? [])]));
}

function place(layer: string): number {
  return ORDER.includes(layer) ? ORDER.indexOf(layer) : ORDER.length;
}

function ranked(rules: readonly Placed[]): Placed[] {
  const key = ({ rule }: Placed) => [-(rule.priority ?? 0), -severity(rule.effect?.decision)] as const;
  return [...rules].sort((a, b) => key(a)[0] - key(b)[0] || key(a)[1] - key(b)[1] || (a.rule.id < b.rule.id ? -1 : 1));
}

/** Decides a request by the levels of a policy. */
export function modelVerdict(levels: readonly ModelLevel[], request: ModelRequest): ModelVerdict {
  const layers = effective(levels);
  const evaluation = Object.assign({}, ...levels.map((level) => level.evaluation ?? {})) as NonNullable<ModelLevel['evaluation']>;
  const stopOn = evaluation.stop_on ?? ['deny', 'require_approval', 'require_attribution'];
  const all = [...layers.values()].flat().filter(({ rule }) => holdsFor(rule, request));
  const outcomes: Outcome[] = [];
  let stoppedAt: string | null = null;
  for (const [name, rules] of layers) {
    const matching = rules.filter(({ rule }) => holdsFor(rule, request));
    const speaking = matching.map((placed): Speaker => ({ ...placed, ...opinion(placed, all, request) }));
    const outcome = evaluation.merge_strategy === 'strict' ? strict(speaking) : firstMatch(speaking);
    const gates = name in GATES && (rules.length === 0 || rules.some(({ rule }) => runs(rule.effect?.decision)));
    if (outcome.decision === undefined && gates) Object.assign(outcome, { decision: 'deny', code: GATES[name] });
    outcomes.push(outcome);
    if (outcome.decision === undefined || !stopOn.includes(outcome.decision)) continue;
    stoppedAt = name;
    break;
  }
  const decided = outcomes.filter((outcome) => outcome.decision !== undefined);
  if (decided.length === 0) return verdictOf('deny', [], ['default_deny'], null, all, request);
  const decision = decided.reduce((worst, { decision: next }) => (severity(next) > severity(worst) ? (next as string) : worst), 'allow');
  const contributing = outcomes.map(({ hits }) => hits.filter((hit) => !hit.below || runs(decision) || hit.lacking.length > 0));
  const codes = outcomes.flatMap(({ code }, i) => [
    ...(contributing[i] ?? []).flatMap(({ rule, lacking }) => [
      ...(rule.effect?.reason_codes ?? []),
      ...lacking.map((name) => `missing:${name}`),
    ]),
    ...(code === undefined ? [] : [code]),
  ]);
  return verdictOf(decision, contributing.flat(), codes, stoppedAt, all, request);
}

interface Speaker extends Placed {
  readonly says: string | undefined;
  readonly lacking: readonly string[];
}

interface Outcome {
  decision?: string;
  code?: string | undefined;
  readonly hits: readonly (Speaker & { readonly below: boolean })[];
}

/**
 * A matching rule that lacks attribution it requires decides `require_attribution` unless it is more severe; some rules
 * have no opinion.
 */
function opinion({ layer, rule }: Placed, matching: readonly Placed[], request: ModelRequest): Pick<Speaker, 'says' | 'lacking'> {
  const required = rule.effect?.enforce_attribution?.require ?? [];
  const supplied = [
    request.attribution,
    ...matching
      .filter(({ rule: other }) => other === rule || !refuses(other.effect?.decision))
      .map(({ rule: other }) => other.effect?.default_attribution ?? {}),
    request.orgAttribution,
  ];
  const lacking = required.filter((name) => !supplied.some((values) => (values[name] ?? '') !== ''));
  const { decision } = rule.effect ?? {};
  if (lacking.length > 0 && severity(decision) < severity('require_attribution')) return { says: 'require_attribution', lacking };
  if (decision === 'require_attribution' && required.length > 0 && lacking.length === 0) return { says: undefined, lacking };
  if (decision === 'rate_limit' && !request.rateLimited.has(`${layer}/${rule.id}`)) return { says: undefined, lacking };
  return { says: decision, lacking };
}

/**
 * The first matching rule with a decision of its own ends the layer; rules without one below it can still contribute,
 * or refuse for what they lack.
 */
function firstMatch(speaking: readonly Speaker[]): Outcome {
  const end = speaking.findIndex(({ says }) => says !== undefined);
  const ending = speaking[end];
  if (ending === undefined) return { hits: speaking.map((hit) => ({ ...hit, below: false })) };
  const above = speaking.slice(0, end + 1).map((hit) => ({ ...hit, below: false }));
  if (!runs(ending.says)) return withDecision(ending.says, above);
  const below = speaking.slice(end + 1).filter(({ rule }) => rule.effect?.decision === undefined);
  const lacks = below.some(({ lacking }) => lacking.length > 0);
  return withDecision(lacks ? 'require_attribution' : ending.says, [...above, ...below.map((hit) => ({ ...hit, below: true }))]);
}

function strict(speaking: readonly Speaker[]): Outcome {
  const hits = speaking.map((hit) => ({ ...hit, below: false }));
  const opinions = speaking.flatMap(({ says }) => says ?? []);
  const stated = new Set(speaking.flatMap(({ says, rule }) => (says === undefined ? [] : (rule.effect?.decision ?? []))));
  const connectors = new Set(speaking.flatMap(({ rule }) => rule.effect?.select_connector ?? []));
  const credentials = new Set(speaking.flatMap(({ rule }) => rule.effect?.select_credential?.['credential_id'] ?? []));
  if (stated.size > 1 || connectors.size > 1 || credentials.size > 1) return { decision: 'deny', code: 'strict_conflict', hits };
  const worst = opinions.toSorted((a, b) => severity(b) - severity(a))[0];
  return worst === undefined ? { hits } : withDecision(worst, hits);
}

function withDecision(decision: string | undefined, hits: Outcome['hits']): Outcome {
  return decision === undefined ? { hits } : { decision, hits };
}

function verdictOf(
  decision: string,
  rules: readonly Placed[],
  codes: readonly string[],
  stopped_at: string | null,
  matching: readonly Placed[],
  request: ModelRequest,
): ModelVerdict {
  const { effects, downgraded, noCredential } = merged(rules, matching, request);
  const denied = noCredential && severity(decision) < severity('deny');
  const changed = decision === 'downgrade' && !downgraded ? 'allow' : decision;
  return {
    decision: denied ? 'deny' : changed,
    matched: rules.map(({ layer, level, rule }) => `${layer}/${rule.id}${level === 'base' ? '' : `@${level}`}`),
    reason_codes: [...new Set([...codes, ...(denied ? ['no_credential_candidate'] : [])])],
    stopped_at,
    effects,
  };
}

/** The table of merged effects, row by row. */
function merged(rules: readonly Placed[], matching: readonly Placed[], request: ModelRequest) {
  const effects = rules.map(({ rule }) => rule.effect ?? {});
  const amounts = (name: 'usd_max' | 'monthly_usd_max') => effects.flatMap(({ budget }) => budget?.[name] ?? []);
  const least = (texts: readonly string[]) => texts.toSorted((a, b) => Number(a) - Number(b))[0];
  const choices = effects.flatMap(({ select_credential }) => (select_credential === undefined ? [] : [select_credential]));
  const chosen: Record<string, string> = Object.assign({}, ...choices.toReversed());
  const noCredential = ['provider', 'mode', 'billing_owner'].some(
    (filter) => new Set(choices.flatMap((choice) => choice[filter] ?? [])).size > 1,
  );
  const lists = effects.flatMap(({ enforce_attribution }) =>
    enforce_attribution?.allow_overrides ? [enforce_attribution.allow_overrides] : [],
  );
  const overrides = lists.length === 0 ? undefined : (lists[0] ?? []).filter((name) => lists.every((list) => list.includes(name)));
  const defaults: Record<string, string> = {};
  for (const { rule } of matching) {
    if (rule.effect?.decision === 'deny' || rule.effect?.decision === 'quarantine') continue;
    for (const [name, value] of Object.entries(rule.effect?.default_attribution ?? {})) defaults[name] ??= value;
  }
  const applied = Object.fromEntries(
    Object.entries(defaults).filter(([name]) => !request.attribution[name] || overrides?.includes(name) === false),
  );
  const mutations: { key: string; value: Value }[] = [];
  let downgraded = false;
  for (const { rule } of rules) {
    for (const { key, value } of rule.effect?.mutations ?? []) {
      if (mutations.some((written) => written.key === key)) continue;
      mutations.push({ key, value });
      if (rule.effect?.decision === 'downgrade' && request.fields[key] !== value) downgraded = true;
    }
  }
  return {
    noCredential,
    downgraded,
    effects: {
      usd_max: least(amounts('usd_max')),
      monthly_usd_max: least(amounts('monthly_usd_max')),
      rate_limits: rules.flatMap(({ layer, rule }) =>
        rule.effect?.rate_limit === undefined
          ? []
          : [{ layer, rule_id: rule.id, requests_per_minute: rule.effect.rate_limit.requests_per_minute }],
      ),
      select_connector: effects.flatMap(({ select_connector }) => select_connector ?? [])[0],
      select_credential: choices.length === 0 ? undefined : chosen,
      require_attribution: [...new Set(effects.flatMap(({ enforce_attribution }) => enforce_attribution?.require ?? []))],
      allow_overrides: overrides,
      default_attribution: applied,
      mutations,
    },
  };
}

/* Conditions */

/**
 * Whether the rule's `when` and `conditions` hold for the request.
 * @param restrictive what a negative test says of a missing value; unless given, true in a rule that refuses
 */
export function holdsFor(rule: ModelRule, request: ModelRequest, restrictive = refuses(rule.effect?.decision)): boolean {
  const asked = { fields: request.fields, restrictive };
  if (rule.when !== undefined && !clauseHolds(rule.when, asked, false)) return false;
  return Object.entries(rule.conditions ?? {}).every(([field, given]) => {
    if (GROUPS.includes(field)) return clauseHolds({ [field]: given }, asked, false);
    const operators = typeof given === 'object' && given !== null ? given : { equals: given };
    return clauseHolds({ field, ...operators }, asked, false);
  });
}

const GROUPS = ['all', 'any', 'not'];

interface Asked {
  readonly fields: ModelRequest['fields'];
  readonly restrictive: boolean;
}

/** Everything in a clause must hold; under a negation one part that does not is enough. */
function clauseHolds({ field, negate, ...parts }: Clause, asked: Asked, outer: boolean): boolean {
  const negated = outer !== (negate === true);
  const part = ([name, given]: [string, unknown]): boolean => {
    if (name === 'not') return clauseHolds(given as Clause, asked, !negated);
    if (name === 'all' || name === 'any') {
      const clauses = given as readonly Clause[];
      const every = (name === 'all') !== negated;
      return every ? clauses.every((one) => clauseHolds(one, asked, negated)) : clauses.some((one) => clauseHolds(one, asked, negated));
    }
    return testHolds(String(field).replace(/^context\./, ''), name, given as Value, asked, negated);
  };
  return negated ? Object.entries(parts).some(part) : Object.entries(parts).every(part);
}

function testHolds(field: string, operator: string, literal: Value, { fields, restrictive }: Asked, negated: boolean): boolean {
  const value =
    fields[field.replace(/^workload\.workload_id$/, 'workload.id').replace(/^action\.header\..*$/, (name) => name.toLowerCase())];
  const missing = value === undefined || value === null;
  if (operator === 'exists') return (literal === !missing) !== negated;
  if (operator === 'not_equals') return testHolds(field, 'equals', literal, { fields, restrictive }, !negated);
  if (operator === 'not_in') return testHolds(field, 'in', literal, { fields, restrictive }, !negated);
  const found = missing ? undefined : OPERATORS[operator]?.(value, literal, field);
  if (found === undefined) return negated && restrictive;
  return found !== negated;
}

const NUMBERS = /^(?:estimates\.|risk\.score|delegation\.(?:depth|max_cost_usd))/;
/** A literal in the type of the field. */
function literalFor(field: string, literal: Value): Value {
  if (NUMBERS.test(field)) return Number(literal);
  if (field === 'time') return Date.parse(String(literal));
  if (field === 'stream' || field.startsWith('action.header.')) return String(literal) === 'true';
  if (field === 'action.method') return String(literal).toUpperCase();
  if (field === 'action.target_host' || field === 'action.headers_present') return String(literal).toLowerCase();
  return /^(?:labels|attribution\.labels|action\.params)\./.test(field) ? literal : String(literal);
}

/** What a test says of a value that is present; undefined: the value has another type than the operator looks at. */
type ModelOperator = (value: Value, literal: Value, field: string) => boolean | undefined;

const equals: ModelOperator = (value, literal, field) => {
  const expected = literalFor(field, literal);
  if (!Array.isArray(value)) return value === expected;
  return value.every((item) => typeof item === 'string') && value.join(',') === expected;
};
const compared = (holds: (a: number, b: number) => boolean): ModelOperator => {
  return (value, literal, field) => {
    const limit = literalFor(field, literal);
    return typeof value === 'number' && typeof limit === 'number' ? holds(value, limit) : undefined;
  };
};
const onText = (holds: (text: string, literal: string) => boolean): ModelOperator => {
  return (value, literal, field) => {
    return typeof value === 'string' ? holds(value, String(/host|method/.test(field) ? literalFor(field, literal) : literal)) : undefined;
  };
};

const OPERATORS: Readonly<Record<string, ModelOperator>> = {
  equals,
  in: (value, literal, field) => {
    const expected = (literal as readonly Value[]).map((item) => literalFor(field, item));
    return (Array.isArray(value) ? value : [value]).some((item) => expected.includes(item));
  },
  gt: compared((a, b) => a > b),
  gte: compared((a, b) => a >= b),
  lt: compared((a, b) => a < b),
  lte: compared((a, b) => a <= b),
  starts_with: onText((text, part) => text.startsWith(part)),
  ends_with: onText((text, part) => text.endsWith(part)),
  contains: (value, literal, field) => {
    if (Array.isArray(value)) return value.includes(literalFor(field, literal));
    if (typeof value !== 'string') return undefined;
    return typeof literal === 'string' ? value.includes(String(/host/.test(field) ? literalFor(field, literal) : literal)) : undefined;
  },
  glob: onText((text, pattern) => {
    const source = pattern
      .split(/(\*\*+|\*)/)
      .map((part) => (part.startsWith('**') ? '[^]*' : part === '*' ? '[^./]*' : part.replace(/[.?+^$[\](){}|\\/-]/g, '\\$&')))
      .join('');
    return new RegExp(`^${source}$`).test(text);
  }),
  matches: onText((text, pattern) => new RegExp(pattern).test(text)),
  cidr: (value, literal) => {
    const address = typeof value === 'string' ? addressBits(value) : undefined;
    if (address === undefined) return undefined;
    return [literal].flat().some((range) => {
      const [base = '', length = '32'] = String(range).split('/');
      return address.startsWith((addressBits(base) ?? '?').slice(0, Number(length)));
    });
  },
  between: (value, literal) => {
    if (typeof value !== 'number') return undefined;
    const { days, from = '00:00', to = '24:00' } = literal as { days?: readonly string[]; from?: string; to?: string };
    const now = new Date(value).toISOString().slice(11, 16);
    const spans = from > to;
    const begun = spans && now < to ? new Date(value - 86_400_000) : new Date(value);
    const day = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'][begun.getUTCDay()] ?? '';
    const inside = spans ? now >= from || now < to : now >= from && now < to;
    return inside && (days === undefined || days.includes(day));
  },
};

/** An IPv4 address as 32 digits of 0 and 1. */
function addressBits(text: string): string | undefined {
  const parts = /^(\d+)\.(\d+)\.(\d+)\.(\d+)$/.exec(text)?.slice(1).map(Number);
  if (parts === undefined || parts.some((part) => part > 255)) return undefined;
  return parts.map((part) => part.toString(2).padStart(8, '0')).join('');
}
