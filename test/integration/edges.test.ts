import { once } from 'node:events';
import { setImmediate as turn } from 'node:timers/promises';
import t from 'tap';
import { exactly } from '../support/exactly.ts';
import { bundleOf, CHAT, chat, startGoverned } from '../support/governed.ts';
import { isVerified } from '../support/is-verified.ts';
import { connectThrough, h1Request } from '../support/raw-clients.ts';

t.test('the ambient port serves CONNECT, absolute-form and trust material, nothing else', async (t) => {
  const { gw, send, recordOf } = await startGoverned(t);
  const port = gw.ambientPort;
  for (const path of ['/v1/actions:execute', '/proxy/openai/v1/chat/completions', '/v1/chat/completions']) {
    const answer = await send({ ...chat(['X-GW-Org-ID', 'o'], path), port });
    t.equal(answer.status, 404, path);
    t.match(JSON.parse(answer.body.toString()), { error: { code: 'not_found' } });
  }
  const absolute = await send({ ...chat(['X-GW-Workload-ID', 'nobody'], 'http://api.openai.com/v1/chat/completions'), port });
  t.match(await recordOf(absolute), { connection_type: 'connect_proxy', traffic_class: 'ambient' });
});

t.test('a structured call that can be read in two ways is refused with a record', async (t) => {
  const { gw } = await startGoverned(t);
  const post = async (text: string) => {
    const response = await fetch(`${gw.url}/v1/actions:execute`, { method: 'POST', body: text });
    return {
      status: response.status,
      body: (await response.json()) as Record<string, unknown>,
      id: response.headers.get('x-gw-record-id'),
    };
  };
  const envelope = (params: string, before = '') =>
    `{${before}"schema":"gw.action_request.v2","org_id":"o","workload_id":"default","credential_hint":"k","action":{"type":"ai.infer","method":"POST","target_host":"api.openai.com","params":${params}}}`;
  for (const text of [
    envelope('{"model":"a","messages":[]}', '"org_id":"other",'),
    envelope('{"model":"a","model":"b","messages":[]}'),
    envelope('{"model":"a","Model":"b","messages":[]}'),
    envelope('{"model":"a","seed":9007199254740993,"messages":[]}'),
  ]) {
    const { status, body, id } = await post(text);
    t.match({ status, body }, { status: 400, body: { decision: 'deny', reason_codes: ['ambiguous_body'] } }, text);
    t.match(await gw.record(id ?? ''), {
      decision: 'deny',
      reason_codes: ['ambiguous_body'],
      workload_id: 'default',
      target_host: 'api.openai.com',
    });
  }
  t.match(await post('{"a":1} x'), { status: 400, body: { error: { code: 'invalid_request' } }, id: null });
});

t.test('an aborted stream costs what was seen of it', async (t) => {
  let cut: () => void = () => undefined;
  const { gw } = await startGoverned(t, {
    handler: (_request, response, body) =>
      void body.then(() => {
        response.setHeader('content-type', 'text/event-stream');
        response.write(
          'event: message_start\ndata: {"type":"message_start","message":{"model":"claude-3-5-haiku-20241022","usage":{"input_tokens":25,"output_tokens":1}}}\n\n',
        );
        cut = () => response.destroy();
      }),
  });
  const open = async () => {
    const socket = await connectThrough(gw.port, 'api.anthropic.com:443', gw.caPem);
    socket.on('error', () => undefined);
    let seen = '';
    socket.on('data', (chunk: Buffer) => {
      seen += chunk.toString();
    });
    const text = JSON.stringify({ model: 'claude-3-5-haiku-20241022', max_tokens: 9, stream: true, messages: [] });
    socket.write(`POST /v1/messages HTTP/1.1\r\nHost: api.anthropic.com\r\nx-api-key: k\r\nContent-Length: ${text.length}\r\n\r\n${text}`);
    while (!seen.includes('message_start')) await once(socket, 'data');
    return { socket, id: /x-gw-record-id: (\S+)/i.exec(seen)?.[1] ?? '' };
  };
  const stored = async (id: string) => {
    for (;;) {
      const answer = await gw.admin('GET', `/v1/records/${id}`);
      if (answer.status === 200) return answer.body as Record<string, unknown>;
      await turn();
    }
  };
  const left = await open();
  left.socket.destroy();
  t.match(await stored(left.id), {
    stream_outcome: 'aborted',
    metering: { tokens_in: 25, tokens_out: 1, usage_reported: true, cost_usd: exactly('0.000024') },
  });
  const broken = await open();
  cut();
  t.match(await stored(broken.id), { stream_outcome: 'error', metering: { tokens_in: 25, tokens_out: 1 } });
});

t.test('a host in GW_PROXY_BYPASS is tunnelled unopened', async (t) => {
  const { gw, upstream } = await startGoverned(t, { env: { GW_PROXY_BYPASS: '*.openai.com' } });
  const socket = await connectThrough(gw.port, 'api.openai.com:443', upstream.caPem);
  t.teardown(() => socket.destroy());
  const answer = await h1Request(socket, 'api.openai.com', chat([], '/v1/chat/completions'));
  t.equal(answer.status, 200);
  t.notOk(answer.headers['x-gw-record-id']);
  t.match((await gw.admin('GET', '/metrics')).text, /gw_tunnels_open 1/);
});

