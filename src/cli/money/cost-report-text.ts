/* A cost report for people. */
import { isJsonObject } from '../../base/json/json-object.ts';
import { parseUsd } from '../../base/lib/money.ts';
import { shellWord } from '../program-name.ts';
import { terminalText } from '../terminal-text.ts';
import { monthForecastText, type ShownMonthForecast } from './forecast-text.ts';
import { dollars, grouped, type MoneyColumn, moneyTable, roughly, shownUsd } from './money-table.ts';

type Json = Readonly<Record<string, unknown>>;

/** One row of a report, as its operation answers. */
export interface ReportRow {
  readonly period: string;
  readonly keys: Readonly<Record<string, string>>;
  readonly cost_usd: string;
  readonly share_pct: string;
  readonly requests: number;
  readonly tokens_in: number;
  readonly tokens_out: number;
  readonly requests_without_usage?: number | undefined;
  readonly cost_without_usage_usd?: string | undefined;
  readonly cost_priced_by_default_usd?: string | undefined;
}

/** A report, as its operation answers. */
export interface CostReport extends Doubted {
  readonly org_id: string;
  readonly tz: string;
  readonly by: readonly string[];
  readonly total_tokens_in: number;
  readonly total_tokens_out: number;
  /** Of a report of the current month. */
  readonly forecast?: ShownMonthForecast | undefined;
  /** What of the range cannot be told by the filter. */
  readonly unsorted_requests?: number | undefined;
  readonly unsorted_cost_usd?: string | undefined;
  readonly rows: readonly ReportRow[];
}

/** What of a sum is in doubt; absent: nothing. */
export interface Doubted {
  /** Two days, both included, and their zone; or two times, the second of which is no part of it. */
  readonly from: string;
  readonly to: string;
  readonly tz?: string;
  /** What its rows are told apart by; absent: it has none. */
  readonly by?: readonly string[];
  /** Of which calls it is, by key; absent: of all. */
  readonly filter?: Readonly<Record<string, string>> | undefined;
  readonly total_requests: number;
  readonly total_cost_usd: string;
  readonly total_requests_without_usage?: number | undefined;
  readonly total_cost_without_usage_usd?: string | undefined;
  readonly total_requests_priced_by_default?: number | undefined;
  readonly total_cost_priced_by_default_usd?: string | undefined;
}

/** Of `2026-11-01`, with which a time begins as well. */
const DAY_LENGTH = 10;

/** `2026-11-01 to 2026-11-26 (UTC)`. */
export function daysText({ from, to, tz }: Pick<CostReport, 'from' | 'to' | 'tz'>): string {
  return terminalText(`${from === to ? from : `${from} to ${to}`} (${tz})`);
}

/** A name of a report; a person sees that there was none. */
function nameText(name: string): string {
  return name === '' ? '(none)' : name;
}

/** All of a report: heading, rows, total, and what is in doubt. */
export function reportText(report: CostReport, per: string, width: number | undefined): string {
  const { org_id: org, by, rows, total_requests: requests } = report;
  const what = by.length === 0 ? '' : ` by ${by.map(terminalText).join(', ')}`;
  const { filter, forecast } = report;
  const only = filter === undefined ? '' : `, only ${filterText(filter)}`;
  const head = `Spend of org ${terminalText(org)}${what}${only}, ${daysText(report)}\n\n`;
  const unsorted = unsortedText(report);
  if (requests === 0 && rows.length === 0) return `${head}${filter === undefined ? NOTHING : nothingOf(filter, report)}${unsorted}`;
  const end = forecast === undefined ? '' : `\n${monthForecastText(forecast, filter !== undefined, width)}`;
  return `${head}${moneyTable(columnsOf(report, per), width)}${end}${unsorted}${doubtText(report)}`;
}

const NOTHING = 'There were no requests in these days.\n';

/** With how to see which names there were: one may be misspelt. */
function nothingOf(filter: Readonly<Record<string, string>>, report: Doubted): string {
  const keys = terminalText(Object.keys(filter).map(shellWord).join(','));
  return `There were no such requests in these days. Which names there were:\n  gw spend --by ${keys} ${daysOf(report)}\n`;
}

function filterText(filter: Readonly<Record<string, string>>): string {
  return Object.entries(filter)
    .map(([key, name]) => terminalText(`${key} ${nameText(name)}`))
    .join(', ');
}

function unsortedText({ unsorted_requests: requests = 0, unsorted_cost_usd: cost }: CostReport): string {
  if (requests === 0) return '';
  return `\nNot in these sums: ${shownUsd(cost)} of ${requestsText(requests)} that are counted without\nsuch a name: removed records, and names beyond those that are counted one by one.\n`;
}

/**
 * The same of an answer that was not held to what its operation promises; undefined: it is no report.
 * @param given the arguments of the call
 */
export function answeredReportText(answer: unknown, width: number | undefined, { per = 'total' }: Json): string | undefined {
  if (!isJsonObject(answer) || !Array.isArray(answer['rows']) || !Array.isArray(answer['by']) || typeof per !== 'string') return undefined;
  return reportText(answer as unknown as CostReport, per, width);
}

