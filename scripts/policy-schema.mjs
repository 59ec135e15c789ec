/*
 * Writes policies/schema/ from the tables of the policy language, so that editors complete and check policies (`#
 * yaml-language-server: $schema=…`) and cannot disagree with the gateway. Run it after a build:
 *   node scripts/policy-schema.mjs            writes the schemas
 *   node scripts/policy-schema.mjs --check    writes nothing; exit code 1 when one differs
 *   --build FOLDER where the compiled src/ is (default build/src) The schemas are JSON Schema draft-07, which every
 *   editor knows. What they accept is a little more than what loads: `gw policy check` has the last word.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const folder = join(root, 'policies', 'schema');
const { values: options } = parseArgs({ options: { check: { type: 'boolean' }, build: { type: 'string' } } });
const compiled = resolve(options.build ?? join(root, 'build', 'src'));

const load = async (name) => {
  const file = join(compiled, `${name}.js`);
  if (!existsSync(file)) throw new Error(`${file} does not exist; build first (npm run build)`);
  return import(pathToFileURL(file).href);
};
const { BUNDLE_SCHEMA, MERGE_STRATEGIES, RULE_FILE_SCHEMA } = await load('decide/policy/bundle');
const { DECISIONS } = await load('base/model/reason-codes');
const { CREDENTIAL_MODES, EFFECT_SHAPES } = await load('decide/policy/effect-shapes');
const { FIELD_NAMES, namedField } = await load('decide/policy/fields');
const { PLAN_TIERS } = await load('base/model/org');
const { STANDARD_LAYERS } = await load('decide/policy/layers');
const { MUTABLE } = await load('decide/policy/mutations');
const { OPERATORS } = await load('decide/policy/operators');
const { RULE_KEYS } = await load('decide/policy/rule');
const { EXPECTABLE, SUITE_SCHEMA } = await load('decide/policy/suite');
const { DAYS } = await load('decide/policy/time-window');

/**
 * Plain YAML scalars are read by their source text, so that `version: 1.10` is a text although it looks like a number.
 */
const TEXT = { type: ['string', 'number', 'boolean'] };
const SOME_TEXT = { ...TEXT, minLength: 1 };
const ID = { ...TEXT, pattern: '^[\\x21-\\x7e]{1,128}$' };
const REASON_CODES = { type: 'array', items: { ...TEXT, pattern: '^[A-Za-z0-9_.:-]{1,128}$' } };
const ref = (name) => ({ $ref: `#/definitions/${name}` });
const closed = (properties, more = {}) => ({ type: 'object', additionalProperties: false, properties, ...more });
const listOf = (items) => ({ type: 'array', minItems: 1, items });
const described = (schema, description) => ({ description, ...schema });

const LITERALS = {
  text: TEXT,
  host: TEXT,
  method: TEXT,
  connector: TEXT,
  list: TEXT,
  connector_list: TEXT,
  header_names: TEXT,
  open: TEXT,
  integer: { anyOf: [{ type: 'integer' }, { type: 'string', pattern: '^[+-]?\\d+$' }] },
  number: { anyOf: [{ type: 'number' }, { type: 'string', pattern: '^[+-]?\\d' }] },
  money: {
    anyOf: [
      { type: 'string', pattern: '^\\d+(\\.\\d+)?$' },
      { type: 'number', minimum: 0 },
    ],
  },
  boolean: { enum: [true, false, 'true', 'false'] },
  time: { type: 'string', pattern: '^\\d{4}-' },
};

const CLOCK = '([01]\\d|2[0-3]):[0-5]\\d';
const WINDOW = closed(
  {
    days: listOf({ enum: [...DAYS] }),
    from: { type: 'string', pattern: `^${CLOCK}$` },
    to: { type: 'string', pattern: `^(${CLOCK}|24:00)$` },
  },
  { minProperties: 1 },
);
const RANGE = { type: 'string', pattern: '^[0-9A-Fa-f.:]+(/\\d+)?$' };

