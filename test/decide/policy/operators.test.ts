import t from 'tap';
import { heldPatterns } from '../../../src/base/lib/regex.ts';
import { decide } from '../../../src/decide/policy/evaluate.ts';
import type { Facts } from '../../../src/decide/policy/facts.ts';
import { OPERATORS } from '../../../src/decide/policy/operators.ts';
import { cpuClock } from '../../support/cpu-clock.ts';
import { bundleOf, compileAll, policyOf, someFacts } from './policy-facts.ts';

interface Row {
  readonly literal: unknown;
  readonly holds: unknown;
  readonly fails: unknown;
  /** A present value that the operator does not look at. */
  readonly otherType: unknown;
  /** Another type is unequal; all other operators take the restrictive side under negation. */
  readonly equality?: true;
  readonly negative?: true;
}

/** Values of `context.action.params.x`, whose type is open. */
const TABLE: Readonly<Record<string, Row>> = {
  equals: { literal: 'a', holds: 'a', fails: 'b', otherType: 5, equality: true },
  not_equals: { literal: 'a', holds: 'a', fails: 'b', otherType: 5, equality: true, negative: true },
  in: { literal: ['a', 'c'], holds: 'c', fails: 'b', otherType: { a: 1 }, equality: true },
  not_in: { literal: ['a', 'c'], holds: 'c', fails: 'b', otherType: { a: 1 }, equality: true, negative: true },
  gt: { literal: 5, holds: 6, fails: 5, otherType: '6' },
  gte: { literal: 5, holds: 5, fails: 4, otherType: '5' },
  lt: { literal: 5, holds: 4.5, fails: 5, otherType: '4' },
  lte: { literal: 5, holds: 5, fails: 5.5, otherType: true },
  starts_with: { literal: 'gpt-', holds: 'gpt-4', fails: 'xgpt-4', otherType: 4 },
  ends_with: { literal: '-mini', holds: 'x-mini', fails: 'mini', otherType: ['x-mini'] },
  contains: { literal: 'pt', holds: 'gpt', fails: 'gp', otherType: 12 },
  glob: { literal: 'a.*.c', holds: 'a.b.c', fails: 'a.b.b.c', otherType: false },
  matches: { literal: '^a+$', holds: 'aaa', fails: 'aab', otherType: 1 },
  cidr: { literal: ['10.0.0.0/8'], holds: '10.9.8.7', fails: '11.0.0.1', otherType: 'not an address' },
};

const PRESENCES = ['holds', 'fails', 'otherType', 'missing', 'null'] as const;

function factsWith(row: Row, presence: (typeof PRESENCES)[number]): Facts {
  if (presence === 'missing') return someFacts({ params: {} });
  return someFacts({ params: { x: presence === 'null' ? null : row[presence] } });
}

/** What policy.md 12 to 14 say, written down a second time without looking at the first. */
function expected(row: Row, presence: (typeof PRESENCES)[number], negate: boolean, refuses: boolean): boolean {
  const negated = (row.negative ?? false) !== negate;
  if (presence === 'holds') return !negated;
  if (presence === 'fails') return negated;
  if (!negated) return false;
  return presence === 'otherType' && row.equality ? true : refuses;
}

t.test('every operator but between, which has its own table, is in this one', async (t) => {
  t.same(
    Object.keys(TABLE).sort(),
    Object.keys(OPERATORS)
      .filter((name) => name !== 'between')
      .sort(),
  );
});

