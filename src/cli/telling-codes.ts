/** Reason codes that say no more than the decision beside them. */
const REPEATED: ReadonlySet<string> = new Set([
  'approval_required',
  'attribution_required',
  'quarantined',
  'rate_limited',
  'policy_denied',
]);

/** Of the reason codes of a call those that tell something beside its decision (decision 10.17). */
export function tellingCodes(codes: readonly unknown[]): readonly string[] {
  return codes.filter((code): code is string => typeof code === 'string' && !REPEATED.has(code));
}
