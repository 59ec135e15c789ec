import type { Usage } from '../../base/model/usage.ts';
import { isUsualTerm, termOf } from '../../decide/pricing/rates-in-force.ts';
import { type ValueSink, walkTree } from './answer-paths.ts';
import { type AnswerPlace, countOf, type FoundValues, type PlaceTable } from './usage-places.ts';

const MAX_TERM = 64;
const MAX_ENTRIES = 1_000;
/** More than a rule has. */
const MOST_PLACES = 128;
const NO_SUMS: number[] = [];

/**
 * Gathers what an answer says of its usage, in one piece or by the events of a stream. Of counts that one event has at several places for the same the largest holds. Counts of a
 * stream are cumulative, so later ones hold, but for zeros, with which some providers end it.
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
    if (takes === 'tokens' && !isSeveral) {
      if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) this.#addNumber(at, value);
    } else if (takes === 'text') this.#addText(at, value);
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
