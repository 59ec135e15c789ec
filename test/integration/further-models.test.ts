// A call may name models beside its own: ones that may answer in its place, ones that run inside of it. Policy, caps and delegations hold for each of them, by every door.
import { readFileSync } from 'node:fs';
import t from 'tap';
import { loadCatalogue } from '../../src/base/catalogue/catalogue.ts';
import { PolicyComparison } from '../../src/policy-tools/diff.ts';
import { explain, explainRecorded } from '../../src/policy-tools/explain.ts';
import { factsOfRequest, readCall } from '../../src/policy-tools/given-request.ts';
import { paintFor } from '../../src/policy-tools/paint.ts';
import { recordedRequest } from '../../src/policy-tools/recorded-request.ts';
import { renderExplanation } from '../../src/policy-tools/render-explanation.ts';
import { fields, Issuer } from '../decide/delegation/delegation-tokens.ts';
import { policyOf } from '../decide/policy/policy-facts.ts';
import { exactly } from '../support/exactly.ts';
import { bundleOf, chat, type Governed, startGoverned } from '../support/governed.ts';
import { RESPONSES, scene } from '../support/metered-sockets.ts';

const HOSTS = ['openrouter.ai', 'api.groq.com', 'bedrock-runtime.us-east-1.amazonaws.com', 'us-central1-aiplatform.googleapis.com'];
const ALLOW = '  connectors:\n    - {id: all, effect: {decision: allow}}\n';
const NO_EVIL = `${ALLOW}  targets:\n    - {id: evil, when: {field: context.action.params.model, equals: evil}, effect: {decision: deny, reason: no evil, reason_codes: [evil]}}\n`;
/** An allow-list in a layer that then admits nothing else. */
const LISTED = `  targets:\n    - {id: listed, when: {field: context.action.params.model, in: [good, fine]}, effect: {decision: allow}}\n`;
const NOT_UNDERSTOOD = ['operation_not_understood'];

const OPENAI = 'api.openai.com';
const ANTHROPIC = 'api.anthropic.com';
const OPENROUTER = 'openrouter.ai';
const AZURE = 'res.openai.azure.com';
const GEMINI = 'generativelanguage.googleapis.com';
const RANKER = { retrieval: { vertex_rag_store: { rag_retrieval_config: { ranking: { llm_ranker: { model_name: 'evil' } } } } } };

interface Named {
  readonly host: string;
  readonly path: string;
  /** With the model `good`, and `evil` where it is named beside that. */
  readonly body: Readonly<Record<string, unknown>>;
  readonly headers?: readonly string[];
}

const input = { model: 'good', input: 'hello' };
const chatBody = { model: 'good', messages: [] };
const claude = { model: 'good', max_tokens: 5, messages: [] };
const named = (host: string, path: string, body: object, ...headers: readonly string[]): Named => ({
  host,
  path,
  body: { ...body },
  headers,
});

