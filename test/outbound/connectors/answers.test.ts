import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { loadCatalogue } from '../../../src/base/catalogue/catalogue.ts';
import { JsonPicker } from '../../../src/base/json/json-picker.ts';
import { packageRoot } from '../../../src/base/lib/package-root.ts';
import { valueAt } from '../../../src/outbound/connectors/answer-paths.ts';
import { createAnswerReader } from '../../../src/outbound/connectors/answer-reader.ts';
import { readUsage, usageOfHeaders } from '../../../src/outbound/connectors/usage-reader.ts';
import { fc } from '../../support/properties.ts';

const catalogue = loadCatalogue();

// dialect, answer, usage, model
const ANSWERS: readonly [string, object, object | undefined, string | undefined][] = [
  [
    'openai_chat',
    {
      model: 'gpt-4o',
      choices: [{ message: { content: '{"usage":{"prompt_tokens":999}}' } }],
      usage: { prompt_tokens: 9, completion_tokens: 12, prompt_tokens_details: { cached_tokens: 3 } },
    },
    { tokens_in: 9, tokens_out: 12, cached_tokens_in: 3 },
    'gpt-4o',
  ],
  ['openai_chat', { model: 'gpt-4o', choices: [] }, undefined, 'gpt-4o'],
  ['openai_chat', { error: { message: 'no' } }, undefined, undefined],
  [
    'openai_responses',
    { model: 'gpt-5', usage: { input_tokens: 1, output_tokens: 2, output_tokens_details: { reasoning_tokens: 1 } } },
    { tokens_in: 1, tokens_out: 2, reasoning_tokens_out: 1 },
    'gpt-5',
  ],
  [
    'openai_embeddings',
    { model: 'e', data: [{ embedding: [0.1, -2e-5] }], usage: { prompt_tokens: 8, total_tokens: 8 } },
    { tokens_in: 8, tokens_out: 0 },
    'e',
  ],
  [
    'openai_audio_form',
    { text: 'x', usage: { type: 'duration', seconds: 3 } },
    { tokens_in: 0, tokens_out: 0, units: { audio_seconds: 3 } },
    undefined,
  ],
  ['openai_audio_form', { text: 'x', duration: '8.47' }, { tokens_in: 0, tokens_out: 0, units: { audio_seconds: 8.47 } }, undefined],
  [
    'openai_runs',
    { id: 'run_1', object: 'thread.run', model: 'gpt-4o', usage: { prompt_tokens: 21, completion_tokens: 22, total_tokens: 43 } },
    { tokens_in: 21, tokens_out: 22 },
    'gpt-4o',
  ],
  [
    'openai_decisions',
    { answers: [], model: 'gpt-5-mini', usage: { input_tokens: 5, output_tokens: 2, output_tokens_details: { reasoning_tokens: 1 } } },
    { tokens_in: 5, tokens_out: 2, reasoning_tokens_out: 1 },
    'gpt-5-mini',
  ],
  [
    'mistral_speech',
    { type: 'speech.audio.done', usage: { prompt_tokens: 4, completion_tokens: 5, total_tokens: 9 } },
    { tokens_in: 4, tokens_out: 5 },
    undefined,
  ],
  [
    'voyage_inputs',
    { object: 'list', data: [], usage: { text_tokens: 3, image_pixels: 9, total_tokens: 12 } },
    { tokens_in: 12, tokens_out: 0 },
    undefined,
  ],
  [
    'unknown',
    { model: 'u', usage: { input_tokens: 10, cache_creation_input_tokens: 20, cache_read_input_tokens: 30, output_tokens: 5 } },
    { tokens_in: 60, tokens_out: 5, cached_tokens_in: 30, cache_write_tokens_in: 20 },
    'u',
  ],
  [
    'unknown',
    { model: 'u', usage: { prompt_tokens: 60, completion_tokens: 5, total_tokens: 65, cache_read_input_tokens: 30 } },
    { tokens_in: 60, tokens_out: 5, cached_tokens_in: 30 },
    'u',
  ],
  [
    'anthropic_messages',
    { model: 'c', usage: { input_tokens: 10, cache_creation_input_tokens: 20, cache_read_input_tokens: 30, output_tokens: 5 } },
    { tokens_in: 60, tokens_out: 5, cached_tokens_in: 30, cache_write_tokens_in: 20 },
    'c',
  ],
  [
    'code_assist',
    {
      response: {
        candidates: [],
        usageMetadata: { promptTokenCount: 8, candidatesTokenCount: 2, thoughtsTokenCount: 3 },
        modelVersion: 'gemini-2.5-pro',
      },
      traceId: 't',
    },
    { tokens_in: 8, tokens_out: 5, reasoning_tokens_out: 3 },
    'gemini-2.5-pro',
  ],
  [
    'gemini_generate',
    { usageMetadata: { promptTokenCount: 4, candidatesTokenCount: 5, thoughtsTokenCount: 6 }, modelVersion: 'g' },
    { tokens_in: 4, tokens_out: 11, reasoning_tokens_out: 6 },
    'g',
  ],
  [
    'cohere_chat',
    { usage: { billed_units: { input_tokens: 1, output_tokens: 2 }, tokens: { input_tokens: 10, output_tokens: 20 } } },
    { tokens_in: 10, tokens_out: 20 },
    undefined,
  ],
  ['cohere_embed', { meta: { billed_units: { input_tokens: 7 } } }, { tokens_in: 7, tokens_out: 0 }, undefined],
  ['mistral_chat', { model: 'm', usage: { prompt_tokens: 2, completion_tokens: 3 } }, { tokens_in: 2, tokens_out: 3 }, 'm'],
  [
    'xai_chat',
    { model: 'x', usage: { prompt_tokens: 2, completion_tokens: 3, completion_tokens_details: { reasoning_tokens: 9 } } },
    { tokens_in: 2, tokens_out: 12, reasoning_tokens_out: 9 },
    'x',
  ],
  [
    'deepseek_chat',
    { model: 'd', usage: { prompt_tokens: 2, completion_tokens: 3, prompt_cache_hit_tokens: 1 } },
    { tokens_in: 2, tokens_out: 3, cached_tokens_in: 1 },
    'd',
  ],
  [
    'openai_images',
    { created: 1, data: [{ b64_json: 'AA==' }], usage: { input_tokens: 50, output_tokens: 4160, total_tokens: 4210 } },
    { tokens_in: 50, tokens_out: 4160, image_tokens_out: 4160 },
    undefined,
  ],
  [
    'openai_speech',
    { type: 'speech.audio.done', usage: { input_tokens: 14, output_tokens: 101 } },
    { tokens_in: 14, tokens_out: 101, audio_tokens_out: 101 },
    undefined,
  ],
  [
    'openai_audio_form',
    { text: 'x', usage: { type: 'tokens', input_tokens: 30, output_tokens: 4 } },
    { tokens_in: 30, tokens_out: 4 },
    undefined,
  ],
  [
    'openai_realtime_call',
    {
      usage: {
        input_tokens: 7,
        output_tokens: 8,
        input_token_details: { cached_tokens: 2, audio_tokens: 4, cached_tokens_details: { text_tokens: 1, audio_tokens: 1 } },
        output_token_details: { audio_tokens: 8 },
      },
    },
    { tokens_in: 7, tokens_out: 8, cached_audio_tokens_in: 1, cached_tokens_in: 2, audio_tokens_in: 4, audio_tokens_out: 8 },
    undefined,
  ],
  [
    'perplexity_chat',
    { model: 'sonar', usage: { prompt_tokens: 5, completion_tokens: 7, reasoning_tokens: 11, citation_tokens: 13 } },
    { tokens_in: 5, tokens_out: 31, reasoning_tokens_out: 11, citation_tokens_out: 13 },
    'sonar',
  ],
  [
    'gemini_generate',
    { usageMetadata: { promptTokenCount: 40, toolUsePromptTokenCount: 2, cachedContentTokenCount: 30, thoughtsTokenCount: 6 } },
    { tokens_in: 42, tokens_out: 6, cached_tokens_in: 30, reasoning_tokens_out: 6 },
    undefined,
  ],
  ['gemini_embed', { embedding: { values: [0.5] }, usageMetadata: { promptTokenCount: 9 } }, { tokens_in: 9, tokens_out: 0 }, undefined],
  [
    'gemini_interactions',
    { model: 'g', usage: { total_input_tokens: 4, total_output_tokens: 5, total_thought_tokens: 6, total_cached_tokens: 1 } },
    { tokens_in: 4, tokens_out: 11, cached_tokens_in: 1, reasoning_tokens_out: 6 },
    'g',
  ],
  [
    'cohere_chat_v1',
    { text: 'x', meta: { billed_units: { input_tokens: 3, output_tokens: 4 } } },
    { tokens_in: 3, tokens_out: 4 },
    undefined,
  ],
  ['cohere_generate', { meta: { billed_units: { input_tokens: 3, output_tokens: 4 } } }, { tokens_in: 3, tokens_out: 4 }, undefined],
  [
    'mistral_conversations',
    { conversation_id: 'c', usage: { prompt_tokens: 6, completion_tokens: 7, connector_tokens: 8 } },
    { tokens_in: 14, tokens_out: 7 },
    undefined,
  ],
  [
    'mistral_form',
    { model: 'v', text: 'x', usage: { prompt_audio_seconds: 3, prompt_tokens: 4, completion_tokens: 5 } },
    { tokens_in: 4, tokens_out: 5, units: { audio_seconds: 3 } },
    'v',
  ],
  [
    'bedrock_converse',
    {
      output: { message: { role: 'assistant', content: [{ text: '{"usage":{"inputTokens":999}}' }] } },
      stopReason: 'end_turn',
      usage: { inputTokens: 10, outputTokens: 5, totalTokens: 65, cacheReadInputTokens: 20, cacheWriteInputTokens: 30 },
    },
    { tokens_in: 60, tokens_out: 5, cached_tokens_in: 20, cache_write_tokens_in: 30 },
    undefined,
  ],
  [
    'bedrock_invoke',
    { 'amazon-bedrock-invocationMetrics': { inputTokenCount: 8, outputTokenCount: 9, invocationLatency: 700 } },
    { tokens_in: 8, tokens_out: 9 },
    undefined,
  ],
  [
    'bedrock_anthropic',
    { model: 'claude-3', usage: { input_tokens: 1, cache_read_input_tokens: 2, cache_creation_input_tokens: 4, output_tokens: 5 } },
    { tokens_in: 7, tokens_out: 5, cached_tokens_in: 2, cache_write_tokens_in: 4 },
    'claude-3',
  ],
  ['bedrock_embed', { embedding: [0.5], inputTextTokenCount: 6 }, { tokens_in: 6, tokens_out: 0 }, undefined],
  [
    'ollama',
    { model: 'llama3.2', message: { content: '"eval_count":999' }, done: true, prompt_eval_count: 26, eval_count: 298 },
    { tokens_in: 26, tokens_out: 298 },
    'llama3.2',
  ],
  ['ollama_embed', { model: 'all-minilm', embeddings: [[0.1]], prompt_eval_count: 8 }, { tokens_in: 8, tokens_out: 0 }, 'all-minilm'],
  [
    'replicate_prediction',
    { id: 'p', status: 'succeeded', metrics: { predict_time: 1.5, input_token_count: 12, output_token_count: 34 } },
    { tokens_in: 12, tokens_out: 34 },
    undefined,
  ],
  [
    'gemini_predict',
    { predictions: [{ embeddings: { statistics: { token_count: 5 } } }, { embeddings: { statistics: { token_count: 6 } } }] },
    { tokens_in: 11, tokens_out: 0 },
    undefined,
  ],
  [
    'cohere_rerank',
    { results: [], meta: { billed_units: { search_units: 2 } } },
    { tokens_in: 0, tokens_out: 0, units: { search_units: 2 } },
    undefined,
  ],
  [
    'mistral_ocr',
    { model: 'o', pages: [{}, {}], usage_info: { pages_processed: 2 } },
    { tokens_in: 0, tokens_out: 0, units: { pages: 2 } },
    'o',
  ],
  ['rerank', { model: 'rerank-2', data: [], usage: { total_tokens: 26 } }, { tokens_in: 26, tokens_out: 0 }, 'rerank-2'],
];

