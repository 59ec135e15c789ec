/*
 * Ids that a person has shortened (decision 10.17): the gateway takes whole ones alone, so what it does not know is
 * looked for among what it lists, its beginning or, of ids that begin with a time, its end.
 */
import { isJsonObject } from '../../base/json/json-object.ts';
import { systemClock } from '../../base/lib/clock.ts';
import { entryOf, type GatewayOperation } from '../../operations/operation.ts';
import { type CliIo, GatewayRefusal, Unusable } from '../command.ts';
import { terminalText } from '../terminal-text.ts';
import { listText } from './answer-text.ts';
import { ID_ARGUMENTS, LISTS } from './command-tables.ts';
import type { Arguments, ManagementClient } from './management-client.ts';
import { isUuid, namedColumn } from './table-cells.ts';

type Json = Readonly<Record<string, unknown>>;

/** Things that are looked through for one id. */
export const MOST_LOOKED_THROUGH = 5_000;
const AT_ONCE = 500;
/** Characters: a shorter one is no id of anybody. */
const SHORTEST = 4;
/** Candidates that are shown. */
const SHOWN = 10;

/** What may be meant, and how it is shown. */
export interface IdSearch {
  /** As it was typed. */
  readonly short: string;
  /** The list whose things are looked through, by its operation. */
  readonly list: string;
  /** Who changes something with it means one thing for certain: the list must have been read to its end. */
  readonly changes: boolean;
  /** What is removed is named whole, where people have chosen its name. */
  readonly removes: boolean;
  /** Of the list, one with the heading `id`; left out: those that the commands of management show. */
  readonly columns?: readonly string[];
}

/**
 * The whole id of what a person means.
 * @param pages of the list, to its end or to {@link MOST_LOOKED_THROUGH} things @param io whose terminal shows
 * candidates
 * @returns undefined where nothing is called so, or one thing has exactly that id
 * @throws Unusable where several are meant, or not all could be looked through; it lists the candidates
 */
export async function wholeId(search: IdSearch, pages: AsyncIterable<readonly unknown[]>, io: CliIo): Promise<string | undefined> {
  const { list, changes, removes } = search;
  // As it is copied from a cell that was cut, or from a document.
  const short = search.short.replace(/(?:…|\.\.\.)$/, '');
  if (short.length < SHORTEST) return undefined;
  const columns = search.columns ?? LISTS[list]?.columns ?? [];
  const { id } = idMembers(list, columns);
  const { items, seen } = await lookThrough({ ...search, short, columns }, pages);
  const [only] = items;
  if (only === undefined || items.some((item) => item[id] === short)) return undefined;
  if (items.length > 1) throw new Unusable(`${terminalText(short)} is short for several:\n${candidates(items, columns, io)}`);
  if (changes && seen >= MOST_LOOKED_THROUGH)
    throw new Unusable(
      `${terminalText(short)} is short for one of the ${seen} newest, and there are more: give its whole id\n${candidates(items, columns, io)}`,
    );
  const whole = String(only[id]);
  if (removes && !isUuid(whole))
    throw new Unusable(`nothing is called ${terminalText(short)}; what is removed is named whole, such as ${terminalText(whole)}`);
  return whole;
}

/** What is called so, and how many things were looked at. */
async function lookThrough(
  { short, list, columns }: IdSearch & { readonly columns: readonly string[] },
  pages: AsyncIterable<readonly unknown[]>,
): Promise<{ readonly items: readonly Json[]; readonly seen: number }> {
  const { id, also } = idMembers(list, columns);
  const items: Json[] = [];
  let seen = 0;
  for await (const page of pages) {
    items.push(...page.filter(isJsonObject).filter((item) => [id, ...also].some((member) => isShortOf(short, item[member]))));
    seen += page.length;
    if (seen >= MOST_LOOKED_THROUGH) break;
  }
  return { items, seen };
}

/** Who is asked, what there is to ask, and whose terminal shows candidates. */
interface Ground {
  readonly client: ManagementClient;
  readonly operations: readonly GatewayOperation[];
  readonly io: CliIo;
}

/**
 * What is asked with an id that the gateway does not know is asked once more with the one that it is short for.
 * @throws as `ManagementClient.text`; Unusable
 */
