// Credentials, prices, budgets and limits as a program with an official SDK meets them, before an independent mock of
// the providers.
import Anthropic from '@anthropic-ai/sdk';
import { ApiError as GeminiError } from '@google/genai';
import { MistralError } from '@mistralai/mistralai/models/errors/mistralerror.js';
import { CohereError } from 'cohere-ai';
import OpenAI from 'openai';
import t, { type Test } from 'tap';
import { picoFromUsd, usdFromPico } from '../../src/base/lib/money.ts';
import { MOCK_TEXT } from '../support/aimock.ts';
import { exactly } from '../support/exactly.ts';
import { bundleOf } from '../support/governed.ts';
import { SDK_DOORS, type Sdk, type SdkAnswer, type SdkOptions, sdkClients, stainless } from '../support/sdk-clients.ts';
import { CHAT, costByHand, each, execute, type Place, recordOf, startSdkPlace, structured, USAGE } from '../support/sdk-place.ts';

const STORED = 'key-that-only-the-gateway-has';
const CONNECTORS = ['openai', 'azure_openai', 'anthropic', 'gemini', 'mistral', 'cohere'];
async function store(t: Test, { gw }: Place, connector: string): Promise<void> {
  const body = { credential_id: `stored-${connector}`, connector_id: connector, mode: 'alias', secret_ref: STORED };
  t.equal((await gw.admin('PUT', '/v1/admin/credentials', body)).status, 200);
}

t.test('a stored key takes the place of whatever key the SDK sends', async (t) => {
  const bundle = bundleOf(`  connectors:
    - {id: all, effect: {decision: allow}}
  credentials:
    - {id: ours, when: {field: context.candidates.credentials, exists: true}, effect: {decision: allow, select_credential: {mode: alias}}}
`);
  const place = await startSdkPlace(t, { apiKey: STORED, bundle });
  for (const connector of CONNECTORS) await store(t, place, connector);
  await each(t, place, { key: 'key-of-the-program' }, async (t, sdk) => {
    for (const kind of ['plain', 'stream'] as const) {
      t.equal((await sdk[kind]()).text, MOCK_TEXT, `${kind}: the mock takes no key but the stored one, in whatever header`);
      const record = await recordOf(t, place);
      t.match(record, { decision: 'allow', provider: sdk.provider, credential_id: `stored-${sdk.provider}` });
      t.notMatch(JSON.stringify(record), /key-/, 'no key in the record');
    }
  });
  const names = new Set(place.mock.journal().flatMap(({ headers }) => Object.keys(headers)));
  t.strictSame(
    [...names].filter((name) => name.startsWith('x-gw-')),
    [],
    'no header of the gateway went on',
  );
});

t.test('a key of the program goes on as it is, and one that the provider refuses is the error that the SDK has for it', async (t) => {
  const place = await startSdkPlace(t, { apiKey: 'key-of-the-program' });
  await each(t, place, { key: 'key-of-the-program' }, async (t, sdk) => {
    t.equal((await sdk.plain()).text, MOCK_TEXT);
    t.notOk('credential_id' in (await recordOf(t, place)));
  });
  await each(t, place, { key: 'another-key', retries: 0 }, async (t, sdk) => {
    const error: unknown = await sdk.plain().catch((thrown: unknown) => thrown);
    t.equal(statusOf(error), 401);
    t.match(await recordOf(t, place), {
      decision: 'allow',
      upstream_status: 401,
      metering: { cost_usd: exactly('0'), usage_reported: false },
    });
  });
});

