import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { loadCatalogue } from '../../../src/base/catalogue/catalogue.ts';
import { canonicalConnectorId, GENERIC_HTTP } from '../../../src/base/catalogue/connector-id.ts';
import { CatalogueError } from '../../../src/base/catalogue/row-reader.ts';
import type { Provider } from '../../../src/base/catalogue/types.ts';
import { packageRoot } from '../../../src/base/lib/package-root.ts';
import { sha256Hex } from '../../../src/base/lib/sha256.ts';
import { fc } from '../../support/properties.ts';

const catalogue = loadCatalogue();
const shippedProviders = readFileSync(join(packageRoot(), 'src/base/catalogue/data/providers.yaml'), 'utf8');

function provider(id: string): Provider {
  const found = catalogue.provider(id);
  if (found === undefined) throw new Error(`no provider ${id}`);
  return found;
}

function details(load: () => unknown): readonly string[] {
  try {
    load();
  } catch (error) {
    if (error instanceof CatalogueError)
      return error.details.map((detail) => `${detail.file}:${detail.line}: ${detail.path} ${detail.message}`);
    throw error;
  }
  return [];
}

t.test('neutral names and aliases fold to the canonical connector id, without regard to case', async (t) => {
  const table: readonly [string, string | undefined][] = [
    ['provider_a', 'openai'],
    ['provider_b', 'anthropic'],
    ['provider_c', 'gemini'],
    ['provider_d', 'azure_openai'],
    ['provider_e', 'cohere'],
    ['Provider_A', 'openai'],
    ['claude', 'anthropic'],
    ['google', 'gemini'],
    ['azure', 'azure_openai'],
    ['mistralai', 'mistral'],
    ['generic_http', GENERIC_HTTP],
    ['GENERIC', GENERIC_HTTP],
    ['custom:abc', 'custom:abc'],
    ['custom:', undefined],
    ['nobody', undefined],
    ['', undefined],
    ['__proto__', undefined],
  ];
  for (const [text, want] of table) t.equal(canonicalConnectorId(catalogue, text), want, text);
});

t.test('the proxy registry holds the five fixed hosts and not the hosted variant', async (t) => {
  const hosts = ['openai', 'anthropic', 'gemini', 'cohere', 'mistral'].map((id) => [
    id,
    provider(id).inProxyRegistry,
    provider(id).hosts[0],
  ]);
  t.strictSame(hosts, [
    ['openai', true, 'api.openai.com'],
    ['anthropic', true, 'api.anthropic.com'],
    ['gemini', true, 'generativelanguage.googleapis.com'],
    ['cohere', true, 'api.cohere.com'],
    ['mistral', true, 'api.mistral.ai'],
  ]);
  t.equal(provider('azure_openai').inProxyRegistry, false);
});

