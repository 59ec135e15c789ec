/*
 * One call of each kind to the providers that do not speak OpenAI's format at OpenAI's paths, through the real gateway:
 * answers in each provider's shape, plain and streamed, with what the record must then say. Costs are at the rates of
 * RATES.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { GoogleGenAI } from '@google/genai';
import t from 'tap';
import { awsChunk, awsEvent, awsMessage } from '../support/aws-events.ts';
import { exactly } from '../support/exactly.ts';
import { ALLOW_ALL, chat, type Governed, startGoverned } from '../support/governed.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';
import { startPlainUpstream } from '../support/tls-upstream.ts';

const RATES = 'rates:\n  - {model: "*", in: 2, out: 10}\n';
const BEDROCK = 'bedrock-runtime.eu-west-1.amazonaws.com';
const MANTLE = 'bedrock-mantle.us-east-1.api.aws';
const VERTEX = 'europe-west4-aiplatform.googleapis.com';
const HOSTS = [
  BEDROCK,
  'bedrock-runtime-fips.us-gov-west-1.amazonaws.com',
  MANTLE,
  VERTEX,
  'aiplatform.googleapis.com',
  'aiplatform.eu.rep.googleapis.com',
  'res.services.ai.azure.com',
  'ollama.com',
  'api.voyageai.com',
  'api.jina.ai',
  'api.replicate.com',
  'api.elevenlabs.io',
  'api.githubcopilot.com',
  'router.huggingface.co',
];

interface Row {
  readonly name: string;
  readonly host: string;
  readonly path: string;
  readonly body: object;
  readonly headers?: Readonly<Record<string, string>>;
  readonly type?: string;
  /** What the upstream answers: a value is JSON, pieces are written one by one. */
  readonly answer: object | readonly (string | Buffer)[];
  readonly want: Readonly<Record<string, unknown>>;
}

const EVENTS = 'application/vnd.amazon.eventstream';
const SSE = 'text/event-stream';
const NDJSON = 'application/x-ndjson';
const said = { messages: [{ role: 'user', content: [{ text: 'hello' }] }] };
const asked = { messages: [{ role: 'user', content: 'hello' }] };
const claude = { anthropic_version: 'bedrock-2023-05-31', max_tokens: 9, ...asked };
const METRICS = { inputTokenCount: 8, outputTokenCount: 3, invocationLatency: 900, firstByteLatency: 300 };
const sse = (...events: readonly unknown[]): readonly string[] => events.map((event) => `data: ${JSON.stringify(event)}\n\n`);
const named = (...events: readonly { type: string }[]): readonly string[] =>
  events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
const counted = (tokens_in: number, tokens_out: number, cost_usd: string, more: object = {}) => ({
  tokens_in,
  tokens_out,
  cost_usd: exactly(cost_usd),
  usage_reported: true,
  ...more,
});
const CLAUDE_STREAM = [
  { type: 'message_start', message: { model: 'claude-x', usage: { input_tokens: 5, cache_read_input_tokens: 3, output_tokens: 1 } } },
  { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hi' } },
  { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 3 } },
  { type: 'message_stop', 'amazon-bedrock-invocationMetrics': METRICS },
] as const;
const CLAUDE_COUNTS = counted(8, 3, '0.000046', { cached_tokens_in: 3 });
/** Paths below which a plan pays. */
const IN_PLAN = /\/(?:coding|plan|tokenplan|step_plan)\//;
const PLAN_COUNTS = counted(8, 3, '0', { cached_tokens_in: 3, billing: 'plan' });
const GEMINI = {
  candidates: [],
  usageMetadata: { promptTokenCount: 4, cachedContentTokenCount: 2, candidatesTokenCount: 5, thoughtsTokenCount: 6 },
};
const GEMINI_COUNTS = counted(4, 11, '0.000118', { cached_tokens_in: 2, reasoning_tokens_out: 6 });

