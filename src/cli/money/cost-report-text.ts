/* A cost report for people. */
import { parseUsd } from '../../base/lib/money.ts';
import { terminalText } from '../terminal-text.ts';
import { dollars, grouped, roughly } from './dollars.ts';
import { type MoneyColumn, moneyTable } from './money-table.ts';

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
  readonly from: string;
  readonly to: string;
  readonly tz: string;
  readonly by: readonly string[];
  readonly total_tokens_in: number;
  readonly total_tokens_out: number;
  readonly rows: readonly ReportRow[];
}

/** What of a sum is in doubt; absent: nothing. */
export interface Doubted {
  /** A day or a time, and the zone of a day. */
  readonly from: string;
  readonly tz?: string;
  readonly total_requests: number;
  readonly total_cost_usd: string;
  readonly total_requests_without_usage?: number | undefined;
  readonly total_cost_without_usage_usd?: string | undefined;
  readonly total_requests_priced_by_default?: number | undefined;
  readonly total_cost_priced_by_default_usd?: string | undefined;
}

/** An amount of an answer; absent: 0. */
export function shownUsd(text: string | undefined): string {
  return dollars(parseUsd(text ?? '0') ?? 0n);
}

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
  const head = `Spend of org ${terminalText(org)}${what}, ${daysText(report)}\n\n`;
  if (requests === 0 && rows.length === 0) return `${head}There were no requests in these days.\n`;
  return `${head}${moneyTable(columnsOf(report, per), width)}${doubtText(report)}`;
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
      'of the model, or of a term or tool. "gw prices status" names the models.',
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
  const zone = sum.tz === undefined || sum.tz === 'UTC' ? '' : ` --tz ${sum.tz}`;
  lines.push(terminalText(`"gw records list --cost-doubt any --from ${sum.from.slice(0, 10)}${zone}" lists them.`));
  return `\n${lines.join('\n')}\n`;
}

function requestsText(count: number): string {
  return `${grouped(count)} request${count === 1 ? '' : 's'}`;
}