/**
 * What stands behind an operator. In open fields the literal's own type counts: an order is one of numbers, and a part
 * of a text is a text.
 */
function operand(operator, field) {
  const kind = operator.operand;
  const open = field.type === 'open';
  if (kind === 'literals') return { type: 'array', items: literalOf(field) };
  // A pattern is its source text, and an element that a list contains may be a number.
  const asWritten = operator === OPERATORS.matches || isFor(operator, { type: 'list' });
  if (kind === 'text') return open && !asWritten ? { type: 'string' } : TEXT;
  if (kind === 'ranges') return { anyOf: [RANGE, listOf(RANGE)] };
  if (kind === 'window') return WINDOW;
  return open && !isFor(operator, { type: 'text' }) ? { type: 'number' } : literalOf(field);
}

const FIELDS = FIELD_NAMES.map((name) => ({ name, open: name.includes('<'), ...pick(namedField(name)) }));

/** Fields whose values look alike; the values of an enumeration make a type of their own. */
function pick({ type, values }) {
  return { kind: values === undefined ? type : `one_of_${values.join('_')}`, type, values };
}

const KINDS = [...new Map(FIELDS.map((field) => [field.kind, field])).values()];
const literalOf = ({ type, values }) => (values === undefined ? LITERALS[type] : { enum: [...values] });
const isFor = (operator, { type }) => operator.types.has(type);

/** `when: {field: …, operator: …}`, groups, or both. */
function clause() {
  const operators = Object.fromEntries(Object.entries(OPERATORS).map(([name, { help }]) => [name, { description: help }]));
  const perKind = KINDS.map((kind) => ({
    if: { required: ['field'], properties: { field: fieldNames(FIELDS.filter((field) => field.kind === kind.kind)) } },
    // biome-ignore lint/suspicious/noThenProperty: that is its name in JSON Schema
    then: {
      properties: Object.fromEntries(Object.entries(OPERATORS).map(([name, op]) => [name, isFor(op, kind) ? operand(op, kind) : false])),
    },
  }));
  return closed(
    {
      field: described(fieldNames(FIELDS), 'What is looked at.'),
      negate: { type: 'boolean', description: 'Inverts the whole clause.' },
      all: described(listOf(ref('clause')), 'Every clause must hold.'),
      any: described(listOf(ref('clause')), 'One clause must hold.'),
      not: described(ref('clause'), 'The clause must not hold.'),
      exists: { type: 'boolean', description: 'Whether the request has the field at all.' },
      ...operators,
    },
    { minProperties: 1, allOf: perKind },
  );
}

function fieldNames(fields) {
  const names = fields.filter(({ open }) => !open).flatMap(({ name }) => [`context.${name}`, name]);
  const patterns = fields.filter(({ open }) => open).map(({ name }) => ({ type: 'string', pattern: openPattern(name) }));
  return { anyOf: [...(names.length === 0 ? [] : [{ enum: names }]), ...patterns] };
}

/** The pattern of an open name: a path has no empty part. */
function withSuffix(name) {
  return name.replace(/<.*$/, '').replaceAll('.', '\\.') + (name.endsWith('<path>') ? '[^.]+(\\.[^.]+)*' : '.+');
}

function openPattern(name) {
  return `^(context\\.)?${withSuffix(name)}$`;
}

/** `conditions: {field: value or operators}`. */
function conditions() {
  const properties = Object.fromEntries(
    FIELDS.filter(({ open }) => !open).flatMap(({ name, kind }) => [`context.${name}`, name].map((path) => [path, ref(`test_of_${kind}`)])),
  );
  const patternProperties = Object.fromEntries(
    FIELDS.filter(({ open }) => open).map(({ name, kind }) => [openPattern(name), ref(`test_of_${kind}`)]),
  );
  const groups = { all: listOf(ref('clause')), any: listOf(ref('clause')), not: ref('clause') };
  return closed({ ...groups, ...properties }, { patternProperties, minProperties: 1 });
}