for (const [operator, row] of Object.entries(TABLE)) {
  t.test(`${operator}: present, missing, null and of another type, in rules that allow, refuse and only have effects`, async (t) => {
    for (const negate of [false, true]) {
      const when = { field: 'context.action.params.x', [operator]: row.literal, negate };
      const allow = policyOf(bundleOf({ risk: [{ id: 'r', when, effect: { decision: 'allow' } }] }));
      const deny = policyOf(
        bundleOf({ risk: [{ id: 'r', when, effect: { decision: 'deny' } }], transforms: [{ id: 'a', effect: { decision: 'allow' } }] }),
      );
      const effect = policyOf(
        bundleOf({
          risk: [
            { id: 'r', when, effect: { select_connector: 'gemini' } },
            { id: 'a', effect: { decision: 'allow' } },
          ],
        }),
      );
      for (const presence of PRESENCES) {
        const facts = factsWith(row, presence);
        const name = `${negate ? 'negated ' : ''}${operator} on ${presence}`;
        t.equal(decide(allow, facts).decision, expected(row, presence, negate, false) ? 'allow' : 'deny', `${name}, allow rule`);
        const refused = decide(deny, facts);
        t.equal(refused.decision, expected(row, presence, negate, true) ? 'deny' : 'allow', `${name}, deny rule`);
        const sideTaken =
          refused.decision === 'deny' && (presence === 'missing' || presence === 'null' || (presence === 'otherType' && !row.equality));
        t.equal(refused.matched[0]?.missing_field ?? false, sideTaken, `${name}, mark`);
        t.equal(
          decide(effect, facts).effects.select_connector,
          expected(row, presence, negate, false) ? 'gemini' : undefined,
          `${name}, effect`,
        );
      }
    }
  });
}

t.test('exists sees only absence: null is absent, empty text, list and map are there, and negate turns it round', async (t) => {
  const values: readonly (readonly [unknown, boolean])[] = [
    [undefined, false],
    [null, false],
    ['', true],
    [[], true],
    [{}, true],
    [0, true],
    [false, true],
  ];
  for (const [value, present] of values) {
    for (const exists of [true, false]) {
      for (const negate of [true, false]) {
        for (const decision of ['allow', 'deny']) {
          const when = { field: 'action.params.x', exists, negate };
          const policy = policyOf(
            bundleOf({ risk: [{ id: 'r', when, effect: { decision } }], transforms: [{ id: 'a', effect: { decision: 'allow' } }] }),
          );
          const verdict = decide(policy, someFacts({ params: value === undefined ? {} : { x: value } }));
          const matched = verdict.matched.some((rule) => rule.rule_id === 'r');
          t.equal(matched, (present === exists) !== negate, `${JSON.stringify(value)} exists ${exists} negate ${negate} ${decision}`);
          t.notOk(verdict.matched[0]?.missing_field, 'exists is never marked');
        }
      }
    }
  }
});

t.test('between is a window of days and hours in UTC, the end excluded, a night belonging to the day it began on', async (t) => {
  const at = (text: string) => Date.parse(text);
  const rows: readonly (readonly [unknown, string, boolean])[] = [
    [{ from: '08:00', to: '18:00' }, '2026-11-21T08:00:00Z', true],
    [{ from: '08:00', to: '18:00' }, '2026-11-21T17:59:59.999Z', true],
    [{ from: '08:00', to: '18:00' }, '2026-11-21T18:00:00Z', false],
    [{ from: '08:00', to: '18:00' }, '2026-11-21T07:59:59Z', false],
    [{ from: '08:00' }, '2026-11-21T23:59:59Z', true],
    [{ to: '18:00' }, '2026-11-21T00:00:00Z', true],
    [{ from: '20:00', to: '24:00' }, '2026-11-21T23:59:59Z', true],
    [{ days: ['sat'] }, '2026-11-21T12:00:00Z', true],
    [{ days: ['mon', 'fri', 'sun'] }, '2026-11-21T12:00:00Z', false],
    [{ from: '22:00', to: '06:00' }, '2026-11-21T23:00:00Z', true],
    [{ from: '22:00', to: '06:00' }, '2026-11-21T05:59:00Z', true],
    [{ from: '22:00', to: '06:00' }, '2026-11-21T06:00:00Z', false],
    [{ days: ['fri'], from: '22:00', to: '06:00' }, '2026-11-21T05:00:00Z', true],
    [{ days: ['fri'], from: '22:00', to: '06:00' }, '2026-11-20T05:00:00Z', false],
    [{ days: ['thu'] }, '1970-01-01T00:00:00Z', true],
    [{ days: ['wed'] }, '1969-12-31T23:59:59Z', true],
  ];
  for (const [between, time, holds] of rows) {
    const policy = policyOf(bundleOf({ risk: [{ id: 'r', when: { field: 'context.time', between }, effect: { decision: 'allow' } }] }));
    t.equal(decide(policy, someFacts({ time: at(time) })).decision, holds ? 'allow' : 'deny', `${JSON.stringify(between)} at ${time}`);
  }
});

