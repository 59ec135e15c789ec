import t from 'tap';
import { type AimockUpstream, MOCK_TEXT, MOCK_USAGE, startAimock } from '../support/aimock.ts';
import { exactly } from '../support/exactly.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { isVerified } from '../support/is-verified.ts';
import { connectPlain, connectThrough, h1Request, h2Request, h2Session, type RawResponse } from '../support/raw-clients.ts';
import { towardsMock } from '../support/upstreams.ts';

const CHAT = { model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'hello' }] };
const KEY = ['Authorization', 'Bearer sk-test-key', 'Content-Type', 'application/json'];

function envelope(params: Record<string, unknown>, extra: Record<string, unknown> = {}): string {
  return JSON.stringify({
    schema: 'gw.action_request.v2',
    org_id: 'acme',
    workload_id: 'default',
    action: { type: 'ai.infer', method: 'POST', target_host: 'api.openai.com', target_path: '/v1/chat/completions', params },
    credential_hint: 'sk-test-key',
    ...extra,
  });
}

async function recordOf(gw: TestGateway, response: RawResponse): Promise<Record<string, unknown>> {
  const id = response.headers['x-gw-record-id'];
  if (id === undefined) throw new Error(`no record id: ${response.status} ${response.body.toString()}`);
  return gw.record(id);
}

t.test('one call through each door', async (t) => {
  const upstream: AimockUpstream = await startAimock();
  t.teardown(() => upstream.close());
  const gw = await startTestGateway(t, { env: towardsMock(t, upstream) });

  const call = async (door: 'redirect' | 'connect' | 'absolute-tunnel', body: unknown, port = gw.port) => {
    const options = { method: 'POST', path: '/v1/chat/completions', headers: KEY, body: JSON.stringify(body) };
    if (door === 'redirect') {
      const socket = await connectPlain(port);
      t.teardown(() => socket.destroy());
      return h1Request(socket, `127.0.0.1:${port}`, { ...options, path: '/proxy/openai/v1/chat/completions' });
    }
    const socket = await connectThrough(port, 'api.openai.com:443', gw.caPem);
    t.teardown(() => socket.destroy());
    return h1Request(socket, 'api.openai.com', options);
  };

  await t.test('the structured API answers an envelope whose record can be fetched and verified', async (t) => {
    const response = await fetch(`${gw.url}/v1/actions:execute`, { method: 'POST', body: envelope(CHAT) });
    const body = (await response.json()) as Record<string, never>;
    t.equal(response.status, 200);
    t.match(body, { schema: 'gw.action_response.v1', decision: 'allow', result: { status_code: 200 } });
    t.match(JSON.stringify(body['result']), MOCK_TEXT);
    const record = await gw.record(String(body['record_id']));
    t.match(record, {
      record_hash: body['record_hash'],
      org_id: 'acme',
      workload_id: 'default',
      connection_type: 'direct_api',
      traffic_class: 'developer',
      provider: 'openai',
      model: 'gpt-4o-mini',
      action_type: 'ai.infer',
      target_host: 'api.openai.com',
      metering: { tokens_in: MOCK_USAGE.tokensIn, tokens_out: MOCK_USAGE.tokensOut, usage_reported: true, rate_in: exactly('0.15') },
    });
    t.ok(isVerified(record));
    t.match((await gw.admin('GET', `/v1/verify/${String(body['record_hash'])}`)).body, { status: 'pending_inclusion' });
  });

  await t.test('redirect, CONNECT with http/1.1 and CONNECT on the ambient port each say how they came', async (t) => {
    const redirect = await call('redirect', CHAT);
    t.equal(redirect.status, 200);
    t.match(redirect.body.toString(), MOCK_TEXT);
    const record = await recordOf(gw, redirect);
    t.match(record, { connection_type: 'sdk_redirect', traffic_class: 'developer', org_id: 'default', metering: { tokens_in: 11 } });
    t.equal(redirect.headers['x-gw-record-hash'], record['record_hash']);
    t.match(await recordOf(gw, await call('connect', CHAT)), { connection_type: 'connect_proxy', traffic_class: 'developer' });
    t.match(await recordOf(gw, await call('connect', CHAT, gw.ambientPort)), {
      connection_type: 'connect_proxy',
      traffic_class: 'ambient',
    });
  });

  await t.test('CONNECT with h2', async (t) => {
    const socket = await connectThrough(gw.port, 'api.openai.com:443', gw.caPem, { alpn: ['h2'] });
    t.equal(socket.alpnProtocol, 'h2');
    const session = h2Session(socket, 'api.openai.com');
    t.teardown(() => session.close());
    const answer = await h2Request(session, { method: 'POST', path: '/v1/chat/completions', headers: KEY, body: JSON.stringify(CHAT) });
    t.equal(answer.status, 200);
    t.match(await recordOf(gw, answer), { connection_type: 'connect_proxy', model: 'gpt-4o-mini', metering: { tokens_out: 7 } });
  });

  await t.test('a stream passes as it is, and its usage is read from it', async (t) => {
    const answer = await call('connect', { ...CHAT, stream: true, stream_options: { include_usage: true } });
    t.match(answer.headers['content-type'], /^text\/event-stream/);
    t.match(answer.body.toString(), /data: \[DONE\]/);
    t.match(await recordOf(gw, answer), {
      stream: true,
      stream_outcome: 'complete',
      metering: { tokens_in: 11, tokens_out: 7, usage_reported: true },
    });
  });

  await t.test('a stream of OpenAI without include_usage records 0 tokens and says that none were reported', async (t) => {
    const record = await recordOf(gw, await call('redirect', { ...CHAT, stream: true }));
    t.match(record, {
      stream_outcome: 'complete',
      metering: { tokens_in: 0, tokens_out: 0, usage_reported: false, cost_usd: exactly('0') },
    });
  });

  await t.test('a stream of the structured API is the raw event stream', async (t) => {
    const response = await fetch(`${gw.url}/v1/actions:execute`, { method: 'POST', body: envelope({ ...CHAT, stream: true }) });
    t.match(response.headers.get('content-type'), /^text\/event-stream/);
    t.match(await response.text(), /data: \[DONE\]/);
    t.match(await gw.record(response.headers.get('x-gw-record-id') ?? ''), { connection_type: 'direct_api', stream_outcome: 'complete' });
  });

  await t.test(
    "an upstream's own error passes through the proxied doors and stands inside the envelope of the structured API",
    async (t) => {
      const failing = { ...CHAT, messages: [{ role: 'user', content: 'fail please' }] };
      const proxied = await call('redirect', failing);
      t.equal(proxied.status, 503);
      t.match(await recordOf(gw, proxied), { decision: 'allow', upstream_status: 503, status_code: 503 });
      const direct = await fetch(`${gw.url}/v1/actions:execute`, { method: 'POST', body: envelope(failing) });
      t.equal(direct.status, 200);
      t.match(await direct.json(), { decision: 'allow', result: { status_code: 503 } });
    },
  );

  await t.test('the client key reaches the provider, gateway headers do not', async (t) => {
    const socket = await connectPlain(gw.port);
    t.teardown(() => socket.destroy());
    await h1Request(socket, `127.0.0.1:${gw.port}`, {
      method: 'POST',
      path: '/proxy/openai/v1/chat/completions',
      headers: [...KEY, 'X-GW-Project-ID', 'apollo', 'X-GW-Caller-ID', 'alice'],
      body: JSON.stringify(CHAT),
    });
    const seen = upstream.journal().at(-1);
    t.equal(seen?.path, '/v1/chat/completions');
    t.ok(seen && 'authorization' in seen.headers);
    t.notOk(Object.keys(seen?.headers ?? {}).some((name) => name.startsWith('x-gw-')));
    t.match(seen?.headers['via'], /gw-/);
  });
});