const ROWS: readonly Row[] = [
  {
    name: 'Bedrock, Converse',
    host: BEDROCK,
    path: '/model/eu.amazon.nova-lite-v1%3A0/converse',
    body: said,
    answer: {
      output: {},
      usage: { inputTokens: 10, outputTokens: 7, totalTokens: 47, cacheReadInputTokens: 20, cacheWriteInputTokens: 10 },
    },
    want: { model: 'eu.amazon.nova-lite-v1:0', metering: counted(40, 7, '0.00015', { cached_tokens_in: 20 }) },
  },
  {
    name: 'Bedrock, Converse as a stream',
    host: 'bedrock-runtime-fips.us-gov-west-1.amazonaws.com',
    path: '/model/amazon.nova-lite-v1%3A0/converse-stream',
    body: said,
    type: EVENTS,
    answer: [
      awsEvent('messageStart', { role: 'assistant' }),
      awsEvent('contentBlockDelta', { delta: { text: 'Hi' } }),
      awsEvent('messageStop', { stopReason: 'end_turn' }),
      awsEvent('metadata', { usage: { inputTokens: 10, outputTokens: 7, totalTokens: 17 }, metrics: { latencyMs: 5 } }),
    ],
    want: { model: 'amazon.nova-lite-v1:0', stream: true, stream_outcome: 'complete', metering: counted(10, 7, '0.00009') },
  },
  {
    name: 'Bedrock, a Converse stream that breaks off',
    host: BEDROCK,
    path: '/model/amazon.nova-lite-v1%3A0/converse-stream',
    body: said,
    type: EVENTS,
    answer: [awsEvent('messageStart', { role: 'assistant' }), awsEvent('contentBlockDelta', { delta: { text: 'Hi' } }).subarray(0, 40)],
    want: { stream_outcome: 'aborted', metering: { tokens_in: 0, tokens_out: 0, usage_reported: false, cost_usd: exactly('0') } },
  },
  {
    name: 'Bedrock, a Converse stream with an exception inside',
    host: BEDROCK,
    path: '/model/amazon.nova-lite-v1%3A0/converse-stream',
    body: said,
    type: EVENTS,
    answer: [awsMessage({ ':message-type': 'exception', ':exception-type': 'modelStreamErrorException' }, '{"message":"no"}')],
    want: { stream_outcome: 'error', metering: { usage_reported: false } },
  },
  {
    name: 'Bedrock, Claude by InvokeModel',
    host: BEDROCK,
    path: '/model/anthropic.claude-3-haiku-20240307-v1%3A0/invoke',
    body: claude,
    headers: { 'x-amzn-bedrock-input-token-count': '5', 'x-amzn-bedrock-output-token-count': '3' },
    answer: { model: 'claude-3-haiku', usage: { input_tokens: 5, cache_read_input_tokens: 3, output_tokens: 3 } },
    want: { model: 'anthropic.claude-3-haiku-20240307-v1:0', metering: CLAUDE_COUNTS },
  },
  {
    name: 'Bedrock, Claude by InvokeModelWithResponseStream',
    host: BEDROCK,
    path: '/model/us.anthropic.claude-3-haiku-20240307-v1%3A0/invoke-with-response-stream',
    body: claude,
    type: EVENTS,
    answer: CLAUDE_STREAM.map(awsChunk),
    want: { model: 'us.anthropic.claude-3-haiku-20240307-v1:0', stream: true, stream_outcome: 'complete', metering: CLAUDE_COUNTS },
  },
  {
    name: 'Bedrock, a Claude stream that breaks off',
    host: BEDROCK,
    path: '/model/us.anthropic.claude-3-haiku-20240307-v1%3A0/invoke-with-response-stream',
    body: claude,
    type: EVENTS,
    answer: CLAUDE_STREAM.slice(0, 2).map(awsChunk),
    want: { stream_outcome: 'aborted', metering: counted(8, 3, '0.000046', { cached_tokens_in: 3, usage_reported: false }) },
  },
  {
    name: 'Bedrock, another vendor: counts in the head',
    host: BEDROCK,
    path: '/model/meta.llama3-8b-instruct-v1%3A0/invoke',
    body: { prompt: 'hello', max_gen_len: 9 },
    headers: { 'X-Amzn-Bedrock-Input-Token-Count': '8', 'X-Amzn-Bedrock-Output-Token-Count': '3' },
    answer: { generation: 'Hi', prompt_token_count: 8, generation_token_count: 3 },
    want: { model: 'meta.llama3-8b-instruct-v1:0', metering: counted(8, 3, '0.000046') },
  },
  {
    name: 'Bedrock, another vendor as a stream',
    host: BEDROCK,
    path: '/model/meta.llama3-8b-instruct-v1%3A0/invoke-with-response-stream',
    body: { prompt: 'hello', max_gen_len: 9 },
    type: EVENTS,
    answer: [
      awsChunk({ generation: 'Hi' }),
      awsChunk({ generation: '', stop_reason: 'stop', 'amazon-bedrock-invocationMetrics': METRICS }),
    ],
    want: { stream: true, stream_outcome: 'complete', metering: counted(8, 3, '0.000046') },
  },
  {
    name: 'Bedrock, Titan embeddings',
    host: BEDROCK,
    path: '/model/amazon.titan-embed-text-v2%3A0/invoke',
    body: { inputText: 'hello' },
    answer: { embedding: [0.25], inputTextTokenCount: 6 },
    want: { action_type: 'ai.embed', metering: counted(6, 0, '0.000012') },
  },
  {
    name: 'Bedrock, Cohere embeddings',
    host: BEDROCK,
    path: '/model/cohere.embed-english-v3/invoke',
    body: { texts: ['hello'], input_type: 'search_query' },
    headers: { 'X-Amzn-Bedrock-Input-Token-Count': '7' },
    answer: { embeddings: [[0.25]] },
    want: { action_type: 'ai.embed', metering: counted(7, 0, '0.000014') },
  },
  {
    name: 'Bedrock, a guardrail',
    host: BEDROCK,
    path: '/guardrail/gr-1/version/1/apply',
    body: { source: 'INPUT', content: [{ text: { text: 'hello' } }] },
    answer: { action: 'NONE', outputs: [] },
    want: { action_type: 'ai.moderate', metering: { usage_reported: false } },
  },
  {
    name: "Bedrock, OpenAI's format",
    host: MANTLE,
    path: '/openai/v1/chat/completions',
    body: { model: 'openai.gpt-oss-120b', ...asked },
    answer: { model: 'openai.gpt-oss-120b', usage: { prompt_tokens: 5, completion_tokens: 3 } },
    want: { model: 'openai.gpt-oss-120b', metering: counted(5, 3, '0.00004') },
  },
  {
    name: "Bedrock, OpenAI's format below the other path",
    host: MANTLE,
    path: '/v1/responses',
    body: { model: 'openai.gpt-oss-120b', input: 'hello' },
    answer: { model: 'openai.gpt-oss-120b', usage: { input_tokens: 5, output_tokens: 3 } },
    want: { model: 'openai.gpt-oss-120b', metering: counted(5, 3, '0.00004') },
  },
  {
    name: "Bedrock, Anthropic's format",
    host: MANTLE,
    path: '/anthropic/v1/messages',
    body: { model: 'anthropic.claude-x', stream: true, max_tokens: 9, ...asked },
    type: SSE,
    answer: named(...CLAUDE_STREAM),
    want: { model: 'anthropic.claude-x', stream_outcome: 'complete', metering: CLAUDE_COUNTS },
  },
  {
    name: 'Vertex, Gemini at a regional host',
    host: VERTEX,
    path: '/v1/projects/p/locations/europe-west4/publishers/google/models/gemini-2.5-pro:generateContent',
    body: { contents: [{ role: 'user', parts: [{ text: 'hello' }] }] },
    answer: { ...GEMINI, modelVersion: 'gemini-2.5-pro' },
    want: { model: 'gemini-2.5-pro', metering: GEMINI_COUNTS },
  },
  {
    name: 'Vertex, Gemini as a stream at a jurisdiction',
    host: 'aiplatform.eu.rep.googleapis.com',
    path: '/v1beta1/projects/p/locations/eu/publishers/google/models/gemini-2.5-pro:streamGenerateContent?alt=sse',
    body: { contents: [{ role: 'user', parts: [{ text: 'hello' }] }] },
    type: SSE,
    answer: sse({ candidates: [], usageMetadata: { promptTokenCount: 4 } }, GEMINI),
    want: { model: 'gemini-2.5-pro', stream: true, stream_outcome: 'complete', metering: GEMINI_COUNTS },
  },
  {
    name: 'Vertex, express mode',
    host: 'aiplatform.googleapis.com',
    path: '/v1/publishers/google/models/gemini-2.5-flash:generateContent',
    body: { contents: [] },
    answer: GEMINI,
    want: { model: 'gemini-2.5-flash', metering: GEMINI_COUNTS },
  },
  {
    name: 'Vertex, Claude',
    host: VERTEX,
    path: '/v1/projects/p/locations/europe-west4/publishers/anthropic/models/claude-sonnet-4@20250514:rawPredict',
    body: { ...claude, anthropic_version: 'vertex-2023-10-16' },
    answer: {
      model: 'claude-sonnet-4',
      usage: { input_tokens: 5, cache_creation_input_tokens: 2, cache_read_input_tokens: 3, output_tokens: 3 },
    },
    want: { model: 'claude-sonnet-4@20250514', metering: counted(10, 3, '0.00005', { cached_tokens_in: 3 }) },
  },
  {
    name: 'Vertex, Claude as a stream',
    host: 'aiplatform.googleapis.com',
    path: '/v1/projects/p/locations/global/publishers/anthropic/models/claude-sonnet-4@20250514:streamRawPredict',
    body: { ...claude, anthropic_version: 'vertex-2023-10-16', stream: true },
    type: SSE,
    answer: named(...CLAUDE_STREAM),
    want: { model: 'claude-sonnet-4@20250514', stream: true, stream_outcome: 'complete', metering: CLAUDE_COUNTS },
  },
  {
    name: 'Vertex, Mistral as a stream',
    host: VERTEX,
    path: '/v1/projects/p/locations/europe-west4/publishers/mistralai/models/mistral-small@2503:streamRawPredict',
    body: { model: 'mistral-small', stream: true, ...asked },
    type: SSE,
    answer: [...sse({ choices: [{ delta: {} }], usage: { prompt_tokens: 5, completion_tokens: 3 } }), 'data: [DONE]\n\n'],
    want: { model: 'mistral-small@2503', stream: true, stream_outcome: 'complete', metering: counted(5, 3, '0.00004') },
  },
  {
    name: 'Vertex, AI21 as a stream',
    host: VERTEX,
    path: '/v1/projects/p/locations/europe-west4/publishers/ai21/models/jamba-1.5-mini@001:streamRawPredict',
    body: { model: 'jamba-1.5-mini', stream: true, ...asked },
    type: SSE,
    answer: [...sse({ choices: [{ delta: {} }], usage: { prompt_tokens: 5, completion_tokens: 3 } }), 'data: [DONE]\n\n'],
    want: { model: 'jamba-1.5-mini@001', stream: true, stream_outcome: 'complete', metering: counted(5, 3, '0.00004') },
  },
  {
    name: "Vertex, OpenAI's format",
    host: VERTEX,
    path: '/v1/projects/p/locations/europe-west4/endpoints/openapi/chat/completions',
    body: { model: 'google/gemini-2.5-pro', ...asked },
    answer: { usage: { prompt_tokens: 5, completion_tokens: 3 } },
    want: { model: 'google/gemini-2.5-pro', metering: counted(5, 3, '0.00004') },
  },
  {
    name: 'Vertex, embeddings: the tokens that stand with each of them',
    host: VERTEX,
    path: '/v1/projects/p/locations/europe-west4/publishers/google/models/text-embedding-005:predict',
    body: { instances: [{ content: 'hello' }] },
    answer: { predictions: [{ embeddings: { values: [0.5], statistics: { token_count: 2 } } }] },
    want: { action_type: 'ai.embed', model: 'text-embedding-005', metering: { tokens_in: 2, tokens_out: 0, usage_reported: true } },
  },
  {
    name: 'Claude on an Azure host',
    host: 'res.services.ai.azure.com',
    path: '/anthropic/v1/messages',
    body: { model: 'claude-x', stream: true, max_tokens: 9, ...asked },
    type: SSE,
    answer: named(...CLAUDE_STREAM),
    want: { provider: 'azure_openai', model: 'claude-x', stream_outcome: 'complete', metering: CLAUDE_COUNTS },
  },
  {
    name: 'Azure AI Foundry, the path of all models',
    host: 'res.services.ai.azure.com',
    path: '/models/chat/completions?api-version=2024-05-01-preview',
    body: { model: 'mistral-large', ...asked },
    answer: { usage: { prompt_tokens: 5, completion_tokens: 3, completion_tokens_details: { reasoning_tokens: 2 } } },
    want: { provider: 'azure_openai', model: 'mistral-large', metering: counted(5, 3, '0.00004', { reasoning_tokens_out: 2 }) },
  },
  {
    name: 'Ollama, plain',
    host: 'ollama.com',
    path: '/api/chat',
    body: { model: 'llama3.2', stream: false, ...asked },
    answer: { model: 'llama3.2', message: {}, done: true, prompt_eval_count: 26, eval_count: 298 },
    want: { model: 'llama3.2', stream: false, metering: counted(26, 298, '0.003032') },
  },
  {
    name: 'Ollama, which streams unless it is told not to',
    host: 'ollama.com',
    path: '/api/generate',
    body: { model: 'llama3.2', prompt: 'hello' },
    type: NDJSON,
    answer: [
      '{"model":"llama3.2","response":"Hi","done":false}\n',
      '{"model":"llama3.2","done":true,"prompt_eval_count":26,"eval_count":298}\n',
    ],
    want: { model: 'llama3.2', stream: true, stream_outcome: 'complete', metering: counted(26, 298, '0.003032') },
  },
  {
    name: 'Ollama, a stream that breaks off',
    host: 'ollama.com',
    path: '/api/generate',
    body: { model: 'llama3.2', prompt: 'hello' },
    type: NDJSON,
    answer: ['{"model":"llama3.2","response":"Hi","done":false}\n'],
    want: { stream_outcome: 'aborted', metering: { usage_reported: false, cost_usd: exactly('0.000024') } },
  },
  {
    name: 'Ollama, embeddings',
    host: 'ollama.com',
    path: '/api/embed',
    body: { model: 'all-minilm', input: 'hello' },
    answer: { model: 'all-minilm', embeddings: [Array<number>(5_000).fill(0.25)], prompt_eval_count: 8 },
    want: { action_type: 'ai.embed', metering: counted(8, 0, '0.000016') },
  },
  {
    name: 'Voyage, embeddings',
    host: 'api.voyageai.com',
    path: '/v1/embeddings',
    body: { model: 'voyage-3', input: ['hello'] },
    answer: { data: [], model: 'voyage-3', usage: { total_tokens: 5 } },
    want: { action_type: 'ai.embed', model: 'voyage-3', metering: counted(5, 0, '0.00001') },
  },
  {
    name: 'Voyage, pieces of documents',
    host: 'api.voyageai.com',
    path: '/v1/contextualizedembeddings',
    body: { model: 'voyage-context-3', inputs: [['hello', 'hi']] },
    answer: { data: [], model: 'voyage-context-3', usage: { total_tokens: 5 } },
    want: { action_type: 'ai.embed', model: 'voyage-context-3', metering: counted(5, 0, '0.00001') },
  },
  {
    name: 'Voyage, rerank',
    host: 'api.voyageai.com',
    path: '/v1/rerank',
    body: { model: 'rerank-2', query: 'hello', documents: ['x'] },
    answer: { data: [], model: 'rerank-2', usage: { total_tokens: 26 } },
    want: { action_type: 'ai.infer', model: 'rerank-2', metering: counted(26, 0, '0.000052') },
  },
  {
    name: 'Jina, embeddings',
    host: 'api.jina.ai',
    path: '/v1/embeddings',
    body: { model: 'jina-embeddings-v3', input: ['hello'] },
    answer: { model: 'jina-embeddings-v3', usage: { total_tokens: 6, prompt_tokens: 6 } },
    want: { action_type: 'ai.embed', metering: counted(6, 0, '0.000012') },
  },
  {
    name: 'Replicate, the model in the path',
    host: 'api.replicate.com',
    path: '/v1/models/meta/meta-llama-3-8b/predictions',
    body: { input: { prompt: 'hello' } },
    answer: { id: 'p', status: 'succeeded', metrics: { predict_time: 1.5, input_token_count: 12, output_token_count: 34 } },
    want: { model: 'meta/meta-llama-3-8b', metering: counted(12, 34, '0.000364') },
  },
  {
    name: 'Replicate, the version in the body, and no answer yet',
    host: 'api.replicate.com',
    path: '/v1/predictions',
    body: { version: 'abc123', input: { prompt: 'hello' } },
    answer: { id: 'p', status: 'starting', urls: { get: 'https://api.replicate.com/v1/predictions/p' } },
    want: { model: 'abc123', metering: { usage_reported: false } },
  },
  {
    name: 'ElevenLabs, speech',
    host: 'api.elevenlabs.io',
    path: '/v1/text-to-speech/voice-1/stream?output_format=mp3_44100_128',
    body: { model_id: 'eleven_turbo_v2', text: 'hello' },
    type: 'audio/mpeg',
    answer: [Buffer.from([0xff, 0xfb, 0x90]), Buffer.alloc(500)],
    want: { model: 'eleven_turbo_v2', metering: { tokens_in: 0, tokens_out: 0, usage_reported: false } },
  },
  {
    name: 'Copilot',
    host: 'api.githubcopilot.com',
    path: '/chat/completions',
    body: { model: 'gpt-4o', ...asked },
    answer: { model: 'gpt-4o', usage: { prompt_tokens: 5, completion_tokens: 3 } },
    want: { provider: 'github_copilot', model: 'gpt-4o', metering: counted(5, 3, '0.00004') },
  },
  {
    name: 'Hugging Face, the provider in the path',
    host: 'router.huggingface.co',
    path: '/together/v1/chat/completions',
    body: { model: 'deepseek-ai/DeepSeek-R1', ...asked },
    answer: { usage: { prompt_tokens: 5, completion_tokens: 3 } },
    want: { provider: 'huggingface', model: 'deepseek-ai/DeepSeek-R1', metering: counted(5, 3, '0.00004') },
  },
  {
    name: 'Hugging Face, the path of the provider behind it',
    host: 'router.huggingface.co',
    path: '/fireworks-ai/inference/v1/chat/completions',
    body: { model: 'accounts/fireworks/models/gpt-oss-120b', ...asked },
    answer: { usage: { prompt_tokens: 5, completion_tokens: 3 } },
    want: { provider: 'huggingface', model: 'accounts/fireworks/models/gpt-oss-120b', metering: counted(5, 3, '0.00004') },
  },
];

