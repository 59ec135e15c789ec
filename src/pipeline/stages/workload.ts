import { deny } from '../refusals.ts';
import type { Stage } from '../stage.ts';

/** The workload must be registered, for this org, and allowed to come this way (specification, "Workload"; decision 4.1). */
export const workload: Stage = {
  name: 'workload',
  run(exchange, { workloads }) {
    const found = workloads.get(exchange.workloadId);
    if (!found || (found.org_id !== undefined && found.org_id !== exchange.orgId)) {
      return deny('workload_not_registered', `Workload ${exchange.workloadId} is not registered for org ${exchange.orgId}.`);
    }
    const allowed = found.allowed_connection_types;
    if (allowed && !allowed.includes(exchange.connectionType)) {
      return deny('connection_type_not_allowed', `Workload ${exchange.workloadId} may not use ${exchange.connectionType}.`);
    }
    exchange.workload = found;
    return undefined;
  },
};
