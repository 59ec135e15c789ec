/* What several answers are made of. */
import { z } from 'zod';

/** Dollars as all amounts are told (decision 8.8). */
export const usd = z.string().meta({ description: 'US dollars, decimal text', examples: ['0.0000117'] });
/** As `timestamp` writes it. */
export const time = z.string().meta({ description: 'RFC 3339, UTC, milliseconds', examples: ['2026-11-21T12:00:00.000Z'] });
export const count = z.int().min(0);
export const month = z.string().meta({ description: 'A month in UTC', examples: ['2026-11'] });

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