interface Rows extends Governed {
  /** What the upstream answers next. */
  row: Pick<Row, 'answer' | 'headers' | 'type'>;
}

const ELSEWHERE: readonly (Pick<Row, 'host' | 'path' | 'body' | 'answer' | 'type' | 'want'> & { readonly connector: string })[] = [
  {
    host: 'res.openai.azure.us',
    connector: 'azure_openai',
    path: '/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21',
    body: asked,
    answer: { model: 'gpt-4o', usage: { prompt_tokens: 8, completion_tokens: 3, total_tokens: 11 } },
    want: { model: 'gpt-4o', metering: counted(8, 3, '0.000046') },
  },
  {
    host: 'res.openai.azure.cn',
    connector: 'azure_openai',
    path: '/openai/v1/responses',
    body: { model: 'gpt-4o', input: 'hello' },
    answer: { model: 'gpt-4o', usage: { input_tokens: 8, output_tokens: 3, total_tokens: 11 } },
    want: { model: 'gpt-4o', metering: counted(8, 3, '0.000046') },
  },
  {
    host: 'phi-3-abc.eastus2.models.ai.azure.com',
    connector: 'azure_openai',
    path: '/v1/chat/completions',
    body: { ...asked, stream: true },
    type: SSE,
    answer: [
      ...sse({ model: 'phi-3', choices: [{ delta: { content: 'Hi' } }] }),
      ...sse({ model: 'phi-3', choices: [], usage: { prompt_tokens: 8, completion_tokens: 3, total_tokens: 11 } }),
      'data: [DONE]\n\n',
    ],
    want: { stream: true, stream_outcome: 'complete', metering: counted(8, 3, '0.000046') },
  },
  {
    host: 'vpce-0abc-12de.bedrock-runtime.us-east-1.vpce.amazonaws.com',
    connector: 'bedrock',
    path: '/model/amazon.nova-lite-v1%3A0/converse',
    body: said,
    answer: { output: {}, usage: { inputTokens: 8, outputTokens: 3, totalTokens: 11 } },
    want: { model: 'amazon.nova-lite-v1:0', metering: counted(8, 3, '0.000046') },
  },
  {
    host: 'bedrock-runtime.us-east-1.api.aws',
    connector: 'bedrock',
    path: '/model/us.anthropic.claude-3-haiku-20240307-v1%3A0/invoke-with-response-stream',
    body: claude,
    type: EVENTS,
    answer: CLAUDE_STREAM.map(awsChunk),
    want: { model: 'us.anthropic.claude-3-haiku-20240307-v1:0', stream_outcome: 'complete', metering: CLAUDE_COUNTS },
  },
  {
    host: 'us-central1-aiplatform-restricted.p.googleapis.com',
    connector: 'vertex',
    path: '/v1/projects/p/locations/us-central1/publishers/google/models/gemini-2.5-flash:streamGenerateContent?alt=sse',
    body: { contents: [] },
    type: SSE,
    answer: sse(GEMINI),
    want: { model: 'gemini-2.5-flash', stream: true, metering: GEMINI_COUNTS },
  },
  ...(
    [
      ['dashscope-intl.aliyuncs.com', 'alibaba', '/api/v2/apps/claude-code-proxy/v1/messages?beta=true'],
      ['ws-4ei01.ap-southeast-1.maas.aliyuncs.com', 'alibaba', '/apps/anthropic/v1/messages'],
      ['api.moonshot.cn', 'moonshot', '/anthropic/v1/messages'],
      ['ai-gateway.vercel.sh', 'vercel', '/v1/messages'],
      ['ark.cn-beijing.volces.com', 'volcengine', '/api/coding/v1/messages'],
      ['ark.ap-southeast.bytepluses.com', 'volcengine', '/api/plan/v1/messages'],
      ['ark.cn-beijing.volces.com', 'volcengine', '/api/compatible/v1/messages'],
      ['api-inference.modelscope.cn', 'modelscope', '/v1/messages'],
      ['qianfan.baidubce.com', 'qianfan', '/anthropic/coding/v1/messages'],
      ['qianfan.baidubce.com', 'qianfan', '/anthropic/tokenplan/personal/v1/messages'],
      ['api.lkeap.cloud.tencent.com', 'tencent', '/coding/anthropic/v1/messages'],
      ['api.stepfun.com', 'stepfun', '/step_plan/v1/messages'],
      ['api.stepfun.ai', 'stepfun', '/v1/messages'],
      ['api.groq.com', 'groq', '/anthropic/v1/messages'],
      ['api.deepinfra.com', 'deepinfra', '/anthropic/v1/messages'],
    ] as const
  ).flatMap(([host, connector, path]) => [
    {
      host,
      connector,
      path,
      body: { model: 'm', max_tokens: 9, ...asked },
      answer: { model: 'm', usage: { input_tokens: 5, cache_read_input_tokens: 3, output_tokens: 3 } },
      want: { model: 'm', metering: IN_PLAN.test(path) ? PLAN_COUNTS : CLAUDE_COUNTS },
    },
    {
      host,
      connector,
      path,
      body: { model: 'm', max_tokens: 9, stream: true, ...asked },
      type: SSE,
      answer: named(...CLAUDE_STREAM),
      want: { model: 'm', stream: true, stream_outcome: 'complete', metering: IN_PLAN.test(path) ? PLAN_COUNTS : CLAUDE_COUNTS },
    },
  ]),
];

