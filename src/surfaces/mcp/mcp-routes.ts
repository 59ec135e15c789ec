import type { Route, RouteAnswer } from '../http/route.ts';
import { type McpAnswer, type McpEndpoint, SESSION_FIELD } from './mcp-endpoint.ts';

/** `/mcp` takes POST, and DELETE which ends a session. There is no stream to GET: the router answers 405 with what there is (specification, "MCP server"). */
export function mcpRoutes(endpoint: McpEndpoint): readonly Route[] {
  const base = { path: '/mcp', auth: 'mcp' } as const;
  return [
    {
      ...base,
      method: 'POST',
      summary: 'Model Context Protocol: the messages of a client.',
      handle: async ({ head: { headers }, principal, from, json }) =>
        routeAnswer(await endpoint.post({ headers, asker: { principal, from }, json })),
    },
    {
      ...base,
      method: 'DELETE',
      summary: 'Model Context Protocol: ends a session.',
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
