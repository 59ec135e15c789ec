// Pages of origins in GW_ALLOWED_ORIGINS: what a browser asks before a request, and what it needs to hand an answer to
// its page. test/e2e/page-origins.test.ts has the browser.
import t, { type Test } from 'tap';
import { ALLOW_ALL, CHAT, chat, type Governed, startGoverned } from '../support/governed.ts';
import { managedOf } from '../support/managed.ts';
import { connectPlain, h1Request, type RawResponse } from '../support/raw-clients.ts';
import { initializeOf } from '../surfaces/mcp/mcp-place.ts';

const PAGE = 'https://app.example.com';
const ALLOWED = { GW_ALLOWED_ORIGINS: PAGE };

interface Asked {
  readonly method?: string;
  readonly path: string;
  readonly origin?: string;
  readonly headers?: readonly string[];
  readonly port?: number;
  readonly host?: string;
  readonly body?: string;
}

/** As a browser sends what a page of another site asks for. */
async function fromPage({ gw }: Governed, asked: Asked): Promise<RawResponse> {
  const { method = 'GET', path, origin = PAGE, headers = [], port = gw.port, host = `127.0.0.1:${port}`, body } = asked;
  const socket = await connectPlain(port);
  const own = ['Origin', origin, 'Sec-Fetch-Site', 'cross-site', 'Sec-Fetch-Mode', 'cors'];
  const answer = await h1Request(socket, host, { method, path, headers: [...own, ...headers], ...(body === undefined ? {} : { body }) });
  socket.destroy();
  return answer;
}

function preflight(governed: Governed, asked: Asked & { readonly wants?: string }): Promise<RawResponse> {
  const wants = asked.wants ?? 'authorization,content-type,x-gw-org-id';
  const headers = [
    'Access-Control-Request-Method',
    asked.method ?? 'POST',
    'Access-Control-Request-Headers',
    wants,
    ...(asked.headers ?? []),
  ];
  return fromPage(governed, { ...asked, method: 'OPTIONS', headers });
}

function mayRead(t: Test, { headers, rawHeaders }: RawResponse, what: string): void {
  const origins = rawHeaders.filter((_, at) => at % 2 === 1 && rawHeaders[at - 1]?.toLowerCase() === 'access-control-allow-origin');
  t.same(origins, [PAGE], what);
  t.match(headers['vary'], /\bOrigin\b/, what);
  t.match(headers['access-control-expose-headers'], /Mcp-Session-Id.*Retry-After.*WWW-Authenticate.*X-GW-Record-ID/, what);
}

const PATHS = ['/v1/actions:execute', '/mgmt/v1/workloads', '/mcp', '/proxy/openai/v1/chat/completions', '/v1/admin/workloads', '/nothing'];

t.test('the question before a request carries nothing, and is answered without asking for anything', async (t) => {
  for (const env of [{}, { GW_PROXY_AUTH: 'required' }, { GW_MANAGED_MODE: 'true' }, { GW_METRICS_TOKEN: 'a-token-of-metrics' }]) {
    const governed = await startGoverned(t, { bundle: ALLOW_ALL, env: { ...ALLOWED, ...env } });
    for (const path of [...PATHS, '/metrics', '/healthz']) {
      for (const method of ['POST', 'DELETE', 'PATCH']) {
        const answer = await preflight(governed, { path, method });
        const what = `${JSON.stringify(env)} ${method} ${path}`;
        t.equal(answer.status, 204, what);
        t.equal(answer.body.length, 0);
        t.match(answer.headers, {
          'access-control-allow-origin': PAGE,
          'access-control-allow-methods': new RegExp(`\\b${method}\\b`),
          'access-control-allow-headers': 'authorization,content-type,x-gw-org-id',
          vary: /\bOrigin\b/,
        });
        t.notOk(answer.headers['access-control-allow-private-network']);
        const foreign = await preflight(governed, { path, method, origin: 'https://evil.example' });
        t.equal(foreign.status, 403, `${what} for another page`);
        t.notOk(Object.keys(foreign.headers).some((name) => name.startsWith('access-control-')));
      }
    }
    t.equal(governed.upstream.requests.length, 0, 'no provider hears of it');
  }
});

t.test('pages of a public network may ask for one of a private network', async (t) => {
  const governed = await startGoverned(t, { env: ALLOWED });
  const answer = await preflight(governed, { path: '/mcp', headers: ['Access-Control-Request-Private-Network', 'true'] });
  t.equal(answer.headers['access-control-allow-private-network'], 'true');
});

