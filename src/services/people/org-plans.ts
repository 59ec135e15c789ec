import type { OrgPlan } from '../../base/model/org.ts';
import type { Store } from '../../storage/contract/store.ts';
import type { MonthlyPlan, MonthlyPlans } from '../money/monthly-requests.ts';
import type { Commit } from '../registers/commit.ts';
import { Register } from '../registers/register.ts';
import { entityWith } from '../registers/watched-space.ts';

export const ORG_PLANS = 'org_plan';

/**
 * How many requests each org may make in a month (specification, "Limits"; decision 13.14): what its control plane
 * says, else what was put for it at this gateway, else the settings. In memory, also as other writers of the store
 * change it.
 */
export class OrgPlanService implements MonthlyPlans {
  readonly #settings: MonthlyPlan;
  readonly #put: Register<OrgPlan>;
  /** Until somebody has said something of an org: so no request asks for more than that. */
  alike: MonthlyPlan | undefined;
  /** What a control plane has said; those of orgs of which it says nothing are not there. */
  readonly #told = new Map<string, MonthlyPlan>();

  private constructor(settings: MonthlyPlan, put: Register<OrgPlan>) {
    this.#settings = settings;
    this.#put = put;
    this.alike = put.size === 0 ? settings : undefined;
  }

  /** @param settings of an org of which nobody has said anything */
  static async open(store: Store, settings: MonthlyPlan): Promise<OrgPlanService> {
    let service: OrgPlanService | undefined;
    const put = await Register.open(store, ORG_PLANS, {
      read: entityWith<OrgPlan>('org_id'),
      changed: () => {
        if (service !== undefined) service.alike = undefined;
      },
    });
    service = new OrgPlanService(settings, put);
    return service;
  }

  of(orgId: string): MonthlyPlan {
    const told = this.#told.get(orgId);
    if (told !== undefined) return told;
    const put = this.#put.get(orgId);
    if (put === undefined) return this.#settings;
    const { monthly_request_limit: limit, overage_enabled: overage } = put;
    return {
      limit: limit === undefined ? this.#settings.limit : (limit ?? undefined),
      overage: overage ?? this.#settings.overage,
    };
  }

  /**
   * What its control plane says of an org takes the place of everything else.
   * @param plan undefined: it leaves that to the settings; what was put here before there was a control plane counts no
   * more, since nobody could take it away
   */
  told(orgId: string, plan: MonthlyPlan | undefined): void {
    this.#told.set(orgId, plan ?? this.#settings);
    if (plan !== undefined) this.alike = undefined;
  }

  /** Those that were put here, in the order of their orgs. */
  list(): readonly OrgPlan[] {
    return [...this.#put.values()].sort((a, b) => (a.org_id < b.org_id ? -1 : 1));
  }

  /** Makes or changes the plan of an org: what is undefined stays. */
  put(orgId: string, change: Omit<OrgPlan, 'org_id'>, commit?: Commit): Promise<OrgPlan> {
    const said = Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined));
    return this.#put.change(orgId, (before): OrgPlan => ({ ...before, ...said, org_id: orgId }), { commit });
  }

  /** The org has what the settings say again. False when it had nothing else. */
  remove(orgId: string, commit?: Commit): Promise<boolean> {
    return this.#put.remove(orgId, { commit });
  }
}
