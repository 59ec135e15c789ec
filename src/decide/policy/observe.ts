import type { CompiledPolicy } from './compiled.ts';
import type { Facts } from './facts.ts';

/**
 * The observed values of the fields that the policy's rules read, for `policy_trace.attributes` (decision 7.4). JSON data; missing fields and content of the
 * body (all of it but model, stream and numbers) are left out, a query has its names only, money is decimal text.
 */
export function observe(policy: CompiledPolicy, facts: Facts): Record<string, unknown> {
  const seen: Record<string, unknown> = {};
  for (const { name, get, observed } of policy.fields) {
    const value = get(facts);
    if (value === undefined || value === null) continue;
    const kept = observed === undefined ? value : observed(value);
    if (kept !== undefined) seen[`context.${name}`] = kept;
  }
  return seen;
}