t.test('a host belongs to the row that names it or a pattern above it', async (t) => {
  const table: readonly [string, string | undefined][] = [
    ['api.openai.com', 'openai'],
    ['eu.api.openai.com', 'openai'],
    ['mtls.api.openai.com', undefined],
    ['openai.com', undefined],
    ['res.openai.azure.com', 'azure_openai'],
    ['res.privatelink.openai.azure.com', 'azure_openai'],
    ['res.services.ai.azure.com', 'azure_openai'],
    ['res.cognitiveservices.azure.com', 'azure_openai'],
    ['openai.azure.com', undefined],
    ['evilopenai.azure.com', undefined],
    ['api.groq.com', 'groq'],
    ['api.openai.com.evil.example', undefined],
    ['bedrock-runtime.eu-west-1.amazonaws.com', 'bedrock'],
    ['bedrock-runtime-fips.us-gov-west-1.amazonaws.com', 'bedrock'],
    ['bedrock-mantle.us-east-1.api.aws', 'bedrock'],
    ['bedrock-runtime.a.b.amazonaws.com', undefined],
    ['bedrock-runtime..amazonaws.com', undefined],
    ['evil-bedrock-runtime.eu-west-1.amazonaws.com', undefined],
    ['s3.eu-west-1.amazonaws.com', undefined],
    ['aiplatform.googleapis.com', 'vertex'],
    ['europe-west4-aiplatform.googleapis.com', 'vertex'],
    ['aiplatform.eu.rep.googleapis.com', 'vertex'],
    ['evil.europe-west4-aiplatform.googleapis.com', undefined],
    ['storage.googleapis.com', undefined],
    // Of another cloud, region or network: the same API.
    ['kr.api.openai.com', 'openai'],
    ['gb.api.openai.com', 'openai'],
    ['generativelanguage-mine.p.googleapis.com', 'gemini'],
    ['res.openai.azure.us', 'azure_openai'],
    ['res.openai.azure.cn', 'azure_openai'],
    ['res.privatelink.openai.azure.us', 'azure_openai'],
    ['res.cognitiveservices.azure.us', 'azure_openai'],
    ['res.services.ai.azure.cn', 'azure_openai'],
    ['eastus.api.cognitive.microsoft.com', 'azure_openai'],
    ['virginia.api.cognitive.microsoft.us', 'azure_openai'],
    ['phi-3-mini-abc.eastus2.models.ai.azure.com', 'azure_openai'],
    ['llama-abc.westus3.inference.ai.azure.com', 'azure_openai'],
    ['models.inference.ai.azure.com', 'github_models'],
    ['codestral.mistral.ai', 'mistral'],
    ['bedrock-runtime.us-gov-west-1.amazonaws.com', 'bedrock'],
    ['bedrock-runtime.us-east-1.api.aws', 'bedrock'],
    ['bedrock-runtime-fips.us-gov-east-1.api.aws', 'bedrock'],
    ['bedrock-runtime.cn-north-1.amazonaws.com.cn', 'bedrock'],
    ['bedrock-runtime.eusc-de-east-1.amazonaws.eu', 'bedrock'],
    ['vpce-0abc-12de.bedrock-runtime.us-east-1.vpce.amazonaws.com', 'bedrock'],
    ['vpce-0abc-12de-us-east-1a.bedrock-runtime-fips.us-east-1.vpce.amazonaws.com', 'bedrock'],
    ['vpce-0abc-12de.bedrock-mantle.eu-west-1.vpce.amazonaws.com', 'bedrock'],
    ['vpce-0abc-12de.bedrock-runtime.cn-north-1.vpce.amazonaws.com.cn', 'bedrock'],
    ['aiplatform-genai1.p.googleapis.com', 'vertex'],
    ['us-central1-aiplatform.p.googleapis.com', 'vertex'],
    ['us-central1-aiplatform-restricted.p.googleapis.com', 'vertex'],
    ['aiplatform.us-central1.p.rep.googleapis.com', 'vertex'],
    ['eu-west-1.api.x.ai', 'xai'],
    ['mtls.api.x.ai', undefined],
    ['eu.openrouter.ai', 'openrouter'],
    ['audio-prod.us-virginia-1.direct.fireworks.ai', 'fireworks'],
    ['abc123.us-east-1.aws.endpoints.huggingface.cloud', 'huggingface_endpoints'],
    ['dashscope-us.aliyuncs.com', 'alibaba'],
    ['dashscope-finance.aliyuncs.com', 'alibaba'],
    ['cn-hongkong.dashscope.aliyuncs.com', 'alibaba'],
    ['coding-intl.dashscope.aliyuncs.com', 'alibaba'],
    ['vpc-cn-beijing.dashscope.aliyuncs.com', 'alibaba'],
    ['ws-4ei01.ap-southeast-1.maas.aliyuncs.com', 'alibaba'],
    ['ep-2zei69.dashscope.cn-beijing.privatelink.aliyuncs.com', 'alibaba'],
    ['api.tokenfactory.us-central1.nebius.com', 'nebius'],
    ['api.eu.residency.elevenlabs.io', 'elevenlabs'],
    ['ark.ap-southeast.bytepluses.com', 'volcengine'],
    ['staging-cloudcode-pa.sandbox.googleapis.com', 'gemini_code_assist'],
    ['api.individual.githubcopilot.com', 'github_copilot'],
    ['proxy.enterprise.githubcopilot.com', 'github_copilot'],
    ['telemetry.business.githubcopilot.com', 'github_copilot'],
    ['origin-tracker.githubusercontent.com', 'github_copilot'],
    ['copilot-proxy.acme.ghe.com', 'github_copilot'],
    ['copilot-api.acme.ghe.com', 'github_copilot'],
    ['acme.ghe.com', undefined],
    // What anybody can have for a name is none.
    ['bedrock-runtime.s3.amazonaws.com', undefined],
    ['bedrock-runtime.s3-us-west-2.amazonaws.com', undefined],
    ['bedrock-runtime.s3-website-us-east-1.amazonaws.com', undefined],
    ['vpce-0abc-12de.vpce-svc-0123.us-east-1.vpce.amazonaws.com', undefined],
    ['bucket.vpce-0abc-12de.s3.us-east-1.vpce.amazonaws.com', undefined],
    ['x.bedrock-runtime.us-east-1.vpce.amazonaws.com', undefined],
    ['vpce-1.bedrock-runtime.us-east-1.vpce.amazonaws.com.evil.example', undefined],
    ['res.openai.azure.us.evil.example', undefined],
    ['res.openai.azure.evil.example', undefined],
    ['evilopenai.azure.us', undefined],
    ['res.openai.azure.com.cn', undefined],
    ['storage-mine.p.googleapis.com', undefined],
    ['evil.us-central1-aiplatform.p.googleapis.com', undefined],
    ['mydashscope.aliyuncs.com', undefined],
    ['dashscope.oss-cn-beijing.aliyuncs.com', undefined],
    ['x.dashscope.cn-beijing.privatelink.aliyuncs.com', undefined],
    ['evil-eu-west-1.api.x.ai.evil.example', undefined],
    ['localhost', undefined],
    ['127.0.0.1', undefined],
  ];
  for (const [host, want] of table) t.equal(catalogue.providerForHost(host)?.id, want, host);
});

