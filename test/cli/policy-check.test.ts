import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { gw } from '../support/run-gw.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';

/** A policies folder with these files. */
function folder(t: HasTeardown, files: Readonly<Record<string, string>>): string {
  const dir = tempDir(t);
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(dir, name)), { recursive: true });
    writeFileSync(join(dir, name), text);
  }
  return dir;
}

const SOUND =
  'schema: gw.policy_bundle.v1\ninline_rules:\n  targets:\n    - {id: a, conditions: {stream: true}, effect: {decision: allow}}\n';

t.test('the shipped folder has neither errors nor warnings', async (t) => {
  const { code, out } = await gw(['policy', 'check', '--strict', join(packageRoot(), 'policies')]);
  t.equal(code, 0, out);
});

t.test('a connector that nobody has is told, and one that an org may make is not', async (t) => {
  const rule = (names: string) =>
    folder(t, {
      'bundle.yaml': `schema: gw.policy_bundle.v1\ninline_rules:\n  connectors:\n    - {id: a, when: {field: connector.id, in: [${names}]}, effect: {decision: allow}}\n`,
    });
  t.match(await gw(['policy', 'check', '--strict', rule('openai, antrophic')]), {
    code: 1,
    out: /bundle\.yaml:4:\d+: warning\[never_equal\]: no connector is called "antrophic", so that context\.connector\.id never equals it/,
  });
  t.match(await gw(['policy', 'check', '--strict', rule('openai, claude, generic_http, "custom:ours"')]), { code: 0 });
});

t.test('all mistakes of a folder are shown at once, each with its line, a caret and the nearest name', async (t) => {
  const dir = folder(t, {
    'bundle.yaml': 'schema: gw.policy_bundle.v1\nfiles: [rules/one.yaml]\n',
    'rules/one.yaml':
      'schema: gw.rule_file.v1\nlayer: targets\nrules:\n  - id: deny.model\n    when: {field: "context.action.params.modle", equals: x}\n    effect: {decison: deny}\n',
    'overlays/org.yaml': 'schema: gw.policy_bundle.v1\nevaluation: {merge_strategy: first}\ninline_rules:\n  identitty: []\n',
  });
  const { code, out } = await gw(['policy', 'check', dir]);
  t.equal(code, 1);
  t.equal(
    out.replaceAll(dir, 'DIR'),
    `DIR/rules/one.yaml:6:14: error[unknown_effect]: unknown effect "decison"
   |
 6 |     effect: {decison: deny}
   |              ^^^^^^^
   = rule: deny.model
   = hint: did you mean "decision"?

DIR/overlays/org.yaml:2:30: error[bad_value]: unknown merge_strategy "first"
   |
 2 | evaluation: {merge_strategy: first}
   |                              ^^^^^
   = hint: did you mean "first_match"?

DIR/overlays/org.yaml:4:3: error[unknown_layer]: unknown layer "identitty"
   |
 4 |   identitty: []
   |   ^^^^^^^^^
   = hint: did you mean "identity"?

DIR does not load: 3 errors
`,
  );
});

t.test('a bundle, a rule file, several paths; a rule file is judged by itself', async (t) => {
  const dir = folder(t, {
    'bundle.yaml': SOUND,
    'rule.yaml': 'schema: gw.rule_file.v1\nlayer: budgets\nrules: [{id: a, effect: {decision: allow}}]\n',
    'named.yaml': 'schema: gw.policy_bundle.v1\nfiles: [rule.yaml, gone.yaml]\n',
  });
  const both = await gw(['policy', 'check', join(dir, 'bundle.yaml'), join(dir, 'rule.yaml')]);
  t.equal(both.code, 0);
  t.match(both.out, /bundle\.yaml loads: 1 rule\n/);
  t.match(both.out, /rule\.yaml:3:36: warning\[unconditional_allow\]/);
  t.match(both.out, /rule\.yaml loads: 1 rule, 1 warning\n/);
  t.match((await gw(['policy', 'check', '--strict', join(dir, 'rule.yaml')])).code, 1);
  t.match(await gw(['policy', 'check', join(dir, 'named.yaml')]), { code: 1, out: /named\.yaml:2:20: error\[missing_file\]/ });
});

