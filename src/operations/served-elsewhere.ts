import { z } from 'zod';
import type { DescribedOperation } from './openapi.ts';
import { ADDS, READS, REMOVES } from './operation.ts';
import { pathId } from './shapes.ts';

/** The structured API: the pipeline reads its body, so that every refusal is on record. */
export const EXECUTE: DescribedOperation = {
  id: 'actions.execute',
  method: 'POST',
  path: '/v1/actions:execute',
  scope: 'none',
  summary: 'Decides, forwards and records one ActionRequest; `action.params.stream: true` answers with the raw event stream.',
  annotations: ADDS,
  errors: [
    'invalid_request',
    'body_too_large',
    'body_too_deep',
    'forbidden',
    'upstream_unreachable',
    'record_store_unavailable',
    'overloaded',
  ],
  output: { status: 200, schema: z.looseObject({ record_id: z.string(), decision: z.string() }) },
  inputs: () => ({
    body: z.looseObject({
      schema: z.string(),
      org_id: z.string(),
      workload_id: z.string(),
      action: z.looseObject({ type: z.string().optional() }),
    }),
  }),
};

export const READ_METRICS: DescribedOperation = {
  id: 'metrics.read',
  method: 'GET',
  path: '/metrics',
  scope: 'metrics',
  summary: 'Prometheus text; needs `GW_METRICS_TOKEN` as a bearer token when that is set.',
  annotations: READS,
  output: { status: 200, contentType: 'text/plain; version=0.0.4; charset=utf-8' },
  inputs: () => ({}),
};

/** MCP has a protocol of its own behind one path. */
export const SPEAK_MCP: DescribedOperation = {
  id: 'mcp.post',
  method: 'POST',
  path: '/mcp',
  scope: 'mcp',
  summary: 'Model Context Protocol: one JSON-RPC message of a client, and its answer.',
  annotations: ADDS,
  errors: ['invalid_session', 'body_too_large'],
  output: { status: 200, schema: z.looseObject({ jsonrpc: z.literal('2.0') }) },
  inputs: () => ({ body: z.looseObject({ jsonrpc: z.literal('2.0'), method: z.string() }) }),
};

export const END_MCP_SESSION: DescribedOperation = {
  id: 'mcp.end_session',
  method: 'DELETE',
  path: '/mcp',
  scope: 'mcp',
  summary: 'Model Context Protocol: ends the session of `Mcp-Session-Id`.',
  annotations: REMOVES,
  errors: ['invalid_session'],
  output: { status: 204 },
  inputs: () => ({}),
};

/** A page for people: it holds no data, and asks the management API with the key that it is given (decision 11.4). */
export const APPROVAL_PAGE: DescribedOperation = {
  id: 'approvals.page',
  method: 'GET',
  path: '/approvals/{id}',
  scope: 'none',
  summary: 'The page on which a person decides about a request that waits: where the link in an alert leads.',
  annotations: READS,
  output: { status: 200, contentType: 'text/html; charset=utf-8' },
  inputs: () => ({ params: pathId('Approval id') }),
};

/** As the page of an approval; what is proven on it stands behind the `#` of its link, which no server sees. */
export const CHAT_USER_PAGE: DescribedOperation = {
  id: 'chat_users.page',
  method: 'GET',
  path: '/chat-users/{id}',
  scope: 'none',
  summary: 'The page on which somebody says that an account in a chat is his: where the answer to a button leads.',
  annotations: READS,
  output: { status: 200, contentType: 'text/html; charset=utf-8' },
  inputs: () => ({ params: pathId('Id of the chat user') }),
};

/** What people see who open the address of a port (decision 11.4); programs are told that there is nothing. */
export const FRONT_PAGE: DescribedOperation = {
  id: 'front.page',
  method: 'GET',
  path: '/',
  scope: 'none',
  summary: 'For browsers (`Accept: text/html`): a page that says what this is and where to go. 404 for programs.',
  annotations: READS,
  errors: ['not_found'],
  output: { status: 200, contentType: 'text/html; charset=utf-8' },
  inputs: () => ({}),
};

/** The style and the script of the pages, by names that change with what is inside. */
export const PAGE_FILES: DescribedOperation = {
  id: 'page_files.read',
  method: 'GET',
  path: '/assets/{file}',
  scope: 'none',
  summary: 'Style and script of the pages for people.',
  annotations: READS,
  errors: ['not_found'],
  output: { status: 200, contentType: 'text/css; charset=utf-8', also: 'text/javascript; charset=utf-8' },
  inputs: () => ({ params: z.object({ file: z.string().meta({ description: 'As the page names it' }) }) }),
};

/** The web console (decision 10.20). Its pages hold no datum: what they show is asked for with a session. */
export const CONSOLE_DOOR: DescribedOperation = {
  id: 'console.door',
  method: 'GET',
  path: '/console',
  scope: 'none',
  summary: 'Leads to `/console/`.',
  annotations: READS,
  output: { status: 302 },
  inputs: () => ({}),
};

export const CONSOLE_START: DescribedOperation = {
  id: 'console.start',
  method: 'GET',
  path: '/console/',
  scope: 'none',
  summary: 'The web console; not there with `GW_CONSOLE_ENABLED=false`.',
  annotations: READS,
  errors: ['not_found'],
  output: { status: 200, contentType: 'text/html; charset=utf-8' },
  inputs: () => ({}),
};

export const CONSOLE_PAGE: DescribedOperation = {
  id: 'console.page',
  method: 'GET',
  path: '/console/{page}',
  scope: 'none',
  summary: 'A page of the web console, such as `calls`: what it shows is in its query.',
  annotations: READS,
  errors: ['not_found'],
  output: { status: 200, contentType: 'text/html; charset=utf-8' },
  inputs: () => ({ params: z.object({ page: z.string().meta({ description: 'Such as calls, approvals, spend, domains' }) }) }),
};

/** Its scripts and styles, by names that change with what is inside. */
export const CONSOLE_FILES: DescribedOperation = {
  id: 'console.files',
  method: 'GET',
  path: '/console/assets/{file}',
  scope: 'none',
  summary: 'Scripts and styles of the web console.',
  annotations: READS,
  errors: ['not_found'],
  output: { status: 200, contentType: 'text/javascript; charset=utf-8', also: 'text/css; charset=utf-8' },
  inputs: () => ({ params: z.object({ file: z.string().meta({ description: 'As the page names it' }) }) }),
};

export const CONSOLE_PAGES: readonly DescribedOperation[] = [CONSOLE_DOOR, CONSOLE_START, CONSOLE_PAGE, CONSOLE_FILES];
