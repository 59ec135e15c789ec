import { z } from 'zod';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { MASK } from '../../base/lib/text.ts';
import { type AlertChannel, CHANNEL_KINDS, CHAT_KINDS, type ChannelKind } from '../../base/model/alert-channel.ts';
import { FAILURE_REASONS } from '../../base/model/export-destination.ts';
import { choice, members, textThere } from '../members.ts';
import { ADDS, type GatewayOperation, operation, READS, REMOVES, REPLACES } from '../operation.ts';
import { pathId, time } from '../shapes.ts';
import { CURSOR_QUERY, cursorPage, dataPage, pageInMemory } from './cursor-pages.ts';
import { orgOf } from './org-of.ts';

/** Names of the chats that say nothing of a product (specification, "Alert channel"), in the order of `CHAT_KINDS`. */
const ALIASES = ['chat_1', 'chat_2', 'chat_3', 'chat_4'] as const;

const kind = choice([...CHANNEL_KINDS, ...ALIASES]).meta({
  description: '`chat_1` to `chat_4`: the four chats, in this order',
});
const config = z.unknown().meta({
  type: 'object',
  properties: {
    webhook_url: { type: 'string' },
    bot_token: { type: 'string' },
    channel: { type: 'string' },
    api_url: { type: 'string' },
    to_addresses: { type: 'array', items: { type: 'string' }, description: 'Of email' },
  },
  additionalProperties: false,
  description: `Secrets are shown as ${MASK}, which is never taken back`,
});
const enabled = z.boolean('must be true or false');

const BODY = members({
  name: textThere,
  kind,
  config: config.refine((value) => value !== undefined, 'is required: {"webhook_url": …} of a chat, {"to_addresses": […]} of email'),
  enabled: enabled.optional(),
});
const CHANGE = members({ name: textThere.optional(), kind: kind.optional(), config: config.optional(), enabled: enabled.optional() });

const CHANNEL = z.object({
  channel_id: z.string(),
  org_id: z.string(),
  name: z.string(),
  kind: z.enum(CHANNEL_KINDS),
  config: z.object({
    webhook_url: z.string().optional().meta({ description: 'A run of bullets, but in the answer to what made the channel' }),
    bot_token: z.string().optional(),
    channel: z.string().optional(),
    api_url: z.string().optional(),
    to_addresses: z.array(z.string()).optional(),
  }),
  enabled: z.boolean(),
  created_at: time,
});

const params = pathId('Channel id');
const ids = { id: 'channel_id' };

