import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { parseYaml, toPlain } from '../../src/base/lib/yaml.ts';
import { BUNDLE_SCHEMA, RULE_FILE_SCHEMA } from '../../src/decide/policy/bundle.ts';
import { textsOfLevel } from '../../src/decide/policy/compile.ts';
import { EFFECT_SHAPES } from '../../src/decide/policy/effect-shapes.ts';
import { FIELD_NAMES } from '../../src/decide/policy/fields.ts';
import { OPERATORS } from '../../src/decide/policy/operators.ts';
import { readSuite, SUITE_SCHEMA } from '../../src/decide/policy/suite.ts';
import { inputOf } from '../../src/decide/policy/suite-case.ts';
import { compileAll } from '../decide/policy/policy-facts.ts';

/*
 * The JSON Schemas that editors use are judged by a validator that is not ours: the one that ESLint brings along.
 */
interface Validator {
  validate(data: unknown): boolean;
  readonly text: () => string;
}
interface AjvLike {
  compile(schema: unknown): ((data: unknown) => boolean) & { readonly errors?: unknown };
}

const root = packageRoot();
const compiled = fileURLToPath(new URL('../../src', import.meta.url));
const fromEslint = createRequire(createRequire(import.meta.url).resolve('eslint'));
const Ajv = fromEslint('ajv') as new (options: object) => AjvLike;

function validator(file: string): Validator {
  const validate = new Ajv({ allErrors: true }).compile(JSON.parse(readFileSync(file, 'utf8')));
  return { validate: (data) => validate(data), text: () => JSON.stringify(validate.errors) };
}

const FILES: Readonly<Record<string, string>> = {
  [BUNDLE_SCHEMA]: 'bundle.schema.json',
  [RULE_FILE_SCHEMA]: 'rule-file.schema.json',
  [SUITE_SCHEMA]: 'tests.schema.json',
};
const schemaFile = (name: string) => join(root, 'policies', 'schema', FILES[name] ?? name);
const bundles = validator(schemaFile(BUNDLE_SCHEMA));
const ruleFiles = validator(schemaFile(RULE_FILE_SCHEMA));
const suites = validator(schemaFile(SUITE_SCHEMA));
const plain = (text: string) => toPlain(parseYaml(text, 'x').root);

t.test('the schemas say what the tables of the language say', async (t) => {
  const run = spawnSync(process.execPath, [join(root, 'scripts', 'policy-schema.mjs'), '--build', compiled, '--check'], {
    encoding: 'utf8',
  });
  t.same({ status: run.status, output: run.stdout + run.stderr }, { status: 0, output: '' });
});

t.test('every shipped policy file names its schema, which exists and accepts it', async (t) => {
  const files = readdirSync(join(root, 'policies'), { recursive: true, encoding: 'utf8' }).filter((name) => /\.ya?ml$/.test(name));
  let seen = 0;
  for (const name of files) {
    const path = join(root, 'policies', name);
    const text = readFileSync(path, 'utf8');
    const data = plain(text) as { readonly schema: string };
    if (!(data.schema in FILES)) continue;
    seen++;
    const named = /^# yaml-language-server: \$schema=(\S+)$/m.exec(text)?.[1];
    t.equal(named && join(dirname(path), named), schemaFile(data.schema), `${name}: names its schema`);
    const judge = validator(schemaFile(data.schema));
    t.ok(judge.validate(data), `${name}: ${judge.text()}`);
  }
  t.ok(seen > 20);
});

t.test('whatever loads is accepted: all cases of the language', async (t) => {
  const folder = join(root, 'test', 'cases', 'policy');
  let seen = 0;
  for (const name of readdirSync(folder).filter((file) => file.endsWith('.yaml'))) {
    const text = readFileSync(join(folder, name), 'utf8');
    t.ok(suites.validate(plain(text)), `${name}: ${suites.text()}`);
    for (const one of readSuite({ text, file: name }).suite?.cases ?? []) {
      const input = inputOf(one);
      const { bundle, ...rest } = input;
      if (compileAll({ text: bundle.text, ...rest }).errors !== undefined) continue;
      for (const given of [bundle, ...textsOfLevel(input.overlays?.org), ...textsOfLevel(input.overlays?.node)]) {
        t.ok(bundles.validate(plain(given.text)), `${name}: ${one.name}: ${bundles.text()}`);
        seen++;
      }
      const { files = new Map<string, string>(), addons = [] } = input;
      for (const file of [...files.values(), ...addons.map((addon) => addon.text)]) {
        // A rule file that no bundle names is never read.
        if (compileAll({ text: 'schema: gw.policy_bundle.v1', addons: [{ text: file, file: 'x' }] }).errors === undefined)
          t.ok(ruleFiles.validate(plain(file)), `${name}: ${one.name}: ${ruleFiles.text()}`);
      }
    }
  }
  t.ok(seen > 100);
});

