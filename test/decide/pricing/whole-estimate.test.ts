import t from 'tap';
import { loadCatalogue } from '../../../src/base/catalogue/catalogue.ts';
import { namedModels } from '../../../src/base/catalogue/named-models.ts';
import type { Operation, Price } from '../../../src/base/catalogue/types.ts';
import { usdFromPico } from '../../../src/base/lib/money.ts';
import { type Estimate, type EstimateOverrides, estimate, estimateCall } from '../../../src/decide/pricing/estimate.ts';

const catalogue = loadCatalogue();
/** USD per million tokens, so that a million tokens of output cost so much. */
const price = (out: string, more: Partial<Price> = {}): Price => ({
  in: '0',
  out,
  source: 'override',
  maxOutputTokens: undefined,
  ...more,
});
const PRICES: Readonly<Record<string, Price>> = {
  own: price('1'),
  dear: price('10'),
  small: price('0.5', { maxOutputTokens: 100 }),
  long: price('0.5', { maxOutputTokens: 65_536 }),
  reads: price('1', { in: '4' }),
  image: price('2', { imageOut: '40' }),
  searches: price('1', { units: { web_searches: { usd: '10', per: 1000 }, file_searches: { usd: '2.5', per: 1000 } } }),
  asked: price('1', { units: { requests: { usd: '5', per: 1000 }, web_searches: { usd: '10', per: 1000 } } }),
  paged: price('0', { units: { pages: { usd: '1', per: 1000 }, annotated_pages: { usd: '3', per: 1000 } } }),
  ranked: price('0', { units: { search_units: { usd: '2', per: 1000 } } }),
  tiered: price('1', {
    terms: [
      { term: 'service_tier=priority', factor: '2' },
      { term: 'service_tier=flex', factor: '0.5' },
      { term: 'speed=fast', factor: '6' },
      { term: 'latency=optimized', factor: '1.25' },
    ],
  }),
};

function priceOf(model: string | undefined): Price {
  return PRICES[model ?? ''] ?? catalogue.price('openai', 'nobody knows it');
}

function operationOf(id: string, path: string): Operation {
  const provider = catalogue.provider(id);
  if (provider === undefined) throw new Error(id);
  return catalogue.operation(provider, 'POST', path);
}

interface Asked {
  readonly overrides?: EstimateOverrides;
  readonly cachedRates?: boolean;
}

function estimated(
  operation: Operation,
  params: Readonly<Record<string, unknown>>,
  { overrides, cachedRates = true }: Asked = {},
): Estimate {
  const own = priceOf(String(params['model'] ?? params['model_id'] ?? 'own'));
  const named = namedModels(operation, params);
  return estimateCall({ params, dialect: operation.dialect, overrides, price: own, named, priceOf, cachedRates });
}

/** What a call may cost by its own words, and what is set aside. */
function costs(operation: Operation, params: Readonly<Record<string, unknown>>, asked?: Asked): readonly string[] {
  const { costPico, reservePico } = estimated(operation, params, asked);
  return [usdFromPico(costPico), usdFromPico(reservePico)];
}

const both = (usd: string): readonly string[] => [usd, usd];
const chat = operationOf('openrouter', '/api/v1/chat/completions');
const responses = operationOf('openai', '/v1/responses');
const messages = operationOf('anthropic', '/v1/messages');
const MILLION = { model: 'own', messages: [], max_tokens: 1_000_000 };

t.test('a call that names one model has the estimate of that', async (t) => {
  t.same(estimated(chat, MILLION), estimate(MILLION, chat.dialect, undefined, priceOf('own'), true));
});

