import type { YamlEntry, YamlNode } from '../../base/lib/yaml.ts';
import { type Field, fieldHint, resolveField } from './fields.ts';
import type { LiteralContext } from './literals.ts';
import { type CompiledOperator, OPERATORS } from './operators.ts';
import type { PatternSum } from './pattern-sum.ts';
import type { Problems, SourcePlace } from './problems.ts';

/*
 * A condition as it is evaluated: all negations stand at the single tests. They are pushed down while the clause is
 * read (De Morgan), so an even number of them cancels, and `negate` on `not_in` is `in` (policy.md 14).
 */
export type Condition =
  | { readonly kind: 'all' | 'any'; readonly parts: readonly Condition[] }
  | {
      readonly kind: 'value';
      readonly field: Field;
      readonly operator: string;
      readonly negated: boolean;
      readonly compiled: CompiledOperator;
      /** Operator and literal as they stand in the file. */
      readonly entry: YamlEntry;
    }
  | { readonly kind: 'exists'; readonly field: Field; readonly present: boolean };

export interface ConditionReader {
  readonly problems: Problems;
  readonly patterns: PatternSum;
  readonly connectorId: (text: string) => string | undefined;
}

/** Always matches: an `all` of nothing, which no bundle can write. */
export const ALWAYS: Condition = { kind: 'all', parts: [] };

/** A longer pattern is only compared as it is written. */
const MAX_FOLDED_PATTERN = 1000;
const GROUPS = ['all', 'any', 'not'] as const;
type Group = (typeof GROUPS)[number];
const CLAUSE_KEYS = ['field', 'negate', ...GROUPS, 'exists', ...Object.keys(OPERATORS)];
const OPERATOR_NAMES = ['exists', ...Object.keys(OPERATORS), 'negate'];
/** Words of other languages, and what they are called here. */
const SYNONYMS: Readonly<Record<string, string>> = {
  eq: 'equals',
  ne: 'not_equals',
  neq: 'not_equals',
  regex: 'matches',
  and: 'all',
  or: 'any',
  ge: 'gte',
  le: 'lte',
  prefix: 'starts_with',
  suffix: 'ends_with',
  like: 'glob',
};

/** Reads `when` and `conditions` of a rule: both must hold, neither always matches (policy.md 10). */
export function readRuleCondition(
  when: YamlNode | undefined,
  conditions: YamlNode | undefined,
  place: SourcePlace,
  reader: ConditionReader,
): Condition {
  const parts: Condition[] = [];
  if (when !== undefined) parts.push(readClause(when, place.at('when'), false, reader));
  if (conditions !== undefined) parts.push(...readConditions(conditions, place.at('conditions'), reader));
  return group('all', parts);
}

/** One clause of `when`: a field with operators, groups, or both; everything in it must hold. */
function readClause(node: YamlNode, place: SourcePlace, outerNegated: boolean, reader: ConditionReader): Condition {
  const { problems } = reader;
  if (node.kind !== 'map') {
    problems.add(
      place,
      node,
      'bad_type',
      'a condition must be a map',
      node.kind === 'seq' ? 'write all: or any: before the list' : 'write {field: context.purpose, equals: chat}',
    );
    return ALWAYS;
  }
  const negated = readNegate(node.entries, place, problems) ? !outerNegated : outerNegated;
  const fieldEntry = node.entries.find(({ key }) => key.source === 'field');
  const field = fieldEntry && readFieldName(fieldEntry.value, place.at('field'), problems);
  const rest = node.entries.filter(({ key }) => key.source !== 'field' && key.source !== 'negate');
  const operators = rest.filter(({ key }) => !isGroup(key.source));
  if (rest.length === 0 && fieldEntry === undefined) problems.add(place, node, 'empty', 'the condition is empty');
  if (fieldEntry !== undefined && operators.length === 0) {
    problems.add(
      place,
      fieldEntry.key,
      'missing_key',
      'the field is compared with nothing: an operator is missing',
      'add one, such as equals: or in:',
    );
  }
  const parts = rest.flatMap((entry): readonly Condition[] => {
    const { source } = entry.key;
    const at = place.at(source);
    if (isGroup(source)) return [readGroup(source, entry.value, at, negated, reader)];
    if (!isOperator(source)) unknownOperator(at, entry, CLAUSE_KEYS, problems);
    else if (fieldEntry === undefined)
      problems.add(at, entry.key, 'missing_key', `"${source}" needs a field beside it`, `write {field: context.purpose, ${source}: …}`);
    else if (field !== undefined) return readTest(field, entry, at, negated, reader);
    return [];
  });
  return group(negated ? 'any' : 'all', parts);
}