// Holds: no-second-way-to-a-provider
t.test('refusals are recorded and read well', async (t) => {
  const upstream = await startAimock();
  t.teardown(() => upstream.close());
  const gw = await startTestGateway(t, { env: { ...towardsMock(t, upstream), GW_ORG_ID: 'acme' } });
  const direct = async (extra: Record<string, unknown>) => {
    const response = await fetch(`${gw.url}/v1/actions:execute`, { method: 'POST', body: envelope(CHAT, extra) });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };

  await t.test('another org and an unknown workload are denied', async (t) => {
    t.match(await direct({ org_id: 'other' }), { status: 403, body: { decision: 'deny', reason_codes: ['org_mismatch'] } });
    const unknown = await direct({ workload_id: 'nobody' });
    t.match(unknown, { status: 403, body: { decision: 'deny', reason_codes: ['workload_not_registered'] } });
    t.match(await gw.record(String((unknown.body['decision_trace'] && unknown.body['record_id']) ?? '')), {
      decision: 'deny',
      workload_id: 'nobody',
    });
  });

  await t.test('a host that no connector has is denied by the shipped bundle', async (t) => {
    const action = { type: 'http.request', method: 'GET', target_host: 'example.com', target_path: '/', params: {} };
    t.match(await direct({ action }), { status: 403, body: { decision: 'deny', reason_codes: ['connector_not_allowed'] } });
  });

  await t.test('a workload that may not use a door is denied there', async (t) => {
    await gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'api-only', allowed_connection_types: ['direct_api'] });
    const socket = await connectPlain(gw.port);
    t.teardown(() => socket.destroy());
    const answer = await h1Request(socket, `127.0.0.1:${gw.port}`, {
      method: 'POST',
      path: '/proxy/anthropic/v1/messages',
      headers: ['X-GW-Org-ID', 'acme', 'X-GW-Workload-ID', 'api-only', 'x-api-key', 'k'],
      body: JSON.stringify({ model: 'claude-3-5-haiku-20241022', max_tokens: 5, messages: [] }),
    });
    t.equal(answer.status, 403);
    t.match(JSON.parse(answer.body.toString()), {
      type: 'error',
      error: { message: /api-only/ },
      decision: 'deny',
      reason_codes: ['connection_type_not_allowed'],
    });
    t.equal(upstream.journal().length, 0);
  });

  await t.test('bad input names each bad member and leaves no record', async (t) => {
    const response = await fetch(`${gw.url}/v1/actions:execute`, {
      method: 'POST',
      body: JSON.stringify({ schema: 'x', org_id: '', action: { method: 5 } }),
    });
    t.equal(response.status, 400);
    t.match(await response.json(), { error: { code: 'invalid_request', details: [{ path: /./ }] } });
    t.equal(response.headers.get('x-gw-record-id'), null);
  });

  await t.test('an ambiguous body is refused with a record', async (t) => {
    const socket = await connectPlain(gw.port);
    t.teardown(() => socket.destroy());
    const answer = await h1Request(socket, `127.0.0.1:${gw.port}`, {
      method: 'POST',
      path: '/proxy/openai/v1/chat/completions',
      headers: KEY,
      body: '{"model":"gpt-4o-mini","model":"gpt-4","messages":[]}',
    });
    t.equal(answer.status, 400);
    t.match(await recordOf(gw, answer), { decision: 'deny', reason_codes: ['ambiguous_body'] });
  });
});
