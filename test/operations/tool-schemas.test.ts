/*
 * Tool lists as models take them (decision 10.15): every schema turned by the rules of Gemini's function declarations
 * (its `Schema`, a part of OpenAPI 3.0) and by those of OpenAI's strict mode. One tool that does not fit is enough for
 * the whole list to be refused.
 */
import t from 'tap';
import { TOOLS } from '../../src/operations/tool-table.ts';

type Schema = Readonly<Record<string, unknown>>;

const GEMINI_TYPES = ['string', 'number', 'integer', 'boolean', 'array', 'object'];
/** What its `Schema` has; a converter leaves the rest out. */
const GEMINI_MEMBERS = [
  'type',
  'format',
  'title',
  'description',
  'nullable',
  'default',
  'enum',
  'items',
  'minItems',
  'maxItems',
  'properties',
  'required',
  'minProperties',
  'maxProperties',
  'minLength',
  'maxLength',
  'pattern',
  'minimum',
  'maximum',
];
const GEMINI_NAME = /^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$/;
/** What members of an argument have whose names are the caller's own: a map. */
const MAPS = ['default_attribution.labels'];

const OPENAI_NAME = /^[a-zA-Z0-9_-]{1,64}$/;
const OPENAI_MEMBERS = [
  'type',
  'description',
  'title',
  'enum',
  'const',
  'items',
  'minItems',
  'maxItems',
  'properties',
  'required',
  'additionalProperties',
  'pattern',
  'format',
  'minLength',
  'maxLength',
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'multipleOf',
];
/** Say nothing of what is valid: a converter drops them. */
const ANNOTATIONS = ['default', 'examples'];

function partsOf(schema: Schema): readonly (readonly [name: string, part: Schema])[] {
  const members = Object.entries((schema['properties'] ?? {}) as Record<string, Schema>).map(([name, part]) => [`.${name}`, part] as const);
  return schema['items'] === undefined ? members : [...members, ['[]', schema['items'] as Schema] as const];
}

function walk(schema: Schema, at: string, look: (part: Schema, at: string) => void): void {
  look(schema, at);
  for (const [name, part] of partsOf(schema)) walk(part, at + name, look);
}

t.test('a tool list that Gemini takes', (t) => {
  const wrong: string[] = [];
  for (const { name, description, inputSchema } of TOOLS.tools) {
    if (!GEMINI_NAME.test(name) || description.trim() === '') wrong.push(`${name}: name or description`);
    walk(inputSchema, '', (part, at) => {
      const say = (what: string) => wrong.push(`${name}${at}: ${what}`);
      const { type, enum: words, items, properties, required } = part;
      if (typeof type !== 'string' || !GEMINI_TYPES.includes(type)) say(`type ${JSON.stringify(type)}`);
      for (const member of ['anyOf', 'oneOf', 'allOf', 'not', '$ref', '$defs', 'const', 'patternProperties'])
        if (member in part) say(member);
      if (words !== undefined) {
        const texts = Array.isArray(words) && words.length > 0 && words.every((word) => typeof word === 'string' && word !== '');
        if (type !== 'string' || !texts) say(`enum ${JSON.stringify(words)}`);
      }
      if ((type === 'array') !== (items !== undefined)) say('items');
      const names = Object.keys(properties ?? {});
      if (((required ?? []) as string[]).some((one) => !names.includes(one))) say('required names no member');
      if (type === 'object' && at !== '' && names.length === 0 && !MAPS.includes(at.slice(1))) say('an object without members');
      // What is left out may not be all that a part says.
      const kept = Object.keys(part).filter((member) => GEMINI_MEMBERS.includes(member));
      if (!kept.includes('type')) say('nothing is left of it');
    });
  }
  t.strictSame(wrong, []);
  t.end();
});

/** As converters make a schema strict: every member is required, nothing else may come. */
function strict(schema: Schema, say: (what: string) => void): Schema {
  const { properties, items, ...rest } = schema;
  const kept = Object.fromEntries(Object.entries(rest).filter(([member]) => !ANNOTATIONS.includes(member)));
  for (const member of Object.keys(kept)) if (!OPENAI_MEMBERS.includes(member)) say(member);
  // Converters say that nothing else may come; a schema that says otherwise they refuse.
  if (schema['type'] === 'object' && ![undefined, false].includes(schema['additionalProperties'] as undefined)) say('additionalProperties');
  const members = Object.entries((properties ?? {}) as Record<string, Schema>);
  return {
    ...kept,
    ...(properties === undefined ? {} : { properties: Object.fromEntries(members.map(([name, part]) => [name, strict(part, say)])) }),
    ...(properties === undefined ? {} : { required: members.map(([name]) => name) }),
    ...(items === undefined ? {} : { items: strict(items as Schema, say) }),
  };
}

t.test("a tool list that OpenAI's strict mode takes, but for maps, which it has no word for", (t) => {
  const wrong: string[] = [];
  const maps: string[] = [];
  for (const { name, inputSchema } of TOOLS.tools) {
    if (!OPENAI_NAME.test(name)) wrong.push(name);
    const hasMap: boolean[] = [];
    walk(inputSchema, '', (_part, at) => hasMap.push(MAPS.includes(at.slice(1))));
    if (hasMap.includes(true)) {
      maps.push(name);
      continue;
    }
    const made = strict(inputSchema, (what) => wrong.push(`${name}: ${what}`));
    let levels = 0;
    walk(made, '', (_part, at) => (levels = Math.max(levels, at.split(/[.[]/).length)));
    if (made['type'] !== 'object' || levels > 10) wrong.push(`${name}: its root, or its depth`);
  }
  t.strictSame(wrong, []);
  t.strictSame(maps, ['create_workload', 'update_workload']);
  t.end();
});

t.test('answers say the type of every part, too', (t) => {
  const wrong: string[] = [];
  for (const { name, outputSchema } of TOOLS.tools) {
    walk(outputSchema ?? { type: 'object' }, '', (part, at) => {
      const types = [part['type']].flat();
      if (types.length > 2 || types.some((type) => typeof type !== 'string') || (types.length === 2 && types[1] !== 'null'))
        wrong.push(`${name}${at}: ${JSON.stringify(part['type'])}`);
      for (const member of ['anyOf', 'oneOf', 'allOf', '$ref']) if (member in part) wrong.push(`${name}${at}: ${member}`);
      const map = part['additionalProperties'];
      if (typeof map === 'object' && map !== null && !('type' in map)) wrong.push(`${name}${at}: a map of anything`);
    });
  }
  t.strictSame(wrong, []);
  t.end();
});
