import { z } from 'zod';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import {
  EXPORT_EVENTS,
  EXPORT_KINDS,
  type ExportDestination,
  type ExportEventName,
  FAILURE_REASONS,
  SYSLOG_FORMATS,
  WEBHOOK_FORMATS,
} from '../../base/model/export-destination.ts';
import type { GivenDestination } from '../../services/sending/exports/export-destinations.ts';
import { withEtag } from '../etag.ts';
import { choice, id, members, requiredId, ruled, textThere } from '../members.ts';
import { ADDS, type GatewayOperation, operation, READS, REMOVES, REPLACES } from '../operation.ts';
import { readBody } from '../read-input.ts';
import { etag, pathId, time } from '../shapes.ts';
import { CURSOR_QUERY, cursorPage, dataPage, pageInMemory } from './cursor-pages.ts';
import { orgOf } from './org-of.ts';

const config = z.unknown().meta({
  type: 'object',
  properties: {
    url: { type: 'string', description: 'Of a webhook' },
    token: { type: 'string', description: 'Of a webhook: sent as a bearer token' },
    secret: { type: 'string', description: 'Of a webhook: by which it is signed' },
    address: { type: 'string', description: 'Of syslog: tcp://host:port or udp://host:port' },
    format: { type: 'string', enum: [...WEBHOOK_FORMATS, ...SYSLOG_FORMATS] },
  },
  additionalProperties: false,
  description:
    'Formats of a webhook: `json` (the envelope), `ocsf`. Secrets, and `url` behind its host, are shown as bullets, which are never taken back',
});
const enabled = z.boolean('must be true or false');
const eventTypes = ruled<readonly ExportEventName[]>(
  (value) => Array.isArray(value) && value.length > 0 && value.every((one) => EXPORT_EVENTS.some((name) => name === one)),
  `must be a list of some of ${EXPORT_EVENTS.join(', ')}`,
).meta({ type: 'array', items: { type: 'string', enum: EXPORT_EVENTS }, minItems: 1, description: 'Left out: all of them' });

export const EXPORT_DESTINATION_BODY = members({
  name: textThere,
  kind: choice(EXPORT_KINDS),
  config: config.refine((value) => value !== undefined, 'is required'),
  enabled: enabled.optional(),
  node_id: id.optional().meta({ description: 'Its one node; left out: every node without one of its own' }),
  event_types: eventTypes.optional(),
});
const CHANGE = EXPORT_DESTINATION_BODY.partial();
const OWNED = EXPORT_DESTINATION_BODY.extend({ id: requiredId(), org_id: id.optional() });

/**
 * A destination with its id, as somebody who owns all of them gives it. What its config says is judged where it is
 * stored.
 * @throws GatewayError `invalid_request`
 */
export function parseDestination(body: unknown): GivenDestination {
  const { org_id: _org, config: reached, ...rest } = readBody({ schema: OWNED, what: 'The export destination' }, body);
  return { ...rest, config: reached };
}

const DESTINATION = z.object({
  id: z.string(),
  org_id: z.string(),
  name: z.string(),
  kind: z.enum(EXPORT_KINDS),
  config: z.object({
    url: z
      .string()
      .optional()
      .meta({ description: 'Of a webhook: scheme, host and port, with bullets in the place of what stands behind them' }),
    token: z.string().optional().meta({ description: 'Of a webhook, as bullets' }),
    secret: z.string().optional().meta({ description: 'Of a webhook, as bullets' }),
    address: z.string().optional().meta({ description: 'Of syslog' }),
    format: z.enum([...WEBHOOK_FORMATS, ...SYSLOG_FORMATS]).optional(),
  }),
  enabled: z.boolean(),
  node_id: z.string().optional(),
  event_types: z.array(z.enum(EXPORT_EVENTS)).optional(),
  created_at: time,
});

const params = pathId('Destination id');
const ids = { id: 'destination_id' };

