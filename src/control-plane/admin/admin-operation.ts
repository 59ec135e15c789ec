/*
 * What the control plane's own table of operations stands on (decision 13.6). Routes, commands and the reference page
 * are faces of it.
 */
import { z } from 'zod';
import type { Clock } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { id } from '../../operations/members.ts';
import { type Inputs, type PlainEntry, plainOperation, type WebOperation } from '../../operations/operation.ts';
import type { AuditTrail } from '../../services/orgs/audit-trail.ts';
import type { ControlPlaneState } from '../state/control-plane-state.ts';

/** How the control plane is. */
export interface AdminHealth {
  /** `draining`: it is about to end, and takes nothing new. */
  readonly status: 'ok' | 'draining';
  readonly version: string;
  /** Gateways whose certificate counts. */
  readonly enrolled_nodes: number;
  /** Streams of updates that are open. */
  readonly open_streams: number;
  /** Hashes of all orgs that are under no root yet. */
  readonly pending_hashes: number;
  /** When the certificate of the gRPC port ends, RFC 3339. */
  readonly certificate_expires_at: string;
}

/** What the operations stand on. */
export interface AdminServices {
  readonly state: ControlPlaneState;
  readonly audit: Pick<AuditTrail, 'commitFor' | 'page'>;
  readonly clock: Pick<Clock, 'now'>;
  readonly health: () => AdminHealth;
}

/** An entry of the table. No rule of its schemas needs a service, so that a face which shows them has none. */
export interface AdminOperation extends Omit<WebOperation<AdminServices>, 'inputs'> {
  readonly inputs: () => Inputs;
}

/** No rule of a schema is asked where only its members are read. */
const ANY_SERVICES = {} as AdminServices;

/** Makes an entry; the types of its schemas reach its handler. */
export function adminOperation<P extends z.ZodObject, Q extends z.ZodObject, B extends z.ZodObject, O extends z.ZodType>(
  entry: PlainEntry<P, Q, B, O, AdminServices>,
): AdminOperation {
  const operation = plainOperation(entry);
  return { ...operation, inputs: () => operation.inputs(ANY_SERVICES) };
}

/* What several operations of the control plane take and answer. */

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

const SEQUENCE_RULE = 'must be a whole number from 1';
const AFTER_RULE = 'must be a whole number from 0';

/** The `sequence` of a root, in a query. */
export const sequence: z.ZodType<number, string> = z
  .string(SEQUENCE_RULE)
  .regex(/^[1-9]\d{0,14}$/, SEQUENCE_RULE)
  .transform(Number);

/** Of a list by the sequence of roots. @param most that one page has */
export function pageQuery(
  most: number,
): z.ZodObject<Record<'after' | 'limit', z.ZodType<number | undefined, string | undefined>>, z.core.$strict> {
  const rule = `must be a whole number from 1 to ${most}`;
  return z.strictObject({
    after: z
      .string()
      .regex(/^\d{1,15}$/, AFTER_RULE)
      .transform(Number)
      .optional()
      .meta({ type: 'integer', minimum: 0, description: 'The `sequence` behind which they begin; left out: all of them' }),
    limit: z
      .string()
      .regex(/^\d{1,3}$/, rule)
      .transform(Number)
      .refine((limit) => limit >= 1 && limit <= most, rule)
      .optional()
      .meta({ type: 'integer', minimum: 1, maximum: most, description: `Default ${most}` }),
  });
}
