/*
 * What an error of the database means: whether a batch is tried again, is at fault itself, or cannot be stored; and why
 * a store does not open, in one line for the operator that names neither password nor URL.
 */
import { codeOf, GatewayError, messageOf } from '../../base/lib/gateway-error.ts';
import { StoreError } from '../contract/store.ts';

/** Deadlock, and a transaction that could not be made to look as if it had been alone. */
const AGAIN = new Set(['40001', '40P01']);
/** Classes that tell of the values themselves: data, constraints, limits of the program. */
const OF_VALUES = /^(22|23|54)[0-9A-Z]{3}$/;
const NO_PARTITION = '23514';
const SQLSTATE = /^[0-9A-Z]{5}$/;

/** By these the server says farewell, whatever the statement was. Severities would say so too, but are translated. */
const FAREWELL = /^(08|57P|58|XX)|^25P0[34]$/;

/** The server has answered, and says that this statement did not take place; the connection is as good as before. */
export function isRefusal(error: unknown): boolean {
  const code = codeOf(error);
  return error instanceof Error && 'severity' in error && SQLSTATE.test(code) && !FAREWELL.test(code);
}

/** The same transaction may well succeed when it is tried once more. */
export function isPassing(error: unknown): boolean {
  return AGAIN.has(codeOf(error));
}

/** Something about the values that were to be stored. */
export function isOfValues(error: unknown): boolean {
  return isRefusal(error) && OF_VALUES.test(codeOf(error));
}

/** A record belongs to a month that has no partition, or has none any more. */
export function isWithoutPartition(error: unknown): boolean {
  return isRefusal(error) && codeOf(error) === NO_PARTITION;
}

/** What a read rejects with that the database did not answer. */
export function unreadable(cause: unknown): GatewayError {
  return new GatewayError('record_store_unavailable', `The record store cannot be read: ${messageOf(cause)}`, { cause });
}

/** Where a store is, for messages: never the password. */
export interface DatabaseName {
  readonly host: string;
  readonly port: string;
  readonly database: string;
  readonly user: string;
}

/** By SQLSTATE or by code of the system: what is wrong, and what to do. */
const REASONS: Readonly<Record<string, (name: DatabaseName, message: string) => string>> = {
  '28P01': ({ user, host }) => `PostgreSQL at ${host} refuses the password of ${user}: correct user and password in the URL`,
  '28000': ({ user, host }, message) => `PostgreSQL at ${host} does not let ${user} in (${message}): allow it in pg_hba.conf`,
  '3D000': ({ database, host }) => `PostgreSQL at ${host} has no database ${database}: create it with createdb, or name another one`,
  '42501': ({ user, database }, message) =>
    `the user ${user} lacks a privilege in the database ${database} (${message}): GRANT USAGE, CREATE ON SCHEMA to it, or let it own the tables`,
  '3F000': ({ database }) => `the database ${database} has no schema to create tables in: set search_path of the user to one that exists`,
  '53300': ({ host }) => `PostgreSQL at ${host} has no connection left: raise max_connections, or put a pooler between`,
  '57P03': ({ host }) => `PostgreSQL at ${host} is starting or stopping: try again when it accepts connections`,
  '25006': ({ host }) => `PostgreSQL at ${host} takes no writes: name the primary, not a standby`,
  ECONNREFUSED: ({ host, port }) => `nothing listens at ${host} port ${port}: start PostgreSQL there, or correct host and port in the URL`,
  ENOENT: ({ host }) => `there is no socket of PostgreSQL in ${host}: start PostgreSQL, or correct the folder`,
  ENOTFOUND: ({ host }) => `the host ${host} has no address: correct it in the URL`,
  EAI_AGAIN: ({ host }) => `the address of the host ${host} cannot be looked up at the moment: see to name resolution`,
  EHOSTUNREACH: ({ host }) => `there is no way to the host ${host}: see to the network`,
  ENETUNREACH: ({ host }) => `there is no way to the host ${host}: see to the network`,
  ETIMEDOUT: ({ host, port }) => `${host} port ${port} does not answer: see to firewall and address`,
};

/** Why the store did not open, as one line. What is one already stays as it is. */
export function openingError(error: unknown, name: DatabaseName): Error {
  if (error instanceof StoreError || error instanceof OpeningRefused) return error;
  const reason = REASONS[codeOf(error)] ?? REASONS[codeOf(innerOf(error))];
  const { host, port, database } = name;
  const message = firstLine(messageOf(error));
  if (reason !== undefined) return new OpeningRefused(reason(name, message), { cause: error });
  if (/time(d )?out/i.test(message)) return new OpeningRefused(`${host} port ${port} does not answer: see to firewall and address`);
  return new OpeningRefused(`the database ${database} at ${host} port ${port} cannot be opened: ${message}`, { cause: error });
}

/** An opening that was refused, in one line that says what to do. */
export class OpeningRefused extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'OpeningRefused';
  }
}

/** A name with several addresses fails with an error for each. */
function innerOf(error: unknown): unknown {
  return error instanceof AggregateError ? error.errors[0] : error instanceof Error ? error.cause : undefined;
}

function firstLine(text: string): string {
  return text.split('\n', 1)[0] ?? '';
}
