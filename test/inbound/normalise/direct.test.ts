import t from 'tap';
import { loadCatalogue } from '../../../src/base/catalogue/catalogue.ts';
import { GatewayError } from '../../../src/base/lib/gateway-error.ts';
import { AmbiguousActionRequest, type DirectRequest, parseActionRequest } from '../../../src/inbound/normalise/direct.ts';
import { directCall, directPath } from '../../../src/inbound/normalise/direct-call.ts';
import { fc } from '../../support/properties.ts';
import { codeOr } from './heads.ts';

const catalogue = loadCatalogue();
const options = { newRequestId: () => 'made-id', isAiHost: (host: string) => catalogue.providerForHost(host) !== undefined };

function parse(body: unknown): DirectRequest {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return parseActionRequest(new TextEncoder().encode(text), options);
}

const action = {
  type: 'ai.infer',
  method: 'post',
  target_host: 'api.openai.com',
  target_path: '/v1/chat/completions',
  params: { model: 'gpt-4o', messages: [] },
};
const minimal = { schema: 'gw.action_request.v2', org_id: 'acme', workload_id: 'ci', action };

/** Paths of the details of the refusal, or its code when it is no `invalid_request`. */
function badMembers(body: unknown): readonly string[] | string {
  try {
    parse(body);
    return [];
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    return error.code === 'invalid_request' ? (error.details ?? []).map((detail) => detail.path) : error.code;
  }
}

t.test('the smallest request is completed', async (t) => {
  const { request, port, tls } = parse(minimal);
  t.same(request, { ...minimal, request_id: 'made-id', attribution: {}, action: { ...action, method: 'POST' } });
  t.equal(port, 443);
  t.equal(tls, true);
});

t.test('every specified member is taken over', async (t) => {
  const full = {
    ...minimal,
    request_id: 'r-1',
    caller_id: 'Zoë',
    context: { purpose: 'test', labels: { team: 'x', __proto__x: 'y' }, estimates: { tokens_in: 0, tokens_out_max: 5 } },
    attribution: { customer_id: 'c', account_id: 'a', project_id: 'p', labels: { k: 'v' } },
    credential_hint: 'sk-abc',
    connector_hint: 'provider_a',
    idempotency_key: 'idem-1',
    delegation_id: 'd-1',
    delegation_token: 'e30=',
    action: { ...action, target: 'https://API.openai.com:8443/v1/chat/completions', headers: { 'X-Trace': '1' } },
  };
  const { request, port } = parse(full);
  // Each place of labels has those of the other, too.
  const [ofCall, charged] = [full.context.labels, full.attribution.labels];
  const context = { ...full.context, labels: { ...charged, ...ofCall } };
  const attribution = { ...full.attribution, labels: { ...ofCall, ...charged } };
  t.same(request, { ...full, context, attribution, action: { ...full.action, method: 'POST' } });
  t.equal(port, 8443);
});

t.test('__proto__ is a label like any other', async (t) => {
  const text = JSON.stringify({ ...minimal, context: { labels: {} } }).replace('"labels":{}', '"labels":{"__proto__":"x"}');
  const labels = parse(text).request.context?.labels ?? {};
  t.same(Object.entries(labels), [['__proto__', 'x']]);
  t.same(Object.entries(parse(text).request.attribution.labels ?? {}), [['__proto__', 'x']]);
  t.equal(JSON.stringify(labels), '{"__proto__":"x"}');
});

