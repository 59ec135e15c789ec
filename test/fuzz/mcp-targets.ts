import { parseSafeJson } from '../../src/base/json/safe-json.ts';
import { silentLogger } from '../../src/base/lib/log.ts';
import type { Principal } from '../../src/base/model/principal.ts';
import { readMessage } from '../../src/surfaces/mcp/json-rpc.ts';
import { McpDispatcher } from '../../src/surfaces/mcp/mcp-dispatcher.ts';
import { McpEndpoint } from '../../src/surfaces/mcp/mcp-endpoint.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { type FuzzTarget, must, outcomeOf } from './target.ts';

const BATCH_BYTES = 8_192;
/** Of one answer of a tool, with all that stands around it. */
const ANSWER_BYTES = 2_048;
/** Of an error for one message, whatever it names. */
const ERROR_BYTES = 1_024;
const HEADERS = { 'content-type': 'application/json', accept: 'application/json' };
const PRINCIPAL: Principal = { kind: 'mcp_key', id: 'k', orgId: 'o', scopes: ['mcp', 'read'] };

let calls = 0;
const tool = {
  name: 'list',
  title: 'List',
  description: 'A list.',
  scope: 'read',
  annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
  inputSchema: { type: 'object' },
} as const;
const dispatcher = new McpDispatcher({
  toolSet: {
    tools: [tool],
    call: () => {
      calls += 1;
      return Promise.resolve({ text: 'x'.repeat(1_000) });
    },
    resources: [],
    read: () => Promise.resolve({}),
  },
  server: { name: 'f', title: 'F', version: '1', instructions: '' },
  log: silentLogger,
});
const endpoint = new McpEndpoint({ dispatcher, clock: fakeClock(), idleMs: 1e12, batchBytes: BATCH_BYTES });

async function post(body: unknown, session?: string) {
  return endpoint.post({
    headers: { ...HEADERS, ...(session === undefined ? {} : { 'mcp-session-id': session }) },
    asker: { principal: PRINCIPAL, from: '' },
    json: () => Promise.resolve(body),
  });
}

let begun: Promise<string> | undefined;

async function begin(): Promise<string> {
  const params = { protocolVersion: '2025-03-26', capabilities: {}, clientInfo: { name: 'f', version: '1' } };
  const { session } = await post({ jsonrpc: '2.0', id: 1, method: 'initialize', params });
  return session ?? '';
}

/** What is posted to `/mcp` in a session that has batches. */
const batch: FuzzTarget = {
  name: 'mcp-batch',
  inputs: 100_000,
  dear: true,
  headLines: 0,
  dictionary: [
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list"}}',
    '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}',
    '"id":"1"',
    '"id":null',
    '"id":1.5',
    '"method":"initialize"',
    '"method":"tools/list"',
    '"method":"ping"',
    '"result":{}',
    '"params":[]',
    '"__proto__":{}',
    '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}',
    '[',
    ']',
    ',',
  ],
  async run(input) {
    const { value: read, code } = outcomeOf(['invalid_request', 'body_too_deep'], () =>
      parseSafeJson(input, { malformed: 'invalid_request' }),
    );
    if (read === undefined) return code ?? 'refused';
    begun ??= begin();
    const session = await begun;
    calls = 0;
    const { status, text = '' } = await post(read.value, session);
    must(endpoint.underWay.size === 0, 'nothing of a request is kept when it is answered');
    if (!Array.isArray(read.value) || status !== 200) return `${status}`;
    const messages = read.value.map(readMessage);
    const asked = messages.filter(({ kind }) => kind === 'request').length;
    const answered = (JSON.parse(text) as unknown[]).length;
    must(answered === messages.filter(({ kind }) => kind === 'request' || kind === 'invalid').length, 'each request has one answer');
    must(calls <= asked && calls <= BATCH_BYTES / 1_000 + 1, 'what stands behind the bound is not carried out');
    must(text.length <= BATCH_BYTES + ANSWER_BYTES * 2 + answered * ERROR_BYTES, 'the answers have an end');
    return `batch of ${Math.min(asked, 9)}, ${Math.min(calls, 9)} calls`;
  },
};

export const MCP_TARGETS: readonly FuzzTarget[] = [batch];