t.test('there is an answer here for every rule of the catalogue that counts tokens', async (t) => {
  const shown = new Set(ANSWERS.map(([id]) => catalogue.dialect(id)?.usage));
  const table = readFileSync(join(packageRoot(), 'src/base/catalogue/data/providers.yaml'), 'utf8').split('\noperation_sets:')[0] ?? '';
  const counting = [...table.matchAll(/^ {2}(\w+):$/gm)].map((match) => match[1] ?? '').filter((id) => catalogue.dialect(id)?.usage);
  t.ok(counting.length > 20);
  for (const id of counting) t.ok(shown.has(catalogue.dialect(id)?.usage), id);
});

t.test('usage and model are read from whole answers, and from their bytes however they are cut', async (t) => {
  for (const [id, answer, usage, model] of ANSWERS) {
    const dialect = catalogue.dialect(id);
    const want = { ...(usage ? { usage } : {}), ...(model ? { model } : {}) };
    t.strictSame(readUsage(dialect, answer), want, id);
    for (const text of [JSON.stringify(answer), `\n ${JSON.stringify(answer, null, 3)}`]) {
      const bytes = Buffer.from(text);
      for (let at = 0; at <= bytes.length; at++) {
        const reader = createAnswerReader(dialect);
        reader.push(bytes.subarray(0, at));
        reader.push(bytes.subarray(at));
        const facts = reader.end();
        const told = 'error' in answer ? { ...want, failed: true } : want;
        if (JSON.stringify(facts) !== JSON.stringify(told)) t.strictSame(facts, told, `${id} cut at ${at}`);
      }
    }
  }
  t.strictSame(readUsage(undefined, { usage: {} }), {});
});

