/* Lists that come in pages (specification, "Gateway admin API": `limit`, `page_token`, `{items, next_page_token}`). */
import { z } from 'zod';
import type { EntitiesPage, PageQuery } from '../services/registers/entity-page.ts';

const MAX = 500;
const LIMIT_RULE = `must be a whole number from 1 to ${MAX}`;
const TOKEN_RULE = 'must be the next_page_token of an earlier page';

interface PageParameters {
  readonly limit: z.ZodType<number, string | undefined>;
  readonly page_token: z.ZodOptional<z.ZodString>;
}

/** How many items a page has at most. @param usual what it is when it is left out */
export function pageLimit(usual: number): z.ZodType<number, string | undefined> {
  return z
    .string()
    .regex(/^\d{1,3}$/, LIMIT_RULE)
    .transform(Number)
    .refine((limit) => limit >= 1 && limit <= MAX, LIMIT_RULE)
    .default(usual)
    .meta({ type: 'integer', minimum: 1, maximum: MAX, default: usual });
}

/** The parameters of a page. @param usual what `limit` is when it is left out */
export function pageParameters(usual: number): PageParameters {
  return {
    limit: pageLimit(usual),
    page_token: z
      .string()
      .regex(/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/, TOKEN_RULE)
      .optional(),
  };
}

/** The schema of a page. */
export function page<T extends z.ZodType>(item: T): z.ZodObject<{ items: z.ZodArray<T>; next_page_token: z.ZodNullable<z.ZodString> }> {
  return z.object({ items: z.array(item), next_page_token: z.string().nullable().meta({ description: 'null: this is the last page' }) });
}

export function pageQuery({ limit, page_token: after }: { limit: number; page_token?: string | undefined }): PageQuery {
  return { limit, after };
}

export function shownPage<T>({ items, next }: EntitiesPage<T>): { items: readonly T[]; next_page_token: string | null } {
  return { items, next_page_token: next ?? null };
}
