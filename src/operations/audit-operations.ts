import { z } from 'zod';
import { parseTime } from '../base/lib/clock.ts';
import type { AuditFilter } from '../services/orgs/audit-trail.ts';
import { CURSOR_PARAMETERS, cursorPage, dataPage, pageOfEntities } from './management/cursor-pages.ts';
import { orgOf } from './management/org-of.ts';
import { id, text } from './members.ts';
import { type GatewayOperation, operation, READS } from './operation.ts';
import { page, pageParameters, pageQuery, shownPage } from './pages.ts';
import { moment, PRINCIPAL, time } from './shapes.ts';

const FILTERS = {
  principal: text.optional().meta({ description: 'Who: id or name of a key, `admin`, or the user of a program with the admin token' }),
  operation: id.optional().meta({ description: 'What: an operation, or a word of it, such as `policy`' }),
  object: text.optional().meta({ description: 'Which thing: its id, or its name' }),
  from: moment.optional(),
  to: moment.optional().meta({ description: 'This time is excluded' }),
};
const QUERY = z.strictObject({ org_id: id.optional(), ...FILTERS, ...pageParameters(50) });
const CURSORED = z.strictObject({ ...FILTERS, ...CURSOR_PARAMETERS });

type Filters = Pick<z.output<typeof QUERY>, keyof typeof FILTERS>;

const hash = z.string().nullable();
const value = z.string().optional();
/** How an entry of an audit trail is shown. */
export const AUDIT_ENTRY = z.object({
  audit_id: z.string(),
  at: time,
  org_id: z.string().optional().meta({ description: "Of what was changed, else of who has changed it; absent: it is the gateway's" }),
  principal: PRINCIPAL,
  operation: z.string().meta({ description: 'The id of the operation', examples: ['workloads.put'] }),
  object: z.string().optional().meta({ description: 'Which one; absent where there is only one' }),
  object_name: z.string().optional().meta({ description: 'What people call it' }),
  from: z.string().meta({ description: 'Address of who asked' }),
  node_id: z.string().optional().meta({ description: 'The gateway that has handed it on to its control plane; absent: it was asked here' }),
  changes: z.array(
    z.object({
      entity: z.string(),
      rule: z.string().optional().meta({ description: 'Of a rule of policy: `layer/rule_id@level`' }),
      member: z.string(),
      before: hash.meta({ description: 'SHA-256 over the RFC 8785 form of the value; null: there was none' }),
      after: hash.meta({ description: 'The same; null: there is none any more' }),
      before_value: value.meta({
        description: 'The value itself, where it is no secret: a text as it is, anything else as JSON; of what is long the beginning',
      }),
      after_value: value.meta({ description: 'The same' }),
    }),
  ),
  more_changes: z.int().optional().meta({ description: 'Changes beyond those that are listed' }),
});

/** What people have changed (decision 9.6). */
export const AUDIT_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'audit.list',
    method: 'GET',
    path: '/v1/admin/audit',
    scope: 'admin',
    summary:
      'What people have changed, the newest first: who, what, when, from where, and which members, with the values that are no secret.',
    annotations: READS,
    input: { query: { schema: () => QUERY } },
    output: { status: 200, schema: page(AUDIT_ENTRY) },
    handle: async ({ query }, { audit }) => ({
      json: shownPage(await audit.page({ ...filterOf(query), orgId: query.org_id }, pageQuery(query))),
    }),
  }),
  operation({
    id: 'mgmt.audit.list',
    method: 'GET',
    path: '/mgmt/v1/audit',
    scope: 'read',
    summary: 'What people have changed in the org, the newest first: who, when, from where, before and after, secrets left out.',
    annotations: READS,
    tools: [{ name: 'list_audit', title: 'List changes', defaults: { limit: 20 } }],
    input: { query: { schema: () => CURSORED } },
    output: { status: 200, schema: dataPage(AUDIT_ENTRY) },
    handle: async ({ principal, query }, { audit }) => {
      const page = cursorPage('audit', query);
      return { json: pageOfEntities(await audit.page({ ...filterOf(query), orgId: orgOf(principal) }, page), page) };
    },
  }),
];

function filterOf({ principal, operation: name, object, from, to }: Filters): AuditFilter {
  return { principal, operation: name, object, since: parseTime(from ?? ''), until: parseTime(to ?? '') };
}
