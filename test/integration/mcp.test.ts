// The MCP server of a whole gateway: who is let in, with which key, and for how long; what official clients do with it.
import { request as httpRequest } from 'node:http';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import t from 'tap';
import { TOOLS } from '../../src/operations/tool-table.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { startTestGateway } from '../support/gateway.ts';
import { ALLOW_ALL, chat, startGoverned } from '../support/governed.ts';
import { managedOf, startManaged } from '../support/managed.ts';
import { initializeOf, requestOf } from '../surfaces/mcp/mcp-place.ts';

const FORMS = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };

/** Posts to `/mcp` as nobody's library does it. */
async function post(url: string, key: string | undefined, body: unknown, headers: Readonly<Record<string, string>> = {}) {
  const response = await fetch(`${url}/mcp`, {
    method: 'POST',
    headers: { ...FORMS, ...(key === undefined ? {} : { authorization: `Bearer ${key}` }), ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  const text = await response.text();
  return { status: response.status, text, headers: response.headers, session: response.headers.get('mcp-session-id') ?? '' };
}

t.test('each kind of key is refused on the surface of the other, and so is whoever has none', async (t) => {
  const { gw, keyOf, with: withKey } = await startManaged(t);
  const mcp = (await keyOf('acme', ['read', 'write'], 'mcp')).key;
  const management = (await keyOf('acme')).key;
  t.equal((await post(gw.url, mcp, initializeOf('2025-11-25'))).status, 200);
  t.equal((await withKey(mcp)('GET', 'keys')).status, 401);
  for (const key of [management, undefined, 'mcpk_nothing', `${mcp}x`]) {
    const refused = await post(gw.url, key, initializeOf('2025-11-25'));
    t.equal(refused.status, 401);
    t.equal(refused.headers.get('www-authenticate'), 'Bearer');
    t.match(JSON.parse(refused.text), { error: { code: 'unauthorized' } });
  }
});

t.test('there is one endpoint: it takes POST and DELETE', async (t) => {
  const { gw, keyOf } = await startManaged(t);
  const { key } = await keyOf('acme', ['read'], 'mcp');
  const got = await fetch(`${gw.url}/mcp`, { headers: { authorization: `Bearer ${key}`, accept: 'text/event-stream' } });
  t.equal(got.status, 405);
  t.equal(got.headers.get('allow'), 'POST, DELETE');
  const { session } = await post(gw.url, key, initializeOf('2025-11-25'));
  const end = () => fetch(`${gw.url}/mcp`, { method: 'DELETE', headers: { authorization: `Bearer ${key}`, 'mcp-session-id': session } });
  t.equal((await end()).status, 204);
  t.equal((await end()).status, 404);
  const gone = await post(gw.url, key, requestOf('ping'), { 'mcp-session-id': session });
  t.equal(gone.status, 404);
  t.match(JSON.parse(gone.text), { error: { code: -32_001, data: { code: 'invalid_session' } } });
});

t.test('a key that is revoked ends at its next request, and its session is of no use to another', async (t) => {
  const { gw, keyOf } = await startManaged(t);
  const [first, second] = [await keyOf('acme', ['read'], 'mcp'), await keyOf('acme', ['read'], 'mcp')];
  const { session } = await post(gw.url, first.key, initializeOf('2025-11-25'));
  const ping = (key: string) => post(gw.url, key, requestOf('ping'), { 'mcp-session-id': session });
  t.equal((await ping(first.key)).status, 200);
  t.equal((await ping(second.key)).status, 404);
  t.equal((await gw.admin('DELETE', `/v1/admin/mgmt-keys/${first.id}`)).status, 200);
  t.equal((await ping(first.key)).status, 401);
});

t.test('a session ends an hour after its last use', async (t) => {
  const clock = fakeClock();
  const { gw, keyOf } = await managedOf(await startTestGateway(t, { clock }));
  const { key } = await keyOf('acme', ['read'], 'mcp');
  const { session } = await post(gw.url, key, initializeOf('2025-03-26'));
  const ping = () => post(gw.url, key, requestOf('ping'), { 'mcp-session-id': session });
  clock.advance(3_599_999);
  t.equal((await ping()).status, 200);
  clock.advance(3_600_000);
  t.equal((await ping()).status, 404);
});

t.test('what is no JSON, too large, or from a page of somebody else is refused', async (t) => {
  const { gw, keyOf } = await startManaged(t);
  const { key } = await keyOf('acme', ['read'], 'mcp');
  const broken = await post(gw.url, key, '{"jsonrpc":');
  t.equal(broken.status, 400);
  t.match(JSON.parse(broken.text), { id: null, error: { code: -32_700 } });
  const large = await post(gw.url, key, `{"jsonrpc":"2.0","id":1,"method":"${'x'.repeat(4 * 1024 * 1024)}"}`);
  t.equal(large.status, 413);
  t.equal((await post(gw.url, key, initializeOf('2025-11-25'), { origin: 'https://elsewhere.example' })).status, 403);
  t.equal((await post(gw.url, key, initializeOf('2025-11-25'), { origin: gw.url })).status, 200);
  const rebound = new Promise<number>((resolve, reject) => {
    const headers = { ...FORMS, authorization: `Bearer ${key}`, host: 'evil.example.com' };
    const call = httpRequest({ host: '127.0.0.1', port: gw.port, path: '/mcp', method: 'POST', headers }, (answer) => {
      answer.resume();
      resolve(answer.statusCode ?? 0);
    });
    call.on('error', reject);
    call.end(JSON.stringify(initializeOf('2025-11-25')));
  });
  t.equal(await rebound, 421);
});

t.test('a key that may only read is told so by each tool that writes', async (t) => {
  const { gw, keyOf } = await startManaged(t);
  const { key } = await keyOf('acme', ['read'], 'mcp');
  const { session } = await post(gw.url, key, initializeOf('2025-11-25'));
  const writing = TOOLS.tools.filter(({ scope }) => scope === 'write');
  for (const { name } of writing) {
    const called = await post(gw.url, key, requestOf('tools/call', { name }), { 'mcp-session-id': session });
    t.equal(called.status, 200);
    const { result } = JSON.parse(called.text) as { result: { content: { text: string }[]; isError: boolean } };
    t.match(
      { ...result, text: JSON.parse(result.content[0]?.text ?? '') as unknown },
      { isError: true, text: { error: { code: 'insufficient_scope' } } },
      name,
    );
  }
});

t.test('both lines of official clients list every tool, and read what they may', async (t) => {
  const { gw, keyOf } = await startManaged(t);
  const { key } = await keyOf('acme', ['read', 'write'], 'mcp');
  const requestInit = { headers: { authorization: `Bearer ${key}` } };
  const url = new URL(`${gw.url}/mcp`);
  const names = TOOLS.tools.map(({ name }) => name);
  const old = new OldClient({ name: 'test', version: '1' });
  await old.connect(new OldTransport(url, { requestInit }));
  const modern = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: 'auto' } });
  await modern.connect(new StreamableHTTPClientTransport(url, { requestInit }));
  t.equal(modern.getNegotiatedProtocolVersion(), '2026-07-28');
  for (const client of [old, modern]) {
    const { tools } = await client.listTools();
    t.strictSame(
      tools.map(({ name }) => name),
      names,
    );
    t.match(await client.callTool({ name: 'list_keys' }), { structuredContent: { list: 'GET /mgmt/v1/keys' } });
    const { resources } = await client.listResources();
    t.strictSame(
      resources.map(({ uri }) => uri),
      TOOLS.resources.map(({ uri }) => uri),
    );
    for (const { uri } of resources) {
      const { contents } = await client.readResource({ uri });
      t.match(contents, [{ uri, mimeType: 'application/json' }]);
      const [content] = contents;
      t.ok(content !== undefined && 'text' in content && typeof JSON.parse(content.text) === 'object');
    }
    await client.close();
  }
});

