import type { Pass, TokenCounts, Usage } from '../../base/model/usage.ts';
import { RATE_KINDS } from '../../base/model/usage.ts';
import { isUsualTerm, termOf } from '../../decide/pricing/cost.ts';
import { type PathTree, type ValuePath, type ValueSink, walkTree } from './answer-paths.ts';

const MAX_TERM = 64;
const MAX_ENTRIES = 1_000;
/** More than a rule has. */
const MOST_PLACES = 128;
const NO_SUMS: number[] = [];

/**
 * Gathers what an answer says of its usage, in one piece or by the events of a stream. Of counts that one event has at
 * several places for the same the largest holds. Counts of a stream are cumulative, so later ones hold, but for zeros,
 * with which some providers end it.
 */
export class UsageTally implements ValueSink {
  readonly #reader: PlaceTable;
  /** By root, then by place. */
  readonly #usages: (number | undefined)[][] = [];
  readonly #around: (number | undefined)[] = [];
  /** The event that said a number last, by root and place. */
  readonly #saidIn: (number | undefined)[] = [];
  readonly #texts: (string | undefined)[] = [];
  readonly #entries: (readonly unknown[] | undefined)[] = [];
  /** Of places that stand for several values: in this usage object, and around it in this event. */
  #sums: number[] = NO_SUMS;
  #sumsAround: number[] = NO_SUMS;
  #root = 0;
  #hasUnits = false;
  #usage: Usage | undefined;
  /** Counts what was found, so that a reader knows whether anything came since it last asked. */
  changes = 0;
  #readAt = 0;
  #event = 0;

  constructor(reader: PlaceTable) {
    this.#reader = reader;
  }

  /** Everything that was said so far; undefined: nothing that is charged. */
  get usage(): Usage | undefined {
    if (this.#readAt !== this.changes) {
      this.#usage = this.#reader.usageOf(this.found);
      this.#readAt = this.changes;
    }
    return this.#usage;
  }

  get found(): FoundValues {
    return { usages: this.#usages, numbers: this.#around, texts: this.#texts, entries: this.#entries, hasUnits: this.#hasUnits };
  }

  /** What is added from now on stands in another event. */
  nextEvent(): void {
    this.#event++;
    this.#sumsAround = NO_SUMS;
  }

  /**
   * A usage object.
   * @param root by which of the roots it was found
   */
  addUsage(usage: unknown, root = 0): void {
    if (typeof usage !== 'object' || usage === null || Array.isArray(usage)) return;
    this.#sums = NO_SUMS;
    this.#root = root;
    walkTree(usage, this.#reader.usageTree, this);
    this.#root = 0;
  }

  /** The answer around it. */
  addAnswer(answer: unknown): void {
    if (typeof answer !== 'object' || answer === null) return;
    this.#sumsAround = NO_SUMS;
    walkTree(answer, this.#reader.answerTree, this);
  }

  /** One value of those at a place. */
  addPicked(at: number, value: unknown): void {
    const place = this.#reader.places[at];
    // Some providers write null for what is not there.
    if (place === undefined || value === null) return;
    const { path, takes, isSeveral } = place;
    if (path.only !== undefined && value !== path.only) return;
    if (takes !== 'tokens' || isSeveral) this.#addOther(place, at, value);
    else if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) this.#addNumber(at, value);
  }

  #addOther(place: AnswerPlace, at: number, value: unknown): void {
    const { takes, isSeveral } = place;
    if (takes === 'text') this.#addText(at, value);
    else if (takes === 'entries') this.#addEntries(at, value, isSeveral);
    else {
      if (takes === 'units') this.#hasUnits = true;
      const number = numberOf(place, value);
      if (number !== undefined) this.#addNumber(at, isSeveral ? this.#summed(at, number) : number);
    }
  }

  #summed(at: number, number: number): number {
    const isInUsage = at < this.#reader.inUsage;
    let sums = isInUsage ? this.#sums : this.#sumsAround;
    if (sums === NO_SUMS) {
      sums = [];
      if (isInUsage) this.#sums = sums;
      else this.#sumsAround = sums;
    }
    const sum = Math.min((sums[at] ?? 0) + number, Number.MAX_SAFE_INTEGER);
    sums[at] = sum;
    return sum;
  }

  #addNumber(at: number, number: number): void {
    let numbers = this.#around;
    if (at < this.#reader.inUsage) {
      numbers = this.#usages[this.#root] ?? [];
      this.#usages[this.#root] = numbers;
    }
    const before = numbers[at];
    const key = at + this.#root * MOST_PLACES;
    if (before !== undefined) {
      const isLess = (this.#saidIn[key] ?? 0) === this.#event ? number <= before : number === 0;
      if (isLess || number === before) return;
    }
    numbers[at] = number;
    // In an answer that is no stream everything is said at once.
    if (this.#event > 0) this.#saidIn[key] = this.#event;
    this.changes++;
  }

  #addText(at: number, value: unknown): void {
    if (typeof value !== 'string' || value === '' || value.length > MAX_TERM || !value.isWellFormed()) return;
    const term = termOf(value);
    this.#texts[at] = isUsualTerm(term) ? undefined : term;
    this.changes++;
  }

  /** A place that stands for several values has the entries of all of them that one event says. */
  #addEntries(at: number, value: unknown, isSeveral: boolean): void {
    const list: readonly unknown[] = Array.isArray(value) ? value.slice(0, MAX_ENTRIES) : [value];
    if (list.length === 0) return;
    const before = isSeveral && (this.#saidIn[at] ?? 0) === this.#event ? this.#entries[at] : undefined;
    this.#entries[at] = before === undefined ? list : [...before, ...list].slice(0, MAX_ENTRIES);
    this.#saidIn[at] = this.#event;
    this.changes++;
  }
}

