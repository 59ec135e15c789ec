import { LazyRegex, type LinearRegex, RegexSyntaxError } from '../../base/lib/regex.ts';
import type { Sliced } from '../../base/lib/slices.ts';
import type { YamlNode } from '../../base/lib/yaml.ts';
import { POLICY_BOUNDS } from '../../base/model/work-bounds.ts';
import type { Problems, SourcePlace } from './problems.ts';

const SYNTAX_HINT = 'patterns are RE2 syntax: no look-around and no back-references';
/** Of those that are too large together, how many are named. */
const MAX_NAMED = 3;
const MAX_SHOWN = 60;
const FOLDED = '(?i)';
/** What compiling a pattern takes beside its instructions: it is looked at how many states it has. */
const STEPS_OF_PATTERN = 300;

interface Use {
  readonly regex: LazyRegex;
  readonly places: { readonly place: SourcePlace; readonly node: YamlNode }[];
}

/**
 * All patterns of a policy: those of the bundle, and what is laid over it has beside them. They are compiled when all
 * are read, and only when neither are too large together (decision 7.12): an org is bounded by what it lays down alone,
 * however much the bundle has.
 */
export class PatternSum {
  readonly #uses = new Map<string, Use>();
  #steps = 0;
  /** Of the bundle: instructions of its patterns, and how many these are. */
  #bundle: { readonly steps: number; readonly patterns: number } | undefined;

  /** Instructions of all different patterns. */
  get steps(): number {
    return this.#steps;
  }

  /** What is taken from now on is laid over the bundle. */
  endBundle(): void {
    this.#bundle = { steps: this.#steps, patterns: this.#uses.size };
  }

  /** The pattern, which is not compiled yet; undefined with a problem when it is too large alone. */
  take(pattern: string, node: YamlNode, place: SourcePlace, problems: Problems): LinearRegex | undefined {
    const known = this.#uses.get(pattern);
    if (known !== undefined) {
      known.places.push({ place, node });
      return known.regex;
    }
    try {
      const regex = new LazyRegex(pattern);
      this.#uses.set(pattern, { regex, places: [{ place, node }] });
      this.#steps += regex.steps;
      return regex;
    } catch (error) {
      addMistake(error, problems, place, node);
      return undefined;
    }
  }

  /** Compiles them, and tells what is no pattern; nothing of it when their sum is too high, which is told then. */
  *compile(problems: Problems): Sliced<void> {
    const { steps, patterns } = this.#bundle ?? { steps: this.#steps, patterns: this.#uses.size };
    const uses = [...this.#uses.values()];
    const isBundleTooLarge = steps > POLICY_BOUNDS.bundlePatterns.one;
    const isRestTooLarge = this.#steps - steps > POLICY_BOUNDS.patterns.org;
    if (isBundleTooLarge) tooLarge(uses.slice(0, patterns), POLICY_BOUNDS.bundlePatterns.one, BUNDLE, problems);
    if (isRestTooLarge) tooLarge(uses.slice(patterns), POLICY_BOUNDS.patterns.org, LAID, problems);
    if (isBundleTooLarge || isRestTooLarge) return;
    const failed = new Set<string>();
    for (const [pattern, { regex, places }] of this.#uses) {
      try {
        regex.compile();
      } catch (error) {
        failed.add(pattern);
        // The same pattern once more, for providers that ignore case.
        if (pattern.startsWith(FOLDED) && failed.has(pattern.slice(FOLDED.length))) continue;
        for (const { place, node } of places) addMistake(error, problems, place, node);
      }
      yield regex.steps + STEPS_OF_PATTERN;
    }
  }
}

const BUNDLE = 'of this bundle';
const LAID = 'that overlays and add-ons have beside those of the bundle';

function tooLarge(all: readonly Use[], most: number, whose: string, problems: Problems): void {
  const uses = [...all].sort((a, b) => b.regex.steps - a.regex.steps);
  const [largest] = uses;
  const first = largest?.places[0];
  if (first === undefined) return;
  const named = uses.slice(0, MAX_NAMED).map(({ regex, places: [at] }) => {
    const { pattern, steps } = regex;
    const shown = pattern.length > MAX_SHOWN ? `${pattern.slice(0, MAX_SHOWN)}…` : pattern;
    return `"${shown}" has ${steps} (${at?.place.file}:${at?.node.line})`;
  });
  const steps = uses.reduce((sum, { regex }) => sum + regex.steps, 0);
  const sum = `the ${uses.length} patterns ${whose} have ${steps} steps together, more than ${most}`;
  problems.add(first.place, first.node, 'patterns_too_large', `${sum}; the largest: ${named.join(', ')}`);
}

function addMistake(error: unknown, problems: Problems, place: SourcePlace, node: YamlNode): void {
  if (!(error instanceof RegexSyntaxError)) throw error;
  problems.add(place, node, 'bad_value', error.message, SYNTAX_HINT);
}
