import type { Destination, DurableEvent, DurableName } from '../../../base/events/destination.ts';
import { type Clock, timestamp } from '../../../base/lib/clock.ts';
import type { Logger } from '../../../base/lib/log.ts';
import type { AlertEventName, AlertHistoryEntry, AlertSubscription } from '../../../base/model/alert-channel.ts';
import { type AlertCard, exactText } from '../../../outbound/destinations/alert-card.ts';
import { type DeliveryError, deliveryError } from '../../../outbound/destinations/delivery-error.ts';
import { cardOf, type GatewayPlace } from './alert-cards.ts';
import type { OpenChannel } from './alert-channels.ts';
import { type AlertHistory, alertIdOf } from './alert-history.ts';
import type { AlertSubscriptions, LastAlert } from './alert-subscriptions.ts';

/** With the waits of the outbox between them, some eight minutes. */
const MAX_ATTEMPTS = 10;
const LEVELS: readonly string[] = ['warning', 'critical', 'exceeded'];

/** What the names of durable events are called in subscriptions; the alerts of a limit are subscribed to by its id. */
const EVENT_NAMES: Readonly<Partial<Record<DurableName, AlertEventName>>> = {
  approval: 'approval',
  quarantine: 'quarantine',
  riskNotice: 'risk_alert',
  budgetAlert: 'budget_alert',
};

export interface ChannelDestinationOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly subscriptions: AlertSubscriptions;
  readonly history: AlertHistory;
  /** As it is now; undefined: it is gone. */
  readonly channel: () => OpenChannel | undefined;
  /** @returns what came back @throws DeliveryError */
  readonly send: (channel: OpenChannel, card: AlertCard, signal: AbortSignal) => Promise<string>;
  readonly place: GatewayPlace;
}

/**
 * A channel as a destination of durable events: one alert for each subscription that an event is for, and of a limit
 * one for each period and level. What became of it is stored with the note that the subscription was alerted, under an
 * id that follows from event and subscription: one that comes again after a kill is known.
 */
export class ChannelDestination implements Destination {
  readonly id: string;
  readonly since: number;
  readonly batch = 1;
  readonly #options: ChannelDestinationOptions;
  readonly #orgId: string;
  /** Of alerts that are not through yet. */
  readonly #attempts = new Map<string, number>();

  constructor(channel: OpenChannel, options: ChannelDestinationOptions) {
    this.id = destinationIdOf(channel.channel_id);
    this.since = Date.parse(channel.created_at);
    this.#orgId = channel.org_id;
    this.#options = options;
  }

  wants(name: DurableName, orgId: string | undefined): boolean {
    if (orgId !== undefined && orgId !== this.#orgId) return false;
    return this.#subscriptions().some(({ limit_id: limitId, event }) =>
      name === 'budgetAlert' && limitId !== undefined ? true : event !== undefined && event === EVENT_NAMES[name],
    );
  }

  async deliver(events: readonly DurableEvent[], signal: AbortSignal): Promise<void> {
    for (const event of events) {
      for (const subscription of this.#subscriptions()) {
        if (isFor(subscription, event)) await this.#alert(event, subscription, signal);
      }
    }
  }

  #subscriptions(): readonly AlertSubscription[] {
    const channel = this.#options.channel();
    if (channel?.enabled !== true) return [];
    return this.#options.subscriptions.list(this.#orgId, { channelId: channel.channel_id }).filter(({ enabled }) => enabled);
  }

  async #alert(event: DurableEvent, subscription: AlertSubscription, signal: AbortSignal): Promise<void> {
    const { channel, send, history, subscriptions, place, clock } = this.#options;
    const open = channel();
    const id = alertIdOf(event, subscription.subscription_id);
    const card = cardOf(event, id, place);
    if (open === undefined || card === undefined) return;
    const last = lastAlertOf(event, subscription, timestamp(clock.now()));
    if (await history.has(id)) return;
    const isNews = (before: LastAlert): boolean => saysMore(last, before);
    if (last.periodStart !== undefined && !(await subscriptions.claim(subscription.subscription_id, id, last, isNews))) return;
    const attempts = (this.#attempts.get(id) ?? 0) + 1;
    const made = { ...entryOf(event, subscription, open, card), attempts, at: last.at };
    try {
      const detail = await send(open, card, signal);
      await this.#note({ ...made, outcome: 'delivered', detail }, subscription, last);
    } catch (error) {
      if (!isDelivery(error)) throw error;
      if (error.uncounted) throw error;
      this.#attempts.set(id, attempts);
      if (error.retryable && attempts < MAX_ATTEMPTS) throw error;
      await this.#note({ ...made, outcome: 'failed', reason: error.reason, detail: error.message }, subscription, last);
      this.#options.log.warn(
        { channel_id: open.channel_id, alert_id: id, reason: error.reason, attempts },
        'an alert could not be delivered',
      );
    }
    this.#attempts.delete(id);
  }

  async #note(entry: AlertHistoryEntry, { subscription_id: id }: AlertSubscription, last: LastAlert): Promise<void> {
    const { history, subscriptions } = this.#options;
    await subscriptions.note(id, entry.alert_id, entry.outcome === 'delivered' ? last : undefined, history.entryEffects(entry));
  }
}

/** What the place of a channel in the outbox is kept by. */
export function destinationIdOf(channelId: string): string {
  return `alert-${channelId}`;
}

function isFor({ limit_id: limitId, event: name }: AlertSubscription, { name: durable, event }: DurableEvent): boolean {
  if (durable === 'budgetAlert' && limitId !== undefined) return limitId === event.limit.limit_id;
  return name !== undefined && name === EVENT_NAMES[durable];
}

/** Of a subscription to all budgets nothing follows from what it was told of another one. */
function lastAlertOf({ name, event }: DurableEvent, { limit_id: limitId }: AlertSubscription, at: string): LastAlert {
  if (name !== 'budgetAlert') return { at, level: null };
  if (limitId === undefined) return { at, level: event.level };
  const refused = event.refusal === undefined ? {} : { refused: true as const };
  return { at, level: event.level, periodStart: event.periodStart, ...refused };
}

/**
 * Once per period and level, whatever comes again. That a cap refuses says nothing about thresholds: they may still be
 * reached.
 */
function saysMore({ periodStart, level, refused }: LastAlert, before: LastAlert): boolean {
  if (before.periodStart !== periodStart) return true;
  if (refused === true || before.refused === true) return level !== before.level;
  return LEVELS.indexOf(level ?? '') > LEVELS.indexOf(before.level ?? '');
}

function entryOf(
  { name, event }: DurableEvent,
  subscription: AlertSubscription,
  channel: OpenChannel,
  card: AlertCard,
): Omit<AlertHistoryEntry, 'outcome' | 'attempts' | 'at'> {
  return {
    alert_id: card.alertId,
    org_id: channel.org_id,
    subscription_id: subscription.subscription_id,
    channel_id: channel.channel_id,
    channel_name: channel.name,
    channel_kind: channel.kind,
    ...(subscription.limit_id === undefined ? {} : { limit_id: subscription.limit_id }),
    event: EVENT_NAMES[name] ?? 'budget_alert',
    ...(name === 'budgetAlert' ? { level: event.level } : {}),
    title: exactText(card.title),
  };
}

/** What the sender says; what the store says of the note is another thing. */
function isDelivery(error: unknown): error is DeliveryError {
  return error instanceof Error && deliveryError(error) === error;
}
