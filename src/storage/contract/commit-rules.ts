/*
 * The rules of the contract that every driver holds a commit against, and the errors that all of them answer with: what
 * is allowed does not depend on where it is stored.
 */
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { KnownNames } from '../../base/lib/known-names.ts';
import type { RecordMembers } from './record-query.ts';
import type { RecordCommit } from './store.ts';

/** Names and amounts of one addition. */
export type CheckedAmounts = readonly (readonly [name: string, amount: bigint])[];

const RECORD_ID = /^[\x21-\x7e]{1,128}$/;
const RECORD_HASH = /^[0-9a-f]{64}$/;
const KEY = /^[\x01-\x7f]+$/;

/** @throws TypeError that says what is wrong */
export function checkRecord(record: RecordCommit): void {
  if (!RECORD_ID.test(record.record_id)) throw new TypeError('A record id is 1 to 128 visible ASCII characters');
  if (!RECORD_HASH.test(record.record_hash)) throw new TypeError('A record hash is 64 lower-case hexadecimal digits');
  if (!Number.isFinite(record.committed_at)) throw new TypeError('committed_at is milliseconds since the epoch');
  if (typeof record.text !== 'string' || record.text === '') throw new TypeError('A record has a text');
}

/** Whether something can be kept under a key, or in a space, of this name. */
export function isKey(text: string): boolean {
  return KEY.test(text);
}

/** @throws TypeError for a space or a key that the contract does not allow */
export function checkKey(space: string, key: string): void {
  if (!KEY.test(key) || !KEY.test(space)) throw notAllowed();
}

/** A commit fails with this when it names a space or a key that cannot be. */
export function notAllowed(): TypeError {
  return new TypeError('A space and a key are ASCII without NUL and not empty');
}

/** Whether an amount may have a name: there are few names, and each commit has most of them. */
const amountNames = new KnownNames<boolean>();

/** A copy of the amounts. @throws TypeError for a name or an amount that cannot be */
export function checkedAmounts(given: Readonly<Record<string, bigint>>): CheckedAmounts {
  const amounts = Object.entries(given);
  for (const [name, amount] of amounts) {
    const isAllowed = amountNames.found.get(name) ?? amountNames.learn(name, (own) => KEY.test(own));
    if (!isAllowed || typeof amount !== 'bigint') throw new TypeError('A counter has an ASCII name and a bigint amount');
  }
  return amounts;
}

/** The text that is kept of an entity's value. @throws TypeError for what is no JSON data */
export function entityText(value: unknown): string {
  const text: unknown = JSON.stringify(value);
  if (typeof text !== 'string') throw new TypeError('The value of an entity is JSON data');
  return text;
}

/** The members of a record's text; none when it is no JSON object. */
export function membersOf(text: string): RecordMembers {
  try {
    const record: unknown = JSON.parse(text);
    return typeof record === 'object' && record !== null ? record : {};
  } catch {
    return {};
  }
}

/** A commit fails with this when a record has its record's id already. */
export function recordExists(): GatewayError {
  return new GatewayError('conflict', 'A record with this id exists');
}

/** A commit fails with this when one of its expectations is not true. */
export function notAsExpected(): GatewayError {
  return new GatewayError('conflict', 'An entity is not, or not any more, what the commit expects');
}

/** A commit fails with this when it was not stored (decision 7.10). */
export function unavailable(cause?: unknown): GatewayError {
  const why = cause instanceof Error ? `: ${cause.message}` : '';
  return new GatewayError('record_store_unavailable', `The record store cannot be written${why}`, cause === undefined ? {} : { cause });
}