/** Where models stand, of each wire format that has such a place. */
const NAMED: readonly Named[] = [
  named(OPENAI, '/v1/responses', { ...input, tools: [{ type: 'image_generation', model: 'evil' }] }),
  named(OPENAI, '/v1/responses', {
    ...input,
    tools: [
      { type: 'function', name: 'f' },
      { type: 'image_generation', model: 'evil' },
    ],
  }),
  named(OPENAI, '/v1/responses', { ...input, tools: [{ type: 'image_generation', model: 'good', svg: { model: 'evil' } }] }),
  named(OPENAI, '/v1/responses', { ...input, input: [{ type: 'additional_tools', tools: [{ type: 'image_generation', model: 'evil' }] }] }),
  named(OPENAI, '/v1/responses', { ...input, moderation: { model: 'evil' } }),
  named(OPENAI, '/v1/chat/completions', { ...chatBody, moderation: { model: 'evil' } }),
  named(OPENAI, '/v1/images/generations', { model: 'good', prompt: 'a cat', svg: { model: 'evil' } }),
  named(OPENAI, '/v1/threads/runs', { model: 'good', tools: [{ type: 'image_generation', model: 'evil' }] }),
  named(ANTHROPIC, '/v1/messages', { ...claude, tools: [{ type: 'advisor_20260301', name: 'advisor', model: 'evil' }] }),
  named(ANTHROPIC, '/v1/messages', { ...claude, fallbacks: [{ model: 'fine' }, { model: 'evil', max_tokens: 9 }] }),
  named(OPENROUTER, '/api/v1/chat/completions', { ...chatBody, models: ['good', 'evil'] }),
  named(OPENROUTER, '/api/v1/chat/completions', { ...chatBody, models: ['evil'], route: 'fallback' }),
  named(OPENROUTER, '/api/v1/chat/completions', { ...chatBody, fallbacks: ['evil'] }),
  named(OPENROUTER, '/api/v1/chat/completions', { ...chatBody, fallbacks: [{ model: 'evil', messages: [] }] }),
  named(OPENROUTER, '/api/v1/chat/completions', { ...chatBody, plugins: [{ id: 'auto-router', allowed_models: ['good', 'evil'] }] }),
  named(OPENROUTER, '/api/v1/chat/completions', { ...chatBody, plugins: [{ id: 'fusion', model: 'good', analysis_models: ['evil'] }] }),
  named(OPENROUTER, '/api/v1/chat/completions', { ...chatBody, plugins: [{ id: 'fusion', model: 'evil', analysis_models: ['good'] }] }),
  named(OPENROUTER, '/api/v1/chat/completions', { ...chatBody, plugins: [{ id: 'brand-new', model: 'evil' }] }),
  named(OPENROUTER, '/api/v1/chat/completions', { ...chatBody, tools: [{ type: 'openrouter:advisor', parameters: { model: 'evil' } }] }),
  named(OPENROUTER, '/api/v1/chat/completions', {
    ...chatBody,
    tools: [{ type: 'openrouter:image_generation', parameters: { model: 'evil' } }],
  }),
  named(OPENROUTER, '/api/v1/responses', { ...input, models: ['evil'] }),
  named(OPENROUTER, '/api/v1/messages', { ...claude, models: ['evil'] }),
  named(OPENROUTER, '/api/v1/messages', { ...claude, tools: [{ type: 'openrouter:subagent', parameters: { model: 'evil' } }] }),
  named(OPENROUTER, '/api/v1/embeddings', { model: 'good', input: 'x', models: ['evil'] }),
  named(OPENROUTER, '/api/v1/chat/completions', { ...chatBody, providerOptions: { gateway: { models: ['evil'] } } }),
  named('api.groq.com', '/openai/v1/chat/completions', {
    ...chatBody,
    compound_custom: { models: { answering_model: 'good', reasoning_model: 'evil' } },
  }),
  named(AZURE, '/openai/deployments/good/chat/completions', {
    messages: [],
    data_sources: [{ type: 'azure_search', parameters: { embedding_dependency: { type: 'deployment_name', deployment_name: 'Evil' } } }],
  }),
  named(AZURE, '/openai/v1/responses', { ...input, tools: [{ type: 'image_generation' }] }, 'X-MS-OAI-Image-Generation-Deployment', 'evil'),
  named('api.mistral.ai', '/v1/chat/completions', { ...chatBody, guardrails: [{ moderation_llm_v2: { model_name: 'evil' } }] }),
  named('api.mistral.ai', '/v1/conversations', { model: 'good', inputs: 'x', tools: [{ type: 'connector', model: 'evil' }] }),
  named(GEMINI, '/v1beta/models/good:generateContent', { contents: [], tools: [RANKER] }),
  named(GEMINI, '/v1beta/models/good:generateContent', {
    contents: [],
    generationConfig: { routingConfig: { manualMode: { modelName: 'models/evil' } } },
  }),
  named(GEMINI, '/v1beta/models/good:batchEmbedContents', { requests: [{ model: 'models/good' }, { model: 'models/evil' }] }),
  named('bedrock-runtime.us-east-1.amazonaws.com', '/model/good/converse', {
    messages: [],
    additionalModelRequestFields: { tools: [{ type: 'advisor_20260301', model: 'evil' }] },
  }),
  named('us-central1-aiplatform.googleapis.com', '/v1/projects/p/locations/l/publishers/anthropic/models/good:streamRawPredict', {
    messages: [],
    max_tokens: 5,
    tools: [{ type: 'advisor_20260301', model: 'evil' }],
  }),
];

/** What leads to models that nobody outside of the provider knows, or cannot be read. */
const HIDDEN: readonly Named[] = [
  named(OPENROUTER, '/api/v1/chat/completions', { ...chatBody, preset: 'mine' }),
  named(OPENROUTER, '/api/v1/chat/completions', { ...chatBody, route: 'fallback' }),
  named(OPENROUTER, '/api/v1/chat/completions', { ...chatBody, models: 'good' }),
  named(OPENROUTER, '/api/v1/chat/completions', { ...chatBody, models: { first: 'good' } }),
  named(OPENROUTER, '/api/v1/chat/completions', { ...chatBody, models: [['good']] }),
  named(OPENROUTER, '/api/v1/chat/completions', { ...chatBody, models: Array.from({ length: 17 }, (_, at) => `good-${at}`) }),
  named(OPENROUTER, '/api/v1/chat/completions', { ...chatBody, models: ['x'.repeat(257)] }),
  named(OPENROUTER, '/api/v1/chat/completions', { ...chatBody, models: [' good'] }),
  named(OPENROUTER, '/api/v1/chat/completions', { ...chatBody, fallbacks: [{ good: ['fine'] }] }),
  named(OPENROUTER, '/api/v1/chat/completions', { ...chatBody, plugins: [{ id: 'auto-router', allowed_models: ['openai/*'] }] }),
  named(OPENROUTER, '/api/v1/chat/completions', { ...chatBody, plugins: [{ id: 'fusion', model: 'good' }] }),
  named(OPENROUTER, '/api/v1/chat/completions', { ...chatBody, tools: [{ type: 'openrouter:advisor' }] }),
  named(OPENROUTER, '/api/v1/chat/completions', {
    ...chatBody,
    tools: [{ type: 'openrouter:advisor', parameters: { model: { id: 'good' } } }],
  }),
  named(ANTHROPIC, '/v1/messages', { ...claude, fallbacks: 'default' }),
  named(ANTHROPIC, '/v1/messages', { ...claude, tools: [{ type: 'advisor_20260301', name: 'advisor' }] }),
  named(GEMINI, '/v1beta/models/good:generateContent', { contents: [], generationConfig: { routingConfig: { autoMode: {} } } }),
];

