// Which paths of a host are calls, which of them a plan pays for, and what is no inference (decisions 3.8 and 6.3).
import t from 'tap';
import { loadCatalogue } from '../../../src/base/catalogue/catalogue.ts';
import type { Provider } from '../../../src/base/catalogue/types.ts';

const catalogue = loadCatalogue();

function provider(id: string): Provider {
  const found = catalogue.provider(id);
  if (found === undefined) throw new Error(`there is no ${id}`);
  return found;
}

t.test('a path of a shared host is a call when a row, or a server that reads it loosely, says so', (t) => {
  const chatgpt = provider('chatgpt');
  for (const [method, path, isCall] of [
    ['POST', '/backend-api/codex/responses', true],
    ['post', '/backend-api/codex/responses/', true],
    ['DELETE', '/backend-api/codex/responses?x', true],
    ['POST', '/backend-api/codex/brand/new', true],
    ['POST', '/%2562ackend-api/codex/x', true],
    ['POST', '/BACKEND-API/codex/x', true],
    ['POST', '/a/..;x/backend-api;y/codex/x', true],
    ['POST', '/backend-api/codex/models/x/../../responses', true],
    ['POST', '/backend-api/codex/models', false],
    ['POST', '/backend-api/codex', true],
    ['POST', '/backend-api/codexes/responses', false],
    ['POST', '/x/backend-api/codex/responses', false],
    ['POST', '/backend-api/conversation?next=/backend-api/codex/responses', false],
    ['GET', '/', false],
    ['GET', '', false],
  ] as const)
    t.equal(catalogue.isCall(chatgpt, method, path), isCall, `${method} ${path}`);
  t.equal(catalogue.isCall(provider('openai'), 'GET', '/'), true, 'of a host that is not shared everything is decided');
  t.equal(catalogue.operation(chatgpt, 'POST', '/backend-api/conversation').rest, true);
  t.equal(catalogue.operation(chatgpt, 'POST', '/backend-api/codex/models').rest, undefined);
  t.equal(catalogue.operation(provider('zai'), 'POST', '/api/coding/paas/v4/brand/new').plan, true);
  t.equal(catalogue.operation(provider('zai'), 'POST', '/api/paas/v4/chat/completions').plan, undefined);
  t.end();
});

