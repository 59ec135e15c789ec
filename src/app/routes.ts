import { packageVersion } from '../base/lib/package-root.ts';
import type { Arrival } from '../base/model/arrival.ts';
import { CONSOLE_OPERATIONS } from '../operations/console-operations.ts';
import { type DescribedOperation, openApi } from '../operations/openapi.ts';
import { OPERATIONS } from '../operations/operation-table.ts';
import {
  APPROVAL_PAGE,
  CHAT_USER_PAGE,
  CONSOLE_PAGES,
  END_MCP_SESSION,
  EXECUTE,
  FRONT_PAGE,
  PAGE_FILES,
  READ_METRICS,
  SPEAK_MCP,
} from '../operations/served-elsewhere.ts';
import type { OperationServices } from '../operations/services.ts';
import { actionRoutes, operationRoutes } from '../surfaces/api/operation-routes.ts';
import type { Route } from '../surfaces/http/route.ts';
import { consolePages } from '../surfaces/pages/console-pages.ts';
import { sitePages } from '../surfaces/pages/site-pages.ts';
import { gatewayMcp, type McpGround } from './mcp.ts';

export interface RouteParts extends Omit<OperationServices, 'description'> {
  readonly runDirect: (arrival: Arrival) => void;
  /** None when `GW_METRICS_ENABLED=false`: then `/metrics` is 404. */
  readonly metrics: readonly Route[];
  readonly mcp: McpGround;
}

const SIGN_IN_PREFIX = '/v1/console/';
const ADMIN_PREFIX = '/v1/admin/';
/** On every port. */
const HEALTH_PATHS: ReadonlySet<string> = new Set(['/healthz', '/readyz']);

/** Everything that the description and the reference page tell of. */
export const DESCRIBED: readonly DescribedOperation[] = [
  ...[EXECUTE, READ_METRICS, SPEAK_MCP, END_MCP_SESSION, APPROVAL_PAGE, CHAT_USER_PAGE, FRONT_PAGE, PAGE_FILES],
  ...CONSOLE_PAGES,
  ...OPERATIONS,
];

/** Which routes each port has. */
export interface PortRoutes {
  readonly main: readonly Route[];
  /** Undefined: the management API has no port of its own. */
  readonly management?: readonly Route[];
}

/**
 * Every route of the gateway's own: a face of the operations table, and what answers by itself.
 * @param apart the management API has a port of its own
 */
export function gatewayRoutes({ runDirect, metrics, mcp, ...parts }: RouteParts, apart: boolean): PortRoutes {
  const made = new Map<string, Uint8Array>();
  const services: OperationServices = {
    ...parts,
    description: (of) => {
      const isOn = (row: DescribedOperation): boolean => (row !== READ_METRICS || metrics.length > 0) && isServed(row);
      const served = DESCRIBED.filter((row) => isOn(row) && (of === 'all' || isManagement(row)));
      const bytes = made.get(of) ?? Buffer.from(JSON.stringify(openApi(served, services, packageVersion())));
      made.set(of, bytes);
      return bytes;
    },
  };
  // Where the console is switched off there is nothing of it.
  const ofConsole: ReadonlySet<DescribedOperation> = new Set([...CONSOLE_PAGES, ...CONSOLE_OPERATIONS]);
  const isServed = (row: DescribedOperation): boolean => parts.console !== undefined || !ofConsole.has(row);
  const { approval, chatUser, front, files } = sitePages(parts.console && (apart ? 'management' : 'proxy'));
  const own = [
    ...actionRoutes(runDirect),
    ...metrics,
    ...operationRoutes(OPERATIONS.filter(isServed), services),
    ...gatewayMcp(services, mcp),
    ...(parts.console === undefined ? [] : consolePages()),
  ];
  const { main, management } = routesByPort([...own, approval, chatUser, files], apart);
  return { main: [...main, front.proxy], ...(management && { management: [...management, front.management] }) };
}

/**
 * Which routes each port has: with a port of their own the management API, its pages, signing in to the console and MCP
 * are there alone, and so is health, which stays on the first port too. What the admin API has is there for sessions of
 * the console, and for nobody else (decision 10.10).
 */
function routesByPort(routes: readonly Route[], apart: boolean): PortRoutes {
  if (!apart) return { main: routes };
  const isApart = (route: Route): boolean =>
    isManagement(route) || route.path.startsWith(SIGN_IN_PREFIX) || route.path === SPEAK_MCP.path || route.page === true;
  const isThere = (route: Route): boolean => isApart(route) || route.anyPort === true || HEALTH_PATHS.has(route.path);
  return {
    main: routes.filter((route) => !isApart(route)),
    management: routes.flatMap((route) => {
      if (isThere(route)) return [route];
      return route.path.startsWith(ADMIN_PREFIX) ? [{ ...route, bySession: true as const }] : [];
    }),
  };
}

/** Whether an operation is one of the management API, whose keys open nothing else. */
function isManagement({ path }: { readonly path: string }): boolean {
  return path.startsWith('/mgmt/v1/');
}