function isGroup(name: string): name is Group {
  return (GROUPS as readonly string[]).includes(name);
}

function isOperator(name: string): boolean {
  return name === 'exists' || Object.hasOwn(OPERATORS, name);
}

/** `all` and `any` hold a list of clauses, `not` one clause. */
function readGroup(kind: Group, node: YamlNode, place: SourcePlace, negated: boolean, reader: ConditionReader): Condition {
  if (kind === 'not') return readClause(node, place, !negated, reader);
  const items = reader.problems.items(node, place, kind) ?? [];
  if (node.kind === 'seq' && items.length === 0)
    reader.problems.add(place, node, 'empty', `an empty ${kind} would ${kind === 'all' ? 'always' : 'never'} match`);
  const parts = items.map((item, i) => readClause(item, place.at(i), negated, reader));
  return group((kind === 'all') === negated ? 'any' : 'all', parts);
}

/**
 * The map form: field path to scalar (`equals`) or to operators; the groups of `when` are accepted beside the fields.
 */
function readConditions(node: YamlNode, place: SourcePlace, reader: ConditionReader): readonly Condition[] {
  const { problems } = reader;
  const map = problems.map(node, place, 'conditions');
  if (map === undefined) return [];
  if (map.entries.length === 0) problems.add(place, node, 'empty', 'empty conditions would always match');
  const parts: Condition[] = [];
  for (const entry of map.entries) {
    const name = entry.key.source;
    const at = place.at(name);
    if (isGroup(name)) parts.push(readGroup(name, entry.value, at, false, reader));
    else {
      const field = readFieldName(entry.key, at, problems);
      if (field !== undefined) parts.push(...readFieldConditions(field, entry, at, reader));
    }
  }
  return parts;
}

function readFieldConditions(field: Field, entry: YamlEntry, place: SourcePlace, reader: ConditionReader): readonly Condition[] {
  const { problems } = reader;
  const { key, value } = entry;
  if (value.kind === 'scalar') return readTest(field, { key: { ...key, source: 'equals' }, value }, place, false, reader);
  if (value.kind === 'seq') {
    problems.add(place, value, 'bad_type', 'a list is not compared as a whole', `write ${key.source}: {in: […]}`);
    return [];
  }
  const negated = readNegate(value.entries, place, problems);
  const parts: Condition[] = [];
  let operators = 0;
  for (const operator of value.entries) {
    const at = place.at(operator.key.source);
    if (operator.key.source === 'negate') continue;
    operators++;
    if (OPERATOR_NAMES.includes(operator.key.source)) parts.push(...readTest(field, operator, at, negated, reader));
    else unknownOperator(at, operator, OPERATOR_NAMES, problems);
  }
  if (operators === 0)
    problems.add(place, value, 'empty', 'the field is compared with nothing: an operator is missing', 'add one, such as equals: or in:');
  return [group(negated ? 'any' : 'all', parts)];
}