async function startRows(t: HasTeardown, env: Readonly<Record<string, string>> = {}): Promise<Rows> {
  const file = join(tempDir(t), 'rates.yaml');
  writeFileSync(file, RATES);
  const governed = await startGoverned(t, {
    hosts: [...HOSTS, ...new Set(ELSEWHERE.map(({ host }) => host))],
    bundle: ALLOW_ALL,
    env: { GW_PRICING_FILE: file, ...env },
    handler: (_request, response, whole) =>
      void whole.then(() => {
        const { answer, headers, type } = rows.row;
        const pieces = Array.isArray(answer) ? (answer as readonly (string | Buffer)[]) : [JSON.stringify(answer)];
        response.writeHead(200, { 'content-type': type ?? 'application/json', ...headers });
        for (const piece of pieces) response.write(piece);
        response.end();
      }),
  });
  const rows: Rows = { ...governed, row: { answer: {} } };
  return rows;
}

t.test('tokens, cost and model of each row, plain and streamed, exact', async (t) => {
  const rows = await startRows(t);
  for (const row of ROWS) {
    rows.row = row;
    const answer = await rows.through(`${row.host}:443`, chat([], row.path, row.body));
    t.equal(answer.status, 200, row.name);
    t.match(await rows.recordOf(answer), { decision: 'allow', action_type: 'ai.infer', ...row.want }, row.name);
    const sent = rows.upstream.requests.at(-1);
    t.strictSame([sent?.url, sent?.body.toString()], [row.path, JSON.stringify(row.body)], `${row.name}: what was sent`);
    const pieces = Array.isArray(row.answer) ? (row.answer as readonly (string | Buffer)[]) : [JSON.stringify(row.answer)];
    t.ok(answer.body.equals(Buffer.concat(pieces.map((piece) => Buffer.from(piece)))), `${row.name}: what was answered, byte for byte`);
  }
});

