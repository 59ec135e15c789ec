import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { loadCatalogue } from '../../src/base/catalogue/catalogue.ts';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { ALLOW_ALL, bundleOf, CHAT, chat, startGoverned } from '../support/governed.ts';

const AZURE = 'res.openai.azure.com';

t.test('Azure: the deployment in the path is the model, whatever the body says', async (t) => {
  const { send, through, execute, recordOf, upstream } = await startGoverned(t);
  const path = '/openai/deployments/my-gpt/chat/completions?api-version=2024-10-21';
  const body = JSON.stringify({ ...CHAT, model: 'something-else' });
  for (const answer of [
    await send(chat(['X-GW-Target-Host', AZURE], path, body)),
    await send(chat(['X-GW-Target-Host', AZURE], `/proxy/azure_openai${path}`, body)),
    await through(`${AZURE}:443`, chat([], path, body)),
  ]) {
    t.equal(answer.status, 200);
    t.match(await recordOf(answer), {
      connector_id: 'azure_openai',
      provider: 'azure_openai',
      model: 'my-gpt',
      target_host: AZURE,
      target_path: '/openai/deployments/my-gpt/chat/completions?api-version',
    });
    t.match(upstream.requests.at(-1), { url: path });
    t.equal(upstream.requests.at(-1)?.body.toString(), body);
  }
  t.equal((await send(chat([], `/proxy/azure_openai${path}`))).status, 400, 'a host per customer must be named');
  await execute({}, { target_host: AZURE, params: { ...CHAT, model: 'my-gpt' } });
  t.match(upstream.requests.at(-1), { url: path, headers: { 'api-key': 'sk-caller' } });
});

t.test('Azure: a downgrade rewrites the deployment', async (t) => {
  const rules = `  targets:\n    - {id: all, effect: {decision: allow}}\n  transforms:\n    - {id: cheaper, when: {field: context.action.params.model, equals: big}, effect: {decision: downgrade, mutations: [{key: action.params.model, value: small}]}}\n`;
  const { send, recordOf, upstream } = await startGoverned(t, { bundle: bundleOf(rules) });
  const answer = await send(chat(['X-GW-Target-Host', AZURE], '/openai/deployments/big/chat/completions?api-version=1'));
  t.equal(upstream.requests.at(-1)?.url, '/openai/deployments/small/chat/completions?api-version=1');
  t.match(await recordOf(answer), { decision: 'downgrade', model: 'small' });
});

t.test('an upload to audio transcription has its model from the form, and its bytes stay', async (t) => {
  const { send, recordOf, upstream } = await startGoverned(t);
  const form = [
    '--b',
    'Content-Disposition: form-data; name="file"; filename="a.mp3"',
    'Content-Type: audio/mpeg',
    '',
    '\u0000\u0001binary\r\nlines',
    '--b',
    'Content-Disposition: form-data; name="model"',
    '',
    'whisper-1',
    '--b--',
    '',
  ].join('\r\n');
  const headers = ['Authorization', 'Bearer k', 'Content-Type', 'multipart/form-data; boundary=b'];
  const answer = await send({ method: 'POST', path: '/proxy/openai/v1/audio/transcriptions', headers, body: form });
  t.equal(answer.status, 200);
  t.match(await recordOf(answer), { action_type: 'ai.infer', model: 'whisper-1', metering: { tokens_in: 11, model: 'whisper-1' } });
  t.equal(upstream.requests.at(-1)?.body.toString(), form);
  t.equal(upstream.requests.at(-1)?.headers['content-type'], headers[3]);
});