/** What names no further model, though it looks a little like it. */
const PLAIN: readonly Named[] = [
  named(OPENROUTER, '/api/v1/chat/completions', {
    ...chatBody,
    models: null,
    fallbacks: [],
    preset: null,
    plugins: [{ id: 'web', max_results: 3 }],
  }),
  named(OPENROUTER, '/api/v1/chat/completions', { ...chatBody, models: ['good', 'fine'] }),
  named(OPENAI, '/v1/chat/completions', {
    ...chatBody,
    tools: [
      {
        type: 'function',
        function: { name: 'f', parameters: { type: 'object', properties: { model: { type: 'string', enum: ['evil'] } } } },
      },
    ],
  }),
  named(OPENAI, '/v1/responses', {
    ...input,
    tools: [{ type: 'web_search' }, { type: 'function', name: 'f', parameters: { properties: { model: {} } } }],
  }),
  named(OPENAI, '/v1/responses', { ...input, input: [{ role: 'user', content: 'a "model": "evil" in a text' }] }),
  named(ANTHROPIC, '/v1/messages', {
    ...claude,
    tools: [{ name: 'f', input_schema: { type: 'object', properties: { model: {}, Model: {} } } }],
  }),
  named(GEMINI, '/v1beta/models/good:generateContent', {
    contents: [],
    tools: [{ functionDeclarations: [{ name: 'f', parameters: { properties: { model: { type: 'STRING' } } } }] }],
  }),
  named(GEMINI, '/v1beta/models/good:batchEmbedContents', { requests: Array.from({ length: 40 }, () => ({ model: 'models/good' })) }),
];

function titleOf({ host, path, body }: Named): string {
  return `${host}${path} ${JSON.stringify(body).slice(0, 160)}`;
}

/** Reason codes of the record behind an answer of the proxied door, or `sent`. */
async function proxied({ through, recordOf, upstream }: Governed, { host, path, body, headers = [] }: Named): Promise<unknown> {
  const before = upstream.requests.length;
  const answer = await through(`${host}:443`, chat(headers, path, body));
  if (answer.status === 200) return upstream.requests.length === before + 1 ? 'sent' : 'not sent';
  return upstream.requests.length === before ? ((await recordOf(answer))['reason_codes'] ?? answer.body.toString()) : 'sent';
}

/** The same of the structured API. */
async function direct({ execute, upstream }: Governed, { host, path, body, headers = [] }: Named, extra: object = {}): Promise<unknown> {
  const before = upstream.requests.length;
  const type = /embed/i.test(path) ? 'ai.embed' : 'ai.infer';
  const given = headers.length === 0 ? {} : { headers: { [headers[0] ?? '']: headers[1] } };
  const answer = await execute(extra, { type, target_host: host, target_path: path, params: body, ...given });
  const sent = upstream.requests.length > before;
  if (answer.status === 200 && answer.body['decision'] !== 'deny') return sent ? 'sent' : 'not sent';
  return sent ? 'sent' : (answer.body['reason_codes'] ?? answer.text);
}

t.test('a rule holds for each model that a call names, wherever it stands', async (t) => {
  const denies = await startGoverned(t, { hosts: HOSTS, bundle: bundleOf(NO_EVIL) });
  const lists = await startGoverned(t, { hosts: HOSTS, bundle: bundleOf(LISTED) });
  for (const one of NAMED) {
    const title = titleOf(one);
    const streamed = { ...one, body: { ...one.body, stream: true } };
    const takesStream = !/:|converse|embed|images|deployments/i.test(one.path);
    t.same(await proxied(denies, one), ['evil'], `denied: ${title}`);
    t.same(await direct(denies, one), ['evil'], `denied, structured: ${title}`);
    if (takesStream) t.same(await proxied(denies, streamed), ['evil'], `denied, streamed: ${title}`);
    t.same(await proxied(lists, one), ['target_not_allowed'], `not listed: ${title}`);
    t.same(await direct(lists, one), ['target_not_allowed'], `not listed, structured: ${title}`);
    const text = JSON.stringify([one.body, one.headers ?? []]).replaceAll(/evil/gi, 'fine');
    const [body, headers] = JSON.parse(text) as [Named['body'], readonly string[]];
    t.equal(await proxied(lists, { ...one, body, headers }), 'sent', `all of them listed: ${title}`);
  }
  for (const one of PLAIN) {
    t.equal(await proxied(denies, one), 'sent', `denied for nothing: ${titleOf(one)}`);
    t.equal(await proxied(lists, one), 'sent', `listed: ${titleOf(one)}`);
  }
});

