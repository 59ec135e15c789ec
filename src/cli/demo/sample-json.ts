/* JSON that fits a JSON Schema, for programs that ask a model for it: small, and the same each time. */
import { isJsonObject, type JsonObject } from '../../base/json/json-object.ts';

/** Deeper than what programs ask for; a schema that names itself ends there. */
const MAX_DEPTH = 16;

/**
 * A value that the schema allows, where it is of the usual kinds: types, members that are required, choices, constants,
 * bounds of numbers and lengths, references within it. Gemini's spelling of types, in capitals, is known.
 * @param text what strings say
 */
export function sampleOf(schema: unknown, text: string): unknown {
  return sample(schema, { whole: schema, text }, 0);
}

interface Sampling {
  readonly whole: unknown;
  readonly text: string;
}

function sample(schema: unknown, sampling: Sampling, depth: number): unknown {
  if (!isJsonObject(schema) || depth > MAX_DEPTH) return null;
  const { $ref: ref, const: constant, enum: choices, default: usual } = schema;
  if (typeof ref === 'string') return sample(referenced(ref, sampling.whole), sampling, depth + 1);
  if (constant !== undefined) return constant;
  if (Array.isArray(choices)) return choices[0];
  if (usual !== undefined) return usual;
  const [one] = [schema['anyOf'], schema['oneOf'], schema['allOf']].filter((list) => Array.isArray(list)).map((list) => list[0] as unknown);
  if (one !== undefined && schema['properties'] === undefined) return sample(one, sampling, depth + 1);
  return ofType(schema, sampling, depth);
}

function ofType(schema: JsonObject, sampling: Sampling, depth: number): unknown {
  switch (typeOf(schema)) {
    case 'string':
      return textFor(schema, sampling.text);
    case 'number':
    case 'integer':
      return numberFor(schema);
    case 'boolean':
      return true;
    case 'array': {
      const count = Math.min(Math.max(1, sizeIn(schema, 'minItems', 1)), sizeIn(schema, 'maxItems', MAX_DEPTH), MAX_DEPTH);
      return Array.from({ length: count }, () => sample(schema['items'], sampling, depth + 1));
    }
    case 'object': {
      const { properties } = schema;
      const members = isJsonObject(properties) ? Object.entries(properties) : [];
      const needed = Array.isArray(schema['required']) ? schema['required'] : members.map(([name]) => name);
      return Object.fromEntries(
        members.filter(([name]) => needed.includes(name)).map(([name, member]) => [name, sample(member, sampling, depth + 1)]),
      );
    }
    default:
      return null;
  }
}

function typeOf(schema: JsonObject): string {
  const { type } = schema;
  const [first] = (Array.isArray(type) ? type : [type]).filter((name): name is string => typeof name === 'string' && name !== 'null');
  return first?.toLowerCase() ?? (schema['properties'] === undefined ? 'string' : 'object');
}

const FORMATS: Readonly<Record<string, string>> = {
  date: '2026-01-01',
  'date-time': '2026-01-01T00:00:00Z',
  time: '00:00:00Z',
  email: 'somebody@example.com',
  uri: 'https://example.com/',
  uuid: '00000000-0000-4000-8000-000000000000',
};

function textFor(schema: JsonObject, text: string): string {
  const format = FORMATS[String(schema['format'])];
  return format ?? text.slice(0, sizeIn(schema, 'maxLength', text.length)).padEnd(Math.min(sizeIn(schema, 'minLength', 0), 10_000), '.');
}

function numberFor(schema: JsonObject): number {
  const above = schema['exclusiveMinimum'];
  return typeof above === 'number' ? above + 1 : Math.min(sizeIn(schema, 'minimum', 1), sizeIn(schema, 'maximum', Number.MAX_SAFE_INTEGER));
}

/** Gemini writes some of them as texts. */
function sizeIn(schema: JsonObject, name: string, absent: number): number {
  const size = Number(schema[name] ?? absent);
  return Number.isFinite(size) ? size : absent;
}

function referenced(ref: string, whole: unknown): unknown {
  return ref
    .replace(/^#\/?/, '')
    .split('/')
    .filter((name) => name !== '')
    .reduce((place: unknown, name) => (isJsonObject(place) ? place[name] : undefined), whole);
}
