/* Price lists, and what they change, for people. */
import type { PriceListStatus } from '../../operations/price-list-operations.ts';
import type { ShownChange } from '../../operations/shown-prices.ts';
import { textTable } from '../management/text-table.ts';
import { terminalText } from '../terminal-text.ts';

type ListInForce = PriceListStatus['in_force'];

const TIME = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?Z$/;

/** A time without what nobody reads. */
export function shortTime(time: string): string {
  return time.replace(TIME, '$1 $2Z');
}

export function plural(count: number, one: string, several = `${one}s`): string {
  return `${count.toLocaleString('en-US')} ${count === 1 ? one : several}`;
}

/** Which list it is, in one line. */
export function listLine({ date, version, models, providers }: Omit<ListInForce, 'age_days' | 'name' | 'from'>): string {
  const of = [date, version === undefined ? undefined : `version ${version}`].filter((part) => part !== undefined).join(', ');
  return `${of === '' ? 'of no day' : of}: ${plural(models, 'model')} of ${plural(providers, 'provider')}`;
}

/** Changes beside each other; `held` says of each whether it waits, where only some do. */
export function changesTable(changes: readonly ShownChange[], width: number | undefined): string {
  const cells = (cell: (change: ShownChange) => string): readonly string[] => changes.map(cell);
  const columns = [
    { name: 'provider', cells: cells(({ provider }) => provider) },
    { name: 'model', cells: cells(({ model, name }) => (name === undefined || name === model ? model : `${model} (as ${name})`)) },
    { name: 'rate', cells: cells(rateText) },
    { name: 'from', cells: cells(({ before }) => before ?? '-') },
    { name: 'to', cells: cells(({ after }) => after ?? '-') },
    { name: 'times', cells: cells(({ factor }) => (factor === undefined ? '' : String(factor))) },
    { name: '', cells: cells(({ held }) => (held ? 'held' : '')) },
  ];
  return textTable(
    columns.filter((column) => column.name !== '' || !changes.every(({ held }) => held)),
    width,
  );
}

function rateText({ rate, per, above, when }: ShownChange): string {
  const limits = [
    per === undefined ? undefined : `for ${per.toLocaleString('en-US')}`,
    above === undefined ? undefined : `above ${above.toLocaleString('en-US')}`,
    when,
  ];
  return [rate, ...limits.filter((limit) => limit !== undefined)].join(', ');
}

/** How what waits is let through. */
export function acceptHint(held: readonly ShownChange[], program: string): string {
  const [first] = held;
  return first === undefined ? '' : `${program} prices accept ${terminalText(first.provider)} ${terminalText(first.model)}, or --all`;
}