t.test('provider, method and path give the operation', async (t) => {
  // provider, method, path, action type, dialect, known
  const table: readonly [string, string, string, string, string | undefined, boolean][] = [
    ['openai', 'POST', '/v1/chat/completions', 'ai.infer', 'openai_chat', true],
    ['openai', 'post', '/v1/chat/completions', 'ai.infer', 'openai_chat', true],
    ['openai', 'POST', '/v1/chat/completions/', 'ai.infer', 'openai_chat', true],
    ['openai', 'POST', '/v1/chat/completions?x=1', 'ai.infer', 'openai_chat', true],
    ['openai', 'GET', '/v1/chat/completions', 'http.request', undefined, true],
    ['openai', 'POST', '/v1/chat/completions/extra', 'ai.infer', undefined, false],
    ['openai', 'POST', '/v1/responses', 'ai.infer', 'openai_responses', true],
    ['openai', 'POST', '/v1/responses/input_tokens', 'http.request', undefined, true],
    ['openai', 'GET', '/v1/responses/resp_1', 'http.request', 'openai_responses', true],
    ['openai', 'DELETE', '/v1/responses/resp_1', 'http.request', undefined, true],
    ['openai', 'POST', '/v1/embeddings', 'ai.embed', 'openai_embeddings', true],
    ['openai', 'POST', '/v1/moderations', 'ai.moderate', 'openai_moderations', true],
    ['openai', 'POST', '/v1/images/edits', 'ai.infer', 'openai_images_form', true],
    ['openai', 'POST', '/v1/files', 'http.request', undefined, true],
    ['openai', 'POST', '/v1/batches', 'http.request', undefined, true],
    ['openai', 'POST', '/v1/batches/b_1/cancel', 'http.request', undefined, true],
    ['openai', 'GET', '/v1/models', 'http.request', undefined, true],
    ['openai', 'POST', '/v1/something_new', 'ai.infer', undefined, false],
    ['openai', 'POST', '/', 'ai.infer', undefined, false],
    ['anthropic', 'POST', '/v1/messages', 'ai.infer', 'anthropic_messages', true],
    ['anthropic', 'POST', '/v1/messages?beta=true', 'ai.infer', 'anthropic_messages', true],
    ['anthropic', 'POST', '/v1/messages/count_tokens', 'http.request', undefined, true],
    ['anthropic', 'POST', '/v1/messages/batches', 'http.request', undefined, true],
    ['anthropic', 'HEAD', '/', 'http.request', undefined, true],
    ['gemini', 'POST', '/v1/models/gemini-2.5-pro:generateContent', 'ai.infer', 'gemini_generate', true],
    ['gemini', 'POST', '/v1beta/models/gemini-2.5-pro:streamGenerateContent', 'ai.infer', 'gemini_generate', true],
    ['gemini', 'POST', '/v1beta/models/gemini-2.5-pro%3AgenerateContent', 'ai.infer', 'gemini_generate', true],
    ['gemini', 'POST', '/v1beta/models/gemini-embedding-001:batchEmbedContents', 'ai.embed', 'gemini_embed', true],
    ['gemini', 'POST', '/v1beta/models/gemini-2.5-pro:countTokens', 'http.request', undefined, true],
    ['gemini', 'POST', '/v1beta/models/gemini-2.5-pro:newVerb', 'ai.infer', 'gemini_generate', false],
    ['gemini', 'POST', '/v1beta/interactions', 'ai.infer', 'gemini_interactions', true],
    ['gemini', 'GET', '/v1beta/models/gemini-2.5-pro', 'http.request', undefined, true],
    ['gemini', 'POST', '/upload/v1beta/files', 'http.request', undefined, true],
    ['azure_openai', 'POST', '/openai/deployments/dep-1/chat/completions', 'ai.infer', 'azure_chat', true],
    ['azure_openai', 'POST', '/OpenAI/Deployments/dep-1/Chat/Completions', 'ai.infer', 'azure_chat', true],
    ['azure_openai', 'POST', '/openai/v1/chat/completions', 'ai.infer', 'openai_chat', true],
    ['azure_openai', 'POST', '/openai/responses', 'ai.infer', 'azure_responses', true],
    ['azure_openai', 'POST', '/anthropic/v1/messages', 'ai.infer', 'anthropic_messages', true],
    ['azure_openai', 'POST', '/openai/deployments/dep-1/embeddings', 'ai.embed', 'azure_embeddings', true],
    ['cohere', 'POST', '/v2/chat', 'ai.infer', 'cohere_chat', true],
    ['cohere', 'POST', '/v1/chat', 'ai.infer', 'cohere_chat_v1', true],
    ['cohere', 'POST', '/v2/embed', 'ai.embed', 'cohere_embed', true],
    ['cohere', 'POST', '/v1/tokenize', 'http.request', undefined, true],
    ['mistral', 'POST', '/v1/chat/completions', 'ai.infer', 'mistral_chat', true],
    ['mistral', 'POST', '/v1/conversations/conv_1', 'ai.infer', 'mistral_conversations', true],
    ['azure_openai', 'POST', '/v1/chat/completions', 'ai.infer', 'endpoint_chat', true],
    ['azure_openai', 'POST', '/chat/completions?api-version=2024-05-01-preview', 'ai.infer', 'endpoint_chat', true],
    ['azure_openai', 'POST', '/v2/rerank', 'ai.infer', 'endpoint_cohere_rerank', true],
    ['github_models', 'POST', '/chat/completions', 'ai.infer', 'openai_chat', true],
    ['github_models', 'POST', '/orgs/acme/inference/chat/completions', 'ai.infer', 'openai_chat', true],
    ['fireworks', 'POST', '/v1/audio/transcriptions', 'ai.infer', 'openai_audio_form', true],
    ['jina', 'POST', '/v1/chat/completions', 'ai.infer', 'openai_chat', true],
    ['groq', 'POST', '/openai/v1/chat/completions', 'ai.infer', 'groq_chat', true],
    ['xai', 'POST', '/v1/chat/completions', 'ai.infer', 'xai_chat', true],
    ['deepseek', 'POST', '/chat/completions', 'ai.infer', 'deepseek_chat', true],
    ['deepseek', 'POST', '/v1/chat/completions', 'ai.infer', 'deepseek_chat', true],
    ['openrouter', 'POST', '/api/v1/chat/completions', 'ai.infer', 'openai_chat', true],
    ['bedrock', 'POST', '/model/amazon.nova-lite-v1%3A0/converse', 'ai.infer', 'bedrock_converse', true],
    [
      'bedrock',
      'POST',
      '/model/arn%3Aaws%3Abedrock%3Aeu-west-1%3A1%3Aapplication-inference-profile%2Fx/converse-stream',
      'ai.infer',
      'bedrock_converse',
      true,
    ],
    ['bedrock', 'POST', '/model/anthropic.claude-3-haiku-20240307-v1:0/invoke', 'ai.infer', 'bedrock_anthropic', true],
    ['bedrock', 'POST', '/model/eu.anthropic.claude-x/invoke-with-response-stream', 'ai.infer', 'bedrock_anthropic', true],
    ['bedrock', 'POST', '/model/meta.llama3-8b-instruct-v1%3A0/invoke', 'ai.infer', 'bedrock_invoke', true],
    ['bedrock', 'POST', '/model/amazon.titan-embed-text-v2%3A0/invoke', 'ai.embed', 'bedrock_embed', true],
    ['bedrock', 'POST', '/model/us.cohere.embed-v4%3A0/invoke', 'ai.embed', 'bedrock_embed', true],
    ['bedrock', 'POST', '/model/x/count-tokens', 'http.request', undefined, true],
    ['bedrock', 'POST', '/guardrail/g/version/DRAFT/apply', 'ai.moderate', undefined, true],
    ['bedrock', 'POST', '/model/x/new-verb', 'ai.infer', 'bedrock_invoke', false],
    [
      'vertex',
      'POST',
      '/v1/projects/p/locations/global/publishers/google/models/gemini-x:generateContent',
      'ai.infer',
      'gemini_generate',
      true,
    ],
    ['vertex', 'POST', '/v1beta1/projects/p/locations/l/endpoints/123:streamGenerateContent', 'ai.infer', 'gemini_generate', true],
    ['vertex', 'POST', '/v1/projects/p/locations/l/endpoints/123:predict', 'ai.infer', 'vertex_endpoint', false],
    ['vertex', 'POST', '/v1/publishers/google/models/gemini-x:streamGenerateContent', 'ai.infer', 'gemini_generate', true],
    ['vertex', 'POST', '/v1/projects/p/locations/l/publishers/google/models/imagen-4:predict', 'ai.infer', 'gemini_predict', true],
    [
      'vertex',
      'POST',
      '/v1/projects/p/locations/l/publishers/google/models/text-embedding-005:predict',
      'ai.embed',
      'gemini_predict',
      true,
    ],
    [
      'vertex',
      'POST',
      '/v1/projects/p/locations/l/publishers/anthropic/models/claude-x@1:streamRawPredict',
      'ai.infer',
      'vertex_anthropic',
      true,
    ],
    ['vertex', 'POST', '/v1/projects/p/locations/l/publishers/anthropic/models/count-tokens:rawPredict', 'http.request', undefined, true],
    ['vertex', 'POST', '/v1/projects/p/locations/l/publishers/mistralai/models/m:rawPredict', 'ai.infer', 'vertex_mistral', true],
    ['vertex', 'POST', '/v1/projects/p/locations/l/endpoints/openapi/chat/completions', 'ai.infer', 'google_chat', true],
    ['cohere', 'POST', '/v2/audio/transcriptions', 'ai.infer', undefined, true],
    ['huggingface', 'POST', '/together/v1/chat/completions', 'ai.infer', 'openai_chat', true],
    ['ollama', 'POST', '/api/chat', 'ai.infer', 'ollama', true],
    ['ollama', 'POST', '/v1/chat/completions', 'ai.infer', 'openai_chat', true],
    ['voyage', 'POST', '/v1/rerank', 'ai.infer', 'rerank', true],
    ['replicate', 'POST', '/v1/models/meta/llama/predictions', 'ai.infer', 'replicate_prediction', true],
    ['elevenlabs', 'POST', '/v1/text-to-speech/v/stream', 'ai.infer', 'elevenlabs_speech', true],
    ['github_copilot', 'POST', '/chat/completions', 'ai.infer', 'openai_chat', true],
    ['bedrock', 'POST', '/openai/v1/chat/completions', 'ai.infer', 'openai_chat', true],
    ['bedrock', 'POST', '/openai/v1/responses', 'ai.infer', 'openai_responses', true],
    ['bedrock', 'POST', '/openai/v1/responses/compact', 'ai.infer', 'openai_responses', true],
    ['bedrock', 'POST', '/v1/chat/completions', 'ai.infer', 'openai_chat', true],
    ['bedrock', 'POST', '/v1/responses', 'ai.infer', 'openai_responses', true],
    ['bedrock', 'POST', '/v1/responses/compact', 'ai.infer', 'openai_responses', true],
    ['bedrock', 'GET', '/v1/responses/r1', 'http.request', 'openai_responses', true],
    ['bedrock', 'POST', '/anthropic/v1/messages', 'ai.infer', 'bedrock_messages', true],
    ['bedrock', 'POST', '/anthropic/v1/messages/count_tokens', 'http.request', undefined, true],
    ['azure_openai', 'POST', '/anthropic/v1/messages/count_tokens', 'http.request', undefined, true],
    ['deepseek', 'POST', '/anthropic/v1/messages', 'ai.infer', 'anthropic_messages', true],
    ['deepseek', 'POST', '/anthropic/v1/messages/count_tokens', 'http.request', undefined, true],
    ['minimax', 'POST', '/anthropic/v1/messages', 'ai.infer', 'anthropic_messages', true],
    ['minimax', 'POST', '/anthropic/v1/messages/count_tokens', 'http.request', undefined, true],
    ['moonshot', 'POST', '/anthropic/v1/messages', 'ai.infer', 'anthropic_messages', true],
    ['moonshot', 'POST', '/anthropic/v1/messages/count_tokens', 'http.request', undefined, true],
    ['novita', 'POST', '/anthropic/v1/messages', 'ai.infer', 'anthropic_messages', true],
    ['novita', 'POST', '/anthropic/v1/messages/count_tokens', 'http.request', undefined, true],
    ['zai', 'POST', '/api/anthropic/v1/messages', 'ai.infer', 'anthropic_messages', true],
    ['zai', 'POST', '/api/anthropic/v1/messages/count_tokens', 'http.request', undefined, true],
    ['alibaba', 'POST', '/apps/anthropic/v1/messages', 'ai.infer', 'anthropic_messages', true],
    ['alibaba', 'POST', '/apps/anthropic/v1/messages/count_tokens', 'http.request', undefined, true],
    ['fireworks', 'POST', '/inference/v1/messages', 'ai.infer', 'anthropic_messages', true],
    ['fireworks', 'POST', '/inference/v1/messages/count_tokens', 'http.request', undefined, true],
    ['ollama', 'POST', '/v1/messages', 'ai.infer', 'anthropic_messages', true],
    ['ollama', 'POST', '/v1/messages/count_tokens', 'http.request', undefined, true],
    ['siliconflow', 'POST', '/v1/messages', 'ai.infer', 'anthropic_messages', true],
    ['siliconflow', 'POST', '/v1/messages/count_tokens', 'http.request', undefined, true],
    ['xai', 'POST', '/v1/messages', 'ai.infer', 'anthropic_messages', true],
    ['xai', 'POST', '/v1/messages/count_tokens', 'http.request', undefined, true],
    ['openrouter', 'POST', '/api/v1/messages', 'ai.infer', 'anthropic_messages', true],
    ['openrouter', 'POST', '/api/v1/messages/count_tokens', 'http.request', undefined, true],
    ['github_copilot', 'POST', '/v1/messages', 'ai.infer', 'anthropic_messages', true],
    ['github_copilot', 'POST', '/v1/messages/count_tokens', 'http.request', undefined, true],
    ['azure_openai', 'POST', '/openai/v1/responses', 'ai.infer', 'azure_responses', true],
    ['azure_openai', 'POST', '/openai/v1/responses/compact', 'ai.infer', 'azure_responses', true],
    ['azure_openai', 'GET', '/openai/v1/responses/r1', 'http.request', 'azure_responses', true],
    ['azure_openai', 'POST', '/api/projects/p/openai/v1/responses', 'ai.infer', 'azure_responses', true],
    ['azure_openai', 'POST', '/api/projects/p/openai/v1/responses/compact', 'ai.infer', 'azure_responses', true],
    ['azure_openai', 'GET', '/api/projects/p/openai/v1/responses/r1', 'http.request', 'azure_responses', true],
    ['azure_openai', 'POST', '/api/projects/p/openai/v1/chat/completions', 'ai.infer', 'openai_chat', true],
    ['azure_openai', 'POST', '/API/Projects/P/OpenAI/v1/Responses', 'ai.infer', 'azure_responses', true],
    ['azure_openai', 'POST', '/models/images/embeddings', 'ai.embed', 'openai_embeddings', true],
    ['azure_openai', 'POST', '/providers/cohere/v2/rerank', 'ai.infer', 'cohere_rerank', true],
    ['azure_openai', 'POST', '/providers/cohere/v2/embed', 'ai.embed', 'cohere_embed', true],
    ['azure_openai', 'POST', '/providers/mistral/azure/ocr', 'ai.infer', 'mistral_ocr', true],
    ['huggingface', 'POST', '/groq/openai/v1/chat/completions', 'ai.infer', 'openai_chat', true],
    ['huggingface', 'POST', '/fireworks-ai/inference/v1/chat/completions', 'ai.infer', 'openai_chat', true],
    ['huggingface', 'POST', '/sambanova/v1/chat/completions', 'ai.infer', 'openai_chat', true],
    ['huggingface', 'POST', '/cerebras/v1/chat/completions', 'ai.infer', 'openai_chat', true],
    ['huggingface', 'POST', '/hyperbolic/v1/chat/completions', 'ai.infer', 'openai_chat', true],
    ['huggingface', 'POST', '/nebius/v1/chat/completions', 'ai.infer', 'openai_chat', true],
    ['huggingface', 'POST', '/novita/v3/openai/chat/completions', 'ai.infer', 'openai_chat', true],
    ['huggingface', 'POST', '/nscale/v1/chat/completions', 'ai.infer', 'openai_chat', true],
    ['huggingface', 'POST', '/cohere/compatibility/v1/chat/completions', 'ai.infer', 'openai_chat', true],
    ['huggingface', 'POST', '/featherless-ai/v1/chat/completions', 'ai.infer', 'openai_chat', true],
    ['huggingface', 'POST', '/deepinfra/v1/openai/chat/completions', 'ai.infer', 'openai_chat', true],
    ['huggingface', 'POST', '/zai-org/api/paas/v4/chat/completions', 'ai.infer', 'openai_chat', true],
    ['huggingface', 'POST', '/featherless-ai/v1/completions', 'ai.infer', 'openai_completions', true],
    ['huggingface', 'POST', '/a/b/v1/chat/completions', 'ai.infer', undefined, false],
    ['vertex', 'POST', '/v1/projects/p/locations/l/endpoints/openapi/embeddings', 'ai.embed', 'openai_embeddings', true],
    [
      'vertex',
      'POST',
      '/v1/projects/p/locations/l/publishers/mistralai/models/mistral-ocr-2505:rawPredict',
      'ai.infer',
      'vertex_mistral_ocr',
      true,
    ],
    [
      'vertex',
      'POST',
      '/v1/projects/p/locations/l/publishers/mistralai/models/mistral-large:rawPredict',
      'ai.infer',
      'vertex_mistral',
      true,
    ],
    ['vertex', 'POST', '/v1/projects/p/locations/l/publishers/ai21/models/jamba-1.5-mini@001:rawPredict', 'ai.infer', 'vertex_raw', true],
    [
      'vertex',
      'POST',
      '/v1/projects/p/locations/l/publishers/ai21/models/jamba-1.5-mini@001:streamRawPredict',
      'ai.infer',
      'vertex_raw',
      true,
    ],
    ['vertex', 'POST', '/v1/projects/p/locations/l/publishers/meta/models/llama:rawPredict', 'ai.infer', 'vertex_raw', false],
    ['voyage', 'POST', '/v1/contextualizedembeddings', 'ai.embed', 'voyage_inputs', true],
    ['openrouter', 'POST', '/api/v1/rerank', 'ai.infer', 'rerank', true],
    ['perplexity', 'POST', '/v1/sonar', 'ai.infer', 'perplexity_chat', true],
    ['perplexity', 'POST', '/v1/async/sonar', 'ai.infer', 'perplexity_async', true],
    ['perplexity', 'POST', '/v1/agent', 'ai.infer', 'openai_responses', true],
    ['perplexity', 'POST', '/v1/responses', 'ai.infer', 'openai_responses', true],
    ['perplexity', 'POST', '/v1/contextualizedembeddings', 'ai.embed', 'openai_embeddings', true],
  ];
  for (const [id, method, path, type, dialect, known] of table) {
    const operation = catalogue.operation(provider(id), method, path);
    t.strictSame([operation.actionType, operation.dialect?.id, operation.known], [type, dialect, known], `${id} ${method} ${path}`);
  }
  t.equal(catalogue.operation(provider('openai'), 'POST', '/v1/audio/transcriptions').multipart, true);
});

