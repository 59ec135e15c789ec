import type { Workload } from '../base/model/workload.ts';

/** What names a workload: two orgs may have one of the same id each, and one that counts for every org has none. */
export type WorkloadName = Pick<Workload, 'org_id' | 'workload_id'>;

/** Where a workload, and its token, is kept. Ids of orgs and workloads hold no blank (decision 4.7), so that no two have one key. */
export function workloadKey({ org_id: orgId, workload_id: id }: WorkloadName): string {
  return orgId === undefined ? id : `${orgId} ${id}`;
}
