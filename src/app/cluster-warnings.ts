import type { HealthWarning } from '../base/model/not-ready.ts';
import type { Cluster } from '../storage/drivers/open-store.ts';

const AWAY: HealthWarning = {
  code: 'database_unavailable',
  message:
    'The database of GW_DATABASE_URL cannot be reached (the log says why). Calls go on, and what they leave is carried later; what people change, reports, approvals and calls with an Idempotency-Key are answered 503 until it is back.',
};

const RATES_ALONE: HealthWarning = {
  code: 'rate_limits_counted_alone',
  message:
    'Rate limits are counted by each node for itself: together the nodes let through as much as each of them. Budget caps and monthly request limits are shared, and exact.',
};

/** What an operator has to know of a gateway that shares a database. */
export function clusterWarnings(cluster: Pick<Cluster, 'health'>): { warnings(): readonly HealthWarning[] } {
  return { warnings: () => [...(cluster.health().isAway ? [AWAY] : []), RATES_ALONE] };
}