function testOf(kind) {
  const fitting = Object.entries(OPERATORS).filter(([, operator]) => isFor(operator, kind));
  const operators = Object.fromEntries(fitting.map(([name, op]) => [name, described(operand(op, kind), op.help)]));
  return {
    anyOf: [literalOf(kind), closed({ exists: { type: 'boolean' }, negate: { type: 'boolean' }, ...operators }, { minProperties: 1 })],
  };
}

const EFFECT_VALUES = {
  decision: { enum: [...DECISIONS] },
  text: SOME_TEXT,
  texts: REASON_CODES,
  amount: LITERALS.money,
  count: {
    anyOf: [
      { type: 'integer', minimum: 1, maximum: 999_999_999 },
      { type: 'string', pattern: '^[1-9]\\d{0,8}$' },
    ],
  },
  approvers: { enum: [1, 2, 3, 4, 5, '1', '2', '3', '4', '5'] },
  hold: { type: ['string', 'integer'], pattern: '^(0|(\\d+(\\.\\d*)?(ms|s|m))+)$', maximum: 0 },
  credential_mode: { enum: [...CREDENTIAL_MODES] },
  attribution_keys: { type: 'array', items: { type: 'string', pattern: '^(customer_id|account_id|project_id|labels\\..+)$' } },
  attribution_values: {
    type: 'object',
    minProperties: 1,
    patternProperties: { '^(customer_id|account_id|project_id|labels\\..+)$': SOME_TEXT },
    additionalProperties: false,
  },
  mutations: listOf(closed({ key: { type: 'string', pattern: mutablePattern() }, value: true }, { required: ['key', 'value'] })),
};

function mutablePattern() {
  return `^(${MUTABLE.map((key) => (key.includes('<') ? withSuffix(key) : key.replaceAll('.', '\\.'))).join('|')})$`;
}

function effect() {
  const properties = Object.entries(EFFECT_SHAPES).map(([name, { kind, help, members }]) => {
    if (kind !== 'map') return [name, described(EFFECT_VALUES[kind], help)];
    const inner = Object.entries(members).map(([member, shape]) => [member, described(EFFECT_VALUES[shape.kind], shape.help)]);
    return [name, described(closed(Object.fromEntries(inner), { minProperties: 1 }), help)];
  });
  return closed(Object.fromEntries(properties), { minProperties: 1 });
}

const RULE_VALUES = {
  id: described(ID, 'Unique in its layer; an overlay replaces the rule of the same layer and id.'),
  priority: { type: 'integer', description: 'Higher comes first; default 0.' },
  when: described(ref('clause'), 'A condition: a field with operators, or all, any, not.'),
  conditions: described(ref('conditions'), 'A condition as a map of fields; all must hold.'),
  effect: described(ref('effect'), 'What happens when the condition holds.'),
  disabled: { type: 'boolean', description: 'Takes the rule of the same layer and id of an earlier level away.' },
  description: TEXT,
};

const LAYERS = { enum: [...STANDARD_LAYERS] };
const CUSTOM_LAYER = '^custom\\.[A-Za-z0-9_-]{1,64}$';
const RULES = { type: ['array', 'null'], items: ref('rule') };
const STRATEGY = {
  enum: [...MERGE_STRATEGIES],
  description: 'first_match: the first rule with a decision ends its layer; strict: all must agree.',
};

const RULE_DEFINITIONS = {
  rule: closed(Object.fromEntries(RULE_KEYS.map((key) => [key, RULE_VALUES[key]])), {
    required: ['id'],
    anyOf: [{ required: ['effect'] }, { required: ['disabled'], properties: { disabled: { const: true } } }],
  }),
  clause: clause(),
  conditions: conditions(),
  effect: effect(),
  ...Object.fromEntries(KINDS.map((kind) => [`test_of_${kind.kind}`, testOf(kind)])),
};

