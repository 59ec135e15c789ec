import t from 'tap';
import { decide } from '../../../src/decide/policy/evaluate.ts';
import { giveFacts, plainCall } from '../../../src/decide/policy/given-facts.ts';
import { shownVerdict } from '../../../src/decide/policy/suite-case.ts';
import { fc } from '../../support/properties.ts';
import { compileAll } from './policy-facts.ts';
import { holdsFor, type ModelLevel, type ModelRequest, type ModelRule, modelVerdict, type Value } from './reference-model.ts';

/*
 * The evaluator against a second, naive reading of the language (reference-model.ts): random bundles with overlays,
 * random requests. A difference is a fault in one of the two, and the language's description says in which. RUNS=20000
 * looks for longer.
 */
const RUNS = Number(process.env['RUNS'] ?? 250);
const REQUESTS = 16;

const oneOf = <T>(...values: readonly T[]) => fc.constantFrom(...values);
const maybe = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined });

/* Requests */

const OPEN_VALUES: readonly Value[] = [
  'gpt-4',
  'GPT-4',
  'gpt-4o-mini',
  '',
  '7',
  7,
  7.5,
  true,
  false,
  null,
  undefined,
  ['gpt-4', 'x'],
  [7],
  [],
  { a: 1 },
];
const FACTS: Readonly<Record<string, fc.Arbitrary<Value>>> = {
  'workload.id': oneOf('w1', 'W1', 'team.w2'),
  caller_id: oneOf(undefined, 'ann', ''),
  caller_ip: oneOf('10.1.2.3', '192.168.0.9', 'unknown', undefined),
  connection_type: oneOf('direct_api', 'sdk_redirect', 'connect_proxy'),
  purpose: oneOf(undefined, '', 'chat', 'Chat', '7'),
  'labels.team': oneOf(undefined, 'red', '7', ''),
  'attribution.project_id': oneOf(undefined, 'p1'),
  'attribution.labels.team': oneOf(undefined, 'red'),
  'action.type': oneOf('ai.infer', 'ai.embed'),
  'action.method': oneOf('POST', 'GET'),
  'action.target_host': oneOf('api.openai.com', 'a.b.example'),
  'action.target_path': oneOf('/v1/chat/completions', '/v1/files?x=1'),
  'action.params.model': oneOf(...OPEN_VALUES),
  'action.params.deep.n': oneOf(...OPEN_VALUES),
  'action.headers_present': oneOf<Value>(['content-type'], ['content-type', 'x-team'], []),
  stream: fc.boolean(),
  'estimates.tokens_in': oneOf(0, 10, 100),
  'estimates.cost_usd': oneOf(0, 0.25, 3),
  'risk.score': oneOf(undefined, 0, 0.7),
  'risk.signals': oneOf<Value>(undefined, [], ['rate_spike'], ['rate_spike', 'cost_anomaly']),
  'candidates.credentials': oneOf<Value>([], ['c1'], ['c1', 'c2']),
  'credential.id': oneOf(undefined, 'c1'),
  'delegation.max_cost_usd': oneOf(undefined, '0.25', 'much'),
  time: oneOf('2026-11-21T12:00:00Z', '2026-11-22T23:30:00Z', '2026-11-23T05:59:59Z', '2026-11-23T06:00:00Z'),
};

interface DrawnRequest {
  readonly fields: Readonly<Record<string, Value>>;
  readonly org: Readonly<Record<string, string>>;
  readonly limited: readonly string[];
}

const LAYERS = ['identity', 'connectors', 'credentials', 'targets', 'budgets', 'risk', 'transforms', 'custom.b', 'custom.a'];
const BUCKETS = LAYERS.flatMap((layer) => ['a', 'b', 'c', 'd'].map((id) => `${layer}/${id}`));

const requests: fc.Arbitrary<DrawnRequest> = fc.record({
  fields: fc.record(FACTS),
  org: oneOf({}, {}, { project_id: 'shared' }),
  limited: oneOf(
    [],
    BUCKETS,
    BUCKETS.filter((_, i) => i % 2 === 0),
  ),
});

function factsOf({ fields, org }: DrawnRequest) {
  const facts = { ...plainCall(), params: {} };
  const given = Object.entries(fields).filter(([name, value]) => value !== undefined || !name.startsWith('action.params.'));
  // Overall time and money are given as texts.
  const mistakes = giveFacts(facts, { ...Object.fromEntries(given.map(([name, value]) => [name, value ?? null])), org_attribution: org });
  if (mistakes.length > 0) throw new Error(JSON.stringify(mistakes));
  return facts;
}