t.test('of models that may answer the dearest counts, each with its own rates and its own maximum', async (t) => {
  t.same(costs(chat, { ...MILLION, models: ['small', 'dear'] }), both('10'));
  t.same(costs(chat, { ...MILLION, models: ['small'] }), both('1'), 'a cheaper one makes it no cheaper');
  t.same(costs(chat, { ...MILLION, fallbacks: [{ model: 'small', max_tokens: 4_000_000 }] }), both('2'));
  t.same(costs(chat, { ...MILLION, fallbacks: [{ model: 'dear', max_tokens: 1000 }] }), both('1'));
  t.same(costs(chat, { ...MILLION, models: ['unheard-of'] }), both('30'), 'without a listed price it is the default');
  const open = { model: 'own', messages: [] };
  t.same(costs(chat, { ...open, models: ['small'] }), both('0.001024'), 'what is assumed of each is its own');
  const { tokensOutMax, reservedOut } = estimated(chat, { ...MILLION, models: ['dear'] });
  t.same([tokensOutMax, reservedOut], [1_000_000, 1_000_000], 'counts are those of its own model');
  const longer = [{ model: 'reads', max_tokens: 1, messages: [{ role: 'user', content: 'word '.repeat(50_000) }] }];
  t.ok(estimated(chat, { ...open, max_tokens: 1, fallbacks: longer }).costPico > 100_000_000_000n, 'a prompt of its own');
});

t.test('an override is of the answer, whichever model gives it', async (t) => {
  const asked = { overrides: { tokens_out_max: 100_000 } };
  t.same(costs(chat, { ...MILLION, models: ['dear'] }, asked), ['1', '10'], 'what is set aside is the larger all the same');
  t.equal(estimated(chat, { ...MILLION, models: ['dear'] }, asked).tokensOutMax, 100_000);
});

t.test('a model inside of the call reads its prompt and says what the call lets it say, in addition', async (t) => {
  const advisor = (more: object) => ({ ...MILLION, tools: [{ type: 'advisor_20260301', model: 'dear', max_tokens: 100_000, ...more }] });
  t.same(costs(messages, advisor({})), both('2'), 'once where nothing is said');
  t.same(costs(messages, advisor({ max_uses: 3 })), both('4'));
  t.same(costs(messages, advisor({ max_uses: 0 })), both('1'));
  t.same(costs(messages, advisor({ model: 'own', max_tokens: null })), both('1.001024'), 'what is assumed of any model');
  t.same(costs(messages, advisor({ model: 'small', max_tokens: null })), both('1.00005'), 'or of that one');
  const text = 'word '.repeat(50_000);
  const reads = {
    ...MILLION,
    messages: [{ role: 'user', content: text }],
    tools: [{ type: 'advisor_20260301', model: 'reads', max_tokens: 1, max_uses: 2 }],
  };
  const { reservedIn, costPico } = estimated(messages, reads);
  t.equal(costPico, 1_000_000_000_000n + 2n * (4_000_000n * BigInt(reservedIn) + 1_000_000n));
  t.same(costs(messages, { ...advisor({}), fallbacks: [{ model: 'dear' }] }), both('11'), 'beside those that may answer');
  const fusion = { ...MILLION, plugins: [{ id: 'fusion', model: 'small', analysis_models: ['small', 'small'], max_tool_calls: 2 }] };
  t.same(costs(chat, fusion), both('1.0003'), 'each of a panel, as often as it may run');
  t.same(costs(chat, { ...MILLION, moderation: { model: 'dear' } }), both('1'), 'moderation is free');
  const realtime = { ...operationOf('openai', '/v1/responses'), dialect: catalogue.dialect('openai_realtime_call') };
  const session = { model: 'own', max_output_tokens: 1_000_000, audio: { input: { transcription: { model: 'dear' } } } };
  t.same(
    namedModels(realtime, session)?.inner.map(({ model }) => model),
    ['dear'],
  );
  t.same(costs(realtime, session), both('1'), 'a transcript is billed beside the call');
  const data = [{ type: 'azure_search', parameters: { embedding_dependency: { deployment_name: 'reads' } } }];
  const azure = operationOf('azure_openai', '/openai/deployments/own/chat/completions');
  t.same(costs(azure, { ...MILLION, data_sources: data }), both('1'), 'what embeds a question says nothing');
});

