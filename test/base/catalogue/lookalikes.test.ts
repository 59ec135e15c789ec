// What AI calls and their hosts look like where no row has them (decision 12.3).
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { loadCatalogue } from '../../../src/base/catalogue/catalogue.ts';
import { CatalogueError } from '../../../src/base/catalogue/row-reader.ts';
import { packageRoot } from '../../../src/base/lib/package-root.ts';

const { lookalikes } = loadCatalogue();

t.test('a name looks like a provider by its pattern or a part of it', async (t) => {
  for (const [host, want] of [
    ['res.openai.azure.de', 'azure_openai'],
    ['res.services.ai.azure.example', 'azure_openai'],
    ['score.eastus.inference.ml.azure.com', 'azure_openai'],
    ['bedrock-runtime.us-iso-east-1.c2s.ic.gov', 'bedrock'],
    ['bedrock-agent-runtime.eu-west-1.amazonaws.com', 'bedrock'],
    ['us-central1-aiplatform.mtls.googleapis.com', 'vertex'],
    ['generativelanguage.mtls.googleapis.com', 'gemini'],
    ['cloudcode-pa.mtls.googleapis.com', 'gemini_code_assist'],
    ['grok.corp.example', 'xai'],
    ['gpt5.corp.example', 'openai'],
    ['dashscope.inner.example', 'alibaba'],
    ['llm.corp.example', 'openai'],
    ['litellm-prod.corp.example', 'openai'],
    ['claude.corp.example', 'anthropic'],
    ['my-ollama', 'ollama'],
    ['hillman.example', undefined],
    ['registry.npmjs.org', undefined],
    ['bigcohere.example', undefined],
    ['www.example.com', undefined],
  ] as const)
    t.equal(lookalikes.byName(host), want, host);
});

/** What a call looks like when these are the members of its body. */
function looks(path: string, members: readonly string[], method = 'POST'): string | undefined {
  const look = lookalikes.look(method, path, false);
  if (typeof look !== 'object') return look;
  const seen = members.reduce((bits, name) => bits | (look.bits.get(name) ?? 0), 0);
  return look.byPath(seen) ?? look.anywhere(seen);
}