/**
 * The request as the model sees it: times and amounts are numbers, what stands behind a root is reached by its path.
 */
function modelRequest({ fields, org, limited }: DrawnRequest): ModelRequest {
  const { time, 'action.headers_present': headers, 'delegation.max_cost_usd': cost, ...rest } = fields;
  const names = headers as readonly string[];
  return {
    fields: {
      ...rest,
      time: Date.parse(String(time)),
      'action.headers_present': names,
      ...Object.fromEntries(names.map((name) => [`action.header.${name}`, true])),
      'delegation.max_cost_usd': cost === '0.25' ? 0.25 : cost,
    },
    attribution: attributionOf(fields),
    orgAttribution: org,
    rateLimited: new Set(limited),
  };
}

function attributionOf(fields: DrawnRequest['fields']): Record<string, string> {
  const { 'attribution.project_id': project, 'attribution.labels.team': team } = fields;
  return { ...(typeof project === 'string' ? { project_id: project } : {}), ...(typeof team === 'string' ? { 'labels.team': team } : {}) };
}

/* Conditions */

interface FieldTests {
  readonly fields: readonly string[];
  readonly literals: readonly Value[];
  readonly operators: readonly string[];
}

const EQUALITY = ['equals', 'not_equals', 'in', 'not_in'];
const TEXT = ['starts_with', 'ends_with', 'contains', 'glob', 'matches'];
const ORDER = ['gt', 'gte', 'lt', 'lte'];
const PARTS: readonly Value[] = ['gpt', 'GPT', 'w', '7', 'api.', 'c', 'red'];
const GLOBS: readonly Value[] = ['*', '**', 'gpt-*', '*.example', 'a**e', '*.*.*', '/v1/*', '/v1/**', 'team.*'];
const PATTERNS: readonly Value[] = ['^gpt', 'a', '[0-9]$', '^$', '(red|w1)'];

const TESTS: readonly FieldTests[] = [
  {
    fields: ['workload.id', 'workload.workload_id', 'caller_id', 'purpose', 'action.type', 'credential.id', 'attribution.project_id'],
    literals: ['w1', 'ann', 'chat', 7, '', 'ai.infer', 'c1', 'p1', true],
    operators: [...EQUALITY, ...TEXT],
  },
  { fields: ['caller_ip'], literals: ['10.1.2.3'], operators: [...EQUALITY, 'starts_with', 'cidr'] },
  { fields: ['connection_type'], literals: ['direct_api', 'connect_proxy'], operators: EQUALITY },
  { fields: ['labels.team', 'attribution.labels.team'], literals: ['red', 7, '7', ''], operators: [...EQUALITY, ...TEXT] },
  { fields: ['action.method'], literals: ['post', 'GET'], operators: [...EQUALITY, 'starts_with'] },
  { fields: ['action.target_host'], literals: ['API.openai.com', 'a.b.example'], operators: [...EQUALITY, ...TEXT] },
  {
    fields: ['action.params.model', 'action.params.deep.n', 'action.params.never'],
    literals: ['gpt-4', 'gpt-4,x', '7', 7, 7.5, true, ''],
    operators: [...EQUALITY, ...TEXT, ...ORDER, 'cidr'],
  },
  {
    fields: ['action.headers_present', 'risk.signals', 'candidates.credentials'],
    literals: ['content-type', 'Content-Type,x-team', 'rate_spike', 'rate_spike,cost_anomaly', 'c1', ''],
    operators: [...EQUALITY, 'contains'],
  },
  { fields: ['action.header.X-Team', 'stream'], literals: [true, false, 'true'], operators: EQUALITY },
  { fields: ['estimates.tokens_in'], literals: [0, 10, '10', 11], operators: [...EQUALITY, ...ORDER] },
  { fields: ['estimates.cost_usd', 'delegation.max_cost_usd'], literals: ['0.25', 0.25, '1'], operators: [...EQUALITY, ...ORDER] },
  { fields: ['risk.score'], literals: [0, 0.7, '0.5'], operators: [...EQUALITY, ...ORDER] },
  { fields: ['time'], literals: ['2026-11-22T23:30:00Z', '2026-11-23T06:00:00+00:00'], operators: [...EQUALITY, ...ORDER, 'between'] },
];

const windows = fc.record(
  {
    days: fc.subarray(['mon', 'sat', 'sun'], { minLength: 1 }),
    from: oneOf('06:00', '22:00', '12:00'),
    to: oneOf('05:59', '06:01', '23:59', '24:00'),
  },
  { requiredKeys: ['from'] },
);

