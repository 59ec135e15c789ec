/*
 * Counter spaces that are written in one room and read in another: their names and how their keys are made. Parts of a
 * key are percent-encoded, so that `|` only ever separates.
 */
import { sha256Hex } from '../../base/lib/sha256.ts';

/** Counter space of the daily roll-ups; its keys are made by {@link rollUpKey}. */
export const USAGE_DAY = 'usage_day';

/**
 * Counter space of the daily spend by project: day, org, project. Only calls that cost something and name one have a
 * row.
 */
export const SPEND_DAY = 'spend_day';

/**
 * Counter space of the daily spend at a provider by calls that reached its hosts through another connector
 * (`generic_http`): day, org, provider.
 */
export const SPEND_PROVIDER_DAY = 'spend_provider_day';

/** Counter space of what is spent under a delegation that has a budget, over its life: org, delegation. */
export const SPEND_DELEGATION = 'spend_delegation';

/**
 * Counter space of the spend of each scope by hour: org, kind of scope, its id, hour. Stores that several gateways
 * share keep it, and make it of what they are given for other spaces (`spend-hours.ts`): nobody adds to it. Few rows,
 * so that the spend of any window is one short read.
 */
export const SPEND_HOUR = 'spend_hour';

/** What spend is counted for. */
export type SpendKind = 'org' | 'project' | 'workload' | 'provider';

/** Counter space of the requests that count in an org's month: month, org. */
export const ORG_MONTH = 'org_month';

/**
 * Counter space of the hourly roll-ups of an org: org, hour, decision. Few rows, so that any range of hours is a short
 * read.
 */
export const USAGE_HOUR = 'usage_hour';

/**
 * Counter space of the roll-ups by quarter of an hour, for days that do not begin at midnight UTC: org, hour, workload,
 * connector, model, decision. One row holds four quarters, each under names of its own ({@link quarterNames}).
 */
export const USAGE_QUARTER = 'usage_quarter';

/**
 * Counter space of what is attributed, by day: org, day, kind, name. The name is empty where no more names fit. Of
 * labels the name is the key, and the value stands behind it.
 */
export const ATTRIBUTED_DAY = 'attributed_day';

/** The same by hour, with quarters as in {@link USAGE_QUARTER}. */
export const ATTRIBUTED_QUARTER = 'attributed_quarter';

/** The kinds of {@link ATTRIBUTED_DAY}, as keys have them. */
export const ATTRIBUTED = { project: 'p', customer: 'c', account: 'a', caller: 'u', label: 'l' } as const;

/** Counter space of the monthly roll-ups: month, org, workload, connector, decision. */
export const USAGE_MONTH = 'usage_month';

/** The parts of a key of any of these spaces, decoded. */
export function parseRollUpKey(key: string): readonly string[] {
  return key.split('|').map((part) => (part.includes('%') ? decodeURIComponent(part) : part));
}

/** What one roll-up counter is kept for. */
export function rollUpKey(part: {
  readonly day: string;
  readonly org: string;
  readonly workload: string;
  readonly connector: string;
  readonly model: string;
  readonly decision: string;
}): string {
  return [part.day, part.org, part.workload, part.connector, part.model, part.decision].map(encodePart).join('|');
}

/** Key of {@link SPEND_DAY} and {@link SPEND_PROVIDER_DAY}; `of` is the project or the provider. */
export function spendKey(part: { readonly day: string; readonly org: string; readonly of: string }): string {
  return [part.day, part.org, part.of].map(encodePart).join('|');
}

/** Key of {@link SPEND_DELEGATION}. */
export function delegationSpendKey(org: string, delegationId: string): string {
  return `${encodePart(org)}|${encodePart(delegationId)}`;
}

/** Key of {@link SPEND_HOUR}; `hour` as in `2026-11-22T05`. */
export function spendHourKey(part: { readonly org: string; readonly kind: SpendKind; readonly id: string; readonly hour: string }): string {
  return spendHourKeyOf(encodePart(part.org), part.kind, encodePart(part.id), part.hour);
}

