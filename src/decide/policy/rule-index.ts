import type { Condition } from './condition.ts';
import type { Facts } from './facts.ts';
import type { Field } from './fields.ts';

/*
 * Most rules of a large layer ask first for one workload, model or host. The index keeps the positions of such rules by
 * the value they ask for, so that a request visits only those that can match and those that are not indexed, in the
 * order of the layer.
 */

/** Positions of rules in a layer, ascending. */
export type Positions = readonly number[];

export interface RuleIndex {
  /**
   * Lists of positions that hold, together and without overlap, every rule that this request can match. Allocates only
   * when indexed rules are among them.
   */
  candidates(facts: Facts): readonly Positions[];
}

interface KeyedRules {
  readonly field: Field;
  readonly byValue: Map<string, number[]>;
  readonly all: number[];
}

/** Below this many rules, or values of a field, a plain scan is as fast. */
const WORTHWHILE = 16;

/**
 * Builds the index: each rule stands under the one of its equality fields that has the most distinct values in the
 * layer.
 */
export function indexRules(conditions: readonly Condition[]): RuleIndex {
  const selectivity = conditions.length < WORTHWHILE ? new Map<string, Set<string>>() : distinctValues(conditions);
  const always: number[] = [];
  const keyed = new Map<string, KeyedRules>();
  conditions.forEach((condition, position) => {
    const best = mostSelective(equalities(condition), selectivity);
    if (best === undefined) always.push(position);
    else keepKeyed(keyed, best, position);
  });
  const unkeyed = [always];
  if (keyed.size === 0) return { candidates: () => unkeyed };
  const tables = [...keyed.values()];
  return {
    candidates(facts) {
      let lists: Positions[] | undefined;
      for (const { field, byValue, all } of tables) {
        const value = field.get(facts);
        // A list in an open field can equal several values; anything but text and list equals no text.
        const positions = typeof value === 'string' ? byValue.get(value) : Array.isArray(value) ? all : undefined;
        if (positions === undefined) continue;
        lists ??= [always];
        lists.push(positions);
      }
      return lists ?? unkeyed;
    },
  };
}

function keepKeyed(keyed: Map<string, KeyedRules>, { field, values }: Equality, position: number): void {
  const table = keyed.get(field.name) ?? { field, byValue: new Map<string, number[]>(), all: [] };
  keyed.set(field.name, table);
  table.all.push(position);
  // Under a text in lower case too, for providers that ignore case: whoever is found by it is still asked.
  for (const value of new Set(field.folds === undefined ? values : values.flatMap((text) => [text, text.toLowerCase()]))) {
    const positions = table.byValue.get(value);
    if (positions === undefined) table.byValue.set(value, [position]);
    else positions.push(position);
  }
}

function distinctValues(conditions: readonly Condition[]): Map<string, Set<string>> {
  const seen = new Map<string, Set<string>>();
  for (const condition of conditions) {
    for (const { field, values } of equalities(condition)) {
      const known = seen.get(field.name) ?? new Set<string>();
      for (const value of values) known.add(value);
      seen.set(field.name, known);
    }
  }
  return seen;
}

function mostSelective(candidates: readonly Equality[], selectivity: ReadonlyMap<string, ReadonlySet<string>>): Equality | undefined {
  let best: Equality | undefined;
  let most = WORTHWHILE / 2;
  for (const candidate of candidates) {
    const distinct = selectivity.get(candidate.field.name)?.size ?? 0;
    if (distinct <= most) continue;
    most = distinct;
    best = candidate;
  }
  return best;
}

interface Equality {
  readonly field: Field;
  readonly values: readonly string[];
}

/** The positive equalities with texts that must hold for the condition to hold. */
function equalities(condition: Condition): readonly Equality[] {
  if (condition.kind === 'all') return condition.parts.flatMap(equalities);
  if (condition.kind !== 'value' || condition.negated || !INDEXED_TYPES.has(condition.field.type)) return [];
  const { equalTo } = condition.compiled;
  if (equalTo === undefined || equalTo.length === 0 || !equalTo.every((value) => typeof value === 'string')) return [];
  return [{ field: condition.field, values: equalTo }];
}

const INDEXED_TYPES: ReadonlySet<string> = new Set(['text', 'host', 'method', 'enum', 'connector', 'open']);
