import type { Effect } from '../storage/contract/store.ts';

/** What orgs have laid down for one workload each, by {@link workloadRateKey}. */
export const WORKLOAD_RATES = 'rate_limit_workload';

/** The rate limit of one workload of an org (decision 6.1): its bucket holds so many tokens as flow in within a minute. */
export interface WorkloadRate {
  readonly org_id: string;
  readonly workload_id: string;
  readonly requests_per_minute: number;
  readonly created_at: string;
}

/** Ids of orgs and workloads hold no blank (decision 4.7), so that no two have one key. */
export function workloadRateKey({ org_id: orgId, workload_id: id }: Pick<WorkloadRate, 'org_id' | 'workload_id'>): string {
  return `${orgId} ${id}`;
}

/** What takes the rate limit of an org's workload away with the workload. One that counts for every org has none of its own. */
export function workloadRateRemoval({
  org_id: orgId,
  workload_id: id,
}: {
  readonly org_id?: string | undefined;
  readonly workload_id: string;
}): readonly Effect[] {
  return orgId === undefined ? [] : [{ op: 'delete', space: WORKLOAD_RATES, key: workloadRateKey({ org_id: orgId, workload_id: id }) }];
}
