/*
 * The record room: what a decided request leaves behind. Its text is written here once, in the order that RFC 8785 asks for, and hashed; nothing here
 * reads a clock, a store or a network, and no prompt or completion ever reaches it.
 */
import { canonicalJson } from '../base/lib/jcs.ts';
import { sha256Hex } from '../base/lib/sha256.ts';
import type { ExecutionRecord, Metering, PolicyTrace } from '../base/model/execution-record.ts';

/** A record before it is hashed. */
export type UnhashedRecord = Omit<ExecutionRecord, 'record_hash'>;

export interface CanonicalRecord {
  /** RFC 8785 text of the whole record, `record_hash` included. */
  readonly text: string;
  /** Lower-case hex SHA-256 over the text without `record_hash` (decision 7.1). */
  readonly hash: string;
}

type Member = keyof UnhashedRecord;
type Writer = (value: never) => string;
/** `,"name":` and how the value is written. */
type Row = readonly [name: string, prefix: string, write: Writer];

/** Printable ASCII without quote and backslash: nearly every text of a record, and testing for it costs a third of JSON.stringify. */
const NOTHING_TO_ESCAPE = /^[ !#-[\]-~]*$/;

/** JSON.stringify of a well-formed string is its RFC 8785 form (§3.2.2.2). */
const text: Writer = (value: string) => (NOTHING_TO_ESCAPE.test(value) ? `"${value}"` : JSON.stringify(value.toWellFormed()));
/** Text that the gateway itself made or checked, without anything to escape: ids, enumerations, canonical hosts, hex, timestamps, money. */
const plain: Writer = (value: string) => `"${value}"`;
/** String(number) is the ECMAScript form that RFC 8785 §3.2.2.3 prescribes. */
const scalar: Writer = (value: number | boolean) => String(value);
const texts: Writer = (values: readonly string[]) =>
  values.length === 0 ? '[]' : `[${values.map((value) => text(value as never)).join(',')}]`;
const data: Writer = (value: unknown) => {
  try {
    return canonicalJson(value);
  } catch {
    return canonicalJson(wellFormed(value));
  }
};

/** A copy in which every text is well-formed: what an upstream or a caller wrote must never make a record unhashable (decision 7.6). */
function wellFormed(value: unknown): unknown {
  if (typeof value === 'string') return value.toWellFormed();
  if (Array.isArray(value)) return value.map(wellFormed);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name.toWellFormed(), wellFormed(member)]));
}

/** Rows of a table of members, which must stand in the order of their UTF-16 code units; a test compares with a general canonicaliser. */
function rows<T>(table: readonly (readonly [name: keyof T & string, write: Writer])[]): readonly Row[] {
  return table.map(([name, write]) => [name, `,"${name}":`, write]);
}

/** A nested object whose members are known. */
function object(members: readonly Row[]): Writer {
  return (value: object) => `{${writeMembers(value, members).slice(1)}}`;
}

function writeMembers(value: object, members: readonly Row[]): string {
  const from = value as Readonly<Record<string, unknown>>;
  let out = '';
  for (const [name, prefix, write] of members) {
    const member = from[name];
    if (member !== undefined) out += prefix + write(member as never);
  }
  return out;
}

const METERING = rows<Metering>([
  ['cached_tokens_in', scalar],
  ['cost_usd', plain],
  ['model', text],
  ['rate_cached_in', plain],
  ['rate_in', plain],
  ['rate_out', plain],
  ['rate_source', plain],
  ['reasoning_tokens_out', scalar],
  ['tokens_in', scalar],
  ['tokens_out', scalar],
  ['usage_reported', scalar],
]);

const POLICY_TRACE = rows<PolicyTrace>([
  ['attributes', data],
  ['bundle_id', text],
  ['matched_layers', texts],
  ['matched_levels', texts],
  ['matched_rule_ids', texts],
  ['missing_field', texts],
  ['overridden', texts],
  ['stopped_at', text],
  ['version', text],
]);

const ERROR = rows<NonNullable<UnhashedRecord['error']>>([
  ['code', plain],
  ['message', text],
]);

/**
 * The members of a record, split where `record_hash` stands. Writing them in this fixed order costs a quarter of what a general canonicaliser costs.
 */
const BEFORE_HASH = rows<UnhashedRecord>([
  ['account_id', text],
  ['action_method', plain],
  ['action_type', plain],
  ['api_key_id', text],
  ['approval_id', text],
  ['caller_id', text],
  ['caller_ip', plain],
  ['completed_at', plain],
  ['connection_type', plain],
  ['connector_id', plain],
  ['connector_version', plain],
  ['created_at', plain],
  ['credential_id', text],
  ['customer_id', text],
  ['decision', plain],
  ['delegation_id', text],
  ['error', object(ERROR)],
  ['idempotency_key', text],
  ['labels', data],
  ['latency_ms', scalar],
  ['metering', object(METERING)],
  ['model', text],
  ['node_id', plain],
  ['org_id', text],
  ['policy_trace', object(POLICY_TRACE)],
  ['project_id', text],
  ['provider', plain],
  ['reason', text],
  ['reason_codes', texts],
]);
const AFTER_HASH = rows<UnhashedRecord>([
  ['record_id', plain],
  ['record_tier', plain],
  ['request_bytes', scalar],
  ['request_id', text],
  ['request_sha256', plain],
  ['response_bytes', scalar],
  ['response_sha256', plain],
  ['risk_score', scalar],
  ['risk_signals', texts],
  ['schema', plain],
  ['status_code', scalar],
  ['stream', scalar],
  ['stream_outcome', plain],
  ['target', text],
  ['target_host', plain],
  ['target_path', text],
  ['traffic_class', plain],
  ['upstream_latency_ms', scalar],
  ['upstream_status', scalar],
  ['workload_id', text],
]);

/** Writes and hashes a record. Member values must be well-formed Unicode inside `labels` and `policy_trace` (decision 7.6); others are repaired. */
export function canonicalRecord(record: UnhashedRecord): CanonicalRecord {
  const before = writeMembers(record, BEFORE_HASH).slice(1);
  const after = writeMembers(record, AFTER_HASH);
  const hash = sha256Hex(`{${before}${after}}`);
  return { text: `{${before},"record_hash":"${hash}"${after}}`, hash };
}

/** Every member that a record can have, `record_hash` left out. */
export const RECORD_MEMBERS: readonly Member[] = [...BEFORE_HASH, ...AFTER_HASH].map(([name]) => name as Member);