t.test('what leads to models that nobody knows hides them, and what the call may cost', async (t) => {
  const denies = await startGoverned(t, { hosts: HOSTS, bundle: bundleOf(NO_EVIL) });
  const capped = await startGoverned(t, {
    hosts: HOSTS,
    bundle: bundleOf(`${ALLOW}  budgets:\n    - {id: cap, effect: {budget: {usd_max: "50"}}}\n`),
  });
  const free = await startGoverned(t, { hosts: HOSTS });
  for (const one of HIDDEN) {
    t.same(await proxied(denies, one), NOT_UNDERSTOOD, titleOf(one));
    t.same(await direct(denies, one), NOT_UNDERSTOOD, `structured: ${titleOf(one)}`);
    t.same(await proxied(capped, one), NOT_UNDERSTOOD, `under a cap: ${titleOf(one)}`);
    t.equal(await proxied(free, one), 'sent', `where nothing needs to know: ${titleOf(one)}`);
  }
});

t.test('a form says nothing of further models that could be read in one way', async (t) => {
  const denies = await startGoverned(t, { bundle: bundleOf(NO_EVIL) });
  const field = (name: string, value: string) => `--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`;
  const form = (fields: readonly (readonly [string, string])[]) => `${fields.map(([name, value]) => field(name, value)).join('')}--b--\r\n`;
  const headers = ['Authorization', 'Bearer sk', 'Content-Type', 'multipart/form-data; boundary=b'];
  const send = async (path: string, more: readonly (readonly [string, string])[]) => {
    const answer = await denies.through(`${OPENAI}:443`, { method: 'POST', path, headers, body: form([['model', 'good'], ...more]) });
    return answer.status === 200 ? 'sent' : (await denies.recordOf(answer))['reason_codes'];
  };
  for (const path of ['/v1/audio/transcriptions', '/v1/images/edits']) {
    t.same(await send(path, [['fallbacks', '["evil"]']]), NOT_UNDERSTOOD, path);
    t.same(await send(path, [['models', 'evil']]), NOT_UNDERSTOOD, path);
    t.same(await send(path, [['models[]', 'evil']]), ['ambiguous_body'], path);
    t.equal(await send(path, [['n', '2']]), 'sent', `${path}, with a number as forms write it`);
  }
});

t.test('a model that is run where none is named is the one that the provider takes', async (t) => {
  const rule = (model: string) =>
    bundleOf(
      `${ALLOW}  targets:\n    - {id: a, when: {field: action.params.model, equals: ${model}}, effect: {decision: deny, reason_codes: [evil]}}\n`,
    );
  for (const [model, one] of [
    ['gpt-image-2', named(OPENAI, '/v1/responses', { ...input, tools: [{ type: 'image_generation' }] })],
    [
      'openai/gpt-5-image',
      named(OPENROUTER, '/api/v1/chat/completions', { ...chatBody, tools: [{ type: 'openrouter:image_generation' }] }),
    ],
    [
      'flux-1.1-pro-ultra',
      named('api.mistral.ai', '/v1/conversations', { model: 'good', inputs: 'x', tools: [{ type: 'image_generation' }] }),
    ],
  ] as const) {
    t.same(await proxied(await startGoverned(t, { hosts: HOSTS, bundle: rule(model) }), one), ['evil'], model);
  }
});