/** Units may be fractions, and what is listed counts as many as there are. */
function numberOf({ takes, path }: AnswerPlace, value: unknown): number | undefined {
  if (takes === 'tokens') return countOf(value);
  if (takes === 'presence' || path.only !== undefined) return 1;
  if (Array.isArray(value)) return value.length;
  const number = typeof value === 'string' && DECIMAL.test(value) ? Number(value) : value;
  return typeof number === 'number' && Number.isFinite(number) && number >= 0 ? number : undefined;
}

/** Some providers write seconds as a text. */
const DECIMAL = /^\d{1,9}(?:\.\d{1,9})?$/;

/**
 * What is taken at a path: a count of tokens, a number of units, whether anything is there, a text, or entries about
 * single models.
 */
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

/**
 * A whole number that is no less than nothing and that no arithmetic of ours rounds; undefined for everything else that
 * providers may call a count.
 */
export function countOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

/** What stands beside the counts of one usage object, and shows what they mean. */
export interface CountForm {
  /** The format has no output that is counted. */
  readonly fixedOut: boolean;
  readonly hasIn: boolean;
  readonly hasOut: boolean;
  readonly total: number | undefined;
  readonly inBeside: number;
  readonly inUntold: boolean;
  readonly outBeside: number;
  readonly reasoningBeside: boolean;
  readonly reasoningUntold: boolean;
  readonly restIn: boolean;
}

/**
 * The tokens that counts mean (decision 6.3). Vendors of one format count alike under the same names but for a few
 * things, which show in the counts themselves, so that no host has to be known: reasoning may be missing in the count
 * of output, cached input or sound in that of the input, and a total may hold what neither does. Where the counts leave
 * it open the dearer meaning holds.
 * @param counts as they stand in the answer; changed
 */
export function meant(counts: TokenCounts, form: CountForm): TokenCounts {
  const { fixedOut, total, inBeside, outBeside } = form;
  const stated = counts.tokens_out;
  // A total alone may all be output, which costs more; beside a count of one side it tells the other.
  if (total !== undefined && (fixedOut || (!form.hasIn && form.hasOut))) counts.tokens_in = Math.max(counts.tokens_in, total - stated);
  if (inBeside > 0 && (total === undefined ? form.inUntold : total >= counts.tokens_in + stated + inBeside)) counts.tokens_in += inBeside;
  if (fixedOut) return counts;
  const output = bounded(stated + outBeside);
  counts.tokens_out = hasReasoningBeside(counts, output, form) ? bounded(output + (counts.reasoning_tokens_out ?? 0)) : output;
  if (total !== undefined) addRest(counts, total, form.restIn);
  return counts;
}

/** Reasoning cannot be a part of what is smaller. */
function hasReasoningBeside({ reasoning_tokens_out: reasoning = 0 }: TokenCounts, output: number, form: CountForm): boolean {
  return reasoning > output || form.reasoningBeside || (form.reasoningUntold && form.total === undefined);
}

/** What a total holds beyond both counts is reasoning, or what the model heard. */
function addRest(counts: TokenCounts, total: number, restIn: boolean): void {
  const rest = total - counts.tokens_in - counts.tokens_out;
  if (rest <= 0) return;
  if (restIn) {
    counts.tokens_in += rest;
    return;
  }
  if ((counts.reasoning_tokens_out ?? 0) === 0) counts.reasoning_tokens_out = rest;
  counts.tokens_out += rest;
}

function bounded(count: number): number {
  return Math.min(count, Number.MAX_SAFE_INTEGER);
}

const COUNTS: readonly (keyof TokenCounts)[] = ['tokens_in', 'tokens_out', ...RATE_KINDS.map(({ tokens }) => tokens)];

/** The larger of each count. */
export function mostOf(a: TokenCounts, b: TokenCounts): TokenCounts {
  const most: TokenCounts = { tokens_in: 0, tokens_out: 0 };
  for (const name of COUNTS) {
    const count = Math.max(a[name] ?? -1, b[name] ?? -1);
    if (count >= 0) most[name] = count;
  }
  return most;
}

/**
 * The usage of a call whose answer lists what single models used (decision 6.3). What the counts of the call hold
 * beyond the entries that are a part of them is a pass of the call's own model; everything else is in addition.
 * @param own the counts of the call
 */
export function allOf(own: TokenCounts | undefined, listed: readonly { readonly pass: Pass; readonly inside: boolean }[]): Usage {
  const rest: Pass = { model: undefined, tokens_in: 0, tokens_out: 0 };
  for (const name of COUNTS) {
    const total = own?.[name];
    if (total === undefined) continue;
    const held = listed.reduce((sum, { pass, inside }) => sum + (inside ? (pass[name] ?? 0) : 0), 0);
    if (total > held) rest[name] = total - held;
  }
  const passes = listed.map(({ pass }) => pass);
  if (rest.tokens_in + rest.tokens_out > 0) passes.unshift(rest);
  const usage: Usage = { tokens_in: 0, tokens_out: 0 };
  for (const name of COUNTS) {
    for (const pass of passes) {
      const count = pass[name];
      if (count !== undefined) usage[name] = Math.min((usage[name] ?? 0) + count, Number.MAX_SAFE_INTEGER);
    }
  }
  // One pass of the call's own model says nothing that the counts do not.
  if (passes.length > 1 || passes[0]?.model !== undefined || passes[0]?.tool !== undefined) usage.passes = passes;
  return usage;
}
