import { type ListRegex, listRegex, literalPrefix } from './list-regex.ts';
import type { ListModel, MatchRule } from './list-shape.ts';

/** Whether a rule fits a name, which is in lower case. */
export type NameTest = (name: string) => boolean;

interface TestedModel {
  readonly index: number;
  readonly test: NameTest;
  /** Words of which every name that fits holds one; undefined: nobody can say. */
  readonly words: readonly string[] | undefined;
}

/**
 * Finds the first of several models, in their order, that a name fits. Names that a rule spells out are looked up; of
 * the others only what stands before those is tried, and nothing of it where a name holds none of their words, as those
 * hold that somebody made up.
 */
export class ModelMatcher {
  readonly #byName = new Map<string, number>();
  /** Models with rules that spell no name out. */
  readonly #tested: TestedModel[] = [];
  #anyWord: RegExp | undefined;

  constructor(models: readonly ListModel[]) {
    models.forEach(({ match }, index) => {
      const others: MatchRule[] = [];
      for (const rule of 'or' in match ? match.or : [match]) {
        if ('equals' in rule) this.#addName(rule.equals.toLowerCase(), index);
        else others.push(rule);
      }
      const rule = { or: others };
      if (others.length > 0) this.#tested.push({ index, test: testOf(rule), words: wordsOf(rule) });
    });
  }

  /** @returns the model's index, or undefined */
  find(name: string): number | undefined {
    const named = this.#byName.get(name);
    if (this.#tested.length === 0) return named;
    this.#anyWord ??= anyOfWords(this.#tested.flatMap(({ words }) => words ?? []));
    const hasWord = this.#anyWord.test(name);
    for (const { index, test, words } of this.#tested) {
      if (named !== undefined && index > named) break;
      if ((hasWord || words === undefined) && test(name)) return index;
    }
    return named;
  }

  #addName(name: string, index: number): void {
    if (!this.#byName.has(name)) this.#byName.set(name, index);
  }
}

/** One pass over a name for all words. Alternatives without repetitions take time linear in it. */
function anyOfWords(words: readonly string[]): RegExp {
  if (words.length === 0) return /(?!)/;
  return new RegExp(
    [...new Set(words)].map((word) => word.replace(/[^a-z0-9]/gu, (char) => `\\u{${char.codePointAt(0)?.toString(16)}}`)).join('|'),
    'u',
  );
}

function wordsOf(rule: MatchRule): readonly string[] | undefined {
  if ('or' in rule) {
    const each = rule.or.map(wordsOf);
    return each.every((words) => words !== undefined) ? each.flat() : undefined;
  }
  if ('and' in rule) return rule.and.map(wordsOf).find((words) => words !== undefined);
  if ('regex' in rule) {
    const prefix = literalPrefix(rule.regex);
    return prefix === '' ? undefined : [prefix];
  }
  return Object.values(rule).map((word: string) => word.toLowerCase());
}

/**
 * @throws RegexSyntaxError when it is first called, for a regular expression that cannot be compiled; lists are checked
 * when they are read
 */
export function testOf(rule: MatchRule): NameTest {
  if ('or' in rule) return anyOf(rule.or.map(testOf));
  if ('and' in rule) return allOf(rule.and.map(testOf));
  if ('regex' in rule) return regexTest(listRegex(rule.regex));
  if ('equals' in rule) return wordTest(rule.equals, (name, word) => name === word);
  if ('starts_with' in rule) return wordTest(rule.starts_with, (name, word) => name.startsWith(word));
  if ('ends_with' in rule) return wordTest(rule.ends_with, (name, word) => name.endsWith(word));
  return wordTest(rule.contains, (name, word) => name.includes(word));
}

function wordTest(text: string, fits: (name: string, word: string) => boolean): NameTest {
  const word = text.toLowerCase();
  return (name) => fits(name, word);
}

function regexTest(regex: ListRegex): NameTest {
  return (name) => regex.test(name);
}

function anyOf(tests: readonly NameTest[]): NameTest {
  const [only] = tests;
  return tests.length === 1 && only !== undefined ? only : (name) => tests.some((test) => test(name));
}

function allOf(tests: readonly NameTest[]): NameTest {
  return (name) => tests.every((test) => test(name));
}

/** How a rule reads, for people who ask why a name has its price. */
export function ruleText(rule: MatchRule): string {
  if ('or' in rule) return rule.or.map(ruleText).join(' or ');
  if ('and' in rule) return rule.and.map(ruleText).join(' and ');
  return Object.entries(rule)
    .map(([kind, text]) => `${kind} ${JSON.stringify(text)}`)
    .join('');
}

/** The part of a rule that a name fits: of alternatives the first one. */
export function fittingRule(rule: MatchRule, name: string): MatchRule {
  const found = 'or' in rule ? rule.or.find((one) => testOf(one)(name)) : undefined;
  return found === undefined ? rule : fittingRule(found, name);
}
