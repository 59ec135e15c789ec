// Each piece of policy that a page shows: it is a whole file, it loads where the page says that it goes, and with it
// something can still be allowed.
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { gw } from '../support/run-gw.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';

/** Followed word by word in a test of its own (policy-guide.test.ts). */
const FOLLOWED = 'docs/guides/policy.md';

interface Snippet {
  readonly page: string;
  /** Where the page says that it goes, from the policies folder. */
  readonly file: string | undefined;
  readonly text: string;
}

const pages = [
  'README.md',
  'policies/README.md',
  ...readdirSync(join(packageRoot(), 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => join('docs', name)),
];
const snippets = pages
  .filter((page) => relative('.', page) !== relative('.', FOLLOWED))
  .flatMap((page): readonly Snippet[] => {
    const text = readFileSync(join(packageRoot(), page), 'utf8');
    return [...text.matchAll(/^ *```ya?ml(?: (\S+))?\n([\s\S]*?)^ *```$/gm)].map(([, file, body = '']) => ({ page, file, text: body }));
  });
const schemaOf = ({ text }: Snippet): string | undefined => /^schema: (gw\.\S+)$/m.exec(text)?.[1];
const looksLikePolicy = ({ text }: Snippet): boolean => /^\s*(?:-\s*)?(?:effect|inline_rules|when|conditions):/m.test(text);

/** The shipped policies folder, with these files in it and rule files named under `files`. */
function shippedWith(t: HasTeardown, added: readonly Snippet[]): string {
  const dir = join(tempDir(t), 'policies');
  cpSync(join(packageRoot(), 'policies'), dir, { recursive: true });
  for (const { file = '', text } of added) {
    mkdirSync(dirname(join(dir, file)), { recursive: true });
    writeFileSync(join(dir, file), text);
  }
  if (added.some(({ file }) => file === 'bundle.yaml')) return dir;
  const names = added.filter((one) => schemaOf(one) === 'gw.rule_file.v1').map(({ file }) => `  - ${file}\n`);
  const bundle = readFileSync(join(dir, 'bundle.yaml'), 'utf8');
  const last = '  - rules/registered-providers.yaml\n';
  if (!bundle.includes(last)) throw new Error('the shipped bundle names its files otherwise');
  writeFileSync(join(dir, 'bundle.yaml'), bundle.replace(last, last + names.join('')));
  return dir;
}

t.test('what looks like policy is a whole file with a name', (t) => {
  const policies = snippets.filter(looksLikePolicy);
  t.ok(policies.length >= 12);
  for (const one of policies) {
    t.ok(schemaOf(one), `${one.page} shows a part of a file, which nobody can load:\n${one.text}`);
    t.ok(one.file, `${one.page} does not say where this goes:\n${one.text}`);
  }
  t.end();
});

t.test('each of them loads where its page says, alone and with all others of the page, and leaves something allowed', async (t) => {
  const policies = snippets.filter((one) => looksLikePolicy(one) && schemaOf(one) !== 'gw.policy_tests.v1');
  for (const page of new Set(policies.map((one) => one.page))) {
    const shown = policies.filter((one) => one.page === page);
    for (const added of [...shown.map((one) => [one]), ...(shown.length > 1 ? [shown] : [])]) {
      const dir = shippedWith(t, added);
      const { code, out } = await gw(['policy', 'check', dir, '--tier', 'pro']);
      t.equal(code, 0, `${page}: ${out}`);
      t.notMatch(out, /never_at_door|files_do_not_count|becomes_allow_list|opens_empty_layer/, page);
      if (added.some(({ file }) => file === 'bundle.yaml')) continue;
      const call = join(dir, 'call.yaml');
      writeFileSync(call, 'action: {params: {model: gpt-4o-mini}}\nattribution: {project_id: apollo, labels.cost_center: "1"}\n');
      t.match((await gw(['policy', 'explain', call, '--policies', dir])).out, /^allow/, `${page}: a usual call still runs`);
    }
  }
});

t.test('cases that a page shows pass with the files of the page', async (t) => {
  const suites = snippets.filter((one) => schemaOf(one) === 'gw.policy_tests.v1');
  t.ok(suites.length > 0);
  for (const suite of suites) {
    const dir = shippedWith(
      t,
      snippets.filter(({ page, file }) => page === suite.page && file?.startsWith('rules/research')),
    );
    const path = join(dir, suite.file ?? 'tests.yaml');
    writeFileSync(path, suite.text);
    const { code, out } = await gw(['policy', 'test', path]);
    t.equal(code, 0, `${suite.page}: ${out}`);
  }
});

t.test('policy in the commands of a page loads as well', async (t) => {
  const commands = pages.map((page) => readFileSync(join(packageRoot(), page), 'utf8'));
  const isOverlay = async (text: string) => {
    const dir = shippedWith(t, [{ page: '', file: 'overlays/org.yaml', text }]);
    t.match(await gw(['policy', 'check', dir, '--tier', 'pro']), { code: 0 }, text);
  };
  const inJson = commands.flatMap((text) =>
    [...text.matchAll(/"bundle_yaml":\s*("schema: (?:[^"\\]|\\.)*")/g)].map(([, json = '""']) => json),
  );
  t.ok(inJson.length >= 2);
  for (const json of new Set(inJson)) await isOverlay(JSON.parse(json) as string);
  const written = commands.flatMap((text) =>
    [...text.matchAll(/cat > (\S+\.yaml) <<'?END'?\n([\s\S]*?)^END$/gm)].map(([, name = '', body = '']) => ({ name, body })),
  );
  for (const { name, body: text } of written.filter(({ body }) => body.startsWith('schema: gw.policy_bundle'))) {
    if (name.startsWith('overlay')) {
      await isOverlay(text);
      continue;
    }
    const file = join(tempDir(t), 'bundle.yaml');
    writeFileSync(file, text);
    t.match(await gw(['policy', 'check', file]), { code: 0 }, text);
  }
});