t.test('counts in the head of an answer are whole numbers under the names of the dialect', async (t) => {
  const rule = catalogue.dialect('bedrock_invoke')?.usage;
  const head = (input: string, output: string) => [
    'X-Amzn-Bedrock-Input-Token-Count',
    input,
    'x-amzn-bedrock-output-token-count',
    output,
    'Date',
    '1',
  ];
  t.strictSame(usageOfHeaders(rule, head('12', '34')), { tokens_in: 12, tokens_out: 34 });
  t.strictSame(usageOfHeaders(rule, head('12', '-1')), { tokens_in: 12, tokens_out: 0 });
  for (const text of ['', '1.5', '1e3', ' 1', '9'.repeat(16)]) t.equal(usageOfHeaders(rule, head(text, text)), undefined, text);
  t.equal(usageOfHeaders(catalogue.dialect('bedrock_converse')?.usage, head('1', '2')), undefined);
});

t.test('what is no usage is none, and never throws', async (t) => {
  const dialect = catalogue.dialect('openai_chat');
  for (const answer of [
    undefined,
    null,
    1,
    'x',
    [],
    { usage: null },
    { usage: [] },
    { usage: { prompt_tokens: 1.5 } },
    { usage: { prompt_tokens: -3 } },
    { model: 'x'.repeat(300) },
    { model: '\ud800' },
  ]) {
    t.strictSame(readUsage(dialect, answer), {}, JSON.stringify(answer)?.slice(0, 40));
  }
});

