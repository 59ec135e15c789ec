import { Decimal } from 'decimal.js';
import t from 'tap';
import { loadCatalogue } from '../../../src/base/catalogue/catalogue.ts';
import type { Price } from '../../../src/base/catalogue/types.ts';
import { GatewayError } from '../../../src/base/lib/gateway-error.ts';
import { usdFromPico } from '../../../src/base/lib/money.ts';
import { meter } from '../../../src/decide/pricing/cost.ts';
import { countTokens } from '../../../src/decide/pricing/count-tokens.ts';
import { estimate } from '../../../src/decide/pricing/estimate.ts';
import { fc } from '../../support/properties.ts';

const catalogue = loadCatalogue();
const gpt4o = catalogue.price('openai', 'gpt-4o-2024-05-13');
const unlisted = catalogue.price('openai', 'nobody-knows');
const chat = catalogue.dialect('openai_chat');
const gemini = catalogue.dialect('gemini_generate');

t.test('cost is tokens times rates, exactly', async (t) => {
  t.equal(usdFromPico(meter({ tokens_in: 1000, tokens_out: 500 }, gpt4o).costPico), '0.0125');
  t.equal(usdFromPico(meter({ tokens_in: 1, tokens_out: 1 }, catalogue.price('openai', 'gpt-4o-mini')).costPico), '0.00000075');
  t.strictSame(meter(undefined, unlisted), {
    costPico: 0n,
    rateIn: '10',
    rateOut: '30',
    apart: {},
    rateSource: 'default',
  });
});

t.test('cached input has its own rate only when that is switched on and known', async (t) => {
  const price = catalogue.price('anthropic', 'claude-3-5-sonnet');
  const usage = { tokens_in: 1_000_000, tokens_out: 0, cached_tokens_in: 900_000 };
  t.equal(usdFromPico(meter(usage, price).costPico), '3');
  const cached = meter(usage, price, true);
  t.equal(usdFromPico(cached.costPico), '0.57');
  t.strictSame(cached.apart, { cachedIn: '0.3', cacheWrite: '3.75', cacheWrite1h: '6' });
  t.equal(usdFromPico(meter(usage, gpt4o, true).costPico), '5', 'no cached rate in the catalogue');
  const writing = { ...usage, cache_write_tokens_in: 100_000 };
  t.equal(usdFromPico(meter(writing, price).costPico), '3');
  t.match(meter(writing, price, true), { costPico: 645_000_000_000n, apart: { cachedIn: '0.3', cacheWrite: '3.75' } });
});

t.test('every token is charged once, at the narrowest rate that is stated for it', async (t) => {
  const count = fc.nat(10_000);
  const rate = fc.option(
    fc.nat(99_000_000).map((millionths) => usdFromPico(BigInt(millionths) * 1_000_000n)),
    { nil: undefined },
  );
  const [always, counts] = [rate.map((text) => text ?? '7'), fc.tuple(count, count, count, count, count, count, count, count)];
  const rates = fc.record({
    in: always,
    out: always,
    cachedIn: rate,
    cacheWrite: rate,
    cacheWrite1h: rate,
    audioIn: rate,
    cachedAudioIn: rate,
    audioOut: rate,
  });
  fc.assert(
    fc.property(counts, rates, fc.boolean(), ([text, read, audioRead, audio, written, written1h, said, spoken], stated, cachedRates) => {
      const price: Price = { ...stated, source: 'override', maxOutputTokens: undefined };
      const usage = {
        tokens_in: text + read + audioRead + audio + written + written1h,
        tokens_out: said + spoken,
        cached_tokens_in: read + audioRead,
        cached_audio_tokens_in: audioRead,
        audio_tokens_in: audio + audioRead,
        cache_write_tokens_in: written + written1h,
        cache_write_1h_tokens_in: written1h,
        audio_tokens_out: spoken,
      };
      const apart = (text: string | undefined) => (cachedRates ? text : undefined);
      const charged: readonly (readonly [number, string])[] = [
        [text, stated.in],
        [read, apart(stated.cachedIn) ?? stated.in],
        [audioRead, apart(stated.cachedAudioIn) ?? apart(stated.cachedIn) ?? apart(stated.audioIn) ?? stated.in],
        [audio, apart(stated.audioIn) ?? stated.in],
        [written, apart(stated.cacheWrite) ?? stated.in],
        [written1h, apart(stated.cacheWrite1h) ?? apart(stated.cacheWrite) ?? stated.in],
        [said, stated.out],
        [spoken, apart(stated.audioOut) ?? stated.out],
      ];
      const expected = charged.reduce((sum, [tokens, usd]) => sum.plus(new Decimal(usd).times(tokens)), new Decimal(0)).div(1_000_000);
      const made = meter(usage, price, cachedRates);
      const most = estimate({}, chat, { tokens_in: usage.tokens_in, tokens_out_max: usage.tokens_out }, price, cachedRates);
      return usdFromPico(made.costPico) === expected.toFixed() && made.costPico <= most.reservePico;
    }),
  );
  t.pass();
});

