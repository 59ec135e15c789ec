import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { readSuite } from '../../src/decide/policy/suite.ts';
import { inputOf } from '../../src/decide/policy/suite-case.ts';
import { formatPolicy } from '../../src/policy-tools/format.ts';
import { compileAll } from '../decide/policy/policy-facts.ts';
import { gw } from '../support/run-gw.ts';
import { tempDir } from '../support/temp-dir.ts';

const MESSY = `# the head of the file
schema:   gw.policy_bundle.v1

# who we are
version: 1.10   # not 1.1
bundle_id:  'mine'


inline_rules:
    risk:
    -   effect: { decision: deny,   reason: 'not at night' }
        # why
        id: nights
        when: {equals: x, field: context.purpose}   # on the side


    # before the second rule
    -   id: long
        effect: {decision: deny, reason: "a reason that is long enough for a line of its own, and a good deal more than that", reason_codes: [a, b]}
    targets: [{effect: {decision: allow}, id: a, priority: +5}]
# the end
`;
const TIDY = `# the head of the file
schema: gw.policy_bundle.v1
bundle_id: "mine"

# who we are
version: 1.10 # not 1.1

inline_rules:
  targets: [{id: a, priority: +5, effect: {decision: allow}}]
  risk:
    # why
    - id: nights
      when: {field: context.purpose, equals: x} # on the side
      effect: {decision: deny, reason: "not at night"}

    # before the second rule
    - id: long
      effect:
        decision: deny
        reason: "a reason that is long enough for a line of its own, and a good deal more than that"
        reason_codes: [a, b]

# the end
`;

t.test('a bundle is laid out in one way; comments and source texts stay', async (t) => {
  t.equal(formatPolicy(MESSY), TIDY);
  t.equal(formatPolicy(TIDY), TIDY);
});

t.test('whatever loads loads as the same policy after formatting, and formatting twice changes nothing', async (t) => {
  const folder = join(packageRoot(), 'test', 'cases', 'policy');
  let seen = 0;
  for (const name of readdirSync(folder).filter((file) => file.endsWith('.yaml'))) {
    const text = readFileSync(join(folder, name), 'utf8');
    const { suite } = readSuite({ text, file: name });
    const formatted = formatPolicy(text);
    t.equal(formatPolicy(formatted), formatted, `${name}: stable`);
    const formattedSuite = readSuite({ text: formatted, file: name }).suite;
    const withoutLines = (cases: unknown) =>
      JSON.stringify(cases, (key, value: unknown) => (key === 'line' ? undefined : typeof value === 'bigint' ? String(value) : value));
    t.equal(withoutLines(formattedSuite), withoutLines(suite), `${name}: the suite itself`);
    for (const one of suite?.cases ?? []) {
      const { bundle } = inputOf(one);
      const before = compiledAs(bundle.text);
      if (before === undefined) continue;
      t.equal(compiledAs(formatPolicy(bundle.text)), before, `${name}: ${one.name}`);
      seen++;
    }
  }
  t.ok(seen > 50, `${seen} bundles`);
  t.equal(
    (await gw(['policy', 'fmt', '--check', join(packageRoot(), 'policies')])).out.split('\n').at(-2)?.replace(/^\d+ /, ''),
    'files, 0 not formatted',
  );
});

/** The compiled policy but for places; undefined when the text does not load. */
function compiledAs(text: string): string | undefined {
  const { policy } = compileAll({ text });
  return (
    policy &&
    JSON.stringify(policy, (key, value: unknown) =>
      ['line', 'column', 'entry'].includes(key) ? undefined : typeof value === 'bigint' ? String(value) : value,
    )
  );
}

t.test('a text that cannot keep its meaning or its comments is left as it is', async (t) => {
  const dir = tempDir(t);
  const file = join(dir, 'bundle.yaml');
  for (const broken of ['schema: gw.policy_bundle.v1\ninline_rules: [a', 'schema: gw.policy_bundle.v1\nversion: 1\nversion: 2\n']) {
    writeFileSync(file, broken);
    const { code } = await gw(['policy', 'fmt', file]);
    t.equal(readFileSync(file, 'utf8'), broken);
    t.equal(code, 2, broken);
  }
});

t.test('bodies that a rule sends keep the order of their keys', async (t) => {
  const text =
    'schema: gw.rule_file.v1\nlayer: risk\nrules:\n  - id: a\n    effect:\n      mutations:\n        - key: action.params.x\n          value: {equals: 1, field: 2, effect: 3, id: 4}\n';
  t.equal(formatPolicy(text), text);
});

t.test('files and folders are rewritten, --check only tells, - is a filter', async (t) => {
  const dir = tempDir(t);
  mkdirSync(join(dir, 'addons'));
  writeFileSync(join(dir, 'bundle.yaml'), MESSY);
  writeFileSync(join(dir, 'addons', 'a.yaml'), 'schema: gw.rule_file.v1\nlayer: risk\nrules: []\n');
  writeFileSync(join(dir, 'other.yaml'), 'a:    1\n');
  const check = await gw(['policy', 'fmt', '--check', dir]);
  t.same(check, { code: 1, out: `not formatted  ${join(dir, 'bundle.yaml')}\n2 files, 1 not formatted\n`, err: '' });
  t.equal(readFileSync(join(dir, 'bundle.yaml'), 'utf8'), MESSY);
  t.same(JSON.parse((await gw(['policy', 'fmt', '--check', '--json', dir])).out), {
    files: 2,
    changed: [join(dir, 'bundle.yaml')],
    written: false,
  });
  t.same(await gw(['policy', 'fmt', dir]), { code: 0, out: `formatted  ${join(dir, 'bundle.yaml')}\n2 files, 1 changed\n`, err: '' });
  t.equal(readFileSync(join(dir, 'bundle.yaml'), 'utf8'), TIDY);
  t.same(readdirSync(dir).sort(), ['addons', 'bundle.yaml', 'other.yaml']);
  t.match(await gw(['policy', 'fmt', '--check', dir]), { code: 0, out: '2 files, 0 not formatted\n' });
  t.equal(readFileSync(join(dir, 'other.yaml'), 'utf8'), 'a:    1\n', 'what is no policy is not touched');
  t.same(await gw(['policy', 'fmt', '-'], { stdin: MESSY }), { code: 0, out: TIDY, err: '' });
  t.same(JSON.parse((await gw(['policy', 'fmt', '--json', dir])).out), { files: 2, changed: [], written: true });
  const filtered = await gw(['policy', 'fmt', '--json', '-'], { stdin: MESSY });
  t.same(JSON.parse(filtered.out), { files: 1, changed: ['-'], written: false, text: TIDY });
  t.equal((await gw(['policy', 'fmt', '--json', '--check', '-'], { stdin: MESSY })).code, 1);
  t.match(await gw(['policy', 'fmt', join(dir, 'other.yaml')]), { code: 2, err: /no bundle, rule file or suite/ });
  t.match(await gw(['policy', 'fmt']), { code: 2 });
  t.match(await gw(['policy', 'fmt', join(dir, 'nope')]), { code: 2, err: /no such file/ });
});
