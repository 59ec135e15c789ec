import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import { isJsonObject } from '../../base/json/json-object.ts';
import type { GivenList } from './list-sources.ts';

/** Where the list is kept that was taken last; there is one for all orgs. */
export const PRICE_LIST_SPACE = 'price_list';
export const PRICE_LIST_KEY = 'taken';

/** A list that came into force and is kept (decision 6.16). */
export interface TakenList {
  /** As it was published: gzip, in base64. */
  readonly text: string;
  /** What is in force of it, in the same form: with the old value of what is held. Absent: nothing is. */
  readonly kept?: string;
  /** Of the published text, lower-case hex. */
  readonly sha256: string;
  readonly version?: string;
  /** The day that it is of: `2026-11-21`. */
  readonly date: string;
  readonly kind: GivenList['kind'];
  /** Where it came from, for people. */
  readonly name: string;
  readonly taken_at: string;
  /** Who has taken it: the id of a principal, or of a node for what its setting says. */
  readonly taken_by: string;
  /** SHA-256 of the list that was shipped with the program that took it. */
  readonly over: string;
}

/** What is kept in the store. */
export interface StoredList {
  /** Another one for each change. */
  readonly revision: string;
  /** Absent: that of the package holds. */
  readonly list?: TakenList;
  /** What the source that the setting names had when it was taken: only what is new there is taken by itself. */
  readonly seen?: SeenSource;
}

export interface SeenSource {
  readonly name: string;
  /** Of the text, lower-case hex. */
  readonly sha256: string;
  readonly etag?: string;
}

const zip = promisify(gzip);
const unzip = promisify<Buffer, { maxOutputLength: number }, Buffer>(gunzip);
/** Rates that are kept make a list hardly longer than it was published. */
const MAX_TEXT_BYTES = 64 * 1024 * 1024;

export async function packed(text: string): Promise<string> {
  return (await zip(text)).toString('base64');
}

/** @throws Error for what `packed` has not made */
export async function unpacked(text: string): Promise<string> {
  return (await unzip(Buffer.from(text, 'base64'), { maxOutputLength: MAX_TEXT_BYTES })).toString('utf8');
}

/** What the store has; undefined for nothing, or what this program cannot have written. */
export function readStored(value: unknown): StoredList | undefined {
  return isJsonObject(value) && typeof value['revision'] === 'string' ? (value as unknown as StoredList) : undefined;
}