t.test('names that some reader takes for those of a place are refused', async (t) => {
  const governed = await startGoverned(t, { hosts: HOSTS, bundle: bundleOf(NO_EVIL) });
  const raw = (host: string, path: string, body: string) => ({ host, path, body: body as unknown as Named['body'] });
  for (const one of [
    raw(OPENROUTER, '/api/v1/chat/completions', '{"model":"good","messages":[],"models":["good"],"Models":["evil"]}'),
    raw(OPENROUTER, '/api/v1/chat/completions', '{"model":"good","messages":[],"MODELS":["evil"]}'),
    raw(OPENROUTER, '/api/v1/chat/completions', '{"model":"good","messages":[],"models":["evil"],"models":["good"]}'),
    raw(OPENROUTER, '/api/v1/chat/completions', '{"model":"good","messages":[],"fallbacks":[{"model":"good","Model":"evil"}]}'),
    raw(OPENROUTER, '/api/v1/chat/completions', '{"model":"good","messages":[],"fallbacks":[{"model":"evil","model":"good"}]}'),
    raw(
      OPENROUTER,
      '/api/v1/chat/completions',
      '{"model":"good","messages":[],"fallbacks":[{"model":"good","max_tokens":1,"Max_Tokens":9}]}',
    ),
    raw(
      OPENROUTER,
      '/api/v1/chat/completions',
      '{"model":"good","messages":[],"tools":[{"type":"openrouter:advisor","parameters":{"model":"evil","model":"good"}}]}',
    ),
    raw(
      OPENROUTER,
      '/api/v1/chat/completions',
      '{"model":"good","messages":[],"providerOptions":{"gateway":{"models":["evil"],"models":[]}}}',
    ),
    raw(OPENAI, '/v1/responses', '{"model":"good","input":"x","Tools":[{"type":"image_generation","model":"evil"}]}'),
    raw(OPENAI, '/v1/responses', '{"model":"good","input":"x","tools":[{"type":"image_generation","Model":"evil"}]}'),
    raw(OPENAI, '/v1/responses', '{"model":"good","input":"x","tools":[{"type":"image_generation","model":"evil","model":"good"}]}'),
    raw(OPENAI, '/v1/responses', '{"model":"good","input":"x","tools":[{"type":"image_generation","\\u006dodel":"evil","model":"good"}]}'),
    raw(OPENAI, '/v1/responses', '{"model":"good","input":"x","tools":[{"type":"web_search","Type":"image_generation"}]}'),
    raw(
      ANTHROPIC,
      '/v1/messages',
      '{"model":"good","max_tokens":5,"messages":[],"tools":[{"type":"advisor_1","model":"good","max_uses":1,"max_uses":9}]}',
    ),
    raw(
      GEMINI,
      '/v1beta/models/good:generateContent',
      '{"contents":[],"generationConfig":{"routingConfig":{},"routing_config":{"autoMode":{}}}}',
    ),
  ]) {
    t.same(await proxied(governed, one), ['ambiguous_body'], String(one.body));
  }
});

t.test('the model that decided is told to the caller and kept in the record', async (t) => {
  const governed = await startGoverned(t, { hosts: HOSTS, bundle: bundleOf(NO_EVIL) });
  const call = { target_host: OPENROUTER, target_path: '/api/v1/chat/completions', params: { ...chatBody, models: ['good', 'evil'] } };
  const message = 'Policy was asked about the model "evil", which this call also names.';
  t.match((await governed.execute({}, call)).body, { reason: 'no evil', details: [{ path: 'action.models', message }] });
  const answer = await governed.through(`${OPENROUTER}:443`, chat([], call.target_path, call.params));
  t.match(JSON.parse(answer.body.toString()), { error: { message: new RegExp(`no evil. ${message}`) } });
  t.match(await governed.recordOf(answer), {
    decision: 'deny',
    model: 'good',
    reason: 'no evil',
    policy_trace: {
      matched_rule_ids: ['all', 'evil'],
      attributes: { 'context.action.params.model': 'good', 'context.action.models': ['good', 'evil'], decided_model: 'evil' },
    },
  });
  const allowed = await governed.through(
    `${OPENROUTER}:443`,
    chat([], '/api/v1/chat/completions', { ...chatBody, models: ['good', 'fine'] }),
  );
  const { policy_trace: trace } = (await governed.recordOf(allowed)) as { policy_trace: { attributes: object } };
  t.same(trace.attributes, { 'context.action.params.model': 'good', 'context.action.models': ['good', 'fine'] });
  const plain = await governed.through(`${OPENROUTER}:443`, chat([], '/api/v1/chat/completions', chatBody));
  t.notMatch(JSON.stringify(await governed.recordOf(plain)), /action\.models/, 'of a call that names one model nothing more is kept');
});

t.test('context.action.models has them all', async (t) => {
  const rules = `${ALLOW}  targets:
    - {id: any, when: {field: context.action.models, in: [evil]}, effect: {decision: deny, reason_codes: [any]}}
    - {id: many, when: {all: [{field: action.models, contains: fine}, {field: action.params.model, equals: good}]}, effect: {decision: deny, reason_codes: [both]}}
`;
  const governed = await startGoverned(t, { hosts: HOSTS, bundle: bundleOf(rules) });
  const path = '/api/v1/chat/completions';
  t.same(await proxied(governed, named(OPENROUTER, path, { ...chatBody, models: ['evil'] })), ['any']);
  t.same(await proxied(governed, named(OPENROUTER, path, { ...chatBody, model: 'evil' })), ['any'], 'also the only one');
  t.same(await proxied(governed, named(OPENROUTER, path, { ...chatBody, models: ['fine'] })), ['both']);
  t.equal(await proxied(governed, named(OPENROUTER, path, { ...chatBody, models: ['other'] })), 'sent');
  t.same(await proxied(governed, named(OPENROUTER, path, { ...chatBody, preset: 'x' })), NOT_UNDERSTOOD, 'what is hidden is not missing');
  const gemini = named(GEMINI, '/v1beta/models/evil:generateContent', { contents: [] });
  t.same(await proxied(governed, gemini), ['any'], 'of the path');
});

