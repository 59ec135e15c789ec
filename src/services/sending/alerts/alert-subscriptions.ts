import { type Clock, timestamp } from '../../../base/lib/clock.ts';
import { GatewayError } from '../../../base/lib/gateway-error.ts';
import { uuidv7 } from '../../../base/lib/ids.ts';
import type { AlertSubscription } from '../../../base/model/alert-channel.ts';
import { ENTITY_BOUNDS } from '../../../base/model/org-bounds.ts';
import type { Effect, Store } from '../../../storage/contract/store.ts';
import type { AlsoChanged, Commit } from '../../registers/commit.ts';
import { type Along, REMOVED, Register } from '../../registers/register.ts';
import { entityWith } from '../../registers/watched-space.ts';
import { CHANNELS } from './alert-channels.ts';

export const SUBSCRIPTIONS = 'alert_subscription';
/** The subscription of a channel to a limit or an event, so that there are no two. */
const OF = 'alert_subscription_of';
/** What was last alerted, by the id of the subscription: apart from it, because it is no person who writes that. */
const ALERTED = 'alert_subscription_alerted';
/** Of one channel. */
const MAX_SUBSCRIPTIONS = ENTITY_BOUNDS.subscriptionsOfChannel.one;

/** The last alert of a subscription. */
export interface LastAlert {
  readonly at: string;
  readonly level: string | null;
  /** First day of the window of a limit. */
  readonly periodStart?: string;
  /** It said that the cap refuses calls. */
  readonly refused?: true;
}

/** The same while it is sent: whoever else has it to send leaves it alone. */
interface StoredAlert extends LastAlert {
  /** The id of the alert that is sent; absent: it was delivered. */
  readonly sending?: string;
  /** What was delivered last before it. */
  readonly before?: LastAlert;
}

type StoredSubscription = Omit<AlertSubscription, 'last_alerted_at' | 'last_alerted_level'>;

/** What is subscribed to: one of both. */
export type SubscribedTo = Pick<AlertSubscription, 'limit_id' | 'event'>;

export interface SubscriptionFilter {
  readonly limitId?: string | undefined;
  readonly channelId?: string | undefined;
  readonly event?: string | undefined;
}

/** What channels are told of (specification, "Alert subscription"). */
export class AlertSubscriptions {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #space: Register<StoredSubscription>;
  readonly #alerted: Register<StoredAlert>;

  private constructor(store: Store, clock: Clock, space: Register<StoredSubscription>, alerted: Register<StoredAlert>) {
    this.#store = store;
    this.#clock = clock;
    this.#space = space;
    this.#alerted = alerted;
  }

  /** @param changed told when one is there, gone or another, whoever has changed it */
  static async open(store: Store, clock: Clock, changed: () => void): Promise<AlertSubscriptions> {
    const space = await Register.open(store, SUBSCRIPTIONS, {
      read: entityWith<StoredSubscription>('subscription_id', 'org_id'),
      orgOf: (one) => one.org_id,
      changed,
    });
    const alerted = await Register.open(store, ALERTED, { read: entityWith<StoredAlert>('at') });
    return new AlertSubscriptions(store, clock, space, alerted);
  }

