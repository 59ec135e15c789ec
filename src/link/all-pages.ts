import { GatewayError, messageOf } from '../base/lib/gateway-error.ts';

/** Entries of one kind that a gateway takes. */
const MAX_ENTRIES = 10_000;
/** Pages that may be empty of what is for this node. */
const MAX_PAGES = 1_000;
/** Of a set that changes while it is read. */
const ATTEMPTS = 5;

/** One answer of many. */
export interface FetchedPage<T> {
  readonly version: string;
  readonly entries: readonly T[];
  /** Empty: this is the last. */
  readonly next: string;
}

/** A whole set, all of one version. */
export interface FetchedSet<T> {
  readonly version: string;
  readonly entries: readonly T[];
}

/**
 * Reads all pages of a set.
 * @throws Error when it is larger than is taken, has no end, or changes all the time; and what `read` throws
 */
export async function allPages<T>(what: string, read: (cursor: string) => Promise<FetchedPage<T>>): Promise<FetchedSet<T>> {
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const found = await oneReading(what, read);
    if (found !== undefined) return found;
  }
  throw new Error(`the ${what} of the control plane changed while they were read, ${ATTEMPTS} times`);
}

/** Undefined: it has changed meanwhile. */
async function oneReading<T>(what: string, read: (cursor: string) => Promise<FetchedPage<T>>): Promise<FetchedSet<T> | undefined> {
  const entries: T[] = [];
  let version: string | undefined;
  let cursor = '';
  for (let pages = 0; pages < MAX_PAGES; pages++) {
    const page = await read(cursor);
    version ??= page.version;
    if (page.version !== version) return undefined;
    entries.push(...page.entries);
    if (entries.length > MAX_ENTRIES) throw new Error(`the control plane has more than ${MAX_ENTRIES} ${what}, and no more are taken`);
    if (page.next === '') return { version, entries };
    cursor = page.next;
  }
  throw new Error(`the ${what} of the control plane have no end after ${MAX_PAGES} pages`);
}

/** What stands in an entry. @throws Error when it is no JSON */
export function entryJson(what: string, text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new Error(`a ${what} of the control plane is no JSON`, { cause: error });
  }
}

/**
 * Judges the entries of a set. One that is wrong is the end of all: what is in force is never half of a set.
 * @param idOf what an entry is called, in a complaint
 * @throws Error that names the entry and its mistakes, and no secret
 */
export function checkedEntries<T, V>(
  what: string,
  entries: readonly T[],
  { idOf, check, keyOf }: { readonly idOf: (entry: T) => unknown; readonly check: (entry: T) => V; readonly keyOf: (value: V) => string },
): readonly V[] {
  const seen = new Set<string>();
  return entries.map((entry) => {
    try {
      const value = check(entry);
      if (seen.has(keyOf(value))) throw new Error('it is there twice');
      seen.add(keyOf(value));
      return value;
    } catch (error) {
      throw new Error(
        `the ${what} ${JSON.stringify(idOf(entry) ?? null)} of the control plane is refused, and nothing of this fetch is taken: ${reasonOf(error)}`,
        { cause: error },
      );
    }
  });
}

function reasonOf(error: unknown): string {
  if (!(error instanceof GatewayError) || error.details === undefined) return messageOf(error);
  return error.details.map(({ path, message }) => (path === '' ? message : `${path} ${message}`)).join('; ');
}