t.test('effects of rules that match a further model hold for the call', async (t) => {
  const rules = (effect: string) =>
    `${ALLOW}  budgets:\n    - {id: dear, when: {field: action.params.model, equals: evil}, effect: {${effect}}}\n`;
  const start = (effect: string) => startGoverned(t, { hosts: HOSTS, bundle: bundleOf(rules(effect)) });
  const two = named(OPENROUTER, '/api/v1/chat/completions', { ...chatBody, max_tokens: 1000, models: ['evil'] });
  const one = named(OPENROUTER, '/api/v1/chat/completions', { ...chatBody, max_tokens: 1000 });
  const capped = await start('budget: {usd_max: "0.01"}');
  t.same(await proxied(capped, two), ['budget_usd_max_exceeded'], 'a cap');
  t.equal(await proxied(capped, one), 'sent');
  const limited = await start('rate_limit: {requests_per_minute: 1}');
  t.equal(await proxied(limited, two), 'sent');
  t.match(await proxied(limited, two), ['rate_limited'], 'a rate limit');
  t.equal(await proxied(limited, one), 'sent');
  const attributed = await start('enforce_attribution: {require: [customer_id]}');
  t.match(await proxied(attributed, two), ['missing:customer_id'], 'attribution');
  t.equal(await proxied(attributed, one), 'sent');
  const approved = await start('decision: require_approval');
  t.match(await proxied(approved, two), ['approval_required'], 'an approval');
  t.equal(await proxied(approved, one), 'sent');
  const held = await start('decision: quarantine');
  t.match(await proxied(held, two), ['quarantined'], 'quarantine');
});

t.test('a mutation lets no further model through that it was made for', async (t) => {
  const path = '/api/v1/chat/completions';
  const start = (rules: string) => startGoverned(t, { hosts: HOSTS, bundle: bundleOf(`${ALLOW}  transforms:\n${rules}`) });
  const dear = await start(
    '    - {id: a, when: {field: action.params.model, equals: evil}, effect: {decision: downgrade, mutations: [{key: action.params.model, value: good}]}}\n',
  );
  t.same(await proxied(dear, named(OPENROUTER, path, { ...chatBody, models: ['evil'] })), ['mutation_not_applicable']);
  t.same(
    await proxied(dear, named(OPENROUTER, path, { ...chatBody, model: 'evil', models: ['evil', 'good'] })),
    ['mutation_not_applicable'],
    'its own once more',
  );
  t.same(await proxied(dear, named(OPENAI, '/v1/responses', { ...input, tools: [{ type: 'image_generation', model: 'evil' }] })), [
    'mutation_not_applicable',
  ]);
  t.equal(await proxied(dear, named(OPENROUTER, path, { ...chatBody, model: 'evil', models: ['good', 'fine'] })), 'sent');
  t.match(
    JSON.parse(dear.upstream.requests.at(-1)?.body.toString() ?? ''),
    { model: 'good', models: ['good', 'fine'] },
    'what is allowed is not touched',
  );
  const everywhere = await start('    - {id: a, effect: {mutations: [{key: action.params.model, value: small}]}}\n');
  t.same(await proxied(everywhere, named(OPENROUTER, path, { ...chatBody, models: ['evil'] })), ['mutation_not_applicable']);
  t.equal(await proxied(everywhere, named(OPENROUTER, path, { ...chatBody, models: ['small'] })), 'sent', 'the model that it is to be');
  const shorter = await start('    - {id: a, effect: {mutations: [{key: action.params.max_tokens, value: 7}]}}\n');
  t.same(
    await proxied(shorter, named(OPENROUTER, path, { ...chatBody, max_tokens: 9, fallbacks: [{ model: 'fine', max_tokens: 9000 }] })),
    ['mutation_not_applicable'],
    'a maximum of its own',
  );
  t.equal(await proxied(shorter, named(OPENROUTER, path, { ...chatBody, max_tokens: 9, fallbacks: [{ model: 'fine' }] })), 'sent');
  const onlyIf = await start(
    '    - {id: a, when: {field: action.params.model, equals: fine}, effect: {mutations: [{key: action.params.max_tokens, value: 7}]}}\n',
  );
  t.equal(await proxied(onlyIf, named(OPENROUTER, path, { ...chatBody, max_tokens: 9, models: ['fine'] })), 'sent');
  t.match(
    JSON.parse(onlyIf.upstream.requests.at(-1)?.body.toString() ?? ''),
    { max_tokens: 7 },
    'what a rule changes for one of them is changed',
  );
  const moved = await start(
    '    - {id: a, effect: {mutations: [{key: action.target_host, value: openrouter.ai}, {key: action.target_path, value: /api/v1/chat/completions}]}}\n',
  );
  const unseen = named('api.cohere.com', '/v2/chat', { model: 'good', messages: [], models: ['evil'] });
  t.same(await direct(moved, unseen), ['mutation_not_applicable'], 'a name that means nothing until the call goes elsewhere');
});

