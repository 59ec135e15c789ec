// What the discovery list tells, of both ports and through every door, and what it keeps nothing of (specification,
// "Transparent proxy mode" 8; decision 12.3).
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { createLogger } from '../../src/base/lib/log.ts';
import type { DomainList } from '../../src/services/learning/discovery.ts';
import { ADMIN_TOKEN, startTestGateway, type TestGateway } from '../support/gateway.ts';
import { ALLOW_ALL, chat, startGoverned } from '../support/governed.ts';
import { gatewayFor, h2Through, type Scene, scene, through } from '../support/non-ai.ts';
import { connectPlain, connectThrough, h1Request, h2Request } from '../support/raw-clients.ts';
import { gw as command } from '../support/run-gw.ts';
import { startPlainUpstream } from '../support/tls-upstream.ts';

async function listOf(gw: TestGateway, query = ''): Promise<DomainList> {
  return (await gw.admin('GET', `/v1/admin/discovery/domains${query}`)).body as DomainList;
}

t.test('a domain has its hits by port; the list is filtered, ordered and cut; a wrong question is refused', async (t) => {
  const { gw, upstream } = await scene(t, {});
  for (const [port, host] of [
    [gw.port, 'www.example.com'],
    [gw.ambientPort, 'www.example.com'],
    [gw.ambientPort, 'chat.deepseek.com'],
  ] as const) {
    const socket = await connectThrough(port, `${host}:443`, upstream.caPem);
    t.teardown(() => socket.destroy());
    t.equal((await h1Request(socket, host)).status, 200);
  }
  const { domains, total, other } = await listOf(gw, '?sort=hits');
  t.match(domains, [
    { domain: 'www.example.com', hits: 2, connections: 2, requests: 0, traffic: { developer: 1, ambient: 1 } },
    {
      domain: 'chat.deepseek.com',
      hits: 1,
      traffic: { developer: 0, ambient: 1 },
      vendor: 'DeepSeek',
      category: 'chat_app',
      managed: false,
    },
  ]);
  t.same([total, other], [2, { domains: 0, hits: 0, connections: 0, requests: 0, traffic: { developer: 0, ambient: 0 } }]);
  t.match(await listOf(gw, '?traffic_class=developer'), { domains: [{ domain: 'www.example.com' }], total: 1 });
  t.match(await listOf(gw, '?sort=hits&limit=1'), { domains: [{ domain: 'www.example.com' }], total: 2 });
  t.match(await listOf(gw, '?vendor=deepseek&category=chat_app'), { domains: [{ domain: 'chat.deepseek.com' }], total: 1 });
  for (const wrong of ['sort=size', 'limit=0', 'limit=5001', 'traffic_class=mine', 'category=', 'managed=perhaps'])
    t.match(await gw.admin('GET', `/v1/admin/discovery/domains?${wrong}`), {
      status: 400,
      body: { error: { code: 'invalid_request', details: [{ path: wrong.split('=')[0] }] } },
    });

  const env = { GW_ADMIN_TOKEN: ADMIN_TOKEN };
  const asked = await command(['domains', '--all', '--sort', 'hits', '--url', gw.url], { env });
  t.match(asked, { code: 0, err: '' });
  t.match(
    asked.out,
    /^DOMAIN +VENDOR +GOVERNED +HITS +SINCE +LAST SEEN +WORKLOADS +MARKS\nwww\.example\.com +- +no +2 +\d{4}-\d\d-\d\d +\d{4}-\d\d-\d\d \d\d:\d\d +default +-\nchat/,
  );
  const json = await command(['domains', '--all', '--unmanaged', '--limit', '1', '--json', '--url', gw.url], { env });
  t.match(JSON.parse(json.out), { domains: [{ domain: 'chat.deepseek.com' }], total: 2 });
  const ai = await command(['domains', '--url', gw.url], { env, columns: 80 });
  t.match(ai, { code: 0, out: /^DOMAIN .*\nchat\.deepseek\.com +DeepSeek +no +1 / });
  t.notMatch(ai.out, /www\.example|.{81}/, 'AI alone, and within the terminal');
  t.match(await command(['domains', '--by', 'workload', '--url', gw.url], { env }), {
    out: /^WORKLOAD +DOMAIN .*\ndefault +chat\.deepseek\.com +DeepSeek +no +1 +\S+ +\S+ \S+ +default\n$/,
  });
  t.match(await command(['domains', '--csv', '--url', gw.url], { env }), {
    out: /^domain,kind,vendor,category,connector_id,looks_like,hits,first_seen,last_seen,workloads\r\nchat\.deepseek\.com,ai,DeepSeek,chat_app,,deepseek,1,\d{4}\S*Z,\d{4}\S*Z,default\r\n$/,
  });
  t.match(await command(['domains', '--by', 'workload', '--csv', '--url', gw.url], { env }), {
    out: /^workload_id,org_id,domain,.*\r\ndefault,default,chat\.deepseek\.com,/,
  });
  const { key } = (
    await gw.admin('POST', '/v1/admin/mgmt-keys', { org_id: 'default', name: 'reader', kind: 'management', scopes: ['read'] })
  ).body as { key: string };
  t.match(await command(['domains', '--key', key, '--url', gw.url], { env: {} }), {
    code: 0,
    out: /\nchat\.deepseek\.com +DeepSeek +no +1 /,
  });
  t.match(await command(['domains', '--all', '--limit', '1', '--url', gw.url], { env }), { out: /\nand 1 more: --limit\n$/ });
  t.match(await command(['domains', '--managed', '--url', gw.url], { env }), { code: 0, out: 'no AI domain (--all shows others too)\n' });
  t.match(await command(['domains', '--managed', '--unmanaged', '--url', gw.url], { env }), { code: 2, err: /exclude each other/ });
  t.match(await command(['domains', '--sort', 'size', '--url', gw.url], { env }), { code: 1, err: /sort must be/ });
});

