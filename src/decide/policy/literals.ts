import { readAmount } from '../../base/lib/amounts.ts';
import { parseTime } from '../../base/lib/clock.ts';
import { canonicalHost } from '../../base/lib/host.ts';
import type { YamlNode, YamlScalar } from '../../base/lib/yaml.ts';
import type { Field, FieldType } from './fields.ts';
import type { PatternSum } from './pattern-sum.ts';
import type { Problems, SourcePlace } from './problems.ts';

/** A literal in the type of its field. */
export type Literal = string | number | bigint | boolean;

export interface LiteralContext {
  readonly field: Field;
  readonly place: SourcePlace;
  readonly problems: Problems;
  /** Takes what is compiled when all of the policy is read. */
  readonly patterns: PatternSum;
  /** Turns neutral names and aliases into the canonical connector id (decisions, section 1). */
  readonly connectorId: (text: string) => string | undefined;
}

const INTEGER = /^[+-]?\d{1,16}$/;
const DECIMAL = /^[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3})?$/;

interface Conversion {
  /** From the YAML source text (policy.md 15); undefined when it is none. */
  readonly convert: (text: string, context: LiteralContext) => Literal | undefined;
  /** What a person should write. */
  readonly expected: string;
}

const TEXT: Conversion = { convert: (text) => text, expected: 'a text' };
const INTEGERS: Conversion = { convert: integer, expected: 'a whole number' };
const CONNECTORS: Conversion = { convert: (text, context) => context.connectorId(text) ?? text, expected: 'a connector id' };

const CONVERSIONS: Readonly<Record<Exclude<FieldType, 'open'>, Conversion>> = {
  text: TEXT,
  list: TEXT,
  host: { convert: (text) => canonicalHost(text), expected: 'a host name without scheme, port and path (use `glob` for patterns)' },
  method: { convert: (text) => text.toUpperCase(), expected: 'a method' },
  header_names: { convert: (text) => text.toLowerCase(), expected: 'a header name' },
  enum: { convert: (text, { field }) => (field.values?.includes(text) ? text : undefined), expected: 'one of the known values' },
  connector: CONNECTORS,
  connector_list: CONNECTORS,
  integer: INTEGERS,
  number: { convert: decimal, expected: 'a number' },
  money: { convert: (text) => readAmount(text), expected: 'an amount such as "0.25"' },
  boolean: { convert: (text) => (text === 'true' ? true : text === 'false' ? false : undefined), expected: 'true or false' },
  time: { convert: parseTime, expected: 'a time such as "2027-01-31T08:00:00Z"' },
};

/** Reads one literal for a comparison with the whole value of the field, or adds a problem. */
export function readLiteral(node: YamlNode, context: LiteralContext): Literal | undefined {
  const { field, place, problems } = context;
  if (node.kind === 'scalar' && node.value === null) {
    problems.add(place, node, 'bad_value', 'null cannot be compared with', 'to ask for a missing field write exists: false');
    return undefined;
  }
  const scalar = problems.scalar(node, place, 'the value');
  if (scalar === undefined) return undefined;
  if (field.type === 'open') return readOpen(scalar, place, problems);
  const { convert, expected } = CONVERSIONS[field.type];
  const value = convert(scalar.source, context);
  if (value !== undefined) return value;
  const known = field.values;
  const message = `"${scalar.source}" is not ${expected}, which ${field.name} is compared with`;
  if (known === undefined) problems.add(place, node, 'bad_value', message, `write ${expected}`);
  else problems.unknown(place, node, 'bad_value', `value of ${field.name}`, scalar.source, known);
  return undefined;
}

/** Reads the literal of an operator that looks at parts of a text (`starts_with`, `glob`, …), or adds a problem. */
export function readTextPart(node: YamlNode, { field, place, problems }: LiteralContext): string | undefined {
  const scalar = problems.scalar(node, place, 'the value');
  if (scalar === undefined) return undefined;
  if (field.type === 'open' && typeof scalar.value !== 'string') {
    problems.add(place, node, 'bad_type', 'the value must be a text', `write "${scalar.source}"`);
    return undefined;
  }
  if (field.type === 'host' || field.type === 'header_names') return scalar.source.toLowerCase();
  return field.type === 'method' ? scalar.source.toUpperCase() : scalar.source;
}

/** The literal's own type decides (policy.md 15). */
function readOpen(scalar: YamlScalar, place: SourcePlace, problems: Problems): Literal | undefined {
  const { value } = scalar;
  if (typeof value !== 'number') return value ?? undefined;
  if (Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value))) return value;
  problems.add(place, scalar, 'bad_value', `${scalar.source} cannot be represented exactly`, `write "${scalar.source}" to compare texts`);
  return undefined;
}

function integer(text: string): number | undefined {
  const value = INTEGER.test(text) ? Number(text) : Number.NaN;
  return Number.isSafeInteger(value) ? value : undefined;
}

function decimal(text: string): number | undefined {
  const value = DECIMAL.test(text) ? Number(text) : Number.NaN;
  return Number.isFinite(value) ? value : undefined;
}