t.test('globs: one star stays within a segment, two cross segments, and hostile patterns take linear time', async (t) => {
  const rows: readonly (readonly [string, string, boolean])[] = [
    ['*.openai.azure.com', 'acme.openai.azure.com', true],
    ['*.openai.azure.com', 'a.b.openai.azure.com', false],
    ['*.openai.azure.com', 'openai.azure.com', false],
    ['**.azure.com', 'a.b.azure.com', true],
    ['/v1/*', '/v1/models', true],
    ['/v1/*', '/v1/models/x', false],
    ['/v1/**', '/v1/models/x', true],
    ['/v1/*/x', '/v1/models/x', true],
    ['/v1/*/x', '/v1//x', true],
    ['a*b*c', 'aXbYc', true],
    ['a*b*c', 'aXb.c', false],
    ['a**b*c', 'a.x.b/b1c', true],
    ['gpt-?', 'gpt-4', false],
    ['gpt-[4]', 'gpt-[4]', true],
    ['***', 'anything.at/all', true],
    ['', 'x', false],
    ['exact', 'exact', true],
  ];
  for (const [glob, value, holds] of rows.filter(([glob]) => glob !== '')) {
    const policy = policyOf(bundleOf({ risk: [{ id: 'r', when: { field: 'action.params.x', glob }, effect: { decision: 'allow' } }] }));
    t.equal(decide(policy, someFacts({ params: { x: value } })).decision, holds ? 'allow' : 'deny', `${glob} on ${value}`);
  }
  const hostile = policyOf(
    bundleOf({
      risk: [
        {
          id: 'g',
          when: {
            any: [
              { field: 'action.params.x', glob: `${'**a'.repeat(30)}b` },
              { field: 'action.params.x', matches: '(a+)+$' },
            ],
          },
          effect: { decision: 'allow' },
        },
      ],
    }),
  );
  const { spent } = cpuClock();
  t.equal(decide(hostile, someFacts({ params: { x: `${'a'.repeat(20_000)}!` } })).decision, 'deny');
  t.ok(spent() < 5_000, 'a backtracking matcher would need years');
});

t.test('list fields: in is any, not_in is none, equals compares the joined text, contains asks for one element', async (t) => {
  const withSignals = (signals: readonly string[]) => someFacts({ risk: { score: 0.5, signals } });
  const rows: readonly (readonly [object, Facts, boolean])[] = [
    [{ in: ['rate_spike', 'x'] }, withSignals(['cost_anomaly', 'rate_spike']), true],
    [{ in: ['x'] }, withSignals(['rate_spike']), false],
    [{ in: ['x'] }, withSignals([]), false],
    [{ not_in: ['x'] }, withSignals([]), true],
    [{ not_in: ['rate_spike'] }, withSignals(['cost_anomaly', 'rate_spike']), false],
    [{ equals: 'a,b' }, withSignals(['a', 'b']), true],
    [{ equals: 'a' }, withSignals(['a', 'b']), false],
    [{ contains: 'b' }, withSignals(['a', 'b']), true],
    [{ contains: 'a,b' }, withSignals(['a', 'b']), false],
    [{ exists: true }, withSignals([]), true],
    [{ exists: true }, someFacts(), false],
    [{ exists: false }, someFacts(), true],
  ];
  for (const [operator, facts, holds] of rows) {
    const policy = policyOf(
      bundleOf({ risk: [{ id: 'r', when: { field: 'context.risk.signals', ...operator }, effect: { decision: 'allow' } }] }),
    );
    t.equal(decide(policy, facts).decision, holds ? 'allow' : 'deny', JSON.stringify(operator));
  }
  const inBody = policyOf(
    bundleOf({ risk: [{ id: 'r', when: { field: 'action.params.modalities', in: ['audio'] }, effect: { decision: 'allow' } }] }),
  );
  t.equal(
    decide(inBody, someFacts({ params: { modalities: ['text', 'audio'] } })).decision,
    'allow',
    'a list in the body counts element by element',
  );
});

