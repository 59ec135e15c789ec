// A page of an origin in GW_ALLOWED_ORIGINS, in a browser: what it calls works, and what it is refused it can read. No
// other page gets anything.
import type { Browser, Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { ALLOW_ALL, bundleOf, CHAT, type Governed, startGoverned } from '../support/governed.ts';
import { startBrowser } from '../support/headless-browser.ts';
import { managedOf } from '../support/managed.ts';
import { moduleUrl, startModuleSite } from '../support/module-site.ts';
import { skipWithout } from '../support/peers.ts';
import type { UpstreamHandler } from '../support/tls-upstream.ts';

const EVENTS = ['data: {"choices":[{"index":0,"delta":{"content":"Hello, page."}}]}\n\n', 'data: [DONE]\n\n'];
const WHOLE = {
  object: 'chat.completion',
  model: 'gpt-4o-mini',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hello, page.' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 },
};

/** A provider that has its own opinion of pages, and is in a hurry to be asked again later. */
const answerPages: UpstreamHandler = (_request, response, body) =>
  void body.then((bytes) => {
    const stream = bytes.includes('"stream":true');
    response.writeHead(200, {
      'Content-Type': stream ? 'text/event-stream' : 'application/json',
      'Access-Control-Allow-Origin': 'https://provider.example',
      'Retry-After': '7',
      'x-request-id': 'req_theirs',
    });
    if (stream) response.end(EVENTS.join(''));
    else response.end(JSON.stringify(WHOLE));
  });

const DENY = bundleOf('  targets:\n    - {id: none, effect: {decision: deny, reason: not for pages}}\n');

interface Scene {
  readonly governed: Governed;
  readonly allowed: Page;
  readonly foreign: Page;
  /** Of the gateway, as the pages reach it. */
  readonly url: string;
}

/** Two sites, of which the gateway lets one in. */
async function scene(t: Test, browser: Browser, env: Readonly<Record<string, string>> = {}, bundle = ALLOW_ALL): Promise<Scene> {
  const [site, other] = [await startModuleSite(), await startModuleSite()];
  t.teardown(() => Promise.all([site.close(), other.close()]));
  const governed = await startGoverned(t, {
    bundle,
    handler: answerPages,
    env: { GW_ALLOWED_ORIGINS: `http://localhost:${site.port}`, ...env },
  });
  const context = await browser.newContext();
  context.setDefaultTimeout(120_000);
  t.teardown(() => context.close());
  const open = async (port: number): Promise<Page> => {
    const page = await context.newPage();
    await page.goto(`http://localhost:${port}/`);
    return page;
  };
  return { governed, allowed: await open(site.port), foreign: await open(other.port), url: governed.gw.url };
}

interface Read {
  readonly status?: number;
  readonly text?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly error?: string;
}

/** What the page's own script gets; it is handed over as text since it runs in the browser. */
function fetchIn(page: Page, url: string, options: object = {}): Promise<Read> {
  return page.evaluate<Read>(`
    fetch(${JSON.stringify(url)}, ${JSON.stringify(options)}).then(
      async (answer) => ({ status: answer.status, text: await answer.text(), headers: Object.fromEntries(answer.headers) }),
      (error) => ({ error: String(error) }),
    )`);
}

const post = (body: unknown, headers: Readonly<Record<string, string>> = {}) => ({
  method: 'POST',
  headers: { 'Content-Type': 'application/json', ...headers },
  body: JSON.stringify(body),
});

const ENVELOPE = {
  schema: 'gw.action_request.v2',
  org_id: 'default',
  workload_id: 'default',
  credential_hint: 'sk-caller',
  action: { type: 'ai.infer', method: 'POST', target_host: 'api.openai.com', params: CHAT },
};

/** The official client of MCP in the page: it begins a session, lists tools, calls one, and ends. */
function speakMcp(
  page: Page,
  url: string,
  key: string,
): Promise<{ readonly tools?: number; readonly answer?: string; readonly error?: string }> {
  return page.evaluate(`(async () => {
    try {
      const { Client, StreamableHTTPClientTransport } = await import(${JSON.stringify(moduleUrl('@modelcontextprotocol/client'))});
      const requestInit = { headers: { Authorization: 'Bearer ${key}' } };
      const transport = new StreamableHTTPClientTransport(new URL(${JSON.stringify(`${url}/mcp`)}), { requestInit });
      const client = new Client({ name: 'page', version: '1.0.0' });
      await client.connect(transport);
      const { tools } = await client.listTools();
      const { content } = await client.callTool({ name: 'list_workloads', arguments: {} });
      await transport.terminateSession();
      await client.close();
      return { tools: tools.length, answer: content[0].text };
    } catch (error) {
      return { error: String(error) };
    }
  })()`);
}

/** The official SDK of OpenAI in the page, told of the gateway by its base URL. */
function askOpenAi(
  page: Page,
  url: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<{ readonly whole?: string; readonly stream?: string; readonly requestId?: string; readonly error?: string }> {
  return page.evaluate(`(async () => {
    try {
      const { default: OpenAI } = await import(${JSON.stringify(moduleUrl('openai'))});
      const options = { apiKey: 'sk-page', baseURL: ${JSON.stringify(`${url}/proxy/openai/v1`)}, dangerouslyAllowBrowser: true, maxRetries: 0 };
      const client = new OpenAI({ ...options, defaultHeaders: ${JSON.stringify(headers)} });
      const asked = ${JSON.stringify(CHAT)};
      const { data, response } = await client.chat.completions.create(asked).withResponse();
      let stream = '';
      for await (const chunk of await client.chat.completions.create({ ...asked, stream: true })) stream += chunk.choices[0].delta.content;
      return { whole: data.choices[0].message.content, stream, requestId: response.headers.get('x-gw-record-id') };
    } catch (error) {
      return { error: String(error) };
    }
  })()`);
}

t.test('a page of another origin in headless Chromium', { skip: skipWithout(['chromium']) }, async (t) => {
  const browser = await startBrowser(t);

  await t.test('calls every surface, and reads what it is answered', async (t) => {
    const { governed, allowed, url } = await scene(t, browser);
    const managed = await managedOf(governed.gw);
    t.match(await askOpenAi(allowed, url), { whole: 'Hello, page.', stream: 'Hello, page.', requestId: String });
    const whole = await fetchIn(allowed, `${url}/proxy/openai/v1/chat/completions`, post(CHAT, { Authorization: 'Bearer sk-page' }));
    t.match(whole, { status: 200, headers: { 'retry-after': '7', 'x-request-id': 'req_theirs', 'x-gw-decision': 'allow' } });
    t.match(await governed.gw.record(whole.headers?.['x-gw-record-id'] ?? ''), { decision: 'allow', connection_type: 'sdk_redirect' });
    const structured = await fetchIn(allowed, `${url}/v1/actions:execute`, post(ENVELOPE));
    t.match(structured, { status: 200, headers: { 'retry-after': '7', 'x-gw-record-id': String } });
    t.match(structured.text, /"result":\{"status_code":200/);
    const streamed = { ...ENVELOPE, action: { ...ENVELOPE.action, params: { ...CHAT, stream: true } } };
    t.match(await fetchIn(allowed, `${url}/v1/actions:execute`, post(streamed)), { status: 200, text: /\[DONE\]/ });

    const { key } = await managed.keyOf('acme');
    const authorized = { headers: { Authorization: `Bearer ${key}` } };
    t.match(await fetchIn(allowed, `${url}/mgmt/v1/workloads`, authorized), { status: 200, text: /"data"/ });
    const project = { ...post({ project_id: 'page', display_name: 'Page' }, authorized.headers) };
    t.match(await fetchIn(allowed, `${url}/mgmt/v1/projects`, project), { status: 201 });
    t.match(await fetchIn(allowed, `${url}/mgmt/v1/projects/page`, { method: 'DELETE', ...authorized }), { status: 200 });
    const mcp = await managed.keyOf('acme', ['read'], 'mcp');
    const spoken = await speakMcp(allowed, url, mcp.key);
    t.equal(spoken.error, undefined);
    t.ok((spoken.tools ?? 0) > 5);
    t.match(spoken.answer, /data|workloads/);
  });

  await t.test('reads why it is refused', async (t) => {
    const { allowed, url } = await scene(t, browser, {}, DENY);
    const refused = await fetchIn(allowed, `${url}/proxy/openai/v1/chat/completions`, post(CHAT, { Authorization: 'Bearer sk-page' }));
    t.match(refused, { status: 403, text: /not for pages/, headers: { 'x-gw-decision': 'deny', 'x-gw-record-id': String } });
    t.match(await fetchIn(allowed, `${url}/v1/actions:execute`, post(ENVELOPE)), { status: 403, text: /not for pages/ });
    t.match(await fetchIn(allowed, `${url}/v1/actions:execute`, post({})), { status: 400, text: /invalid_request/ });
    t.match(await fetchIn(allowed, `${url}/mgmt/v1/workloads`), { status: 401, headers: { 'www-authenticate': 'Bearer' } });
    t.match(await fetchIn(allowed, `${url}/mcp`), { status: 405, headers: { allow: /POST/ } });
    t.match(await fetchIn(allowed, `${url}/nothing`), { status: 404, text: /not_found/ });
    t.match(await askOpenAi(allowed, url), { error: /not for pages/ });
    t.match(await speakMcp(allowed, url, 'mcpk_wrong'), { error: /401|unauthorized/i });
  });

  await t.test('shows what it has where something is required, though its browser asks first without it', async (t) => {
    const { governed, allowed, url } = await scene(t, browser, { GW_MANAGED_MODE: 'true', GW_MGMT_PORT: '0' });
    const made = await governed.gw.admin('POST', '/v1/admin/api-keys', { org_id: 'default', name: 'page' });
    const { key } = made.body as { key: string };
    const body = post(CHAT, { Authorization: 'Bearer sk-page', 'X-GW-API-Key': key });
    t.match(await fetchIn(allowed, `${url}/proxy/openai/v1/chat/completions`, body), { status: 200, text: /Hello, page/ });
    t.match(await fetchIn(allowed, `${url}/proxy/openai/v1/chat/completions`, post(CHAT, { Authorization: 'Bearer sk-page' })), {
      status: 401,
    });
    t.match(await askOpenAi(allowed, url, { 'X-GW-API-Key': key }), { whole: 'Hello, page.', stream: 'Hello, page.' });
    const apart = `http://127.0.0.1:${governed.gw.gateway.managementPort}`;
    const managed = await managedOf(governed.gw);
    const { key: mgk } = await managed.keyOf('acme');
    t.match(await fetchIn(allowed, `${apart}/mgmt/v1/workloads`, { headers: { Authorization: `Bearer ${mgk}` } }), { status: 200 });
    const mcp = await managed.keyOf('acme', ['read'], 'mcp');
    t.equal((await speakMcp(allowed, apart, mcp.key)).error, undefined);
  });

  await t.test('gets nothing where its origin is not named, and nothing is done for it', async (t) => {
    const { governed, foreign, url } = await scene(t, browser);
    const managed = await managedOf(governed.gw);
    const { key } = await managed.keyOf('acme');
    const { key: mcp } = await managed.keyOf('acme', ['read'], 'mcp');
    for (const [path, options] of [
      ['/proxy/openai/v1/chat/completions', post(CHAT, { Authorization: 'Bearer sk-page' })],
      ['/proxy/openai/v1/chat/completions', { method: 'POST', body: JSON.stringify(CHAT) }],
      ['/v1/actions:execute', { method: 'POST', body: JSON.stringify(ENVELOPE) }],
      ['/mgmt/v1/workloads', { headers: { Authorization: `Bearer ${key}` } }],
      ['/healthz', {}],
    ] as const) {
      t.match(await fetchIn(foreign, url + path, options), { error: /Failed to fetch/ }, path);
    }
    t.match(await speakMcp(foreign, url, mcp), { error: /Failed to fetch|fetch failed|TypeError/ });
    t.match(await askOpenAi(foreign, url), { error: /Connection error/ });
    t.equal(governed.upstream.requests.length, 0);
  });
});
