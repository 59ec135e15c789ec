/* What a chart shows: drawn by a library that is loaded late, and told again as a table. */

export interface Series {
  readonly name: string;
  /** A custom property with its colour: `--c1`. */
  readonly colour: string;
  readonly values: readonly number[];
}

export interface ChartFacts {
  /** What is shown: the heading, and for who does not see the chart. */
  readonly label: string;
  /** Seconds since the epoch. */
  readonly times: readonly number[];
  /** From the bottom up: they are stacked. */
  readonly series: readonly Series[];
  readonly kind: 'area' | 'bars';
  readonly timeText: (seconds: number) => string;
  readonly valueText: (value: number) => string;
  /** What the column of times is called. */
  readonly timeName: string;
}