/** Where alerts go (specification, "Alert channel"; decision 11.1). */
export const ALERT_CHANNEL_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'mgmt.alerts.channels.list',
    method: 'GET',
    path: '/mgmt/v1/alerts/channels',
    scope: 'read',
    summary: 'Alert channels of the org; webhook URLs are masked.',
    annotations: READS,
    tools: [{ name: 'list_alert_channels', title: 'List alert channels' }],
    input: { query: { schema: () => CURSOR_QUERY } },
    output: { status: 200, schema: dataPage(CHANNEL) },
    handle: ({ principal, query }, { alerts }) => ({
      json: pageInMemory(alerts.channels.list(orgOf(principal)), (one) => one.channel_id, cursorPage('alert channels', query)),
    }),
  }),
  operation({
    id: 'mgmt.alerts.channels.create',
    method: 'POST',
    path: '/mgmt/v1/alerts/channels',
    scope: 'write',
    summary: 'Makes an alert channel: a chat webhook or mail addresses. The answer shows the URL this once.',
    annotations: ADDS,
    errors: ['conflict'],
    tools: [{ name: 'create_alert_channel', title: 'Create alert channel' }],
    input: { body: { schema: () => BODY, what: 'The alert channel' } },
    output: { status: 201, schema: CHANNEL },
    handle: async ({ principal, body, commit }, { alerts }) => ({
      json: await alerts.channels.create(orgOf(principal), { ...body, kind: kindOf(body.kind) }, commit),
    }),
  }),
  operation({
    id: 'mgmt.alerts.channels.get',
    method: 'GET',
    path: '/mgmt/v1/alerts/channels/{id}',
    scope: 'read',
    summary: 'One alert channel; its webhook URL is masked.',
    annotations: READS,
    errors: ['not_found'],
    versioned: true,
    tools: [{ name: 'get_alert_channel', title: 'Get alert channel', ids }],
    input: { params },
    output: { status: 200, schema: CHANNEL },
    handle: ({ principal, params: { id } }, { alerts }) => ({ json: there(alerts.channels.get(orgOf(principal), id), id) }),
  }),
  operation({
    id: 'mgmt.alerts.channels.update',
    method: 'PUT',
    path: '/mgmt/v1/alerts/channels/{id}',
    scope: 'write',
    summary: 'Changes what is given of an alert channel; config is replaced as a whole.',
    annotations: REPLACES,
    errors: ['not_found', 'conflict'],
    versioned: true,
    tools: [{ name: 'update_alert_channel', title: 'Update alert channel', ids, like: 'create_alert_channel' }],
    input: { params, body: { schema: () => CHANGE, what: 'The alert channel' } },
    output: { status: 200, schema: CHANNEL },
    handle: async ({ principal, params: { id }, body, commit, expectShown }, { alerts }) => {
      const org = orgOf(principal);
      expectShown(there(alerts.channels.get(org, id), id));
      const change = { ...body, kind: body.kind === undefined ? undefined : kindOf(body.kind) };
      return { json: there(await alerts.channels.change(org, id, change, commit), id) };
    },
  }),
  operation({
    id: 'mgmt.alerts.channels.remove',
    method: 'DELETE',
    path: '/mgmt/v1/alerts/channels/{id}',
    scope: 'write',
    summary: 'Removes an alert channel and its subscriptions.',
    annotations: REMOVES,
    errors: ['not_found'],
    tools: [{ name: 'delete_alert_channel', title: 'Delete alert channel', ids }],
    input: { params },
    output: { status: 200, schema: z.object({ channel_id: z.string(), status: z.literal('deleted') }) },
    handle: async ({ principal, params: { id }, commit, expectShown }, { alerts }) => {
      expectShown(there(alerts.channels.get(orgOf(principal), id), id));
      if (!(await alerts.remove(orgOf(principal), id, commit))) throw unknownChannel(id);
      return { json: { channel_id: id, status: 'deleted' as const } };
    },
  }),
  operation({
    id: 'mgmt.alerts.channels.test',
    method: 'POST',
    path: '/mgmt/v1/alerts/channels/{id}/test',
    scope: 'write',
    summary: 'Sends a test alert by this channel, once, and tells what came back; it is in the history too.',
    annotations: ADDS,
    errors: ['not_found'],
    tools: [{ name: 'test_alert_channel', title: 'Test alert channel', ids, openWorld: true }],
    input: { params },
    output: {
      status: 200,
      schema: z.object({
        channel_id: z.string(),
        alert_id: z.string(),
        test: z.literal(true),
        delivered: z.boolean(),
        reason: z.enum(FAILURE_REASONS).optional().meta({ description: 'Of a failure' }),
        detail: z.string().meta({ description: 'What came back, or why nothing did' }),
      }),
    },
    handle: async ({ principal, params: { id }, commit }, { alerts }) => {
      const entry = await alerts.test(orgOf(principal), id, commit);
      if (entry === undefined) throw unknownChannel(id);
      const { alert_id: alertId, outcome, reason, detail = '' } = entry;
      return {
        json: {
          channel_id: id,
          alert_id: alertId,
          test: true as const,
          delivered: outcome === 'delivered',
          ...(reason === undefined ? {} : { reason }),
          detail,
        },
      };
    },
  }),
];

function kindOf(name: ChannelKind | (typeof ALIASES)[number]): ChannelKind {
  const aliases: readonly string[] = ALIASES;
  const at = aliases.indexOf(name);
  return CHAT_KINDS[at] ?? CHANNEL_KINDS.find((one) => one === name) ?? 'email';
}

function there(channel: AlertChannel | undefined, id: string): AlertChannel {
  if (channel === undefined) throw unknownChannel(id);
  return channel;
}

function unknownChannel(id: string): GatewayError {
  return new GatewayError('not_found', `There is no alert channel ${id}.`);
}