function columnsOf({ by, rows, ...total }: CostReport, per: string): readonly MoneyColumn[] {
  const names: MoneyColumn[] = by.map((key) => ({
    name: key.startsWith('label:') ? key : key.toUpperCase(),
    kind: 'name',
    cells: [...rows.map(({ keys }) => nameText(keys[key] ?? '')), ''],
  }));
  const periods: MoneyColumn[] =
    per === 'total' && names.length > 0
      ? []
      : [
          {
            name: per === 'total' ? 'DAYS' : per.toUpperCase(),
            kind: 'name',
            cells: [...rows.map(({ period }) => periodText(period)), ''],
          },
        ];
  const [first, ...others] = [...periods, ...names];
  const named = first === undefined ? [] : [{ ...first, cells: [...first.cells.slice(0, -1), 'total'] }, ...others];
  const amount = (name: string, of: (row: ReportRow) => string, sum: string): MoneyColumn => ({
    name,
    kind: 'amount',
    cells: [...rows.map(of), sum],
  });
  const { total_requests_without_usage: unsure = 0, total_requests_priced_by_default: byDefault = 0 } = total;
  const share = rows.length === 0 || total.total_cost_usd === '0' ? '' : '100.0';
  return [
    ...named,
    amount('COST', (row) => shownUsd(row.cost_usd), shownUsd(total.total_cost_usd)),
    { ...amount('SHARE %', (row) => row.share_pct, share), spare: true },
    amount('REQUESTS', (row) => grouped(row.requests), grouped(total.total_requests)),
    ...(unsure > 0 ? [amount('NO USAGE', (row) => countText(row.requests_without_usage), grouped(unsure))] : []),
    ...(byDefault > 0
      ? [
          amount(
            'BY DEFAULT',
            (row) => (row.cost_priced_by_default_usd === undefined ? '' : shownUsd(row.cost_priced_by_default_usd)),
            shownUsd(total.total_cost_priced_by_default_usd),
          ),
        ]
      : []),
    { ...amount('TOKENS IN', (row) => roughly(row.tokens_in), roughly(total.total_tokens_in)), spare: true },
    { ...amount('OUT', (row) => roughly(row.tokens_out), roughly(total.total_tokens_out)), spare: true },
  ];
}

function periodText(period: string): string {
  return period.replace('/', ' to ');
}

function countText(count: number | undefined): string {
  return count === undefined ? '' : grouped(count);
}

/** Sentences about what of a sum is in doubt; empty where nothing is. */
export function doubtText(sum: Doubted): string {
  const { total_requests_priced_by_default: byDefault = 0, total_requests_without_usage: unsure = 0 } = sum;
  const lines: string[] = [];
  if (byDefault > 0)
    lines.push(
      `By default: ${shownUsd(sum.total_cost_priced_by_default_usd)} of ${requestsText(byDefault)} for which the price list lacks a rate:`,
      ...(sum.by?.includes('model') === true
        ? ['of the model, or of a term or tool. The column BY DEFAULT says of which models.']
        : ['of the model, or of a term or tool. Their models:', `  gw spend --by model ${daysOf(sum)}${optionsOf(sum.filter)}`]),
    );
  if (unsure > 0) {
    const approximated = parseUsd(sum.total_cost_without_usage_usd ?? '0') ?? 0n;
    lines.push(
      `No usage: the provider did not say what ${requestsText(unsure)} used.`,
      approximated === 0n
        ? 'What that cost nobody knows; it counts as $0.'
        : `The gateway approximated ${dollars(approximated)} from what it saw of the answers.`,
    );
  }
  if (lines.length === 0) return '';
  // Not more than is counted here: whoever holds both beside each other finds the same number of calls.
  const listed = recordOptions(sum.filter);
  if (listed !== undefined) lines.push('These calls:', `  gw records list --cost-doubt any ${rangeOf(sum)}${listed}`);
  return `\n${lines.join('\n')}\n`;
}

/** The range of a sum as options of a command that takes times as well as days. */
function rangeOf({ from, to, tz }: Doubted): string {
  const zone = tz === undefined || tz === 'UTC' ? '' : ` --tz ${tz}`;
  return terminalText(`--from ${from} --to ${to}${zone}`);
}

/** The same for one that takes days alone. */
function daysOf(sum: Doubted): string {
  return rangeOf({ ...sum, from: sum.from.slice(0, DAY_LENGTH), to: sum.to.slice(0, DAY_LENGTH) });
}

/** Of a cost report. */
function optionsOf(filter: Doubted['filter'] = {}): string {
  const options = Object.entries(filter)
    .map(([key, name]) => (isLabel(key) ? ` --label ${shellWord(`${labelOf(key)}=${name}`)}` : ` --${key} ${shellWord(name)}`))
    .join('');
  return terminalText(options);
}

/**
 * How the list of records names what a report is narrowed by. A model is there a part of its name, and nothing a name
 * that there is not.
 */
const OF_RECORDS: Readonly<Record<string, string>> = {
  ...{ project: 'project', customer: 'customer', account: 'account', provider: 'provider' },
  ...{ caller: 'caller-id', workload: 'workload-id' },
};

/** Undefined: the list cannot show just these calls. */
function recordOptions(filter: Doubted['filter'] = {}): string | undefined {
  const options = Object.entries(filter).map(([key, name]) => {
    if (name === '') return undefined;
    if (isLabel(key)) return ` --label-key ${shellWord(labelOf(key))} --label-value ${shellWord(name)}`;
    return OF_RECORDS[key] === undefined ? undefined : ` --${OF_RECORDS[key]} ${shellWord(name)}`;
  });
  return options.includes(undefined) ? undefined : terminalText(options.join(''));
}

function isLabel(key: string): boolean {
  return key.startsWith('label:');
}

function labelOf(key: string): string {
  return key.slice('label:'.length);
}

function requestsText(count: number): string {
  return `${grouped(count)} request${count === 1 ? '' : 's'}`;
}