t.test('every bad member is named with its path, all at once', async (t) => {
  const table: readonly (readonly [readonly string[] | string, unknown])[] = [
    [['schema', 'org_id', 'workload_id', 'action'], {}],
    [['schema'], { ...minimal, schema: 'gw.action_request.v1' }],
    [['extra', 'org_id', 'caller_id'], { ...minimal, extra: 1, org_id: 'a b', caller_id: 5 }],
    [['request_id', 'workload_id', 'idempotency_key'], { ...minimal, request_id: '', workload_id: 'x'.repeat(129), idempotency_key: 'é' }],
    [['caller_id', 'credential_hint'], { ...minimal, caller_id: 'x'.repeat(257), credential_hint: 'a\nb' }],
    [['connection_type'], { ...minimal, connection_type: 'direct_api' }],
    [['context'], { ...minimal, context: [] }],
    [['context.x', 'context.purpose'], { ...minimal, context: { x: 1, purpose: {} } }],
    [['context.labels.a'], { ...minimal, context: { labels: { a: 1 } } }],
    [['context.labels'], { ...minimal, context: { labels: Object.fromEntries(Array.from({ length: 33 }, (_, i) => [`l${i}`, ''])) } }],
    [
      ['context.estimates.tokens_in', 'context.estimates.tokens_out_max'],
      { ...minimal, context: { estimates: { tokens_in: -1, tokens_out_max: 1.5 } } },
    ],
    [['context.estimates.cost', 'context.estimates.tokens_in'], { ...minimal, context: { estimates: { cost: 1, tokens_in: '5' } } }],
    [['attribution.team', 'attribution.labels.x'], { ...minimal, attribution: { team: 1, labels: { x: 'y'.repeat(257) } } }],
    [['action.type', 'action.method', 'action.params', 'action.target_host'], { ...minimal, action: {} }],
    [['action.body'], { ...minimal, action: { ...action, body: 1 } }],
    [['action.type'], { ...minimal, action: { ...action, type: 'infer' } }],
    [['action.type'], { ...minimal, action: { ...action, type: 'AI.Infer' } }],
    [['action.method'], { ...minimal, action: { ...action, method: 'TRACE' } }],
    [['action.method'], { ...minimal, action: { ...action, method: 'connect' } }],
    [['action.method'], { ...minimal, action: { ...action, method: 'GET /x' } }],
    [['action.params'], { ...minimal, action: { ...action, params: [] } }],
    [['action.target_host'], { ...minimal, action: { ...action, target_host: 'https://api.openai.com' } }],
    [['action.target_host'], { ...minimal, action: { ...action, target_host: 'api.openai.com:443' } }],
    [['action.target_path'], { ...minimal, action: { ...action, target_path: '/v1/%2e%2e/x' } }],
    [['action.target_path'], { ...minimal, action: { ...action, target_path: 'v1/x' } }],
    [['action.target'], { ...minimal, action: { ...action, target: 'https://api.anthropic.com/v1/chat/completions' } }],
    [['action.target'], { ...minimal, action: { ...action, target: 'https://api.openai.com/v1/embeddings' } }],
    [['action.target'], { ...minimal, action: { ...action, target: 'https://u:p@api.openai.com/v1/chat/completions' } }],
    [['action.target'], { ...minimal, action: { ...action, target: 'ftp://api.openai.com/' } }],
    [['action.headers'], { ...minimal, action: { ...action, headers: [] } }],
    [['action.headers.X', 'action.headers.b d'], { ...minimal, action: { ...action, headers: { X: 1, 'b d': 'x' } } }],
    [['action.headers.a'], { ...minimal, action: { ...action, headers: { A: 'x', a: 'y' } } }],
    [['action.headers.a'], { ...minimal, action: { ...action, headers: { a: 'x\r\nHost: y' } } }],
    ['body_too_deep', `{"a":${'['.repeat(70)}`],
    [
      ['action.params.messages'],
      JSON.stringify({ ...minimal, action: { ...action, params: { messages: 'x' } } }).replace('"x"', '"\\ud800"'),
    ],
    [['caller_id'], JSON.stringify({ ...minimal, caller_id: 'x' }).replace('"x"', '"\\uDFFF"')],
    [[''], '[]'],
    [[''], 'null'],
    [[], { ...minimal, caller_id: '😀' }],
    [[], JSON.stringify({ ...minimal, caller_id: 'x' }).replace('"x"', '"\\ud83d\\ude00"')],
  ];
  for (const [expected, body] of table)
    t.same(badMembers(body), expected, typeof body === 'string' ? body.slice(0, 80) : JSON.stringify(body).slice(0, 300));
  t.equal(
    codeOr(() => parse('{')),
    'invalid_request',
  );
});