t.test('a picture has the tokens of its quality, its size and its steps', async (t) => {
  const draws = (more: object, call: object = {}) => ({
    model: 'own',
    max_output_tokens: 1_000_000,
    tools: [{ type: 'image_generation', model: 'image', ...more }],
    ...call,
  });
  // 6,240 tokens at 40 USD per million.
  t.same(costs(responses, draws({})), both('1.2496'));
  t.same(costs(responses, draws({ quality: 'low' })), both('1.01632'));
  t.same(costs(responses, draws({ quality: 'medium', size: '1024x1024' })), both('1.06336'));
  t.same(costs(responses, draws({ quality: 'max' })), both('1.2496'), 'of what nobody has counted yet the highest that was');
  t.same(costs(responses, draws({ size: '2048x3072' })), both('1.9984'));
  t.same(costs(responses, draws({ size: '999999x999999' })), both('1.2496'), 'which is no size');
  t.same(costs(responses, draws({ partial_images: 3 })), both('1.2616'));
  t.same(costs(responses, draws({ frame_count: 2 })), both('1.4992'));
  t.same(costs(responses, draws({}, { max_tool_calls: 4 })), both('1.9984'), 'as many as the call allows');
  t.same(costs(responses, draws({}, { max_tool_calls: 0 })), both('1'));
  t.same(costs(responses, draws({ svg: { model: 'dear' } })), both('1.25984'), 'and the author of a drawing');
  const images = operationOf('openai', '/v1/images/generations');
  t.same(costs(images, { model: 'image', prompt: '', n: 2 }), both('0.4992'), 'of the images endpoint too');
  t.same(costs(images, { model: 'image', prompt: '', quality: 'low', n: 1 }), both('0.01632'));
  t.same(
    costs(operationOf('openai', '/v1/images/edits'), { model: 'image', n: '2', quality: 'low' }),
    both('0.03264'),
    'and of its form, where all is text',
  );
});

t.test('what is billed beside tokens counts as often as the call says, else once', async (t) => {
  const own = { model: 'searches', messages: [], max_tokens: 1_000_000 };
  const claude = (more: object) => ({ ...own, tools: [{ type: 'web_search_20260209', name: 'web_search', ...more }] });
  t.same(costs(messages, claude({})), both('1.01'));
  t.same(costs(messages, claude({ max_uses: 5 })), both('1.05'));
  t.same(costs(messages, claude({ max_uses: 0 })), both('1'));
  t.same(costs(messages, claude({ max_uses: 5 }), { cachedRates: false }), both('1'), 'the formula to the letter knows tokens alone');
  t.same(costs(messages, { ...own, tools: [{ name: 'web_search', input_schema: {} }] }), both('1'), 'a tool of the caller is none');
  const openai = { model: 'searches', max_output_tokens: 1_000_000 };
  const tools = [{ type: 'web_search' }, { type: 'file_search', vector_store_ids: [] }];
  t.same(costs(responses, { ...openai, tools }), both('1.0125'), 'each once');
  t.same(costs(responses, { ...openai, tools, max_tool_calls: 10 }), both('1.1'), 'all together no more than that, each time the dearest');
  t.same(
    costs(responses, { ...openai, tools: [...tools, { type: 'image_generation', model: 'image' }], max_tool_calls: 2 }),
    both('1.4992'),
  );
  t.same(costs(chat, { ...own, web_search_options: {} }), both('1.01'));
  t.same(costs(chat, { ...own, plugins: [{ id: 'web', max_results: 8 }] }), both('1.08'));
  t.same(costs(chat, { ...own, plugins: [{ id: 'web' }] }), both('1.01'));
  t.same(costs(chat, { ...own, tools: [{ type: 'openrouter:web_search', parameters: { max_total_results: 4 } }] }), both('1.04'));
  const gemini = operationOf('gemini', '/v1beta/models/searches:generateContent');
  const google = { model: 'searches', generationConfig: { maxOutputTokens: 1_000_000 } };
  t.same(costs(gemini, { ...google, tools: [{ google_search: {} }] }), both('1.01'));
  const sonar = operationOf('perplexity', '/chat/completions');
  t.same(costs(sonar, { model: 'asked', messages: [], max_tokens: 1_000_000 }), both('1.005'), 'a price for each request');
  t.same(
    costs(sonar, { model: 'own', messages: [], max_tokens: 1_000_000, models: ['asked'] }),
    both('1.005'),
    'at the price of the one that answers',
  );
  const ocr = operationOf('mistral', '/v1/ocr');
  t.same(costs(ocr, { model: 'paged', pages: [0, 1, 2], document_annotation_format: {} }), both('0.006'));
  t.same(
    costs(operationOf('cohere', '/v2/rerank'), { model: 'ranked', query: 'q', documents: Array.from({ length: 101 }, () => 'd') }),
    both('0.004'),
  );
});

