// gw-mcp as a program, started by both lines of official clients as they start any server on this machine.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as OldStdio } from '@modelcontextprotocol/sdk/client/stdio.js';
import t from 'tap';
import { TOOLS } from '../../src/operations/tool-table.ts';
import { eventually, launch } from '../support/child.ts';
import { ADMIN_TOKEN, startTestGateway } from '../support/gateway.ts';

const MAIN = fileURLToPath(new URL('../../src/mcp-main.js', import.meta.url));

// Holds: gw-mcp-prints-messages-alone
t.test('clients of both lines start it, call tools, and leave nothing behind', async (t) => {
  const gw = await startTestGateway(t);
  const names = TOOLS.tools.map(({ name }) => name);
  const args = [MAIN, '--gateway-url', gw.url, '--admin-token', ADMIN_TOKEN];
  const options = { command: process.execPath, args, stderr: 'ignore' as const };
  const old = { client: new OldClient({ name: 'test', version: '1' }), transport: new OldStdio(options) };
  const modern = {
    client: new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: 'auto' } }),
    transport: new StdioClientTransport(options),
  };
  await old.client.connect(old.transport);
  await modern.client.connect(modern.transport);
  t.equal(modern.client.getNegotiatedProtocolVersion(), '2026-07-28');
  for (const { client, transport } of [old, modern]) {
    const faults: Error[] = [];
    client.onerror = (error) => faults.push(error);
    t.strictSame(
      (await client.listTools()).tools.map(({ name }) => name),
      names,
    );
    t.match(await client.callTool({ name: 'list_workloads' }), { structuredContent: { data: [] } });
    t.match(await client.readResource({ uri: 'credentials://list' }), { contents: [{ uri: 'credentials://list' }] });
    if (process.platform === 'linux') {
      const shown = readFileSync(`/proc/${transport.pid}/cmdline`, 'utf8');
      t.notMatch(shown, ADMIN_TOKEN, 'the token is not in the list of processes');
      t.match(shown, 'gw-mcp');
    }
    await client.close();
    t.strictSame(faults, [], 'nothing but messages came on standard output');
  }
  const { keys } = (await gw.admin('GET', '/v1/admin/mgmt-keys')).body as { keys: unknown[] };
  t.strictSame(keys, []);
});

t.test('a signal ends it, and revokes its key', async (t) => {
  const gw = await startTestGateway(t);
  const listed = async () => ((await gw.admin('GET', '/v1/admin/mgmt-keys')).body as { keys: unknown[] }).keys.length;
  const args = [MAIN, '--gateway-url', gw.url, '--admin-token', ADMIN_TOKEN, '--listen', '127.0.0.1:0'];
  const child = launch(t, process.execPath, args);
  await eventually('gw-mcp listens', () => child.stderr.includes('listening on') || undefined);
  t.equal(await listed(), 1);
  child.kill('SIGTERM');
  const { code, stdout } = await child.ended;
  t.strictSame([code, stdout], [0, '']);
  t.equal(await listed(), 0);
});
