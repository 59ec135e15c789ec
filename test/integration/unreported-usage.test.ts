// Under a cap or a budget limit no call costs nothing because its answer does not say what it used (decision 6.4).
import { once } from 'node:events';
import t, { type Test } from 'tap';
import { eventually } from '../support/child.ts';
import { exactly } from '../support/exactly.ts';
import { ALLOW_ALL, bundleOf, chat, type Governed, startGoverned } from '../support/governed.ts';
import type { UpstreamHandler } from '../support/tls-upstream.ts';

const MODEL = 'gpt-4o-2024-05-13';
const data = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;
const DELTA = data({ choices: [{ index: 0, delta: { content: 'Once' } }] });
const DONE = 'data: [DONE]\n\n';
const REPORT = data({ choices: [], usage: { prompt_tokens: 1000, completion_tokens: 100 } });
const STREAM = JSON.stringify({ model: MODEL, stream: true, max_tokens: 200, messages: [{ role: 'user', content: 'hello' }] });

interface Received {
  readonly stream_options?: { readonly include_usage?: boolean };
}

/** As OpenAI streams: with a usage only for who asks. */
const asOpenAi: UpstreamHandler = (_request, response, whole) =>
  void whole.then((body) => {
    const { stream_options: options } = JSON.parse(body.toString()) as Received;
    response.setHeader('content-type', 'text/event-stream');
    response.end(options?.include_usage === true ? DELTA.replace('}}]', '}}],"usage":null') + REPORT + DONE : DELTA + DONE);
  });

/** As a server that does not know the option. */
const asDeaf: UpstreamHandler = (_request, response, whole) =>
  void whole.then(() => response.setHeader('content-type', 'text/event-stream').end(DELTA + DONE));

function answers(type: string, body: string | Buffer, status = 200): UpstreamHandler {
  return (_request, response, whole) => void whole.then(() => response.writeHead(status, { 'content-type': type }).end(body));
}

function limit({ gw }: Governed, actions: readonly string[], limit_usd = '0.05', more: object = {}) {
  return gw.admin('POST', '/v1/admin/budgets/limits', { scope: 'org', limit_usd, actions, ...more });
}

async function metering(governed: Governed, answer: Parameters<Governed['recordOf']>[0]): Promise<Record<string, unknown>> {
  return (await governed.recordOf(answer))['metering'] as Record<string, unknown>;
}

const REPORTED = { tokens_in: 1000, tokens_out: 100, usage_reported: true, cost_usd: exactly('0.0065') };
/** The prompt and the one word. */
const SEEN = { tokens_in: 7, tokens_out: 2, usage_reported: false, cost_usd: exactly('0.000065') };
const NOTHING = { tokens_in: 0, tokens_out: 0, usage_reported: false, cost_usd: exactly('0') };

// Holds: bodies-stay-as-they-are
t.test('a stream is asked for its usage where a cap or limit watches it, and its caller sees nothing of that', async (t) => {
  const watched: readonly (readonly [string, string, readonly string[] | undefined])[] = [
    ['the cap of one request', bundleOf('  budgets:\n    - {id: cap, effect: {decision: allow, budget: {usd_max: "1"}}}\n'), undefined],
    [
      'the cap of a project',
      bundleOf('  budgets:\n    - {id: cap, effect: {decision: allow, budget: {monthly_usd_max: "1"}}}\n'),
      undefined,
    ],
    ['a limit that caps', ALLOW_ALL, ['cap']],
    ['a limit that alerts', ALLOW_ALL, ['alert']],
  ];
  for (const [name, bundle, actions] of watched) {
    const governed = await startGoverned(t, { bundle, handler: asOpenAi });
    if (actions) await limit(governed, actions);
    const answer = await governed.send(chat([], undefined, STREAM));
    t.equal(answer.body.toString(), DELTA + DONE, name);
    t.match(await metering(governed, answer), REPORTED, name);
  }
  const free = await startGoverned(t, { bundle: ALLOW_ALL, handler: asOpenAi });
  await limit(free, []);
  await limit(free, ['cap'], '1', { scope: 'project', scope_id: 'another' });
  const answer = await free.send(chat([], undefined, STREAM));
  t.equal(free.upstream.requests.at(-1)?.body.toString(), STREAM, 'nothing watches: as it came');
  t.match(await metering(free, answer), NOTHING);
});