t.test("Anthropic's format is understood below every base that a vendor has for it", async (t) => {
  for (const path of ['/messages', '/v1/messages', '/anthropic/v1/messages'])
    t.equal(
      catalogue.template('openai')?.operations.find('POST', path, false).dialect?.id,
      'anthropic_messages',
      `a custom connector: ${path}`,
    );
  const bases: readonly [string, readonly string[]][] = [
    ['api.moonshot.ai', ['/anthropic']],
    ['dashscope-intl.aliyuncs.com', ['/apps/anthropic', '/api/v2/apps/claude-code-proxy']],
    ['coding.dashscope.aliyuncs.com', ['/apps/anthropic']],
    ['ws-1.cn-beijing.maas.aliyuncs.com', ['/apps/anthropic']],
    ['api.novita.ai', ['/anthropic']],
    ['api.ppio.com', ['/anthropic']],
    ['api.siliconflow.com', ['', '/anthropic']],
    ['api.fireworks.ai', ['/inference']],
    ['ollama.com', ['']],
    ['api.deepseek.com', ['/anthropic']],
    ['api.z.ai', ['/api/anthropic']],
    ['open.bigmodel.cn', ['/api/anthropic']],
    ['api.minimax.io', ['/anthropic']],
    ['openrouter.ai', ['/api']],
    ['api.x.ai', ['']],
    ['ai-gateway.vercel.sh', ['']],
    ['ark.cn-beijing.volces.com', ['/api/coding', '/api/plan', '/api/compatible']],
    ['ark.ap-southeast.bytepluses.com', ['/api/coding']],
    ['api-inference.modelscope.cn', ['']],
    ['qianfan.baidubce.com', ['/anthropic', '/anthropic/coding', '/anthropic/tokenplan/personal']],
    ['api.lkeap.cloud.tencent.com', ['/coding/anthropic']],
    ['api.stepfun.com', ['', '/step_plan']],
    ['api.longcat.chat', ['/anthropic']],
    ['token-plan-cn.xiaomimimo.com', ['/anthropic']],
    ['api.groq.com', ['/anthropic', '/openai']],
    ['api.deepinfra.com', ['/anthropic']],
    ['router.huggingface.co', ['']],
    ['integrate.api.nvidia.com', ['']],
    ['api.together.xyz', ['']],
    ['res.services.ai.azure.us', ['/anthropic']],
    ['bedrock-runtime.us-east-1.api.aws', ['', '/anthropic']],
    ['aws-external-anthropic.us-east-1.api.aws', ['']],
  ];
  for (const [host, paths] of bases) {
    const found = catalogue.providerForHost(host);
    if (found === undefined) throw new Error(`${host} is no AI host`);
    t.ok(
      found.auth.some(({ header }) => header === 'x-api-key'),
      `${host} takes a key where clients of the format put it`,
    );
    for (const path of paths) {
      const call = catalogue.operation(found, 'POST', `${path}/v1/messages?beta=true`);
      t.match(call, { actionType: 'ai.infer', known: true, dialect: { errorShape: 'anthropic' } }, `${host}${path}`);
      const count = catalogue.operation(found, 'POST', `${path}/v1/messages/count_tokens?beta=true`);
      t.match(count, { actionType: 'http.request', detailType: 'ai.count_tokens' }, `${host}${path}, tokens`);
    }
  }
});