t.test('counts survive a restart', async (t) => {
  const { gw, upstream } = await scene(t, {});
  const socket = await connectThrough(gw.port, 'www.example.com:443', upstream.caPem);
  t.teardown(() => socket.destroy());
  t.equal((await h1Request(socket, 'www.example.com')).status, 200);
  const before = await listOf(gw);
  socket.destroy();
  await gw.gateway.stop();
  const again = await startTestGateway(t, { env: { GW_DATA_DIR: gw.dataDir } });
  t.same(await listOf(again), before);
  t.equal(before.domains.length, 1);
});

t.test(
  'in inspect a host shows by its calls what AI API it has, by path and body, however that comes; a tunnel shows its name alone',
  async (t) => {
    const chatBody = JSON.stringify({ messages: [{ role: 'user', content: '{"input":1}' }], model: 'm' });
    const anthropic = JSON.stringify({ model: 'm', max_tokens: 9, messages: [] });
    const looksOf = async ({ gw }: Scene) => {
      const { domains } = await listOf(gw);
      return Object.fromEntries(domains.map((found) => [found.domain, [found.looks_like, found.looks_like_by]]));
    };
    const post = (path: string, body: string) => ({ method: 'POST', path, body, headers: ['Content-Type', 'application/json'] });

    const h1 = await scene(t, { GW_PROXY_NON_AI: 'inspect' }, {});
    const ask = async (host: string, ...requests: readonly ReturnType<typeof post>[]) => {
      for (const request of requests)
        t.equal((await h1Request(await through(t, h1.gw, host, ['http/1.1']), host, request)).status, 200, request.path);
    };
    await ask('www.example.com', post('/rooms/1/messages', '{"text":"model"}'), post('/v1/chat/completions', '{"model":1}'));
    t.strictSame(await looksOf(h1), { 'www.example.com': [undefined, undefined] }, 'path or body alone say nothing');
    await ask('www.example.com', post('/mine/v1/messages?beta=true', anthropic), post('/v1/chat/completions', chatBody));
    await ask('other.example', post('/run', chatBody));
    t.strictSame(h1.upstream.requests.at(-1)?.body.toString(), chatBody, 'the body goes on as it came');
    await ask('chat.deepseek.com', { ...post('/x', '{}'), method: 'GET', body: '' });
    t.strictSame(await looksOf(h1), {
      'www.example.com': ['anthropic_messages', 'request'],
      'other.example': ['openai_chat', 'request'],
      'chat.deepseek.com': ['deepseek', 'name'],
    });
    t.match((await h1.gw.admin('GET', '/metrics')).text, /^gw_lookalike_domains 3$/m);
    t.match(await listOf(h1.gw, '?lookalike=true&sort=hits&limit=1'), { domains: [{ domain: 'www.example.com' }], total: 3 });
    t.match(await listOf(h1.gw, '?lookalike=false'), { total: 0 });
    const shown = await command(['domains', '--lookalike', '--url', h1.gw.url], { env: { GW_ADMIN_TOKEN: ADMIN_TOKEN } });
    t.match(shown, { code: 0, out: /www\.example\.com +like anthropic_messages .* looks so by request/ });

    const h2 = await scene(t, { GW_PROXY_NON_AI: 'inspect' }, { h2: true });
    t.equal((await h2Request(await h2Through(t, h2.gw), { ...post('/v1/chat/completions', chatBody), headers: [] })).status, 200);
    t.match(await looksOf(h2), { 'www.example.com': ['openai_chat', 'request'] });

    const passed = await scene(t, { GW_PROXY_NON_AI: 'pass' }, {});
    const socket = await connectThrough(passed.gw.port, 'chat.deepseek.com:443', passed.upstream.caPem);
    t.teardown(() => socket.destroy());
    t.equal((await h1Request(socket, 'chat.deepseek.com', post('/v1/chat/completions', chatBody))).status, 200);
    t.strictSame(await looksOf(passed), { 'chat.deepseek.com': ['deepseek', 'name'] });
  },
);

