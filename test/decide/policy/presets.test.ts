import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { loadCatalogue } from '../../../src/base/catalogue/catalogue.ts';
import { canonicalConnectorId } from '../../../src/base/catalogue/connector-id.ts';
import { packageRoot } from '../../../src/base/lib/package-root.ts';
import { parseYaml, toPlain } from '../../../src/base/lib/yaml.ts';
import { compilePolicy, type PolicyInput } from '../../../src/decide/policy/compile.ts';
import { readSuite } from '../../../src/decide/policy/suite.ts';
import { inputOf, mismatches, verdictOf } from '../../../src/decide/policy/suite-case.ts';
import { aloneInABundle, checkPolicy } from '../../../src/policy-tools/check.ts';
import { callMeaning } from '../../../src/policy-tools/given-request.ts';
import { readPolicyFolder } from '../../../src/services/policy/policy-folder.ts';

const POLICIES = join(packageRoot(), 'policies');
const PRESETS = join(POLICIES, 'presets');
const catalogue = loadCatalogue();
const options = { connectorId: (id: string) => canonicalConnectorId(catalogue, id) };

const read = (file: string) => ({ text: readFileSync(join(PRESETS, file), 'utf8'), file });
const yamlFiles = (folder: string) => readdirSync(folder).filter((name) => name.endsWith('.yaml'));

interface Row {
  readonly id: string;
  readonly kind: string;
  readonly display_name: string;
  readonly category: string;
  readonly description: string;
  readonly file: string;
}
const { presets } = toPlain(parseYaml(read('catalogue.yaml').text, 'catalogue.yaml').root) as { presets: readonly Row[] };

t.test('the catalogue has one row for each preset, and each preset has its cases', async (t) => {
  const files = yamlFiles(PRESETS).filter((name) => name !== 'catalogue.yaml');
  t.ok(presets.length >= 10);
  t.same(presets.map((row) => row.file).sort(), files.sort());
  t.same(yamlFiles(join(PRESETS, 'tests')).sort(), files);
  for (const row of presets) {
    t.match(row, { file: `${row.id}.yaml`, kind: 'policy_preset', display_name: /./, category: /^[a-z_]+$/, description: /\.$/ });
    t.match(read(row.file).text, new RegExp(`^#[^]*- presets/${row.id}\\.yaml`), `${row.id} says what it does and how it is used`);
  }
});

for (const { id, file } of presets) {
  t.test(id, async (t) => {
    const { suite, errors } = readSuite(read(`tests/${file}`), {
      meaning: callMeaning({ catalogue, actionTypes: new Map(), pricingCached: false }),
    });
    t.same(errors, undefined);
    t.same(suite?.ruleFiles, [`../${file}`]);
    const matched = new Set<string>();
    let ids: readonly string[] = [];
    for (const one of suite?.cases ?? []) {
      const result = compilePolicy(inputOf(one, { addons: [read(file)] }), options);
      t.strictSame(mismatches(one, result), [], one.name);
      if (result.policy === undefined) continue;
      const rules = result.policy.layers.flatMap((layer) => layer.rules).filter((rule) => rule.file === file);
      ids = rules.map((rule) => rule.id);
      for (const rule of verdictOf(one, result.policy).matched) matched.add(rule.rule_id);
    }
    t.ok(ids.length > 0 && ids.every((rule) => rule.startsWith('preset.')), 'its ids are its own');
    t.same(
      ids.filter((rule) => !matched.has(rule)),
      [],
      'every rule matched in some case',
    );
  });
}

t.test('each preset passes the strictest check, alone and beside the shipped rules', async (t) => {
  const { bundle, files } = await readPolicyFolder(POLICIES);
  for (const { file } of presets) {
    const alone = { ...aloneInABundle(read(file)), tier: 'starter' } as const;
    const beside: PolicyInput = {
      bundle: { ...bundle, text: bundle.text.replace('files:\n', `files:\n  - presets/${file}\n`) },
      files: new Map([...files, [`presets/${file}`, read(file).text]]),
      tier: 'starter',
    };
    for (const input of [alone, beside]) {
      const { errors, warnings } = checkPolicy(input, options);
      t.same([...errors, ...warnings], [], file);
    }
  }
});

t.test('all presets load together beside the shipped rules, without a warning', async (t) => {
  const { bundle, files } = await readPolicyFolder(POLICIES);
  const listed = presets.map((row) => `  - presets/${row.file}\n`).join('');
  const input: PolicyInput = {
    bundle: { ...bundle, text: bundle.text.replace('files:\n', `files:\n${listed}`) },
    files: new Map([...files, ...presets.map((row) => [`presets/${row.file}`, read(row.file).text] as const)]),
    tier: 'starter',
  };
  const { errors, warnings } = checkPolicy(input, options);
  t.same(errors, []);
  t.same(warnings, []);
});