// Holds: unreported-usage-costs
t.test('no number of streams passes a cap because their callers ask for no usage', async (t) => {
  for (const [inject, handler] of [
    ['capped', asOpenAi],
    ['capped', asDeaf],
    ['true', asDeaf],
    ['false', asOpenAi],
  ] as const) {
    const governed = await startGoverned(t, { bundle: ALLOW_ALL, handler, env: { GW_METER_INJECT_USAGE: inject } });
    await limit(governed, ['cap'], handler === asOpenAi && inject === 'capped' ? '0.0292' : '0.0033');
    const statuses: number[] = [];
    for (let at = 0; at < 8; at++) statuses.push((await governed.send(chat([], undefined, STREAM))).status);
    t.strictSame([statuses[0], statuses.at(-1)], [200, 403], `${inject}: ${statuses.join(' ')}`);
  }
});

// Holds: unreported-usage-costs
t.test('a stream that reports nothing costs what was seen of it under a cap, and without one nothing', async (t) => {
  for (const inject of ['capped', 'true', 'false']) {
    const governed = await startGoverned(t, { bundle: ALLOW_ALL, handler: asDeaf, env: { GW_METER_INJECT_USAGE: inject } });
    t.match(await metering(governed, await governed.send(chat([], undefined, STREAM))), NOTHING, `${inject}, without a cap`);
    await limit(governed, ['cap']);
    const capped = await governed.send(chat([], undefined, STREAM));
    t.equal(capped.body.toString(), DELTA + DONE);
    t.match(await metering(governed, capped), SEEN, `${inject}, under a cap`);
    const { body } = await governed.gw.admin('GET', '/v1/admin/budgets/limits');
    t.match(body, { limits: [{ spent_usd: exactly('0.000065'), reserved_usd: exactly('0') }] });
  }
});

interface Silent {
  readonly name: string;
  readonly path: string;
  readonly body: object;
  readonly handler: UpstreamHandler;
  readonly metering: object;
}

