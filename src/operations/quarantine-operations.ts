import { z } from 'zod';
import { GatewayError } from '../base/lib/gateway-error.ts';
import { CURSOR_PARAMETERS, cursorPage, dataPage, pageOfEntities } from './management/cursor-pages.ts';
import { orgOf } from './management/org-of.ts';
import { id, members, text } from './members.ts';
import { alike, entryOf, type GatewayOperation, operation, READS, REMOVES } from './operation.ts';
import { page, pageParameters, pageQuery, shownPage } from './pages.ts';
import { PRINCIPAL, pathId, time } from './shapes.ts';

const USUAL = 20;
const ACTIVE_RULE = 'must be true or false';

const FILTERS = {
  workload_id: text.optional(),
  active: z
    .enum(['true', 'false'], ACTIVE_RULE)
    .transform((value) => value === 'true')
    .optional()
    .meta({ type: 'boolean', description: 'Only those that hold somebody, or only those that were released' }),
};
const QUERY = z.strictObject({ org_id: id.optional(), ...FILTERS, ...pageParameters(USUAL) });
const CURSORED = z.strictObject({ ...FILTERS, ...CURSOR_PARAMETERS });

const BODY = members({
  released_by: text.min(1, 'must not be empty').optional().meta({
    description: 'For whom: kept as `released_by_note`; who releases, where the admin token asks',
  }),
});

const ENTRY = z.object({
  quarantine_id: z.string(),
  org_id: z.string(),
  workload_id: z.string(),
  caller_id: z
    .string()
    .optional()
    .meta({ description: 'Whom it holds; absent: everybody at `caller_ip`, and without that everybody of the workload' }),
  caller_ip: z.string().optional(),
  action_type: z.string(),
  reason: z.string(),
  reason_codes: z.array(z.string()),
  risk_score: z.number(),
  record_id: z.string().meta({ description: 'The call that made it' }),
  created_at: time,
  released_at: time.nullable().meta({ description: 'null while it is active' }),
  released_by: z
    .string()
    .nullable()
    .meta({ description: 'The name of the key, else its id; for the admin token what was given, else `admin`' }),
  released_by_principal: PRINCIPAL.optional(),
  released_by_note: z.string().optional().meta({ description: 'For whom that was, as it said itself' }),
});

/** Callers that policy has put aside (specification, "Quarantine entry"; decision 9.2). */
const ADMIN: readonly GatewayOperation[] = [
  operation({
    id: 'quarantine.list',
    method: 'GET',
    path: '/v1/admin/quarantine',
    scope: 'admin',
    summary: 'Entries of the quarantine, the newest first, released ones included; `org_id`, `workload_id` and `active` narrow them.',
    annotations: READS,
    input: { query: { schema: () => QUERY } },
    output: { status: 200, schema: page(ENTRY) },
    handle: async ({ query }, { quarantines }) => {
      const { org_id: orgId, workload_id: workloadId, active } = query;
      return { json: shownPage(await quarantines.page({ orgId, workloadId, active }, pageQuery(query))) };
    },
  }),
  operation({
    id: 'quarantine.release',
    method: 'POST',
    path: '/v1/admin/quarantine/{id}/release',
    scope: 'admin',
    summary: 'Releases whom an entry holds: from the next request on policy decides about him again.',
    annotations: { ...REMOVES, idempotent: false },
    errors: ['not_found', 'conflict'],
    input: { params: pathId('Quarantine id'), body: { schema: () => BODY, what: 'The release', optional: true } },
    output: { status: 200, schema: ENTRY },
    handle: async ({ principal, params: { id: name }, body, commit }, { quarantines }) => {
      const released = await quarantines.release(name, { principal, note: body.released_by }, commit);
      if (released === undefined) throw new GatewayError('not_found', `There is no quarantine entry ${name}.`);
      return { json: released };
    },
  }),
];

export const QUARANTINE_OPERATIONS: readonly GatewayOperation[] = [
  ...ADMIN,
  operation({
    id: 'mgmt.quarantine.list',
    method: 'GET',
    path: '/mgmt/v1/quarantine',
    scope: 'review',
    summary: 'Entries of the quarantine, the newest first, released ones included.',
    annotations: READS,
    tools: [{ name: 'list_quarantine', title: 'List quarantine entries' }],
    input: { query: { schema: () => CURSORED } },
    output: { status: 200, schema: dataPage(ENTRY) },
    handle: async ({ principal, query }, { quarantines }) => {
      const page = cursorPage('quarantine', query);
      const { workload_id: workloadId, active } = query;
      return { json: pageOfEntities(await quarantines.page({ orgId: orgOf(principal), workloadId, active }, page), page) };
    },
  }),
  alike(entryOf(ADMIN, 'quarantine.release'), {
    id: 'mgmt.quarantine.release',
    path: '/mgmt/v1/quarantine/{id}/release',
    scope: 'decide',
    tools: [{ name: 'release_quarantine', title: 'Release from quarantine', ids: { id: 'quarantine_id' } }],
  }),
];