t.test('the default is the folder of the gateway, with its tier', async (t) => {
  const dir = folder(t, { 'bundle.yaml': SOUND, 'overlays/org.yaml': SOUND });
  const env = { GW_POLICIES_DIR: dir };
  t.match(await gw(['policy', 'check'], { env }), { code: 0 });
  t.match(await gw(['policy', 'check'], { env: { ...env, GW_PLAN_TIER: 'starter' } }), { code: 1, out: /tier_not_allowed/ });
  t.match(await gw(['policy', 'check', '--tier', 'pro'], { env: { ...env, GW_PLAN_TIER: 'starter' } }), { code: 0 });
});

t.test('--json is one document with every problem', async (t) => {
  const dir = folder(t, { 'bundle.yaml': 'schema: gw.policy_bundle.v1\nbundel_id: x\n' });
  const { code, out } = await gw(['policy', 'check', '--json', dir]);
  t.equal(code, 1);
  t.strictSame(JSON.parse(out), {
    ok: false,
    errors: 1,
    warnings: 0,
    problems: [
      {
        severity: 'error',
        path: 'bundel_id',
        message: 'unknown key of a bundle "bundel_id"',
        file: join(dir, 'bundle.yaml'),
        line: 2,
        column: 1,
        code: 'unknown_key',
        hint: 'did you mean "bundle_id"?',
      },
    ],
  });
});

t.test('colours only when they are asked for, and none of the file reaches the terminal as a command', async (t) => {
  const dir = folder(t, { 'bundle.yaml': 'schema: gw.policy_bundle.v1\nbundle_id: [\u009b31m\u202e, x]\n' });
  const plain = await gw(['policy', 'check', dir]);
  t.notMatch(plain.out, /[\u001b\u009b\u202e]/);
  t.match((await gw(['policy', 'check', dir], { colours: true })).out, '\u001b[31m');
});

t.test('wrong use and what cannot be read are exit code 2', async (t) => {
  const dir = folder(t, { 'binary.yaml': '' });
  writeFileSync(join(dir, 'binary.yaml'), Buffer.from([0xff, 0xfe, 0x00]));
  for (const argv of [['--strikt'], ['--tier', 'gold'], [join(dir, 'nope')], [dir], [join(dir, 'binary.yaml')]]) {
    const { code, out, err } = await gw(['policy', 'check', ...argv]);
    t.same({ code, out }, { code: 2, out: '' }, argv.join(' '));
    t.match(err, /^gw policy check: /, argv.join(' '));
  }
  t.match(await gw(['policy', 'check', '--strikt']), { err: /did you mean --strict\?/ });
  t.match(await gw(['policy', 'chek']), { code: 2, err: /did you mean "policy check"\?/ });
});

t.test('gw policy lists its commands', async (t) => {
  for (const argv of [['policy'], ['policy', 'help'], ['policy', '--help']]) {
    const { code, out } = await gw(argv);
    t.equal(code, 0);
    t.match(out, /^gw policy check \[PATH…\]/m);
  }
  t.match(await gw(['policy', 'check', '--help']), { code: 0, out: /^usage: gw policy check/ });
});

const ALLOWS = '    - {id: a, when: {field: connector.id, equals: openai}, effect: {decision: allow}}\n';
const BUNDLE = 'schema: gw.policy_bundle.v1\n';