t.test('a call looks like a wire format by how its path ends and by the members of its body', async (t) => {
  for (const [path, members, want] of [
    ['/v1/chat/completions', ['model', 'messages'], 'openai_chat'],
    ['/any/base/of/mine/chat/completions/?api-version=1', ['messages'], 'openai_chat'],
    ['/serving-endpoints/mine/invocations', ['messages'], 'openai_chat'],
    ['/v1/responses', ['model', 'input'], 'openai_responses'],
    ['/anthropic/v1/messages?beta=true', ['model', 'max_tokens', 'messages'], 'anthropic_messages'],
    ['/v1/messages/count_tokens', ['model', 'messages'], 'anthropic_messages'],
    ['/v1beta/models/gemini-x:streamGenerateContent?alt=sse', ['contents'], 'gemini_generate'],
    ['/google.cloud.aiplatform.v1.PredictionService/StreamGenerateContent', [], 'gemini_generate'],
    ['/model/amazon.nova-lite-v1%3A0/converse-stream', ['messages'], 'bedrock_converse'],
    ['/model/x/invoke', [], 'bedrock_invoke'],
    ['/v1/embeddings', ['model', 'input'], 'openai_embeddings'],
    ['/v1/audio/transcriptions', [], 'openai_audio_form'],
    ['/api/generate', ['model', 'prompt'], 'ollama'],
    ['/v1/rerank', ['query', 'documents', 'model'], 'rerank'],
    ['/whatever/it/is', ['stream', 'messages', 'model'], 'openai_chat'],
    ['/run', ['contents', 'generationConfig'], 'gemini_generate'],
    ['/v1/responses', ['model', 'previous_response_id'], 'openai_responses'],
    ['/v1/responses/compact', ['model', 'input'], 'openai_responses'],
    ['/v1/videos', ['model', 'prompt'], 'openai_videos'],
    ['/v1/messages/batches', ['requests'], 'anthropic_messages'],
    ['/v1beta/models/gemini-x%3AgenerateContent', ['contents'], 'gemini_generate'],
    ['/v1internal:streamGenerateContent?alt=sse', ['model', 'project', 'request'], 'code_assist'],
    ['/v1beta/interactions', ['model', 'input'], 'gemini_interactions'],
    ['/google.ai.generativelanguage.v1beta.GenerativeService/EmbedContent', [], 'gemini_embed'],
    ['/google.cloud.aiplatform.v1.PredictionService/Predict', [], 'gemini_predict'],
    ['/model/x/invoke-with-bidirectional-stream', [], 'bedrock_invoke'],
    ['/async-invoke', ['modelId', 'modelInput'], 'bedrock_async'],
    ['/v2/chat', ['model', 'messages'], 'cohere_chat'],
    ['/v1/chat', ['model', 'message'], 'cohere_chat_v1'],
    ['/v2/embed', ['model', 'inputs'], 'cohere_embed'],
    ['/rerank', ['query', 'texts'], 'rerank'],
    ['/api/embeddings', ['model', 'prompt'], 'ollama_embed'],
    ['/v1/agents/completions', ['agent_id', 'messages'], 'mistral_agents'],
    ['/v1/predictions', ['version', 'input'], 'replicate_prediction'],
    // What has only one of the two.
    ['/v1/videos', ['prompt'], undefined],
    ['/tensorflow.serving.PredictionService/Predict', [], undefined],
    ['/sessions/interactions', ['input'], undefined],
    ['/v1/chat/completions', ['model'], undefined],
    ['/rooms/1/messages', ['text'], undefined],
    ['/rooms/1/messages', ['messages'], undefined],
    ['/survey/responses', ['input'], undefined],
    ['/whatever/it/is', ['messages'], undefined],
    ['/upload', ['model'], undefined],
    ['/model/x/y/invoke', [], undefined],
  ] as const)
    t.equal(looks(path, members), want, `${path} ${members.join()}`);
  t.equal(looks('/v1/chat/completions', ['messages'], 'GET'), undefined);
  t.equal(lookalikes.look('GET', '/v1/realtime?model=x', true), 'openai_realtime');
  const bidi = 'google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent';
  t.equal(lookalikes.look('GET', `/ws/${bidi}`, true), 'gemini_generate');
  t.equal(lookalikes.look('GET', '/ws/google.cloud.aiplatform.v1.LlmBidiService/BidiGenerateContent', true), 'gemini_generate');
  t.equal(lookalikes.look('GET', '/chat', true), undefined);
});

t.test('a mistake in the table is named', async (t) => {
  const text = readFileSync(join(packageRoot(), 'src/base/catalogue/data/providers.yaml'), 'utf8');
  const broken = text
    .replace('{ like: gemini, parts: [gemini] }', '{ like: nobody, parts: [a.b] }')
    .replace("patterns: ['*generativelanguage*']", "patterns: ['a b']")
    .replace('{ like: rerank, path: /rerank, body', '{ like: rerankk, path: rerank, body')
    .replace('{ like: openai_chat, body: [model, messages] }', '{ like: openai_chat }');
  t.throws(() => loadCatalogue({ sources: { providers: broken } }), CatalogueError);
  try {
    loadCatalogue({ sources: { providers: broken } });
  } catch (error) {
    const said = error instanceof CatalogueError ? error.details.map(({ path, message }) => `${path} ${message}`).join('\n') : '';
    for (const want of [
      /"nobody" is no provider/,
      /"a\.b" is no part/,
      /"a b" is no host/,
      /"rerankk" is no dialect/,
      /end of a path/,
      /needed where any path/,
    ])
      t.match(said, want);
  }
});