t.test('a delegation that lists models allows no further one', async (t) => {
  const issuer = new Issuer('ci');
  const governed = await startGoverned(t, { hosts: HOSTS, env: { GW_DELEGATION_VERIFY_KEY: `ci=${issuer.publicKey}` } });
  const now = Date.now();
  const at = (ms: number) => new Date(ms).toISOString();
  const token = issuer.text(
    fields({
      org_id: 'default',
      workload_id: 'default',
      issued_at: at(now - 1000),
      expires_at: at(now + 3_600_000),
      budget: { allowed_models: ['good', 'fine'] },
    }),
  );
  for (const one of [...NAMED, ...HIDDEN])
    t.same(await direct(governed, one, { delegation_token: token }), ['delegation_model_not_allowed'], titleOf(one));
  for (const one of PLAIN.filter(({ host }) => host === OPENROUTER))
    t.equal(await direct(governed, one, { delegation_token: token }), 'sent', titleOf(one));
});

t.test('calls on an open WebSocket name them too', async (t) => {
  const { open, records } = await scene(t, { bundle: bundleOf(NO_EVIL) });
  const { say } = await open(RESPONSES);
  const event = { type: 'response.create', model: 'good', input: [] };
  t.equal((await say({ ...event, tools: [{ type: 'web_search' }] }, 'response.completed'))['type'], 'response.completed');
  const refused = await say({ ...event, tools: [{ type: 'image_generation', model: 'evil' }] }, 'error');
  t.match(refused, { error: { message: /no evil/ } });
  t.match((await records()).at(-1), { decision: 'deny', reason_codes: ['evil'] });
});

t.test(
  'what a call may cost is that of the dearest model that may answer, of those inside of it, and of what else it asks for',
  async (t) => {
    const opus = 'anthropic/claude-3-opus';
    const small = 'openai/gpt-4o-mini';
    const path = '/api/v1/chat/completions';
    const call = (more: object) => named(OPENROUTER, path, { model: small, messages: [], max_tokens: 1000, ...more });
    // 1,000 tokens of output of claude-3-opus cost 0.075 USD, of gpt-4o-mini 0.0006 USD; no message has no tokens.
    const capped = await startGoverned(t, {
      hosts: HOSTS,
      bundle: bundleOf(`${ALLOW}  budgets:\n    - {id: cap, effect: {budget: {usd_max: "0.0749"}}}\n`),
    });
    const roomy = await startGoverned(t, {
      hosts: HOSTS,
      bundle: bundleOf(`${ALLOW}  budgets:\n    - {id: cap, effect: {budget: {usd_max: "0.075"}}}\n`),
    });
    for (const more of [{ models: [opus] }, { models: [small, opus] }, { fallbacks: [{ model: opus }] }]) {
      t.same(await proxied(capped, call(more)), ['budget_usd_max_exceeded'], JSON.stringify(more));
      t.same(await direct(capped, call(more)), ['budget_usd_max_exceeded'], `structured, ${JSON.stringify(more)}`);
      t.equal(await proxied(roomy, call(more)), 'sent', JSON.stringify(more));
    }
    t.equal(await proxied(capped, call({ models: [small, 'openai/gpt-4o'] })), 'sent');
    t.same(
      await proxied(roomy, call({ fallbacks: [{ model: opus, max_tokens: 1001 }] })),
      ['budget_usd_max_exceeded'],
      'a maximum of its own',
    );
    t.same(await proxied(roomy, call({ plugins: [{ id: 'x', model: opus }] })), ['budget_usd_max_exceeded'], 'inside of it: in addition');
    const limited = await startGoverned(t, { hosts: HOSTS, bundle: bundleOf(ALLOW) });
    const limit = { scope: 'project', scope_id: 'p', period: 'daily', limit_usd: '0.0749', actions: ['cap'] };
    t.equal((await limited.gw.admin('POST', '/v1/admin/budgets/limits', limit)).status, 201);
    const forProject = { attribution: { project_id: 'p' } };
    t.same(await direct(limited, call({ models: [opus] }), forProject), ['budget_limit_exceeded'], 'the limit of a project');
    t.equal(await direct(limited, call({ models: ['openai/gpt-4o'] }), forProject), 'sent');
    const advisor = (more: object) =>
      named(ANTHROPIC, '/v1/messages', {
        model: 'claude-3-5-haiku-20241022',
        max_tokens: 1000,
        messages: [],
        tools: [{ type: 'advisor_20260301', name: 'advisor', model: 'claude-3-opus-20240229', max_tokens: 500, ...more }],
      });
    // Twice 500 tokens of the advisor and 1,000 of the call's own model, and the tool as prompt of each.
    t.equal(await proxied(roomy, advisor({})), 'sent');
    t.same(await proxied(roomy, advisor({ max_uses: 2 })), ['budget_usd_max_exceeded']);
    const image = named(OPENAI, '/v1/responses', {
      model: 'gpt-4o',
      max_output_tokens: 1,
      input: '',
      tools: [{ type: 'image_generation', model: 'gpt-image-1' }],
    });
    t.same(await proxied(roomy, image), ['budget_usd_max_exceeded'], 'a picture of 6,240 tokens');
    const action = { target_path: image.path, params: image.body };
    // 6,240 tokens at 40 USD per million, one of the call's own model at 10, and the tool as prompt of both.
    const { body } = await roomy.execute({}, action);
    t.match(body, { decision_trace: { attributes: { cost_estimate_usd: /^0\.2497/, budget_usd_max: exactly('0.075') } } });
  },
);

