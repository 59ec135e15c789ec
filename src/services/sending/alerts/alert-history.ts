import { newestFirst } from '../../../base/lib/ids.ts';
import { sha256Hex } from '../../../base/lib/sha256.ts';
import type { AlertHistoryEntry } from '../../../base/model/alert-channel.ts';
import type { Effect, Store } from '../../../storage/contract/store.ts';
import { type EntitiesPage, type PageQuery, removeEntities } from '../../registers/entity-page.ts';
import { GroupIndex } from '../../registers/group-index.ts';

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

  readonly #byOrg: GroupIndex;

  private constructor(store: Store) {
    this.#store = store;
    this.#byOrg = new GroupIndex(store, SPACE, 'org');
  }

  /** @throws Error when the store cannot be read, or what an older version has stored cannot be named by its org */
  static async open(store: Store): Promise<AlertHistory> {
    const history = new AlertHistory(store);
    await history.#byOrg.complete((value) => (value as AlertHistoryEntry).org_id);
    return history;
  }

  /** A page, the newest first. */
  page(filter: HistoryFilter, query: PageQuery): Promise<EntitiesPage<AlertHistoryEntry>> {
    return this.#byOrg.page(filter.orgId, query, (value) => {
      const entry = value as AlertHistoryEntry;
      return fits(entry, filter) ? entry : undefined;
    });
  }

  async has(alertId: string): Promise<boolean> {
    return (await this.#store.get(SPACE, newestFirst(alertId))) !== undefined;
  }

  entryEffects(entry: AlertHistoryEntry): readonly Effect[] {
    const { alert_id: id, org_id: orgId } = entry;
    return [{ op: 'put', space: SPACE, key: newestFirst(id), value: entry }, this.#byOrg.put(orgId, id)];
  }

  /** Removes what is older. @returns how many */
  removeBefore(epochMs: number): Promise<number> {
    const isGone = (): boolean => true;
    return removeEntities(this.#store, SPACE, epochMs, isGone, (value) => {
      const { alert_id: id, org_id: orgId } = value as AlertHistoryEntry;
      return [this.#byOrg.delete(orgId, id)];
    });
  }
}

/**
 * The id of the alert that an event is for a subscription: a UUID version 7 of its time, the same whenever it is asked.
 */
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
