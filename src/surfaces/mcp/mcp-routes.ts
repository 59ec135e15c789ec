import { END_MCP_SESSION, SPEAK_MCP } from '../../operations/served-elsewhere.ts';
import type { Route, RouteAnswer } from '../http/route.ts';
import { type McpAnswer, type McpEndpoint, SESSION_FIELD } from './mcp-endpoint.ts';

/**
 * `/mcp` takes POST, and DELETE which ends a session. There is no stream to GET: the router answers 405 with what there
 * is (specification, "MCP server").
 */
export function mcpRoutes(endpoint: McpEndpoint): readonly Route[] {
  const { method, path, scope: auth, summary } = SPEAK_MCP;
  return [
    {
      method,
      path,
      auth,
      summary,
      handle: async ({ head: { headers }, principal, from, json, signal }) =>
        routeAnswer(await endpoint.post({ headers, asker: { principal, from, signal }, json })),
    },
    {
      method: END_MCP_SESSION.method,
      path,
      auth,
      summary: END_MCP_SESSION.summary,
      handle: ({ head: { headers }, principal, from }) => routeAnswer(endpoint.end({ headers, asker: { principal, from } })),
    },
  ];
}

function routeAnswer({ status, text, session }: McpAnswer): RouteAnswer {
  return {
    status,
    ...(text === undefined ? {} : { text, contentType: 'application/json' }),
    ...(session === undefined ? {} : { headers: [SESSION_FIELD, session] }),
  };
}
