/* What several answers are made of. */
import { z } from 'zod';
import { parseTime } from '../base/lib/clock.ts';

const TO_COME_RULE = 'must be a time to come, as RFC 3339 writes it';

/** Dollars as all amounts are told (decision 8.8). */
export const usd = z.string().meta({ description: 'US dollars, decimal text', examples: ['0.0000117'] });
/** As `timestamp` writes it. */
export const time = z.string().meta({ description: 'RFC 3339, UTC, milliseconds', examples: ['2026-11-21T12:00:00.000Z'] });
/** What a node has not carried into the database that it shares. */
export const BACKLOG = z.object({
  records: z.int(),
  seconds: z.int().meta({ description: 'Since when the oldest of it waits' }),
});
/** A time of a body that is not over. @param now asked when one comes, epoch milliseconds */
export function timeToCome(now: () => number): z.ZodString {
  return z
    .string(TO_COME_RULE)
    .refine((value) => (parseTime(value) ?? 0) > now(), TO_COME_RULE)
    .meta({ format: 'date-time' });
}

const TIME_RULE = 'must be a time, as RFC 3339 writes it';
/** A time of a query. */
export const moment: z.ZodString = z
  .string()
  .refine((value) => parseTime(value) !== undefined, TIME_RULE)
  .meta({ format: 'date-time' });

export const count = z.int().min(0);
export const month = z.string().meta({ description: 'A month in UTC', examples: ['2026-11'] });

/** Of an item that is only read in lists. */
export const etag = z.string().meta({ description: 'Its ETag, for If-Match' });

/** The `{id}` of a path. */
export function pathId(description: string): z.ZodObject<{ id: z.ZodString }> {
  return z.object({ id: z.string().meta({ description }) });
}

export const attribution = z.object({
  customer_id: z.string().optional(),
  account_id: z.string().optional(),
  project_id: z.string().optional(),
  labels: z.record(z.string(), z.string()).optional(),
});

/** Who has done something. */
export const PRINCIPAL = z
  .object({
    kind: z.string(),
    id: z.string(),
    name: z.string().optional().meta({ description: 'Of the key' }),
    user_id: z.string().optional().meta({ description: 'Of a session of the console: the key that has signed in' }),
    program: z.string().optional().meta({ description: 'That holds the admin token' }),
    user: z.string().optional().meta({ description: 'Whom that program says that it works for; nobody has proven it' }),
  })
  .meta({ description: 'Who it was: a key, a session of the console, or the admin token' });

/** A mistake in what somebody wrote, with its place where it has one. */
export const PROBLEM: z.ZodObject<{
  path: z.ZodString;
  message: z.ZodString;
  file: z.ZodOptional<z.ZodString>;
  line: z.ZodOptional<z.ZodInt>;
  column: z.ZodOptional<z.ZodInt>;
  rule_id: z.ZodOptional<z.ZodString>;
  code: z.ZodOptional<z.ZodString>;
  hint: z.ZodOptional<z.ZodString>;
}> = z.object({
  path: z.string(),
  message: z.string(),
  file: z.string().optional(),
  line: z.int().optional(),
  column: z.int().optional(),
  rule_id: z.string().optional(),
  code: z.string().optional(),
  hint: z.string().optional(),
});