t.test('the same API under the name of another cloud, region or network is the same provider, plain and streamed', async (t) => {
  const rows = await startRows(t);
  for (const row of ELSEWHERE) {
    rows.row = row;
    const answer = await rows.through(`${row.host}:443`, chat([], row.path, row.body));
    t.equal(answer.status, 200, row.host);
    const want = { decision: 'allow', action_type: 'ai.infer', connector_id: row.connector, target_host: row.host, ...row.want };
    t.match(await rows.recordOf(answer), want, row.host + row.path);
    const sent = rows.upstream.requests.at(-1);
    t.strictSame([sent?.url, sent?.body.toString()], [row.path, JSON.stringify(row.body)], `${row.host}: what was sent`);
  }
});

t.test('a structured call streams what Bedrock streams', async (t) => {
  const rows = await startRows(t);
  const row = ROWS.find(({ name }) => name === 'Bedrock, Converse as a stream');
  if (row === undefined) throw new Error('no such row');
  rows.row = row;
  const params = { model: 'amazon.nova-lite-v1:0', stream: true, ...said };
  const answer = await rows.execute({}, { target_host: BEDROCK, params });
  t.equal(answer.status, 200);
  t.equal(answer.headers.get('content-type'), EVENTS);
  const { url, headers } = rows.upstream.requests.at(-1) ?? {};
  t.match([url, headers], ['/model/amazon.nova-lite-v1%3A0/converse-stream', { authorization: 'Bearer sk-caller' }]);
  t.match(await rows.gw.record(answer.headers.get('x-gw-record-id') ?? ''), row.want);
});