t.test('prompt tokens are those of every text and name, one more for each member, rounded up at the end', async (t) => {
  t.equal(countTokens([]), 0);
  t.equal(countTokens(['a']), 1);
  t.equal(countTokens(['a cat']), 2);
  t.equal(countTokens(['日本']), 2);
  t.equal(countTokens([[1, 2, 3]]), 3, 'token ids');
  t.equal(countTokens([{ role: 'user', content: 'hello' }]), 7, 'two members, two names, two texts');
  t.equal(countTokens([null, undefined]), 0);
});

t.test('what is set aside covers a prompt that is written to a cache, when that is priced apart', async (t) => {
  const params = { max_tokens: 100 };
  const stated = { tokens_in: 1_000_000, tokens_out_max: 100 };
  const sonnet = catalogue.price('anthropic', 'claude-3-5-sonnet');
  const dialect = catalogue.dialect('anthropic_messages');
  const [plain, apart] = [false, true].map((cachedRates) => estimate(params, dialect, stated, sonnet, cachedRates));
  t.same(
    [plain?.costPico, apart?.costPico].map((pico) => usdFromPico(pico ?? 0n)),
    ['3.0015', '3.0015'],
    'the estimate is the same',
  );
  t.same(
    [plain?.reservePico, apart?.reservePico].map((pico) => usdFromPico(pico ?? 0n)),
    ['3.0015', '6.0015'],
    'it may be kept for an hour',
  );
  const written = { cache_write_tokens_in: 1_000_000, cache_write_1h_tokens_in: 1_000_000 };
  const most = meter({ tokens_in: 1_000_000, tokens_out: 100, ...written }, sonnet, true);
  t.equal(most.costPico, apart?.reservePico, 'the dearest that it can become');
  t.equal(usdFromPico(estimate(params, dialect, stated, gpt4o, true).reservePico), '5.0015', 'without such a rate nothing is added');
});

t.test('an attachment counts 1,024 tokens, whatever its size', async (t) => {
  const big = 'A'.repeat(1_000_000);
  t.equal(countTokens([`data:image/png;base64,${big}`]), 1024);
  t.ok(countTokens([{ type: 'base64', media_type: 'image/png', data: big }]) < 1040);
  t.ok(countTokens([{ inlineData: { mimeType: 'image/png', data: big } }]) < 1040);
  t.ok(countTokens([{ image: { format: 'png', source: { bytes: big } } }]) < 1040, 'as Bedrock has it');
  t.ok(countTokens([[{ role: 'user', images: [big, big] }]]) < 2090, 'as Ollama has it');
  t.ok(countTokens([{ images: ['a few bytes'] }]) < 10);
  t.ok(countTokens([big]) > 250_000, 'plain text is not one');
});

t.test('deep values are walked to a bound and not beyond', async (t) => {
  let deep: unknown = 'x'.repeat(400);
  for (let i = 0; i < 100_000; i++) deep = [deep];
  t.equal(countTokens([deep]), 0);
});

