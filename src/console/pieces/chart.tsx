import type { JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { WORDS } from '../words.ts';
import type { ChartFacts } from './chart-facts.ts';
import { type Column, TableHead } from './table-head.tsx';

/** A card with a stacked chart and its table: what it shows can be read, too. */
export function Chart(facts: ChartFacts): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const key = JSON.stringify([facts.times, facts.series]);
  // The key stands for the facts.
  useEffect(() => {
    const { current } = place;
    if (current === null) return;
    let drawn: { readonly close: () => void } | undefined;
    let isGone = false;
    void import('./draw-chart.ts').then(({ drawChart }) => {
      if (!isGone) drawn = drawChart(current, facts);
    });
    return () => {
      isGone = true;
      drawn?.close();
    };
  }, [key]);
  return (
    <section class="card">
      <header>
        <h2>{facts.label}</h2>
        <span class="more">
          <Legend series={facts.series} />
        </span>
      </header>
      <div class="chart pad" ref={place} role="img" aria-label={facts.label} />
      <ChartTable {...facts} />
    </section>
  );
}

function Legend({ series }: Pick<ChartFacts, 'series'>): JSX.Element {
  return (
    <span class="legend">
      {series.map(({ name, colour }) => (
        <span key={name}>
          <svg aria-hidden="true">
            <rect width="9" height="9" rx="2" style={{ fill: `var(${colour})` }} />
          </svg>
          {name}
        </span>
      ))}
    </span>
  );
}

function ChartTable({ label, times, series, timeText, valueText, timeName }: ChartFacts): JSX.Element {
  return (
    <details class="facts-table">
      <summary>{WORDS.asTable}</summary>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls can be reached by keyboard */}
      <section tabIndex={0} aria-label={label}>
        <table>
          <TableHead caption={label} columns={[timeName, ...series.map(({ name }): Column => [name, 'num'])]} />
          <tbody>
            {times.map((time, at) => (
              <tr key={time}>
                <th scope="row">{timeText(time)}</th>
                {series.map(({ name, values }) => (
                  <td class="num" key={name}>
                    {valueText(values[at] ?? 0)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    </details>
  );
}