/** One operator on one field; the key's source is the operator's name. */
function readTest(field: Field, entry: YamlEntry, place: SourcePlace, negated: boolean, reader: ConditionReader): readonly Condition[] {
  const { problems } = reader;
  const name = entry.key.source;
  if (name === 'exists') {
    const present = problems.boolean(entry.value, place, 'exists');
    return present === undefined ? [] : [{ kind: 'exists', field, present: present !== negated }];
  }
  const operator = OPERATORS[name];
  if (operator === undefined) return [];
  if (!operator.types.has(field.type)) {
    problems.add(
      place,
      entry.key,
      'operator_not_for_field',
      `"${name}" does not apply to ${field.name} (${field.type.replaceAll('_', ' ')})`,
      fittingOperators(field),
    );
    return [];
  }
  const context = { field, place, problems, patterns: reader.patterns, connectorId: reader.connectorId };
  const asWritten = operator.compile(entry.value, context);
  if (asWritten === undefined) return [];
  const compiled = field.folds === undefined ? asWritten : withFolded(asWritten, name, entry.value, context);
  return [{ kind: 'value', field, operator: name, negated: negated !== operator.negates, compiled, entry }];
}

/** A test of a field that may stand in lower case: its literal in lower case beside the one that is written. */
function withFolded(compiled: CompiledOperator, operator: string, node: YamlNode, context: LiteralContext): CompiledOperator {
  const lower = inLowerCase(node, operator === 'matches');
  const folded = lower === node ? undefined : OPERATORS[operator]?.compile(lower, context);
  return folded === undefined ? compiled : { ...compiled, folded };
}

/** The same node when nothing changes. A pattern is not rewritten, since its escapes have a case. */
function inLowerCase(node: YamlNode, isPattern: boolean): YamlNode {
  if (node.kind === 'seq') {
    const items = node.items.map((item) => inLowerCase(item, isPattern));
    return items.every((item, i) => item === node.items[i]) ? node : { ...node, items };
  }
  if (node.kind !== 'scalar' || typeof node.value !== 'string' || !/\p{Lu}/u.test(node.value)) return node;
  if (isPattern && node.value.length > MAX_FOLDED_PATTERN) return node;
  const text = isPattern ? `(?i)${node.value}` : node.value.toLowerCase();
  return { ...node, value: text, source: text };
}

function readFieldName(node: YamlNode, place: SourcePlace, problems: Problems): Field | undefined {
  const path = problems.text(node, place, 'a field', 256);
  if (path === undefined) return undefined;
  const field = resolveField(path);
  if (field !== undefined) return field;
  problems.add(place, node, 'unknown_field', `unknown field "${path}"`, fieldHint(path));
  return undefined;
}

function readNegate(entries: readonly YamlEntry[], place: SourcePlace, problems: Problems): boolean {
  const entry = entries.find(({ key }) => key.source === 'negate');
  return entry !== undefined && problems.boolean(entry.value, place.at('negate'), 'negate') === true;
}

function unknownOperator(place: SourcePlace, entry: YamlEntry, known: readonly string[], problems: Problems): void {
  const name = entry.key.source;
  const synonym = Object.hasOwn(SYNONYMS, name) ? SYNONYMS[name] : undefined;
  if (synonym === undefined || !known.includes(synonym)) problems.unknown(place, entry.key, 'unknown_operator', 'operator', name, known);
  else problems.add(place, entry.key, 'unknown_operator', `unknown operator "${name}"`, `did you mean "${synonym}"?`);
}

function fittingOperators(field: Field): string {
  const names = Object.entries(OPERATORS).flatMap(([name, operator]) => (operator.types.has(field.type) ? [name] : []));
  return `it takes ${[...names, 'exists'].join(', ')}`;
}

/** A group of one is that one; a group within one of its kind is opened. */
function group(kind: 'all' | 'any', parts: readonly Condition[]): Condition {
  const flat = parts.flatMap((part) => (part.kind === kind ? part.parts : [part]));
  const [only] = flat;
  return flat.length === 1 && only !== undefined ? only : { kind, parts: flat };
}