/** Policies by which nothing can be allowed, and why. */
const DENIALS: readonly (readonly [files: Readonly<Record<string, string>>, why: RegExp])[] = [
  [{ 'bundle.yaml': BUNDLE }, /no rule of it allows anything/],
  [{ 'bundle.yaml': `${BUNDLE}inline_rules:\n  budgets:\n    - {id: a, effect: {budget: {usd_max: "1"}}}\n` }, /no rule of it allows/],
  [
    {
      'bundle.yaml': `${BUNDLE}files: [a.yaml]\ninline_rules:\n  budgets:\n    - {id: b, effect: {budget: {usd_max: "1"}}}\n`,
      'a.yaml': `schema: gw.rule_file.v1\nlayer: connectors\nrules:\n${ALLOWS}`,
    },
    /no rule of it allows anything \(the rules in a\.yaml do not count beside inline_rules\)/,
  ],
  [{ 'bundle.yaml': `${BUNDLE}inline_rules:\n  identity: []\n  connectors:\n${ALLOWS}` }, /layer identity is written down without a rule/],
  [
    {
      'bundle.yaml': `${BUNDLE}inline_rules:\n  connectors:\n${ALLOWS}`,
      'overlays/org.yaml': `${BUNDLE}inline_rules:\n  targets:\n    - {id: o, when: {field: action.target_host, equals: api.example.com}, effect: {decision: allow}}\n`,
    },
    /layers connectors and targets are allow-lists/,
  ],
  [
    {
      'bundle.yaml': `${BUNDLE}inline_rules:\n  identity:\n    - {id: i, when: {field: workload.id, in: [a, b]}, effect: {decision: allow}}\n  targets:\n    - {id: t, when: {all: [{field: workload.id, equals: c}, {field: action.target_host, equals: api.openai.com}]}, effect: {decision: allow}}\n`,
    },
    /layers identity and targets are allow-lists/,
  ],
  [
    {
      'bundle.yaml': `${BUNDLE}inline_rules:\n  connectors:\n${ALLOWS}  risk:\n    - {id: no, when: {field: connector.id, not_in: [anthropic]}, effect: {decision: deny}}\n`,
    },
    /rule "no" of the layer risk refuses all that others allow/,
  ],
  [
    { 'bundle.yaml': `${BUNDLE}inline_rules:\n  connectors:\n${ALLOWS}  risk:\n    - {id: no, effect: {decision: deny}}\n` },
    /rule "no" of the layer risk has no condition/,
  ],
];

t.test(
  'a policy by which nothing can be allowed any more fails the check, in a clear sentence, unless that is said to be meant',
  async (t) => {
    for (const [files, why] of DENIALS) {
      const dir = folder(t, files);
      const { code, out } = await gw(['policy', 'check', dir, '--tier', 'enterprise']);
      t.equal(code, 1, out);
      t.match(out, /error\[denies_all\]: nothing can be allowed by this policy: /);
      t.match(out, why);
      t.match(out, /loads and denies everything: \d rules?/);
      t.equal((await gw(['policy', 'check', dir, '--tier', 'enterprise', '--deny-all'])).code, 0, String(why));
      const json = JSON.parse((await gw(['policy', 'check', dir, '--json', '--tier', 'enterprise'])).out) as { problems: object[] };
      t.match(json, { ok: false, problems: [{ severity: 'error', code: 'denies_all' }] });
    }
  },
);

t.test('what may let something pass, and what is a part of a policy, is not said to deny everything', async (t) => {
  const open = folder(t, {
    'bundle.yaml': `${BUNDLE}inline_rules:\n  connectors:\n${ALLOWS}  targets:\n    - {id: t, when: {field: action.target_host, in: [api.anthropic.com, api.openai.com]}, effect: {decision: allow}}\n  risk:\n    - {id: no, when: {field: action.params.model, not_in: [gpt-4o]}, effect: {decision: deny}}\n    - {id: odd, when: {field: connector.id, not_in: [openai]}, effect: {decision: deny}}\n`,
    'overlays/node.yaml': `${BUNDLE}inline_rules:\n  budgets:\n    - {id: b, effect: {budget: {usd_max: "1"}}}\n`,
    'part.yaml': 'schema: gw.rule_file.v1\nlayer: risk\nrules:\n  - {id: no, effect: {decision: deny}}\n',
  });
  for (const path of [open, join(open, 'overlays/node.yaml'), join(open, 'part.yaml')])
    t.match(await gw(['policy', 'check', path]), { code: 0 }, path);
  const asks = folder(t, { 'bundle.yaml': `${BUNDLE}inline_rules:\n  targets:\n    - {id: a, effect: {decision: require_approval}}\n` });
  t.match(await gw(['policy', 'check', asks]), { code: 0 });
  t.match(await gw(['policy', 'check', asks], { env: { GW_APPROVAL_ENABLED: 'false' } }), { code: 1, out: /denies_all/ });
});

t.test('of a policy whose layers would take too long to hold against each other nothing is said', async (t) => {
  const rules = (layer: string, of: string) =>
    `  ${layer}:\n${Array.from({ length: 400 }, (_, at) => `    - {id: ${of}${at}, when: {field: workload.id, equals: ${of}${at}}, effect: {decision: allow}}\n`).join('')}`;
  const dir = folder(t, { 'bundle.yaml': `${BUNDLE}inline_rules:\n${rules('identity', 'a')}${rules('targets', 'b')}` });
  t.match(await gw(['policy', 'check', dir]), { code: 0 });
});