t.test('a WebSocket upgrade of a realtime path is inference, the same GET without upgrade is not', async (t) => {
  const table: readonly [string, string, boolean][] = [
    ['openai', '/v1/realtime?model=gpt-realtime', true],
    ['openai', '/v1/responses', true],
    ['openai', '/v1/models', false],
    ['gemini', '/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent', true],
    ['azure_openai', '/openai/realtime', true],
    ['mistral', '/v1/audio/transcriptions/realtime', true],
  ];
  for (const [id, path, want] of table) {
    const operation = catalogue.operation(provider(id), 'GET', path, true);
    t.strictSame([operation.websocket, operation.actionType === 'ai.infer'], [want, want], `${id} ${path}`);
    t.equal(catalogue.operation(provider(id), 'GET', path).actionType, 'http.request', `${id} ${path} without upgrade`);
  }
});

t.test('model and stream stand where the dialect says', async (t) => {
  const capture = (id: string, which: 'model' | 'stream', path: string): string | undefined => {
    const dialect = catalogue.dialect(id);
    const place = which === 'model' ? dialect?.model[0] : dialect?.stream;
    return place?.in === 'path' ? place.pattern.exec(path)?.[1] : undefined;
  };
  t.equal(capture('gemini_generate', 'model', '/v1beta/models/gemini-2.5-pro:generateContent'), 'gemini-2.5-pro');
  t.equal(capture('gemini_generate', 'model', '/v1beta/models/gemini-2.5-pro%3agenerateContent'), 'gemini-2.5-pro');
  t.equal(capture('gemini_generate', 'stream', '/v1/models/m:streamGenerateContent?alt=sse'), 'streamGenerateContent');
  t.equal(capture('gemini_generate', 'stream', '/v1/models/m:generateContent'), undefined);
  t.equal(capture('azure_chat', 'model', '/OPENAI/DEPLOYMENTS/my-gpt/chat/completions?api-version=1'), 'my-gpt');
  t.strictSame(catalogue.dialect('openai_audio_form')?.model, [{ in: 'form', field: 'model' }]);
});

