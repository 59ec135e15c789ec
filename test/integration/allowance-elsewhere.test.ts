// The whole gateway before an allowance that is somewhere else: nothing relies on an answer at once.
import t from 'tap';
import { DELEGATED_AT, everydayToken, Issuer } from '../decide/delegation/delegation-tokens.ts';
import { elsewhere } from '../support/allowance-elsewhere.ts';
import { ENDLESS, type EndlessForm, endlessUpstream } from '../support/endless-streams.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { ALLOW_ALL, startGoverned } from '../support/governed.ts';

const issuer = new Issuer('ci');

t.test('rates, caps and delegations refuse as ever', async (t) => {
  const clock = fakeClock(DELEGATED_AT);
  const env = {
    GW_DELEGATION_VERIFY_KEY: `ci=${issuer.publicKey}`,
    GW_RATELIMIT_REFILL_RATE: '6',
    GW_RATELIMIT_MAX_TOKENS: '4',
    GW_RATELIMIT_WINDOW: '1m',
    GW_MONTHLY_REQUEST_LIMIT: '9',
  };
  const { execute, gw } = await startGoverned(t, { bundle: ALLOW_ALL, clock, env, allowance: elsewhere });
  const code = async (extra: object = {}): Promise<string> => {
    const { status, body } = await execute(extra);
    return status === 200 ? 'allow' : String((body['reason_codes'] as string[])[0]);
  };
  const cap = (limit_usd: string) =>
    gw.admin('POST', '/v1/admin/budgets/limits', { scope: 'org', limit_usd, period: 'daily', actions: ['cap'] });
  const limitOf = async () => ((await gw.admin('GET', '/v1/admin/budgets/limits')).body as { limits: Record<string, unknown>[] }).limits;
  const poor = { delegation_token: issuer.text(everydayToken({ delegation_id: 'poor', budget: { usd_max: '0.000000001' } })) };
  t.same(await Promise.all([code(), code(), code()]), ['allow', 'allow', 'allow']);
  t.equal(await code(poor), 'delegation_budget_exceeded');
  await cap('0.000001');
  t.equal(await code(), 'budget_limit_exceeded', 'what was refused has taken no token: there is one');
  const [made] = await limitOf();
  t.equal(made?.['reserved_usd'], '0', 'and nothing is set aside');
  await gw.admin('DELETE', `/v1/admin/budgets/limits/${String(made?.['limit_id'])}`);
  t.same([await code(), await code()], ['allow', 'rate_limited']);
  clock.advance(60_000);
  t.same(
    [await code(), await code(), await code()],
    ['allow', 'allow', 'monthly_request_limit_exceeded'],
    'refused requests count in a month, too',
  );
});

t.test('a stream grows and is ended at its cap', async (t) => {
  const upstream = endlessUpstream();
  const { gw, through, recordOf } = await startGoverned(t, {
    bundle: ALLOW_ALL,
    handler: upstream.handler,
    env: { GW_STREAM_STOP_AT_CAP: 'true' },
    allowance: elsewhere,
  });
  const [form] = ENDLESS as readonly [EndlessForm];
  await gw.admin('POST', '/v1/admin/budgets/limits', { scope: 'org', limit_usd: '0.002', actions: ['cap'] });
  const headers = ['Authorization', 'Bearer k', 'Content-Type', 'application/json'];
  const answer = await through(`${form.host}:443`, { method: 'POST', path: form.path, headers, body: JSON.stringify(form.body) });
  t.equal(answer.status, 200);
  t.match(answer.body.toString(), /stream_stopped_at_cap/);
  const record = await recordOf(answer);
  t.match(record, { reason_codes: ['stream_stopped_at_cap', 'budget_limit_exceeded'] });
  const { limits } = (await gw.admin('GET', '/v1/admin/budgets/limits')).body as { limits: Record<string, unknown>[] };
  t.same(
    limits.map(({ reserved_usd: reserved, spent_usd: spent }) => [reserved, spent]),
    [['0', (record['metering'] as Record<string, unknown>)['cost_usd']]],
    'it is charged what was seen of it',
  );
});

t.test('what cannot be asked for is refused with 503 and when to try again', async (t) => {
  const unavailable = { kind: 'unavailable', retryAfterSeconds: 5 } as const;
  const { execute, through } = await startGoverned(t, {
    bundle: ALLOW_ALL,
    allowance: (here) => ({
      ...elsewhere(here),
      take: async (ask) => (ask.spend === undefined ? undefined : unavailable),
    }),
  });
  const { status, body, headers } = await execute();
  t.equal(status, 503);
  t.match(body, { decision: 'error', reason_codes: ['limits_unavailable'] });
  t.equal(headers.get('retry-after'), '5');
  const sent = ['Authorization', 'Bearer k', 'Content-Type', 'application/json'];
  const text = JSON.stringify({ model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'hi' }] });
  const proxied = await through('api.openai.com:443', { method: 'POST', path: '/v1/chat/completions', headers: sent, body: text });
  t.equal(proxied.status, 503);
  t.match(proxied.body.toString(), /limits_unavailable/);
});
