import type { Attribution, ConnectionType } from './action-request.ts';

/** A registered application (specification, "Workload"). */
export interface Workload {
  readonly workload_id: string;
  /** The one org it counts for; absent: every org (decision 4.1). */
  readonly org_id?: string;
  readonly name?: string;
  /** Absent means all, an empty list none (decision 4.1). */
  readonly allowed_connection_types?: readonly ConnectionType[];
  readonly default_attribution?: Attribution;
}
