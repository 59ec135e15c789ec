/*
 * What is written of a workload: whole, as a control plane and its gateways hand it on, or what changes of one that may
 * be there.
 */
import { z } from 'zod';
import { isJsonObject } from '../base/json/json-object.ts';
import type { Attribution } from '../base/model/action-request.ts';
import { CONNECTION_TYPES } from '../base/model/action-request.ts';
import type { Workload } from '../base/model/workload.ts';
import { choice, id, members, optional, orNothing, requiredId, text } from './members.ts';
import { type Issue, readBody } from './read-input.ts';

const MAX_LABELS = 32;

/**
 * Read by hand: an object of zod's would lose a label that is called `__proto__`.
 * @param takesNull whether a label may be `null`
 */
function labelsOf<T>(takesNull: boolean, read: (label: unknown) => T) {
  return z
    .unknown()
    .superRefine((value, { addIssue }) => {
      if (value === undefined) return;
      if (!isJsonObject(value)) return addIssue({ code: 'custom', message: 'must be an object' });
      const entries = Object.entries(value);
      if (entries.length > MAX_LABELS) addIssue({ code: 'custom', message: `at most ${MAX_LABELS} labels` });
      for (const [name, label] of entries) {
        const mistakes = [...mistakesIn(name), ...(takesNull && label === null ? [] : mistakesIn(label))];
        for (const { message } of mistakes.slice(0, 1)) addIssue({ code: 'custom', message, path: [name] });
      }
    })
    .meta({ type: 'object', maxProperties: MAX_LABELS, additionalProperties: { type: 'string', maxLength: 256 } })
    .transform((value) => Object.fromEntries(Object.entries(isJsonObject(value) ? value : {}).map(([name, label]) => [name, read(label)])));
}

function mistakesIn(value: unknown): readonly Issue[] {
  return text.safeParse(value).error?.issues ?? [];
}

const connectionTypes = z.array(choice(CONNECTION_TYPES), 'must be a list');

/** A whole workload. */
export const WORKLOAD_BODY = members({
  workload_id: requiredId(),
  org_id: id.optional(),
  name: text.optional(),
  allowed_connection_types: connectionTypes.optional(),
  default_attribution: members({
    customer_id: text.optional(),
    account_id: text.optional(),
    project_id: text.optional(),
    labels: labelsOf(false, String).optional(),
  }).optional(),
});

/** What changes of a workload: what is left out stays, `null` takes it away (RFC 7396). */
export const WORKLOAD_CHANGE = members({
  workload_id: requiredId(),
  org_id: id.optional(),
  name: orNothing(text).optional(),
  allowed_connection_types: connectionTypes.nullable().optional(),
  default_attribution: members({
    customer_id: orNothing(text).optional(),
    account_id: orNothing(text).optional(),
    project_id: orNothing(text).optional(),
    labels: labelsOf(true, (label) => (label === null ? null : String(label)))
      .nullable()
      .optional(),
  })
    .nullable()
    .optional(),
});

/** A workload as it is handed on. @throws GatewayError `invalid_request` */
export function parseWorkload(body: unknown): Workload {
  const { default_attribution: attribution, ...given } = readBody({ schema: WORKLOAD_BODY, what: 'The workload' }, body);
  return changedWorkload(undefined, { ...given, default_attribution: attribution }, given.org_id);
}

/**
 * What becomes of a workload by a change.
 * @param current undefined: there is none yet
 * @param orgId the one org that it counts for; undefined: every org
 */
export function changedWorkload(
  current: Workload | undefined,
  { workload_id, name, allowed_connection_types: doors, default_attribution: attribution }: z.output<typeof WORKLOAD_CHANGE>,
  orgId: string | undefined,
): Workload {
  return {
    workload_id,
    ...optional('org_id', orgId),
    ...optional('name', changed(current?.name, name)),
    ...optional('allowed_connection_types', changed(current?.allowed_connection_types, doors)),
    ...optional('default_attribution', attribution === null ? undefined : changedAttribution(current?.default_attribution, attribution)),
  };
}

type AttributionChange = NonNullable<z.output<typeof WORKLOAD_CHANGE>['default_attribution']>;

function changedAttribution(current: Attribution | undefined, change: AttributionChange | undefined): Attribution | undefined {
  if (change === undefined) return current;
  return {
    ...optional('customer_id', changed(current?.customer_id, change.customer_id)),
    ...optional('account_id', changed(current?.account_id, change.account_id)),
    ...optional('project_id', changed(current?.project_id, change.project_id)),
    ...optional('labels', change.labels === null ? undefined : changedLabels(current?.labels, change.labels)),
  };
}

function changedLabels(current: Attribution['labels'], change: Readonly<Record<string, string | null>> | undefined): Attribution['labels'] {
  if (change === undefined) return current;
  const labels = new Map<string, string | null>([...Object.entries(current ?? {}), ...Object.entries(change)]);
  return Object.fromEntries([...labels].flatMap(([name, label]) => (label === null ? [] : [[name, label]])));
}

/** Null takes away what is there. */
function changed<T>(current: T | undefined, given: T | null | undefined): T | undefined {
  return given === undefined ? current : (given ?? undefined);
}
