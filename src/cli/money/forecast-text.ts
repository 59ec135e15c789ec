/* Where a period will end, and which cap stops first, for people (decision 6.21). */
import { brokenAtBlanks, USUAL_WIDTH } from '../folded-text.ts';
import { terminalText } from '../terminal-text.ts';
import { shownUsd } from './money-table.ts';

/** Of a budget limit, as its operation answers. */
export interface ShownOutlook {
  readonly period_end: string;
  readonly forecast_usd: string | null;
  readonly outlook: string;
  readonly reached_at: string | null;
}

/** Of a cost report, as its operation answers. */
export interface ShownMonthForecast {
  readonly period_end: string;
  readonly forecast_usd: string | null;
  readonly first_cap?: {
    readonly limit_id: string;
    readonly scope: string;
    readonly scope_id?: string | undefined;
    readonly period: string;
    readonly effective_limit_usd: string;
    readonly spent_usd: string;
    readonly outlook: string;
    readonly reached_at: string | null;
  };
}

/** `2026-11-27 14:10`, of a time as answers write it. */
export function minuteText(time: string): string {
  return terminalText(time.slice(0, 16).replace('T', ' '));
}

/** Whose a limit is: `project apollo`. */
export function scopeText({ scope, scope_id: id }: { readonly scope: string; readonly scope_id?: string | undefined }): string {
  return id === undefined ? scope : `${scope} ${id || '(none)'}`;
}

/**
 * Sentences.
 * @param filtered the report is of some calls alone, of which there are no caps
 * @param width of the terminal in cells
 */
export function monthForecastText(
  { forecast_usd: usd, period_end: end, first_cap: cap }: ShownMonthForecast,
  filtered: boolean,
  width: number | undefined,
): string {
  const month =
    usd === null
      ? 'Forecast: none before a 24th of the month (28 to 31 hours) has passed.'
      : `Forecast: ${shownUsd(usd)} for the whole month, which ends at ${minuteText(end)} UTC (spent so far, divided by the time that has passed, times its length).`;
  const caps = filtered ? [] : [cap === undefined ? 'No cap will be reached in its period at this rate.' : capText(cap)];
  return [month, ...caps]
    .flatMap((sentence) => brokenAtBlanks(terminalText(sentence), width ?? USUAL_WIDTH))
    .map((line) => `${line}\n`)
    .join('');
}

function capText(cap: NonNullable<ShownMonthForecast['first_cap']>): string {
  const when =
    cap.reached_at === null
      ? 'it is reached already (gw budgets list shows each)'
      : `it will be reached at ${minuteText(cap.reached_at)} UTC`;
  return `First cap: ${shownUsd(cap.effective_limit_usd)} ${cap.period} of ${scopeText(cap)}, of which ${shownUsd(cap.spent_usd)} are spent; ${when}.`;
}

/**
 * One line about a limit, in few words; empty where its gateway tells no forecast.
 * @param own its own amount, and until when an override has its place
 */
export function limitForecastText(
  forecast: ShownOutlook | undefined,
  own: { readonly usd: string; readonly from: string } | undefined,
): string {
  if (forecast === undefined) return '';
  const { forecast_usd: usd, outlook, reached_at: at } = forecast;
  const comes = usd === null ? '' : `forecast ${shownUsd(usd)}`;
  if (outlook === 'reached') return ['reached already', comes].filter((part) => part !== '').join(', ');
  if (usd === null) return 'forecast: none before a 24th of the period has passed';
  if (at === null) return `${comes}: not reached in this period`;
  const again = own === undefined || Date.parse(at) < Date.parse(own.from) ? '' : `, when ${shownUsd(own.usd)} hold again`;
  return `${comes}: reached at ${minuteText(at)} UTC${again}`;
}
