// gw-mcp: what it is started with, which key it uses and for how long, and what it says to whom.
import { readFileSync, writeFileSync } from 'node:fs';
import { request as httpsRequest } from 'node:https';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { selfSigned } from '../support/certificates.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { ADMIN_TOKEN, startTestGateway } from '../support/gateway.ts';
import { managedOf } from '../support/managed.ts';
import { tempDir } from '../support/temp-dir.ts';
import { aloneOf, initializeOf, requestOf } from '../surfaces/mcp/mcp-place.ts';
import { runPlace } from './gw-mcp-place.ts';

const CALL = requestOf('tools/call', { name: 'list_workloads' });

interface ShownKey {
  readonly id: string;
  readonly name: string;
  readonly org_id: string;
  readonly expires_at: string;
}

async function withGateway(t: Test) {
  const clock = fakeClock();
  const gw = await startTestGateway(t, { clock });
  const keys = async () => ((await gw.admin('GET', '/v1/admin/mgmt-keys')).body as { keys: readonly ShownKey[] }).keys;
  return { clock, gw, managed: await managedOf(gw), keys };
}

t.test('what it cannot be started with is said on standard error, and no secret with it', async (t) => {
  const url = ['--gateway-url', 'http://127.0.0.1:1'];
  const secret = 'super-secret-admin-token';
  const cases: readonly (readonly [args: readonly string[], said: RegExp])[] = [
    [[], /--gateway-url is needed/],
    [['--gateway-url', 'ftp://x', '--admin-token', secret], /--gateway-url takes/],
    [url, /--admin-token or --mgk is needed/],
    [[...url, '--admin-token', secret, '--mgk', 'mgk_x'], /only one of them/],
    [[...url, '--mgk', secret], /begins with mgk_/],
    [[...url, '--admin-token', secret, '--tls-cert', 'x'], /are for --listen/],
    [[...url, '--admin-token', secret, '--listen', '127.0.0.1:0', '--tls-cert', '/none'], /belong together/],
    [[...url, '--admin-token', secret, '--listen', '127.0.0.1:0', '--tls-cert', '/none', '--tls-key', '/none'], /--tls-cert: ENOENT/],
    [[...url, '--admin-token', secret, '--listen', '7090'], /HOST:PORT/],
    [[...url, '--admin-token', secret, '--listen', '0.0.0.0:0'], /GW_MCP_TOKEN/],
    [[...url, '--admin-token', secret, '--env', 'production'], /--env takes `dev`, `stg`, `prd`/],
    [[...url, '--admin-token', secret, '--session-ttl', 'soon'], /--session-ttl takes/],
    [[...url, '--admin-token', secret, '--nothing'], /--nothing/],
    [[...url, '--admin-token', secret, 'list_workloads'], /list_workloads/],
  ];
  for (const [args, said] of cases) {
    const place = runPlace(t, args);
    t.equal(await place.ended, 2, args.join(' '));
    t.match(place.stderr(), said);
    t.notMatch(place.stderr(), secret);
    t.strictSame(place.unread, []);
  }
});