t.test('a caller cannot set framing, hop-by-hop, proxy and gateway headers', async (t) => {
  for (const name of [
    'Host',
    'content-length',
    'Transfer-Encoding',
    'Connection',
    'TE',
    'Upgrade',
    'Proxy-Authorization',
    'X-GW-Org-ID',
    'GW-Admin-Token',
    'X-HTTP-Method-Override',
    'Content-Encoding',
    'Expect',
  ]) {
    t.same(badMembers({ ...minimal, action: { ...action, headers: { [name]: 'x' } } }), [`action.headers.${name}`]);
  }
});

t.test('the target fills in what the path leaves out', async (t) => {
  const { target_path: _, ...without } = action;
  t.equal(parse({ ...minimal, action: { ...without, target: 'https://api.openai.com/v1/x?a=b' } }).request.action.target_path, '/v1/x?a=b');
  t.equal(parse({ ...minimal, action: without }).request.action.target_path, undefined);
  const plain = parse({ ...minimal, action: { ...action, target: 'http://api.openai.com' } });
  t.same([plain.port, plain.tls, plain.request.action.target_path], [80, false, '/v1/chat/completions']);
  t.equal(parse({ ...minimal, action: { ...action, target_host: 'API.OpenAI.com.' } }).request.action.target_host, 'api.openai.com');
  t.equal(parse({ ...minimal, action: { ...action, target_path: '/v1/%63hat' } }).request.action.target_path, '/v1/chat');
});

t.test('a valid call that can be read in two ways is ambiguous and says what it asked for', async (t) => {
  const base = JSON.stringify(minimal);
  const doubtful = [
    base.replace('"org_id":"acme"', '"org_id":"evil","org_id":"acme"'),
    base.replace('"type":"ai.infer"', '"type":"ai.embed","t\\u0079pe":"ai.infer"'),
    base.replace('"model":"gpt-4o"', '"model":"x","model":"gpt-4o"'),
    base.replace('"messages":[]', '"seed":9007199254740993'),
    base.replace('"messages":[]', '"temperature":1e999'),
  ];
  for (const text of doubtful) {
    try {
      parse(text);
      t.fail(text);
    } catch (error) {
      if (!(error instanceof AmbiguousActionRequest)) throw error;
      t.equal(error.code, 'ambiguous_body');
      t.match(error.reading.request, { org_id: 'acme', workload_id: 'ci', action: { type: 'ai.infer' } });
    }
  }
  t.same(badMembers(base.replace('"org_id":"acme"', '"org_id":"acme","org_id":5')), ['org_id'], 'what is not valid is invalid first');
});

t.test('no bytes do anything but parse or end in a GatewayError', async (t) => {
  const keys = fc.constantFrom(
    'schema',
    'org_id',
    'workload_id',
    'action',
    'context',
    'labels',
    'attribution',
    'type',
    'method',
    'params',
    'headers',
    'target',
    'target_host',
    'target_path',
    '__proto__',
    'constructor',
  );
  const value = fc.letrec((tie) => ({
    node: fc.oneof(
      { maxDepth: 4 },
      fc.string(),
      fc.constantFrom('gw.action_request.v2', 'ai.infer', 'POST', 'api.openai.com', '/x'),
      fc.double(),
      fc.constant(null),
      fc.dictionary(keys, tie('node')),
      fc.array(tie('node')),
    ),
  })).node;
  const property = fc.property(value, (body) => typeof codeOr(() => parse(JSON.stringify(body) ?? '')) !== 'undefined');
  t.doesNotThrow(() => fc.assert(property, { numRuns: 500 }));
});

