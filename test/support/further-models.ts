import { chat, type Governed } from './governed.ts';

/*
 * Bodies that name models beside their own, of each wire format that has a place for them: for tests of what is judged
 * by them.
 */

export const HOSTS = ['openrouter.ai', 'api.groq.com', 'bedrock-runtime.us-east-1.amazonaws.com', 'us-central1-aiplatform.googleapis.com'];
export const ALLOW = '  connectors:\n    - {id: all, effect: {decision: allow}}\n';
export const NO_EVIL = `${ALLOW}  targets:\n    - {id: evil, when: {field: context.action.params.model, equals: evil}, effect: {decision: deny, reason: no evil, reason_codes: [evil]}}\n`;
/** An allow-list in a layer that then admits nothing else. */
export const LISTED = `  targets:\n    - {id: listed, when: {field: context.action.params.model, in: [good, fine]}, effect: {decision: allow}}\n`;
export const NOT_UNDERSTOOD = ['operation_not_understood'];

export const OPENAI = 'api.openai.com';
export const ANTHROPIC = 'api.anthropic.com';
export const OPENROUTER = 'openrouter.ai';
export const AZURE = 'res.openai.azure.com';
export const GEMINI = 'generativelanguage.googleapis.com';
const RANKER = { retrieval: { vertex_rag_store: { rag_retrieval_config: { ranking: { llm_ranker: { model_name: 'evil' } } } } } };

export interface Named {
  readonly host: string;
  readonly path: string;
  /** With the model `good`, and `evil` where it is named beside that. */
  readonly body: Readonly<Record<string, unknown>>;
  readonly headers?: readonly string[];
}

export const input = { model: 'good', input: 'hello' };
export const chatBody = { model: 'good', messages: [] };
export const claude = { model: 'good', max_tokens: 5, messages: [] };
export const named = (host: string, path: string, body: object, ...headers: readonly string[]): Named => ({
  host,
  path,
  body: { ...body },
  headers,
});

/** Where models stand, of each wire format that has such a place. */
export const NAMED: readonly Named[] = [
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
export const HIDDEN: readonly Named[] = [
  named(OPENROUTER, '/api/v1/chat/completions', { ...chatBody, preset: 'mine' }),
  named(OPENROUTER, '/api/v1/chat/completions', { ...chatBody, model: '@preset/mine' }),
  named(OPENROUTER, '/api/v1/chat/completions', { ...chatBody, model: 'good@preset/mine' }),
  named(OPENROUTER, '/api/v1/chat/completions', { ...chatBody, models: ['@preset/mine'] }),
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
export const PLAIN: readonly Named[] = [
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

export function titleOf({ host, path, body }: Named): string {
  return `${host}${path} ${JSON.stringify(body).slice(0, 160)}`;
}

/** Reason codes of the record behind an answer of the proxied door, or `sent`. */
export async function proxied({ through, recordOf, upstream }: Governed, { host, path, body, headers = [] }: Named): Promise<unknown> {
  const before = upstream.requests.length;
  const answer = await through(`${host}:443`, chat(headers, path, body));
  if (answer.status === 200) return upstream.requests.length === before + 1 ? 'sent' : 'not sent';
  return upstream.requests.length === before ? ((await recordOf(answer))['reason_codes'] ?? answer.body.toString()) : 'sent';
}

/** The same of the structured API. */
export async function direct(
  { execute, upstream }: Governed,
  { host, path, body, headers = [] }: Named,
  extra: object = {},
): Promise<unknown> {
  const before = upstream.requests.length;
  const type = /embed/i.test(path) ? 'ai.embed' : 'ai.infer';
  const given = headers.length === 0 ? {} : { headers: { [headers[0] ?? '']: headers[1] } };
  const answer = await execute(extra, { type, target_host: host, target_path: path, params: body, ...given });
  const sent = upstream.requests.length > before;
  if (answer.status === 200 && answer.body['decision'] !== 'deny') return sent ? 'sent' : 'not sent';
  return sent ? 'sent' : (answer.body['reason_codes'] ?? answer.text);
}
