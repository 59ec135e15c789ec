import { deny } from '../parts/refusal.ts';
import { defineStage } from '../parts/stage.ts';

/** The workload must be registered, for this org, and allowed to come this way (specification, "Workload"; decision 4.1). */
export const workload = defineStage({
  name: 'workload',
  reads: ['arrival', 'claims'],
  makes: ['caller'],
  run({ arrival, claims: { orgId, workloadId } }, { workloads }) {
    const found = workloads.get(orgId, workloadId);
    if (!found) return deny('workload_not_registered', `Workload ${workloadId} is not registered for org ${orgId}.`);
    const allowed = found.allowed_connection_types;
    if (allowed && !allowed.includes(arrival.connectionType)) {
      return deny('connection_type_not_allowed', `Workload ${workloadId} may not use ${arrival.connectionType}.`);
    }
    return { caller: { workload: found, orgAttribution: workloads.defaultAttribution(orgId) } };
  },
});
