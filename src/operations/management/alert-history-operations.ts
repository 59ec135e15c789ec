import { z } from 'zod';
import { ALERT_EVENTS, CHANNEL_KINDS } from '../../base/model/alert-channel.ts';
import { choice, id } from '../members.ts';
import { type GatewayOperation, operation, READS } from '../operation.ts';
import { time } from '../shapes.ts';
import { CURSOR_PARAMETERS, cursorPage, dataPage, pageOfEntities } from './cursor-pages.ts';
import { orgOf } from './org-of.ts';

const LEVELS = ['warning', 'critical', 'exceeded'] as const;

const QUERY = z.strictObject({
  channel_id: id.optional(),
  limit_id: id.optional(),
  subscription_id: id.optional(),
  level: choice(LEVELS).optional(),
  ...CURSOR_PARAMETERS,
});

const ENTRY = z.object({
  alert_id: z.string(),
  org_id: z.string(),
  subscription_id: z.string().nullable().meta({ description: 'null: a test' }),
  channel_id: z.string(),
  channel_name: z.string(),
  channel_kind: z.enum(CHANNEL_KINDS),
  limit_id: z.string().optional(),
  event: z.enum([...ALERT_EVENTS, 'test']),
  level: z.enum(LEVELS).optional().meta({ description: 'Of a budget alert' }),
  title: z.string(),
  outcome: z.enum(['delivered', 'failed']),
  reason: z
    .string()
    .optional()
    .meta({ description: 'Of a failure', examples: ['auth_error'] }),
  detail: z.string().optional().meta({ description: 'What came back, or why nothing did' }),
  attempts: z.int(),
  test: z.literal(true).optional(),
  at: time,
});

/** What became of alerts (specification, "Events"; decision 11.1). */
export const ALERT_HISTORY_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'mgmt.alerts.history.list',
    method: 'GET',
    path: '/mgmt/v1/alerts/history',
    scope: 'read',
    summary: 'Alerts of the org that were delivered or could not be, the newest first, with what came back.',
    annotations: READS,
    tools: [{ name: 'list_alert_history', title: 'List alert history' }],
    input: { query: { schema: () => QUERY } },
    output: { status: 200, schema: dataPage(ENTRY) },
    handle: async ({ principal, query }, { alerts }) => {
      const { channel_id: channelId, limit_id: limitId, subscription_id: subscriptionId, level } = query;
      const page = cursorPage('alert history', query);
      const filter = { orgId: orgOf(principal), channelId, limitId, subscriptionId, level };
      return { json: pageOfEntities(await alerts.history.page(filter, page), page) };
    },
  }),
];
