import type { Condition } from './condition.ts';
import type { Facts } from './facts.ts';
import { type Check, NO, OTHER_TYPE, YES } from './operators.ts';

export type Predicate = (facts: Facts) => boolean;

/**
 * Compiles a condition to one closure that allocates nothing. Under a negative test a missing field, and for operators
 * other than equality a value of another type, takes the restrictive side: true in a rule that refuses, false in one
 * that allows or only has effects (policy.md 12 to 14).
 */
export function compilePredicate(condition: Condition, refuses: boolean): Predicate {
  if (condition.kind === 'exists') return existsTest(condition.field.get, condition.present);
  if (condition.kind === 'value') return condition.negated ? negativeTest(condition, refuses) : positiveTest(condition);
  const parts = condition.parts.map((part) => compilePredicate(part, refuses));
  return condition.kind === 'all' ? allOf(parts) : anyOf(parts);
}

/**
 * For a rule that refuses and has matched: whether a negative test of it took the restrictive side (the trace marks
 * it). Undefined when the condition has no such test, so that other rules pay nothing.
 */
export function compileMissingMark(condition: Condition): Predicate | undefined {
  if (condition.kind === 'exists') return undefined;
  if (condition.kind === 'value') return condition.negated ? sideTaken(condition) : undefined;
  const marks: Predicate[] = [];
  for (const part of condition.parts) {
    const mark = compileMissingMark(part);
    if (mark === undefined) continue;
    const holds = compilePredicate(part, true);
    marks.push((facts) => holds(facts) && mark(facts));
  }
  return marks.length === 0 ? undefined : anyOf(marks);
}

type ValueTest = Extract<Condition, { kind: 'value' }>;

function existsTest(get: (facts: Facts) => unknown, present: boolean): Predicate {
  return present ? (facts) => (get(facts) ?? undefined) !== undefined : (facts) => (get(facts) ?? undefined) === undefined;
}

function positiveTest(test: ValueTest): Predicate {
  const { field, compiled } = test;
  const { get } = field;
  const [only] = compiled.equalTo ?? [];
  // Scalar fields cannot hold a list, so identity is the whole test.
  if (compiled.equalTo?.length === 1 && only !== undefined && isScalarField(field.type) && compiled.folded === undefined)
    return (facts) => get(facts) === only;
  return inEitherCase(test, (check) => (facts) => {
    const value = get(facts);
    return value !== undefined && value !== null && check(value) === YES;
  });
}

function negativeTest(test: ValueTest, refuses: boolean): Predicate {
  const { get } = test.field;
  return inEitherCase(test, (check) => (facts) => {
    const value = get(facts);
    if (value === undefined || value === null) return refuses;
    const outcome = check(value);
    return outcome === OTHER_TYPE ? refuses : outcome === NO;
  });
}

function sideTaken(test: ValueTest): Predicate {
  const { get } = test.field;
  return inEitherCase(test, (check) => (facts) => {
    const value = get(facts);
    return value === undefined || value === null || check(value) === OTHER_TYPE;
  });
}

/** The test as it is written, and for requests whose field stands in lower case with its literal in lower case. */
function inEitherCase({ field: { folds }, compiled: { check, folded } }: ValueTest, make: (check: Check) => Predicate): Predicate {
  const written = make(check);
  if (folds === undefined || folded === undefined) return written;
  const lower = make(folded.check);
  return (facts) => (folds(facts) ? lower(facts) : written(facts));
}

function isScalarField(type: string): boolean {
  return type !== 'open' && type !== 'list' && type !== 'connector_list' && type !== 'header_names';
}

function allOf(parts: readonly Predicate[]): Predicate {
  const [a, b, c] = parts;
  if (a === undefined) return () => true;
  if (b === undefined) return a;
  if (c === undefined) return (facts) => a(facts) && b(facts);
  if (parts.length === 3) return (facts) => a(facts) && b(facts) && c(facts);
  return (facts) => {
    for (const part of parts) if (!part(facts)) return false;
    return true;
  };
}

function anyOf(parts: readonly Predicate[]): Predicate {
  const [a, b] = parts;
  if (a === undefined) return () => false;
  if (b === undefined) return a;
  if (parts.length === 2) return (facts) => a(facts) || b(facts);
  return (facts) => {
    for (const part of parts) if (part(facts)) return true;
    return false;
  };
}