t.test('the tools around the policy say of a call what the gateway says', async (t) => {
  const surroundings = { catalogue: loadCatalogue(), actionTypes: new Map<string, string>(), pricingCached: false };
  const policy = policyOf(bundleOf(NO_EVIL));
  const governed = await startGoverned(t, { hosts: HOSTS, bundle: bundleOf(NO_EVIL) });
  const comparison = new PolicyComparison(policy, policyOf(bundleOf(LISTED)), (facts) => readCall(facts, true, surroundings.catalogue));
  const records: Record<string, unknown>[] = [];
  for (const one of NAMED.filter(({ headers }) => headers?.length === 0)) {
    const type = /embed/i.test(one.path) ? 'ai.embed' : 'ai.infer';
    const action = { type, method: 'POST', target_host: one.host, target_path: one.path, params: one.body };
    const { facts, mistakes, costAfter } = factsOfRequest({ workload_id: 'default', action }, surroundings);
    t.same(mistakes, [], titleOf(one));
    const explained = explain(policy, facts, { costAfter });
    t.match(explained.verdict, { decision: 'deny', reason_codes: ['evil'], model: 'evil' }, titleOf(one));
    const rule = explained.layers.flatMap(({ rules }) => rules).find(({ rule: name }) => name === 'targets/evil');
    t.match(rule, { outcome: 'matched', condition: { observed: 'evil', holds: true } }, 'its tests are shown with the model that decided');
    t.match(renderExplanation(explained, paintFor(false)), /about the model evil, which the call also names/);
    records.push(await governed.recordOf(await governed.through(`${one.host}:443`, chat([], one.path, one.body))));
  }
  for (const record of records) {
    comparison.add(record);
    const request = recordedRequest(record, [policy], (facts) => readCall(facts, true, surroundings.catalogue));
    if (request === undefined) throw new Error('no request');
    t.notOk(explainRecorded(policy, request).recorded, 'a record is explained by the names that it holds');
  }
  t.match(comparison.result(), { records: records.length, not_reproduced: 0, cannot_say: { records: 0 } });
  const costly = { ...chatBody, model: 'openai/gpt-4o-mini', max_tokens: 1000, models: ['anthropic/claude-3-opus'] };
  const action = { type: 'ai.infer', method: 'POST', target_host: OPENROUTER, target_path: '/api/v1/chat/completions', params: costly };
  const { costAfter } = factsOfRequest({ workload_id: 'default', action }, surroundings);
  t.equal(costAfter([]).estimatePico, 75_000_000_000n, 'and estimates it so');
  t.notOk(costAfter([]).hidden);
});

t.test('the shipped list of approved models holds for tools and for models to fall back on', async (t) => {
  const text = readFileSync('policies/presets/approved-models.yaml', 'utf8');
  const rules = `${ALLOW}  targets:\n${text.slice(text.indexOf('rules:\n') + 'rules:\n'.length).replaceAll(/^/gm, '  ')}`;
  const governed = await startGoverned(t, { hosts: HOSTS, bundle: bundleOf(rules) });
  const own = { model: 'gpt-4o', input: 'x' };
  t.same(await proxied(governed, named(OPENAI, '/v1/responses', { ...own, tools: [{ type: 'image_generation', model: 'gpt-image-1' }] })), [
    'model_not_approved',
  ]);
  t.same(
    await proxied(governed, named(OPENROUTER, '/api/v1/chat/completions', { model: 'gpt-4o', messages: [], models: ['gpt-4o', 'opus'] })),
    ['model_not_approved'],
  );
  t.equal(
    await proxied(governed, named(OPENAI, '/v1/responses', { ...own, tools: [{ type: 'image_generation', model: 'gpt-4o-mini' }] })),
    'sent',
  );
});