/** `max_tokens` is 200: what was set aside is seven tokens in and 200 out. */
const SET_ASIDE = { tokens_in: 7, tokens_out: 200, usage_reported: false, cost_usd: exactly('0.003035') };
const ASK = { model: MODEL, max_tokens: 200, messages: [{ role: 'user', content: 'hello' }] };
const CHAT_PATH = '/proxy/openai/v1/chat/completions';
const SILENT: readonly Silent[] = [
  {
    name: 'a stream that repeats a zero',
    path: CHAT_PATH,
    body: { ...ASK, stream: true },
    handler: answers('text/event-stream', DELTA + data({ choices: [], usage: { prompt_tokens: 0, completion_tokens: 0 } }) + DONE),
    metering: SEEN,
  },
  {
    name: 'a stream of which nothing can be seen: what was set aside',
    path: CHAT_PATH,
    body: { ...ASK, stream: true },
    handler: answers('text/event-stream', data({ choices: [{ delta: { audio: { data: 'AAAA' } } }] }) + DONE),
    metering: SET_ASIDE,
  },
  {
    name: 'a stream in an encoding that nobody can read',
    path: CHAT_PATH,
    body: { ...ASK, stream: true },
    handler: (_request, response, whole) =>
      void whole.then(() => response.writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': 'secret' }).end('????')),
    metering: { tokens_in: 7, usage_reported: false },
  },
  {
    name: 'an answer that is no stream',
    path: CHAT_PATH,
    body: ASK,
    handler: answers('application/json', '{"choices":[{"message":{"content":"Once"}}]}'),
    metering: SET_ASIDE,
  },
  {
    name: 'a provider that refuses the call',
    path: CHAT_PATH,
    body: ASK,
    handler: answers('application/json', '{"error":{"message":"no"}}', 429),
    metering: NOTHING,
  },
  {
    name: 'a stream that is an error',
    path: CHAT_PATH,
    body: { ...ASK, stream: true },
    handler: answers('text/event-stream', data({ error: { message: 'no' } }) + DONE),
    metering: NOTHING,
  },
  {
    name: 'what is charged by no token',
    path: '/proxy/openai/v1/moderations',
    body: { model: 'omni-moderation-latest', input: 'hello' },
    handler: answers('application/json', '{"results":[]}'),
    metering: NOTHING,
  },
];

t.test(
  'a stream that says why it ended and neither what it used nor [DONE] is complete, and costs under a cap what was seen of it',
  async (t) => {
    const finish = data({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] });
    for (const stopAtCap of ['false', 'true']) {
      for (const inject of ['capped', 'false']) {
        const env = { GW_METER_INJECT_USAGE: inject, GW_STREAM_STOP_AT_CAP: stopAtCap };
        let pieces = DELTA + finish;
        const governed = await startGoverned(t, {
          bundle: ALLOW_ALL,
          env,
          handler: (_request, response, whole) =>
            void whole.then(() => response.setHeader('content-type', 'text/event-stream').end(pieces)),
        });
        await limit(governed, ['cap']);
        const silent = await governed.send(chat([], undefined, STREAM));
        t.equal(silent.body.toString(), DELTA + finish);
        t.match(await governed.recordOf(silent), { stream_outcome: 'complete', metering: SEEN });
        pieces = DELTA + finish + REPORT;
        const reporting = await governed.send(chat([], undefined, STREAM));
        t.equal(reporting.body.toString(), inject === 'false' ? pieces : DELTA + finish, 'what was asked for is kept from the caller');
        t.match(await governed.recordOf(reporting), { stream_outcome: 'complete', metering: REPORTED });
      }
    }
  },
);

t.test('whatever does not say what it used', async (t) => {
  let next: UpstreamHandler = asOpenAi;
  const governed = await startGoverned(t, { bundle: ALLOW_ALL, handler: (...call) => next(...call) });
  await limit(governed, ['cap']);
  for (const { name, path, body, handler, metering: want } of SILENT) {
    next = handler;
    t.match(await metering(governed, await governed.send(chat([], path, body))), want, name);
  }
});

async function untilLeft(governed: Governed, body: object, until: number): Promise<Record<string, unknown>> {
  const leaving = new AbortController();
  const response = await fetch(`${governed.gw.url}${CHAT_PATH}`, { method: 'POST', body: JSON.stringify(body), signal: leaving.signal });
  const reader = response.body?.getReader();
  for (let seen = 0; seen < until; ) {
    const { value, done } = (await reader?.read()) ?? { done: true };
    if (done) throw new Error('the answer ended by itself');
    seen += value?.length ?? 0;
  }
  leaving.abort();
  return eventually('the record', async () => {
    const { status, body: record } = await governed.gw.admin('GET', `/v1/records/${response.headers.get('x-gw-record-id') ?? ''}`);
    return status === 200 ? (record as Record<string, unknown>) : undefined;
  });
}

t.test('an error with status 200 costs nothing under a cap, labelled as JSON or as a stream', async (t) => {
  const refused = JSON.stringify({ error: { message: 'Provider returned error', code: 429 } });
  for (const type of ['application/json', 'text/event-stream']) {
    const governed = await startGoverned(t, { bundle: ALLOW_ALL, handler: answers(type, refused) });
    await limit(governed, ['cap']);
    for (const body of [undefined, STREAM])
      t.match(await metering(governed, await governed.send(chat([], undefined, body))), NOTHING, type);
  }
  // Members that are there and say nothing are no error.
  const answered = JSON.stringify({ error: null, choices: [{ message: { content: 'x' } }] });
  const governed = await startGoverned(t, { bundle: ALLOW_ALL, handler: answers('application/json', answered) });
  await limit(governed, ['cap']);
  t.notMatch(await metering(governed, await governed.send(chat([]))), { cost_usd: exactly('0') });
});

