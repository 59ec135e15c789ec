import type { Destination, DurableEvent, DurableName } from '../../../base/events/destination.ts';
import { type Clock, timestamp } from '../../../base/lib/clock.ts';
import type { Logger } from '../../../base/lib/log.ts';
import type { AlertEventName, AlertHistoryEntry, AlertSubscription } from '../../../base/model/alert-channel.ts';
import type { Approval } from '../../../base/model/approval.ts';
import { type AlertCard, exactText } from '../../../outbound/destinations/alert-card.ts';
import type { SentMessage } from '../../../outbound/destinations/chat-webhooks.ts';
import { type DeliveryError, deliveryError } from '../../../outbound/destinations/delivery-error.ts';
import type { Store } from '../../../storage/contract/store.ts';
import { cardOf } from './alert-cards.ts';
import type { OpenChannel } from './alert-channels.ts';
import { type AlertHistory, alertIdOf } from './alert-history.ts';
import { toldAgain } from './alert-sender.ts';
import type { AlertSubscriptions, LastAlert } from './alert-subscriptions.ts';
import { approvalFollowUp, approvalSaid, stateOf } from './approval-cards.ts';
import type { GatewayPlace } from './card-parts.ts';
import type { SentMessages, StoredMessage } from './sent-messages.ts';

/** With the waits of the outbox between them, some eight minutes. */
const MAX_ATTEMPTS = 10;
const LEVELS: readonly string[] = ['warning', 'critical', 'exceeded'];

/** What the names of durable events are called in subscriptions; the alerts of a limit are subscribed to by its id. */
const EVENT_NAMES: Readonly<Partial<Record<DurableName, AlertEventName>>> = {
  approval: 'approval',
  approvalStep: 'approval',
  quarantine: 'quarantine',
  riskNotice: 'risk_alert',
  budgetAlert: 'budget_alert',
};