const bundle = closed(
  {
    schema: { const: BUNDLE_SCHEMA },
    bundle_id: ID,
    version: ID,
    description: TEXT,
    evaluation: closed({
      stop_on: { type: 'array', items: { enum: [...DECISIONS] }, description: 'Decisions that end the evaluation after their layer.' },
      merge_strategy: STRATEGY,
    }),
    inline_rules: {
      type: 'object',
      additionalProperties: false,
      properties: Object.fromEntries(STANDARD_LAYERS.map((layer) => [layer, RULES])),
      patternProperties: { [CUSTOM_LAYER]: RULES },
    },
    files: { type: 'array', items: { type: 'string', pattern: '\\.ya?ml$' }, description: 'Rule files, relative to the bundle.' },
  },
  { required: ['schema'] },
);
const ruleFile = closed(
  {
    schema: { const: RULE_FILE_SCHEMA },
    description: TEXT,
    layer: { anyOf: [LAYERS, { type: 'string', pattern: CUSTOM_LAYER }] },
    rules: RULES,
  },
  { required: ['schema', 'layer', 'rules'] },
);

/** Texts of a policy inside a suite. */
const GIVEN_POLICY = {
  bundle: { type: 'string' },
  files: { type: 'object', additionalProperties: { type: 'string' } },
  addons: { type: 'array', items: { type: 'string' } },
  org: { type: 'string' },
  node: { type: 'string' },
  tier: { enum: [...PLAN_TIERS] },
  put: { type: 'boolean' },
};
const FACTS = { type: 'object', description: 'What differs from a plain chat call, by the names that rules use.' };
const EXPECTED = { decision: { enum: [...DECISIONS] } };
const suite = closed(
  {
    schema: { const: SUITE_SCHEMA },
    description: { type: 'string' },
    policies: { type: 'string', description: 'A policies folder or a bundle, relative to this file.' },
    rule_files: {
      type: 'array',
      items: { type: 'string' },
      description: 'Rule files, relative to this file, as add-ons of an empty bundle.',
    },
    ...GIVEN_POLICY,
    facts: FACTS,
    cases: listOf(
      closed(
        {
          name: { type: 'string' },
          description: { type: 'string' },
          ...GIVEN_POLICY,
          facts: FACTS,
          spent_usd: LITERALS.money,
          rate_limited: { type: 'array', items: { type: 'string' } },
          unsupported: { type: 'boolean' },
          expect: closed(Object.fromEntries(EXPECTABLE.map((name) => [name, EXPECTED[name] ?? true])), { minProperties: 1 }),
          errors: { type: 'array', items: { type: 'object' } },
        },
        { required: ['name'], oneOf: [{ required: ['expect'] }, { required: ['errors'] }] },
      ),
    ),
  },
  { required: ['schema', 'cases'] },
);

const SCHEMAS = {
  'bundle.schema.json': { title: 'Policy bundle', ...bundle, definitions: RULE_DEFINITIONS },
  'rule-file.schema.json': { title: 'Policy rule file', ...ruleFile, definitions: RULE_DEFINITIONS },
  'tests.schema.json': { title: 'Policy test suite', ...suite },
};

mkdirSync(folder, { recursive: true });
for (const [file, schema] of Object.entries(SCHEMAS)) {
  const comment = 'Generated by scripts/policy-schema.mjs from the tables in src/. Change them, not this file.';
  const text = `${JSON.stringify({ $schema: 'http://json-schema.org/draft-07/schema#', $comment: comment, ...schema }, null, 1)}\n`;
  const path = join(folder, file);
  if (existsSync(path) && readFileSync(path, 'utf8') === text) continue;
  if (options.check) process.exitCode = 1;
  else writeFileSync(path, text);
  console.log(
    options.check ? `policies/schema/${file} is not what the tables say: run npm run reference` : `wrote policies/schema/${file}`,
  );
}