t.test('literals take the type of their field from the source text, and request values are never converted', async (t) => {
  const rows: readonly (readonly [string, Facts, boolean])[] = [
    ['context.estimates.tokens_in: "10"', someFacts(), true],
    ['context.estimates.tokens_in: 10', someFacts(), true],
    ['context.estimates.cost_usd: {equals: 0.00305}', someFacts(), true],
    ['context.estimates.cost_usd: {lt: "0.003050000001"}', someFacts(), true],
    ['context.estimates.cost_usd: {lt: 0.00305}', someFacts(), false],
    ['context.purpose: 1.10', someFacts({ purpose: '1.10' }), true],
    ['context.purpose: 1.10', someFacts({ purpose: '1.1' }), false],
    ['context.purpose: true', someFacts({ purpose: 'true' }), true],
    ['context.action.params.max_tokens: 100', someFacts(), true],
    ['context.action.params.max_tokens: "100"', someFacts(), false],
    ['context.action.params.x: 1.0', someFacts({ params: { x: 1 } }), true],
    ['context.labels.cost_center: "4711"', someFacts({ labels: { cost_center: '4711' } }), true],
    ['context.labels.cost_center: 4711', someFacts({ labels: { cost_center: '4711' } }), false],
    ['context.action.target_host: API.OpenAI.com.', someFacts(), true],
    ['context.action.target_host: {ends_with: .OPENAI.com}', someFacts(), true],
    ['context.action.method: post', someFacts(), true],
    ['context.action.header.X-Team: true', someFacts(), true],
    ['context.action.header.X-Team: "true"', someFacts(), true],
    ['context.action.header.X-Other: true', someFacts(), false],
    ['context.action.headers_present: {in: [X-TEAM]}', someFacts(), true],
    ['context.connector.id: provider_a', someFacts(), true],
    ['context.candidates.connectors: {in: [provider_a]}', someFacts(), true],
    ['context.workload.id: W1', someFacts(), false],
    ['workload.workload_id: w1', someFacts(), true],
    ['context.workload.workload_id: w1', someFacts(), true],
    ['workload.id: w1', someFacts(), true],
    ['context.risk.score: {gte: 0.5}', someFacts({ risk: { score: 0.5, signals: [] } }), true],
    ['context.time: {gte: "2026-11-21T12:00:00Z"}', someFacts(), true],
    ['context.action.params.a.0.b: x', someFacts({ params: { a: [{ b: 'x' }] } }), true],
    ['context.action.params.a.length: {exists: true}', someFacts({ params: { a: [1] } }), false],
    ['context.action.params.constructor: {exists: true}', someFacts(), false],
    ['context.labels.__proto__: {exists: true}', someFacts(), false],
    ['context.delegation.max_cost_usd: {lte: "2.50"}', someFacts({ delegation: delegation('2.5') }), true],
    ['context.delegation.max_cost_usd: {lte: "2.50"}', someFacts({ delegation: delegation('much') }), false],
  ];
  for (const [condition, facts, holds] of rows) {
    const policy = policyOf(
      `{schema: gw.policy_bundle.v1, inline_rules: {risk: [{id: r, conditions: {${condition}}, effect: {decision: allow}}]}}`,
    );
    t.equal(decide(policy, facts).decision, holds ? 'allow' : 'deny', condition);
  }
});