t.test('an OAuth token goes ahead of a stored key where that is switched on, and nowhere else', async (t) => {
  const bundle = bundleOf('  credentials:\n    - {id: ours, effect: {decision: allow, select_credential: {mode: alias}}}\n');
  for (const on of [true, false]) {
    const place = await startSdkPlace(t, {
      bundle,
      apiKey: on ? 'token-of-the-login' : STORED,
      env: on ? { GW_OAUTH_PASSTHROUGH: 'anthropic' } : {},
    });
    await store(t, place, 'anthropic');
    for (const door of SDK_DOORS) {
      const { baseURL } = stainless(place.gw, door, '/anthropic');
      const client = new Anthropic({ apiKey: null, authToken: 'token-of-the-login', ...(baseURL === undefined ? {} : { baseURL }) });
      const ask = { model: 'claude-3-5-haiku-20241022', max_tokens: 10, messages: [{ role: 'user' as const, content: 'hello' }] };
      t.match(await client.messages.create(ask), { content: [{ text: MOCK_TEXT }] }, `${door}: the mock takes one of the two`);
      const record = await recordOf(t, place);
      if (on) t.match(record, { oauth_passthrough: true, credential_id: undefined });
      else t.match(record, { oauth_passthrough: undefined, credential_id: 'stored-anthropic' });
    }
  }
});

t.test('the structured API takes a stored key by its id, or a raw one', async (t) => {
  const place = await startSdkPlace(t, { apiKey: STORED });
  await store(t, place, 'openai');
  const byAlias = await execute(place, { credential_hint: 'stored-openai' });
  t.match(byAlias.body, { result: { status_code: 200 }, decision_trace: { selected_credential_id: 'stored-openai' } });
  t.match((await execute(place, { credential_hint: STORED })).body, { result: { status_code: 200 } });
  t.match((await execute(place, { credential_hint: 'another' })).body, { decision: 'allow', result: { status_code: 401 } });
  t.match((await execute(place, { credential_hint: undefined })).body, { result: { status_code: 200 } }, 'without a hint the stored one');
  t.notMatch(JSON.stringify(byAlias.body), STORED);
});

t.test('what SDKs were told they used is what records, dashboard, bill, CSV and limits say, to the last digit', async (t) => {
  const place = await startSdkPlace(t);
  const { gw } = place;
  for (const actions of [['cap'], []]) {
    await gw.admin('POST', '/v1/admin/budgets/limits', { scope: 'org', limit_usd: '100', period: 'monthly', actions });
  }
  let spent = 0n;
  let tokens = 0;
  let calls = 0;
  const charge = (record: Record<string, unknown>): void => {
    const metering = record['metering'] as Record<string, unknown>;
    spent += picoFromUsd(String(metering['cost_usd']));
    tokens += Number(metering['tokens_in']) + Number(metering['tokens_out']);
    calls += 1;
  };
  await each(t, place, {}, async (t, sdk, door) => {
    for (const kind of ['plain', 'stream'] as const) {
      const told = await sdk[kind]({ maxTokens: 200 });
      const record = await recordOf(t, place);
      checkMetering(t, told, record);
      t.match(record, { connection_type: door, stream: kind === 'stream', decision: 'allow' });
      charge(record);
    }
  });
  for (const idempotency_key of ['once', 'once', 'twice']) {
    const { body, headers } = await execute(place, { idempotency_key });
    if (headers.get('idempotent-replayed') === null) charge(await gw.record(String(body['record_id'])));
  }
  place.answers.take();

  const usd = usdFromPico(spent);
  t.equal(calls, 26);
  t.not(usd, '0');
  const get = async (path: string) => (await gw.admin('GET', path)).body as Record<string, unknown>;
  const summary = await get('/v1/dashboard/summary');
  t.match(summary, { total_requests: calls, total_allowed: calls, total_denied: 0, total_cost_usd: exactly(usd) });
  t.equal(Number(summary['total_tokens_in']) + Number(summary['total_tokens_out']), tokens);
  t.match(await get('/v1/admin/billing/summary'), { total_requests: calls, total_cost_usd: exactly(usd) });
  t.match(await get('/v1/reports/spend?org_id=default'), { total_cost_usd: exactly(usd) });
  t.match(await get('/v1/admin/budgets/limits'), {
    limits: [
      { spent_usd: exactly(usd), reserved_usd: exactly('0') },
      { spent_usd: exactly(usd), reserved_usd: exactly('0') },
    ],
  });
  const [head = '', ...lines] = (await gw.admin('GET', '/v1/admin/billing/export.csv')).text.trim().split('\r\n');
  const at = head.split(',').indexOf('cost_usd');
  const inCsv = lines.reduce((sum, line) => sum + picoFromUsd(line.split(',')[at] ?? ''), 0n);
  t.equal(usdFromPico(inCsv), usd);
  t.equal(lines.length, CONNECTORS.length);
});

