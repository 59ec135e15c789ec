import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { request } from 'node:http';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import { chromium, type Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { bareEnvironment, eventually, run } from '../support/child.ts';
import { startGatewayProcess } from '../support/gateway-process.ts';
import { requirePeer, skipWithout } from '../support/peers.ts';
import { tempDir } from '../support/temp-dir.ts';
import { startPlainUpstream, startTlsUpstream, type UpstreamHandler } from '../support/tls-upstream.ts';
import { towards } from '../support/upstreams.ts';

/** A browser that finds our root where a user puts it, in the NSS database of its home; no flag says whom to trust. */
async function openBrowser(t: Test, proxyFlag: string, trusted: string | undefined): Promise<Page> {
  const home = tempDir(t);
  const database = join(home, '.pki', 'nssdb');
  mkdirSync(database, { recursive: true });
  const certutil = (args: readonly string[]) => run(t, requirePeer('certutil'), ['-d', `sql:${database}`, ...args]);
  t.equal((await certutil(['-N', '--empty-password'])).code, 0);
  if (trusted !== undefined) t.equal((await certutil(['-A', '-t', 'C,,', '-n', 'ai-request-gateway', '-i', trusted])).code, 0);
  const context = await chromium.launchPersistentContext(join(home, 'profile'), {
    executablePath: requirePeer('chromium'),
    headless: true,
    timeout: 600_000,
    env: { ...bareEnvironment(), HOME: home },
    args: [
      ...['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'],
      ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
      // The page's own address stays direct, as for any user: browsers leave loopback out.
      proxyFlag,
    ],
  });
  t.teardown(() => context.close());
  return context.pages()[0] ?? context.newPage();
}

/** OUR OWN stub of api.openai.com that lets pages of other origins call it, as the real one does. */
const answerPages: UpstreamHandler = (request, response, body) => {
  const cors = {
    'Access-Control-Allow-Origin': request.headers.origin ?? '*',
    'Access-Control-Allow-Headers': 'authorization, content-type',
    'Access-Control-Allow-Methods': 'GET, POST',
    'Access-Control-Expose-Headers': 'x-gw-record-id, x-gw-decision',
  };
  void body.then(() => {
    if (request.method === 'OPTIONS') {
      response.writeHead(204, cors).end();
      return;
    }
    const answer =
      request.method === 'GET'
        ? { object: 'list', data: [{ id: 'gpt-4o-mini', object: 'model' }] }
        : {
            object: 'chat.completion',
            model: 'gpt-4o-mini',
            choices: [{ index: 0, message: { role: 'assistant', content: 'Hello, page.' }, finish_reason: 'stop' }],
            usage: { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 },
          };
    response.writeHead(200, { 'Content-Type': 'application/json', ...cors }).end(JSON.stringify(answer));
  });
};

interface Fetched {
  readonly status?: number;
  readonly text?: string;
  readonly recordId?: string | null;
  readonly error?: string;
}

/** What the page's own script gets; it is handed over as text since it runs in the browser. */
function fetchInPage(page: Page, path: string, body?: unknown): Promise<Fetched> {
  const options =
    body === undefined
      ? {}
      : { method: 'POST', headers: { 'Content-Type': 'application/json', Authorization: 'Bearer sk-page' }, body: JSON.stringify(body) };
  return page.evaluate<Fetched>(`
    fetch(${JSON.stringify(`https://api.openai.com${path}`)}, ${JSON.stringify(options)}).then(
      async (answer) => ({ status: answer.status, text: await answer.text(), recordId: answer.headers.get('x-gw-record-id') }),
      (error) => ({ error: String(error) }),
    )`);
}

async function openPage(t: Test, proxyFlag: string, pageUrl: string, trusted: string | undefined): Promise<Page> {
  const page = await openBrowser(t, proxyFlag, trusted);
  await page.goto(pageUrl);
  return page;
}

/** A program on Node that does not trust the root. */
async function connectAndLeave(port: number, host: string): Promise<void> {
  const connect = request({ port, method: 'CONNECT', path: `${host}:443` }).end();
  const [, socket] = (await once(connect, 'connect')) as [unknown, Socket];
  await once(connectTls({ socket, servername: host }), 'secureConnect');
}

t.test('a page in headless Chromium', { skip: skipWithout(['chromium', 'certutil']) }, async (t) => {
  const provider = await startTlsUpstream({ hosts: ['api.openai.com'], handler: answerPages });
  t.teardown(() => provider.close());
  const site = await startPlainUpstream((_request, response) => {
    response.writeHead(200, { 'Content-Type': 'text/html' }).end('<!doctype html><title>A page</title><p>hello</p>');
  });
  t.teardown(() => site.close());
  const gateway = await startGatewayProcess(t, { env: towards(t, provider, ['api.openai.com']) });
  const pageUrl = `http://localhost:${site.port}/`;

  await t.test('calls an AI host through the proxy, and each call has its record', async (t) => {
    const page = await openPage(t, `--proxy-server=${gateway.url}`, pageUrl, gateway.caFile);
    const models = await fetchInPage(page, '/v1/models');
    t.match(models, { status: 200, text: 'gpt-4o-mini', recordId: String });
    t.match(await gateway.record(models.recordId ?? undefined), {
      decision: 'allow',
      provider: 'openai',
      action_type: 'http.request',
      action_method: 'GET',
      target: 'https://api.openai.com/v1/models',
      connection_type: 'connect_proxy',
      traffic_class: 'developer',
    });

    const chat = await fetchInPage(page, '/v1/chat/completions', { model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'hello' }] });
    t.match(chat, { status: 200, text: 'Hello, page.', recordId: String });
    t.match(await gateway.record(chat.recordId ?? undefined), {
      decision: 'allow',
      action_type: 'ai.infer',
      model: 'gpt-4o-mini',
      connection_type: 'connect_proxy',
      metering: { tokens_in: 11, tokens_out: 7 },
    });
    t.strictSame(
      provider.requests.map(({ method }) => method),
      ['GET', 'OPTIONS', 'POST'],
      'the preflight went through too',
    );
  });

  await t.test('finds the proxy by the automatic configuration that the gateway serves', async (t) => {
    const page = await openPage(t, `--proxy-pac-url=${gateway.url}/proxy.pac`, pageUrl, gateway.caFile);
    const models = await fetchInPage(page, '/v1/models');
    t.match(models, { status: 200, recordId: String });
    t.match(await gateway.record(models.recordId ?? undefined), { connection_type: 'connect_proxy', provider: 'openai' });
  });

  await t.test('that trusts the root is not reported as pinned, whatever connections it opens on speculation', async (t) => {
    // What was silent before this program is judged before it.
    await t.rejects(connectAndLeave(gateway.port, 'api.anthropic.com'), /unable to verify/);
    await eventually('the silence to be counted', async () => {
      const { text } = await gateway.admin('GET', '/metrics');
      return text.includes('gw_handshake_rejected_total{signal="silent_close"} 1\n') || undefined;
    });
    const { text } = await gateway.admin('GET', '/metrics');
    t.match(text, 'gw_handshake_rejected_total{signal="alert"} 0\n');
    const { body } = await gateway.admin('GET', '/v1/admin/discovery/domains');
    const { domains } = body as { domains: { domain: string; pinned: boolean }[] };
    t.same(
      domains.filter(({ pinned }) => pinned).map(({ domain }) => domain),
      ['api.anthropic.com'],
    );
    t.ok(domains.some(({ domain }) => domain === 'api.openai.com'));
  });

  await t.test('that does not trust the root gets nothing', async (t) => {
    const before = provider.requests.length;
    const page = await openPage(t, `--proxy-server=${gateway.url}`, pageUrl, undefined);
    t.match((await fetchInPage(page, '/v1/models')).error, /Failed to fetch/);
    t.equal(provider.requests.length, before);
  });
});
