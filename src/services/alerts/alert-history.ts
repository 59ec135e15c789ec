import { newestFirst } from '../../base/lib/newest-first.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import type { AlertHistoryEntry } from '../../base/model/alert-channel.ts';
import type { Effect, Store } from '../../storage/contract/store.ts';
import { type EntitiesPage, entityPage, type PageQuery, removeEntities } from '../entity-page.ts';

/** Under the keys of `newestFirst`. */
const SPACE = 'alert_history';

export interface HistoryFilter {
  readonly orgId: string;
  readonly channelId?: string | undefined;
  readonly limitId?: string | undefined;
  readonly subscriptionId?: string | undefined;
  readonly level?: string | undefined;
}

/** What became of alerts. */
export class AlertHistory {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  /** A page, the newest first. */
  page(filter: HistoryFilter, query: PageQuery): Promise<EntitiesPage<AlertHistoryEntry>> {
    return entityPage(this.#store, SPACE, query, (value) => {
      const entry = value as AlertHistoryEntry;
      return fits(entry, filter) ? entry : undefined;
    });
  }

  async has(alertId: string): Promise<boolean> {
    return (await this.#store.get(SPACE, newestFirst(alertId))) !== undefined;
  }

  entryEffect(entry: AlertHistoryEntry): Effect {
    return { op: 'put', space: SPACE, key: newestFirst(entry.alert_id), value: entry };
  }

  /** Removes what is older. @returns how many */
  removeBefore(epochMs: number): Promise<number> {
    return removeEntities(this.#store, SPACE, epochMs, () => true);
  }
}

/** The id of the alert that an event is for a subscription: a UUID version 7 of its time, the same whenever it is asked. */
export function alertIdOf(event: { readonly id: string; readonly at: number }, subscriptionId: string): string {
  const time = Math.floor(event.at).toString(16).padStart(12, '0');
  const hash = sha256Hex(`${event.id} ${subscriptionId}`);
  return `${time.slice(0, 8)}-${time.slice(8)}-7${hash.slice(0, 3)}-8${hash.slice(3, 6)}-${hash.slice(6, 18)}`;
}

function fits(entry: AlertHistoryEntry, { orgId, channelId, limitId, subscriptionId, level }: HistoryFilter): boolean {
  return (
    entry.org_id === orgId &&
    (channelId === undefined || entry.channel_id === channelId) &&
    (limitId === undefined || entry.limit_id === limitId) &&
    (subscriptionId === undefined || entry.subscription_id === subscriptionId) &&
    (level === undefined || entry.level === level)
  );
}
