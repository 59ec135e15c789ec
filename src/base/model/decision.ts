/** What policy can decide (specification, "What the service does" 1), from the mildest to the most severe (policy.md 4). */
export const DECISIONS = ['allow', 'downgrade', 'rate_limit', 'require_approval', 'require_attribution', 'deny', 'quarantine'] as const;
export type Decision = (typeof DECISIONS)[number];

/** What a record can say: a decision, or `error` for a call that policy let through and the gateway could not complete (decision 7.8). */
export type RecordedDecision = Decision | 'error';

/** Position in {@link DECISIONS}: a higher number is more severe. */
export function severityOf(decision: Decision): number {
  return DECISIONS.indexOf(decision);
}

/** True for the two decisions that let a request run. */
export function permits(decision: Decision): decision is 'allow' | 'downgrade' {
  return decision === 'allow' || decision === 'downgrade';
}