function call(provider: string, params: Record<string, unknown>, path?: string, method = 'POST'): unknown {
  return codeOr(() => {
    const row = catalogue.provider(provider);
    if (row === undefined) throw new Error('no such provider');
    const full = { type: 'ai.infer', method, target_host: 'h', params, ...(path === undefined ? {} : { target_path: path }) };
    const at = directPath(full, row);
    const sent = directCall(full, at, catalogue.operation(row, method, at));
    return {
      path: sent.path,
      text: new TextDecoder().decode(sent.body.bytes),
      model: sent.body.model,
      stream: sent.body.stream,
      params: sent.body.params,
    };
  });
}

t.test('a structured call takes the form of its dialect', async (t) => {
  const contents: unknown[] = [];
  t.match(call('openai', { model: 'm', stream: true, messages: [] }), {
    path: '/v1/chat/completions',
    text: '{"model":"m","stream":true,"messages":[]}',
    model: 'm',
    stream: true,
  });
  t.match(call('gemini', { model: 'gemini-2.0-flash', stream: true, contents }), {
    path: '/v1beta/models/gemini-2.0-flash:streamGenerateContent?alt=sse',
    text: '{"contents":[]}',
    model: 'gemini-2.0-flash',
    stream: true,
    params: { model: 'gemini-2.0-flash', stream: true, contents },
  });
  t.match(call('gemini', { model: 'g', stream: false, contents }), {
    path: '/v1beta/models/g:generateContent',
    text: '{"contents":[]}',
    stream: false,
  });
  t.match(call('gemini', { contents, stream: true }, '/v1beta/models/g:generateContent?x=1&alt=json'), {
    path: '/v1beta/models/g:streamGenerateContent?x=1&alt=sse',
    model: 'g',
  });
  t.match(call('gemini', { contents }, '/v1beta/models/g:streamGenerateContent?alt=sse'), { stream: true, text: '{"contents":[]}' });
  t.match(call('azure_openai', { model: 'dep 1', messages: [] }), {
    path: '/openai/deployments/dep%201/chat/completions?api-version=2024-10-21',
    model: 'dep 1',
  });
  t.match(call('bedrock', { model: 'amazon.nova-lite-v1:0', stream: true, messages: [] }), {
    path: '/model/amazon.nova-lite-v1%3A0/converse-stream',
    text: '{"messages":[]}',
    model: 'amazon.nova-lite-v1:0',
    stream: true,
  });
  t.match(call('vertex', { model: 'gemini-2.5-pro', contents }), {
    path: '/v1/publishers/google/models/gemini-2.5-pro:generateContent',
    text: '{"contents":[]}',
  });
  const claude = '/v1/projects/p/locations/l/publishers/anthropic/models/claude-x@1:rawPredict';
  t.match(call('vertex', { stream: true, max_tokens: 1 }, claude), {
    path: claude.replace('rawPredict', 'streamRawPredict'),
    text: '{"stream":true,"max_tokens":1}',
    model: 'claude-x@1',
  });
  t.match(call('ollama', { model: 'm', messages: [] }), { path: '/api/chat', text: /"stream":false/, stream: false });
  t.match(call('ollama', { model: 'm', stream: true }), { text: '{"model":"m","stream":true}', stream: true });
  t.equal(call('elevenlabs', { text: 'x' }), 'invalid_request', 'there is no usual path');
  t.match(call('elevenlabs', { text: 'x' }, '/v1/text-to-speech/v'), { text: '{"text":"x"}' });
  t.match(call('openai', {}, '/v1/models', 'GET'), { path: '/v1/models', text: '' });
  t.match(call('openai', {}, '/v1/chat/completions'), { text: '{}' });
});

t.test('a structured call that contradicts itself or misses its model is refused', async (t) => {
  t.equal(call('gemini', { model: 'other', contents: [] }, '/v1beta/models/g:generateContent'), 'ambiguous_body');
  t.equal(call('gemini', { contents: [] }), 'invalid_request');
  t.equal(call('openai', { Model: 'x' }), 'ambiguous_body');
  t.equal(call('openai', { model: 'm', stream: 'yes' }), 'ambiguous_body');
});
