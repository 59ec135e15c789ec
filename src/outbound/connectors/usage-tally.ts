import type { Usage } from '../../base/model/usage.ts';
import { isUsualTerm, termOf } from '../../decide/pricing/rates-in-force.ts';
import { eachValueAt } from './answer-paths.ts';
import type { Found, Place, UsageReader } from './usage-reader.ts';

/** A whole number that is no less than nothing and that no arithmetic of ours rounds; undefined for everything else that providers may call a count. */
export function countOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

const MAX_TERM = 64;
const MAX_ENTRIES = 1_000;

/**
 * Gathers what an answer says of its usage, in one piece or by the events of a stream. Of counts that one event has at several places for the same the largest holds. Counts of a
 * stream are cumulative, so later ones hold, but for zeros, with which some providers end it.
 */
export class UsageTally {
  readonly #reader: UsageReader;
  readonly #usages: (Counted | undefined)[] = [];
  readonly #around = new Counted();
  readonly #texts: (string | undefined)[] = [];
  readonly #entries: (readonly unknown[] | undefined)[] = [];
  /** Sums of values that come one by one. */
  #picked: number[] | undefined;
  #usage: Usage | undefined;
  #isCurrent = true;
  #event = 0;

  constructor(reader: UsageReader) {
    this.#reader = reader;
  }

  /** Everything that was said so far; undefined: nothing that is charged. */
  get usage(): Usage | undefined {
    if (!this.#isCurrent) {
      this.#usage = this.#reader.usageOf(this.found);
      this.#isCurrent = true;
    }
    return this.#usage;
  }

  get found(): Found {
    const usages = this.#usages.map((counted) => counted?.numbers);
    return { usages, numbers: this.#around.numbers, texts: this.#texts, entries: this.#entries };
  }

  /** What is added from now on stands in another event. */
  nextEvent(): void {
    this.#event++;
    this.#picked = undefined;
  }

  /**
   * A usage object.
   * @param root by which of the roots it was found
   */
  addUsage(usage: unknown, root = 0): void {
    if (typeof usage !== 'object' || usage === null || Array.isArray(usage)) return;
    for (let at = 0; at < this.#reader.inUsage; at++) this.#addAll(at, usage, root);
  }

  /** The answer around it. */
  addAnswer(answer: unknown): void {
    if (typeof answer !== 'object' || answer === null) return;
    const { places, inUsage } = this.#reader;
    for (let at = inUsage; at < places.length; at++) this.#addAll(at, answer);
  }

  /** One value of those at a place. */
  addPicked(at: number, value: unknown): void {
    const place = this.#reader.places[at];
    if (place === undefined || (place.path.only !== undefined && value !== place.path.only)) return;
    if (place.takes === 'entries' || place.takes === 'text') return this.#addOther(at, place.takes, value);
    const number = numberOf(place, value);
    if (number === undefined) return;
    this.#picked ??= [];
    this.#picked[at] = (this.#picked[at] ?? 0) + number;
    this.#addNumber(at, this.#picked[at], 0);
  }

  #addAll(at: number, from: unknown, root = 0): void {
    const place = this.#reader.places[at];
    if (place === undefined) return;
    const { path, takes } = place;
    if (takes === 'entries' || takes === 'text') {
      eachValueAt(from, path, (value) => this.#addOther(at, takes, value));
      return;
    }
    let sum: number | undefined;
    eachValueAt(from, path, (value) => {
      const number = numberOf(place, value);
      if (number !== undefined) sum = Math.min((sum ?? 0) + number, Number.MAX_SAFE_INTEGER);
    });
    this.#addNumber(at, sum, root);
  }

  #addNumber(at: number, number: number | undefined, root: number): void {
    if (number === undefined) return;
    let counted = this.#around;
    if (at < this.#reader.inUsage) {
      counted = this.#usages[root] ?? new Counted();
      this.#usages[root] = counted;
    }
    if (counted.add(at, number, this.#event)) this.#isCurrent = false;
  }

  #addOther(at: number, takes: 'text' | 'entries', value: unknown): void {
    if (takes === 'text') {
      if (typeof value !== 'string' || value === '' || value.length > MAX_TERM || !value.isWellFormed()) return;
      const term = termOf(value);
      this.#texts[at] = isUsualTerm(term) ? undefined : term;
    } else {
      const list: readonly unknown[] = Array.isArray(value) ? value.slice(0, MAX_ENTRIES) : [value];
      if (list.length === 0) return;
      this.#entries[at] = list;
    }
    this.#isCurrent = false;
  }
}

/** Numbers by place. Those of a later event hold, but for zeros; of one event the largest. */
class Counted {
  readonly numbers: (number | undefined)[] = [];
  readonly #saidIn: number[] = [];

  /** Whether that changed anything. */
  add(at: number, number: number, event: number): boolean {
    const before = this.numbers[at];
    const isLess = this.#saidIn[at] === event ? number <= (before ?? -1) : number === 0 && before !== undefined;
    if (isLess || number === before) return false;
    this.numbers[at] = number;
    this.#saidIn[at] = event;
    return true;
  }
}

/** Units may be fractions, and what is listed counts as many as there are. */
function numberOf({ takes, path }: Place, value: unknown): number | undefined {
  if (takes === 'tokens') return countOf(value);
  if (takes === 'presence' || path.only !== undefined) return 1;
  if (Array.isArray(value)) return value.length;
  const number = typeof value === 'string' && DECIMAL.test(value) ? Number(value) : value;
  return typeof number === 'number' && Number.isFinite(number) && number >= 0 ? number : undefined;
}

/** Some providers write seconds as a text. */
const DECIMAL = /^\d{1,9}(?:\.\d{1,9})?$/;
