import { GatewayError } from '../../base/lib/gateway-error.ts';
import { Roster, type Seat } from '../../base/lib/roster.ts';
import { Turn } from '../../base/lib/turn.ts';
import type { OrgStanding, OrgStatus } from '../../base/model/org.ts';
import type { Store } from '../../storage/contract/store.ts';
import type { Commit } from '../registers/commit.ts';
import { REMOVED, Register } from '../registers/register.ts';
import { entityWith } from '../registers/watched-space.ts';

export const ORG_STATUS = 'org_status';

/** Something that goes on by itself, with no further request that could be refused. */
interface Underway {
  /** True when nobody is served for whom it goes on. */
  readonly isBarred: () => boolean;
  readonly end: () => void;
}

/**
 * Which orgs may call (specification, "Org status"). Held in memory, also as other writers of the store change it; only
 * those that are not active are stored.
 */
export class OrgService {
  readonly #barred: Register<OrgStatus>;
  readonly #managedRemotely: boolean;
  /** What the control plane has said since the start. */
  readonly #told = new Map<string, OrgStatus>();
  readonly #underway: Roster<Underway>;
  /** Changes follow each other. */
  readonly #turn = new Turn();

  private constructor(managedRemotely: boolean, barred: Register<OrgStatus>, underway: Roster<Underway>) {
    this.#managedRemotely = managedRemotely;
    this.#barred = barred;
    this.#underway = underway;
  }

  /** @param managedRemotely a control plane says which orgs may call, and nobody else */
  static async open(store: Store, managedRemotely = false): Promise<OrgService> {
    const underway = new Roster<Underway>();
    // Also what another writer of the store has said ends here what it bars.
    const changed = (): void => endBarred(underway);
    const barred = await Register.open(store, ORG_STATUS, { read: entityWith<OrgStatus>('org_id', 'status'), changed });
    return new OrgService(managedRemotely, barred, underway);
  }

  status(orgId: string): OrgStatus {
    return this.#told.get(orgId) ?? this.#barred.get(orgId) ?? { org_id: orgId, status: 'active' };
  }

  /** False when nobody of this org is served. */
  isActive(orgId: string): boolean {
    const told = this.#told.get(orgId);
    if (told !== undefined) return told.status === 'active';
    return this.#barred.size === 0 || !this.#barred.has(orgId);
  }

  /**
   * Watches over what has no further request that could be refused (a tunnel that is not opened, a relayed WebSocket).
   * @param end called once when `isBarred` has become true; at once where it is so already
   * @returns what ends the watch
   */
  watch(isBarred: () => boolean, end: () => void): () => void {
    const seat = this.#underway.add({ isBarred, end });
    if (isBarred()) endOne(this.#underway, seat);
    return () => void this.#underway.remove(seat);
  }

  /**
   * From the next request on nobody of this org is served; its keys stay valid. A second time another reason takes the
   * place of the first.
   * @throws GatewayError `conflict` for a terminated org, `managed_remotely` where a control plane says it
   */
  suspend(orgId: string, reason: string | undefined, commit?: Commit): Promise<OrgStatus> {
    return this.#change(commit, orgId, { org_id: orgId, status: 'suspended', ...given(reason) });
  }

  /** @throws GatewayError `conflict` for a terminated org, `managed_remotely` where a control plane says it */
  reactivate(orgId: string, commit?: Commit): Promise<OrgStatus> {
    return this.#change(commit, orgId, { org_id: orgId, status: 'active' });
  }

  /**
   * What the control plane says of an org takes the place of all that was said before, also of a local suspension; it
   * counts at once. Only a change is stored.
   * @throws GatewayError `record_store_unavailable` when it counts and could not be stored
   */
  told(orgId: string, status: OrgStanding, reason: string | undefined): Promise<void> {
    const to: OrgStatus = { org_id: orgId, status, ...(status === 'active' ? {} : given(reason)) };
    this.#told.set(orgId, to);
    endBarred(this.#underway);
    return this.#turn.take(async () => {
      const now = this.#barred.get(orgId) ?? { org_id: orgId, status: 'active' };
      if (now.status === to.status && now.suspended_reason === to.suspended_reason) return;
      await this.#barred.change(orgId, () => storedOf(to));
    });
  }

  /**
   * Nothing is known of this org any more, so that it may call: the control plane that said otherwise is not asked any
   * more.
   */
  async forget(orgId: string): Promise<void> {
    this.#told.delete(orgId);
    await this.#barred.remove(orgId);
  }

  #change(commit: Commit | undefined, orgId: string, to: OrgStatus): Promise<OrgStatus> {
    if (this.#managedRemotely)
      return Promise.reject(
        new GatewayError('managed_remotely', `The control plane says whether the org ${orgId} may call: change it there.`),
      );
    return this.#turn.take(async () => {
      const next = (stored: OrgStatus | undefined): OrgStatus | typeof REMOVED => {
        if ((this.#told.get(orgId) ?? stored)?.status === 'terminated') {
          throw new GatewayError('conflict', `The org ${orgId} is terminated; only its control plane can change that.`);
        }
        return storedOf(to);
      };
      await this.#barred.change(orgId, next, { commit });
      return to;
    });
  }
}

/** An org that is active is not stored. */
function storedOf(status: OrgStatus): OrgStatus | typeof REMOVED {
  return status.status === 'active' ? REMOVED : status;
}

function endBarred(underway: Roster<Underway>): void {
  for (const seat of underway.seats()) if (seat.value.isBarred()) endOne(underway, seat);
}

function endOne(underway: Roster<Underway>, seat: Seat<Underway>): void {
  if (underway.remove(seat)) seat.value.end();
}

/** An empty text is no reason (specification, "Org status"). */
function given(reason: string | undefined): { readonly suspended_reason?: string } {
  return reason === undefined || reason === '' ? {} : { suspended_reason: reason };
}
