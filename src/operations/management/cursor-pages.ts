/*
 * Lists of the management API (specification, "Management API": `limit`, `cursor`, `{data, next_cursor, has_more}`;
 * "Limits").
 */
import { z } from 'zod';
import { isJsonObject } from '../../base/json/json-object.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import { REPORT_BOUNDS } from '../../base/model/work-bounds.ts';
import type { EntitiesPage } from '../../services/registers/entity-page.ts';
import { pageLimit } from '../pages.ts';

const USUAL = 50;
/** Of one page, as JSON. */
const MAX_BYTES = REPORT_BOUNDS.pageBytes.one;
const CURSOR_RULE = 'must be the next_cursor of an earlier page of this list, asked with the same filters';
/** Hex digits of the hash that binds a cursor to its list and filters. */
const BOUND_DIGITS = 12;

interface CursorParameters {
  readonly limit: z.ZodType<number, string | undefined>;
  readonly cursor: z.ZodOptional<z.ZodString>;
}

/** The parameters that every list takes, beside its filters. */
export const CURSOR_PARAMETERS: CursorParameters = { limit: pageLimit(USUAL), cursor: z.string().optional() };
/** Of a list that has no filters. */
export const CURSOR_QUERY: z.ZodObject<{ limit: CursorParameters['limit']; cursor: CursorParameters['cursor'] }, z.core.$strict> =
  z.strictObject({ ...CURSOR_PARAMETERS });

/** The schema of a page. */
export function dataPage<T extends z.ZodType>(
  item: T,
): z.ZodObject<{ data: z.ZodArray<T>; next_cursor: z.ZodNullable<z.ZodString>; has_more: z.ZodBoolean }> {
  return z.object({
    data: z.array(item),
    next_cursor: z.string().nullable().meta({ description: 'null: this is the last page' }),
    has_more: z.boolean(),
  });
}

export interface DataPage<T> {
  readonly data: readonly T[];
  readonly next_cursor: string | null;
  readonly has_more: boolean;
}

/** What a list is asked for. */
export interface CursorPage {
  readonly limit: number;
  /** What the service that lists calls the last item of the page before; undefined: from the beginning. */
  readonly after: string | undefined;
  /** The answer, from what the service gives. `next`: what the last item is called when more may come. */
  shown<T>(items: readonly T[], next: string | undefined): DataPage<T>;
}

/**
 * Reads the place where a page begins. A cursor is opaque, and good for its own list with the same filters alone.
 * @param list what no other list is called
 * @param query with `limit` and `cursor`; everything else in it is a filter
 * @throws GatewayError `invalid_request` for a cursor of something else
 */
export function cursorPage(list: string, query: { readonly limit: number; readonly cursor?: string | undefined }): CursorPage {
  const { limit, cursor, ...filters } = query;
  const bound = sha256Hex(JSON.stringify([list, Object.entries(filters).filter(([, value]) => value !== undefined)])).slice(
    0,
    BOUND_DIGITS,
  );
  return {
    limit,
    after: cursor === undefined ? undefined : placeIn(cursor, bound),
    shown: (items, next) => ({
      data: items,
      next_cursor: next === undefined ? null : cursorText(bound, next),
      has_more: next !== undefined,
    }),
  };
}

function cursorText(bound: string, place: string): string {
  return Buffer.from(JSON.stringify({ b: bound, a: place })).toString('base64url');
}

function placeIn(cursor: string, bound: string): string {
  try {
    const read: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString());
    if (isJsonObject(read) && read['b'] === bound && typeof read['a'] === 'string') return read['a'];
  } catch {
    // Told below.
  }
  throw badCursor();
}

/** Of a cursor that is none of this list's. */
export function badCursor(): GatewayError {
  return new GatewayError('invalid_request', 'The query has 1 bad parameter(s).', { details: [{ path: 'cursor', message: CURSOR_RULE }] });
}

/**
 * A page of a list that is in memory, in the order of its keys: what is added meanwhile neither repeats nor hides
 * anything.
 */
export function pageInMemory<T>(items: Iterable<T>, keyOf: (item: T) => string, page: CursorPage): DataPage<T> {
  const { limit, after } = page;
  const keyed = Array.from(items, (item) => ({ key: keyOf(item), item }));
  const rest = after === undefined ? keyed : keyed.filter(({ key }) => key > after);
  const shown = withinBytes(rest.sort((a, b) => (a.key < b.key ? -1 : 1)).slice(0, limit));
  const next = rest.length > shown.length ? shown.at(-1)?.key : undefined;
  return page.shown(
    shown.map(({ item }) => item),
    next,
  );
}

/** The first ones, at least one, that are not longer together than a page may be. */
function withinBytes<T>(keyed: readonly { readonly key: string; readonly item: T }[]): typeof keyed {
  let bytes = 0;
  const end = keyed.findIndex(({ item }, at) => {
    bytes += JSON.stringify(item).length;
    return at > 0 && bytes > MAX_BYTES;
  });
  return end < 0 ? keyed : keyed.slice(0, end);
}

/** A page of entities as services give it. */
export function pageOfEntities<T>({ items, next }: EntitiesPage<T>, page: CursorPage): DataPage<T> {
  return page.shown(items, next);
}