export async function textByShortId(
  operation: GatewayOperation,
  args: Arguments,
  headers: Readonly<Record<string, string>>,
  ground: Ground,
): Promise<string> {
  const { client, operations } = ground;
  const named = await wholeArguments(args, !operation.annotations.readOnly, ground);
  try {
    return await client.text(operation, named, headers);
  } catch (error) {
    const place = error instanceof GatewayRefusal && error.status === 404 ? placeOf(operation, operations) : undefined;
    const short = place === undefined ? undefined : named[place.parameter];
    if (place === undefined || typeof short !== 'string') throw error;
    const search = { short, list: place.list, changes: !operation.annotations.readOnly, removes: operation.method === 'DELETE' };
    const whole = await found(search, ground, error);
    if (whole === undefined) throw error;
    return client.text(operation, { ...named, [place.parameter]: whole }, headers);
  }
}

/** The first error is what is told where the list may not be read. */
async function found(search: IdSearch, { client, operations, io }: Ground, error: unknown): Promise<string | undefined> {
  try {
    return await wholeId(search, pagesOf(search.list, client, operations), io);
  } catch (other) {
    throw other instanceof GatewayRefusal ? error : other;
  }
}

/** Arguments that are ids of something listed: `--channel-id`, `--record-id`. What is no id of ours stays as it is. */
async function wholeArguments(args: Arguments, changes: boolean, { client, operations, io }: Ground): Promise<Arguments> {
  const made: Record<string, unknown> = { ...args };
  for (const [name, list] of Object.entries(ID_ARGUMENTS)) {
    const short = args[name];
    if (typeof short !== 'string' || !/^[0-9a-f-]{4,35}$/.test(short)) continue;
    const whole = await wholeId({ short, list, changes, removes: false }, pagesOf(list, client, operations), io);
    if (whole !== undefined) made[name] = whole;
  }
  return made;
}

/** Pages for {@link wholeId}. */
export function pagesOf(
  list: string,
  client: ManagementClient,
  operations: readonly GatewayOperation[],
): AsyncIterable<readonly unknown[]> {
  return client.pages(entryOf(operations, list), { limit: AT_ONCE, ...LISTS[list]?.all });
}

/** Where the id of an operation stands in its path, and where such things are listed. */
function placeOf({ path }: GatewayOperation, operations: readonly GatewayOperation[]): { parameter: string; list: string } | undefined {
  const parts = path.split('/{');
  const [collection, rest = ''] = parts;
  if (parts.length !== 2) return undefined;
  const list = operations.find((one) => one.method === 'GET' && one.path === collection && LISTS[one.id]?.columns !== undefined);
  return list === undefined ? undefined : { parameter: rest.slice(0, rest.indexOf('}')), list: list.id };
}

/** Which member of an item is its id, and which others name it as well. */
function idMembers(list: string, columns: readonly string[]): { readonly id: string; readonly also: readonly string[] } {
  const also = LISTS[list]?.alsoNamedBy ?? [];
  const column = columns.map(namedColumn).find(({ heading }) => heading === 'id');
  return { id: column?.parts[0]?.[0] ?? 'id', also };
}

/**
 * The whole id of one that a table has shortened, of a list that is read with the admin token; else what was typed, of
 * which the gateway says what it knows.
 * @param columns of the list, one with the heading `id` @throws as {@link wholeId}
 */
export async function wholeIdAmong(items: readonly unknown[], columns: readonly string[], typed: string, io: CliIo): Promise<string> {
  const one = async function* (): AsyncGenerator<readonly unknown[]> {
    yield items;
  };
  return (await wholeId({ short: typed, list: '', changes: false, removes: true, columns }, one(), io)) ?? typed;
}

function isShortOf(short: string, whole: unknown): boolean {
  if (typeof whole !== 'string') return false;
  return whole.startsWith(short) || (isUuid(whole) && whole.endsWith(short));
}

/** Those that may be meant, with what tells them apart. */
function candidates(items: readonly Json[], columns: readonly string[], io: CliIo): string {
  const facts = { things: '', columns, view: { width: io.columns, now: systemClock.now() } };
  const more = items.length - SHOWN;
  return `${listText(items.slice(0, SHOWN), facts).trimEnd()}${more > 0 ? `\nand ${more} more` : ''}`;
}