t.test('terms that a call asks for have their rates; what is set aside covers that they are not granted', async (t) => {
  const own = { model: 'tiered', messages: [], max_tokens: 1_000_000 };
  t.same(costs(chat, { ...own, service_tier: 'priority' }), both('2'));
  t.same(costs(chat, { ...own, service_tier: 'fast' }), both('2'), 'by another of its words');
  t.same(costs(chat, { ...own, service_tier: 'flex' }), ['0.5', '1']);
  t.same(costs(chat, { ...own, service_tier: 'auto' }), both('1'));
  t.same(costs(chat, { ...own, service_tier: 'constructor' }), both('1'));
  t.same(costs(chat, { ...own, service_tier: ['priority'] }), both('1'));
  t.same(costs(messages, { ...own, speed: 'fast' }), both('6'));
  t.same(costs(messages, { ...own, fallbacks: [{ model: 'tiered', speed: 'fast' }] }), both('6'), 'of one that may answer');
  const converse = operationOf('bedrock', '/model/tiered/converse');
  const bedrock = { model: 'tiered', messages: [], inferenceConfig: { maxTokens: 1_000_000 } };
  t.same(costs(converse, { ...bedrock, serviceTier: { type: 'priority' } }), both('2'));
  t.same(costs(converse, { ...bedrock, performanceConfig: { latency: 'optimized' } }), both('1.25'));
});

/** Tokens of output that are assumed of `own`, which sets no maximum. */
const ASSUMED = 1_024;
const gemini = operationOf('gemini', '/v1beta/models/own:generateContent');
const vertex = operationOf('vertex', '/v1/projects/p/locations/l/publishers/google/models/own:streamGenerateContent');
const google = operationOf('gemini', '/v1beta/openai/chat/completions');
const vertexChat = operationOf('vertex', '/v1/projects/p/locations/l/endpoints/openapi/chat/completions');
const openai = operationOf('openai', '/v1/chat/completions');
const qwen = operationOf('openrouter', '/api/v1/chat/completions');
const converseOf = operationOf('bedrock', '/model/own/converse');
const cohere = operationOf('cohere', '/v2/chat');

t.test('tokens for thought count without a maximum, whatever their provider calls them', async (t) => {
  const asks: readonly (readonly [string, Operation, object])[] = [
    ['Gemini', gemini, { generationConfig: { thinkingConfig: { thinkingBudget: 32_000 } } }],
    ['Gemini, snake case', gemini, { generation_config: { thinking_config: { thinking_budget: 32_000 } } }],
    ['Gemini, both', gemini, { generationConfig: { thinking_config: { thinkingBudget: 32_000 } } }],
    ['Gemini, a number as text', gemini, { generationConfig: { thinkingConfig: { thinkingBudget: '32000' } } }],
    ['Gemini, a number as text with a fraction', gemini, { generationConfig: { thinkingConfig: { thinkingBudget: '32000.0' } } }],
    ['Gemini, a number as text with an exponent', gemini, { generationConfig: { thinkingConfig: { thinkingBudget: '3.2e4' } } }],
    ['what a client lays over the body', google, { google: { thinking_config: { thinking_budget: ' +32000' } } }],
    ['Vertex', vertex, { generationConfig: { thinkingConfig: { thinkingBudget: 32_000 } } }],
    [
      'Code Assist',
      operationOf('gemini_code_assist', '/v1internal:generateContent'),
      { request: { generationConfig: { thinkingConfig: { thinkingBudget: 32_000 } } } },
    ],
    ['OpenAI-like door of Gemini', google, { extra_body: { google: { thinking_config: { thinking_budget: 32_000 } } } }],
    ['the same, camel case', google, { extra_body: { google: { thinkingConfig: { thinkingBudget: 32_000 } } } }],
    ['its generation config', google, { extra_body: { google: { generationConfig: { thinkingConfig: { thinkingBudget: 32_000 } } } } }],
    ['in a container in a container', google, { extra_body: { extra_body: { google: { thinking_config: { thinking_budget: 32_000 } } } } }],
    ['OpenAI-like door of Vertex', vertexChat, { extra_body: { google: { thinking_config: { thinking_budget: 32_000 } } } }],
    ['Anthropic', messages, { thinking: { type: 'enabled', budget_tokens: 32_000 } }],
    ['Anthropic behind the format of OpenAI', openai, { thinking: { type: 'enabled', budget_tokens: 32_000 } }],
    ['Bedrock', converseOf, { additionalModelRequestFields: { thinking: { type: 'enabled', budget_tokens: 32_000 } } }],
    ['Bedrock, another name', converseOf, { additionalModelRequestFields: { reasoning_config: { budget_tokens: 32_000 } } }],
    ['OpenRouter', qwen, { reasoning: { max_tokens: 32_000 } }],
    ['Qwen', qwen, { enable_thinking: true, thinking_budget: 32_000 }],
    ['Qwen in a container', qwen, { extra_body: { thinking_budget: 32_000 } }],
    ['a template of vLLM', qwen, { chat_template_kwargs: { thinking_budget: 32_000 } }],
    ['Cohere', cohere, { thinking: { type: 'enabled', token_budget: 32_000 } }],
    ['options of the AI SDK', openai, { providerOptions: { google: { thinkingConfig: { thinkingBudget: 32_000 } } } }],
  ];
  for (const [what, operation, said] of asks) {
    const { tokensOutMax, reservedOut, statedOut } = estimated(operation, { model: 'own', messages: [], contents: [], ...said });
    t.same([tokensOutMax, reservedOut, statedOut], [ASSUMED + 32_000, ASSUMED + 32_000, undefined], what);
  }
});