t.test('an MCP key is for clients of /mcp, which is said to who gives it to this program', async (t) => {
  const key = 'mcpk_0123456789';
  const place = runPlace(t, ['--gateway-url', 'http://127.0.0.1:1'], { env: { GW_MCP_KEY: key } });
  t.equal(await place.ended, 2);
  t.match(place.stderr(), /--admin-token or --mgk is needed .*; GW_MCP_KEY is for clients that ask \/mcp of the gateway themselves/);
  t.notMatch(place.stderr(), key);
  const guide = readFileSync(join(packageRoot(), 'docs/guides/mcp.md'), 'utf8');
  const named = [...guide.matchAll(/\$\{?(?:env:)?(\w*KEY\w*)/g)].map(([, name = '']) => name);
  t.ok(named.length > 3);
  t.same(new Set(named), new Set(['GW_MCP_KEY']), 'the guide and the page of settings have one name for it');
});

t.test('with the admin token it makes itself a key of its org that ends soon, and revokes it at the end', async (t) => {
  const { clock, gw, keys, managed } = await withGateway(t);
  await managed.manage('PUT', 'workloads', { workload_id: 'w1', name: 'one' });
  const before = (await keys()).length;
  const place = runPlace(t, ['--gateway-url', gw.url, '--env', 'stg'], { env: { GW_ORG_ID: 'acme', GW_ADMIN_TOKEN: ADMIN_TOKEN }, clock });
  t.match(await place.ask(initializeOf('2025-11-25')), {
    result: {
      serverInfo: { name: 'ai-request-gateway-stg', title: 'AI Request Gateway (stg)' },
      instructions: /^This is a staging gateway/,
    },
  });
  t.match(await place.ask(CALL), { result: { structuredContent: { data: [{ workload_id: 'default' }, { workload_id: 'w1' }] } } });
  const made = (await keys()).find(({ name }) => name.startsWith('gw-mcp (stg) on '));
  t.match(made, { org_id: 'acme', expires_at: '2026-11-21T13:00:00.000Z' });
  const listed = (await place.ask(requestOf('tools/list'))) as { result: { tools: { name: string; title: string }[] } };
  t.equal(listed.result.tools.find(({ name }) => name === 'list_workloads')?.title.startsWith('[stg] '), true);
  place.end();
  t.equal(await place.ended, 0);
  t.equal((await keys()).length, before, 'nothing of it is left');
});

t.test('it takes another key before the last one ends, and when the gateway does not take it any more', async (t) => {
  const { clock, gw, keys } = await withGateway(t);
  const place = runPlace(t, ['--gateway-url', gw.url, '--admin-token', ADMIN_TOKEN], { clock });
  const own = async () => (await keys()).filter(({ name }) => name.startsWith('gw-mcp (dev) on '));
  await place.ask(initializeOf('2025-11-25'));
  t.match(await place.ask(CALL), { result: { structuredContent: { data: [] } } });
  const [first] = await own();
  t.equal(first?.org_id, 'default');
  clock.advance(50 * 60_000);
  t.match(await place.ask(CALL), { result: { structuredContent: { data: [] } } });
  const second = (await own()).find(({ id }) => id !== first?.id);
  t.ok(second);
  await gw.admin('DELETE', `/v1/admin/mgmt-keys/${second?.id}`);
  t.match(await place.ask(CALL), { result: { structuredContent: { data: [] } } }, 'a key that was revoked is replaced');
  place.stop();
  t.equal(await place.ended, 0);
  t.strictSame(await own(), [], 'a signal is an end as any other');
});

t.test('with a management key it makes none, and says what the gateway says', async (t) => {
  const { gw, keys, managed } = await withGateway(t);
  const { key } = await managed.keyOf('acme', ['read']);
  const before = (await keys()).length;
  const place = runPlace(t, ['--gateway-url', gw.url, '--mgk', key]);
  await place.ask(initializeOf('2025-06-18'));
  t.match(await place.ask(CALL), { result: { structuredContent: { data: [] } } });
  t.match(await place.ask(requestOf('tools/call', { name: 'delete_workload', arguments: { workload_id: 'w' } })), {
    result: { isError: true, content: [{ text: /"code":"insufficient_scope"/ }] },
  });
  t.match(await place.ask(requestOf('tools/call', { name: 'list_workloads', arguments: { limit: 501 } })), {
    result: { isError: true, content: [{ text: /"code":"invalid_request".*"path":"limit"/ }] },
  });
  t.match(await place.ask(requestOf('resources/read', { uri: 'credentials://list' })), { result: { contents: [{ text: /"data":\[\]/ }] } });
  t.equal((await keys()).length, before);
  place.end();
  t.equal(await place.ended, 0);
});

t.test('it finds the management API on a port of its own', async (t) => {
  const clock = fakeClock();
  const gw = await startTestGateway(t, { clock, env: { GW_MGMT_PORT: '0' } });
  const env = { GW_MGMT_PORT: String(gw.gateway.managementPort), GW_ADMIN_TOKEN: ADMIN_TOKEN };
  const place = runPlace(t, ['--gateway-url', gw.url], { env, clock });
  await place.ask(initializeOf('2025-11-25'));
  t.match(await place.ask(CALL), { result: { structuredContent: { data: [{ workload_id: 'default' }] } } });
  place.end();
  t.equal(await place.ended, 0);
});

t.test('a token that is wrong ends it, and a gateway that is away does not', async (t) => {
  const { gw } = await withGateway(t);
  const wrong = runPlace(t, ['--gateway-url', gw.url, '--admin-token', 'not-the-admin-token']);
  t.equal(await wrong.ended, 1);
  t.notMatch(wrong.stderr(), 'not-the-admin-token');
  const late = fakeClock(Date.UTC(2026, 10, 21, 9));
  const behind = runPlace(t, ['--gateway-url', gw.url, '--admin-token', ADMIN_TOKEN], { clock: late });
  t.equal(await behind.ended, 1, 'nor does a clock that is far behind set itself right');
  t.match(behind.stderr(), /expires_at/);
  const away = runPlace(t, ['--gateway-url', 'http://127.0.0.1:1', '--admin-token', ADMIN_TOKEN]);
  await away.ask(initializeOf('2025-11-25'));
  t.match(await away.ask(CALL), { result: { isError: true, content: [{ text: /"code":"gateway_error".*cannot be asked/ }] } });
  away.end();
  t.equal(await away.ended, 0);
});

t.test('a line is a message, whatever comes before and after it', async (t) => {
  const { gw } = await withGateway(t);
  const place = runPlace(t, ['--gateway-url', gw.url, '--admin-token', ADMIN_TOKEN]);
  t.match(await place.ask(requestOf('tools/list')), { error: { code: -32_600 } }, 'nothing is asked before initialize');
  const { body } = aloneOf('server/discover');
  t.match(await place.ask(body), { result: { supportedVersions: ['2026-07-28'] } }, 'but what stands for itself');
  t.match(await place.ask(initializeOf('2025-03-26')), { result: { protocolVersion: '2025-03-26' } });
  place.write('\n\r\n{"jsonrpc":"2.0"');
  place.write(',"id":"ä","method":"ping"}\r\n');
  t.match(await place.next(), { error: { code: -32_700 } }, 'a line end alone is none, another character is');
  t.match(await place.next(), { id: 'ä', result: {} });
  t.match(await place.ask([requestOf('ping', {}, 1), { jsonrpc: '2.0', method: 'notifications/initialized' }]), [{ id: 1, result: {} }]);
  place.write('{"jsonrpc":"2.0","id":3,"method":"pi\n');
  t.match(await place.next(), { id: null, error: { code: -32_700 } });
  for (let at = 0; at < 5; at += 1) place.write(Buffer.alloc(1024 * 1024, 0x20));
  t.match(await place.next(), { id: null, error: { code: -32_600 } });
  place.write('\n');
  t.match(await place.ask(requestOf('ping', {}, 9)), { id: 9, result: {} });
  place.write(`${JSON.stringify(requestOf('ping', {}, 10))}`);
  place.end();
  t.equal(await place.ended, 0);
  t.strictSame(place.unread, [], 'a line that was not ended is no message');
});

t.test('a request that was cancelled is not answered', async (t) => {
  const { gw } = await withGateway(t);
  const place = runPlace(t, ['--gateway-url', gw.url, '--admin-token', ADMIN_TOKEN]);
  await place.ask(initializeOf('2025-11-25'));
  const call = requestOf('tools/call', { name: 'list_workloads' }, 'c');
  place.write(
    `${JSON.stringify(call)}\n${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 'c' } })}\n`,
  );
  place.end();
  t.equal(await place.ended, 0);
  t.strictSame(place.unread, []);
});

t.test('by HTTP it serves this machine, with sessions that end when they are idle', async (t) => {
  const { gw, clock } = await withGateway(t);
  const args = ['--gateway-url', gw.url, '--admin-token', ADMIN_TOKEN, '--listen', '127.0.0.1:0', '--session-ttl', '5m'];
  const page = 'https://app.example.com';
  const place = runPlace(t, args, { clock, env: { GW_ALLOWED_ORIGINS: page } });
  const [, url = ''] = await place.said(/listening on (http:\/\/127\.0\.0\.1:\d+\/mcp)/);
  const post = (body: unknown, headers: Readonly<Record<string, string>> = {}) =>
    fetch(url, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(body) });
  const session = (await post(initializeOf('2025-11-25'))).headers.get('mcp-session-id') ?? '';
  const called = await post(CALL, { 'mcp-session-id': session });
  t.match(await called.json(), { result: { structuredContent: { data: [] } } });
  const got = await fetch(url);
  t.strictSame([got.status, got.headers.get('allow')], [405, 'POST, DELETE']);
  const foreign = await post(CALL, { origin: 'https://elsewhere.example' });
  t.same([foreign.status, foreign.headers.get('access-control-allow-origin')], [403, null]);
  const began = await post(initializeOf('2025-11-25'), { origin: page, 'sec-fetch-site': 'cross-site' });
  t.equal(began.headers.get('access-control-allow-origin'), page);
  t.match(began.headers.get('access-control-expose-headers'), /Mcp-Session-Id/);
  const asks = { origin: page, 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization,mcp-session-id' };
  const asked = await fetch(url, { method: 'OPTIONS', headers: asks });
  t.same([asked.status, asked.headers.get('access-control-allow-headers')], [204, 'authorization,mcp-session-id']);
  t.equal((await fetch(url, { method: 'OPTIONS', headers: { ...asks, origin: 'https://elsewhere.example' } })).status, 403);
  const refused = await fetch(url, { headers: { origin: page } });
  t.same([refused.status, refused.headers.get('access-control-allow-origin')], [405, page], 'and may read why');
  t.equal((await fetch(url.replace('/mcp', '/'))).status, 404);
  clock.advance(5 * 60_000);
  t.equal((await post(CALL, { 'mcp-session-id': session })).status, 404);
  t.equal((await post({ jsonrpc: '2.0', id: 1, method: 'x'.repeat(5 * 1024 * 1024) })).status, 413);
  place.stop();
  t.equal(await place.ended, 0);
  t.strictSame(place.unread, [], 'nothing was said on standard output');
});

t.test('who others may reach shows the token that was set, and TLS hides it', async (t) => {
  const { gw } = await withGateway(t);
  const dir = tempDir(t);
  const { certPem: cert, keyPem: key } = selfSigned(['localhost']);
  writeFileSync(join(dir, 'cert.pem'), cert);
  writeFileSync(join(dir, 'key.pem'), key);
  const tls = ['--tls-cert', join(dir, 'cert.pem'), '--tls-key', join(dir, 'key.pem')];
  const args = ['--gateway-url', gw.url, '--admin-token', ADMIN_TOKEN, '--listen', '0.0.0.0:0', ...tls];
  const place = runPlace(t, args, { env: { GW_MCP_TOKEN: 'a-token-for-clients' } });
  const [, port = ''] = await place.said(/listening on https:\/\/0\.0\.0\.0:(\d+)\/mcp/);
  const status = (token: string) =>
    new Promise<number>((resolve, reject) => {
      const headers = { 'content-type': 'application/json', ...(token === '' ? {} : { authorization: `Bearer ${token}` }) };
      const options = { host: '127.0.0.1', servername: 'localhost', port, path: '/mcp', method: 'POST', headers, ca: cert };
      const call = httpsRequest(options, (answer) => {
        answer.resume();
        resolve(answer.statusCode ?? 0);
      });
      call.on('error', reject);
      call.end(JSON.stringify(initializeOf('2025-11-25')));
    });
  t.equal(await status(''), 401);
  t.equal(await status('a-token-for-clientz'), 401);
  t.equal(await status('a-token-for-clients'), 200);
  place.stop();
  t.equal(await place.ended, 0);
});
