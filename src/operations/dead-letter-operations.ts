import { z } from 'zod';
import { GatewayError } from '../base/lib/gateway-error.ts';
import { FAILURE_REASONS } from '../base/model/export-destination.ts';
import { id, members, requiredId } from './members.ts';
import { ADDS, type GatewayOperation, operation, READS } from './operation.ts';
import { page, pageParameters, pageQuery, shownPage } from './pages.ts';
import { count, time } from './shapes.ts';

const QUERY = z.strictObject({ org_id: id.optional(), destination_id: id.optional(), ...pageParameters(50) });

const LETTER = z.object({
  dead_letter_id: z.string(),
  destination_id: z.string().meta({ description: '`setting-webhook` and `setting-syslog` are those that settings name' }),
  org_id: z.string(),
  event_type: z.string(),
  event_id: z.string().meta({ description: 'As the receiver knows it: `webhook-id`' }),
  reason: z.enum(FAILURE_REASONS),
  detail: z.string(),
  attempts: z.int(),
  at: time,
});

/** Events that no try could deliver (decision 11.3). */
export const DEAD_LETTER_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'dead_letters.list',
    method: 'GET',
    path: '/v1/admin/export/dead-letters',
    scope: 'admin',
    summary: 'Events that could not be exported after all tries, the newest first.',
    annotations: READS,
    input: { query: { schema: () => QUERY } },
    output: { status: 200, schema: page(LETTER) },
    handle: async ({ query }, { exports }) => ({
      json: shownPage(await exports.deadLetters.page({ orgId: query.org_id, destinationId: query.destination_id }, pageQuery(query))),
    }),
  }),
  operation({
    id: 'dead_letters.resend',
    method: 'POST',
    path: '/v1/admin/export/dead-letters/resend',
    scope: 'admin',
    summary: 'Sends what could not be exported to a destination again, the oldest first, at most 200 events.',
    annotations: ADDS,
    errors: ['not_found'],
    input: { body: { schema: () => members({ destination_id: requiredId() }), what: 'The request' } },
    output: { status: 200, schema: z.object({ destination_id: z.string(), delivered: count, left: count }) },
    handle: async ({ body: { destination_id: of }, commit }, { exports }) => {
      const sent = await exports.sendAgain(of, commit);
      if (sent === undefined) throw new GatewayError('not_found', `This node sends nothing to a destination ${of}.`);
      return { json: { destination_id: of, ...sent } };
    },
  }),
];