t.test('a path of a shared host that some server reads as that of a call is one', (t) => {
  for (const [id, path] of [
    // What a segment that leads upwards takes away: an empty one, one with a parameter, one that some servers take for
    // two, or for an upward one itself.
    ['chatgpt', '/backend-api//../codex/responses'],
    ['chatgpt', '/backend-api/;x/../codex/responses'],
    ['chatgpt', '/backend-api/x%2fy/../codex/responses'],
    ['chatgpt', '/backend-api/x\\y/../codex/responses'],
    ['chatgpt', '/backend-api/%2e%2e/../codex/responses'],
    ['chatgpt', '/backend-api/%252e%252e/%2E./codex/responses'],
    ['chatgpt', '/%3Fx/../backend-api/codex/responses'],
    ['chatgpt', '/%23/..;a=b/backend-api/codex/responses'],
    ['chatgpt', '/x#/../backend-api/codex/responses'],
    ['chatgpt', '/backend-api/wham/%2e%2e%2fcodex/responses'],
    ['chatgpt', '/backend-api/x/..%20/codex/responses'],
    ['chatgpt', '//chatgpt.com/backend-api/codex/responses'],
    ['chatgpt', '/backend-api/co%0adex/responses'],
    ['github_copilot', '/chat/completions%20'],
    ['github_copilot', '/chat/completions.'],
    ['github_copilot', '/chat/completions%00.png'],
    ['github_copilot', '/chat./completions'],
    ['github_copilot', '/agents/x/../../chat/completions'],
    ['github_copilot', '/chat/x//../../completions'],
    ['github_copilot', '/%2Fevil/v1/%65ngines/m/completions'],
    ['github_copilot', '/v1/engines/copilot-codex/speculation'],
    // By gRPC, and by its kin for browsers.
    ['gemini_code_assist', '/google.internal.cloud.code.v1internal.PredictionService/GenerateContent'],
    ['gemini_code_assist', '/google.internal.cloud.code.v1internal.CloudCode/StreamGenerateContent'],
    ['gemini_code_assist', '/$rpc/google.internal.cloud.code.v1internal.PredictionService/StreamGenerateContent'],
    ['gemini_code_assist', '/%24rpc/google.internal.cloud.code.v1internal.PredictionService/StreamGenerateContent'],
    ['gemini_code_assist', '/v1internal%3a%67enerateContent'],
  ] as const)
    for (const method of ['POST', 'GET']) t.equal(catalogue.isCall(provider(id), method, path), true, `${id} ${method} ${path}`);
  // A row that says of one method what is no call does not hold for a path to which calls are posted.
  t.equal(catalogue.isCall(provider('github_copilot'), 'GET', '/responses/compact'), true);
  t.equal(catalogue.isCall(provider('github_copilot'), 'GET', '/responses/resp_1'), false);
  for (const [id, path] of [
    ['chatgpt', '/cdn/..%2Fassets/a.png'],
    ['chatgpt', '/a/../b.html'],
    ['chatgpt', '/files/Codex%20notes...pdf'],
    ['chatgpt', '/backend-api/files/download/x.codex'],
    ['chatgpt', '//cdn//x.js'],
    ['github_copilot', '/mcp/x_toolsets/issues'],
    ['gemini_code_assist', '/google.internal.cloud.code.v1internal.CloudCode/LoadCodeAssist'],
    ['opencode', '/docs/../zen'],
  ] as const)
    t.equal(catalogue.isCall(provider(id), 'GET', path), false, `${id} ${path}`);
  t.end();
});

t.test('what a plan pays for lies below the paths of the plan alone', (t) => {
  for (const [host, path, isPlanned] of [
    ['ark.cn-beijing.volces.com', '/api/coding/v3/chat/completions', true],
    ['ark.ap-southeast.bytepluses.com', '/api/plan/v3/responses', true],
    ['ark.cn-beijing.volces.com', '/api/coding/v1/messages', true],
    ['ark.cn-beijing.volces.com', '/api/plan/v1/messages', true],
    ['ark.cn-beijing.volces.com', '/api/coding/v3/brand/new', true],
    ['ark.cn-beijing.volces.com', '/api/v3/chat/completions', false],
    ['ark.cn-beijing.volces.com', '/api/compatible/v1/messages', false],
    ['ark.cn-beijing.volces.com', '/api/v3/bots/chat/completions', false],
    ['qianfan.baidubce.com', '/v2/coding/chat/completions', true],
    ['qianfan.baidubce.com', '/v2/tokenplan/personal/chat/completions', true],
    ['qianfan.bj.baidubce.com', '/anthropic/coding/v1/messages', true],
    ['qianfan.baidubce.com', '/anthropic/tokenplan/team/v1/messages', true],
    ['qianfan.baidubce.com', '/v2/chat/completions', false],
    ['qianfan.baidubce.com', '/anthropic/v1/messages', false],
    ['api.lkeap.cloud.tencent.com', '/coding/v3/chat/completions', true],
    ['api.lkeap.cloud.tencent.com', '/coding/anthropic/v1/messages', true],
    ['api.hunyuan.cloud.tencent.com', '/v1/chat/completions', false],
    ['tokenhub.tencentmaas.com', '/anthropic/v1/messages', false],
    ['api.stepfun.com', '/step_plan/v1/chat/completions', true],
    ['api.stepfun.ai', '/step_plan/v1/messages', true],
    ['api.stepfun.com', '/v1/chat/completions', false],
    ['api.stepfun.com', '/v1/messages', false],
    ['api.z.ai', '/api/coding/paas/v4/embeddings', true],
    ['api.z.ai', '/api/anthropic/v1/messages', false],
    ['api.kimi.com', '/coding/v1/messages', true],
    ['opencode.ai', '/zen/go/v1/messages', true],
    ['opencode.ai', '/zen/v1/messages', false],
    ['api.githubcopilot.com', '/v1/engines/x/completions', true],
    ['api.githubcopilot.com', '/v1/messages', false],
  ] as const) {
    const found = catalogue.providerForHost(host);
    const operation = found && catalogue.operation(found, 'POST', path);
    t.not(operation?.actionType, 'http.request', `${host}${path} is a call`);
    t.equal(operation?.plan === true, isPlanned, `${host}${path}`);
  }
  t.end();
});