/**
 * The record says what the SDK says; where the SDK was told nothing it says that, and under the cap it is charged what
 * was seen.
 */
function checkMetering(t: Test, { usage, text }: SdkAnswer, record: Record<string, unknown>): void {
  t.equal(text, MOCK_TEXT);
  const metering = record['metering'] as Record<string, unknown>;
  const reported = usage?.in !== undefined && usage.out !== undefined;
  t.equal(metering['usage_reported'], reported);
  if (reported) {
    t.match(metering, { tokens_in: usage.in, tokens_out: usage.out });
    t.same(usage, USAGE);
  } else t.ok(Number(metering['tokens_in']) > 0 && Number(metering['tokens_out']) > 0, 'what was seen');
  t.equal(metering['cost_usd'], usdFromPico(costByHand(metering)));
}

/** The status in the error that an SDK throws. */
function statusOf(error: unknown): unknown {
  for (const name of ['status', 'statusCode']) {
    const value: unknown = Reflect.get(Object(error), name);
    if (typeof value === 'number') return value;
  }
  return String(error);
}

/** The class of refusals in each SDK, of those that its users catch. */
const REFUSALS: Readonly<Record<string, new (...args: never[]) => Error>> = {
  openai: OpenAI.PermissionDeniedError,
  azure: OpenAI.PermissionDeniedError,
  anthropic: Anthropic.PermissionDeniedError,
  gemini: GeminiError,
  mistral: MistralError,
  cohere: CohereError,
};

/** A call that must be refused: the SDK throws its own error, at once, with words for a person; nothing is sent on. */
async function refused(t: Test, place: Place, name: string, sdk: Sdk, message: RegExp, record: object): Promise<void> {
  const before = place.mock.journal().length;
  for (const kind of ['plain', 'stream'] as const) {
    const error: unknown = await sdk[kind]().catch((thrown: unknown) => thrown);
    t.ok(error instanceof (REFUSALS[name] ?? Error), `${kind}: ${String(error)}`);
    t.equal(statusOf(error), 403);
    t.match((error as Error).message, message);
    t.match(await recordOf(t, place), { status_code: 403, ...record }, `${kind}: one answer, not tried again`);
  }
  t.equal(place.mock.journal().length, before, 'nothing was forwarded');
}