t.test('a selected connector is asked about once more, and one with a host per customer needs that host', async (t) => {
  const rules = `  connectors:
    - {id: all, effect: {decision: allow}}
    - {id: no.cohere, when: {field: context.connector.id, equals: provider_e}, effect: {decision: deny, reason: not cohere}}
  transforms:
    - {id: to.cohere, when: {field: context.action.params.model, equals: c}, effect: {select_connector: provider_e}}
    - {id: to.azure, when: {field: context.action.params.model, equals: a}, effect: {select_connector: azure_openai}}
`;
  const { send, recordOf, execute, upstream } = await startGoverned(t, { bundle: bundleOf(rules) });
  const model = (name: string) => chat([], undefined, { ...CHAT, model: name });
  t.match(await recordOf(await send(model('c'))), { decision: 'deny', reason: 'not cohere', connector_id: 'cohere' });
  t.match(await recordOf(await send(model('a'))), { decision: 'deny', reason_codes: ['connector_without_host'] });
  t.match(
    await execute({ connector_hint: 'openai' }, { params: { ...CHAT, model: 'c' } }),
    { status: 200 },
    'a hint wins over select_connector',
  );
  t.equal(upstream.requests.length, 1);
});

t.test('a call that policy moves to another host goes there over TLS, whatever it came by', async (t) => {
  const rules = `  targets:
    - {id: all, effect: {decision: allow}}
  transforms:
    - {id: move, when: {field: action.target_host, equals: api.mistral.ai}, effect: {mutations: [{key: action.target_host, value: www.example.com}]}}
`;
  const { send, recordOf, upstream } = await startGoverned(t, { bundle: bundleOf(rules) });
  const answer = await send({ path: 'http://api.mistral.ai:8080/page' });
  t.equal(answer.status, 200);
  t.match(upstream.requests.at(-1), { url: '/page', headers: { host: 'www.example.com' } });
  t.match(await recordOf(answer), { target: 'https://www.example.com/page', connection_type: 'connect_proxy' });
});

t.test('an answer too large for an envelope is an error there and passes on the proxied doors', async (t) => {
  let characters = 1_000_000;
  const { execute, send, gw } = await startGoverned(t, {
    env: { GW_MAX_BODY_BYTES: '900000', GW_MAX_BUFFERED_BYTES: '1000000' },
    handler: (_request, response, body) =>
      void body.then(() => response.setHeader('content-type', 'application/json').end(JSON.stringify({ text: 'x'.repeat(characters) }))),
  });
  const { status, body } = await execute();
  t.match({ status, body }, { status: 502, body: { decision: 'error', reason_codes: ['upstream_protocol'] } });
  t.match(await gw.record(String(body['record_id'])), { upstream_status: 200, error: { code: 'upstream_protocol' } });
  t.equal((await send(chat())).body.length, 1_000_011);
  characters = 800_000;
  t.equal((await execute()).status, 200, 'what was held of it was given back');
});

t.test('__proto__ is a name like any other', async (t) => {
  const { gw } = await startGoverned(t);
  const response = await fetch(`${gw.url}/v1/actions:execute`, {
    method: 'POST',
    body: '{"schema":"gw.action_request.v2","org_id":"o","workload_id":"default","credential_hint":"k","attribution":{"labels":{"__proto__":"a","constructor":"b"}},"context":{"labels":{"__proto__":"c"}},"action":{"type":"ai.infer","method":"POST","target_host":"api.openai.com","params":{"model":"m","messages":[],"__proto__":{"x":1}}}}',
  });
  t.equal(response.status, 200);
  const { text } = await gw.admin('GET', `/v1/records/${response.headers.get('x-gw-record-id') ?? ''}`);
  t.match(text, '"labels":{"__proto__":"a","constructor":"b"}');
  t.ok(isVerified(JSON.parse(text)));
  t.notOk('x' in {});
});

t.test('a download that broke off is resumed: ranges pass both ways', async (t) => {
  const file = Buffer.alloc(200_000, 'range ');
  const { send, recordOf, upstream } = await startGoverned(t, {
    handler: (request, response) => {
      const from = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1]);
      if (from >= file.length) return void response.writeHead(416, { 'content-range': `bytes */${file.length}` }).end();
      const head = { 'accept-ranges': 'bytes', etag: '"1"', 'content-range': `bytes ${from}-${file.length - 1}/${file.length}` };
      response.writeHead(206, { ...head, 'content-length': file.length - from }).end(file.subarray(from));
    },
  });
  const part = (range: string) =>
    send({ path: '/proxy/openai/v1/files/f/content', headers: ['Authorization', 'Bearer k', 'Range', range, 'If-Range', '"1"'] });
  for (const from of [100, 150_000]) {
    const rest = await part(`bytes=${from}-`);
    t.match(rest, { status: 206, headers: { 'content-range': `bytes ${from}-199999/200000`, 'accept-ranges': 'bytes', etag: '"1"' } });
    t.ok(rest.body.equals(file.subarray(from)));
    t.match(upstream.requests.at(-1)?.headers, { range: `bytes=${from}-`, 'if-range': '"1"' });
    t.match(await recordOf(rest), { status_code: 206, response_bytes: file.length - from });
  }
  t.match(await part('bytes=200000-'), { status: 416, headers: { 'content-range': 'bytes */200000' } });
});