t.test('what is no inference is none at any host, and what runs a model beside it is', (t) => {
  const azure = 'res.services.ai.azure.us';
  const vertex = 'us-central1-aiplatform.p.googleapis.com';
  const place = '/v1/projects/p/locations/l';
  const none: Readonly<Record<string, readonly string[]>> = {
    'api.openai.com': [
      '/v1/traces/ingest',
      '/v1/organization/projects',
      '/v1/usage',
      '/v1/dashboard/billing/usage',
      '/dashboard/onboarding',
      '/v1/evals/e/runs',
      '/v1/vector_stores/v/search',
      '/v1/containers/c/files',
      '/v1/chatkit/sessions',
      '/v1/chatkit/threads/t',
      '/v1/chatkit/files',
      '/v1/realtime/client_secrets',
    ],
    'api.anthropic.com': [
      '/api/oauth/profile',
      '/api/claude_cli_feedback',
      '/api/claude_code/metrics',
      '/api/hello',
      '/api/organizations/o/mcp/start-auth/h',
      '/api/event_logging/v2/batch',
      '/v1/messages/batches/b/cancel',
      '/v1/sessions/s/archive',
      '/v1/deployments/d/pause',
      '/v1/dreams/d/cancel',
      '/v1/skills',
    ],
    'generativelanguage.googleapis.com': [
      '/v1beta/cachedContents',
      '/v1beta/tunedModels/t/permissions',
      '/v1beta/tunedModels/t:countTokens',
      '/v1beta/fileSearchStores/f:importFile',
      '/v1beta/operations/o:cancel',
      '/v1beta/models/m:countTextTokens',
      '/resumable/upload/v1beta/files',
    ],
    [azure]: [
      '/openai/v1/files',
      '/openai/v1/assistants',
      '/openai/v1/threads/t/messages',
      '/openai/v1/evals/e/runs',
      '/openai/evals',
      '/openai/uploads/u/complete',
      '/openai/conversations/c/items',
      '/openai/realtimeapi/sessions',
      '/openai/operations/images/x',
      '/openai/responses/input_tokens',
      '/openai/deployments',
      '/OpenAI/v1/Traces/ingest',
      '/api/projects/p/openai/v1/evals',
      '/api/projects/p/assistants',
      '/api/projects/p/threads/t/messages',
      '/api/projects/p/agents/a/versions',
      '/api/projects/p/connections/c/getConnectionWithCredentials',
      '/api/projects/p/evaluations/runs:run',
      '/anthropic/v1/messages/batches',
      '/anthropic/v1/files',
      '/anthropic/v1/skills/s/versions',
      '/sts/v1.0/issueToken',
    ],
    'bedrock-mantle.us-east-1.api.aws': [
      '/v1/files',
      '/v1/batches/b/cancel',
      '/v1/messages/batches',
      '/anthropic/v1/messages/batches/b/cancel',
      '/openai/v1/responses/input_tokens',
    ],
    'aws-external-anthropic.us-east-1.api.aws': [
      '/v1/messages/batches',
      '/v1/skills',
      '/v1/agents/a/versions',
      '/v1/environments/e/work/poll',
      '/v1/organizations/workspaces',
      '/api/event_logging/batch',
    ],
    [vertex]: [
      `${place}/operations/o:cancel`,
      `${place}/endpoints/e/operations/o:wait`,
      `${place}/publishers/google/models/m/operations/o:wait`,
      `${place}/publishers/google/models/m:fetchPredictOperation`,
      `${place}/models:upload`,
      `${place}/endpoints`,
      `${place}/endpoints/e:deployModel`,
      `${place}/endpoints/e:countTokens`,
      `${place}/endpoints/e:fetchPredictOperation`,
      `${place}/datasets/d:import`,
      `${place}/customJobs/c:cancel`,
      `${place}/tuningJobs:rebaseTunedModel`,
      `${place}/ragCorpora/c/ragFiles:import`,
      `/upload${place}/ragCorpora/c/ragFiles:upload`,
      `${place}:retrieveContexts`,
      `${place}/reasoningEngines/r/sessions/s:appendEvent`,
      `${place}/reasoningEngines/r/memories:retrieve`,
      `${place}/indexEndpoints/i:findNeighbors`,
    ],
    'api.mistral.ai': ['/v1/batch/jobs', '/v1/files', '/v1/datalake/events', '/v1/observability/chat-completion-events/search'],
    'api.cohere.com': ['/v1/embed-jobs', '/v1/datasets', '/v2/batches'],
    'api.moonshot.ai': ['/anthropic/v1/messages/batches', '/anthropic/api/event_logging/batch', '/v1/tokenizers/estimate-token-count'],
    'openrouter.ai': ['/api/v1/messages/batches', '/api/v1/keys', '/api/v1/activity'],
    'api.fireworks.ai': ['/inference/v1/messages/batches/b/cancel', '/v1/accounts/a/deployments'],
    'api.together.xyz': ['/v1/endpoints', '/v1/fine-tunes', '/api/event_logging/v2/batch'],
    'ollama.com': ['/api/show', '/api/pull', '/v1/messages/batches', '/api/event_logging/batch'],
    'api.x.ai': ['/v1/tokenize-text', '/v1/realtime/client_secrets', '/v1/documents/search'],
    'ark.cn-beijing.volces.com': ['/api/v3/tokenization', '/api/coding/v1/messages/count_tokens'],
  };
  for (const [host, paths] of Object.entries(none)) {
    const found = catalogue.providerForHost(host);
    for (const path of paths)
      t.match(found && catalogue.operation(found, 'POST', path), { actionType: 'http.request', known: true }, `${host}${path}`);
  }
  const some: Readonly<Record<string, readonly string[]>> = {
    'api.anthropic.com': [
      '/v1/sessions',
      '/v1/sessions/s/events',
      '/v1/deployments/d/run',
      '/v1/dreams',
      '/api/organizations/o/chat_conversations/c/completion',
    ],
    [azure]: [
      '/openai/v1/threads/t/runs',
      '/openai/responses/compact',
      '/api/projects/p/threads/runs',
      '/api/projects/p/agents/a/endpoint/x',
    ],
    'aws-external-anthropic.us-east-1.api.aws': ['/v1/sessions', '/v1/sessions/s/events', '/v1/messages'],
    [vertex]: [
      `${place}/endpoints/e:predict`,
      `${place}/endpoints/e/invoke/x`,
      `${place}/models/m:generateContent`,
      `${place}/reasoningEngines/r:streamQuery`,
      `${place}/reasoningEngines/r/memories:generate`,
      `${place}:evaluateInstances`,
      '/v1/models/m:predict',
    ],
    'generativelanguage.googleapis.com': ['/v1beta/tunedModels/t:newVerb'],
    'api.mistral.ai': ['/v1/observability/judges'],
    'api.moonshot.ai': ['/anthropic/v1/complete'],
  };
  for (const [host, paths] of Object.entries(some)) {
    const found = catalogue.providerForHost(host);
    for (const path of paths) t.match(found && catalogue.operation(found, 'POST', path), { actionType: 'ai.infer' }, `${host}${path}`);
  }
  t.end();
});
