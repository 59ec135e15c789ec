import type { Usage } from '../../base/model/usage.ts';
import type { PathTree, ValuePath } from './answer-paths.ts';

/** What is taken at a path: a count of tokens, a number of units, whether anything is there, a text, or entries about single models. */
export type Taken = 'tokens' | 'units' | 'presence' | 'text' | 'entries';

/** One place of an answer that matters. */
export interface AnswerPlace {
  readonly path: ValuePath;
  readonly takes: Taken;
  /** It may stand for several values, which are added. */
  readonly isSeveral: boolean;
}

/** By place; holes where nothing was found. */
export type Numbers = readonly (number | undefined)[];

/** What was found at each place. */
export interface FoundValues {
  /** In each of the usage objects, by their root. */
  readonly usages: readonly (Numbers | undefined)[];
  /** Around them. */
  readonly numbers: Numbers;
  readonly texts: readonly (string | undefined)[];
  readonly entries: readonly (readonly unknown[] | undefined)[];
  /** Something was found where units are counted. */
  readonly hasUnits: boolean;
}

/** The places of a format, and what their values mean. */
export interface PlaceTable {
  /** First those relative to a usage object, then those relative to the answer. */
  readonly places: readonly AnswerPlace[];
  /** How many of the places are relative to a usage object. */
  readonly inUsage: number;
  readonly usageTree: PathTree;
  readonly answerTree: PathTree;
  usageOf(found: FoundValues): Usage | undefined;
}

/** A whole number that is no less than nothing and that no arithmetic of ours rounds; undefined for everything else that providers may call a count. */
export function countOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}