function delegation(maxCost: string): NonNullable<Facts['delegation']> {
  return {
    issued_by: undefined,
    principal_id: undefined,
    audience: undefined,
    token_id: 't',
    depth: 1,
    policy_bundle_id: undefined,
    max_cost_usd: maxCost,
    actions_allow: undefined,
    targets_allow: undefined,
  };
}

t.test('negations are pushed down to the single tests, and an even number of them cancels', async (t) => {
  const missing = { field: 'action.params.x', not_in: ['a'] };
  const rows: readonly (readonly [object, Facts, boolean, boolean])[] = [
    // condition, facts, matches in an allow rule, matches in a deny rule
    [{ ...missing, negate: true }, someFacts({ params: {} }), false, false],
    [{ not: { not: { field: 'action.params.x', equals: 'a' } } }, someFacts({ params: { x: 'a' } }), true, true],
    [{ not: missing, negate: true }, someFacts({ params: {} }), false, true],
    [
      {
        all: [
          { field: 'purpose', equals: 'p' },
          { field: 'action.params.x', equals: 'a' },
        ],
        negate: true,
      },
      someFacts({ purpose: 'q', params: {} }),
      true,
      true,
    ],
    [
      {
        all: [
          { field: 'purpose', equals: 'p' },
          { field: 'action.params.x', equals: 'a' },
        ],
        negate: true,
      },
      someFacts({ purpose: 'p', params: {} }),
      false,
      true,
    ],
    [
      {
        any: [
          { field: 'purpose', equals: 'p' },
          { field: 'action.params.x', equals: 'a' },
        ],
        negate: true,
      },
      someFacts({ purpose: 'q', params: { x: 'b' } }),
      true,
      true,
    ],
    [
      {
        any: [
          { field: 'purpose', equals: 'p' },
          { field: 'action.params.x', equals: 'a' },
        ],
        negate: true,
      },
      someFacts({ purpose: 'q', params: {} }),
      false,
      true,
    ],
    [{ field: 'purpose', starts_with: 'a', ends_with: 'z', negate: true }, someFacts({ purpose: 'ab' }), true, true],
    [{ field: 'purpose', starts_with: 'a', ends_with: 'z', negate: true }, someFacts({ purpose: 'az' }), false, false],
    [{ field: 'purpose', equals: 'p', all: [{ field: 'stream', equals: false }] }, someFacts({ purpose: 'p' }), true, true],
    [{ field: 'purpose', equals: 'p', all: [{ field: 'stream', equals: true }] }, someFacts({ purpose: 'p' }), false, false],
  ];
  for (const [when, facts, allows, denies] of rows) {
    const allow = policyOf(bundleOf({ risk: [{ id: 'r', when, effect: { decision: 'allow' } }] }));
    const deny = policyOf(
      bundleOf({ risk: [{ id: 'r', when, effect: { decision: 'deny' } }], transforms: [{ id: 'a', effect: { decision: 'allow' } }] }),
    );
    t.equal(decide(allow, facts).decision === 'allow', allows, `allow rule: ${JSON.stringify(when)}`);
    t.equal(decide(deny, facts).decision === 'deny', denies, `deny rule: ${JSON.stringify(when)}`);
  }
});

const matching = (patterns: readonly string[], field = 'context.action.params.x') =>
  bundleOf({
    risk: patterns.map((pattern, i) => ({
      id: `r${i}`,
      when: { field, matches: pattern },
      effect: { decision: 'deny', reason_codes: ['hit'] },
    })),
    transforms: [{ id: 'ok', effect: { decision: 'allow' } }],
  });