t.test('what an allowed page is answered it can read, refusals too', async (t) => {
  const governed = await startGoverned(t, {
    bundle: ALLOW_ALL,
    env: ALLOWED,
    handler: (_request, response) => {
      response.writeHead(429, {
        'Content-Type': 'application/json',
        'Access-Control-Allow-Origin': '*',
        'Access-Control-Expose-Headers': 'x-theirs',
        'Access-Control-Allow-Credentials': 'true',
        'Retry-After': '3',
        'X-Theirs': 'here',
        Vary: 'Accept-Encoding',
      });
      response.end('{"usage":{"prompt_tokens":1,"completion_tokens":1}}');
    },
  });
  const managed = await managedOf(governed.gw);
  const mcp = (await managed.keyOf('acme', ['read'], 'mcp')).key;
  const key = (await managed.keyOf('acme')).key;
  const json = ['Content-Type', 'application/json'];

  const provider = await fromPage(governed, { ...chat(), body: JSON.stringify(CHAT), path: chat().path ?? '', method: 'POST' });
  t.equal(provider.status, 429);
  mayRead(t, provider, 'a base URL');
  t.match(provider.headers['access-control-expose-headers'], /X-Theirs/i, 'with what the provider has');
  t.notOk(provider.headers['access-control-allow-credentials'], 'but not with its word');
  t.match(provider.headers['vary'], /Accept-Encoding/);
  t.equal(provider.headers['retry-after'], '3');

  const envelope = {
    schema: 'gw.action_request.v2',
    org_id: 'default',
    workload_id: 'default',
    credential_hint: 'sk-caller',
    action: { type: 'ai.infer', method: 'POST', target_host: 'api.openai.com', params: CHAT },
  };
  const structured = await fromPage(governed, {
    method: 'POST',
    path: '/v1/actions:execute',
    headers: json,
    body: JSON.stringify(envelope),
  });
  t.equal(structured.status, 200);
  mayRead(t, structured, 'the structured API');
  t.equal(structured.headers['retry-after'], '3');
  const bad = await fromPage(governed, { method: 'POST', path: '/v1/actions:execute', headers: json, body: '{' });
  t.equal(bad.status, 400);
  mayRead(t, bad, 'a body that is not valid');

  const list = await fromPage(governed, { path: '/mgmt/v1/workloads', headers: ['Authorization', `Bearer ${key}`] });
  t.equal(list.status, 200);
  mayRead(t, list, 'management');
  const session = await fromPage(governed, {
    method: 'POST',
    path: '/mcp',
    headers: [...json, 'Accept', 'application/json, text/event-stream', 'Authorization', `Bearer ${mcp}`],
    body: JSON.stringify(initializeOf('2025-11-25')),
  });
  t.equal(session.status, 200);
  t.ok(session.headers['mcp-session-id']);
  mayRead(t, session, 'MCP');

  for (const [status, asked] of [
    [401, { path: '/mgmt/v1/workloads' }],
    [401, { method: 'POST', path: '/mcp', headers: json, body: '{}' }],
    [404, { path: '/nothing' }],
    [405, { path: '/mcp' }],
    [421, { path: '/healthz', host: 'evil.example' }],
    [200, { path: '/healthz' }],
    [200, { method: 'HEAD', path: '/healthz' }],
    [400, { path: '/proxy/nobody/v1/models' }],
  ] as const) {
    const answer = await fromPage(governed, asked);
    t.equal(answer.status, status, JSON.stringify(asked));
    mayRead(t, answer, JSON.stringify(asked));
  }
  const own = await fromPage(governed, { path: '/healthz', origin: `http://localhost:${governed.gw.port}` });
  t.equal(own.headers['access-control-allow-origin'], `http://localhost:${governed.gw.port}`, 'a page of our own under another name, too');
});

t.test('a page of any other origin is refused before anything is done, and cannot read why', async (t) => {
  const governed = await startGoverned(t, { bundle: ALLOW_ALL, env: ALLOWED });
  for (const origin of [
    'https://evil.example',
    'null',
    'https://app.example.com:8443',
    'http://app.example.com',
    'https://APP.example.com',
  ]) {
    for (const path of PATHS) {
      const answer = await fromPage(governed, { ...chat(), method: 'POST', path, origin, body: JSON.stringify(CHAT) });
      t.equal(answer.status, 403, `${origin} ${path}`);
      t.match(answer.body.toString(), /origin_not_allowed/);
      t.notOk(Object.keys(answer.headers).some((name) => name.startsWith('access-control-')));
      t.notOk(answer.headers['x-gw-record-id']);
    }
  }
  t.equal(governed.upstream.requests.length, 0);
});

t.test('without an Origin nothing is said of pages, and OPTIONS is what it was', async (t) => {
  const governed = await startGoverned(t, { bundle: ALLOW_ALL, env: ALLOWED });
  const plain = await governed.send(chat());
  t.equal(plain.status, 200);
  t.notOk(Object.keys(plain.headers).some((name) => name.startsWith('access-control-') || name === 'vary'));
  t.equal((await governed.send({ method: 'OPTIONS', path: '/healthz' })).status, 405);
  t.equal((await fromPage(governed, { method: 'OPTIONS', path: '/healthz' })).status, 405, 'it asks for nothing');
});

t.test('the management port and the port for unattended programs let the same pages in', async (t) => {
  const governed = await startGoverned(t, { bundle: ALLOW_ALL, env: { ...ALLOWED, GW_MGMT_PORT: '0' } });
  const { gateway } = governed.gw;
  for (const [port, path] of [
    [gateway.managementPort ?? 0, '/mgmt/v1/workloads'],
    [gateway.managementPort ?? 0, '/mcp'],
    [gateway.ambientPort, '/healthz'],
  ] as const) {
    t.equal((await preflight(governed, { port, path })).status, 204);
    t.equal((await preflight(governed, { port, path, origin: 'https://evil.example' })).status, 403);
    const answer = await fromPage(governed, { port, path });
    t.equal(answer.status, path === '/healthz' ? 200 : path === '/mcp' ? 405 : 401);
    mayRead(t, answer, path);
  }
});
