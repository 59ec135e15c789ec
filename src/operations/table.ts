import { BILLING_OPERATIONS } from './billing.ts';
import { BUDGET_OPERATIONS } from './budgets.ts';
import { CONNECTOR_OPERATIONS } from './connectors.ts';
import { CREDENTIAL_OPERATIONS } from './credentials.ts';
import { DASHBOARD_OPERATIONS } from './dashboard.ts';
import { DISCOVERY_OPERATIONS } from './discovery.ts';
import { HEALTH_OPERATIONS } from './health.ts';
import type { Operation } from './operation.ts';
import { POLICY_OPERATIONS } from './policies.ts';
import { RATE_LIMIT_OPERATIONS } from './rate-limits.ts';
import { RECORD_OPERATIONS } from './records.ts';
import { REPORT_OPERATIONS } from './reports.ts';
import { TRUST_OPERATIONS } from './trust.ts';
import { WORKLOAD_OPERATIONS } from './workloads.ts';

/** Everything that can be asked of the gateway and that this room answers. Of two paths that fit the first one counts. */
export const OPERATIONS: readonly Operation[] = [
  ...RECORD_OPERATIONS,
  ...HEALTH_OPERATIONS,
  ...TRUST_OPERATIONS,
  ...WORKLOAD_OPERATIONS,
  ...POLICY_OPERATIONS,
  ...RATE_LIMIT_OPERATIONS,
  ...DISCOVERY_OPERATIONS,
  ...BUDGET_OPERATIONS,
  ...CREDENTIAL_OPERATIONS,
  ...CONNECTOR_OPERATIONS,
  ...DASHBOARD_OPERATIONS,
  ...BILLING_OPERATIONS,
  ...REPORT_OPERATIONS,
];
