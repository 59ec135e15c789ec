/*
 * What a query of records can ask for. Every filter is one that users have (specification, "Gateway admin API"; a
 * management API's list of records has more of them than today's routes). A new filter for a text is a line in
 * `QUERY_TEXTS` and one in `queryTexts`; drivers make what they keep from these.
 */

import { GatewayError } from '../../base/lib/gateway-error.ts';
import { parseUsd } from '../../base/lib/money.ts';
import type { DoubtedRecord, DoubtName } from '../../base/model/cost-doubt.ts';

/** The members of a record that queries ask for, as they are in its text. */
export interface RecordMembers extends DoubtedRecord {
  readonly org_id?: string | undefined;
  readonly workload_id?: string | undefined;
  readonly caller_id?: string | undefined;
  readonly caller_ip?: string | undefined;
  readonly decision?: string | undefined;
  readonly reason?: string | undefined;
  readonly reason_codes?: readonly string[] | undefined;
  readonly traffic_class?: string | undefined;
  readonly provider?: string | undefined;
  readonly model?: string | undefined;
  readonly action_type?: string | undefined;
  readonly record_tier?: string | undefined;
  readonly connection_type?: string | undefined;
  readonly target_host?: string | undefined;
  readonly stream_outcome?: string | undefined;
  readonly node_id?: string | undefined;
  readonly credential_id?: string | undefined;
  readonly api_key_id?: string | undefined;
  readonly project_id?: string | undefined;
  readonly account_id?: string | undefined;
  readonly customer_id?: string | undefined;
  readonly labels?: Readonly<Record<string, string>> | undefined;
}

/** Texts that a query compares whole, by the names of their members. */
export const QUERY_TEXTS = [
  'org_id',
  'workload_id',
  'caller_id',
  'caller_ip',
  'decision',
  'traffic_class',
  'provider',
  'action_type',
  'record_tier',
  'connection_type',
  'target_host',
  'stream_outcome',
  'node_id',
  'credential_id',
  'api_key_id',
  'project_id',
  'account_id',
  'customer_id',
] as const satisfies readonly (keyof RecordMembers)[];

/** A text, or none, for each of these names, in their order. */
export type TextsOf<Names extends readonly string[]> = { readonly [At in keyof Names]: string | undefined };

/**
 * A record's texts in the order of {@link QUERY_TEXTS}. Written out, and not read by the names of the list, which would
 * cost several times as much; every record is read so when it is stored.
 */
export function queryTexts(record: RecordMembers): TextsOf<typeof QUERY_TEXTS> {
  return [
    record.org_id,
    record.workload_id,
    record.caller_id,
    record.caller_ip,
    record.decision,
    record.traffic_class,
    record.provider,
    record.action_type,
    record.record_tier,
    record.connection_type,
    record.target_host,
    record.stream_outcome,
    record.node_id,
    record.credential_id,
    record.api_key_id,
    record.project_id,
    record.account_id,
    record.customer_id,
  ];
}

const CODE = /^[a-z][a-z0-9]*(?:_[a-z0-9]+)+$/;

/**
 * Why a record was decided so: its reason codes, and its reason where that is a code too (`budget_exceeded`), as
 * callers are told it.
 */
export function codesOf({ reason, reason_codes: codes }: RecordMembers): readonly string[] | undefined {
  if (reason === undefined || !CODE.test(reason) || codes?.includes(reason) === true) return codes;
  return codes === undefined ? [reason] : [...codes, reason];
}

export type QueryText = (typeof QUERY_TEXTS)[number];

/**
 * All that is given must be true of a record; of a list of texts it must have one. What a record does not have is equal
 * to nothing.
 */
export interface RecordFilters extends Readonly<Partial<Record<QueryText, string | readonly string[]>>> {
  readonly record_id?: string;
  /** Is part of the record's `model`, as it is or in lower case. */
  readonly model?: string;
  /** One of the record's {@link codesOf}. */
  readonly reason_code?: string;
  /** One of its labels has this key, and this value where one is given. */
  readonly label?: { readonly key: string; readonly value?: string };
  /** The record has a cost, and it is at least this: US dollars as decimal text. */
  readonly min_cost_usd?: string;
  /** Its cost is not certain (decision 6.17), for that reason or for any. */
  readonly cost_doubt?: DoubtName | 'any';
  /** Committed then or later. Milliseconds since the epoch. */
  readonly since?: number;
  /** Committed before. */
  readonly until?: number;
}

/** Which records a page holds, and in what order. */
export interface RecordQuery extends RecordFilters {
  /** The position behind which, in the order of the page, it begins. */
  readonly after?: string;
  /** At least 1. */
  readonly limit: number;
  /** Else the oldest come first. */
  readonly newestFirst?: boolean;
  /** Once it is aborted nobody waits for the page: the driver SHOULD look no further, and reject with its reason. */
  readonly signal?: AbortSignal;
}

/**
 * Holds a query against the contract, before a driver looks anything up.
 * @throws TypeError for a limit that is no integer of at least 1, and for a time or a cost that is none
 */
export function checkQuery({ limit, since, until, min_cost_usd: cost }: RecordQuery): void {
  if (!Number.isInteger(limit) || limit < 1) throw new TypeError('The limit of a page is an integer of at least 1');
  if ([since, until].some(Number.isNaN)) throw new TypeError('A time is a number');
  if (cost !== undefined && parseUsd(cost) === undefined) throw new TypeError('A cost is decimal text');
}

/** The error for an `after` that no page has had. */
export function unknownPosition(): GatewayError {
  return new GatewayError('invalid_request', 'The page begins after a position that this store never gave out');
}
