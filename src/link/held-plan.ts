import type { Logger } from '../base/lib/log.ts';
import type { HealthWarning } from '../base/model/not-ready.ts';
import { PLAN_TIERS, planTierOf } from '../base/model/org.ts';
import type { OrgState } from '../control-plane/proto/messages.ts';
import type { OrgPlanService } from '../services/people/org-plans.ts';
import type { PolicyService } from '../services/policy/policies.ts';

const LIMIT = /^\d{1,15}$/;

export interface HeldPlanOptions {
  readonly log: Logger;
  /** Of this gateway. */
  readonly orgId: string;
  readonly policies: Pick<PolicyService, 'holdTier'>;
  readonly orgPlans: Pick<OrgPlanService, 'told'>;
}

/**
 * What the org has bought, as its control plane says it: it counts over `GW_PLAN_TIER`, and where it sets a monthly
 * limit over `GW_MONTHLY_REQUEST_LIMIT` (decision 13.14).
 */
export class HeldPlan {
  readonly #options: HeldPlanOptions;
  /** A tier that this version does not know: the one before holds. */
  #unknown: string | undefined;

  constructor(options: HeldPlanOptions) {
    this.#options = options;
  }

  async heed({ plan_tier: text, monthly_request_limit: limit, overage_enabled: overage }: OrgState): Promise<void> {
    const { log, orgId, policies, orgPlans } = this.#options;
    orgPlans.told(orgId, LIMIT.test(limit) ? { limit: Number(limit), overage } : undefined);
    const tier = planTierOf(text);
    if (tier === undefined && text !== '' && text !== this.#unknown)
      log.error({ plan_tier: text }, `the control plane says a plan tier that is none of ${PLAN_TIERS.join(', ')}: the one before holds`);
    this.#unknown = tier === undefined && text !== '' ? text : undefined;
    if (tier !== undefined) await policies.holdTier(tier);
  }

  warnings(): readonly HealthWarning[] {
    if (this.#unknown === undefined) return [];
    const message = `The control plane says the plan tier ${JSON.stringify(this.#unknown.slice(0, 64))}, which is none of ${PLAN_TIERS.join(', ')}: the one before holds.`;
    return [{ code: 'unknown_plan_tier', message }];
  }
}
