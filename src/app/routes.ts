import { packageVersion } from '../base/lib/package-root.ts';
import type { Arrival } from '../base/model/arrival.ts';
import { type DescribedOperation, openApi } from '../operations/openapi.ts';
import { OPERATIONS } from '../operations/operation-table.ts';
import { APPROVAL_PAGE, END_MCP_SESSION, EXECUTE, READ_METRICS, SPEAK_MCP } from '../operations/served-elsewhere.ts';
import type { OperationServices } from '../operations/services.ts';
import { actionRoutes } from '../surfaces/api/actions.ts';
import { operationRoutes } from '../surfaces/api/operation-routes.ts';
import type { Route } from '../surfaces/http/route.ts';
import { approvalPage } from '../surfaces/pages/approval-page.ts';
import { gatewayMcp, type McpGround } from './mcp.ts';

export interface RouteParts extends Omit<OperationServices, 'description'> {
  readonly runDirect: (arrival: Arrival) => void;
  /** None when `GW_METRICS_ENABLED=false`: then `/metrics` is 404. */
  readonly metrics: readonly Route[];
  readonly mcp: McpGround;
}

/** On every port. */
const HEALTH_PATHS: ReadonlySet<string> = new Set(['/healthz', '/readyz']);

/** Everything that the description and the reference page tell of. */
export const DESCRIBED: readonly DescribedOperation[] = [EXECUTE, READ_METRICS, SPEAK_MCP, END_MCP_SESSION, APPROVAL_PAGE, ...OPERATIONS];

/** Every route of the gateway's own: a face of the operations table, and what answers by itself. */
export function gatewayRoutes({ runDirect, metrics, mcp, ...parts }: RouteParts): readonly Route[] {
  const made = new Map<string, Uint8Array>();
  const services: OperationServices = {
    ...parts,
    description: (of) => {
      const served = DESCRIBED.filter((row) => (row !== READ_METRICS || metrics.length > 0) && (of === 'all' || isManagement(row)));
      const bytes = made.get(of) ?? Buffer.from(JSON.stringify(openApi(served, services, packageVersion())));
      made.set(of, bytes);
      return bytes;
    },
  };
  return [...actionRoutes(runDirect), ...metrics, ...operationRoutes(OPERATIONS, services), ...gatewayMcp(services, mcp), approvalPage()];
}

/**
 * Which routes each port has: with a port of their own the management API, its page and MCP are there alone, and so is health, which stays on the first port too
 * (decision 10.10).
 */
export function routesByPort(
  routes: readonly Route[],
  apart: boolean,
): { readonly main: readonly Route[]; readonly management?: readonly Route[] } {
  if (!apart) return { main: routes };
  const isApart = (route: Route): boolean => isManagement(route) || route.path === SPEAK_MCP.path || route.page === true;
  return {
    main: routes.filter((route) => !isApart(route)),
    management: routes.filter((route) => isApart(route) || HEALTH_PATHS.has(route.path)),
  };
}

/** Whether an operation is one of the management API, whose keys open nothing else. */
function isManagement({ path }: { readonly path: string }): boolean {
  return path.startsWith('/mgmt/v1/');
}
