import type { Histogram, Registry } from 'prom-client';
import type { MetricRow } from './metric-table.ts';

/** The observations of one combination of label values. */
export class Buckets {
  readonly bounds: readonly number[];
  /** Observations by the first bound that they do not exceed; the last place is for those beyond all. */
  readonly counts: number[];
  sum = 0;

  /** @param bounds ascending */
  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.counts = new Array<number>(bounds.length + 1).fill(0);
  }

  observe(value: number): void {
    const { bounds, counts } = this;
    let at = 0;
    while (at < bounds.length && value > (bounds[at] ?? 0)) at += 1;
    counts[at] = (counts[at] ?? 0) + 1;
    this.sum += value;
  }
}

interface Sample {
  readonly metricName: string;
  readonly labels: Record<string, string | number>;
  readonly value: number;
}

/** Shows `children` as a histogram of prom-client, whose own checks and hashes the labels of every observation. */
export function registerHistogram(
  registry: Registry,
  { name, help }: MetricRow,
  children: readonly (readonly [labels: Record<string, string>, buckets: Buckets])[],
): void {
  const get = () =>
    Promise.resolve({ name, help, type: 'histogram', aggregator: 'sum', values: children.flatMap((child) => samples(name, ...child)) });
  // Of a metric the registry uses the name and `get`.
  registry.registerMetric({ name, get } as unknown as Histogram);
}

function samples(name: string, labels: Record<string, string>, { bounds, counts, sum }: Buckets): Sample[] {
  let total = 0;
  const cumulative = counts.map((count, at) => {
    total += count;
    return { metricName: `${name}_bucket`, labels: { le: bounds[at] ?? '+Inf', ...labels }, value: total };
  });
  return [...cumulative, { metricName: `${name}_sum`, labels, value: sum }, { metricName: `${name}_count`, labels, value: total }];
}