  list(orgId: string, { limitId, channelId, event }: SubscriptionFilter = {}): readonly AlertSubscription[] {
    const fits = (one: StoredSubscription): boolean =>
      (limitId === undefined || one.limit_id === limitId) &&
      (channelId === undefined || one.channel_id === channelId) &&
      (event === undefined || one.event === event);
    return this.#space
      .ofOrg(orgId)
      .filter(fits)
      .map((one) => this.#shown(one));
  }

  get(orgId: string, id: string): AlertSubscription | undefined {
    const found = this.#space.get(id);
    return found?.org_id === orgId ? this.#shown(found) : undefined;
  }

  /**
   * @throws GatewayError `conflict` when the channel is subscribed to that already, or goes meanwhile, or has too many
   */
  async create(orgId: string, channelId: string, subject: SubscribedTo, enabled = true, commit?: Commit): Promise<AlertSubscription> {
    const now = this.#clock.now();
    const made: StoredSubscription = {
      subscription_id: uuidv7(now),
      org_id: orgId,
      channel_id: channelId,
      ...subject,
      enabled,
      created_at: timestamp(now),
    };
    const id = made.subscription_id;
    const next = async (_current: unknown, { effects, expect }: Along): Promise<StoredSubscription> => {
      const of = { space: OF, key: ofKey(channelId, subject) };
      const channel = await this.#store.entity(CHANNELS, channelId);
      const pointer = await this.#store.entity(of.space, of.key);
      if (pointer !== undefined)
        throw new GatewayError('conflict', `This channel has that subscription already: ${String(pointer.value)}.`);
      if (channel === undefined) throw new GatewayError('conflict', 'The channel is there no more.');
      if (this.list(orgId, { channelId }).length >= MAX_SUBSCRIPTIONS)
        throw new GatewayError('limit_reached', `A channel has at most ${MAX_SUBSCRIPTIONS} subscriptions.`);
      effects.push({ op: 'put', ...of, value: id });
      expect.push({ ...of, version: undefined }, { space: CHANNELS, key: channelId, version: channel.version });
      return made;
    };
    await this.#space.change(id, next, { commit });
    return this.#shown(made);
  }

  /** Enables or disables one. Undefined when the org has no such. */
  async enable(orgId: string, id: string, enabled: boolean, commit?: Commit): Promise<AlertSubscription | undefined> {
    const next = (before: StoredSubscription | undefined): StoredSubscription | undefined =>
      before?.org_id === orgId ? { ...before, enabled } : undefined;
    const changed = await this.#space.change(id, next, { commit });
    return changed && this.#shown(changed);
  }

  /** False when the org has no such. */
  async remove(orgId: string, id: string, commit?: Commit): Promise<boolean> {
    if (this.#space.get(id)?.org_id !== orgId) return false;
    return this.#space.remove(id, { commit }, (one, { effects }) => effects.push(...removal(one).slice(1)));
  }

  /** What takes away all of a channel. */
  removalOf(channelId: string): readonly Effect[] {
    return [...this.#space.values()].filter((one) => one.channel_id === channelId).flatMap(removal);
  }

  /** What takes away all to a limit. */
  removalOfLimit(limitId: string): readonly AlsoChanged[] {
    return [...this.#space.values()]
      .filter((one) => one.limit_id === limitId)
      .map((one) => ({ operation: 'mgmt.alerts.subscriptions.remove', object: one.subscription_id, effects: removal(one) }));
  }

  /** Those of a channel that is gone, or to a limit that is, whoever has removed it. */
  async removeLeft(subject: { readonly channelId: string } | { readonly limitId: string }): Promise<void> {
    const isLeft = (one: StoredSubscription): boolean =>
      'channelId' in subject ? one.channel_id === subject.channelId : one.limit_id === subject.limitId;
    const effects = [...this.#space.values()].filter(isLeft).flatMap(removal);
    if (effects.length > 0) await this.#store.commit(undefined, effects);
  }

  /**
   * Whether an alert is still to be sent. Of two writers that have it the first one sends it, also again after a kill.
   * @param isNews whether it says more than another
   */
  async claim(id: string, alertId: string, last: LastAlert, isNews: (before: LastAlert) => boolean): Promise<boolean> {
    const next = (stored: StoredAlert | undefined): StoredAlert | undefined => {
      if (stored !== undefined && stored.sending !== alertId && !isNews(stored)) return undefined;
      const before = deliveredOf(stored);
      return { ...last, sending: alertId, ...(before === undefined ? {} : { before }) };
    };
    return (await this.#alerted.change(id, next)) !== undefined;
  }

  /**
   * Notes what became of an alert, in one commit with its history.
   * @param delivered undefined: it was not; then another may be sent in its place
   */
  async note(id: string, alertId: string, delivered: LastAlert | undefined, history: readonly Effect[]): Promise<void> {
    await this.#alerted.change(id, (stored, { effects }) => {
      effects.push(...history);
      // Another writer may have more to say by now.
      if (stored?.sending !== undefined && stored.sending !== alertId) return stored;
      return delivered ?? deliveredOf(stored) ?? REMOVED;
    });
  }

  #shown(stored: StoredSubscription): AlertSubscription {
    const last = deliveredOf(this.#alerted.get(stored.subscription_id));
    const { created_at: createdAt, ...rest } = stored;
    return { ...rest, last_alerted_at: last?.at ?? null, last_alerted_level: last?.level ?? null, created_at: createdAt };
  }
}

function deliveredOf(stored: StoredAlert | undefined): LastAlert | undefined {
  return stored?.sending === undefined ? stored : stored.before;
}

function ofKey(channelId: string, { limit_id: limitId, event }: SubscribedTo): string {
  return `${channelId}|${limitId === undefined ? `event ${event ?? ''}` : `limit ${encodeURIComponent(limitId)}`}`;
}

function removal(one: StoredSubscription): readonly Effect[] {
  return [
    { op: 'delete', space: SUBSCRIPTIONS, key: one.subscription_id },
    { op: 'delete', space: OF, key: ofKey(one.channel_id, one) },
    { op: 'delete', space: ALERTED, key: one.subscription_id },
  ];
}
