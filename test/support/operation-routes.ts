// The routes of one group of operations, for tests that bring the services of that group alone.
import { BILLING_OPERATIONS } from '../../src/operations/billing-operations.ts';
import type { GatewayOperation } from '../../src/operations/operation.ts';
import { POLICY_OPERATIONS } from '../../src/operations/policy-operations.ts';
import type { OperationServices } from '../../src/operations/services.ts';
import { UsageReports } from '../../src/services/reports/usage-reports.ts';
import type { Store } from '../../src/storage/contract/store.ts';
import { operationRoutes } from '../../src/surfaces/api/operation-routes.ts';
import type { Route } from '../../src/surfaces/http/route.ts';

export function billingRoutes(reports: OperationServices['reports']): readonly Route[] {
  return routesOf(BILLING_OPERATIONS, { reports });
}

export function policyRoutes(services: Pick<OperationServices, 'policies' | 'shadow' | 'audit'>): readonly Route[] {
  return routesOf(POLICY_OPERATIONS, services);
}

function routesOf(operations: readonly GatewayOperation[], services: Partial<OperationServices>): readonly Route[] {
  const nothing = { store: {}, reports: { reports: new UsageReports({} as Store) } } as Partial<OperationServices>;
  return operationRoutes(operations, { ...nothing, ...services } as OperationServices).map((route) =>
    'handle' in route ? { ...route, handle: (request) => route.handle({ ...request, head: request.head ?? { headers: {} } }) } : route,
  );
}
