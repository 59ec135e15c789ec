// Both lines of official clients against the endpoint on a socket: what they negotiate, what they read, and what they
// make of failures.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import t, { type Test } from 'tap';
import { silentLogger } from '../../../src/base/lib/log.ts';
import { openMcpServer } from '../../../src/cli/mcp/mcp-http-server.ts';
import { runningClock } from '../../support/fake-clock.ts';
import { mcpPlace, principalOf } from './mcp-place.ts';

const INFO = { name: 'test', version: '1' };

async function served(t: Test) {
  const place = mcpPlace();
  const principal = principalOf('k1');
  const server = await openMcpServer({
    endpoint: place.endpoint,
    principal,
    host: '127.0.0.1',
    port: 0,
    allowedOrigins: new Set(),
    clock: runningClock,
    log: silentLogger,
  });
  t.teardown(() => server.close());
  return { ...place, url: new URL(`http://127.0.0.1:${server.port}/mcp`) };
}

t.test('the client of the first line drives every method, and ends its session', async (t) => {
  const { url, endpoint, tools } = await served(t);
  const client = new OldClient(INFO);
  const transport = new OldTransport(url);
  await client.connect(transport);
  t.equal(transport.protocolVersion, '2025-11-25');
  t.match(client.getServerVersion(), { name: 'fixture', title: 'A fixture', version: '1.2.3' });
  t.strictSame(client.getServerCapabilities(), { tools: {}, resources: {} });
  t.equal(client.getInstructions(), 'Nothing here is real.');
  t.strictSame(await client.ping(), {});
  const listed = await client.listTools();
  t.strictSame(
    listed.tools.map(({ name }) => name),
    tools.tools.map(({ name }) => name),
  );
  t.match(await client.callTool({ name: 'list_things' }), { structuredContent: { data: [{}] } });
  t.match(await client.callTool({ name: 'fail_here' }), { isError: true }, 'a failure is an answer');
  t.match(await client.callTool({ name: 'create_thing', arguments: { id: 'x' } }), { structuredContent: { id: 'x' } });
  await t.rejects(client.callTool({ name: 'nothing_here' }), { code: -32_602 });
  t.match(await client.listResources(), { resources: [{ uri: 'things://all' }] });
  t.match(await client.listResourceTemplates(), { resourceTemplates: [] });
  t.match(await client.readResource({ uri: 'things://all' }), { contents: [{ mimeType: 'application/json' }] });
  await t.rejects(client.readResource({ uri: 'things://none' }), { code: -32_002 });
  t.equal(endpoint.sessions.size, 1);
  await transport.terminateSession();
  t.equal(endpoint.sessions.size, 0);
  await client.close();
});

t.test('the client of the second line speaks the newest revision, without a session', async (t) => {
  const { url, endpoint, tools } = await served(t);
  const client = new Client(INFO, { versionNegotiation: { mode: 'auto' } });
  await client.connect(new StreamableHTTPClientTransport(url));
  t.equal(client.getNegotiatedProtocolVersion(), '2026-07-28');
  t.match(client.getServerVersion(), { name: 'fixture', version: '1.2.3' });
  const listed = await client.listTools();
  t.strictSame(
    listed.tools.map(({ name }) => name),
    tools.tools.map(({ name }) => name),
  );
  t.match(await client.callTool({ name: 'list_things', arguments: { limit: 2 } }), { structuredContent: { data: [{}] } });
  t.match(await client.callTool({ name: 'fail_here' }), { isError: true });
  await t.rejects(client.callTool({ name: 'nothing_here' }), { code: -32_602 });
  t.match(await client.listResources(), { resources: [{ uri: 'things://all' }] });
  t.match(await client.readResource({ uri: 'things://all' }), { contents: [{ mimeType: 'application/json' }] });
  t.equal(endpoint.sessions.size, 0);
  await client.close();
});

t.test('the client of the second line speaks the older revisions too, as it does by default', async (t) => {
  const { url, endpoint } = await served(t);
  const client = new Client(INFO);
  await client.connect(new StreamableHTTPClientTransport(url));
  t.match(client.getNegotiatedProtocolVersion(), /^2025-11-25$/);
  t.match(await client.callTool({ name: 'list_things' }), { structuredContent: { data: [{}] } });
  t.equal(endpoint.sessions.size, 1);
  await client.close();
});

t.test('a client whose session is gone is told so, and begins another', async (t) => {
  const { url, clock } = await served(t);
  const connected = async () => {
    const client = new OldClient(INFO);
    await client.connect(new OldTransport(url));
    return client;
  };
  const first = await connected();
  clock.advance(3_600_000);
  await t.rejects(first.listTools(), { code: 404, message: /invalid_session/ });
  const second = await connected();
  t.ok((await second.listTools()).tools.length > 0);
  await Promise.all([first.close(), second.close()]);
});