t.test('a cap that is reached is the error for a refusal in each SDK, and says so', async (t) => {
  const bundle = bundleOf(`  budgets:
    - {id: all, effect: {decision: allow}}
    - {id: request, when: {field: attribution.project_id, equals: small}, effect: {budget: {usd_max: "0.000000001"}}}
    - {id: month, when: {field: attribution.project_id, equals: apollo}, effect: {budget: {monthly_usd_max: "0.000000001"}}}
`);
  const place = await startSdkPlace(t, { bundle });
  const of = (project: string): SdkOptions => ({ headers: { 'X-GW-Project-ID': project } });
  const deny = (code: string) => ({ decision: 'deny', reason: 'budget_exceeded', reason_codes: [code] });
  await t.test('of one request', (t) =>
    each(t, place, of('small'), (t, sdk, _door, name) =>
      refused(t, place, name, sdk, /budget_usd_max_exceeded/, { ...deny('budget_usd_max_exceeded'), project_id: 'small' }),
    ),
  );
  await t.test('of a project and month', (t) =>
    each(t, place, of('apollo'), (t, sdk, _door, name) =>
      refused(t, place, name, sdk, /budget_monthly_usd_max_exceeded/, deny('budget_monthly_usd_max_exceeded')),
    ),
  );
  await place.gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'ci' });
  const limited = async (t: Test, scope: object, headers: Readonly<Record<string, string>>, only?: string) => {
    const limit = { limit_usd: '0.000000001', period: 'daily', actions: ['cap'], ...scope };
    const { limit_id: id } = (await place.gw.admin('POST', '/v1/admin/budgets/limits', limit)).body as { limit_id: string };
    for (const door of SDK_DOORS) {
      for (const [name, sdk] of Object.entries(sdkClients(place.gw, door, { headers }))) {
        if (only === undefined || only === name) await refused(t, place, name, sdk, /budget_limit_exceeded/, deny('budget_limit_exceeded'));
      }
    }
    t.equal((await place.gw.admin('DELETE', `/v1/admin/budgets/limits/${id}`)).status, 200);
  };
  await t.test('of a workload', (t) => limited(t, { scope: 'workload', scope_id: 'ci' }, { 'X-GW-Workload-ID': 'ci' }));
  await t.test('of a project', (t) => limited(t, { scope: 'project', scope_id: 'gaia' }, { 'X-GW-Project-ID': 'gaia' }, 'anthropic'));
  await t.test('of a provider', (t) => limited(t, { scope: 'provider', scope_id: 'gemini' }, {}, 'gemini'));
  await t.test('of the org', (t) => limited(t, { scope: 'org' }, {}, 'cohere'));
  t.equal(((await place.gw.admin('GET', '/v1/dashboard/summary')).body as Record<string, unknown>)['total_cost_usd'], '0');
});

t.test('a cap is asked with the estimate and settled with what the call cost', async (t) => {
  const place = await startSdkPlace(t);
  const sdk = sdkClients(place.gw, 'connect_proxy', { retries: 0 })['openai'];
  const estimate = picoFromUsd('0.000035') + 200n * picoFromUsd('0.000015');
  await place.gw.admin('POST', '/v1/admin/budgets/limits', { scope: 'org', limit_usd: usdFromPico(estimate), actions: ['cap'] });
  await sdk?.plain({ maxTokens: 200 });
  const record = await recordOf(t, place);
  t.match(record, { metering: { cost_usd: exactly('0.00752'), rate_in: exactly('5'), rate_out: exactly('15'), rate_source: 'catalogue' } });
  const { limits } = (await place.gw.admin('GET', '/v1/admin/budgets/limits')).body as { limits: readonly object[] };
  t.match(
    limits,
    [{ limit_usd: exactly('0.003035'), spent_usd: exactly('0.00752'), reserved_usd: exactly('0') }],
    'seven tokens were estimated, 1237 were charged',
  );
  const error: unknown = await sdk?.plain({ maxTokens: 1 }).catch((thrown: unknown) => thrown);
  t.ok(error instanceof OpenAI.PermissionDeniedError);
});

t.test('the monthly limit of requests', async (t) => {
  const place = await startSdkPlace(t, { env: { GW_MONTHLY_REQUEST_LIMIT: '1' } });
  t.equal((await execute(place)).status, 200);
  place.answers.take();
  await each(t, place, {}, (t, sdk, _door, name) =>
    refused(t, place, name, sdk, /monthly_request_limit_exceeded/, { decision: 'deny', reason: 'monthly_request_limit_exceeded' }),
  );
});