t.test('the specified pairs hold whoever serves the model, the default is 10 / 30', async (t) => {
  const table: readonly [string, string, string, readonly string[]][] = [
    ['gpt-4o', '2.5', '10', ['openai', 'azure_openai', 'generic_http']],
    ['gpt-4o-2024-08-06', '2.5', '10', ['openai', 'azure_openai']],
    ['gpt-4o-2024-11-20', '2.5', '10', ['openai', 'azure_openai']],
    ['gpt-4o-2024-05-13', '5', '15', ['openai', 'azure_openai']],
    ['chatgpt-4o-latest', '5', '15', ['openai']],
    ['gpt-4o-mini', '0.15', '0.6', ['openai', 'azure_openai']],
    ['gpt-4o-mini-2024-07-18', '0.15', '0.6', ['openai']],
    ['gpt-4', '30', '60', ['openai']],
    ['gpt-4-0613', '30', '60', ['openai']],
    ['claude-3-opus-20240229', '15', '75', ['anthropic', 'azure_openai']],
    ['claude-3-opus', '15', '75', ['anthropic']],
    ['claude-3-5-sonnet-20241022', '3', '15', ['anthropic']],
    ['claude-3-5-sonnet-20240620', '3', '15', ['anthropic']],
    ['claude-3-5-haiku-20241022', '0.8', '4', ['anthropic']],
    ['GPT-4o', '2.5', '10', ['openai']],
    ['anthropic.claude-3-5-haiku-20241022-v1:0', '0.8', '4', ['bedrock']],
    ['eu.anthropic.claude-sonnet-4-6', '3.3', '16.5', ['bedrock']],
    ['claude-sonnet-4-5@20250929', '3', '15', ['vertex']],
    ['voyage-3', '0.06', '0', ['voyage']],
  ];
  for (const [model, input, output, ids] of table) {
    for (const id of ids) {
      const price = catalogue.price(id, model);
      t.strictSame([price.in, price.out, price.source], [input, output, 'catalogue'], `${id} ${model}`);
    }
  }
  for (const model of ['no-such-model', '', undefined, '__proto__', 'constructor']) {
    const price = catalogue.price('openai', model);
    t.strictSame([price.in, price.out, price.source], ['10', '30', 'default'], String(model));
  }
  t.equal(catalogue.price('openai', 'gpt-4o').maxOutputTokens, 16384);
});

