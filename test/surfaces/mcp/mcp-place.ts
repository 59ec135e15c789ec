// An endpoint with the fixture's tools, asked as a transport asks it.
import { silentLogger } from '../../../src/base/lib/log.ts';
import type { Principal, Scope } from '../../../src/base/model/principal.ts';
import type { ToolSet } from '../../../src/operations/tools.ts';
import { McpDispatcher } from '../../../src/surfaces/mcp/mcp-dispatcher.ts';
import { type McpAnswer, McpEndpoint } from '../../../src/surfaces/mcp/mcp-endpoint.ts';
import { type FakeClock, fakeClock } from '../../support/fake-clock.ts';
import { type FixtureToolSet, fixtureTools } from './fixture-tools.ts';

export const SERVER = { name: 'fixture', title: 'A fixture', version: '1.2.3', instructions: 'Nothing here is real.' };

export function principalOf(id: string, scopes: readonly Scope[] = ['read', 'write'], orgId = 'acme'): Principal {
  return { kind: 'mcp_key', id, orgId, scopes: ['mcp', ...scopes] };
}

export interface McpPlace {
  readonly endpoint: McpEndpoint;
  readonly tools: FixtureToolSet;
  readonly clock: FakeClock;
  /** Posts a value as somebody; header fields in lower case. */
  post(
    body: unknown,
    headers?: Readonly<Record<string, string>>,
    who?: Principal,
    signal?: AbortSignal,
  ): Promise<McpAnswer & { readonly json: unknown }>;
  /** Begins a session of a revision; its id. */
  begin(protocolVersion: string, who?: Principal): Promise<string>;
}

export function mcpPlace(
  limits?: { readonly max: number; readonly maxOfOwner: number },
  more: { readonly batchBytes?: number; readonly call?: ToolSet['call'] } = {},
): McpPlace {
  const tools = fixtureTools();
  const clock = fakeClock();
  const { batchBytes, call } = more;
  const toolSet = call === undefined ? tools : { ...tools, call };
  const dispatcher = new McpDispatcher({ toolSet, server: SERVER, log: silentLogger });
  const bounds = { ...(limits === undefined ? {} : { limits }), ...(batchBytes === undefined ? {} : { batchBytes }) };
  const endpoint = new McpEndpoint({ dispatcher, clock, idleMs: 3_600_000, ...bounds });
  const post: McpPlace['post'] = async (body, headers = {}, who = principalOf('k1'), signal) => {
    const fields = { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers };
    const answer = await endpoint.post({
      headers: fields,
      asker: { principal: who, from: '127.0.0.1', signal },
      json: () => Promise.resolve(body),
    });
    return { ...answer, json: answer.text === undefined ? undefined : (JSON.parse(answer.text) as unknown) };
  };
  const begin: McpPlace['begin'] = async (protocolVersion, who) => {
    const { session } = await post(initializeOf(protocolVersion), {}, who);
    if (session === undefined) throw new Error('no session was begun');
    return session;
  };
  return { endpoint, tools, clock, post, begin };
}

export function initializeOf(protocolVersion: unknown, id: string | number = 1): object {
  return { ...requestOf('initialize', { protocolVersion, capabilities: {}, clientInfo: { name: 'test', version: '1' } }), id };
}

export function requestOf(method: string, params?: object, id: string | number = 1): object {
  return { jsonrpc: '2.0', id, method, ...(params === undefined ? {} : { params }) };
}

/** A request of 2026-07-28, and the header fields that go with it. */
export function aloneOf(method: string, params: Readonly<Record<string, unknown>> = {}): { body: object; headers: Record<string, string> } {
  const meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
    'io.modelcontextprotocol/clientCapabilities': {},
  };
  const name = params['name'] ?? params['uri'];
  return {
    body: requestOf(method, { ...params, _meta: meta }),
    headers: {
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': method,
      ...(typeof name === 'string' ? { 'mcp-name': name } : {}),
    },
  };
}