function literalOf(operator: string, { fields, literals }: FieldTests): fc.Arbitrary<Value> {
  const plain = oneOf(...literals);
  if (operator === 'in' || operator === 'not_in') return fc.array(plain, { maxLength: 3 });
  if (operator === 'between') return windows;
  if (operator === 'cidr') return oneOf<Value>('10.0.0.0/8', ['10.1.2.3/32', '192.168.0.0/16'], '0.0.0.0/0');
  if (operator === 'glob') return oneOf(...GLOBS);
  if (operator === 'matches') return oneOf(...PATTERNS);
  if (operator === 'contains' && fields.includes('action.params.model')) return oneOf(...PARTS, 7, 'x', true);
  if (operator === 'contains' && fields.includes('risk.signals')) return plain;
  if (TEXT.includes(operator)) return oneOf(...PARTS);
  if (ORDER.includes(operator) && fields.includes('action.params.model')) return oneOf(7, 7.4);
  return plain;
}

const test = fc.oneof(
  ...TESTS.map((tests) =>
    fc.record({ field: oneOf(...tests.fields), prefix: oneOf('context.', '') }).chain(({ field, prefix }) => {
      const operator = oneOf(...tests.operators).chain((name) => literalOf(name, tests).map((literal) => [[name, literal]] as const));
      const exists = fc.boolean().map((present) => [['exists', present]] as const);
      const either = fc.oneof({ weight: 5, arbitrary: operator }, { weight: 1, arbitrary: exists });
      return fc
        .array(either, { minLength: 1, maxLength: 2 })
        .map((pairs) => ({ field: prefix + field, tests: Object.fromEntries(pairs.flat()) }));
    }),
  ),
);
const negate = maybe(fc.boolean());
const single = fc.record({ test, negate }).map(({ test: { field, tests }, negate }) => clean({ field, ...tests, negate }));
const { clause } = fc.letrec<{ clause: Readonly<Record<string, unknown>>; list: readonly unknown[] }>((tie) => ({
  list: fc.array(tie('clause'), { minLength: 1, maxLength: 3 }),
  clause: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    { weight: 5, arbitrary: single },
    { weight: 1, arbitrary: fc.record({ all: tie('list'), negate }).map(clean) },
    { weight: 1, arbitrary: fc.record({ any: tie('list'), negate }).map(clean) },
    { weight: 1, arbitrary: fc.record({ not: tie('clause'), negate }).map(clean) },
    { weight: 1, arbitrary: fc.record({ first: single, any: tie('list') }).map(({ first, any }) => ({ ...first, any })) },
  ),
}));
const conditions = fc
  .array(fc.record({ test, negate }), { minLength: 1, maxLength: 2 })
  .map((drawn) => Object.fromEntries(drawn.map(({ test: { field, tests }, negate }) => [field, shortForm(tests, negate)])));

function shortForm(tests: Readonly<Record<string, unknown>>, negate: boolean | undefined): unknown {
  return Object.keys(tests).join() === 'equals' && negate === undefined ? tests['equals'] : clean({ ...tests, negate });
}

function clean<T extends object>(members: T): T {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as T;
}

/* Policies */

const DECISIONS = ['allow', 'downgrade', 'deny', 'quarantine', 'require_approval', 'require_attribution', 'rate_limit'];
const KEYS = ['project_id', 'customer_id', 'labels.team', 'labels.env'];

