import { MAX_RECORDED, shorten } from '../../base/lib/shorten.ts';
import type { CompiledPolicy } from './compiled.ts';
import type { Facts } from './facts.ts';

/**
 * The observed values of the fields that the policy's rules read, for `policy_trace.attributes` (decision 7.4). JSON data; missing fields and content of the
 * body (all of it but model, stream and numbers) are left out, a query has its names only, money is decimal text; long texts and lists are cut.
 */
export function observe(policy: CompiledPolicy, facts: Facts): Record<string, unknown> {
  const seen: Record<string, unknown> = {};
  for (const { name, get, observed } of policy.fields) {
    const value = get(facts);
    if (value === undefined || value === null) continue;
    const kept = observed === undefined ? value : observed(value);
    if (kept !== undefined) seen[`context.${name}`] = short(kept);
  }
  // Whatever the rules read, they were asked about each of them.
  if (facts.models !== undefined) seen[MODELS] = short(facts.models);
  return seen;
}

const MODELS = 'context.action.models';

/** Names of headers are as many as a request likes. */
const MAX_ITEMS = 100;

function short(value: unknown): unknown {
  if (typeof value === 'string') return shorten(value, MAX_RECORDED);
  return Array.isArray(value) ? value.slice(0, MAX_ITEMS).map((item: unknown) => (typeof item === 'string' ? shorten(item) : item)) : value;
}
