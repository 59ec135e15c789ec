import t from 'tap';
import { picoFromUsd, usdFromPico } from '../../src/base/lib/money.ts';
import { endlessUpstream } from '../support/endless-streams.ts';
import { startGatewayProcess } from '../support/gateway-process.ts';
import { ALLOW_ALL } from '../support/governed.ts';
import { startTlsUpstream } from '../support/tls-upstream.ts';
import { towards } from '../support/upstreams.ts';
import { WHOLE_MONTH } from '../support/whole-month.ts';
import { callSdk, type Sdk } from './sdk-calls.ts';

/*
 * What programs see of GW_STREAM_STOP_AT_CAP: the official SDKs raise the gateway's last event as an error of theirs,
 * with its reason.
 */

const HOSTS = ['api.openai.com', 'api.anthropic.com', 'generativelanguage.googleapis.com', 'api.mistral.ai', 'api.cohere.com'];

t.test('official SDKs whose streams are ended at a cap', async (t) => {
  const said = endlessUpstream(undefined, 4096, 2000);
  const upstream = await startTlsUpstream({ hosts: HOSTS, handler: said.handler });
  t.teardown(() => upstream.close());
  const env = { ...WHOLE_MONTH, ...towards(t, upstream, HOSTS), GW_STREAM_STOP_AT_CAP: 'true' };
  const gateway = await startGatewayProcess(t, { env, bundle: ALLOW_ALL });
  const calls: readonly (readonly [Sdk, string, Record<string, string>, RegExp | undefined])[] = [
    ['openai', 'stream', { OPENAI_BASE_URL: `${gateway.url}/proxy/openai/v1` }, /stream_stopped_at_cap/],
    ['openai', 'responses-stream', { OPENAI_BASE_URL: `${gateway.url}/proxy/openai/v1` }, /stream_stopped_at_cap/],
    ['anthropic', 'stream', { ANTHROPIC_BASE_URL: `${gateway.url}/proxy/anthropic` }, /stream_stopped_at_cap/],
    ['gemini', 'stream', { GOOGLE_GEMINI_BASE_URL: `${gateway.url}/proxy/gemini` }, /stream_stopped_at_cap/],
    // Speaks of an event that it cannot read, and shows it.
    ['mistral', 'stream', { MISTRAL_URL: `${gateway.url}/proxy/mistral` }, /./],
    // Cohere's streams tell an error as the reason of their end; no program gets an exception from it.
    ['cohere', 'stream', { COHERE_URL: `${gateway.url}/proxy/cohere` }, undefined],
  ];
  let spent = 0n;
  for (const [sdk, call, base, message] of calls) {
    await t.test(`${sdk} ${call}`, async (t) => {
      // 1,024 tokens are assumed where a call states no maximum, 30 USD per million.
      const limit_usd = usdFromPico(spent + picoFromUsd('0.032'));
      const created = await gateway.admin('POST', '/v1/admin/budgets/limits', { scope: 'org', limit_usd, actions: ['cap'] });
      const [seen] = await callSdk(t, process.execPath, sdk, [`${call}:unlisted-model`], base);
      const record = (await gateway.record(seen?.answers[0]?.recordId)) as { metering: { cost_usd: string } };
      spent += picoFromUsd(record.metering.cost_usd);
      t.equal(seen?.sent, 1, 'nothing is tried again');
      t.match(record, { stream_outcome: 'aborted', reason: 'budget_exceeded', error: { code: 'stream_stopped_at_cap' } });
      if (message) t.match(seen?.error?.message, message, `${seen?.error?.type ?? ''}: ${seen?.error?.message ?? ''}`);
      else t.match(seen, { error: undefined, text: /word/ });
      await gateway.admin('DELETE', `/v1/admin/budgets/limits/${(created.body as { limit_id: string }).limit_id}`);
    });
  }
});