t.test('cached input is charged apart only where its rate is known', async (t) => {
  const file = join(tempDir(t), 'cached.yaml');
  writeFileSync(file, 'rates:\n  - {provider: bedrock, model: "eu.amazon.*", in: 2, out: 10, cached_in: 0.5}\n');
  const rows = await startRows(t, { GW_PRICING_FILE: file, GW_PRICING_CACHED: 'true' });
  const [row] = ROWS;
  if (row === undefined) throw new Error('no rows');
  rows.row = row;
  const answer = await rows.through(`${row.host}:443`, chat([], row.path, row.body));
  t.match(await rows.recordOf(answer), { metering: { tokens_in: 40, cached_tokens_in: 20, tokens_out: 7, cost_usd: exactly('0.00012') } });
});

t.test('clouds with a host per region, by base URL', async (t) => {
  const rows = await startRows(t);
  const through = async (host: string, path: string, prefix: string, body: object) => {
    const answer = await rows.send(chat(['X-GW-Target-Host', host], prefix + path, body));
    t.equal(answer.status, 200, host);
    t.match(rows.upstream.requests.at(-1), { url: path, headers: { host, authorization: 'Bearer sk-client' } });
    return rows.recordOf(answer);
  };
  rows.row = { answer: { usage: { inputTokens: 10, outputTokens: 7 } } };
  t.match(await through(BEDROCK, '/model/amazon.nova-lite-v1%3A0/converse', '/proxy/bedrock', said), {
    connector_id: 'bedrock',
    metering: counted(10, 7, '0.00009'),
  });
  rows.row = { answer: GEMINI };
  const tuned = '/v1/projects/p/locations/europe-west4/endpoints/123:generateContent';
  t.match(await through(VERTEX, tuned, '/proxy/vertex', { contents: [] }), {
    connector_id: 'vertex',
    model: '123',
    metering: GEMINI_COUNTS,
  });
  t.equal((await rows.send(chat([], '/proxy/bedrock/model/x/converse', said))).status, 400, 'a host per region must be named');
});

