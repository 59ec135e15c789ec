/* One call as a person reads it, whether it comes from a record or from the gateway's log. */
import { isJsonObject } from '../../base/json/json-object.ts';
import { shorten } from '../../base/lib/text.ts';
import { capSentence } from '../../base/model/budget-limit.ts';
import { DECISIONS, permits, REASON_CODES, type ReasonCode } from '../../base/model/reason-codes.ts';
import type { Paint } from '../../policy-tools/render-problem.ts';
import { costMark, doubtsOfRecord } from '../money/money-table.ts';
import { tellingCodes } from '../record-texts.ts';
import { cellText } from '../terminal-text.ts';

/** What is shown of a call; texts as they came. */
export interface SeenCall {
  /** RFC 3339. */
  readonly at: string;
  readonly recordId: string;
  readonly decision: string;
  readonly workload: string;
  readonly caller: string;
  readonly door: string;
  readonly provider: string;
  readonly host: string;
  readonly path: string;
  readonly model: string;
  readonly status: string;
  readonly tokens: string;
  readonly cost: string;
  readonly duration: string;
  /**
   * Why, where it was not simply allowed: codes and text; else what is to be known of it all the same, such as that its
   * token was none.
   */
  readonly reason: string;
  /** What of it tells something beside the decision. */
  readonly telling: string;
}

const DOORS: Readonly<Record<string, string>> = { direct_api: 'api', sdk_redirect: 'base-url', connect_proxy: 'proxy' };
const NONE = '-';
const MAX_REASON = 200;

function wasLetThrough(decision: string): boolean {
  return DECISIONS.some((one) => one === decision && permits(one));
}

/** A code of a call that was let through, which tells of it what its decision does not. */
function isMark(code: string): boolean {
  return Object.hasOwn(REASON_CODES, code) && REASON_CODES[code as ReasonCode].decision === 'allow';
}

/** @param record as the gateway gives it, or undefined members where it is none */
export function callOfRecord(record: Readonly<Record<string, unknown>>): SeenCall {
  const { latency_ms: latency, policy_trace: _trace, metering, error } = record;
  const failed = isJsonObject(error) ? textOf(error['message'], '', MAX_REASON) : '';
  return callOf(
    {
      ...record,
      reason: capSentence(record) ?? record['reason'],
      ...(isJsonObject(metering) ? metered(metering) : {}),
      cost_doubt: doubtsOfRecord(record),
      duration_ms: latency,
    },
    textOf(record['completed_at']),
    failed,
  );
}

function metered({ tokens_in, tokens_out, cost_usd }: Readonly<Record<string, unknown>>) {
  return { tokens_in, tokens_out, cost_usd };
}

/** @param line of the log, parsed @returns undefined for one that tells of something else than a recorded call */
export function callOfLogLine(line: Readonly<Record<string, unknown>>): SeenCall | undefined {
  if (typeof line['record_id'] !== 'string' || typeof line['decision'] !== 'string') return undefined;
  return callOf({ ...line, target_host: line['host'], status_code: line['status'] }, textOf(line['time']), '');
}

function callOf(seen: Readonly<Record<string, unknown>>, at: string, failed: string): SeenCall {
  const connection = textOf(seen['connection_type']);
  const { tokens_in: sent, tokens_out: made, reason_codes: codes } = seen;
  const decision = textOf(seen['decision']);
  const letThrough = wasLetThrough(decision);
  const given = Array.isArray(codes) ? codes.map(String) : [];
  const all = letThrough ? given.filter(isMark) : given;
  const said = textOf(seen['reason'], failed, MAX_REASON);
  const reasonOf = (some: readonly string[]) =>
    [textOf(some.join(','), '', MAX_REASON), letThrough ? '' : said].filter((part) => part !== '').join(': ');
  return {
    at,
    recordId: textOf(seen['record_id']),
    decision,
    workload: textOf(seen['workload_id']),
    caller: textOf(seen['caller_id'] ?? seen['caller_ip']),
    door: DOORS[connection] ?? connection,
    provider: textOf(seen['provider'] ?? seen['target_host']),
    host: textOf(seen['target_host']),
    path: textOf(seen['target_path'], NONE, MAX_REASON),
    model: textOf(seen['model']),
    status: textOf(seen['status_code']),
    tokens: sent === undefined && made === undefined ? NONE : `${textOf(sent, '0')}/${textOf(made, '0')}`,
    cost:
      seen['cost_usd'] === undefined
        ? NONE
        : `$${textOf(seen['cost_usd'])}${costMark(Array.isArray(seen['cost_doubt']) ? seen['cost_doubt'].map(String) : [])}`,
    duration: typeof seen['duration_ms'] === 'number' ? `${Math.round(seen['duration_ms'])}ms` : NONE,
    reason: reasonOf(all),
    telling: reasonOf(tellingCodes(all)) || reasonOf(all),
  };
}

/** Every part is safe to show, and none is endless. */
function textOf(value: unknown, otherwise = NONE, max?: number): string {
  if (typeof value !== 'string' && typeof value !== 'number') return otherwise;
  return value === '' ? otherwise : cellText(shorten(String(value), max));
}

/** Whether it was let through, let through with a change, or refused. */
export function decisionPaint(decision: string, paint: Paint): (text: string) => string {
  if (decision === 'allow') return paint.green;
  return wasLetThrough(decision) ? paint.yellow : paint.red;
}
