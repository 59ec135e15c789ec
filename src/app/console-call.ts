/*
 * A recorded call in the pretty form of the log, for who looks on while it runs: one line, where the JSON form has
 * thirty members.
 */
import { cutToCells, padCells } from '../base/lib/cell-width.ts';
import { shownText } from '../base/lib/shown-text.ts';
import { DECISIONS, permits } from '../base/model/reason-codes.ts';
import { paintFor } from '../policy-tools/render-problem.ts';

/** A line of the log, parsed. */
type LogLine = Readonly<Record<string, unknown>>;

/** With these a line has at most 80 cells, unless it tells why a call was refused. */
const WIDTHS = { decision: 5, who: 10, place: 32, status: 3, cost: 9, duration: 7 } as const;
const NONE = '-';

/**
 * Time, decision, who, method, host, model or path, status, cost, duration, and of a refusal its reason codes.
 * @returns undefined for a line that tells of something else
 */
export function consoleCall(line: LogLine, colours: boolean): string | undefined {
  if (line['msg'] !== 'request' || typeof line['decision'] !== 'string') return undefined;
  const { decision, cost_usd: cost, duration_ms: duration } = line;
  const passed = DECISIONS.some((one) => one === decision && permits(one));
  const paint = paintFor(colours);
  const colour = decision === 'allow' ? paint.green : passed ? paint.yellow : paint.red;
  const place = [line['method'], line['host'], line['model'] ?? line['path']].flatMap((one) => (one === undefined ? [] : [textOf(one)]));
  const cells = [
    timeOf(line),
    colour(textOf(decision).padEnd(WIDTHS.decision)),
    cell(textOf(line['workload_id'] ?? line['caller_id']), WIDTHS.who),
    cell(place.join(' '), WIDTHS.place),
    textOf(line['status']).padStart(WIDTHS.status),
    (cost === undefined ? NONE : `$${textOf(cost)}`).padStart(WIDTHS.cost),
    (typeof duration === 'number' ? `${Math.round(duration)}ms` : NONE).padStart(WIDTHS.duration),
    ...(passed ? [] : [reasonOf(line)]),
  ];
  return `${cells.join(' ').trimEnd()}\n`;
}

function cell(text: string, width: number): string {
  return padCells(cutToCells(text, width), width);
}

function reasonOf({ reason_codes: codes, error }: LogLine): string {
  return textOf(error ?? (Array.isArray(codes) ? codes.map(String).join(',') : ''));
}

/** Of the person's own zone, as the other lines have it. */
function timeOf({ time }: LogLine): string {
  const at = new Date(String(time));
  if (Number.isNaN(at.getTime())) return NONE;
  return [at.getHours(), at.getMinutes(), at.getSeconds()].map((part) => String(part).padStart(2, '0')).join(':');
}

function textOf(value: unknown): string {
  return typeof value === 'string' || typeof value === 'number' ? shownText(String(value), 'terminal') : NONE;
}
