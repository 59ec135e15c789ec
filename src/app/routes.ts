import type { Arrival } from '../base/model/arrival.ts';
import type { Discovery } from '../services/discovery.ts';
import type { PolicyService } from '../services/policies.ts';
import type { RateLimitService } from '../services/rate-limits.ts';
import type { ShadowPolicy } from '../services/shadow-policy.ts';
import type { WorkloadService } from '../services/workloads.ts';
import type { Store } from '../storage/contract/store.ts';
import { billingRoutes } from '../surfaces/admin/billing.ts';
import { type BudgetRouteOptions, budgetRoutes } from '../surfaces/admin/budgets.ts';
import { type ConnectorRouteOptions, connectorRoutes } from '../surfaces/admin/connectors.ts';
import { type CredentialRouteOptions, credentialRoutes } from '../surfaces/admin/credentials.ts';
import { dashboardRoutes, type ReportRouteOptions } from '../surfaces/admin/dashboard.ts';
import { discoveryRoutes } from '../surfaces/admin/discovery.ts';
import { policyRoutes } from '../surfaces/admin/policies.ts';
import { rateLimitRoutes } from '../surfaces/admin/rate-limits.ts';
import { reportRoutes } from '../surfaces/admin/reports.ts';
import { workloadRoutes } from '../surfaces/admin/workloads.ts';
import { actionRoutes } from '../surfaces/api/actions.ts';
import { type HealthOptions, healthRoutes } from '../surfaces/api/health.ts';
import { recordRoutes } from '../surfaces/api/records.ts';
import { type TrustOptions, trustRoutes } from '../surfaces/api/trust.ts';
import type { Route } from '../surfaces/http/route.ts';

export interface RouteParts {
  readonly runDirect: (arrival: Arrival) => void;
  readonly store: Store;
  readonly policies: PolicyService;
  readonly shadow: ShadowPolicy | undefined;
  readonly workloads: WorkloadService;
  readonly rateLimits: RateLimitService;
  readonly budgets: BudgetRouteOptions;
  readonly credentials: CredentialRouteOptions;
  readonly connectors: ConnectorRouteOptions;
  readonly reports: ReportRouteOptions;
  readonly health: HealthOptions;
  readonly trust: TrustOptions;
  /** None when `GW_METRICS_ENABLED=false`: then `/metrics` is 404. */
  readonly metrics: readonly Route[];
  /** Undefined when `GW_DISCOVERY_ENABLED=false`: then its routes are 404. */
  readonly discovery: Discovery | undefined;
}

/** Every route of the gateway's own; the reference page of operations is generated from it. */
export function gatewayRoutes(parts: RouteParts): readonly Route[] {
  return [
    ...actionRoutes(parts.runDirect),
    ...recordRoutes(parts.store),
    ...healthRoutes(parts.health),
    ...trustRoutes(parts.trust),
    ...parts.metrics,
    ...workloadRoutes(parts.workloads),
    ...policyRoutes(parts.policies, parts.shadow),
    ...rateLimitRoutes(parts.rateLimits),
    ...discoveryRoutes(parts.discovery),
    ...budgetRoutes(parts.budgets),
    ...credentialRoutes(parts.credentials),
    ...connectorRoutes(parts.connectors),
    ...dashboardRoutes(parts.reports),
    ...billingRoutes(parts.reports),
    ...reportRoutes(parts.reports),
  ];
}
