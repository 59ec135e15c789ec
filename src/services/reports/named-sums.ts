import { REPORT_BOUNDS } from '../../base/model/work-bounds.ts';
import { NO_USAGE, plus, type UsageSum } from './usage-sums.ts';

const { reportNames: NAMED } = REPORT_BOUNDS;
/**
 * What those are called that have no row of their own: no workload and no connector can be called so, for the names
 * have a space.
 */
export const OTHER_WORKLOADS = 'other workloads';
export const OTHER_CONNECTORS = 'other connectors';

/**
 * Sums by name for one answer, whose size has an end whatever the names: beyond so many they are added up together.
 * Totals stay exact.
 */
export class NamedSums {
  readonly #sums = new Map<string, UsageSum>();
  readonly #rest: string;
  readonly #max: number;

  /**
   * @param rest what those are called together that have no row of their own
   * @param max names that are added up one by one
   */
  constructor(rest: string, max: number = NAMED.all) {
    this.#rest = rest;
    this.#max = max;
  }

  add(name: string, usage: UsageSum): void {
    const before = this.#sums.get(name);
    if (before !== undefined) this.#sums.set(name, plus(before, usage));
    else if (this.#sums.size < this.#max) this.#sums.set(name, usage);
    else this.#sums.set(this.#rest, plus(this.#sums.get(this.#rest) ?? NO_USAGE, usage));
  }

  /**
   * The rows that an answer shows, by name: those that cost most, then those with most requests, and all others as one.
   * @param limit names, beside that of the others
   */
  shown(limit: number = NAMED.one): ReadonlyMap<string, UsageSum> {
    const rows = [...this.#sums].filter(([name]) => name !== this.#rest).sort(byWeight);
    const shown = rows.slice(0, limit).sort(byName);
    let rest = this.#sums.get(this.#rest);
    for (const [, usage] of rows.slice(limit)) rest = plus(rest ?? NO_USAGE, usage);
    return new Map(rest === undefined ? shown : [...shown, [this.#rest, rest] as const].sort(byName));
  }
}

type Row = readonly [name: string, usage: UsageSum];

function byWeight([a, of]: Row, [b, other]: Row): number {
  if (of.costPico !== other.costPico) return of.costPico > other.costPico ? -1 : 1;
  if (of.requests !== other.requests) return of.requests > other.requests ? -1 : 1;
  return byName([a], [b]);
}

function byName([a]: readonly [string, ...unknown[]], [b]: readonly [string, ...unknown[]]): number {
  return a < b ? -1 : 1;
}