t.test('a client that leaves before the last bytes, where the usage stands, pays all the same', async (t) => {
  const large = 'x'.repeat(100_000);
  const start = `{"choices":[{"message":{"content":"${large}`;
  const handler: UpstreamHandler = (request, response, whole) =>
    void whole.then(async (body) => {
      const { stream } = JSON.parse(body.toString()) as { stream?: boolean };
      response.writeHead(200, stream ? { 'content-type': 'text/event-stream' } : { 'content-type': 'application/json' });
      if (stream) response.flushHeaders();
      else response.write(start);
      await once(request, 'close');
    });
  const governed = await startGoverned(t, { bundle: ALLOW_ALL, handler });
  await limit(governed, ['cap']);
  t.match(await untilLeft(governed, ASK, start.length), { decision: 'allow', metering: SET_ASIDE }, 'a large answer');
  const prompt = { tokens_in: 7, tokens_out: 0, usage_reported: false, cost_usd: exactly('0.000035') };
  t.match(
    await untilLeft(governed, { ...ASK, stream: true }, 0),
    { stream_outcome: 'aborted', metering: prompt },
    'a stream that said nothing',
  );
});

t.test('who cannot be asked is not: an old Azure interface, a call about data sources, a caller that asks in another way', async (t) => {
  const governed = await startGoverned(t, { bundle: ALLOW_ALL, handler: asOpenAi, hosts: ['openrouter.ai'] });
  await limit(governed, ['cap'], '1');
  const asks = async (t: Test, host: string, path: string, more: object, want: boolean) => {
    await governed.through(`${host}:443`, chat([], path, { ...ASK, stream: true, ...more }));
    const { stream_options: options } = JSON.parse(governed.upstream.requests.at(-1)?.body.toString() ?? '') as Received;
    t.equal(options?.include_usage === true, want, `${path} ${JSON.stringify(more)}`);
  };
  const azure = (version: string) => `/openai/deployments/d/chat/completions${version}`;
  for (const [version, more, want] of [
    ['?api-version=2024-06-01', {}, false],
    ['?api-version=2024-09-01-preview', {}, true],
    ['?api-version=2025-01-01-preview', {}, true],
    ['?api-version=2025-01-01-preview', { data_sources: [] }, false],
    ['', {}, false],
  ] as const)
    await asks(t, 'res.openai.azure.com', azure(version), more, want);
  await asks(t, 'res.openai.azure.com', '/openai/v1/chat/completions', {}, true);
  await asks(t, 'openrouter.ai', '/api/v1/chat/completions', { usage: { include: true } }, false);
  await asks(t, 'openrouter.ai', '/api/v1/chat/completions', {}, true);
  await asks(t, 'api.mistral.ai', '/v1/chat/completions', {}, false);
});

t.test(
  'what is counted in units that nobody has a price for costs what was set aside under a cap, and its record says so without one',
  async (t) => {
    const governed = await startGoverned(t, {
      bundle: ALLOW_ALL,
      handler: answers('application/json', '{"task":"transcribe","duration":600,"text":"x"}'),
    });
    const send = () =>
      governed.through('res.openai.azure.com:443', {
        method: 'POST',
        path: '/openai/deployments/stt-prod/audio/transcriptions?api-version=2024-06-01',
        headers: ['Authorization', 'Bearer k', 'Content-Type', 'multipart/form-data; boundary=b'],
        body: '--b\r\nContent-Disposition: form-data; name="response_format"\r\n\r\nverbose_json\r\n--b--\r\n',
      });
    t.match(await metering(governed, await send()), { cost_usd: exactly('0'), rate_source: 'default', unpriced: ['audio_seconds'] });
    await limit(governed, ['cap']);
    t.match(await metering(governed, await send()), { cost_usd: exactly('0.03072'), usage_reported: false });
  },
);
