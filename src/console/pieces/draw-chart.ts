/* The only place that knows the library of charts; it is loaded when the first chart is shown. */
import uPlot from 'uplot';
import type { ChartFacts } from './chart-facts.ts';

const PER_NAME_PX = 90;

/** Draws into an element, as wide and high as that is. */
export function drawChart(place: HTMLElement, facts: ChartFacts): { readonly close: () => void } {
  let plot = draw(place, facts);
  const again = (): void => {
    plot.destroy();
    plot = draw(place, facts);
  };
  const sized = new ResizeObserver(() => plot.setSize(sizeOf(place)));
  sized.observe(place);
  // Colours are read when it is drawn.
  const scheme = matchMedia('(prefers-color-scheme: dark)');
  scheme.addEventListener('change', again);
  return {
    close: () => {
      sized.disconnect();
      scheme.removeEventListener('change', again);
      plot.destroy();
    },
  };
}

function draw(place: HTMLElement, { kind, times, series, timeText, valueText }: ChartFacts): uPlot {
  const colourOf = coloursOf(place);
  const bars = uPlot.paths.bars?.({ size: [0.7, 40] });
  // The highest is drawn first, so that each lower one lies upon it.
  const stacked = stack(series.map(({ values }) => values)).reverse();
  const grid = { stroke: colourOf('--line'), width: 1 };
  const axis: uPlot.Axis = { stroke: colourOf('--ink-3'), font: '11px system-ui, sans-serif', ticks: { show: false } };
  return new uPlot(
    {
      ...sizeOf(place),
      legend: { show: false },
      cursor: { show: false },
      padding: [8, 18, 0, 0],
      scales: { x: { time: false }, y: { range: (_plot, _low, high) => [0, Math.max(1e-9, high) * 1.08] } },
      axes: [
        { ...axis, grid: { show: false }, size: 26, values: (_plot, at) => at.map(timeText), splits: splitsOf(times) },
        { ...axis, grid, size: 56, space: 50, values: (_plot, at) => at.map(valueText) },
      ],
      series: [
        {},
        ...series.toReversed().map(({ name, colour }) => ({
          label: name,
          stroke: colourOf(colour),
          // Bars and areas below cover what is not theirs.
          fill: kind === 'bars' ? colourOf(colour) : mixed(colourOf(colour), colourOf('--surface')),
          width: kind === 'bars' ? 0 : 1,
          points: { show: false },
          ...(kind === 'bars' && bars !== undefined ? { paths: bars } : {}),
        })),
      ],
    },
    [[...times], ...stacked] as uPlot.AlignedData,
    place,
  );
}

/** Names stand below what they name: some of the times, as many as there is room for. */
function splitsOf(times: readonly number[]): uPlot.Axis.Splits {
  return ({ width }) => {
    const step = Math.max(1, Math.ceil(times.length / Math.max(1, Math.floor(width / PER_NAME_PX))));
    return times.filter((_, at) => (times.length - 1 - at) % step === 0);
  };
}

function stack(values: readonly (readonly number[])[]): number[][] {
  let below: readonly number[] = [];
  return values.map((row) => {
    const sum = row.map((value, at) => value + (below[at] ?? 0));
    below = sum;
    return sum;
  });
}

function sizeOf(place: HTMLElement): { readonly width: number; readonly height: number } {
  const { paddingLeft, paddingRight, paddingTop, paddingBottom } = getComputedStyle(place);
  return {
    width: place.clientWidth - Number.parseFloat(paddingLeft) - Number.parseFloat(paddingRight),
    height: place.clientHeight - Number.parseFloat(paddingTop) - Number.parseFloat(paddingBottom),
  };
}

/** The value of a custom property for a canvas, which knows no `light-dark()`. */
function coloursOf(place: HTMLElement): (name: string) => string {
  const probe = place.appendChild(document.createElement('i'));
  const colours = new Map<string, string>();
  return (name) => {
    const known = colours.get(name);
    if (known !== undefined) return known;
    probe.style.color = `var(${name})`;
    const colour = getComputedStyle(probe).color;
    colours.set(name, colour);
    probe.hidden = true;
    return colour;
  };
}

/** A fifth of a colour upon a ground. */
function mixed(colour: string, ground: string): string {
  const of = (text: string): number[] => (text.match(/[\d.]+/g) ?? []).map(Number);
  const [over, under] = [of(colour), of(ground)];
  return `rgb(${[0, 1, 2].map((at) => Math.round((over[at] ?? 0) * 0.22 + (under[at] ?? 0) * 0.78)).join(', ')})`;
}
