// What clients send to AI hosts beside their calls: telemetry, tracing, files, models, sign-in, settings, feature
// flags. It is no inference, so no cap and no rule about models refuses it.
import t from 'tap';
import { bundleOf, chat, startGoverned } from '../support/governed.ts';

const HOSTS = [
  'openrouter.ai',
  'api.x.ai',
  'api.groq.com',
  'api.together.xyz',
  'api.fireworks.ai',
  'api.deepseek.com',
  'api.z.ai',
  'api.moonshot.ai',
  'api.perplexity.ai',
  'api.voyageai.com',
  'api.replicate.com',
  'api.elevenlabs.io',
  'res.openai.azure.us',
  'res.services.ai.azure.cn',
  'bedrock-mantle.us-east-1.api.aws',
  'vpce-1-a.bedrock-runtime.us-gov-west-1.vpce.amazonaws.com',
  'aws-external-anthropic.us-east-1.api.aws',
  'us-central1-aiplatform.p.googleapis.com',
  'aiplatform-mine.p.googleapis.com',
];
const VERTEX = '/v1/projects/p/locations/l';

/** By host: what its clients and SDKs send. */
const BESIDE: Readonly<Record<string, readonly string[]>> = {
  'api.anthropic.com': [
    'POST /api/event_logging/v2/batch',
    'POST /api/event_logging/batch',
    'POST /api/eval/sdk-zAZezfDKGoZuXXKe',
    'GET /api/claude_cli/bootstrap?entrypoint=cli',
    'POST /api/claude_code/metrics',
    'POST /api/claude_cli_feedback',
    'POST /api/claude_code_shared_session_transcripts',
    'GET /api/claude_code_penguin_mode',
    'PATCH /api/oauth/account/settings',
    'POST /api/oauth/claude_cli/create_api_key',
    'POST /api/oauth/file_upload',
    'POST /api/organizations/o/reset_rate_limits',
    'POST /api/hello',
    'POST /api/frame/track',
    'POST /v1/oauth/token',
    'POST /v1/messages/count_tokens?beta=true',
    'POST /v1/messages/batches?beta=true',
    'POST /v1/files?beta=true',
    'POST /v1/mcp/server_1',
    'POST /v1/environments/bridge',
    'POST /v1/code/sessions/s/worker/heartbeat',
    'PUT /v1/code/sessions/s/worker',
    'POST /v1/sessions/s/archive?beta=true',
    'POST /v1/memory_stores/m/memories?beta=true',
    'POST /v1/vaults/v/credentials?beta=true',
    'POST /v1/traces',
    'POST /v1/metrics',
    'POST /v1/logs',
  ],
  'api.openai.com': [
    'POST /v1/traces/ingest',
    'POST /v1/responses/input_tokens',
    'POST /v1/files',
    'POST /v1/uploads/u/parts',
    'POST /v1/vector_stores/v/file_batches',
    'POST /v1/chat/completions/chatcmpl-1',
    'POST /v1/chatkit/sessions',
    'POST /v1/webhook_endpoints/w/test',
    'POST /v1/vaults/v/credentials',
    'POST /v1/projects/p/roles',
    'POST /v1/realtime/calls/c/hangup',
    'POST /v1/live/sessions/s/hangup',
    'POST /v1/agents/environments',
    'POST /v1/agents/a',
    'POST /v1/videos/characters',
    'POST /v1/audio/voices',
    'POST /v1/content_provenance_checks',
    'POST /v1/alpha/search',
    'POST /v1/analytics-events/events',
    'POST /v1/organization/projects',
    'POST /oauth/token',
  ],
  'generativelanguage.googleapis.com': [
    'POST /v1beta/models/gemini-2.5-pro:countTokens',
    'POST /upload/v1beta/files',
    'POST /v1beta/files:register',
    'POST /v1beta/cachedContents',
    'PATCH /v1beta/cachedContents/c',
    'POST /v1beta/fileSearchStores/f:importFile',
    'POST /v1beta/batches/b:cancel',
    'POST /v1alpha/auth_tokens',
  ],
  'api.mistral.ai': [
    'POST /v1/files',
    'POST /v1/libraries/l/documents',
    'POST /v1/connectors',
    'PATCH /v1/agents/a',
    'POST /v1/observability/traces/search',
    'POST /v1/service-accounts',
    'POST /v1/audio/voices',
  ],
  'api.cohere.com': ['POST /v1/tokenize', 'POST /v1/datasets', 'POST /v2/batches', 'POST /v1/check-api-key'],
  'openrouter.ai': ['POST /api/v1/auth/keys', 'POST /api/v1/keys', 'POST /api/v1/guardrails', 'POST /api/v1/files'],
  'api.x.ai': ['POST /v1/tokenize-text', 'POST /v1/documents/search', 'POST /v1/files', 'POST /v1/traces/ingest'],
  'api.groq.com': ['POST /openai/v1/files', 'POST /openai/v1/batches', 'POST /openai/v1/fine_tuning'],
  'api.together.xyz': ['POST /v1/files/upload', 'POST /v1/fine-tunes', 'POST /v1/endpoints'],
  'api.fireworks.ai': ['POST /v1/accounts/a/deployments'],
  'api.deepseek.com': ['POST /v1/traces/ingest'],
  'api.z.ai': ['POST /api/mcp/web_search_prime/mcp', 'POST /api/anthropic/api/event_logging/batch', 'POST /api/paas/v4/web_search'],
  'api.moonshot.ai': ['POST /v1/tokenizers/estimate-token-count', 'POST /v1/files'],
  'api.perplexity.ai': ['POST /generate_auth_token'],
  'api.voyageai.com': ['POST /v1/files', 'POST /v1/batches'],
  'api.replicate.com': ['POST /v1/files', 'POST /v1/models', 'POST /v1/predictions/p/cancel'],
  'api.elevenlabs.io': ['POST /v1/voices/add', 'POST /v1/user/subscription'],
  // The same, and what there is beside it, at clouds.
  'res.openai.azure.us': [
    'POST /openai/v1/files',
    'POST /openai/v1/evals/e/runs',
    'POST /openai/v1/assistants',
    'PUT /openai/deployments/d',
    'DELETE /openai/operations/images/x',
    'POST /openai/realtimeapi/sessions',
  ],
  'res.services.ai.azure.cn': [
    'POST /api/projects/p/threads/t/messages',
    'POST /api/projects/p/evaluations/runs:run',
    'POST /anthropic/v1/messages/batches',
    'POST /anthropic/v1/messages/count_tokens',
  ],
  'bedrock-mantle.us-east-1.api.aws': ['POST /v1/files', 'POST /v1/batches', 'GET /v1/models', 'POST /anthropic/v1/messages/batches'],
  'vpce-1-a.bedrock-runtime.us-gov-west-1.vpce.amazonaws.com': ['POST /model/x/count-tokens', 'GET /async-invoke/i'],
  'aws-external-anthropic.us-east-1.api.aws': ['POST /v1/messages/batches', 'POST /v1/skills', 'POST /api/event_logging/batch'],
  'us-central1-aiplatform.p.googleapis.com': [
    `POST ${VERTEX}/operations/o:wait`,
    `POST ${VERTEX}/endpoints/e:deployModel`,
    `PATCH ${VERTEX}/ragEngineConfig`,
    `POST ${VERTEX}/publishers/google/models/m:countTokens`,
  ],
  'aiplatform-mine.p.googleapis.com': [`POST ${VERTEX}/cachedContents`, `POST ${VERTEX}/batchPredictionJobs/b:cancel`],
  'ollama.com': ['POST /api/show', 'POST /api/web_search', 'POST /api/me', 'POST /api/pull'],
};

