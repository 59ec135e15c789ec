// Secrets and prompts are planted wherever a stranger, an operator or a provider can put one, on every door; then
// everything that the process writes is searched for them.
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import t, { type Test } from 'tap';
import { startGatewayProcess } from '../support/gateway-process.ts';
import { ALLOW_ALL, CHAT, chat } from '../support/governed.ts';
import { RESPONSES, talk } from '../support/metered-sockets.ts';
import { openAiSocket } from '../support/openai-sockets.ts';
import { connectPlain, connectThrough, h1Request, type RequestOptions, readToEnd } from '../support/raw-clients.ts';
import { tempDir } from '../support/temp-dir.ts';
import { startTlsUpstream } from '../support/tls-upstream.ts';
import { opened, startSocketUpstream, webSocketOn } from '../support/websockets.ts';

/** What no line and no file may hold; the words behind it say where it was planted. */
const PLANTED = /planted-[a-z-]+/g;
const SOCKETS = 'api.openai.com';
const b64 = (text: string): string => Buffer.from(text).toString('base64');
/** An own token, of which the process would know that it is one. */
const TOKEN = 'gwt_planted-own-token';

async function upstreams(t: Test) {
  const http = await startTlsUpstream({
    hosts: ['api.mistral.ai'],
    handler: (request, response, body) =>
      void body.then((bytes) => {
        response.setHeader('set-cookie', 'planted-answer-cookie');
        if (request.url?.includes('broken')) response.destroy();
        else if (request.url?.includes('error')) {
          response.writeHead(401, { 'content-type': 'application/json', 'x-planted': 'planted-answer-header' });
          response.end('{"error":{"message":"Incorrect API key: planted-provider-error"}}');
        } else if (bytes.includes('"stream":true')) {
          response.writeHead(200, { 'content-type': 'text/event-stream' });
          response.write('data: {"choices":[{"delta":{"content":"planted-stream"}}]}\n\ndata: {planted-bad-json\n\n');
          response.end('data: {"error":{"message":"planted-stream-error"}}\n\n');
        } else
          response
            .setHeader('content-type', 'application/json')
            .end('{"choices":[{"message":{"content":"planted-completion"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}');
      }),
  });
  t.teardown(() => http.close());
  const sockets = await startSocketUpstream(t, { hosts: [SOCKETS], onSocket: openAiSocket });
  const caFile = join(tempDir(t), 'ca.pem');
  writeFileSync(caFile, `${http.caPem}\n${sockets.caPem}`);
  const places = [...['api.mistral.ai'].map((host) => [host, http.port] as const), [SOCKETS, sockets.port] as const];
  return {
    GW_UPSTREAM_CONNECT_TO: places.map(([host, port]) => `${host}:443=127.0.0.1:${port}`).join(),
    GW_UPSTREAM_CA_FILE: caFile,
  };
}

