/*
 * Names by which two price lists are compared (decision 6.16): what both lists and the rows beside them spell out, and
 * what is left of that.
 */
import { literalPrefix } from '../price-list/list-regex.ts';
import type { ListProvider, MatchRule } from '../price-list/list-shape.ts';
import type { PriceLane } from './price-lane.ts';
import { candidatesOf, LONGEST_NAME } from './price-names.ts';
import type { PriceGrounds } from './price-table.ts';
import { ANY_PROVIDER } from './rate-list.ts';

/**
 * Names that are spelt out, in lower case, with what is left of each when its decorations are taken off.
 * @param lists those in which the lane looks, of both sides
 */
export function plainNames(
  lane: PriceLane,
  lists: readonly ListProvider[],
  { corrections, own }: PriceGrounds,
  fallsBack: (list: string) => readonly string[],
): ReadonlySet<string> {
  const listed = lists.flatMap(({ models }) => models.flatMap(({ id, match }) => [id, ...textsOf(match)]));
  const rows = [...corrections, ...own].flatMap(({ row: { provider, model } }) =>
    provider === lane.provider || provider === ANY_PROVIDER ? [model] : [],
  );
  const names = new Set([...listed, ...rows].map((name) => name.toLowerCase().trim()).filter(isName));
  // The lists of makers have lanes of their own.
  if (lane.lists !== undefined)
    for (const name of [...names]) for (const candidate of candidatesOf(lane, name, fallsBack)) names.add(candidate.name);
  return names;
}

function isName(text: string): boolean {
  return text !== '' && text.length <= LONGEST_NAME;
}

/** What a rule says of names; where several parts must fit, also one name of all of them. */
function textsOf(rule: MatchRule): readonly string[] {
  if ('or' in rule) return rule.or.flatMap(textsOf);
  if ('and' in rule) {
    const parts = rule.and.map(textsOf);
    return [...parts.flat(), parts.map(([first = '']) => first).join('')];
  }
  return 'regex' in rule ? [literalPrefix(rule.regex)] : Object.values(rule);
}
