/* What several operations of the control plane take and answer. */
import { z } from 'zod';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { id } from '../../operations/members.ts';

/** The `{org}` of a path. */
export const org: z.ZodString = id.meta({ description: 'Org id' });

/** A path below an org. */
export const ofOrg: z.ZodObject<{ org: z.ZodString }> = z.object({ org });

/** A path of one thing of an org. */
export function oneOfOrg(description: string): z.ZodObject<{ org: z.ZodString; id: z.ZodString }> {
  return z.object({ org, id: id.meta({ description }) });
}

/** A collection. */
export function dataOf<T extends z.ZodType>(item: T): z.ZodObject<{ data: z.ZodArray<T> }> {
  return z.object({ data: z.array(item) });
}

export const REMOVED: z.ZodObject<{ id: z.ZodString; status: z.ZodLiteral<'deleted'> }> = z.object({
  id: z.string(),
  status: z.literal('deleted'),
});

/** @param what in words, such as `bundle of the org acme` */
export function noSuch(what: string): GatewayError {
  return new GatewayError('not_found', `There is no ${what}.`);
}