/** Where events go (specification, "Export destination"; decision 11.3). */
export const EXPORT_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'mgmt.exports.list',
    method: 'GET',
    path: '/mgmt/v1/export/destinations',
    scope: 'read',
    summary: 'Export destinations of the org; tokens, secrets and the paths of URLs are masked.',
    annotations: READS,
    tools: [{ name: 'list_export_destinations', title: 'List export destinations' }],
    input: { query: { schema: () => CURSOR_QUERY } },
    output: { status: 200, schema: dataPage(DESTINATION.extend({ etag })) },
    handle: ({ principal, query }, { exports }) => ({
      json: pageInMemory(
        exports.destinations.list(orgOf(principal)).map(withEtag),
        (one) => one.id,
        cursorPage('export destinations', query),
      ),
    }),
  }),
  operation({
    id: 'mgmt.exports.create',
    method: 'POST',
    path: '/mgmt/v1/export/destinations',
    scope: 'write',
    summary: 'Makes an export destination, which gets what happens from now on. The answer shows URL, token and secret this once.',
    annotations: ADDS,
    ownedRemotely: true,
    errors: ['conflict'],
    tools: [{ name: 'create_export_destination', title: 'Create export destination' }],
    input: { body: { schema: () => EXPORT_DESTINATION_BODY, what: 'The export destination' } },
    output: { status: 201, schema: DESTINATION },
    handle: async ({ principal, body, commit }, { exports }) => ({
      json: await exports.destinations.create(orgOf(principal), { ...body, config: body.config }, commit),
    }),
  }),
  operation({
    id: 'mgmt.exports.update',
    method: 'PUT',
    path: '/mgmt/v1/export/destinations/{id}',
    scope: 'write',
    summary: 'Changes what is given of an export destination; config is replaced as a whole.',
    annotations: REPLACES,
    ownedRemotely: true,
    errors: ['not_found', 'conflict'],
    versioned: true,
    tools: [{ name: 'update_export_destination', title: 'Update export destination', ids, like: 'create_export_destination' }],
    input: { params, body: { schema: () => CHANGE, what: 'The export destination' } },
    output: { status: 200, schema: DESTINATION },
    handle: async ({ principal, params: { id: of }, body, commit, expectShown }, { exports }) => {
      const org = orgOf(principal);
      expectShown(there(exports.destinations.get(org, of), of));
      return { json: there(await exports.destinations.change(org, of, body, commit), of) };
    },
  }),
  operation({
    id: 'mgmt.exports.remove',
    method: 'DELETE',
    path: '/mgmt/v1/export/destinations/{id}',
    scope: 'write',
    summary: 'Removes an export destination, with what could not be delivered to it.',
    annotations: REMOVES,
    ownedRemotely: true,
    errors: ['not_found'],
    tools: [{ name: 'delete_export_destination', title: 'Delete export destination', ids }],
    input: { params },
    output: { status: 200, schema: z.object({ id: z.string(), status: z.literal('deleted') }) },
    handle: async ({ principal, params: { id: of }, commit, expectShown }, { exports }) => {
      expectShown(there(exports.destinations.get(orgOf(principal), of), of));
      if (!(await exports.remove(orgOf(principal), of, commit))) throw unknown(of);
      return { json: { id: of, status: 'deleted' as const } };
    },
  }),
  operation({
    id: 'mgmt.exports.test',
    method: 'POST',
    path: '/mgmt/v1/export/destinations/{id}/test',
    scope: 'write',
    summary: 'Sends an event of the type `test` to an export destination, once, and tells what came back.',
    annotations: ADDS,
    errors: ['not_found'],
    tools: [{ name: 'test_export_destination', title: 'Test export destination', ids, openWorld: true }],
    input: { params },
    output: {
      status: 200,
      schema: z.object({
        id: z.string(),
        test: z.literal(true),
        delivered: z.boolean(),
        reason: z.enum(FAILURE_REASONS).optional().meta({ description: 'Of a failure' }),
        detail: z.string().meta({ description: 'What came back, or why nothing did' }),
      }),
    },
    handle: async ({ principal, params: { id: of } }, { exports }) => {
      const tested = await exports.test(orgOf(principal), of);
      if (tested === undefined) throw unknown(of);
      const outcome = tested.delivered ? { detail: tested.detail } : { reason: tested.error.reason, detail: tested.error.message };
      return { json: { id: of, test: true as const, delivered: tested.delivered, ...outcome } };
    },
  }),
];

function there(destination: ExportDestination | undefined, of: string): ExportDestination {
  if (destination === undefined) throw unknown(of);
  return destination;
}

function unknown(of: string): GatewayError {
  return new GatewayError('not_found', `There is no export destination ${of}.`);
}
