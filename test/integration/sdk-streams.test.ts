// Streams as a program with an official SDK meets them: what it sees, what it pays, and what happens when either side
// stops.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import OpenAI from 'openai';
import t from 'tap';
import { picoFromUsd, usdFromPico } from '../../src/base/lib/money.ts';
import { MOCK_TEXT } from '../support/aimock.ts';
import { eventually } from '../support/child.ts';
import { exactly } from '../support/exactly.ts';
import { SDK_DOORS, sdkClients, stainless } from '../support/sdk-clients.ts';
import { costByHand, each, recordOf, startSdkPlace, USAGE } from '../support/sdk-place.ts';
import { tempDir } from '../support/temp-dir.ts';

t.test('a program that stops a stream pays for what it saw', async (t) => {
  const place = await startSdkPlace(t, { latencyMs: 30 });
  const { gw } = place;
  // Long after the program has stopped it would still be going on.
  place.mock.mock.prependFixture({
    match: { userMessage: /endless/ },
    response: { content: MOCK_TEXT.repeat(200), usage: { input_tokens: USAGE.in, output_tokens: USAGE.out } },
    chunkSize: 5,
  });
  await gw.admin('POST', '/v1/admin/budgets/limits', { scope: 'org', limit_usd: '100', actions: ['cap'] });
  let spent = 0n;
  await each(t, place, { retries: 0 }, async (t, sdk) => {
    const stop = new AbortController();
    const call = sdk.stream({ prompt: 'endless', signal: stop.signal, maxTokens: 50, onText: () => stop.abort() });
    await call.catch((error: unknown) => t.match(String(error), /abort|terminated/i));
    const [answer] = place.answers.take();
    const record = await eventually('the record', async () => {
      const { status, body } = await gw.admin('GET', `/v1/records/${answer?.recordId ?? ''}`);
      return status === 200 ? (body as Record<string, unknown>) : undefined;
    });
    const metering = record['metering'] as Record<string, unknown>;
    // Anthropic's mock reports its input at the beginning, the others report at the end, which never came: what they
    // said is approximated.
    const tokensIn = sdk.provider === 'anthropic' ? USAGE.in : Number;
    t.match(record, { stream_outcome: 'aborted', decision: 'allow', metering: { usage_reported: false, tokens_in: tokensIn } });
    t.ok(Number(metering['tokens_in']) > 0 && Number(metering['tokens_out']) > 0);
    t.equal(metering['cost_usd'], usdFromPico(costByHand(metering)));
    spent += picoFromUsd(String(metering['cost_usd']));
  });
  t.ok(spent > 0n);
  t.match((await gw.admin('GET', '/v1/admin/budgets/limits')).body, {
    limits: [{ spent_usd: usdFromPico(spent), reserved_usd: exactly('0') }],
  });
});

t.test('cached and reasoning tokens are counted once, as the SDK shows them, and cached ones have their own price', async (t) => {
  const file = join(tempDir(t), 'prices.yaml');
  writeFileSync(file, 'rates:\n  - {provider: openrouter, model: openai/gpt-4o, in: "2.5", out: "10", cached_in: "1.25"}\n');
  const place = await startSdkPlace(t, { env: { GW_PRICING_CACHED: 'true', GW_PRICING_FILE: file } });
  const usage = {
    prompt_tokens: 1000,
    completion_tokens: 100,
    prompt_tokens_details: { cached_tokens: 400 },
    completion_tokens_details: { reasoning_tokens: 60 },
  };
  place.mock.mock.prependFixture({ match: { userMessage: /think/ }, response: { content: MOCK_TEXT, reasoning: 'It depends.', usage } });
  for (const [door, baseURL] of [
    ['connect_proxy', 'https://openrouter.ai/api/v1'],
    ['sdk_redirect', `${place.gw.url}/proxy/openrouter/api/v1`],
  ] as const) {
    const client = new OpenAI({ apiKey: 'k', baseURL });
    const ask = { model: 'openai/gpt-4o', messages: [{ role: 'user' as const, content: 'think' }] };
    const plain = await client.chat.completions.create(ask);
    const streamed = await client.chat.completions.stream(ask).finalChatCompletion();
    for (const told of [plain.usage, streamed.usage]) t.match(told, usage);
    const records = await Promise.all(place.answers.take().map(({ recordId }) => place.gw.record(recordId)));
    t.equal(records.length, 2);
    for (const record of records) {
      // 600 at 2.50, 400 at 1.25 and 100 at 10 USD per million.
      const metering = { tokens_in: 1000, tokens_out: 100, cached_tokens_in: 400, reasoning_tokens_out: 60, cost_usd: exactly('0.003') };
      t.match(record, { connection_type: door, metering: { ...metering, rate_cached_in: exactly('1.25'), rate_source: 'override' } });
    }
  }
});