t.test('a plain HTTP call shows it in inspect, and in no other mode', async (t) => {
  const plain = await startPlainUpstream();
  t.teardown(() => plain.close());
  for (const mode of ['inspect', 'pass']) {
    const to = `www.example.com:80=127.0.0.1:${plain.port}`;
    const { gw } = await gatewayFor(t, plain, { GW_UPSTREAM_CA_FILE: '', GW_UPSTREAM_CONNECT_TO: to, GW_PROXY_NON_AI: mode }, ALLOW_ALL);
    const socket = await connectPlain(gw.port);
    t.teardown(() => socket.destroy());
    const request = { method: 'POST', path: 'http://www.example.com/model/x/converse', body: '{"messages":[]}' };
    t.equal((await h1Request(socket, 'www.example.com', request)).status, 200);
    const [found] = (await listOf(gw)).domains;
    t.equal(found?.looks_like, mode === 'inspect' ? 'bedrock_converse' : undefined, mode);
  }
});

const PLANTED = 'planted-4f1c';
const query = `?q=${PLANTED}-query`;
const content = `{"model":"${PLANTED}-body","${PLANTED}-name":1,"messages":["${PLANTED}-body"]}`;
const withTexts = { headers: ['X-Note', `${PLANTED}-header`, 'Cookie', `${PLANTED}-cookie`], body: content } as const;

t.test('nothing of a path, a query, a header or a body is kept of hosts that are no AI hosts, through any door', async (t) => {
  const lines: string[] = [];
  const folders: string[] = [];
  const done = async ({ gw, said }: Scene, requests: number): Promise<void> => {
    const { domains } = await listOf(gw);
    t.equal(domains.find(({ domain }) => domain === 'www.example.com')?.requests, requests, 'it was met');
    await gw.gateway.stop();
    folders.push(gw.dataDir);
    lines.push(said());
  };
  const request = { method: 'POST', path: `/${PLANTED}-path${query}`, ...withTexts };

  const tunnel = await scene(t, { GW_PROXY_NON_AI: 'pass' }, {});
  const passed = await connectThrough(tunnel.gw.port, 'www.example.com:443', tunnel.upstream.caPem, { headers: { 'X-Note': PLANTED } });
  t.teardown(() => passed.destroy());
  t.equal((await h1Request(passed, 'www.example.com', request)).status, 200);
  await done(tunnel, 0);

  const h1 = await scene(t, { GW_PROXY_NON_AI: 'inspect' }, {});
  t.equal((await h1Request(await through(t, h1.gw, 'www.example.com', ['http/1.1']), 'www.example.com', request)).status, 200);
  await done(h1, 1);

  const h2 = await scene(t, { GW_PROXY_NON_AI: 'inspect' }, { h2: true });
  t.equal((await h2Request(await h2Through(t, h2.gw), { ...request, headers: ['x-note', `${PLANTED}-header`] })).status, 200);
  await done(h2, 1);

  const plain = await startPlainUpstream();
  t.teardown(() => plain.close());
  const to = `www.example.com:80=127.0.0.1:${plain.port}`;
  const http = await gatewayFor(t, plain, { GW_UPSTREAM_CA_FILE: '', GW_UPSTREAM_CONNECT_TO: to }, ALLOW_ALL);
  const socket = await connectPlain(http.gw.port);
  t.teardown(() => socket.destroy());
  t.equal((await h1Request(socket, 'www.example.com', { ...request, path: `http://www.example.com${request.path}` })).status, 200);
  await done(http, 1);

  searched(t, folders, lines);
});

t.test(
  'of AI hosts a record keeps the path, as it has to; of a query, a header and a body nothing is kept, through any door',
  async (t) => {
    const lines: string[] = [];
    const log = createLogger({ level: 'trace', format: 'json', destination: { write: (line: string) => void lines.push(line) } });
    const { gw, send, through, execute } = await startGoverned(t, { log, bundle: ALLOW_ALL });
    const body = { model: 'gpt-4o-mini', messages: [{ role: 'user', content: `${PLANTED}-body` }] };
    const headers = [...withTexts.headers];
    t.equal((await send(chat(headers, `/proxy/openai/v1/chat/completions${query}`, body))).status, 200);
    t.equal((await through('api.openai.com:443', chat(headers, `/v1/chat/completions${query}`, body))).status, 200);
    t.equal((await execute({}, { params: body }, { 'X-Note': PLANTED })).status, 200);
    t.match(await listOf(gw), { domains: [{ domain: 'api.openai.com', connections: 1, requests: 3, hits: 4, managed: true }] });
    await gw.gateway.stop();
    searched(t, [gw.dataDir], lines);
  },
);

function searched(t: Test, folders: readonly string[], lines: readonly string[]): void {
  let kept = 0;
  for (const folder of folders) {
    for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue;
      const text = readFileSync(join(entry.parentPath, entry.name), 'latin1');
      t.notOk(text.includes(PLANTED), `${entry.name} has nothing of it`);
      if (text.includes('discovered_domain') || text.includes('www.example.com') || text.includes('api.openai.com')) kept += 1;
    }
  }
  t.ok(kept >= folders.length, 'what is searched is where the domains are kept');
  t.ok(lines.join('').includes('started'), 'the log is there');
  t.notOk(lines.join('').includes(PLANTED), 'nor has the log');
}