t.test('patterns that are too large together do not load, and none of them is compiled', async (t) => {
  const before = heldPatterns();
  const several = Array.from({ length: 2_900 }, (_, i) => `a{0,900}b{0,900}c{0,900}d{0,900}e{0,${900 - (i % 58)}}`);
  const { errors } = compileAll({ text: matching(several) });
  t.equal(errors?.length, 1);
  const [error] = errors ?? [];
  t.match(error, { code: 'patterns_too_large', rule_id: 'r0', file: 'bundle.yaml', line: 1, hint: /smaller counts/ });
  t.match(
    error?.message,
    /^the 58 patterns of this bundle have 51\d{4} steps together, more than 250000; the largest: "a\{0,900\}.* has 9003 \(bundle.yaml:1\), /,
  );
  t.equal(heldPatterns(), before);
  const nested = compileAll({ text: matching(Array.from({ length: 4_000 }, (_, i) => `(a{0,30}){0,30}x${i}`)) });
  t.match(nested.errors, [{ code: 'patterns_too_large' }]);
  t.equal(heldPatterns(), before);
});

t.test('a pattern that stands in many rules counts once and is compiled once', async (t) => {
  const before = heldPatterns();
  const { policy } = compileAll({ text: matching(Array.from({ length: 200 }, () => '(a{0,30}){0,30}unique')) });
  t.equal(policy?.patternSteps, 1_899);
  t.equal(heldPatterns(), before + 1);
});

t.test('overlays and add-ons have one sum beside that of the bundle', async (t) => {
  const part = (n: number, patterns = 4) =>
    matching(Array.from({ length: patterns }, (_, i) => `a{0,900}b{0,900}c{0,900}d{0,900}e{0,${n * 40 + i}}`));
  const file = (name: string, n: number) => ({ file: name, text: part(n) });
  const large = part(1, 33);
  const { policy } = compileAll({ text: large });
  t.ok((policy?.patternSteps ?? 0) > 200_000);
  const org = [file('org overlay', 2)];
  t.match(
    compileAll({ text: large, overlays: { org } }),
    { policy: {} },
    'a large bundle takes nothing from those who lay something over it',
  );
  t.match(
    compileAll({ text: large, overlays: { org: [{ file: 'org overlay', text: large }] } }),
    { policy: {} },
    'what it has is there once',
  );
  const { errors } = compileAll({ text: part(1), overlays: { org, node: file('node overlay', 3) } });
  t.match(errors, [{ code: 'patterns_too_large', file: 'node overlay' }]);
  t.match(errors?.[0]?.message, /^the 8 patterns that overlays and add-ons have beside .* more than 50000; the largest: /);
});

t.test('some thousand usual rules are one policy, and judge long prompts', async (t) => {
  const usual = [
    '^gpt-4o(-mini)?(-\\d{4}-\\d{2}-\\d{2})?$',
    '^claude-(opus|sonnet|haiku)-[0-9.-]+$',
    '(?i)\\b(secret|password|confidential)\\b',
    '^/v1/(chat/completions|responses|embeddings)$',
    '^team-[a-z0-9-]{1,40}$',
    '^[a-z][a-z0-9-]{0,62}$',
  ];
  const dlp = ['AKIA[0-9A-Z]{16}', '\\b(?:\\d[ -]*?){13,16}\\b', 'sk-ant-[A-Za-z0-9_-]{80,120}', '[A-Z]{2}\\d{2}[A-Z0-9]{11,30}'];
  const rule = (id: string, field: string, pattern: string) => ({ id, when: { field, matches: pattern }, effect: { decision: 'deny' } });
  const policy = policyOf(
    bundleOf({
      targets: Array.from({ length: 3_000 }, (_, i) => rule(`m${i}`, 'context.action.params.model', `${usual[i % usual.length]}|^x${i}$`)),
      risk: Array.from({ length: 32 }, (_, i) => rule(`d${i}`, 'context.action.params.input', `${dlp[i % dlp.length]}[.]?${i}`)),
      transforms: [{ id: 'ok', effect: { decision: 'allow' } }],
    }),
  );
  const prompt = 'The key AKIA is not here, and 4111 is no card; write to nobody@example. '.repeat(5_600);
  t.match(decide(policy, someFacts({ params: { model: 'Mistral-Large-2512', input: prompt } })), { decision: 'allow' });
});

