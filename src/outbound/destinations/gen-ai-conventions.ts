/*
 * The one place that knows OpenTelemetry's conventions for calls of models: v1.41 of the semantic conventions, the last
 * with a stable home, all of them still "in development". When they change, this file does.
 */

/** Sent with every batch: which version of the conventions the names are of. */
export const SCHEMA_URL = 'https://opentelemetry.io/schemas/1.41.0';

/** Names of attributes. */
export const GEN_AI = {
  operation: 'gen_ai.operation.name',
  provider: 'gen_ai.provider.name',
  requestModel: 'gen_ai.request.model',
  requestStream: 'gen_ai.request.stream',
  responseModel: 'gen_ai.response.model',
  responseId: 'gen_ai.response.id',
  /** Seconds. */
  timeToFirstChunk: 'gen_ai.response.time_to_first_chunk',
  inputTokens: 'gen_ai.usage.input_tokens',
  outputTokens: 'gen_ai.usage.output_tokens',
  cacheReadTokens: 'gen_ai.usage.cache_read.input_tokens',
  cacheCreationTokens: 'gen_ai.usage.cache_creation.input_tokens',
  reasoningTokens: 'gen_ai.usage.reasoning.output_tokens',
} as const;

/** `gen_ai.provider.name` by connector; one that is not here keeps its own name, which the conventions allow. */
export const PROVIDER_NAMES: Readonly<Record<string, string>> = {
  openai: 'openai',
  anthropic: 'anthropic',
  azure_openai: 'azure.ai.openai',
  bedrock: 'aws.bedrock',
  gemini: 'gcp.gemini',
  vertex: 'gcp.vertex_ai',
  cohere: 'cohere',
  mistral: 'mistral_ai',
  groq: 'groq',
  deepseek: 'deepseek',
  perplexity: 'perplexity',
  xai: 'x_ai',
};

/**
 * `gen_ai.operation.name` by what an operation is in detail; those behind the line are ours, where the conventions have
 * none.
 */
export const OPERATION_NAMES: Readonly<Record<string, string>> = {
  'ai.infer.chat': 'chat',
  'ai.infer.messages': 'chat',
  'ai.infer.responses': 'chat',
  'ai.infer.realtime': 'chat',
  'ai.infer.completion': 'text_completion',
  'ai.infer.agent': 'invoke_agent',
  'ai.image': 'generate_content',
  'ai.video': 'generate_content',
  'ai.audio.speech': 'generate_content',
  'ai.embed': 'embeddings',
  'ai.search': 'retrieval',
  // ---
  'ai.audio.transcribe': 'transcription',
  'ai.moderate': 'moderation',
  'ai.classify': 'classification',
  'ai.rerank': 'rerank',
  'ai.ocr': 'ocr',
};

/** Formats whose calls the conventions name after what they do, whatever is asked for. */
const GENERATES_CONTENT: ReadonlySet<string> = new Set(['gemini_generate', 'gemini_dynamic', 'vertex_endpoint']);
const ANY_INFERENCE = 'chat';

/** What the conventions call an operation. */
export function operationName(actionType: string, detailType: string | undefined, dialectId: string | undefined): string {
  if (dialectId !== undefined && GENERATES_CONTENT.has(dialectId)) return 'generate_content';
  return (detailType && OPERATION_NAMES[detailType]) || OPERATION_NAMES[actionType] || ANY_INFERENCE;
}