t.test('the estimate takes the largest maximum that the call sets in any name that its dialect reads', async (t) => {
  const messages = [{ role: 'user', content: 'hello' }];
  const table: readonly [string, Record<string, unknown>, number][] = [
    ['max_tokens', { messages, max_tokens: 100 }, 100],
    ['the larger of two names', { messages, max_tokens: 100, max_completion_tokens: 50 }, 100],
    ['whichever that is', { messages, max_tokens: 1, max_completion_tokens: 60_000 }, 60_000],
    ['null is absent', { messages, max_completion_tokens: null, max_tokens: 7 }, 7],
    ['zero is a value', { messages, max_tokens: 0 }, 0],
    ['times n', { messages, max_tokens: 100, n: 3 }, 300],
    ['absent: the model maximum, capped', { messages }, 4096],
    ['absent, times n', { messages, n: 2 }, 8192],
    ['beyond all numbers', { messages, max_tokens: Number.MAX_SAFE_INTEGER, n: 1000 }, Number.MAX_SAFE_INTEGER],
  ];
  for (const [name, params, want] of table) t.equal(estimate(params, chat, undefined, gpt4o).tokensOutMax, want, name);
  t.equal(estimate({ messages }, chat, undefined, unlisted).tokensOutMax, 1024, 'unknown model');
  t.equal(
    estimate({ contents: [], generationConfig: { maxOutputTokens: 9, candidateCount: 2 } }, gemini, undefined, unlisted).tokensOutMax,
    18,
  );
  for (const [params, want] of [
    [{ generation_config: { max_output_tokens: 9, candidate_count: 2 } }, 18],
    [{ generationConfig: { max_output_tokens: 9, candidate_count: 2 } }, 18],
    [{ generation_config: { maxOutputTokens: 9, candidateCount: 2 } }, 18],
  ] as const)
    t.equal(estimate({ contents: [], ...params }, gemini, undefined, unlisted).tokensOutMax, want, JSON.stringify(params));
  t.equal(
    estimate({ system_instruction: 'abcdefgh' }, gemini, undefined, unlisted).tokensIn,
    estimate({ systemInstruction: 'abcdefgh' }, gemini, undefined, unlisted).tokensIn,
  );
  t.equal(estimate({ input: 'abcdefgh' }, catalogue.dialect('openai_embeddings'), undefined, unlisted).tokensOutMax, 0);
  t.equal(estimate({ input: 'abcdefgh' }, catalogue.dialect('openai_moderations'), undefined, unlisted).tokensOutMax, 0);
});

t.test('each prompt of a list has answers of its own, and each document its query', async (t) => {
  const completions = catalogue.dialect('openai_completions');
  const table: readonly [string, Record<string, unknown>, number][] = [
    ['one text', { prompt: 'a' }, 10],
    ['a list of texts', { prompt: Array.from({ length: 200 }, () => 'a') }, 2000],
    ['a list of tokens is one prompt', { prompt: [1, 2, 3] }, 10],
    ['a list of lists of tokens', { prompt: [[1], [2]] }, 20],
    ['n of each', { prompt: ['a', 'b'], n: 3 }, 60],
    ['best_of of each', { prompt: ['a', 'b'], n: 2, best_of: 4 }, 80],
    ['tokens beside texts', { prompt: [1, 'a', 'b'] }, 30],
    ['an empty list', { prompt: [] }, 10],
  ];
  for (const [name, params, want] of table)
    t.equal(estimate({ max_tokens: 10, ...params }, completions, undefined, unlisted).tokensOutMax, want, name);
  t.throws(
    () => estimate({ prompt: 'a', n: '8' }, completions, undefined, unlisted),
    { code: 'invalid_request' },
    'a provider may read a text as a number',
  );
  t.equal(
    estimate({ prompt: 'a', max_tokens: 5, num_generations: 5 }, catalogue.dialect('cohere_generate'), undefined, unlisted).tokensOutMax,
    25,
  );
  const rerank = catalogue.dialect('rerank');
  const one = estimate({ query: 'abcdefgh', documents: ['x'] }, rerank, undefined, unlisted).tokensIn;
  const query = estimate({ query: 'abcdefgh' }, rerank, undefined, unlisted).tokensIn;
  const document = estimate({ documents: ['x'] }, rerank, undefined, unlisted).tokensIn;
  t.equal(estimate({ query: 'abcdefgh', documents: ['x', 'x', 'x'] }, rerank, undefined, unlisted).tokensIn, one + 2 * (query + document));
});

t.test('a maximum that only some models read raises what is assumed, and never lowers it', async (t) => {
  const bedrock = catalogue.dialect('bedrock_invoke');
  t.equal(estimate({ prompt: 'a', max_tokens: 1 }, bedrock, undefined, unlisted).tokensOutMax, 1024);
  t.equal(estimate({ prompt: 'a', max_tokens: 1, max_gen_len: 5000 }, bedrock, undefined, unlisted).tokensOutMax, 5000);
  const replicate = catalogue.dialect('replicate_prediction');
  t.equal(estimate({ input: { prompt: 'a', max_new_tokens: 60_000 } }, replicate, undefined, unlisted).tokensOutMax, 60_000);
});

