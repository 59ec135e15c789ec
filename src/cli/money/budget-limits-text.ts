/* Budget limits for people. */

import { isJsonObject } from '../../base/json/json-object.ts';
import { parseUsd } from '../../base/lib/money.ts';
import { BUDGET_PERIODS, type BudgetPeriod } from '../../base/model/budget-limit.ts';
import { hourOf, windowEnd } from '../../decide/limits/windows.ts';
import { brokenAtBlanks, USUAL_WIDTH } from '../folded-text.ts';
import { terminalText } from '../terminal-text.ts';
import { limitForecastText, minuteText, type ShownOutlook, scopeText } from './forecast-text.ts';
import { dollars, moneyTable, shownUsd } from './money-table.ts';

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
  readonly forecast?: ShownOutlook;
}

/** One limit, as it is after a change; of those beside it the list tells. */
export function changedLimitText(answer: unknown, width: number | undefined): string | undefined {
  return isJsonObject(answer) && typeof answer['limit_id'] === 'string' && Array.isArray(answer['actions'])
    ? budgetLimitsText({ data: [{ ...answer, also: [] }] }, width)
    : undefined;
}

/** A page of limits, the id of each in a line below it. */
export function budgetLimitsText(answer: unknown, width: number | undefined): string | undefined {
  const data = isJsonObject(answer) ? answer['data'] : undefined;
  if (!Array.isArray(data)) return undefined;
  if (data.length === 0)
    return 'There are no budget limits. This makes one:\n  gw budgets create --scope org --limit-usd 100 --actions alert,cap\n';
  const limits = data as readonly ShownLimit[];
  const column = (name: string, of: (limit: ShownLimit) => string) => ({ name, kind: 'amount' as const, cells: limits.map(of) });
  const table = moneyTable(
    [
      {
        name: 'SCOPE',
        kind: 'name',
        cells: limits.map(scopeText),
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

/** Windows begin at a full hour in UTC, most of them at midnight. */
function resetsText({ period, period_start: start }: ShownLimit): string {
  const from = Date.parse(start);
  const known = BUDGET_PERIODS.find((one): one is BudgetPeriod => one === period);
  return known === undefined || Number.isNaN(from)
    ? ''
    : `  until ${minuteText(new Date(windowEnd(known, hourOf(from))).toISOString())} UTC`;
}

function notesOf(limit: ShownLimit | undefined, all: readonly ShownLimit[]): readonly string[] {
  if (limit === undefined) return [];
  const { limit_id: id, override, also = [] } = limit;
  const lines = [`  ${terminalText(id)}${resetsText(limit)}`];
  const end = limitForecastText(limit.forecast, override === undefined ? undefined : { usd: limit.limit_usd, from: override.until });
  if (end !== '') lines.push(`  ${end}`);
  if (override !== undefined) lines.push(`  overridden: instead of ${shownUsd(limit.limit_usd)} until ${minuteText(override.until)} UTC`);
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

const WHAT_IT_DOES: Readonly<Record<string, string>> = {
  '': 'It is a draft: it neither alerts nor refuses a call.',
  alert: 'It alerts, and refuses no call: --actions alert,cap would do both.',
  cap: 'It refuses the calls that would pass it, and alerts at the first of them.',
  'alert,cap': 'It alerts at its thresholds, and refuses the calls that would pass it.',
};

/**
 * What was made, with what was left out: people think of a budget as of something that holds.
 * @param given the arguments of the call
 */
export function madeLimitText(answer: unknown, width: number | undefined, given: Readonly<Record<string, unknown>>): string | undefined {
  if (!isJsonObject(answer) || typeof answer['limit_id'] !== 'string') return undefined;
  const { scope, scope_id: id, limit_usd: limit, period = 'monthly', actions = ['alert'] } = given;
  const does = Array.isArray(actions) ? WHAT_IT_DOES[[...new Set(actions)].sort().join(',')] : undefined;
  if (typeof scope !== 'string' || typeof limit !== 'string' || typeof period !== 'string' || does === undefined) return undefined;
  const whose = scopeText({ scope, scope_id: typeof id === 'string' ? id : undefined });
  const { limit_id: made, note } = answer;
  const told = [`${shownUsd(limit)} ${period} (UTC) for ${whose}.`, does, ...(typeof note === 'string' ? [note] : [])];
  const lines = told.flatMap((sentence) => brokenAtBlanks(terminalText(sentence), width ?? USUAL_WIDTH));
  return `limit_id: ${terminalText(made)}\nstatus:   created\n\n${lines.join('\n')}\n`;
}
