import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import t from 'tap';
import { eventually } from '../support/child.ts';
import { exactly } from '../support/exactly.ts';
import { ADMIN_TOKEN } from '../support/gateway.ts';
import { ALLOW_ALL, bundleOf, CHAT, chat, startGoverned } from '../support/governed.ts';
import { isVerified } from '../support/is-verified.ts';
import { connectPlain } from '../support/raw-clients.ts';

/** What the specification and decision 7.2 list, and `reason`. */
const KNOWN = new Set(
  'schema record_id record_hash org_id workload_id caller_id caller_ip node_id decision reason reason_codes action_type target connection_type traffic_class connector_version idempotency_key project_id customer_id account_id labels policy_trace metering request_id created_at completed_at connector_id credential_id api_key_id provider model action_method target_host target_path status_code upstream_status latency_ms upstream_latency_ms stream stream_outcome request_sha256 response_sha256 request_bytes response_bytes risk_score risk_signals delegation_id approval_id record_tier error'.split(
    ' ',
  ),
);

t.test('a record holds what is specified, no query value and no content', async (t) => {
  const { send, recordOf, gw } = await startGoverned(t);
  const path = '/proxy/openai/v1/chat/completions?api-version=hidden-value&trace=hidden-too';
  const record = await recordOf(await send(chat(['X-GW-Caller-ID', 'alice'], path)));
  t.same(
    Object.keys(record).filter((name) => !KNOWN.has(name)),
    [],
  );
  t.match(record, {
    schema: 'gw.execution_record.v1',
    record_id: /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
    created_at: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/,
    completed_at: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/,
    target: 'https://api.openai.com/v1/chat/completions',
    target_path: '/v1/chat/completions?api-version&trace',
    connector_id: 'openai',
    connector_version: /./,
    record_tier: 'action',
    stream: false,
    status_code: 200,
    upstream_status: 200,
    request_bytes: JSON.stringify(CHAT).length,
    request_sha256: /^[0-9a-f]{64}$/,
    response_sha256: /^[0-9a-f]{64}$/,
    policy_trace: {
      bundle_id: 'default',
      version: '1',
      matched_rule_ids: ['allow.registered_providers'],
      attributes: { 'context.connector.id': 'openai' },
    },
    metering: {
      tokens_in: 11,
      tokens_out: 7,
      usage_reported: true,
      cost_usd: exactly('0.00000585'),
      rate_in: exactly('0.15'),
      rate_out: exactly('0.6'),
      rate_source: 'catalogue',
    },
  });
  t.notOk('stream_outcome' in record, 'absent when not a stream');
  t.notMatch(JSON.stringify(record), /hidden|hello|sk-client/);
  t.ok(isVerified(record));
  const raw = await gw.admin('GET', `/v1/records/${String(record['record_id'])}`);
  t.match(raw.text, /^\{"action_method":/, 'as canonical text');
  t.equal(
    (await fetch(`${gw.url}/v1/records/${String(record['record_id'])}`, { headers: { authorization: `Bearer ${ADMIN_TOKEN}` } })).status,
    200,
  );
  t.equal((await fetch(`${gw.url}/v1/verify/${String(record['record_hash'])}`)).status, 401);
});

t.test('attributes keep what the rules read, of the body only model, stream and numbers', async (t) => {
  const rules = `  targets:
    - {id: all, effect: {decision: allow}}
    - {id: reads, when: {all: [{field: context.action.params.user, equals: nobody}, {field: context.action.params.max_tokens, gt: 99}, {field: context.action.params.model, equals: x}, {field: context.purpose, exists: true}]}, effect: {decision: deny}}
`;
  const { execute, gw } = await startGoverned(t, { bundle: bundleOf(rules) });
  const { body } = await execute({ context: { purpose: 'tests' } }, { params: { ...CHAT, user: 'private-user', max_tokens: 5 } });
  const { policy_trace } = (await gw.record(String(body['record_id']))) as { policy_trace: { attributes: Record<string, unknown> } };
  t.match(policy_trace.attributes, {
    'context.action.params.max_tokens': 5,
    'context.action.params.model': 'gpt-4o-mini',
    'context.purpose': 'tests',
  });
  t.notMatch(JSON.stringify(policy_trace), 'private-user');
});

t.test('texts that are not well-formed Unicode: refused on the structured API, replaced on the proxied doors', async (t) => {
  const { execute, send, recordOf, gw, upstream } = await startGoverned(t);
  const lone = await fetch(`${gw.url}/v1/actions:execute`, {
    method: 'POST',
    body: '{"schema":"gw.action_request.v2","org_id":"o","workload_id":"default","caller_id":"\\ud800","action":{"type":"ai.infer","method":"POST","target_host":"api.openai.com","params":{}}}',
  });
  t.match(
    { status: lone.status, body: await lone.json() },
    { status: 400, body: { error: { code: 'invalid_request', details: [{ path: 'caller_id' }] } } },
  );
  t.equal((await execute()).status, 200);
  const body = '{"model":"bad-\\ud800","messages":[]}';
  const answer = await send(chat(['X-GW-Caller-ID', '\xff\xfe', 'X-GW-Project-ID', 'caf\xc3\xa9'], undefined, body));
  t.equal(answer.status, 200);
  t.equal(upstream.requests.at(-1)?.body.toString(), body, 'what is sent stays as it was');
  const record = await recordOf(answer);
  t.match(record, { model: 'bad-\ufffd', project_id: 'café' });
  t.ok(isVerified(record));
  t.equal(record['record_hash'], answer.headers['x-gw-record-hash']);
});

t.test('the name of a model is kept, so it must not be a text of any length', async (t) => {
  const { send, execute, upstream } = await startGoverned(t);
  const model = 'm'.repeat(257);
  t.match(await send(chat([], undefined, { ...CHAT, model })), { status: 400 });
  t.match(await execute({}, { params: { ...CHAT, model } }), {
    status: 400,
    body: { error: { code: 'invalid_request', details: [{ path: 'action.params.model' }] } },
  });
  t.equal(upstream.requests.length, 0);
});

t.test('every governed response says what it is, refusals and streams included', async (t) => {
  const { send, recordOf, execute } = await startGoverned(t, {
    handler: (request, response, body) =>
      void body.then((bytes) => {
        const stream = bytes.includes('"stream":true');
        response.setHeader('content-type', stream ? 'text/event-stream' : 'application/json');
        response.end(stream ? 'data: {"choices":[]}\n\ndata: [DONE]\n\n' : request.url === '/v1/cut' ? '' : '{}');
      }),
  });
  const cases = [
    { name: 'whole', answer: await send(chat()), decision: 'allow', hash: true },
    { name: 'stream', answer: await send(chat([], undefined, { ...CHAT, stream: true })), decision: 'allow', hash: false },
    { name: 'unknown workload', answer: await send(chat(['X-GW-Workload-ID', 'nobody'])), decision: 'deny', hash: true },
    { name: 'ambiguous', answer: await send(chat([], undefined, '[]')), decision: 'deny', hash: true },
    { name: 'no connector', answer: await send(chat(['X-GW-Target-Host', 'www.example.com'])), decision: 'deny', hash: true },
  ];
  for (const { name, answer, decision, hash } of cases) {
    t.match(answer.headers, { 'x-gw-request-id': /./, 'x-gw-decision': decision }, name);
    const record = await recordOf(answer);
    t.match(record, { decision, request_id: answer.headers['x-gw-request-id'] }, name);
    t.equal(answer.headers['x-gw-record-hash'], hash ? record['record_hash'] : undefined, name);
  }
  const direct = await execute({ request_id: 'my-id' });
  t.match(Object.fromEntries(direct.headers), {
    'x-gw-request-id': 'my-id',
    'x-gw-record-id': direct.body['record_id'],
    'x-gw-decision': 'allow',
    'x-gw-record-hash': direct.body['record_hash'],
  });
  t.equal(direct.body['request_id'], 'my-id');
  const refused = await execute({ workload_id: 'nobody' });
  t.match(refused.body, {
    schema: 'gw.action_response.v1',
    decision: 'deny',
    reason: /nobody/,
    reason_codes: ['workload_not_registered'],
    record_hash: /^[0-9a-f]{64}$/,
    decision_trace: { schema: 'gw.decision_trace.v1', decision: 'deny' },
  });
  t.equal(refused.headers.get('x-gw-record-hash'), refused.body['record_hash']);
});

t.test('the envelope of an answer that is not JSON holds text, or base64', async (t) => {
  const bytes = Buffer.from([0xff, 0xd8, 0x00, 0x80]);
  const { execute } = await startGoverned(t, {
    handler: (request, response) => {
      if (request.url === '/v1/models/text') response.setHeader('content-type', 'text/plain').end('just text');
      else if (request.url === '/v1/models/json') response.setHeader('content-type', 'application/json').end('[1]');
      else if (request.url === '/v1/models/none') response.writeHead(204).end();
      else if (request.url === '/v1/models/broken') response.setHeader('content-type', 'application/json').end('{"half":');
      else response.setHeader('content-type', 'image/jpeg').end(bytes);
    },
  });
  const result = async (name: string) => {
    const { status, body } = await execute({}, { type: 'http.request', method: 'GET', target_path: `/v1/models/${name}`, params: {} });
    return status === 200 ? body['result'] : body;
  };
  t.same(await result('text'), { status_code: 200, body: 'just text' });
  t.same(await result('json'), { status_code: 200, body: [1] });
  t.same(await result('none'), { status_code: 204 });
  t.same(await result('broken'), { status_code: 200, body: '{"half":' });
  t.same(await result('image'), { status_code: 200, body: bytes.toString('base64'), body_encoding: 'base64' });
});

t.test('a streaming call that is answered without an event stream is an envelope', async (t) => {
  const { execute, gw } = await startGoverned(t, {
    handler: (_request, response, body) =>
      void body.then(() => response.writeHead(400, { 'content-type': 'application/json' }).end('{"error":{"message":"no"}}')),
  });
  const { status, body } = await execute({}, { params: { ...CHAT, stream: true } });
  t.match({ status, body }, { status: 200, body: { decision: 'allow', result: { status_code: 400, body: { error: { message: 'no' } } } } });
  t.match(await gw.record(String(body['record_id'])), { stream: true, upstream_status: 400 });
});

t.test('an upstream that fails: error on the structured API too', async (t) => {
  const { execute, gw } = await startGoverned(t, { handler: (request) => request.destroy() });
  const { status, body } = await execute();
  t.match(
    { status, body },
    {
      status: 502,
      body: {
        schema: 'gw.action_response.v1',
        decision: 'error',
        reason_codes: ['upstream_unreachable'],
        error: { code: 'upstream_unreachable' },
      },
    },
  );
  t.match(await gw.record(String(body['record_id'])), { decision: 'error', status_code: 502, error: { code: 'upstream_unreachable' } });
  const silent = await startGoverned(t, { handler: () => undefined, env: { GW_UPSTREAM_HEADERS_TIMEOUT: '100ms' } });
  t.match(await silent.execute(), { status: 504, body: { decision: 'error', reason_codes: ['upstream_timeout'] } });
});

t.test('a client that leaves while its upload streams through leaves a record', async (t) => {
  const { gw, upstream } = await startGoverned(t);
  const socket = await connectPlain(gw.port);
  socket.write('POST /proxy/openai/v1/files HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer k\r\nContent-Length: 1000000\r\n\r\nhalf');
  while (upstream.requests.length === 0) await turn();
  socket.destroy();
  await once(socket, 'close');
  const counted = async () => (await gw.admin('GET', '/metrics')).text;
  t.match(
    await eventually('the record to be counted', async () => /gw_requests_total\{.*/.exec(await counted())?.[0]),
    /gw_requests_total\{action_type="http\.request",decision="allow",org_id="default"\} 1/,
  );
});

t.test('a policy change that does not fit a call ends it with a record', async (t) => {
  const rules = `${'  targets:\n    - {id: all, effect: {decision: allow}}\n'}  transforms:\n    - {id: misfit, effect: {mutations: [{key: action.params.messages.deep, value: 1}]}}\n`;
  const { send, recordOf, upstream } = await startGoverned(t, { bundle: bundleOf(rules) });
  const answer = await send(chat());
  t.equal(answer.status, 500);
  t.match(await recordOf(answer), { decision: 'error', error: { code: 'internal' }, status_code: 500 });
  t.equal(upstream.requests.length, 0);
});

t.test('a bundle that was put survives a restart until the folder changes; an empty one denies all', async (t) => {
  const first = await startGoverned(t, { bundle: ALLOW_ALL });
  t.equal((await first.execute()).status, 200);
  t.match(await first.gw.admin('PUT', '/v1/admin/policies', { bundle_yaml: bundleOf('').replace('test', 'empty') }), {
    status: 200,
    body: { bundle_id: 'empty', version: '7', source: 'api', loaded_at: /Z$/ },
  });
  t.match(await first.execute(), { status: 403, body: { reason_codes: ['default_deny'] } });
  const env = { GW_DATA_DIR: first.gw.dataDir, GW_POLICIES_DIR: join(first.gw.dataDir, '..', 'policies') };
  await first.gw.gateway.stop();
  const second = await startGoverned(t, { env });
  t.match((await second.gw.admin('GET', '/v1/admin/policies')).body, { bundle_id: 'empty', source: 'api' });
  t.match(await second.execute(), { status: 403 });
  t.match(await second.gw.admin('POST', '/v1/admin/policies/reload'), { status: 200, body: { bundle_id: 'test', source: 'file' } });
  t.equal((await second.execute()).status, 200);
  mkdirSync(join(env.GW_POLICIES_DIR, 'addons'));
  writeFileSync(
    join(env.GW_POLICIES_DIR, 'bundle.yaml'),
    `${readFileSync(join(env.GW_POLICIES_DIR, 'bundle.yaml'), 'utf8')}`.replace('version: "7"', 'version: "8"'),
  );
  await second.gw.gateway.stop();
  const third = await startGoverned(t, { env });
  t.match((await third.gw.admin('GET', '/v1/admin/policies')).body, { version: '8', source: 'file' });
});

t.test('a bundle that does not load is refused with every mistake, and what runs stays', async (t) => {
  const { gw, execute } = await startGoverned(t, { bundle: ALLOW_ALL });
  const put = (bundle_yaml: unknown, extra = {}) => gw.admin('PUT', '/v1/admin/policies', { bundle_yaml, ...extra });
  t.match(await put(bundleOf('').replace('.v1', '.v9')), {
    status: 400,
    body: { error: { code: 'invalid_policy', details: [{ path: /./, message: /./, line: 1 }] } },
  });
  t.match(await put('{'), { status: 400, body: { error: { code: 'invalid_policy', details: [{ line: 1, column: /./ }] } } });
  t.match(await put('schema: gw.policy_bundle.v1\nbundle_id: b\nversion: "1"\nfiles: [a.yaml]\n'), {
    status: 400,
    body: { error: { code: 'invalid_policy' } },
  });
  t.match(await put(bundleOf('  targets:\n    - {id: s, effect: {select_connector: nowhere}}\n')), {
    status: 400,
    body: { error: { code: 'invalid_policy', details: [{ rule_id: 's', line: 6 }] } },
  });
  t.match(await put(bundleOf('  targets:\n    - {id: s, effect: {select_connector: "custom:none"}}\n')), {
    status: 200,
  });
  t.match(await put(7), { status: 400, body: { error: { code: 'invalid_request', details: [{ path: 'bundle_yaml' }] } } });
  const large = bundleOf(`  targets:\n${'    - {id: all, effect: {decision: allow}}\n'.repeat(20_000)}`);
  t.match(await put(large), { status: 413, body: { error: { code: 'body_too_large' } } }, 'reading it would hold up every other request');
  t.equal((await put(`${ALLOW_ALL}#`.padEnd(500_000, '#'))).status, 200, 'half a million characters are taken');
  t.equal((await gw.admin('POST', '/v1/admin/policies/reload')).status, 200);
  t.match(await put('x', { more: 1 }), { status: 400, body: { error: { details: [{ path: 'more' }] } } });
  t.match((await gw.admin('GET', '/v1/admin/policies')).body, { bundle_id: 'test', source: 'file' });
  t.equal((await execute()).status, 200);
});
