import type { Clock } from '../base/lib/clock.ts';
import type { Logger } from '../base/lib/log.ts';
import { packageVersion } from '../base/lib/package-root.ts';
import type { OperationServices } from '../operations/services.ts';
import { TOOLS } from '../operations/tool-table.ts';
import type { Route } from '../surfaces/http/route.ts';
import { McpDispatcher } from '../surfaces/mcp/mcp-dispatcher.ts';
import { McpEndpoint } from '../surfaces/mcp/mcp-endpoint.ts';
import { mcpRoutes } from '../surfaces/mcp/mcp-routes.ts';
import { mcpServerFacts } from '../surfaces/mcp/server-facts.ts';

/** Of a session (specification, "Limits"). */
const IDLE_MS = 3_600_000;

export interface McpGround {
  readonly clock: Clock;
  readonly log: Logger;
}

/** The tools of this gateway for assistants. */
export function gatewayMcp(services: OperationServices, { clock, log }: McpGround): readonly Route[] {
  const dispatcher = new McpDispatcher({ toolSet: TOOLS.boundTo(services), server: mcpServerFacts(packageVersion()), log });
  return mcpRoutes(new McpEndpoint({ dispatcher, clock, idleMs: IDLE_MS }));
}