t.test('however a value is quoted, what loads is accepted', async (t) => {
  const values = [
    'x',
    '"x"',
    '5',
    '"5"',
    '-1',
    '007',
    '1e3',
    '1.5',
    '"1.5"',
    'true',
    '"true"',
    'null',
    '[]',
    '[x]',
    '["x", 5]',
    '{}',
    '"08:00"',
  ];
  const times = [
    '2026-01-01T00:00:00Z',
    '24:00',
    '10.0.0.0/8',
    '["::1/128"]',
    'openai',
    'mon',
    '{days: [mon], from: "22:00"}',
    'labels.a.b',
  ];
  const rules = [...values, ...times].flatMap((value) => [
    ...FIELD_NAMES.map((name) => name.replace(/<.*/, 'x-y.z')).flatMap((field) => [
      ...Object.keys(OPERATORS).map((operator) => `{id: a, when: {field: ${field}, ${operator}: ${value}}, effect: {decision: deny}}`),
      `{id: a, conditions: {${field}: ${value}}, effect: {decision: deny}}`,
    ]),
    ...Object.entries(EFFECT_SHAPES).flatMap(([name, shape]) =>
      shape.kind === 'map'
        ? Object.keys(shape.members).map((member) => `{id: a, effect: {${name}: {${member}: ${value}}}}`)
        : [`{id: a, effect: {${name}: ${value}}}`],
    ),
    ...['id', 'priority', 'description'].map((key) => `{id: b, ${key}: ${value}, effect: {decision: deny}}`.replace('id: b, id:', 'id:')),
  ]);
  const loads = rules.filter((one) => {
    const text = `schema: gw.policy_bundle.v1\ninline_rules: {targets: [${one}]}`;
    return parseYaml(text, 'x').errors.length === 0 && compileAll({ text }).errors === undefined;
  });
  const refused = loads.filter((one) => !bundles.validate(plain(`schema: gw.policy_bundle.v1\ninline_rules: {targets: [${one}]}`)));
  t.ok(loads.length > 1000, `${loads.length} of ${rules.length} load`);
  t.same(refused, []);
});

t.test('what a person gets wrong is marked while it is typed', async (t) => {
  const rule = (text: string) => plain(`schema: gw.policy_bundle.v1\ninline_rules: {targets: [${text}]}`);
  t.ok(bundles.validate(rule('{id: a, when: {field: context.purpose, equals: x}, effect: {decision: deny}}')), bundles.text());
  for (const wrong of [
    '{id: a, when: {field: context.porpose, equals: x}, effect: {decision: deny}}',
    '{id: a, when: {field: context.purpose, equal: x}, effect: {decision: deny}}',
    '{id: a, when: {field: context.estimates.tokens_in, glob: x}, effect: {decision: deny}}',
    '{id: a, when: {field: context.estimates.tokens_in, gt: many}, effect: {decision: deny}}',
    '{id: a, when: {field: context.connection_type, equals: connect-proxy}, effect: {decision: deny}}',
    '{id: a, when: {field: context.purpose, in: x}, effect: {decision: deny}}',
    '{id: a, when: {all: []}, effect: {decision: deny}}',
    '{id: a, conditions: {context.porpose: x}, effect: {decision: deny}}',
    '{id: a, conditions: {context.purpose: [a, b]}, effect: {decision: deny}}',
    '{id: a, conditions: {context.time: {between: {days: [monday]}}}, effect: {decision: deny}}',
    '{id: a, effect: {decision: alow}}',
    '{id: a, effect: {decison: allow}}',
    '{id: a, effect: {budget: {usd: "1"}}}',
    '{id: a, effect: {budget: {usd_max: cheap}}}',
    '{id: a, effect: {rate_limit: {requests_per_minute: 0}}}',
    '{id: a, effect: {mutations: [{key: action.model, value: x}]}}',
    '{id: a, effect: {enforce_attribution: {require: [project]}}}',
    '{id: a, priority: high, effect: {decision: deny}}',
    '{id: a, priorty: 1, effect: {decision: deny}}',
    '{id: a}',
    '{effect: {decision: deny}}',
    '{id: a, disabled: false}',
    '{id: "a b", effect: {decision: deny}}',
    '{id: a, description: [x], effect: {decision: deny}}',
    '{id: a, when: {field: context.action.params.a..b, equals: x}, effect: {decision: deny}}',
    '{id: a, when: {field: context.action.params.n, gt: "5"}, effect: {decision: deny}}',
    '{id: a, when: {field: context.labels.team, starts_with: 5}, effect: {decision: deny}}',
    '{id: a, when: {field: context.caller_ip, cidr: intranet}, effect: {decision: deny}}',
    '{id: a, when: {field: context.time, gt: tomorrow}, effect: {decision: deny}}',
    '{id: a, conditions: {context.time: {between: {from: "8:00"}}}, effect: {decision: deny}}',
    '{id: a, effect: {rate_limit: {requests_per_minute: 1000000000}}}',
    '{id: a, effect: {budget: {usd_max: -1}}}',
    '{id: a, effect: {decision: deny, reason: ""}}',
    '{id: a, effect: {decision: deny, reason_codes: [not allowed]}}',
    '{id: a, effect: {mutations: [{key: action.params..a, value: x}]}}',
  ]) {
    t.notOk(bundles.validate(rule(wrong)), wrong);
  }
  for (const wrong of [
    'schema: gw.policy_bundle.v2',
    'bundle_id: x',
    'schema: gw.policy_bundle.v1\ninline_rules: {target: []}',
    'schema: gw.policy_bundle.v1\nevaluation: {stop_on: deny}',
  ]) {
    t.notOk(bundles.validate(plain(wrong)), wrong);
  }
  t.notOk(ruleFiles.validate(plain('schema: gw.rule_file.v1\nrules: []')));
  t.notOk(suites.validate(plain('schema: gw.policy_tests.v1\ncases: [{name: a, expect: {decison: deny}}]')));
});