t.test('of a hundred thousand mistakes fifty are told, and how many more there are', async (t) => {
  const rules = Array.from({ length: 3_000 }, (_, i) => ({ id: `r${i}`, when: { field: 'context.no_such', matches: '(' }, efect: 1 }));
  const { errors } = compileAll({ text: bundleOf({ risk: rules }) });
  t.equal(errors?.length, 51);
  t.match(errors?.at(-1), { message: /^and \d+ more$/, code: 'more_mistakes' });
  const patterns = compileAll({ text: matching(Array.from({ length: 500 }, (_, i) => `(${i}`)) });
  t.equal(patterns.errors?.length, 51);
  t.equal(patterns.errors?.at(-1)?.message, 'and 450 more');
  t.match(patterns.errors?.[0], { code: 'bad_value', message: /missing closing/ });
});

t.test('a call is denied whose texts and rules would take too long to judge', async (t) => {
  const words = 'ab'.repeat(50_000);
  const cheap = policyOf(matching(Array.from({ length: 40 }, (_, i) => `(?i)(password|secret${i})\\s*[:=]`)));
  t.match(decide(cheap, someFacts({ params: { x: words } })), { decision: 'allow' }, 'what has few states is cheap on long texts');
  const dear = policyOf(matching(['[ab]*a[ab]{400}[cd]']));
  t.match(decide(dear, someFacts({ params: { x: 'ab'.repeat(500) } })), { decision: 'allow' });
  const denied = decide(dear, someFacts({ params: { x: words } }));
  t.match(denied, { decision: 'deny', reason_codes: ['policy_too_costly'], matched: [], effects: { mutations: [] } });
  t.match(denied.reason, /more than 20000000 steps on the texts of this request/);
  t.match(decide(dear, someFacts({ params: { x: 'short' } })), { decision: 'allow' }, 'the next call has all steps again');
});

t.test('many rules on long texts and lists count together, whatever their operators are', async (t) => {
  const rules = (operator: string, literal: unknown, field = 'context.action.params.x') =>
    policyOf(
      bundleOf({
        risk: Array.from({ length: 2_000 }, (_, i) => ({
          id: `r${i}`,
          when: { field, [operator]: Array.isArray(literal) ? [...literal, `${i}`] : `${literal}${i}` },
          effect: { decision: 'deny' },
        })),
        transforms: [{ id: 'ok', effect: { decision: 'allow' } }],
      }),
    );
  const long = 'x'.repeat(100_000);
  const list = Array.from({ length: 20_000 }, (_, i) => `m${i}`);
  const cases: readonly (readonly [string, unknown, unknown])[] = [
    ['contains', 'needle', long],
    ['contains', 'needle', list],
    ['in', ['a', 'b'], list],
    ['glob', '*a*b*c*', long],
  ];
  for (const [operator, literal, value] of cases) {
    const policy = rules(operator, literal);
    const judged = (x: unknown) => decide(policy, someFacts({ params: { x } })).reason_codes;
    t.same(judged(value), ['policy_too_costly'], operator);
    t.same(judged('short'), [], `${operator}, short`);
  }
});

t.test('a glob has an end', async (t) => {
  const glob = (length: number) =>
    compileAll({
      text: bundleOf({
        risk: [
          { id: 'r', when: { field: 'context.action.target_path', glob: `/${'*a'.repeat(length / 2)}` }, effect: { decision: 'deny' } },
        ],
      }),
    });
  t.match(glob(1_000), { policy: {} });
  t.match(glob(2_000).errors, [{ code: 'bad_value', message: 'a glob has at most 1024 characters' }]);
});