const effect = fc
  .record({
    decision: fc.oneof(
      { weight: 3, arbitrary: oneOf('allow', 'downgrade', undefined) },
      { weight: 2, arbitrary: oneOf(...DECISIONS, 'rate_limit', 'rate_limit') },
    ),
    reason_codes: maybe(oneOf(['x'], ['y', 'x'])),
    budget: maybe(oneOf({ usd_max: '0.5' }, { usd_max: '10', monthly_usd_max: '9' }, { monthly_usd_max: '100' })),
    rate_limit: maybe(oneOf({ requests_per_minute: 5 }, { requests_per_minute: 60 })),
    select_connector: maybe(oneOf('openai', 'gemini')),
    select_credential: maybe(
      oneOf<Record<string, string>>(
        { credential_id: 'c1' },
        { credential_id: 'c2', mode: 'alias' },
        { mode: 'byok' },
        { provider: 'openai' },
      ),
    ),
    enforce_attribution: maybe(
      fc.oneof(
        fc.record({ require: fc.subarray(KEYS, { minLength: 1, maxLength: 2 }) }),
        fc.record({ allow_overrides: fc.subarray(KEYS) }),
      ),
    ),
    default_attribution: maybe(oneOf<Record<string, string>>({ project_id: 'd1' }, { 'labels.team': 'd2', customer_id: 'd3' })),
    mutations: maybe(
      oneOf(
        [{ key: 'action.params.model', value: 'gpt-4o-mini' }],
        [
          { key: 'action.params.model', value: 'small' },
          { key: 'action.method', value: 'POST' },
        ],
      ),
    ),
  })
  .map((drawn) => {
    // What no rule of these could be left out of says so: codes of every refusing rule, the bucket of one that limits,
    // something at all.
    const { decision, rate_limit = decision === 'rate_limit' ? { requests_per_minute: 1 } : undefined } = drawn;
    const codes = decision === undefined || decision === 'allow' || decision === 'downgrade' ? drawn.reason_codes : [`no.${decision}`];
    return {
      ...clean({ ...drawn, rate_limit, reason_codes: codes }),
      ...(Object.values(drawn).every((value) => value === undefined) ? { reason: 'none' } : {}),
    };
  });

const rule = fc
  .record({
    id: oneOf('a', 'b', 'c', 'd'),
    priority: maybe(fc.integer({ min: -1, max: 2 })),
    when: maybe(clause),
    conditions: maybe(conditions),
    effect: fc.oneof(
      { weight: 2, arbitrary: effect },
      {
        weight: 1,
        arbitrary: effect.map(({ decision, reason_codes }) =>
          clean({
            decision: decision ?? 'deny',
            reason_codes: reason_codes ?? ['z'],
            ...(decision === 'rate_limit' ? { rate_limit: { requests_per_minute: 2 } } : {}),
          }),
        ),
      },
    ),
  })
  .map(clean) as fc.Arbitrary<ModelRule>;
/** Many rules have no condition, so that layers meet. */
const rules = fc.uniqueArray(
  fc.oneof(
    rule,
    rule.map(({ when: _when, conditions: _conditions, ...rest }) => rest),
  ),
  { selector: ({ id }) => id, maxLength: 4 },
);
const disabled = oneOf('a', 'b').map((id): ModelRule => ({ id, disabled: true }));

const layersOf = (list: fc.Arbitrary<readonly ModelRule[]>, max: number) =>
  fc
    .uniqueArray(fc.tuple(oneOf(...LAYERS), list), { selector: ([name]) => name, maxLength: max })
    .map((layers): Readonly<Record<string, readonly ModelRule[]>> => Object.fromEntries(layers));
const evaluation = fc
  .record({ stop_on: maybe(fc.subarray(DECISIONS)), merge_strategy: oneOf(undefined, 'first_match', 'first_match', 'strict') })
  .map(clean);
const overlay = fc.record({
  evaluation: maybe(evaluation),
  layers: layersOf(fc.uniqueArray(fc.oneof(rule, disabled), { selector: ({ id }) => id, maxLength: 2 }), 3),
});
const levels = fc
  .record({ base: fc.record({ evaluation: maybe(evaluation), layers: layersOf(rules, 6) }), org: maybe(overlay), node: maybe(overlay) })
  .map(({ base, org, node }) =>
    (['base', 'org', 'node'] as const).flatMap((level): readonly ModelLevel[] => {
      const stated = { base, org, node }[level];
      return stated === undefined ? [] : [clean({ level, ...stated }) as ModelLevel];
    }),
  );

function policyFrom(drawn: readonly ModelLevel[]) {
  const text = (level: string) => {
    const found = drawn.find((one) => one.level === level);
    return found && JSON.stringify({ schema: 'gw.policy_bundle.v1', evaluation: found.evaluation, inline_rules: found.layers });
  };
  const overlays = Object.fromEntries(
    ['org', 'node'].flatMap((level) => {
      const given = text(level);
      return given === undefined ? [] : [[level, { text: given, file: `${level}.yaml` }]];
    }),
  );
  const { policy, errors } = compileAll({ text: text('base') ?? '', overlays });
  if (policy === undefined) throw new Error(`does not load: ${JSON.stringify(errors)}`);
  return policy;
}

