// The official conformance suite against the MCP server of a whole gateway; what does not apply to it is in
// test/cases/mcp/conformance-baseline.yml.
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { startManaged } from '../support/managed.ts';
import { tempDir } from '../support/temp-dir.ts';
import { forwardWithKey } from '../surfaces/mcp/key-forwarder.ts';

t.test('every scenario that applies passes, and none that is said not to apply does', async (t) => {
  const { gw, keyOf } = await startManaged(t);
  const { key } = await keyOf('acme', ['read', 'write'], 'mcp');
  const url = await forwardWithKey(t, gw.port, key);
  const suite = join(packageRoot(), 'node_modules', '@modelcontextprotocol', 'conformance', 'dist', 'index.js');
  const baseline = join(packageRoot(), 'test', 'cases', 'mcp', 'conformance-baseline.yml');
  const args = [suite, 'server', '--url', `${url}/mcp`, '--expected-failures', baseline];
  const child = spawn(process.execPath, args, { cwd: tempDir(t), stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (said += chunk.toString()));
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
  if (code !== 0) t.comment(said);
  t.equal(code, 0, 'the suite agrees with the baseline');
  for (const scenario of ['server-initialize', 'ping', 'tools-list', 'resources-list', 'prompts-list', 'server-sse-multiple-streams']) {
    t.ok(new RegExp(`✓ ${scenario}: [1-9]\\d* passed, 0 failed`).test(said), scenario);
  }
  t.ok(said.includes('✓ dns-rebinding-protection: 2 passed, 0 failed'), 'dns-rebinding-protection');
});