t.test('the longest entry of the AI domain list wins', async (t) => {
  t.equal(catalogue.domain('api.openai.com')?.category, 'api');
  t.equal(catalogue.domain('www.chatgpt.com')?.vendor, 'OpenAI');
  t.equal(catalogue.domain('bedrock-runtime.eu-west-1.amazonaws.com')?.vendor, 'Amazon Bedrock');
  t.equal(catalogue.domain('bedrock-runtime.a.b.amazonaws.com'), undefined, 'a star is one label');
  t.equal(catalogue.domain('example.com'), undefined);
  t.equal(catalogue.domain('notchatgpt.com'), undefined);
});

t.test('every mistake of a table is named with its place, all at once', async (t) => {
  const broken = shippedProviders
    .replace('dialect: openai_chat }', 'dialect: openai_chatt }')
    .replace('neutral_id: provider_b', 'neutral_id: provider_a')
    .replace('kind: mistral', 'kindd: mistral')
    .replace('hosts: [api.x.ai]', 'hosts: [API.x.ai]')
    .replace('bedrock-mantle.{region}.api.aws', 'bedrock-mantle.{region}.aws')
    .replace("['*.endpoints.huggingface.cloud']", "['x.*.huggingface.cloud']")
    .replace('verbs: [converse, converse-stream]', 'verbs: [converse]')
    .replace("plan_paths: ['/zen/go/**']", 'plan_paths: [/zen/go]')
    .replace('query: alt=sse', 'query: alt');
  const problems = details(() =>
    loadCatalogue({
      sources: {
        providers: broken,
        prices:
          'provider,model,in,out,cached_in,cache_write,units,source,source_date,valid_from\nopenai,m,x,1,,,,a,b,\nnobody,m,1,1,,,,a,b,\nopenai,M,1,1,,,,a,b,\nopenai,n,1,1,,,pages=x,a,b,\n',
        priceCorrections:
          'provider,model,in,out,cached_in,cache_write,audio_in,source,source_date,valid_from,reason\nopenai,m,1,1,,,,a,b,,\n',
        priceTerms:
          'list,model,term,factor,in,out,cached_in,source,source_date\nopenai,m,tier,2,,,,a,b\nopenai,m,a=b,x,,,,a,b\nopenai,m,a=b,,1,y,,a,b\n',
        maxOutputs: 'provider,model,max_output\nopenai,m,many\n',
        priceList: '[{"id":"p","name":"P","api_pattern":"p","models":[{"id":"m","match":{"equals":"m"},"prices":{"input_mtok":-1}}]}]',
      },
    }),
  );
  for (const want of [
    /providers.yaml:\d+: .*openai_chatt/,
    /name provider_a is also openai's/,
    /kindd/,
    /kind is missing/,
    /API\.x\.ai/,
    /bedrock-mantle\.\{region\}\.aws" is no host pattern with a star or/,
    /customer_host_patterns "x\.\*\.huggingface\.cloud" is no host pattern/,
    /verbs must be/,
    /query must be name=value/,
    /plan_paths must be paths that end with/,
    /prices.csv:2: .*rate/,
    /prices.csv:3: .*nobody/,
    /prices.csv:4: .*in lower case/,
    /prices.csv:5: .*"pages=x" is no rate of a unit/,
    /price-corrections.csv:2: .*says why/,
    /price-terms.csv:2: .*"tier" is no term/,
    /price-terms.csv:3: .*"x" is no factor/,
    /price-terms.csv:4: .*"y" is no rate/,
    /max-outputs.csv:2: .*"many"/,
    /price-list.json.*p m prices input_mtok must be an amount/,
  ]) {
    t.ok(
      problems.some((problem) => want.test(problem)),
      `${want} in ${problems.length} problems`,
    );
  }
  t.match(
    details(() => loadCatalogue({ sources: { providers: 'schema: x\n' } })),
    [/schema/],
  );
  t.match(
    details(() => loadCatalogue({ sources: { domains: 'domain,vendor\n' } })),
    [/first line/],
  );
});