t.test('a downgrade sends another model, and the SDK gets its answer', async (t) => {
  const models = {
    openai: 'gpt-4o-2024-05-13',
    azure_openai: 'gpt-4o-2024-05-13',
    anthropic: 'claude-3-opus-20240229',
    gemini: 'gemini-2.5-pro',
    mistral: 'mistral-large-latest',
    cohere: 'command-a-03-2025',
  };
  const rules = Object.entries(models).map(
    ([connector, model]) =>
      `    - {id: cheaper.${connector}, when: {all: [{field: context.connector.id, equals: ${connector}}, {field: context.action.params.model, equals: ${model}}]}, ` +
      `effect: {decision: downgrade, mutations: [{key: action.params.model, value: small-${connector}}]}}\n`,
  );
  const place = await startSdkPlace(t, {
    bundle: bundleOf(`  targets:\n    - {id: all, effect: {decision: allow}}\n  transforms:\n${rules.join('')}`),
  });
  await each(t, place, {}, async (t, sdk) => {
    const model = models[sdk.provider as keyof typeof models];
    for (const kind of ['plain', 'stream'] as const) {
      t.equal((await sdk[kind]({ model })).text, MOCK_TEXT);
      const sent = place.mock.journal().at(-1);
      t.match(`${sent?.path} ${JSON.stringify(sent?.body)}`, `small-${sdk.provider}`, 'the provider was asked for the substitute');
      t.notMatch(`${sent?.path}`, model);
      const [answer] = place.answers.take();
      t.equal(answer?.headers['x-gw-decision'], 'downgrade');
      t.match(await place.gw.record(answer?.recordId ?? ''), {
        decision: 'downgrade',
        model: `small-${sdk.provider}`,
        // The stand-in of Azure answers with the model of the body, not with the deployment in the path: what answers
        // is charged (decision 6.3).
        metering: { rate_source: sdk.provider === 'azure_openai' ? 'catalogue' : 'default' },
      });
    }
  });
  const direct = await execute(place);
  const attributes = { original_model: 'gpt-4o-2024-05-13', substituted_model: 'small-openai' };
  t.match(direct, {
    status: 200,
    body: { decision: 'downgrade', decision_trace: { attributes }, result: { body: { model: 'small-openai' } } },
  });
});

t.test('rate limits', async (t) => {
  const bundle = bundleOf(`  budgets:
    - {id: all, effect: {decision: allow}}
    - {id: slow, when: {field: context.action.params.model, equals: gpt-4}, effect: {rate_limit: {requests_per_minute: 60}}}
    - {id: slower, when: {field: context.action.params.model, equals: gpt-4-0613}, effect: {rate_limit: {requests_per_minute: 1}}}
`);
  const place = await startSdkPlace(t, { bundle });
  const drain = async (model = 'gpt-4') => {
    for (let calls = 0; calls < 200; calls++) {
      const answer = await execute(place, {}, { params: { ...CHAT, model } });
      if (answer.status === 429) return answer;
    }
    throw new Error('the bucket was never empty');
  };
  await t.test('by the proxied doors an SDK is refused at once', async (t) => {
    for (const door of SDK_DOORS) {
      // A bucket that is filled once in a minute stays empty on a busy machine, too.
      await drain('gpt-4-0613');
      place.answers.take();
      const error: unknown = await sdkClients(place.gw, door)
        ['openai']?.plain({ model: 'gpt-4-0613' })
        .catch((thrown: unknown) => thrown);
      t.ok(error instanceof OpenAI.PermissionDeniedError, String(error));
      t.match((error as Error).message, /rate_limited.*1 requests per minute \(rule "slower"\)\. .* again in \d+ s\./);
      t.match(await recordOf(t, place), { decision: 'rate_limit', status_code: 403, reason_codes: ['rate_limited'] });
    }
  });
  await t.test('at the structured API an SDK waits as long as it is told, and gets its answer', async (t) => {
    const client = new OpenAI({ baseURL: place.gw.url, apiKey: 'unused', maxRetries: 3 });
    const drained = await drain();
    t.equal(drained.headers.get('retry-after'), '1');
    place.answers.take();
    const began = performance.now();
    const body = structured({}, { params: { ...CHAT, model: 'gpt-4' } });
    const answer = await client.post<Record<string, unknown>>('/v1/actions:execute', { body });
    t.match(answer, { decision: 'allow', result: { status_code: 200 } });
    t.ok(performance.now() - began >= 990, 'it waited');
    t.match(
      place.answers.take().map(({ status }) => status),
      [429, 200],
    );
    await drain();
    const impatient: unknown = await client.post('/v1/actions:execute', { body, maxRetries: 0 }).catch((thrown: unknown) => thrown);
    t.ok(impatient instanceof OpenAI.RateLimitError);
    t.match(impatient, { status: 429, message: /60 requests per minute/, headers: Headers });
    t.equal((impatient as { headers: Headers }).headers.get('retry-after'), '1');
  });
  await t.test("the provider's own 429 comes through with its Retry-After, and only the answer costs", async (t) => {
    const { mock } = place.mock;
    let times = 0;
    mock.prependFixture({
      match: { userMessage: /busy/ },
      response: () =>
        times++ % 2 === 0
          ? { error: { message: 'slow down', type: 'rate_limit_error' }, status: 429, retryAfter: 1 }
          : { content: MOCK_TEXT, usage: { input_tokens: USAGE.in, output_tokens: USAGE.out } },
    });
    for (const name of ['openai', 'anthropic']) {
      place.answers.take();
      const told = await sdkClients(place.gw, 'connect_proxy')[name]?.plain({ prompt: 'busy' });
      t.equal(told?.text, MOCK_TEXT);
      const seen = place.answers.take();
      t.match(seen, [{ status: 429, headers: { 'retry-after': '1' } }, { status: 200 }]);
      const [first, second] = await Promise.all(seen.map(({ recordId }) => place.gw.record(recordId)));
      t.match(first, { decision: 'allow', upstream_status: 429, metering: { cost_usd: exactly('0'), usage_reported: false } });
      t.match(second, { decision: 'allow', upstream_status: 200, metering: { tokens_in: USAGE.in, tokens_out: USAGE.out } });
    }
  });
});

