import { Counter, Gauge, type Registry } from 'prom-client';
import { shownDollars } from '../../base/lib/money.ts';
import { Buckets, registerHistogram } from './histogram.ts';
import type { MetricRow } from './metric-table.ts';

export interface Count {
  inc(value?: number): void;
}
export interface Observe {
  observe(value: number): void;
}

type Labels = Record<string, string>;

/** The children of a labelled metric. */
interface Children<T> {
  /** Made once per combination of label values: the path of a request never builds a label object. */
  of(...values: string[]): T;
  /** All that were made. */
  readonly all: readonly (readonly [labels: Labels, child: T])[];
}

/** Children by the values of their labels, one after the other: to join these would make a text for each addition. */
class ByValue<T> {
  child: T | undefined;
  readonly next = new Map<string, ByValue<T>>();

  add(value: string): ByValue<T> {
    const added = new ByValue<T>();
    this.next.set(value, added);
    return added;
  }
}

function childrenOf<T>({ labels: names }: MetricRow, make: () => T): Children<T> {
  const root = new ByValue<T>();
  const all: [labels: Labels, child: T][] = [];
  return {
    all,
    of(...values) {
      let found = root;
      for (const value of values) found = found.next.get(value) ?? found.add(value);
      if (found.child === undefined) {
        found.child = make();
        all.push([named(names, values), found.child]);
      }
      return found.child;
    },
  };
}

/**
 * A plain number per child, which prom-client gets when somebody reads: it would check and hash the labels of every
 * addition.
 */
class Tally implements Count {
  value = 0;

  inc(value = 1): void {
    this.value += value;
  }
}

export function counter(registry: Registry, row: MetricRow): (...labels: string[]) => Count {
  const tallies = childrenOf(row, () => new Tally());
  registerCounter(registry, row, () => tallies.all.map(([labels, { value }]) => [labels, value]));
  return tallies.of;
}

/** Dollars, added up exactly: what is shown is the nearest number to that sum. */
class Dollars {
  pico = 0n;

  /** @param pico pico-dollars */
  add(pico: bigint): void {
    this.pico += pico;
  }
}

export function usdCounter(registry: Registry, row: MetricRow): (...labels: string[]) => Dollars {
  const sums = childrenOf(row, () => new Dollars());
  registerCounter(registry, row, () => sums.all.map(([labels, { pico }]) => [labels, shownDollars(pico)]));
  return sums.of;
}

/** @param read its children and their values, asked for when somebody reads the metric */
function registerCounter(
  registry: Registry,
  { name, help, labels: labelNames }: MetricRow,
  read: () => readonly (readonly [labels: Labels, value: number])[],
): void {
  const metric = new Counter({
    name,
    help,
    labelNames: [...labelNames],
    registers: [],
    collect() {
      this.reset();
      for (const [labels, value] of read()) this.inc(labels, value);
    },
  });
  registry.registerMetric(metric);
}

export function histogram(registry: Registry, row: MetricRow): (...labels: string[]) => Observe {
  const children = childrenOf(row, () => new Buckets(row.buckets ?? []));
  registerHistogram(registry, row, children.all);
  return children.of;
}

function named(names: readonly string[], values: readonly string[]): Labels {
  return Object.fromEntries(names.map((name, at) => [name, values[at] ?? '']));
}

/** A level that goes up and down, as plain as {@link Tally}. */
class Level extends Tally {
  dec(): void {
    this.value -= 1;
  }

  set(value: number): void {
    this.value = value;
  }
}

/** Goes up and down with what happens. */
export function level(registry: Registry, row: MetricRow): (...labels: string[]) => Level {
  const { name, help, labels: labelNames } = row;
  const levels = childrenOf(row, () => new Level());
  const metric = new Gauge({
    name,
    help,
    labelNames: [...labelNames],
    registers: [],
    collect() {
      this.reset();
      for (const [labels, { value }] of levels.all) this.set(labels, value);
    },
  });
  registry.registerMetric(metric);
  return levels.of;
}

/** Asked for its value when somebody reads it; undefined: there is none to show. */
export function gauge(registry: Registry, { name, help }: MetricRow, read: () => number | undefined): void {
  const metric = new Gauge({
    name,
    help,
    registers: [],
    collect() {
      const value = read();
      this.reset();
      if (value === undefined) this.remove();
      else this.set(value);
    },
  });
  registry.registerMetric(metric);
}

/** The same of an amount of money. @param read pico-dollars */
export function usdGauge(registry: Registry, row: MetricRow, read: () => bigint | undefined): void {
  gauge(registry, row, () => {
    const pico = read();
    return pico === undefined ? undefined : shownDollars(pico);
  });
}

/** The same for several, by their labels. `read`: the values of these, and behind them the level. */
export function gauges(registry: Registry, row: MetricRow, read: () => readonly (readonly [...values: string[], level: number])[]): void {
  const { name, help, labels: labelNames } = row;
  const metric = new Gauge({
    name,
    help,
    labelNames: [...labelNames],
    registers: [],
    collect() {
      this.reset();
      for (const line of read()) this.set(named(labelNames, line.slice(0, -1).map(String)), Number(line.at(-1)));
    },
  });
  registry.registerMetric(metric);
}

/** Counted elsewhere, and asked for when somebody reads it. `read`: by the value of its one label. */
export function total(registry: Registry, row: MetricRow, read: () => Readonly<Record<string, number>>): void {
  registerCounter(registry, row, () => Object.entries(read()).map(([value, count]) => [named(row.labels, [value]), count]));
}

/** The same with several labels. `read`: their values, and behind them the count. */
export function totals(registry: Registry, row: MetricRow, read: () => readonly (readonly [...values: string[], count: number])[]): void {
  registerCounter(registry, row, () => read().map((line) => [named(row.labels, line.slice(0, -1).map(String)), Number(line.at(-1))]));
}