const ALLOW = '  connectors:\n    - {id: all, effect: {decision: allow}}\n';
const EVIL = `${ALLOW}  targets:\n    - {id: evil, when: {field: context.action.params.model, equals: evil}, effect: {decision: deny}}\n`;
const CAPS = '  budgets:\n    - {id: cap, effect: {budget: {usd_max: "0.000001", monthly_usd_max: "0.000001"}}}\n';

for (const [what, rules] of [
  ['a rule about models', EVIL],
  ['a cap', ALLOW + CAPS],
] as const) {
  t.test(`${what} refuses nothing that is no inference, and everything that nobody knows`, async (t) => {
    const { through, recordOf } = await startGoverned(t, { hosts: HOSTS, bundle: bundleOf(rules) });
    for (const [host, requests] of Object.entries(BESIDE)) {
      for (const request of requests) {
        const [method = '', path = ''] = request.split(' ');
        const asked = method === 'GET' ? { method, path } : { ...chat([], path, { model: 'evil', data: [] }), method };
        const answer = await through(`${host}:443`, asked);
        t.equal(answer.status, 200, `${host}: ${request}`);
        t.match(await recordOf(answer), { decision: 'allow', action_type: 'http.request' }, `${host}: ${request}`);
      }
      const unknown = await through(`${host}:443`, chat([], '/brand/new/inference', { model: 'good' }));
      t.match(await recordOf(unknown), { decision: 'deny', reason_codes: ['operation_not_understood'], action_type: 'ai.infer' }, host);
    }
  });
}
