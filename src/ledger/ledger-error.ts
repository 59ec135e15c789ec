import type { JsonObject } from '../base/json/json-object.ts';

/** What does not fit in something of the ledger: one line for a person. */
export class LedgerError extends Error {}

const HASH = /^[0-9a-f]{64}$/;
const MAX_TEXT = 256;

/** @throws LedgerError unless the member is exactly this text */
export function expectText(object: JsonObject, name: string, expected: string, what: string): void {
  if (object[name] !== expected) throw new LedgerError(`${what}: ${name} is not ${expected}`);
}

/** A short text that is not empty. @throws LedgerError */
export function textOf(object: JsonObject, name: string, what: string): string {
  const value = object[name];
  if (typeof value === 'string' && value !== '' && value.length <= MAX_TEXT) return value;
  throw new LedgerError(`${what}: ${name} is not a text of 1 to ${MAX_TEXT} characters`);
}

/** A whole number from `least` up that JSON readers agree on. @throws LedgerError */
export function wholeNumberOf(object: JsonObject, name: string, least: number, what: string): number {
  const value = object[name];
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= least) return value;
  throw new LedgerError(`${what}: ${name} is not a whole number from ${least} up`);
}

/** Lower-case hex SHA-256. @throws LedgerError */
export function hashOf(object: JsonObject, name: string, what: string): string {
  const value = object[name];
  if (typeof value === 'string' && HASH.test(value)) return value;
  throw new LedgerError(`${what}: ${name} is not 64 lower-case hexadecimal digits`);
}

/** A text as JSON. @param what it is, for the message @throws LedgerError */
export function jsonIn(text: string, what: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new LedgerError(`${what}: it is not JSON`, { cause: error });
  }
}
