import type { Condition } from './condition.ts';
import type { Facts } from './facts.ts';
import type { Field } from './fields.ts';
import { compilePredicate } from './predicate.ts';

/** Whether the value of a field is known, missing included; of a record only some are. */
export type IsKnown = (field: Field) => boolean;

/**
 * Whether a condition holds, where some fields are not known: undefined when it depends on one of those (Kleene's three-valued logic).
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
