import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { sha256Hex } from '../../src/base/lib/sha256.ts';
import { exactly } from '../support/exactly.ts';
import { startTestGateway } from '../support/gateway.ts';
import { ALLOW_ALL, bundleOf, chat, startGoverned } from '../support/governed.ts';
import { tempDir } from '../support/temp-dir.ts';
import type { UpstreamHandler } from '../support/tls-upstream.ts';

const cachedAnswer: UpstreamHandler = (_request, response, body) =>
  void body.then(() =>
    response
      .setHeader('content-type', 'application/json')
      .end('{"usage":{"prompt_tokens":1000,"completion_tokens":100,"prompt_tokens_details":{"cached_tokens":900}}}'),
  );

t.test("a record holds the operator's rates and the cost at them, cached input apart unless that is switched off", async (t) => {
  const file = join(tempDir(t), 'rates.yaml');
  writeFileSync(file, 'rates:\n  - {provider: openai, model: gpt-4o-2024-05-13, in: "2.50", out: 10, cached_in: 1.25}\n');
  const call = async (env: Record<string, string>, model = 'gpt-4o-2024-05-13') => {
    const { gw, execute } = await startGoverned(t, { bundle: ALLOW_ALL, handler: cachedAnswer, env });
    const answer = await execute({}, { params: { model, messages: [{ role: 'user', content: 'hello' }] } });
    t.equal(answer.status, 200);
    const { metering } = (await gw.record(String(answer.body['record_id']))) as { metering: Record<string, unknown> };
    return { metering, metrics: (await gw.admin('GET', '/metrics')).text };
  };
  const plain = await call({ GW_PRICING_FILE: file, GW_PRICING_CACHED: 'false' });
  t.match(plain.metering, {
    rate_in: exactly('2.5'),
    rate_out: exactly('10'),
    rate_source: 'override',
    cost_usd: exactly('0.0035'),
    cached_tokens_in: 900,
  });
  t.notOk('rate_cached_in' in plain.metering);
  t.notMatch(plain.metrics, /gw_priced_by_default_total\{/);
  const cached = await call({ GW_PRICING_FILE: file });
  t.match(cached.metering, { rate_in: exactly('2.5'), rate_cached_in: exactly('1.25'), cost_usd: exactly('0.002375') });
  const unlisted = await call({ GW_PRICING_CACHED: 'true' }, 'nobody-knows');
  t.match(unlisted.metering, { rate_in: exactly('10'), rate_out: exactly('30'), rate_source: 'default', cost_usd: exactly('0.013') });
  t.notOk('rate_cached_in' in unlisted.metering, 'no rate, no member');
  t.match(unlisted.metrics, /gw_priced_by_default_total\{provider="openai"\} 1\n/);
});

t.test('what is written to a cache is priced apart unless that is switched off, in an answer and in a stream', async (t) => {
  const usage = '{"input_tokens":100,"cache_creation_input_tokens":1000,"cache_read_input_tokens":9000,"output_tokens":10}';
  const handler: UpstreamHandler = (_request, response, whole) =>
    void whole.then((body) => {
      const { stream } = JSON.parse(body.toString()) as { stream?: boolean };
      response.setHeader('content-type', stream === true ? 'text/event-stream' : 'application/json');
      if (stream !== true) return response.end(`{"model":"claude-sonnet-4-5","usage":${usage}}`);
      const event = (name: string, data: string) => `event: ${name}\ndata: {"type":"${name}",${data}}\n\n`;
      const start = event('message_start', `"message":{"model":"claude-sonnet-4-5","usage":${usage.replace(':10}', ':1}')}}`);
      return response.end(
        `${start}${event('message_delta', '"delta":{},"usage":{"output_tokens":10}')}event: message_stop\ndata: {"type":"message_stop"}\n\n`,
      );
    });
  const call = async (env: Record<string, string>, stream: boolean) => {
    const { gw, execute } = await startGoverned(t, { bundle: ALLOW_ALL, handler, env });
    const params = {
      model: 'claude-sonnet-4-5',
      max_tokens: 10,
      messages: [{ role: 'user', content: 'hello' }],
      ...(stream ? { stream } : {}),
    };
    const { headers } = await execute({}, { target_host: 'api.anthropic.com', params });
    return ((await gw.record(headers.get('x-gw-record-id') ?? '')) as { metering: Record<string, unknown> }).metering;
  };
  const counts = { tokens_in: 10_100, tokens_out: 10, cached_tokens_in: 9000, cache_write_tokens_in: 1000 };
  for (const stream of [false, true]) {
    const plain = await call({ GW_PRICING_CACHED: 'false' }, stream);
    t.match(plain, { ...counts, cost_usd: exactly('0.03045') }, 'all of it at the one rate');
    t.notOk('rate_cache_write' in plain);
    const apart = await call({}, stream);
    t.match(apart, {
      ...counts,
      rate_in: exactly('3'),
      rate_cached_in: exactly('0.3'),
      rate_cache_write: exactly('3.75'),
      cost_usd: exactly('0.0069'),
    });
  }
});

t.test('sound, and a cache that is kept for an hour, have rates of their own where the file states them', async (t) => {
  const file = join(tempDir(t), 'rates.yaml');
  writeFileSync(
    file,
    `rates:
  - {model: claude-sonnet-4-5, in: 3, out: 15, cached_in: 0.3, cache_write: 3.75, cache_write_1h: 6}
  - {model: gpt-4o-audio-preview, in: 2.5, out: 10, audio_in: 40, audio_out: 80}
`,
  );
  const written =
    '{"input_tokens":100,"cache_creation_input_tokens":1000,"cache_read_input_tokens":9000,"output_tokens":10,"cache_creation":{"ephemeral_5m_input_tokens":400,"ephemeral_1h_input_tokens":600}}';
  const spoken =
    '{"prompt_tokens":1000,"completion_tokens":200,"prompt_tokens_details":{"audio_tokens":300},"completion_tokens_details":{"audio_tokens":150}}';
  const handler: UpstreamHandler = (request, response, whole) =>
    void whole.then((body) => {
      const stream = (JSON.parse(body.toString()) as { stream?: boolean }).stream === true;
      response.setHeader('content-type', stream ? 'text/event-stream' : 'application/json');
      if (request.headers.host === 'api.openai.com') return response.end(`{"usage":${spoken}}`);
      if (!stream) return response.end(`{"usage":${written}}`);
      const start = `event: message_start\ndata: {"type":"message_start","message":{"usage":${written}}}\n\n`;
      return response.end(`${start}event: message_stop\ndata: {"type":"message_stop"}\n\n`);
    });
  const call = async (env: Record<string, string>, action: object) => {
    const { gw, execute } = await startGoverned(t, { bundle: ALLOW_ALL, handler, env });
    const { headers } = await execute({}, action);
    return ((await gw.record(headers.get('x-gw-record-id') ?? '')) as { metering: Record<string, unknown> }).metering;
  };
  const claude = (stream: boolean) => ({
    target_host: 'api.anthropic.com',
    params: { model: 'claude-sonnet-4-5', max_tokens: 10, messages: [], ...(stream ? { stream } : {}) },
  });
  for (const stream of [false, true]) {
    const counts = { tokens_in: 10_100, cache_write_tokens_in: 1000, cache_write_1h_tokens_in: 600 };
    t.match(
      await call({ GW_PRICING_FILE: file, GW_PRICING_CACHED: 'true' }, claude(stream)),
      { ...counts, rate_cache_write: exactly('3.75'), rate_cache_write_1h: exactly('6'), cost_usd: exactly('0.00825') },
      '100 × 3 + 9000 × 0.3 + 400 × 3.75 + 600 × 6 + 10 × 15',
    );
    const shipped = await call({ GW_PRICING_CACHED: 'true' }, claude(stream));
    t.match(shipped, { ...counts, rate_cache_write_1h: exactly('6'), cost_usd: exactly('0.00825') }, 'as the shipped list states it, too');
  }
  const audio = { params: { model: 'gpt-4o-audio-preview', messages: [] } };
  const counts = { tokens_in: 1000, tokens_out: 200, audio_tokens_in: 300, audio_tokens_out: 150 };
  t.match(
    await call({ GW_PRICING_FILE: file }, audio),
    { ...counts, rate_in: exactly('2.5'), rate_audio_in: exactly('40'), rate_audio_out: exactly('80'), cost_usd: exactly('0.02625') },
    '700 × 2.5 + 300 × 40 + 50 × 10 + 150 × 80',
  );
  t.match(await call({}, audio), counts, 'the counts always');
});

t.test('a call whose prompt may be written to a cache has to fit under a cap at that rate', async (t) => {
  const bundle = bundleOf('  targets:\n    - {id: all, effect: {decision: allow, budget: {monthly_usd_max: "3.1"}}}\n');
  const call = async (env: Record<string, string>) => {
    const { execute } = await startGoverned(t, { bundle, handler: cachedAnswer, env });
    const params = { model: 'claude-sonnet-4-20250514', max_tokens: 100, messages: [] };
    return execute({ context: { estimates: { tokens_in: 1_000_000 } } }, { target_host: 'api.anthropic.com', params });
  };
  t.equal((await call({ GW_PRICING_CACHED: 'false' })).status, 200, '3.0015');
  t.match(
    await call({}),
    { status: 403, body: { reason_codes: ['budget_monthly_usd_max_exceeded'] } },
    '6.0015: it may be kept for an hour',
  );
});

t.test('a pricing file that does not load stops the start and says where', async (t) => {
  const file = join(tempDir(t), 'rates.yaml');
  writeFileSync(file, 'rates:\n  - {model: gpt-4o, in: cheap, out: 10}\n');
  await t.rejects(startTestGateway(t, { env: { GW_PRICING_FILE: file } }), { message: new RegExp(`${file}:2:\\d+: .*"cheap" is no rate`) });
});

const sse = (...events: readonly string[]): string => events.map((event) => `data: ${event}\n\n`).join('');
const ASKED = sse(
  '{"choices":[{"delta":{"content":"Hi"}}],"usage":null}',
  '{"choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":100}}',
  '[DONE]',
);
const UNASKED = sse('{"choices":[{"delta":{"content":"Hi"}}]}', '[DONE]');

/** A stream as OpenAI sends it: with usage only when the request asks, three bytes at a time. */
const streamed: UpstreamHandler = (_request, response, whole) =>
  void whole.then((body) => {
    const { stream_options: options } = JSON.parse(body.toString()) as { stream_options?: { include_usage?: boolean } };
    response.setHeader('content-type', 'text/event-stream');
    const text = options?.include_usage === true ? ASKED : UNASKED;
    for (let at = 0; at < text.length; at += 3) response.write(text.slice(at, at + 3));
    response.end();
  });

t.test('GW_METER_INJECT_USAGE meters streams whose callers ask for no usage, and shows them none', async (t) => {
  const env = { GW_METER_INJECT_USAGE: 'true' };
  const { gw, upstream, send, through, execute, recordOf } = await startGoverned(t, { bundle: ALLOW_ALL, handler: streamed, env });
  const text = '{"model":"gpt-4o-2024-05-13", "stream":true,"n":1.0,"messages":[]}';
  const metered = {
    metering: { tokens_in: 1000, tokens_out: 100, usage_reported: true, cost_usd: exactly('0.0065') },
    stream_outcome: 'complete',
  };

  const redirected = await send(chat([], undefined, text));
  t.equal(redirected.body.toString(), UNASKED);
  t.equal(upstream.requests.at(-1)?.body.toString(), `${text.slice(0, -1)},"stream_options":{"include_usage":true}}`);
  const record = await recordOf(redirected);
  t.match(record, { ...metered, request_sha256: sha256Hex(text), response_sha256: sha256Hex(UNASKED), response_bytes: UNASKED.length });

  const intercepted = await through('api.openai.com:443', chat([], '/v1/chat/completions', text));
  t.equal(intercepted.body.toString(), UNASKED);
  t.match(await recordOf(intercepted), metered);

  const zipped = gzipSync(text);
  const compressed = await through('api.openai.com:443', {
    ...chat(['Content-Encoding', 'gzip'], '/v1/chat/completions'),
    body: zipped,
  });
  t.equal(compressed.body.toString(), UNASKED);
  t.match(await recordOf(compressed), { ...metered, request_sha256: sha256Hex(zipped) });

  const params = { model: 'gpt-4o-2024-05-13', messages: [], stream: true };
  const direct = await execute({}, { params });
  t.equal(direct.body['text'], UNASKED);
  t.match(await gw.record(direct.headers.get('x-gw-record-id') ?? ''), metered);

  const asking = JSON.stringify({ ...params, stream_options: { include_usage: true } });
  const asked = await send(chat([], undefined, asking));
  t.equal(asked.body.toString(), ASKED, 'a caller who asks gets all of it');
  t.equal(upstream.requests.at(-1)?.body.toString(), asking);
  t.match(await recordOf(asked), metered);

  const plain = await send(chat([], undefined, '{"model":"gpt-4o-2024-05-13","messages":[]}'));
  t.equal(upstream.requests.at(-1)?.body.toString(), '{"model":"gpt-4o-2024-05-13","messages":[]}', 'no stream, nothing to ask');
  t.equal(plain.status, 200);
  await send(chat([], '/proxy/mistral/v1/chat/completions', text));
  t.equal(upstream.requests.at(-1)?.body.toString(), text, 'a format that always reports usage is not asked');
});

t.test('without it such a stream has zero tokens and says that none were reported', async (t) => {
  const { send, upstream, recordOf } = await startGoverned(t, { bundle: ALLOW_ALL, handler: streamed });
  const text = '{"model":"gpt-4o-2024-05-13","stream":true,"messages":[]}';
  const answer = await send(chat([], undefined, text));
  t.equal(answer.body.toString(), UNASKED);
  t.equal(upstream.requests.at(-1)?.body.toString(), text);
  t.match(await recordOf(answer), { metering: { tokens_in: 0, tokens_out: 0, cost_usd: exactly('0'), usage_reported: false } });
});
