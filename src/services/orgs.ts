import { GatewayError } from '../base/lib/gateway-error.ts';
import type { OrgStatus } from '../base/model/org-status.ts';
import type { Store } from '../storage/contract/store.ts';
import { type Commit, commitAlone } from './commit.ts';
import { WatchedSpace } from './watched-space.ts';

const STATUS = 'org_status';

/** Which orgs may call (specification, "Org status"). Held in memory, also as other writers of the store change it; only those that are not active are stored. */
export class OrgService {
  readonly #store: Store;
  readonly #barred: WatchedSpace<OrgStatus>;
  /** Changes of one org follow each other. */
  #last: Promise<unknown> = Promise.resolve();

  private constructor(store: Store, barred: WatchedSpace<OrgStatus>) {
    this.#store = store;
    this.#barred = barred;
  }

  static async open(store: Store): Promise<OrgService> {
    return new OrgService(store, await WatchedSpace.open(store, STATUS, { read: (value) => value as OrgStatus }));
  }

  status(orgId: string): OrgStatus {
    return this.#barred.get(orgId) ?? { org_id: orgId, status: 'active' };
  }

  /** False when nobody of this org is served. */
  isActive(orgId: string): boolean {
    return this.#barred.size === 0 || !this.#barred.has(orgId);
  }

  /** From the next request on nobody of this org is served; its keys stay valid. A second time another reason takes the place of the first. @throws GatewayError `conflict` for a terminated org */
  suspend(orgId: string, reason: string | undefined, commit?: Commit): Promise<OrgStatus> {
    return this.#change(commit, orgId, {
      org_id: orgId,
      status: 'suspended',
      ...(reason === undefined ? {} : { suspended_reason: reason }),
    });
  }

  /** @throws GatewayError `conflict` for a terminated org */
  reactivate(orgId: string, commit?: Commit): Promise<OrgStatus> {
    return this.#change(commit, orgId, { org_id: orgId, status: 'active' });
  }

  #change(commit: Commit = commitAlone(this.#store), orgId: string, to: OrgStatus): Promise<OrgStatus> {
    const change = async (): Promise<OrgStatus> => {
      if (this.status(orgId).status === 'terminated') {
        throw new GatewayError('conflict', `The org ${orgId} is terminated; only its control plane can change that.`);
      }
      const effect = to.status === 'active' ? { op: 'delete' as const } : { op: 'put' as const, value: to };
      await commit(orgId, [{ space: STATUS, key: orgId, ...effect }]);
      await this.#barred.refresh(orgId);
      return to;
    };
    const done = this.#last.then(change, change);
    this.#last = done.catch(() => undefined);
    return done;
  }
}