t.test('what the paths of providers mean', async (t) => {
  const { send, recordOf } = await startGoverned(t);
  const cases = [
    ['/proxy/openai/v1/images/generations', { model: 'gpt-image-1', prompt: 'a cat' }, { action_type: 'ai.infer', model: 'gpt-image-1' }],
    ['/proxy/openai/v1/embeddings', { model: 'text-embedding-3-small', input: 'x' }, { action_type: 'ai.embed' }],
    ['/proxy/openai/v1/moderations', { model: 'omni-moderation-latest', input: 'x' }, { action_type: 'ai.moderate' }],
    [
      '/proxy/openai/v1/something/new',
      { model: 'm', prompt: 'x' },
      { action_type: 'ai.infer', metering: { tokens_in: 11, tokens_out: 7 } },
    ],
    [
      '/proxy/provider_b/v1/messages',
      { model: 'claude-3-5-haiku-20241022', max_tokens: 1, messages: [] },
      { provider: 'anthropic', action_type: 'ai.infer' },
    ],
    ['/proxy/gemini/v1beta/models/gemini-2.5-flash:embedContent', { content: {} }, { action_type: 'ai.embed', model: 'gemini-2.5-flash' }],
    ['/proxy/cohere/v2/embed', { model: 'embed-v4.0', texts: ['x'] }, { provider: 'cohere', action_type: 'ai.embed' }],
    [
      '/proxy/mistral/v1/chat/completions',
      { model: 'mistral-small-latest', messages: [] },
      { provider: 'mistral', action_type: 'ai.infer' },
    ],
  ] as const;
  for (const [path, body, expected] of cases) {
    const answer = await send(chat([], path, body));
    t.equal(answer.status, 200, path);
    t.match(await recordOf(answer), { decision: 'allow', ...expected }, path);
  }
  const unparsed = await send(chat([], '/proxy/openai/v1/something/new', 'not json'));
  t.equal(unparsed.status, 400, 'what cannot be parsed is never forwarded');
  t.match(await recordOf(unparsed), { reason_codes: ['ambiguous_body'] });
});

t.test('a key given as a hint stands in the place of every key that the call carries', async (t) => {
  const { execute, upstream } = await startGoverned(t);
  const gemini = (action: object) => execute({}, { target_host: 'generativelanguage.googleapis.com', params: { contents: [] }, ...action });
  await gemini({
    target_path: '/v1beta/models/gemini-2.5-flash:generateContent?key=old&alt=json',
    headers: { Authorization: 'Bearer old' },
  });
  t.match(upstream.requests.at(-1), {
    url: '/v1beta/models/gemini-2.5-flash:generateContent?alt=json',
    headers: { 'x-goog-api-key': 'sk-caller' },
  });
  t.equal(upstream.requests.at(-1)?.headers['authorization'], undefined);
  await gemini({ params: { model: 'models/gemini-2.5-flash', contents: [] } });
  t.equal(upstream.requests.at(-1)?.url, '/v1beta/models/gemini-2.5-flash:generateContent');
  t.same(JSON.parse(upstream.requests.at(-1)?.body.toString() ?? ''), { contents: [] });
});

t.test('generic HTTP: any host that policy allows, nothing added, streams only on the proxied doors', async (t) => {
  const { execute, send, recordOf, gw, upstream } = await startGoverned(t, { bundle: ALLOW_ALL });
  const web = {
    type: 'http.request',
    method: 'POST',
    target_host: 'www.example.com',
    target_path: '/hook?x=1',
    params: { a: 1 },
    headers: { Authorization: 'Bearer mine' },
  };
  const { status, body } = await execute({ credential_hint: undefined }, web);
  t.equal(status, 200);
  t.match(upstream.requests.at(-1), {
    method: 'POST',
    url: '/hook?x=1',
    headers: { authorization: 'Bearer mine', host: 'www.example.com' },
  });
  t.match(await gw.record(String(body['record_id'])), {
    connector_id: 'generic_http',
    connector_version: /./,
    action_type: 'http.request',
  });
  t.match(await execute({ credential_hint: undefined }, { ...web, params: { stream: true } }), {
    status: 400,
    body: { error: { code: 'streaming_not_supported' } },
  });
  t.match(await execute({}, web), { status: 400, body: { error: { code: 'invalid_request', details: [{ path: 'credential_hint' }] } } });
  t.equal(upstream.requests.length, 1);
  t.match(await recordOf(await send(chat(['X-GW-Target-Host', 'www.example.com'], '/any'))), {
    connector_id: 'generic_http',
    action_type: 'http.request',
  });
});

