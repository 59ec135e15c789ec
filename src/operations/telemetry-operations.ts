import { z } from 'zod';
import { TELEMETRY_SCHEMA } from '../base/model/telemetry-report.ts';
import { type GatewayOperation, operation, READS } from './operation.ts';
import { count, time } from './shapes.ts';

const counted = z.record(z.string(), count);

const REPORT = z.object({
  schema: z.literal(TELEMETRY_SCHEMA),
  instance_id: z.string().meta({ description: 'Random, another at each start' }),
  version: z.string(),
  window_start: time,
  window_end: time,
  providers: z.record(
    z.string(),
    z.object({ requests: count, tokens_in: count, tokens_out: count, models: counted, domains: counted, connection_types: counted }),
  ),
  decisions: counted,
  action_types: counted,
  risk_alerts: count,
});

/** What goes out of the house about its use (decision 12.6). */
export const TELEMETRY_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'telemetry.preview',
    method: 'GET',
    path: '/v1/admin/telemetry/preview',
    scope: 'admin',
    summary: 'The usage report that this gateway would send now, whole, and where to.',
    annotations: READS,
    output: {
      status: 200,
      schema: z.object({
        sending: z.boolean(),
        why: z.string().optional().meta({ description: 'Why nothing is sent' }),
        url: z.string().nullable().meta({ description: 'Without its query' }),
        interval_seconds: count,
        next_at: time.nullable(),
        basis: z.enum(['window', 'records']).meta({
          description:
            '`window`: counted since the last report. `records`: nothing is collected; made of the last hour, its newest 5,000 records at most',
        }),
        last: z.object({ at: time, delivered: z.boolean(), detail: z.string() }).nullable(),
        report: REPORT,
      }),
    },
    handle: async (_call, { telemetry }) => ({ json: await telemetry.preview() }),
  }),
];
