import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { startTestGateway } from '../support/gateway.ts';
import { ALLOW_ALL, startGoverned } from '../support/governed.ts';
import { tempDir } from '../support/temp-dir.ts';
import type { UpstreamHandler } from '../support/tls-upstream.ts';

const cachedAnswer: UpstreamHandler = (_request, response, body) =>
  void body.then(() =>
    response
      .setHeader('content-type', 'application/json')
      .end('{"usage":{"prompt_tokens":1000,"completion_tokens":100,"prompt_tokens_details":{"cached_tokens":900}}}'),
  );

t.test("a record holds the operator's rates and the cost at them, cached input apart when that is switched on", async (t) => {
  const file = join(tempDir(t), 'rates.yaml');
  writeFileSync(file, 'rates:\n  - {provider: openai, model: gpt-4o, in: "2.50", out: 10, cached_in: 1.25}\n');
  const call = async (env: Record<string, string>, model = 'gpt-4o') => {
    const { gw, execute } = await startGoverned(t, { bundle: ALLOW_ALL, handler: cachedAnswer, env });
    const answer = await execute({}, { params: { model, messages: [{ role: 'user', content: 'hello' }] } });
    t.equal(answer.status, 200);
    const { metering } = (await gw.record(String(answer.body['record_id']))) as { metering: Record<string, unknown> };
    return { metering, metrics: (await gw.admin('GET', '/metrics')).text };
  };
  const plain = await call({ GW_PRICING_FILE: file });
  t.match(plain.metering, { rate_in: '2.50', rate_out: '10', rate_source: 'override', cost_usd: '0.0035', cached_tokens_in: 900 });
  t.notOk('rate_cached_in' in plain.metering);
  t.notMatch(plain.metrics, /gw_priced_by_default_total\{/);
  const cached = await call({ GW_PRICING_FILE: file, GW_PRICING_CACHED: 'true' });
  t.match(cached.metering, { rate_in: '2.50', rate_cached_in: '1.25', cost_usd: '0.002375' });
  const unlisted = await call({ GW_PRICING_CACHED: 'true' }, 'nobody-knows');
  t.match(unlisted.metering, { rate_in: '10', rate_out: '30', rate_source: 'default', cost_usd: '0.013' });
  t.notOk('rate_cached_in' in unlisted.metering, 'no rate, no member');
  t.match(unlisted.metrics, /gw_priced_by_default_total\{provider="openai"\} 1\n/);
});

t.test('a pricing file that does not load stops the start and says where', async (t) => {
  const file = join(tempDir(t), 'rates.yaml');
  writeFileSync(file, 'rates:\n  - {model: gpt-4o, in: cheap, out: 10}\n');
  await t.rejects(startTestGateway(t, { env: { GW_PRICING_FILE: file } }), { message: new RegExp(`${file}:2:\\d+: .*"cheap" is no rate`) });
});