t.test('the official SDK of Google in Vertex mode, by base URL', async (t) => {
  const rows = await startRows(t);
  const google = new GoogleGenAI({ vertexai: true, apiKey: 'express-key', httpOptions: { baseUrl: `${rows.gw.url}/proxy/vertex` } });
  const call = { model: 'gemini-2.5-flash', contents: 'hello' };
  const parts = { candidates: [{ content: { role: 'model', parts: [{ text: 'Hi' }] } }], usageMetadata: GEMINI.usageMetadata };
  rows.row = { answer: parts };
  t.equal((await google.models.generateContent(call)).text, 'Hi');
  rows.row = { answer: sse(parts), type: SSE };
  for await (const piece of await google.models.generateContentStream(call)) t.equal(piece.text, 'Hi');
  t.match(
    rows.upstream.requests.map(({ url, headers }) => [headers['host'], headers['x-goog-api-key'], url]),
    ['generateContent', 'streamGenerateContent?alt=sse'].map((verb) => [
      'aiplatform.googleapis.com',
      'express-key',
      new RegExp(`^/v1(?:beta1)?/publishers/google/models/gemini-2.5-flash:${verb.replace('?', '\\?')}$`),
    ]),
  );
  const { body } = await rows.gw.admin('GET', '/v1/reports/spend?org_id=default');
  t.match(body, { providers: [{ provider: 'vertex', requests: 2, cost_usd: exactly('0.000236') }] });
});

t.test('an Ollama server of this machine stands in for the host of its row', async (t) => {
  const local = await startPlainUpstream((_request, response, whole) => {
    void whole.then(() => {
      response.setHeader('content-type', NDJSON);
      response.write('{"model":"llama3.2","response":"Hi","done":false}\n');
      response.end('{"model":"llama3.2","done":true,"prompt_eval_count":26,"eval_count":298}\n');
    });
  });
  t.teardown(() => local.close());
  const env = { GW_UPSTREAM_CONNECT_TO: `ollama.com:80=127.0.0.1:${local.port}` };
  const { send, recordOf } = await startGoverned(t, { bundle: ALLOW_ALL, env });
  const answer = await send(chat([], 'http://ollama.com/api/generate', { model: 'llama3.2', prompt: 'hello' }));
  t.equal(answer.status, 200);
  t.match(await recordOf(answer), { connector_id: 'ollama', stream_outcome: 'complete', metering: { tokens_in: 26, tokens_out: 298 } });
  t.match(local.requests, [{ url: '/api/generate', headers: { host: 'ollama.com' } }]);
});