/** The same of parts that are encoded. Nobody reads an id out of such a key: a long one is a digest there. */
export function spendHourKeyOf(org: string, kind: SpendKind, id: string, hour: string): string {
  return `${org}|${kind}|${shortPart(id)}|${hour}`;
}

/** Longer parts of what is not read back are digests. */
const LONGEST_PART = 500;

/** A part that stands for a name and is not read back. */
export function shortPart(part: string): string {
  return part.length > LONGEST_PART ? sha256Hex(part) : part;
}

/** Key of {@link USAGE_HOUR}; `hour` as in `2026-11-22T05`. */
export function hourKey(part: { readonly org: string; readonly hour: string; readonly decision: string }): string {
  return `${hoursPrefix(part.org, part.hour)}|${part.decision}`;
}

/** What the keys of {@link USAGE_HOUR} begin with; `time` may be an hour, a day or a month. */
export function hoursPrefix(org: string, time: string): string {
  return `${encodePart(org)}|${time}`;
}

/** Key of {@link USAGE_QUARTER}. */
export function quarterKey(part: {
  readonly org: string;
  readonly hour: string;
  readonly workload: string;
  readonly connector: string;
  readonly model: string;
  readonly decision: string;
}): string {
  const { org, hour, workload, connector, model, decision } = part;
  return `${hoursPrefix(org, hour)}|${[workload, connector, model, decision].map(encodePart).join('|')}`;
}

/** What the keys of {@link USAGE_DAY} of one org begin with. */
export function dayPrefix(day: string, org: string): string {
  return `${day}|${encodePart(org)}|`;
}

/** A name in a key, for those who keep it. */
export function keyPart(text: string): string {
  return encodePart(text);
}

/**
 * Amounts of a roll-up that a row has only where they are more than 0: input tokens read from a cache; records without
 * a usage and what they cost all the same; records that were priced by default and what they cost.
 */
export const SELDOM_AMOUNTS = ['cached_in', 'no_usage', 'no_usage_pico', 'by_default', 'by_default_pico'] as const;
export type SeldomAmount = (typeof SELDOM_AMOUNTS)[number];

const AMOUNTS = ['requests', 'tokens_in', 'tokens_out', 'cost_pico', ...SELDOM_AMOUNTS] as const;

/** The counts of one quarter of an hour, 0 to 3, as rows of {@link USAGE_QUARTER} name them. */
export function quarterNames(quarter: number): Readonly<Record<(typeof AMOUNTS)[number], string>> {
  return Object.fromEntries(AMOUNTS.map((name) => [name, `${name}_${quarter}`])) as Record<(typeof AMOUNTS)[number], string>;
}

/**
 * The requests of five minutes, as rows of {@link USAGE_HOUR} name them.
 * @param minute of the hour at which they begin
 */
export function minuteName(minute: number): string {
  return `requests_m${String(minute - (minute % 5)).padStart(2, '0')}`;
}

/**
 * What was spent in one hour of the day, 0 to 23, as rows of {@link SPEND_DAY} and {@link SPEND_PROVIDER_DAY} name it
 * beside the whole.
 */
export function hourName(hour: number): string {
  return `cost_pico_h${String(hour).padStart(2, '0')}`;
}

/** Key of {@link USAGE_MONTH}; `month` as in `2026-11`. */
export function monthKey(part: {
  readonly month: string;
  readonly org: string;
  readonly workload: string;
  readonly connector: string;
  readonly decision: string;
}): string {
  return `${monthPrefix(part.month, part.org)}${encodePart(part.workload)}|${encodePart(part.connector)}|${part.decision}`;
}

/** What the keys of {@link USAGE_MONTH} begin with, of one org or of all. */
export function monthPrefix(month: string, org?: string): string {
  return org === undefined ? `${month}|` : `${month}|${encodePart(org)}|`;
}

/** Nearly every part needs no encoding, and testing for that costs a tenth of it. */
function encodePart(text: string): string {
  return /^[\w.:-]*$/.test(text) ? text : encodeURIComponent(text);
}
