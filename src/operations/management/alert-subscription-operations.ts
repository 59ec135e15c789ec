import { z } from 'zod';
import { type ErrorDetail, GatewayError } from '../../base/lib/gateway-error.ts';
import { ALERT_EVENTS, type AlertSubscription, CHANNEL_KINDS } from '../../base/model/alert-channel.ts';
import type { LimitStatus } from '../../services/money/budgets.ts';
import type { AlertService } from '../../services/sending/alerts/alert-service.ts';
import { ALSO_WHEN_WRONG, choice, id, members, requiredId } from '../members.ts';
import { ADDS, type GatewayOperation, operation, READS, REMOVES, REPLACES } from '../operation.ts';
import { pathId, time } from '../shapes.ts';
import { CURSOR_PARAMETERS, cursorPage, dataPage, pageInMemory } from './cursor-pages.ts';
import { orgOf } from './org-of.ts';

const event = choice(ALERT_EVENTS).meta({ description: 'What happens in the org, in the place of a limit' });
const enabled = z.boolean('must be true or false');
const NO_ALERTS = 'is the id of a draft, which raises no alerts: it has no actions';

const BODY = members({
  channel_id: requiredId(),
  limit_id: id.optional(),
  event: event.optional(),
  enabled: enabled.optional(),
}).superRefine(({ limit_id: limit, event: name }, { addIssue }) => {
  if ((limit === undefined) === (name === undefined))
    addIssue({ code: 'custom', path: ['limit_id'], message: 'is what is subscribed to, or event is: one of both' });
}, ALSO_WHEN_WRONG);
const QUERY = z.strictObject({ limit_id: id.optional(), channel_id: id.optional(), event: event.optional(), ...CURSOR_PARAMETERS });

const SUBSCRIPTION = z.object({
  subscription_id: z.string(),
  limit_id: z.string().optional().meta({ description: 'The budget limit whose alerts are sent; absent with `event`' }),
  event: z.enum(ALERT_EVENTS).optional(),
  channel_id: z.string(),
  channel_name: z.string(),
  channel_kind: z.enum(CHANNEL_KINDS),
  enabled: z.boolean(),
  last_alerted_at: time.nullable().meta({ description: 'null: never' }),
  last_alerted_level: z.string().nullable().meta({ description: '`warning`, `critical` or `exceeded`, of a limit' }),
  created_at: time,
});
type Shown = z.output<typeof SUBSCRIPTION>;

const params = pathId('Subscription id');
const ids = { id: 'subscription_id' };