t.test('the estimate prices prompt and maximum at the rates of the model', async (t) => {
  const made = estimate({ messages: [{ role: 'user', content: 'hello' }], max_tokens: 100 }, chat, undefined, gpt4o);
  t.equal(made.tokensIn, 7);
  t.equal(usdFromPico(made.costPico), '0.001535');
  t.equal(made.reservePico, made.costPico);
});

t.test('all prompt paths of the dialect count', async (t) => {
  const text = 'words '.repeat(5000);
  for (const [dialect, params] of [
    ['openai_chat', { response_format: { type: 'json_schema', json_schema: { schema: { description: text } } } }],
    ['openai_responses', { text: { format: { type: 'json_schema', schema: { description: text } } } }],
    ['openai_responses', { prompt: { id: 'p', variables: { about: text } } }],
  ] as const) {
    t.ok(estimate(params, catalogue.dialect(dialect), undefined, unlisted).tokensIn > 4000, Object.keys(params).join());
  }
  const predicting = { max_tokens: 1, prediction: { type: 'content', content: text } };
  t.ok(
    estimate(predicting, catalogue.dialect('openai_chat'), undefined, unlisted).tokensOutMax > 4000,
    'a prediction is charged as output',
  );
  const params = { system: 'abcd', messages: [], tools: [{ name: 'abcd' }], metadata: { user_id: 'x'.repeat(1000) } };
  t.equal(estimate(params, catalogue.dialect('anthropic_messages'), undefined, unlisted).tokensIn, 4);
});

t.test('overrides replace the estimate, the reservation is the larger of both', async (t) => {
  const params = { messages: [{ role: 'user', content: 'hello' }], max_tokens: 100 };
  const low = estimate(params, chat, { tokens_in: 1, tokens_out_max: 1 }, gpt4o);
  t.strictSame([low.tokensIn, low.tokensOutMax], [1, 1]);
  t.equal(usdFromPico(low.reservePico), '0.001535');
  const high = estimate(params, chat, { tokens_out_max: 1000 }, gpt4o);
  t.equal(high.tokensIn, 7);
  t.equal(high.reservePico, high.costPico);
  const mixed = estimate(params, chat, { tokens_in: 400, tokens_out_max: 0 }, gpt4o);
  t.equal(usdFromPico(mixed.costPico), '0.002');
  t.equal(usdFromPico(mixed.reservePico), '0.0035', 'of each direction: a larger prompt does not pay for a smaller answer');
});

t.test('a maximum that is no non-negative integer is refused', async (t) => {
  for (const max_tokens of [-1, 1.5, '100', {}, Number.NaN, 2 ** 60]) {
    t.throws(() => estimate({ messages: [], max_tokens }, chat, undefined, gpt4o), { code: 'invalid_request' }, String(max_tokens));
  }
});

t.test('a call without a dialect costs something only when it looks like inference', async (t) => {
  const nothing = estimate({ page: 2, max_tokens: 'x' }, undefined, undefined, unlisted);
  t.strictSame([nothing.tokensIn, nothing.tokensOutMax, nothing.costPico], [0, 0, 0n]);
  t.equal(estimate({ messages: ['abcd'] }, undefined, undefined, unlisted).tokensOutMax, 1024);
  t.equal(estimate({ max_tokens: 5 }, undefined, undefined, unlisted).tokensOutMax, 5);
});

t.test('estimates never throw but for the maximum, and are never negative', async (t) => {
  const price: Price = { in: '10', out: '30', cachedIn: undefined, cacheWrite: undefined, source: 'default', maxOutputTokens: undefined };
  const dialects = ['openai_chat', 'gemini_generate', 'anthropic_messages', 'cohere_chat', undefined];
  t.doesNotThrow(() =>
    fc.assert(
      fc.property(
        fc.dictionary(fc.constantFrom('messages', 'max_tokens', 'n', 'contents', 'system', '__proto__'), fc.anything()),
        fc.constantFrom(...dialects),
        (params, id) => {
          try {
            const made = estimate(params, id === undefined ? undefined : catalogue.dialect(id), undefined, price);
            return made.tokensIn >= 0 && made.tokensOutMax >= 0 && made.costPico >= 0n;
          } catch (error) {
            return error instanceof GatewayError;
          }
        },
      ),
      { numRuns: 500 },
    ),
  );
});