t.test('every tool that reads answers what its own output schema says, to a client that holds it against it', async (t) => {
  const { gw, keyOf } = await startManaged(t);
  const { key } = await keyOf('acme', ['read'], 'mcp');
  const client = new OldClient({ name: 'test', version: '1' });
  const transport = new OldTransport(new URL(`${gw.url}/mcp`), { requestInit: { headers: { authorization: `Bearer ${key}` } } });
  await client.connect(transport);
  const { tools } = await client.listTools();
  for (const { name, annotations, inputSchema } of tools) {
    if (annotations?.readOnlyHint !== true || (inputSchema.required ?? []).length > 0) continue;
    // Of several arguments it needs one.
    const args = name === 'test_policy' ? { requests: ['{"action.params.model": "gpt-4o"}'] } : {};
    const { content, isError } = await client.callTool({ name, arguments: args });
    t.notOk(isError, `${name} ${JSON.stringify(content).slice(0, 200)}`);
  }
  await client.close();
});

t.test('the recent records are the last ones, however old', async (t) => {
  const clock = fakeClock();
  const { gw, send } = await startGoverned(t, { clock, bundle: ALLOW_ALL });
  const { key } = await (await managedOf(gw)).keyOf('acme', ['read'], 'mcp');
  const called = await send(chat(['X-GW-Org-ID', 'acme']));
  clock.advance(3 * 86_400_000);
  const { session } = await post(gw.url, key, initializeOf('2025-11-25'));
  const read = await post(gw.url, key, requestOf('resources/read', { uri: 'records://recent' }), { 'mcp-session-id': session });
  t.match(read.text, String(called.headers['x-gw-record-id']));
});