/** Both answers, in one form. */
function answers(
  drawn: readonly ModelLevel[],
  request: DrawnRequest,
  policy = policyFrom(drawn),
): { readonly found: string; readonly expected: string } {
  const verdict = decide(policy, factsOf(request), (layer, id) => request.limited.includes(`${layer}/${id}`));
  const { decision, matched, reason_codes, stopped_at } = shownVerdict(verdict);
  const rules = (matched as readonly string[]).map((name) => name.replace(/\?$/, ''));
  const found = { decision, matched: rules, reason_codes, stopped_at, effects: flatEffects(verdict.effects) };
  return { found: inOneForm(found), expected: inOneForm(modelVerdict(drawn, modelRequest(request))) };
}

/** Leaves rules away as long as the two readings still differ, so that a person can see why. */
function smallest(drawn: readonly ModelLevel[], request: DrawnRequest): readonly ModelLevel[] {
  for (const smaller of withoutOne(drawn)) {
    const { found, expected } = answers(smaller, request);
    if (found !== expected) return smallest(smaller, request);
  }
  return drawn;
}

function withoutOne(drawn: readonly ModelLevel[]): readonly (readonly ModelLevel[])[] {
  return drawn.flatMap((level, i) =>
    Object.entries(level.layers).flatMap(([name, rules]) => {
      const { [name]: _, ...others } = level.layers;
      const fewer = [others, ...rules.map((rule) => ({ ...others, [name]: rules.filter((other) => other !== rule) }))];
      return fewer.map((layers) => drawn.with(i, { ...level, layers }));
    }),
  );
}

t.test('the evaluator decides as a second reading of the language does', async (t) => {
  const decisions = new Map<string, number>();
  const differences: object[] = [];
  fc.assert(
    fc.property(levels, fc.array(requests, { minLength: REQUESTS, maxLength: REQUESTS }), (drawn, asked) => {
      if (differences.length > 0) return;
      const policy = policyFrom(drawn);
      for (const request of asked) {
        const { found, expected } = answers(drawn, request, policy);
        const decision = /"decision":"(\w+)"/.exec(expected)?.[1] ?? '';
        decisions.set(decision, (decisions.get(decision) ?? 0) + 1);
        if (found === expected) continue;
        const small = smallest(drawn, request);
        differences.push({ policy: JSON.stringify(small), request: JSON.stringify(request), ...answers(small, request) });
        return;
      }
    }),
    { numRuns: RUNS, endOnFailure: true, includeErrorInReport: true },
  );
  t.same(differences, []);
  for (const decision of DECISIONS) t.ok((decisions.get(decision) ?? 0) > 0, `${decision} was decided`);
});

t.test('each single rule matches as the second reading says, and is marked where a missing value decided', async (t) => {
  let matched = 0;
  let marked = 0;
  const refusing = fc.record({ rule, decision: oneOf('allow', 'deny') });
  fc.assert(
    fc.property(refusing, fc.array(requests, { minLength: REQUESTS, maxLength: REQUESTS }), ({ rule: drawn, decision }, asked) => {
      const one = { ...drawn, effect: { decision } };
      const policy = policyFrom([{ level: 'base', layers: { risk: [one] } }]);
      for (const request of asked) {
        const [hit] = decide(policy, factsOf(request)).matched;
        const model = modelRequest(request);
        const found = { matches: hit !== undefined, marked: hit?.missing_field === true };
        const holds = holdsFor(one, model);
        if (found.matches) matched++;
        if (found.marked) marked++;
        // A rule that would not match if the missing value counted for the caller must be marked; one that no value is
        // missing for cannot be.
        const must = holds && !holdsFor(one, model, decision !== 'deny');
        if (found.matches !== holds || (must && decision === 'deny' && !found.marked) || (found.marked && decision === 'allow'))
          throw new Error(`${JSON.stringify(found)} of ${JSON.stringify(one)}\nfor ${JSON.stringify(request)}`);
      }
    }),
    { numRuns: RUNS * 2, endOnFailure: true },
  );
  t.ok(matched > RUNS && marked > RUNS / 10, `${matched} matched, ${marked} were marked`);
});

/** Attribution by flat names, as the model writes it. */
function flatEffects({ default_attribution: { labels = {}, ...ids }, ...effects }: ReturnType<typeof decide>['effects']) {
  const named = Object.entries(labels).map(([key, value]) => [`labels.${key}`, value]);
  return { ...effects, default_attribution: { ...ids, ...Object.fromEntries(named) } };
}

function inOneForm(value: unknown): string {
  return JSON.stringify(sorted(value));
}

/** A copy whose members are in one order, without those that are undefined. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return Object.fromEntries(members.sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, member]) => [name, sorted(member)]));
}
