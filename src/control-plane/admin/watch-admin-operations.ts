import { z } from 'zod';
import { parseTime } from '../../base/lib/clock.ts';
import { AUDIT_ENTRY } from '../../operations/audit-operations.ts';
import { id, text } from '../../operations/members.ts';
import { READS } from '../../operations/operation.ts';
import { page, pageParameters, pageQuery, shownPage } from '../../operations/pages.ts';
import { count, moment, time } from '../../operations/shapes.ts';
import { type AdminOperation, adminOperation } from './admin-operation.ts';

const QUERY = z.strictObject({
  org_id: id.optional(),
  operation: id.optional(),
  object: text.optional(),
  from: moment.optional(),
  to: moment.optional(),
  ...pageParameters(50),
});

const ENTRY = AUDIT_ENTRY.extend({
  operation: AUDIT_ENTRY.shape.operation.meta({ description: 'The id of the operation', examples: ['org.put'] }),
});

/** How it is, and what people have changed (decision 13.6). */
export const WATCH_ADMIN_OPERATIONS: readonly AdminOperation[] = [
  adminOperation({
    id: 'audit.list',
    method: 'GET',
    path: '/v1/audit',
    scope: 'admin',
    annotations: READS,
    summary: 'What people have changed, the newest first; of secrets and whole texts the hashes alone.',
    input: { query: { schema: () => QUERY } },
    output: { status: 200, schema: page(ENTRY) },
    handle: async ({ query }, { audit }) => {
      const { org_id: orgId, operation, object, from, to } = query;
      const filter = { orgId, operation, object, since: parseTime(from ?? ''), until: parseTime(to ?? '') };
      return { json: shownPage(await audit.page(filter, pageQuery(query))) };
    },
  }),
  adminOperation({
    id: 'health.read',
    method: 'GET',
    path: '/healthz',
    scope: 'none',
    annotations: READS,
    summary: 'Whether it serves: 503 while it drains.',
    output: {
      status: 200,
      otherStatuses: [503],
      schema: z.object({
        status: z.enum(['ok', 'draining']),
        version: z.string(),
        enrolled_nodes: count.meta({ description: 'Gateways whose certificate counts' }),
        open_streams: count.meta({ description: 'Of updates to managed gateways' }),
        pending_hashes: count.meta({ description: 'Hashes that are under no root yet' }),
        certificate_expires_at: time.meta({ description: 'Of the gRPC port' }),
      }),
    },
    handle: (_call, { health }) => {
      const now = health();
      return now.status === 'ok' ? { json: now } : { json: now, status: 503 as const };
    },
  }),
];
