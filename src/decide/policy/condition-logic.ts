import { toPlain, type YamlNode } from '../../base/lib/yaml.ts';
import type { Condition } from './condition.ts';
import type { Facts } from './facts.ts';
import { type Field, isOneText } from './fields.ts';
import type { Literal } from './literals.ts';
import { type Limit, YES } from './operators.ts';
import { compilePredicate } from './predicate.ts';

type ValueCondition = Extract<Condition, { kind: 'value' }>;

/*
 * What can be said of conditions without a request, for the linter. Cautious: "no" means "not as far as can be seen".
 */

/** Whether two tests of the condition exclude each other, so that it holds for no request. */
export function neverHolds(condition: Condition): boolean {
  if (condition.kind === 'any') return condition.parts.length > 0 && condition.parts.every(neverHolds);
  if (condition.kind !== 'all') return false;
  const { parts } = condition;
  return parts.some(neverHolds) || parts.some((a, i) => parts.slice(i + 1).some((b) => exclude(a, b)));
}

/** The tests of which all must hold, by keys that are equal for tests that are written alike. */
export interface Conjunction {
  readonly keys: ReadonlySet<string>;
  /** Whether one of the tests negates. */
  readonly negates: boolean;
}

export function conjunctionOf(condition: Condition): Conjunction {
  const parts = condition.kind === 'all' ? condition.parts : [condition];
  return { keys: new Set(parts.map(keyOf)), negates: parts.some(negates) };
}

/**
 * Whether every request of which `stronger` holds is one of which `weaker` holds.
 * @param sameSide whether both rules refuse or neither does: only then do their negations agree on missing fields
 * (policy.md 13)
 */
export function implies(stronger: Conjunction, weaker: Conjunction, sameSide: boolean): boolean {
  if (weaker.negates && !sameSide) return false;
  for (const key of weaker.keys) if (!stronger.keys.has(key)) return false;
  return true;
}

function negates(condition: Condition): boolean {
  if (condition.kind === 'all' || condition.kind === 'any') return condition.parts.some(negates);
  return condition.kind === 'value' && condition.negated;
}

/** Equal for conditions that are written alike. */
function keyOf(condition: Condition): string {
  if (condition.kind === 'exists') return JSON.stringify(['exists', condition.field.name, condition.present]);
  if (condition.kind === 'value') {
    const { field, operator, negated, entry, compiled } = condition;
    const equalTo = compiled.equalTo?.map((literal) => `${typeof literal} ${literal}`).sort();
    return JSON.stringify([equalTo === undefined ? operator : 'in', field.name, negated, equalTo ?? literalOf(entry.value)]);
  }
  return JSON.stringify([condition.kind, condition.parts.map(keyOf).sort()]);
}

function literalOf(node: YamlNode): unknown {
  return node.kind === 'scalar' ? [node.quoted, node.source] : toPlain(node);
}

/** Two tests of one field that no value passes both. */
function exclude(a: Condition, b: Condition): boolean {
  if (!('field' in a) || !('field' in b) || a.field.name !== b.field.name) return false;
  if (a.kind === 'exists' && b.kind === 'exists') return a.present !== b.present;
  if (a.kind === 'exists') return !a.present && b.kind === 'value' && !b.negated;
  if (b.kind === 'exists') return !b.present && !a.negated;
  if (!a.negated && !b.negated) return noneBetween(a.compiled.limit, b.compiled.limit) || excludeValues(a, b) || excludeValues(b, a);
  const [left, right] = [a.compiled.equalTo, b.compiled.equalTo];
  if (left === undefined || right === undefined || !hasOneValue(a.field) || (a.negated && b.negated)) return false;
  return a.negated ? right.every((literal) => left.includes(literal)) : left.every((literal) => right.includes(literal));
}

/** An open field can hold a list, which equals several values. */
function hasOneValue(field: Field): boolean {
  return isOneText(field) || !['open', 'list', 'connector_list', 'header_names'].includes(field.type);
}

/**
 * Whether none of the values that one test asks for passes the other, also not in lower case, for a provider that
 * ignores case.
 */
function excludeValues({ field, compiled: { equalTo } }: ValueCondition, { compiled }: ValueCondition): boolean {
  if (equalTo === undefined || equalTo.length === 0 || !hasOneValue(field)) return false;
  const { check, folded } = compiled;
  const passes = (literal: Literal): boolean =>
    check(literal) === YES || (typeof literal === 'string' && (folded?.check ?? check)(literal.toLowerCase()) === YES);
  return !equalTo.some(passes);
}

/** Whether no number is above the one limit and below the other. */
function noneBetween(first: Limit | undefined, second: Limit | undefined): boolean {
  if (first === undefined || second === undefined || first.side === second.side) return false;
  const [above, below] = first.side === 'above' ? [first, second] : [second, first];
  return above.value > below.value || (above.value === below.value && !(above.included && below.included));
}

/** Whether the value of a field is known, missing included; of a record only some are. */
export type IsKnown = (field: Field) => boolean;

/**
 * Whether a condition holds, where some fields are not known: undefined when it depends on one of those (Kleene's
 * three-valued logic).
 * @param refuses as for compilePredicate
 */
export function holdsIfKnown(condition: Condition, refuses: boolean, facts: Facts, isKnown: IsKnown): boolean | undefined {
  if (condition.kind === 'value' || condition.kind === 'exists') {
    return isKnown(condition.field) ? compilePredicate(condition, refuses)(facts) : undefined;
  }
  const decisive = condition.kind === 'any';
  let result: boolean | undefined = !decisive;
  for (const part of condition.parts) {
    const holds = holdsIfKnown(part, refuses, facts, isKnown);
    if (holds === decisive) return decisive;
    if (holds === undefined) result = undefined;
  }
  return result;
}

/** Names of the fields that are not known and that the condition reads. */
export function unknownFields(condition: Condition, isKnown: IsKnown): readonly string[] {
  if ('parts' in condition) return [...new Set(condition.parts.flatMap((part) => unknownFields(part, isKnown)))];
  return isKnown(condition.field) ? [] : [`context.${condition.field.name}`];
}