/** What channels are told of (specification, "Alert subscription"; decision 11.1). */
export const ALERT_SUBSCRIPTION_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'mgmt.alerts.subscriptions.list',
    method: 'GET',
    path: '/mgmt/v1/alerts/subscriptions',
    scope: 'read',
    summary: 'What alert channels of the org are told of.',
    annotations: READS,
    tools: [{ name: 'list_alert_subscriptions', title: 'List alert subscriptions' }],
    input: { query: { schema: () => QUERY } },
    output: { status: 200, schema: dataPage(SUBSCRIPTION) },
    handle: ({ principal, query }, { alerts }) => {
      const found = alerts.subscriptions.list(orgOf(principal), {
        limitId: query.limit_id,
        channelId: query.channel_id,
        event: query.event,
      });
      const rows = found.flatMap((one) => shown(alerts, one) ?? []);
      return { json: pageInMemory(rows, (one) => one.subscription_id, cursorPage('alert subscriptions', query)) };
    },
  }),
  operation({
    id: 'mgmt.alerts.subscriptions.create',
    method: 'POST',
    path: '/mgmt/v1/alerts/subscriptions',
    scope: 'write',
    summary: 'Has a channel told of the alerts of a budget limit, or of an event.',
    annotations: ADDS,
    errors: ['conflict'],
    tools: [{ name: 'create_alert_subscription', title: 'Create alert subscription' }],
    input: { body: { schema: () => BODY, what: 'The alert subscription' } },
    output: { status: 201, schema: SUBSCRIPTION },
    handle: async ({ principal, body, commit }, { alerts, budgets }) => {
      const org = orgOf(principal);
      const { channel_id: channelId, limit_id: limitId, event: name } = body;
      const unknown = [
        ...(alerts.channels.get(org, channelId) === undefined
          ? [{ path: 'channel_id', message: 'is not the id of an alert channel of this org' }]
          : []),
        ...(limitId === undefined ? [] : limitMistakes(budgets.service.get(limitId, org))),
      ];
      if (unknown.length > 0) throw new GatewayError('invalid_request', 'The alert subscription is not valid.', { details: unknown });
      const subject = limitId === undefined ? (name === undefined ? {} : { event: name }) : { limit_id: limitId };
      const made = await alerts.subscriptions.create(org, channelId, subject, body.enabled, commit);
      return { json: there(alerts, made, made.subscription_id) };
    },
  }),
  operation({
    id: 'mgmt.alerts.subscriptions.get',
    method: 'GET',
    path: '/mgmt/v1/alerts/subscriptions/{id}',
    scope: 'read',
    summary: 'One alert subscription, and when it last alerted.',
    annotations: READS,
    errors: ['not_found'],
    versioned: true,
    tools: [{ name: 'get_alert_subscription', title: 'Get alert subscription', ids }],
    input: { params },
    output: { status: 200, schema: SUBSCRIPTION },
    handle: ({ principal, params: { id: of } }, { alerts }) => ({
      json: there(alerts, alerts.subscriptions.get(orgOf(principal), of), of),
    }),
  }),
  operation({
    id: 'mgmt.alerts.subscriptions.update',
    method: 'PUT',
    path: '/mgmt/v1/alerts/subscriptions/{id}',
    scope: 'write',
    summary: 'Enables or disables an alert subscription.',
    annotations: REPLACES,
    errors: ['not_found', 'conflict'],
    versioned: true,
    tools: [{ name: 'update_alert_subscription', title: 'Update alert subscription', ids }],
    input: { params, body: { schema: () => members({ enabled }), what: 'The alert subscription' } },
    output: { status: 200, schema: SUBSCRIPTION },
    handle: async ({ principal, params: { id: of }, body, commit, expectShown }, { alerts, budgets }) => {
      const org = orgOf(principal);
      const before = there(alerts, alerts.subscriptions.get(org, of), of);
      expectShown(before);
      if (body.enabled && before.limit_id !== undefined) {
        const details = limitMistakes(budgets.service.get(before.limit_id, org));
        if (details.length > 0) throw new GatewayError('invalid_request', 'The alert subscription is not valid.', { details });
      }
      return { json: there(alerts, await alerts.subscriptions.enable(org, of, body.enabled, commit), of) };
    },
  }),
  operation({
    id: 'mgmt.alerts.subscriptions.remove',
    method: 'DELETE',
    path: '/mgmt/v1/alerts/subscriptions/{id}',
    scope: 'write',
    summary: 'Removes an alert subscription.',
    annotations: REMOVES,
    errors: ['not_found'],
    tools: [{ name: 'delete_alert_subscription', title: 'Delete alert subscription', ids }],
    input: { params },
    output: { status: 200, schema: z.object({ subscription_id: z.string(), status: z.literal('deleted') }) },
    handle: async ({ principal, params: { id: of }, commit, expectShown }, { alerts }) => {
      expectShown(there(alerts, alerts.subscriptions.get(orgOf(principal), of), of));
      if (!(await alerts.subscriptions.remove(orgOf(principal), of, commit))) throw unknownSubscription(of);
      return { json: { subscription_id: of, status: 'deleted' as const } };
    },
  }),
];

/**
 * `alert` raises alerts at thresholds, `cap` when it first refuses; a subscription to a draft would never say anything.
 */
function limitMistakes(found: LimitStatus | undefined): readonly ErrorDetail[] {
  if (found === undefined) return [{ path: 'limit_id', message: 'is not the id of a budget limit of this org' }];
  return found.limit.actions.length > 0 ? [] : [{ path: 'limit_id', message: NO_ALERTS }];
}

/** Undefined while its channel is being removed. */
function shown(alerts: AlertService, { org_id: org, ...subscription }: AlertSubscription): Shown | undefined {
  const channel = alerts.channels.get(org, subscription.channel_id);
  return channel && { ...subscription, channel_name: channel.name, channel_kind: channel.kind };
}

function there(alerts: AlertService, subscription: AlertSubscription | undefined, of: string): Shown {
  const found = subscription && shown(alerts, subscription);
  if (found === undefined) throw unknownSubscription(of);
  return found;
}

function unknownSubscription(of: string): GatewayError {
  return new GatewayError('not_found', `There is no alert subscription ${of}.`);
}
