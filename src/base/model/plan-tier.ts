/** What an org can have bought, the smallest first; it limits the layers that an overlay may use (specification, "Policy bundle"). This is the one list of them. */
export const PLAN_TIERS = ['starter', 'pro', 'enterprise'] as const;
export type PlanTier = (typeof PLAN_TIERS)[number];

/** The tier of this name; undefined for any other text, older spellings included. */
export function planTierOf(text: unknown): PlanTier | undefined {
  return PLAN_TIERS.find((tier) => tier === text);
}
