import { z } from 'zod';
import { parseTime } from '../base/lib/rfc3339.ts';
import type { AuditFilter } from '../services/audit-trail.ts';
import { id, text } from './members.ts';
import { type GatewayOperation, operation, READS } from './operation.ts';
import { page, pageParameters, pageQuery, shownPage } from './pages.ts';
import { moment, time } from './shapes.ts';

const QUERY = z.strictObject({
  org_id: id.optional(),
  principal: id.optional(),
  operation: id.optional(),
  object: text.optional(),
  from: moment.optional(),
  to: moment.optional(),
  ...pageParameters(50),
});

const hash = z.string().nullable();
/** How an entry of an audit trail is shown. */
export const AUDIT_ENTRY = z.object({
  audit_id: z.string(),
  at: time,
  org_id: z.string().optional().meta({ description: "Of what was changed, else of who has changed it; absent: it is the gateway's" }),
  principal: z.object({ kind: z.string(), id: z.string() }).meta({ description: 'Who has changed it' }),
  operation: z.string().meta({ description: 'The id of the operation', examples: ['workloads.put'] }),
  object: z.string().optional().meta({ description: 'Which one; absent where there is only one' }),
  from: z.string().meta({ description: 'Address of who asked' }),
  node_id: z.string().optional().meta({ description: 'The gateway that has handed it on to its control plane; absent: it was asked here' }),
  changes: z.array(
    z.object({
      entity: z.string(),
      member: z.string(),
      before: hash.meta({ description: 'SHA-256 over the RFC 8785 form of the value; null: there was none' }),
      after: hash.meta({ description: 'The same; null: there is none any more' }),
    }),
  ),
  more_changes: z.int().optional().meta({ description: 'Changes beyond those that are listed' }),
});

/** What people have changed. */
export const AUDIT_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'audit.list',
    method: 'GET',
    path: '/v1/admin/audit',
    scope: 'admin',
    summary: 'What people have changed, the newest first: who, what, when, from where, and which members; values as hashes alone.',
    annotations: READS,
    input: { query: { schema: () => QUERY } },
    output: { status: 200, schema: page(AUDIT_ENTRY) },
    handle: async ({ query }, { audit }) => ({ json: shownPage(await audit.page(filterOf(query), pageQuery(query))) }),
  }),
];

function filterOf({ org_id: orgId, principal, operation: name, object, from, to }: z.output<typeof QUERY>): AuditFilter {
  return { orgId, principal, operation: name, object, since: parseTime(from ?? ''), until: parseTime(to ?? '') };
}