t.test('beside a maximum the larger of the two counts, and thought outside of the maximum is added', async (t) => {
  const out = (operation: Operation, said: object) =>
    estimated(operation, { model: 'own', messages: [], contents: [], ...said }).tokensOutMax;
  const config = (more: object) => ({ generationConfig: { maxOutputTokens: 2_000, ...more } });
  t.equal(out(gemini, config({ thinkingConfig: { thinkingBudget: 500 } })), 2_000);
  t.equal(out(gemini, config({ thinkingConfig: { thinkingBudget: 32_000 } })), 32_000);
  t.equal(out(gemini, config({ thinkingConfig: { thinkingBudget: 0 } })), 2_000);
  t.equal(out(messages, { max_tokens: 3_000, thinking: { type: 'enabled', budget_tokens: 2_000 } }), 3_000);
  t.equal(out(messages, { max_tokens: 3_000, thinking: { type: 'disabled' } }), 3_000);
  t.equal(out(qwen, { max_tokens: 1_000, thinking_budget: 9_000 }), 10_000, 'Qwen bounds the answer alone');
  t.equal(out(openai, { max_tokens: 1_000, extra_body: { max_tokens: 7_000 } }), 7_000, 'whichever is honoured');
  t.equal(out(openai, { extra_body: { max_tokens: 10 } }), ASSUMED, 'a container lowers nothing');
  t.equal(out(google, { extra_body: { google: { generationConfig: { maxOutputTokens: 60_000 } } } }), 60_000);
  t.equal(out(google, { max_tokens: 10, extra_body: { google: { generation_config: { candidate_count: 8 } } } }), 80);
  t.equal(out(openai, { max_tokens: 10, n: 2, extra_body: { n: 4 } }), 40);
  t.equal(estimated(qwen, { model: 'own', messages: [], max_tokens: 1_000, thinking_budget: 9_000 }).statedOut, 10_000);
});

