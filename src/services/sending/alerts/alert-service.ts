import { timestamp } from '../../../base/lib/clock.ts';
import { uuidv7 } from '../../../base/lib/ids.ts';
import type { AlertChannel, AlertHistoryEntry } from '../../../base/model/alert-channel.ts';
import type { Approval } from '../../../base/model/approval.ts';
import { exactText } from '../../../outbound/destinations/alert-card.ts';
import { deliveryError } from '../../../outbound/destinations/delivery-error.ts';
import { type Commit, commitAlone } from '../../registers/commit.ts';
import type { Outbox } from '../outbox.ts';
import { testCard } from './alert-cards.ts';
import { AlertChannels, type ChannelOptions, type OpenChannel } from './alert-channels.ts';
import { AlertHistory } from './alert-history.ts';
import { type AlertSenderOptions, changeMessage, sendAlert } from './alert-sender.ts';
import { AlertSubscriptions } from './alert-subscriptions.ts';
import type { GatewayPlace } from './card-parts.ts';
import { ChannelDestination, destinationIdOf } from './channel-destination.ts';
import { ClickAnswers } from './click-answers.ts';
import { SentMessages } from './sent-messages.ts';

/** Where budget limits are: who removes one takes its subscriptions along, at whichever writer. */
const LIMITS = 'budget_limit';

export interface AlertServiceOptions extends ChannelOptions, AlertSenderOptions {
  readonly outbox: Pick<Outbox, 'add' | 'remove' | 'reconsider'>;
  readonly place: GatewayPlace;
  /** An approval as it is now, for messages about it; absent: as events tell of it. */
  readonly approval?: (id: string) => Promise<Approval | undefined>;
}

/**
 * Alerts to people: channels, what they are told of, and what became of it (specification, "Alert channel", "Alert
 * subscription"; decision 11.1).
 */
export class AlertService {
  readonly channels: AlertChannels;
  readonly subscriptions: AlertSubscriptions;
  readonly history: AlertHistory;
  /** Messages about approvals that are told of again. */
  readonly messages: SentMessages;
  /** What those are told who press a button in a chat. */
  readonly clicks: ClickAnswers;
  readonly #options: AlertServiceOptions;
  readonly #ending = new AbortController();

  private constructor(options: AlertServiceOptions, channels: AlertChannels, subscriptions: AlertSubscriptions, history: AlertHistory) {
    this.#options = options;
    this.channels = channels;
    this.subscriptions = subscriptions;
    this.history = history;
    this.messages = new SentMessages(options.store);
    this.clicks = new ClickAnswers({ approval: () => Promise.resolve(undefined), ...options, channels: (orgId) => channels.opened(orgId) });
  }

  /**
   * Reads what there is, and gives each channel its place in the outbox; also those that come later, and those of other
   * writers.
   */
  static async open(options: AlertServiceOptions): Promise<AlertService> {
    const { store, clock, log, outbox } = options;
    const history = await AlertHistory.open(store);
    const subscriptions = await AlertSubscriptions.open(store, clock, () => outbox.reconsider());
    const left = (subject: Parameters<AlertSubscriptions['removeLeft']>[0]): void => {
      subscriptions
        .removeLeft(subject)
        .catch((error: unknown) => log.warn({ err: error }, 'subscriptions of what is gone could not be removed'));
    };
    const changed = (id: string, now: OpenChannel | undefined, before: OpenChannel | undefined): void => {
      if (now === undefined) {
        left({ channelId: id });
        outbox
          .remove(destinationIdOf(id))
          .catch((error: unknown) =>
            log.warn({ err: error }, 'what a channel has left behind could not be removed; the next start tries again'),
          );
      } else if (before === undefined) {
        outbox.add(
          new ChannelDestination(now, {
            ...options,
            approval: options.approval ?? (() => Promise.resolve(undefined)),
            messages: new SentMessages(store),
            subscriptions,
            history,
            channel: () => (channels === undefined ? now : channels.open(id)),
            send: (channel, card, signal) => sendAlert(options, channel, card, signal),
            change: (channel, message, card, signal) => changeMessage(options, channel, message, card, signal),
          }),
        );
      } else outbox.reconsider();
    };
    let channels: AlertChannels | undefined;
    channels = await AlertChannels.open(options, changed);
    await store.watch(LIMITS, (event) => {
      if (event.lost !== true && event.value === undefined) left({ limitId: event.key });
    });
    return new AlertService(options, channels, subscriptions, history);
  }

  /** Takes a channel away, with its subscriptions. False when the org has no such. */
  remove(orgId: string, channelId: string, commit?: Commit): Promise<boolean> {
    return this.channels.remove(orgId, channelId, this.subscriptions.removalOf(channelId), commit);
  }

  /**
   * Sends an alert that says that it is one to see whether it arrives, once. Undefined when the org has no such
   * channel.
   */
  async test(orgId: string, channelId: string, commit: Commit = commitAlone(this.#options.store)): Promise<AlertHistoryEntry | undefined> {
    const channel = this.channels.open(channelId);
    if (channel?.org_id !== orgId) return undefined;
    const now = this.#options.clock.now();
    const id = uuidv7(now);
    const card = testCard(id, channel.name, orgId, now);
    const outcome = await sendAlert(this.#options, channel, card, this.#ending.signal).then(
      ({ detail }) => ({ outcome: 'delivered' as const, detail }),
      (error: unknown) => {
        const { reason, message } = deliveryError(error);
        return { outcome: 'failed' as const, reason, detail: message };
      },
    );
    const entry: AlertHistoryEntry = {
      ...madeOf(channel, id, exactText(card.title)),
      ...outcome,
      attempts: 1,
      test: true,
      at: timestamp(now),
    };
    await commit(channelId, this.history.entryEffects(entry));
    return entry;
  }

  /** Ends tests and answers that are under way. */
  async close(): Promise<void> {
    this.#ending.abort();
    await this.clicks.close();
  }
}

function madeOf(channel: OpenChannel, id: string, title: string) {
  const { channel_id: channelId, org_id: orgId, name, kind } = channel satisfies Omit<AlertChannel, 'config'>;
  return {
    alert_id: id,
    org_id: orgId,
    subscription_id: null,
    channel_id: channelId,
    channel_name: name,
    channel_kind: kind,
    event: 'test' as const,
    title,
  };
}