t.test('the picker agrees with JSON.parse about any JSON text in any cuts', async (t) => {
  const names = fc.constantFrom('a', 'b', 'usage', 'q"\\', 'é');
  const { tree } = fc.letrec((tie) => ({
    tree: fc.oneof(
      { maxDepth: 5 },
      fc.constant(null),
      fc.boolean(),
      fc.integer(),
      fc.string(),
      fc.constantFrom('"}', '\\', '\\\\"', '日本'),
      fc.array(tie('tree'), { maxLength: 3 }),
      fc.dictionary(names, tie('tree'), { maxKeys: 4 }),
    ),
  }));
  const paths = [['usage'], ['a', 'b'], ['a', 'usage', 'b'], ['b']];
  t.doesNotThrow(() =>
    fc.assert(
      fc.property(tree, fc.array(fc.nat(), { maxLength: 4 }), fc.boolean(), (value, cuts, pretty) => {
        const text = Buffer.from(JSON.stringify(value, null, pretty ? 2 : 0)).toString('latin1');
        const picked = new Map<number, unknown>();
        const picker = new JsonPicker(paths, (path, found) => picked.set(path, found));
        let from = 0;
        for (const at of [...cuts.map((cut) => cut % (text.length + 1)).sort((a, b) => a - b), text.length]) {
          picker.push(text.slice(from, at));
          from = at;
        }
        picker.end();
        const again: unknown = JSON.parse(text);
        // A picked value hides what lies below it: paths of the table overlap only as prefixes.
        return paths.every((path, i) => {
          const below = paths.some((other) => other.length < path.length && other.every((name, level) => name === path[level]));
          return below || JSON.stringify(picked.get(i)) === JSON.stringify(valueAt(again, path));
        });
      }),
      { numRuns: 3000 },
    ),
  );
});