t.test(
  'thought that its model decides about has the whole output of the model, and words of effort what their provider says',
  async (t) => {
    const out = (operation: Operation, model: string, said: object) =>
      estimated(operation, { model, messages: [], contents: [], ...said }).tokensOutMax;
    const dynamic = { generationConfig: { thinkingConfig: { thinkingBudget: -1 } } };
    t.equal(out(gemini, 'own', dynamic), ASSUMED + 32_768);
    t.equal(out(gemini, 'own', { generationConfig: { thinkingConfig: { thinkingBudget: '-1' } } }), ASSUMED + 32_768);
    t.equal(out(gemini, 'small', dynamic), 100 + 100);
    t.equal(out(gemini, 'long', dynamic), 4_096 + 32_768, 'a model that puts out more thinks no more');
    t.equal(
      out(gemini, 'own', { generationConfig: { maxOutputTokens: 50, thinkingConfig: { thinkingBudget: -1 } } }),
      50,
      'a maximum holds',
    );
    for (const [word, tokens] of [
      ['none', 0],
      ['minimal', 512],
      ['low', 1_024],
      ['medium', 8_192],
      ['HIGH', 24_576],
      ['constructor', 0],
    ] as const) {
      t.equal(out(google, 'own', { reasoning_effort: word }), ASSUMED + tokens, word);
      t.equal(out(gemini, 'own', { generationConfig: { thinkingConfig: { thinkingLevel: word } } }), ASSUMED + tokens, word);
      for (const said of [
        { extra_body: { google: { thinking_config: { thinkingLevel: word } } } },
        { extra_body: { google: { generationConfig: { thinking_config: { thinking_level: word } } } } },
        { extra_body: { reasoning_effort: word } },
        { provider_options: { google: { thinkingConfig: { thinkingLevel: word } } } },
      ])
        t.equal(out(google, 'own', said), ASSUMED + tokens, JSON.stringify(said));
      t.equal(out(openai, 'own', { extra_body: { reasoning_effort: word } }), ASSUMED);
      t.equal(out(openai, 'own', { reasoning_effort: word }), ASSUMED, 'where nobody says how many tokens it is');
      t.equal(out(google, 'own', { reasoning_effort: word, max_tokens: 90 }), 90, 'a maximum holds');
    }
  },
);

t.test('what is no number of tokens counts for nothing, and a container that nobody can look through for all', async (t) => {
  const out = (said: object) => estimated(openai, { model: 'own', messages: [], ...said }).tokensOutMax;
  for (const value of ['many', '', null, true, [], {}, Number.NaN, '0x10', '1e', '1 2'])
    t.equal(out({ thinking_budget: value }), ASSUMED, JSON.stringify(value));
  t.equal(out({ thinking: 'enabled', reasoning: null, extra_body: 7 }), ASSUMED);
  t.equal(out({ thinking_budget: 10.5 }), ASSUMED + 11);
  let deep: object = { thinking_budget: 1 };
  for (let i = 0; i < 20; i++) deep = { more: deep };
  t.equal(out({ extra_body: deep }), ASSUMED + 32_768);
  t.equal(out({ extra_body: deep, max_tokens: 10 }), 32_768, 'also beside a maximum');
  t.equal(out({ model: 'long', extra_body: deep, max_tokens: 10 }), 65_536);
  let schema: object = { type: 'string', thinking: { max_tokens: 9_000 } };
  for (let i = 0; i < 20; i++) schema = { type: 'object', properties: { inner: schema, max_tokens: { maximum: 9_000 } } };
  const bias = Object.fromEntries(Array.from({ length: 5_000 }, (_, i) => [`${i}`, -100]));
  for (const said of [
    { extra_body: { guided_json: schema } },
    { extra_body: { logit_bias: bias } },
    { extra_body: { response_format: { json_schema: { schema } } } },
  ])
    t.equal(out(said), ASSUMED, 'data is none, however deep or large it is');
  for (const name of ['responseSchema', 'response_schema', 'responseJsonSchema'])
    t.equal(estimated(gemini, { model: 'own', contents: [], generationConfig: { [name]: schema } }).tokensOutMax, ASSUMED, name);
  const wide = Object.fromEntries(Array.from({ length: 5_000 }, (_, i) => [`m${i}`, i]));
  t.equal(out({ extra_body: wide }), ASSUMED + 32_768);
  t.equal(
    out({ metadata: { thinking_budget: 9_000, n: 50 }, messages: [{ role: 'user', content: [{ thinking: { budget_tokens: 9_000 } }] }] }),
    ASSUMED,
    'data is none',
  );
});

t.test('a model in a container that is handed on is one that may answer', async (t) => {
  t.same(costs(openai, { ...MILLION, extra_body: { model: 'dear' } }), both('10'));
  t.same(costs(openai, { ...MILLION, provider_options: { openai: { model: 'dear' } } }), both('10'));
  t.same(costs(openai, { ...MILLION, extra_body: { user: 'x' } }), both('1'));
});