t.test("idempotency: an SDK's call at the structured API runs once", async (t) => {
  const place = await startSdkPlace(t);
  const client = new OpenAI({ baseURL: place.gw.url, apiKey: 'unused' });
  const call = () =>
    client.post<Record<string, unknown>>('/v1/actions:execute', { body: structured({ idempotency_key: 'order-1' }) }).withResponse();
  const first = await call();
  const again = await call();
  t.same(again.data, first.data, 'the same answer, the same record');
  t.strictSame([first.response.headers.get('idempotent-replayed'), again.response.headers.get('idempotent-replayed')], [null, 'true']);
  t.equal(place.mock.journal().length, 1);
  t.equal(place.mock.journal()[0]?.headers['idempotency-key'], 'order-1', 'the provider knows it too');
  const { total_cost_usd: cost } = (await place.gw.admin('GET', '/v1/dashboard/summary')).body as Record<string, unknown>;
  t.equal(cost, '0.00752');
  const other = structured({ idempotency_key: 'order-1' }, { params: { ...CHAT, model: 'gpt-4' } });
  const error: unknown = await client.post('/v1/actions:execute', { body: other }).catch((thrown: unknown) => thrown);
  t.ok(error instanceof OpenAI.ConflictError, String(error));
  t.equal(place.mock.journal().length, 1, 'and was not tried again');

  for (const door of SDK_DOORS) {
    const own = new OpenAI(stainless(place.gw, door, '/openai/v1'));
    const before = place.mock.journal().length;
    for (let i = 0; i < 2; i++) {
      await own.chat.completions.create(
        { model: 'gpt-4o-2024-05-13', messages: [{ role: 'user', content: 'hello' }] },
        { headers: { 'Idempotency-Key': 'mine' } },
      );
    }
    const sent = place.mock.journal().slice(before);
    t.strictSame(
      sent.map(({ headers }) => headers['idempotency-key']),
      ['mine', 'mine'],
      `${door}: a key of the program is the provider's affair`,
    );
  }
});
