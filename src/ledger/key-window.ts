import type { JsonObject } from '../base/json/json-object.ts';
import { parseTime, timestamp } from '../base/lib/clock.ts';
import { LedgerError } from './ledger-error.ts';

/**
 * When a key of the ledger signs (decision 13.18): from its beginning, and before its end. Milliseconds since the
 * epoch.
 */
export interface KeyWindow {
  /** Undefined: from the first root on. */
  readonly notBefore: number | undefined;
  /** Undefined: it has not ended. */
  readonly notAfter: number | undefined;
}

/** A key that signs whenever it is asked to. */
export const ALWAYS: KeyWindow = { notBefore: undefined, notAfter: undefined };

/** The window of a listed key; neither member has to be there. @throws LedgerError */
export function windowIn(entry: JsonObject, what: string): KeyWindow {
  const window = { notBefore: timeIn(entry, 'not_before', what), notAfter: timeIn(entry, 'not_after', what) };
  if (window.notBefore !== undefined && window.notAfter !== undefined && window.notAfter < window.notBefore)
    throw new LedgerError(`${what}: not_after is before not_before`);
  return window;
}

/** The members of a listed key that say its window; none for what is open. */
export function windowMembers({ notBefore, notAfter }: KeyWindow): { readonly not_before?: string; readonly not_after?: string } {
  return {
    ...(notBefore === undefined ? {} : { not_before: timestamp(notBefore) }),
    ...(notAfter === undefined ? {} : { not_after: timestamp(notAfter) }),
  };
}

/**
 * That a key has signed while it was its turn.
 * @param closedAt of the root, RFC 3339
 * @param what names the root
 * @throws LedgerError
 */
export function checkWindow({ notBefore, notAfter }: KeyWindow, kid: string, closedAt: string, what: string): void {
  if (notBefore === undefined && notAfter === undefined) return;
  const at = parseTime(closedAt);
  if (at === undefined) throw new LedgerError(`${what}: closed_at is no time, and its key (${kid}) does not sign at any time`);
  if (notBefore !== undefined && at < notBefore)
    throw new LedgerError(`${what}: it was closed at ${closedAt}, and its key (${kid}) signs from ${timestamp(notBefore)} on`);
  if (notAfter !== undefined && at >= notAfter)
    throw new LedgerError(`${what}: it was closed at ${closedAt}, and its key (${kid}) was retired at ${timestamp(notAfter)}`);
}

/**
 * That no retired key signs behind its successor, whatever time it claims.
 * @param keyedFrom when the newest key that has signed the chain so far began, RFC 3339; undefined: it is not known
 * @returns the same with this root
 * @throws LedgerError
 */
export function keyedOn(keyedFrom: string | undefined, { notBefore, notAfter }: KeyWindow, kid: string, what: string): string | undefined {
  const before = keyedFrom === undefined ? undefined : parseTime(keyedFrom);
  if (before !== undefined && notAfter !== undefined && notAfter <= before)
    throw new LedgerError(`${what}: its key (${kid}) was retired at ${timestamp(notAfter)}, and a root before it is signed by a later key`);
  return notBefore === undefined || (before !== undefined && before >= notBefore) ? keyedFrom : timestamp(notBefore);
}

function timeIn(entry: JsonObject, name: string, what: string): number | undefined {
  const value = entry[name];
  if (value === undefined) return undefined;
  const at = typeof value === 'string' ? parseTime(value) : undefined;
  if (at === undefined) throw new LedgerError(`${what}: ${name} is no time, as RFC 3339 writes it`);
  return at;
}