export interface ChannelDestinationOptions {
  readonly store: Pick<Store, 'commit'>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly subscriptions: AlertSubscriptions;
  readonly history: AlertHistory;
  /** As it is now; undefined: it is gone. */
  readonly channel: () => OpenChannel | undefined;
  /** @throws DeliveryError */
  readonly send: (channel: OpenChannel, card: AlertCard, signal: AbortSignal) => Promise<SentMessage>;
  /** Changes a message. @returns what came back @throws DeliveryError */
  readonly change: (channel: OpenChannel, message: string, card: AlertCard, signal: AbortSignal) => Promise<string>;
  readonly messages: SentMessages;
  /** An approval as it is now; undefined: there is none any more. */
  readonly approval: (id: string) => Promise<Approval | undefined>;
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
    if (event.name !== 'approval' && event.name !== 'approvalStep') return this.#tell(event, subscription, signal, undefined);
    if (event.name === 'approval' && event.event.status === 'pending')
      await this.#tell(event, subscription, signal, await this.#asItIs(event.event));
    // Also what has become of it elsewhere while its message was sent.
    await this.#tellAgain(event, subscription, signal);
  }

  /** One that begins to wait, as it is by the time that people are told of it. */
  async #asItIs(opened: Approval): Promise<Approval> {
    const now = await this.#options.approval(opened.approval_id);
    if (now === undefined) return opened;
    const isHeld = opened.held !== undefined && Date.parse(opened.held.until) > this.#options.clock.now();
    return now.status === 'pending' && isHeld ? { ...now, held: opened.held } : now;
  }

  /** @param approval that the event is of; undefined: it is of none */
  async #tell(event: DurableEvent, subscription: AlertSubscription, signal: AbortSignal, approval: Approval | undefined): Promise<void> {
    const { channel, send, history, subscriptions, place, clock, messages } = this.#options;
    const open = channel();
    const id = alertIdOf(event, subscription.subscription_id);
    const card =
      approval === undefined ? cardOf(event, id, place) : { ...approvalSaid(approval, place), alertId: id, at: timestamp(event.at) };
    if (open === undefined || card === undefined) return;
    const last = lastAlertOf(event, subscription, timestamp(clock.now()));
    if (await history.has(id)) return;
    const isNews = (before: LastAlert): boolean => saysMore(last, before);
    if (last.periodStart !== undefined && !(await subscriptions.claim(subscription.subscription_id, id, last, isNews))) return;
    await this.#deliver(
      entryOf(event, subscription, open, card),
      last.at,
      () => send(open, card, signal),
      async (entry, sent) => {
        const isKept = sent !== undefined && approval !== undefined && approval.status === 'pending' && isToldAgain(open, sent);
        const kept = isKept ? [messages.kept(messageOf(approval, open, sent))] : [];
        const effects = [...history.entryEffects(entry), ...kept];
        await subscriptions.note(subscription.subscription_id, id, entry.outcome === 'delivered' ? last : undefined, effects);
      },
    );
  }

  /** What has become of an approval since its message was sent. */
  async #tellAgain(event: ApprovalEvent, subscription: AlertSubscription, signal: AbortSignal): Promise<void> {
    const { channel, send, change, history, messages, place, clock, approval: asItIs } = this.#options;
    const open = channel();
    if (open === undefined) return;
    const { approval_id: approvalId } = event.event;
    if ((await messages.get(approvalId, open.channel_id)) === undefined) return;
    const approval = (await asItIs(approvalId)) ?? event.event;
    const state = stateOf(approval);
    const message = await messages.claim(approvalId, open.channel_id, state, event.id);
    if (message === undefined) return;
    const id = alertIdOf({ id: `${state} ${event.id}`, at: event.at }, subscription.subscription_id);
    const at = timestamp(clock.now());
    // The channel may be of another kind by now.
    const how = toldAgain(open);
    if (how === 'never') return this.#options.store.commit(undefined, [messages.forgotten(message)]);
    const handle = how === 'changed' ? message.message : undefined;
    const said = handle === undefined ? approvalFollowUp(approval) : approvalSaid(approval, place);
    const card = { ...said, alertId: id, at };
    const tell = async (): Promise<SentMessage> =>
      handle === undefined ? send(open, card, signal) : { detail: await change(open, handle, card, signal) };
    await this.#deliver(entryOf(event, subscription, open, card), at, tell, async (entry) => {
      const { saying: _done, ...told } = message;
      const after = approval.status === 'pending' ? messages.kept({ ...told, said: state }) : messages.forgotten(message);
      await this.#options.store.commit(undefined, [...history.entryEffects(entry), after]);
    });
    // Another writer may have told of the end meanwhile, and this message come behind it.
    if (approval.status === 'pending') await this.#tellAgain(event, subscription, signal);
  }

  /**
   * Sends something, and notes what came of it.
   * @param note called when it is through; `sent`: it was delivered
   * @throws DeliveryError when it is to be tried again
   */
  async #deliver(
    entry: Omit<AlertHistoryEntry, 'outcome' | 'attempts' | 'at'>,
    at: string,
    send: () => Promise<SentMessage>,
    note: (entry: AlertHistoryEntry, sent: SentMessage | undefined) => Promise<void>,
  ): Promise<void> {
    const { alert_id: id, channel_id: channelId } = entry;
    const attempts = (this.#attempts.get(id) ?? 0) + 1;
    const made = { ...entry, attempts, at };
    try {
      const sent = await send();
      await note({ ...made, outcome: 'delivered', detail: sent.detail }, sent);
    } catch (error) {
      if (!isDelivery(error)) throw error;
      if (error.uncounted) throw error;
      this.#attempts.set(id, attempts);
      if (error.retryable && attempts < MAX_ATTEMPTS) throw error;
      await note({ ...made, outcome: 'failed', reason: error.reason, detail: error.message }, undefined);
      this.#options.log.warn({ channel_id: channelId, alert_id: id, reason: error.reason, attempts }, 'an alert could not be delivered');
    }
    this.#attempts.delete(id);
  }
}

type ApprovalEvent = Extract<DurableEvent, { readonly name: 'approval' | 'approvalStep' }>;

/** Whether what becomes of its matter can be told where a message stands. */
function isToldAgain(channel: OpenChannel, { message }: SentMessage): boolean {
  const how = toldAgain(channel);
  return how === 'followed' || (how === 'changed' && message !== undefined);
}

function messageOf(approval: Approval, { channel_id: channelId }: OpenChannel, { message }: SentMessage): StoredMessage {
  return {
    approval_id: approval.approval_id,
    channel_id: channelId,
    ...(message === undefined ? {} : { message }),
    said: stateOf(approval),
  };
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
