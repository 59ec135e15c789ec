/* Budget limits for people. */
import { isJsonObject } from '../../base/json/json-object.ts';
import { parseUsd } from '../../base/lib/money.ts';
import { terminalText } from '../terminal-text.ts';
import { shownUsd } from './cost-report-text.ts';
import { dollars } from './dollars.ts';
import { moneyTable } from './money-table.ts';

/** As its operation answers. */
interface ShownLimit {
  readonly limit_id: string;
  readonly scope: string;
  readonly scope_id?: string;
  readonly period: string;
  readonly effective_limit_usd: string;
  readonly limit_usd: string;
  readonly spent_usd: string;
  readonly reserved_usd: string;
  readonly actions: readonly string[];
  readonly period_start: string;
  readonly override?: { readonly until: string };
  readonly also?: readonly string[];
}

/** A page of limits, the id of each in a line below it. */
export function budgetLimitsText(answer: unknown, width: number | undefined): string | undefined {
  const data = isJsonObject(answer) ? answer['data'] : undefined;
  if (!Array.isArray(data)) return undefined;
  if (data.length === 0)
    return 'There are no budget limits. gw budgets create --scope org --limit-usd 100 --actions alert,cap makes one.\n';
  const limits = data as readonly ShownLimit[];
  const column = (name: string, of: (limit: ShownLimit) => string) => ({ name, kind: 'amount' as const, cells: limits.map(of) });
  const table = moneyTable(
    [
      {
        name: 'SCOPE',
        kind: 'name',
        cells: limits.map(({ scope, scope_id: id }) => (id === undefined ? scope : `${scope} ${id || '(none)'}`)),
      },
      { name: 'PERIOD', kind: 'name', cells: limits.map(({ period }) => period) },
      column('LIMIT', (limit) => shownUsd(limit.effective_limit_usd)),
      column('SPENT', (limit) => shownUsd(limit.spent_usd)),
      column('USED %', (limit) => usedText(limit)),
      { ...column('SET ASIDE', (limit) => shownUsd(limit.reserved_usd)), spare: true },
      { name: 'ACTIONS', kind: 'name', cells: limits.map(({ actions }) => (actions.length === 0 ? '(draft)' : actions.join(', '))) },
      { name: 'SINCE', kind: 'name', cells: limits.map(({ period_start: start }) => start) },
    ],
    width,
  );
  const [head = '', ...rows] = table.trimEnd().split('\n');
  return `${[head, ...rows.flatMap((row, at) => [row, ...notesOf(limits[at], limits)])].join('\n')}\n`;
}

function usedText({ effective_limit_usd: limit, spent_usd: spent }: ShownLimit): string {
  const [of, used] = [parseUsd(limit) ?? 0n, parseUsd(spent) ?? 0n];
  if (of === 0n) return '-';
  const tenths = (used * 1_000n) / of;
  return `${tenths / 10n}.${tenths % 10n}`;
}

function notesOf(limit: ShownLimit | undefined, all: readonly ShownLimit[]): readonly string[] {
  if (limit === undefined) return [];
  const { limit_id: id, override, also = [] } = limit;
  const lines = [`  ${terminalText(id)}`];
  if (override !== undefined)
    lines.push(`  instead of ${shownUsd(limit.limit_usd)} until ${terminalText(override.until.slice(0, 16).replace('T', ' '))} UTC`);
  if (also.length > 0) {
    const caps = all.filter((one) => (one === limit || also.includes(one.limit_id)) && one.actions.includes('cap'));
    const lowest = caps
      .map((one) => parseUsd(one.effective_limit_usd) ?? 0n)
      .reduce<bigint | undefined>((a, b) => (a === undefined || b < a ? b : a), undefined);
    lines.push(
      `  one of ${also.length + 1} limits of this scope and period: all hold${lowest === undefined ? '' : `, ${dollars(lowest)} is the lowest cap`}`,
    );
  }
  return lines;
}