/** Refuses whatever is posted, in words that hold what was posted. */
async function receiver(t: Test): Promise<number> {
  const server = createServer((request, response) => {
    void buffer(request).then(() => response.writeHead(400).end(`bad: ${request.url ?? ''}`));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.teardown(() => server.close());
  return (server.address() as AddressInfo).port;
}

async function run(t: Test, level: string, format: string): Promise<void> {
  const to = await receiver(t);
  const credentials = tempDir(t);
  mkdirSync(credentials, { recursive: true });
  writeFileSync(
    join(credentials, 'a.yaml'),
    'credentials:\n  - {credential_id: file, connector_id: cohere, mode: alias, secret_ref: planted-credential-file}\n',
  );
  const gateway = await startGatewayProcess(t, {
    bundle: ALLOW_ALL,
    env: {
      ...(await upstreams(t)),
      GW_LOG_LEVEL: level,
      GW_LOG_FORMAT: format,
      GW_CREDENTIALS_DIR: credentials,
      GW_METRICS_TOKEN: 'planted-metrics-token',
      GW_EXPORT_WEBHOOK_URL: `http://127.0.0.1:${to}/planted-webhook-path?k=planted-webhook-query`,
      GW_EXPORT_WEBHOOK_TOKEN: 'planted-webhook-token',
      GW_SMTP_URL: `smtp://planted-smtp-user:planted-smtp-password@127.0.0.1:${to}?tls=none`,
      GW_SMTP_FROM: 'gateway@example.com',
      GW_OTLP_ENDPOINT: `http://127.0.0.1:${to}/planted-otlp-path?k=planted-otlp-query`,
      OTEL_EXPORTER_OTLP_HEADERS: 'authorization=planted-otlp-header',
    },
  });
  const caPem = readFileSync(gateway.caFile, 'utf8');
  const send = async (request: RequestOptions, host = `127.0.0.1:${gateway.port}`) => {
    const socket = await connectPlain(gateway.port);
    t.teardown(() => socket.destroy());
    return h1Request(socket, host, request);
  };
  const raw = async (text: string) => {
    const socket = await connectPlain(gateway.port);
    t.teardown(() => socket.destroy());
    socket.write(text, 'latin1');
    return (await readToEnd(socket)).toString('latin1');
  };
  const prompt = { ...CHAT, messages: [{ role: 'user', content: 'planted-prompt' }] };
  const heads = [
    'Authorization',
    'Bearer planted-authorization',
    'Cookie',
    'planted-cookie',
    'X-Api-Key',
    'planted-api-key',
    'X-Own',
    'planted-header',
  ];
  const mine = (headers: readonly string[], path: string, body: unknown = prompt): RequestOptions => ({
    ...chat([], path, body),
    headers: [...headers, 'Content-Type', 'application/json'],
  });
  const connectHeaders = { 'Proxy-Authorization': `Basic ${b64('default:planted-proxy-password')}`, 'X-Own': 'planted-connect-header' };
  for (const query of ['', '&x=broken', '&x=error']) {
    const path = `/v1/chat/completions?key=planted-query${query}`;
    await send(mine(heads, `/proxy/mistral${path}`));
    await send(mine(heads, `/proxy/mistral${path}`, { ...prompt, stream: true }));
    await send(mine([...heads, 'X-GW-API-Key', 'gwk_planted-gateway-key'], `/proxy/mistral${path}`));
    await send(mine([...heads, 'X-GW-Workload-ID', 'ci', 'X-GW-Workload-Token', TOKEN], `/proxy/mistral${path}`));
    await send(mine(heads, `/proxy/mistral${path}`, '{"model":"a","model":"planted-broken-body"'));
    const tunnel = await connectThrough(gateway.port, 'api.mistral.ai:443', caPem, { headers: connectHeaders });
    t.teardown(() => tunnel.destroy());
    await h1Request(tunnel, 'api.mistral.ai', mine(heads, path));
  }
  await raw(
    `GET http://planted-user:planted-password@api.mistral.ai/v1/models?k=planted-query HTTP/1.1\r\nHost: api.mistral.ai\r\nConnection: close\r\n\r\n`,
  );
  await raw(`CONNECT planted-connect-user:planted-connect-password@api.mistral.ai:443 HTTP/1.1\r\nHost: x\r\n\r\n`);
  await raw(
    `GET /nowhere?planted-lost-query HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: planted-lost-header\r\nConnection: close\r\n\r\n`,
  );
  await raw('GET / HTTP/1.1\r\nplanted-bad-header\r\n\r\n');
  await send({ path: `/v1/admin/workloads?gw=planted-admin-query`, headers: ['GW-Admin-Token', 'planted-wrong-admin-token'] });
  const action = {
    type: 'ai.infer',
    method: 'POST',
    target_host: 'api.mistral.ai',
    params: prompt,
    headers: { 'x-own': 'planted-action-header' },
  };
  const envelope = {
    schema: 'gw.action_request.v2',
    org_id: 'default',
    workload_id: 'default',
    credential_hint: 'planted-credential-hint',
    action,
  };
  for (const extra of [{}, { planted: 'planted-member' }, { delegation_token: b64('planted-delegation-token') }]) {
    const body = JSON.stringify({ ...envelope, ...extra });
    await fetch(`${gateway.url}/v1/actions:execute`, { method: 'POST', headers: { authorization: 'Bearer gwk_planted-direct-key' }, body });
    await fetch(`${gateway.url}/v1/actions:execute`, { method: 'POST', body });
  }
  const socketTunnel = await connectThrough(gateway.port, `${SOCKETS}:443`, caPem, { headers: connectHeaders });
  const socket = webSocketOn(t, socketTunnel, SOCKETS, `${RESPONSES}?key=planted-socket-query`, {
    headers: { authorization: 'Bearer planted-socket-key' },
  });
  await opened(socket);
  await talk(socket).say({ type: 'response.create', model: 'gpt-4o-mini', input: 'planted-socket-message' }, 'response.completed');
  socket.send('{"type":"planted-unknown-event"');
  await gateway.admin('PUT', '/v1/admin/credentials', {
    credential_id: 'c',
    connector_id: 'openai',
    mode: 'alias',
    secret_ref: 'planted-stored-secret',
  });
  await gateway.admin('PUT', '/v1/admin/credentials', { credential_id: 'c', planted: 'planted-admin-body' });
  await gateway.admin('POST', '/v1/admin/mgmt-keys', { name: 'n', kind: 'management', scopes: ['planted-wrong-scope'] });
  const { body: managed } = await gateway.admin('POST', '/v1/admin/mgmt-keys', {
    org_id: 'default',
    name: 'k',
    kind: 'management',
    scopes: ['read', 'write'],
  });
  const manage = (path: string, body: unknown) =>
    fetch(`${gateway.url}/mgmt/v1/${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${(managed as { key: string }).key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  const channel = { name: 'c', kind: 'slack', config: { webhook_url: 'https://hooks.slack.com/services/planted-channel-url' } };
  const destination = {
    name: 'd',
    kind: 'webhook',
    config: { url: 'https://siem.example.com/planted-destination-url', token: 'planted-destination-token' },
  };
  t.same([(await manage('alerts/channels', channel)).status, (await manage('export/destinations', destination)).status], [201, 201]);
  const { body: made } = await gateway.admin('POST', '/v1/admin/mgmt-keys', {
    org_id: 'default',
    name: 'm',
    kind: 'mcp',
    scopes: ['read', 'write'],
  });
  const key = (made as { key: string }).key;
  const mcp = (body: unknown) =>
    fetch(`${gateway.url}/mcp`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      body: JSON.stringify(body),
    });
  await mcp({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'planted-tool', arguments: { text: 'planted-mcp-argument' } } });
  await mcp({ jsonrpc: '2.0', id: 2, method: 'planted-mcp-method' });
  await send(chat([], '/proxy/mistral/v1/chat/completions', prompt));
  gateway.child.kill('SIGTERM');
  await gateway.child.ended;
  const files = filesBelow(String(gateway.env['GW_DATA_DIR']));
  const searched: Record<string, string> = {
    'standard output': gateway.child.stdout,
    'standard error': gateway.child.stderr,
    'data folder': files.map((file) => readFileSync(file, 'latin1')).join(''),
  };
  t.ok(searched['data folder']?.includes('gw.execution_record.v1'), 'records are searched');
  if (level === 'trace' || level === 'info') t.match(gateway.child.stdout, /request/, 'the log is searched');
  for (const [where, text] of Object.entries(searched)) {
    t.same([...new Set(text.match(PLANTED) ?? [])], [], `${where}, ${level}, ${format}`);
    t.notOk(text.includes(key), `an issued key, ${where}`);
  }
}

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

for (const [level, format] of [
  ['trace', 'json'],
  ['trace', 'pretty'],
  ['debug', 'json'],
  ['info', 'json'],
  ['warn', 'json'],
  ['error', 'json'],
] as const) {
  // Holds: no-content-in-records
  t.test(`nothing that was planted is written at the level ${level}, ${format}`, (t) => run(t, level, format));
}
