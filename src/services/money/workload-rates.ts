import type { Effect } from '../../storage/contract/store.ts';
import { type WorkloadName, workloadKey } from '../registers/org-key.ts';

/** What orgs have laid down for one workload each, by {@link workloadKey}. */
export const WORKLOAD_RATES = 'rate_limit_workload';

/**
 * The rate limit of one workload of an org (decision 6.1): its bucket holds so many tokens as flow in within a minute.
 */
export interface WorkloadRate {
  readonly org_id: string;
  readonly workload_id: string;
  readonly requests_per_minute: number;
  readonly created_at: string;
}

/**
 * What takes the rate limit of an org's workload away with the workload. One that counts for every org has none of its
 * own.
 */
export function workloadRateRemoval(workload: WorkloadName): readonly Effect[] {
  return workload.org_id === undefined ? [] : [{ op: 'delete', space: WORKLOAD_RATES, key: workloadKey(workload) }];
}