t.test('OpenAI streams whose programs ask for no usage', async (t) => {
  const ask = { model: 'gpt-4o-2024-05-13', messages: [{ role: 'user' as const, content: 'hello' }] };
  for (const inject of [false, true]) {
    await t.test(`GW_METER_INJECT_USAGE=${inject}`, async (t) => {
      const place = await startSdkPlace(t, { env: { GW_METER_INJECT_USAGE: String(inject) } });
      place.mock.mock.prependFixture({
        match: { userMessage: /weather/ },
        response: {
          toolCalls: [{ name: 'get_weather', arguments: '{"city":"Bern"}' }],
          usage: { input_tokens: USAGE.in, output_tokens: USAGE.out },
        },
        chunkSize: 3,
      });
      const metering = inject
        ? { tokens_in: USAGE.in, tokens_out: USAGE.out, usage_reported: true, cost_usd: exactly('0.00752') }
        : { tokens_in: 0, tokens_out: 0, usage_reported: false, cost_usd: exactly('0') };
      for (const door of SDK_DOORS) {
        const client = new OpenAI(stainless(place.gw, door, '/openai/v1'));
        await t.test(`${door}: read chunk by chunk`, async (t) => {
          for (const options of [{}, { stream_options: null }, { stream_options: { include_usage: false } }]) {
            let text = '';
            for await (const chunk of await client.chat.completions.create({ ...ask, ...options, stream: true })) {
              t.equal(chunk.choices.length, 1, 'no event without a choice');
              t.notOk(chunk.usage, 'nobody asked');
              text += chunk.choices[0]?.delta.content ?? '';
            }
            t.equal(text, MOCK_TEXT);
            t.match(await recordOf(t, place), { stream_outcome: 'complete', metering }, JSON.stringify(options));
            const asked = { stream_options: { include_usage: inject } };
            if (inject) t.match(place.mock.journal().at(-1)?.body, asked, 'the provider was asked');
          }
        });
        await t.test(`${door}: by the helper for streams`, async (t) => {
          let pieces = '';
          const stream = client.chat.completions.stream(ask).on('content', (piece) => {
            pieces += piece;
          });
          const final = await stream.finalChatCompletion();
          t.strictSame([pieces, final.choices[0]?.message.content, final.choices[0]?.finish_reason], [MOCK_TEXT, MOCK_TEXT, 'stop']);
          t.match(await recordOf(t, place), { metering });
        });
        await t.test(`${door}: a call of a tool`, async (t) => {
          const tools = [
            {
              type: 'function' as const,
              function: { name: 'get_weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } },
            },
          ];
          const stream = client.chat.completions.stream({
            model: 'gpt-4o-2024-05-13',
            messages: [{ role: 'user', content: 'weather' }],
            tools,
          });
          const [call] = (await stream.finalMessage()).tool_calls ?? [];
          t.match(call, { function: { name: 'get_weather', arguments: '{"city":"Bern"}' } });
          t.match(await recordOf(t, place), { metering });
        });
        await t.test(`${door}: a program that asks for usage gets it`, async (t) => {
          const told = await sdkClients(place.gw, door)['openai']?.stream();
          t.same(told?.usage, USAGE);
          t.match(await recordOf(t, place), { metering: { tokens_in: USAGE.in, tokens_out: USAGE.out, usage_reported: true } });
        });
        await t.test(`${door}: responses always report`, async (t) => {
          const final = await client.responses.stream({ model: 'gpt-4o-2024-05-13', input: 'hello' }).finalResponse();
          t.match(final, { output_text: MOCK_TEXT, usage: { input_tokens: USAGE.in, output_tokens: USAGE.out } });
          t.match(await recordOf(t, place), { metering: { tokens_in: USAGE.in, tokens_out: USAGE.out, usage_reported: true } });
        });
      }
    });
  }
});

t.test('a provider that stops in the middle of its stream is an error in every SDK, and costs what was seen', async (t) => {
  const place = await startSdkPlace(t);
  place.mock.mock.prependFixture({
    match: { userMessage: /broken/ },
    response: { content: MOCK_TEXT.repeat(10), usage: { input_tokens: USAGE.in, output_tokens: USAGE.out } },
    chunkSize: 5,
    truncateAfterChunks: 4,
    // Else it breaks off before it has written anything.
    latency: 20,
  });
  await each(t, place, { retries: 0 }, async (t, sdk) => {
    let text = '';
    const call = sdk.stream({
      prompt: 'broken',
      onText: (piece) => {
        text += piece;
      },
    });
    await t.rejects(call, Error);
    t.ok(text.length < MOCK_TEXT.length * 10);
    const metering = { usage_reported: false, tokens_in: sdk.provider === 'anthropic' ? USAGE.in : Number, cost_usd: /[1-9]/ };
    t.match(await recordOf(t, place), { stream_outcome: 'error', decision: 'allow', metering });
  });
});