t.test('a mutated path is another operation, and policy is asked about that one', async (t) => {
  const rules = `  targets:
    - {id: all, effect: {decision: allow}}
    - {id: no.embed, when: {field: context.action.type, equals: ai.embed}, effect: {decision: deny, reason: no embeddings}}
  transforms:
    - {id: move, when: {field: context.action.params.model, equals: moved}, effect: {mutations: [{key: action.target_path, value: /v1/embeddings}]}}
`;
  const { send, recordOf, upstream } = await startGoverned(t, { bundle: bundleOf(rules) });
  const answer = await send(chat([], undefined, { model: 'moved', input: 'x' }));
  t.match(await recordOf(answer), { decision: 'deny', reason: 'no embeddings', action_type: 'ai.embed', target_path: '/v1/embeddings' });
  t.equal(upstream.requests.length, 0);
});

t.test('a call whose body was not parsed does not become an AI call', async (t) => {
  const rules = `  targets:
    - {id: all, effect: {decision: allow}}
  transforms:
    - {id: move, when: {field: action.target_path, equals: /v1/files}, effect: {mutations: [{key: action.target_path, value: /v1/chat/completions}]}}
`;
  const { send, recordOf, upstream } = await startGoverned(t, { bundle: bundleOf(rules) });
  const answer = await send(chat([], '/proxy/openai/v1/files'));
  t.match(await recordOf(answer), { decision: 'deny', reason_codes: ['mutation_not_applicable'] });
  t.equal(upstream.requests.length, 0);
});

/** A provider that is not shipped. */
const ACME = `
  - id: acme
    aliases: [acme-ai]
    kind: openai_compatible
    hosts: [www.example.com]
    bases: [/llm/v1]
    default_path: /llm/v1/chat/completions
    auth: [{ header: authorization, format: 'Bearer {key}' }]
    use: [compatible]
`;

function withAcme(): string {
  return readFileSync(join(packageRoot(), 'src/base/catalogue/data/providers.yaml'), 'utf8') + ACME;
}

t.test('a provider that speaks the OpenAI format is one row', async (t) => {
  const { through, execute, recordOf, gw, upstream } = await startGoverned(t, {
    bundle: ALLOW_ALL,
    catalogue: { sources: { providers: withAcme() } },
    env: { GW_METER_INJECT_USAGE: 'true' },
  });
  const want = { connector_id: 'acme', provider: 'acme', action_type: 'ai.infer', metering: { tokens_in: 11, tokens_out: 7 } };
  const intercepted = await through('www.example.com:443', chat([], '/llm/v1/chat/completions'));
  t.match(await recordOf(intercepted), want);
  const direct = await execute({ connector_hint: 'Acme-AI' }, { target_host: 'www.example.com' });
  t.equal(direct.status, 200);
  t.match(upstream.requests.at(-1), { url: '/llm/v1/chat/completions', headers: { authorization: 'Bearer sk-caller' } });
  t.match(await gw.record(String(direct.body['record_id'])), want);
});

t.test('a catalogue that is replaced counts from the next call on, on every door', async (t) => {
  const { send, through, recordOf, gw, upstream } = await startGoverned(t, { bundle: ALLOW_ALL });
  const path = '/proxy/acme/llm/v1/chat/completions';
  const connectors = async () => (await gw.admin('GET', '/v1/admin/connectors')).text;
  await send(chat([], path));
  t.equal(upstream.requests.length, 0, 'nobody knows it yet');
  t.notMatch(await connectors(), 'acme');
  t.notMatch((await gw.admin('GET', '/proxy.pac')).text, 'www.example.com');
  gw.gateway.catalogues.replace(loadCatalogue({ sources: { providers: withAcme() } }));
  const want = { connector_id: 'acme', action_type: 'ai.infer', metering: { tokens_in: 11, tokens_out: 7 } };
  t.match(await recordOf(await send(chat([], path))), want);
  t.match(await recordOf(await through('www.example.com:443', chat([], '/llm/v1/chat/completions'))), want, 'its CONNECT is intercepted');
  t.match(await connectors(), 'acme');
  t.match((await gw.admin('GET', '/proxy.pac')).text, 'www.example.com');
});