t.test('the tree that the build makes of the registry says what its YAML says, and counts for that text alone', async (t) => {
  const root = packageRoot();
  const text = readFileSync(join(root, 'src/base/catalogue/data/providers.yaml'), 'utf8');
  const built = JSON.parse(readFileSync(join(root, 'build/catalogue/providers.json'), 'utf8')) as { readonly sha256: string };
  t.equal(built.sha256, sha256Hex(text));
  t.same(loadCatalogue().providers, loadCatalogue({ sources: { providers: `${text}\n# another text\n` } }).providers);
});

t.test('no host, method or path makes a look-up throw', async (t) => {
  const ids = catalogue.providers.map((row) => row.id);
  t.doesNotThrow(() =>
    fc.assert(
      fc.property(fc.constantFrom(...ids), fc.string(), fc.webPath(), fc.string(), fc.boolean(), (id, method, path, text, upgrade) => {
        const operation = catalogue.operation(provider(id), method, path + text, upgrade);
        catalogue.providerForHost(text);
        catalogue.domain(text);
        catalogue.price(text, text);
        return (
          typeof operation.actionType === 'string' &&
          (operation.known || operation.actionType === 'ai.infer' || operation.actionType === 'http.request') &&
          // What passes unseen is no inference by any row.
          (catalogue.isCall(provider(id), method, path + text) || operation.actionType === 'http.request')
        );
      }),
      { numRuns: 300 },
    ),
  );
});
