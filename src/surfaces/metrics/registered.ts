import { Counter, Gauge, type Registry } from 'prom-client';
import { Buckets, registerHistogram } from './histogram.ts';
import type { MetricRow } from './metric-table.ts';

export interface Count {
  inc(value?: number): void;
}
export interface Observe {
  observe(value: number): void;
}

/** Children of a labelled metric, made once per combination of label values: the path of a request never builds a label object. */
function bound<T>(make: (labels: readonly string[]) => T): (...labels: string[]) => T {
  const children = new Map<string, T>();
  return (...labels) => {
    const key = labels.length === 1 ? (labels[0] ?? '') : labels.join('\u0000');
    let child = children.get(key);
    if (child === undefined) {
      child = make(labels);
      children.set(key, child);
    }
    return child;
  };
}

/** A plain number per child, which prom-client gets when somebody reads: it would check and hash the labels of every addition. */
class Tally implements Count {
  value = 0;

  inc(value = 1): void {
    this.value += value;
  }
}

export function counter(registry: Registry, row: MetricRow): (...labels: string[]) => Count {
  const tallies: [labels: Record<string, string>, tally: Tally][] = [];
  registerCounter(registry, row, () => tallies.map(([labels, { value }]) => [labels, value]));
  return bound((values) => {
    const tally = new Tally();
    tallies.push([named(row.labels, values), tally]);
    return tally;
  });
}

/** @param read its children and their values, asked for when somebody reads the metric */
function registerCounter(
  registry: Registry,
  { name, help, labels: labelNames }: MetricRow,
  read: () => readonly (readonly [labels: Record<string, string>, value: number])[],
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
  const children: [labels: Record<string, string>, buckets: Buckets][] = [];
  registerHistogram(registry, row, children);
  return bound((values) => {
    const buckets = new Buckets(row.buckets ?? []);
    children.push([named(row.labels, values), buckets]);
    return buckets;
  });
}

function named(names: readonly string[], values: readonly string[]): Record<string, string> {
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
export function level(registry: Registry, { name, help, labels: labelNames }: MetricRow): (...labels: string[]) => Level {
  const levels: [labels: Record<string, string>, level: Level][] = [];
  const metric = new Gauge({
    name,
    help,
    labelNames: [...labelNames],
    registers: [],
    collect() {
      this.reset();
      for (const [labels, { value }] of levels) this.set(labels, value);
    },
  });
  registry.registerMetric(metric);
  return bound((values) => {
    const made = new Level();
    levels.push([named(labelNames, values), made]);
    return made;
  });
}

/** Asked for its value when somebody reads it. */
export function gauge(registry: Registry, { name, help }: MetricRow, read: () => number): void {
  const metric = new Gauge({
    name,
    help,
    registers: [],
    collect() {
      this.set(read());
    },
  });
  registry.registerMetric(metric);
}

/** Counted elsewhere, and asked for when somebody reads it. `read`: by the value of its one label. */
export function total(registry: Registry, row: MetricRow, read: () => Readonly<Record<string, number>>): void {
  registerCounter(registry, row, () => Object.entries(read()).map(([value, count]) => [named(row.labels, [value]), count]));
}
