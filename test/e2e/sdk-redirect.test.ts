import t from 'tap';
import { startGatewayProcess } from '../support/gateway-process.ts';
import { startProviders } from '../support/provider-upstream.ts';
import { BUNDLE, CALLS, callSdk, checkCall, mentionsForbiddenModel, SDKS, type Sdk } from './sdk-calls.ts';

/*
 * The official SDKs, as they come, through the redirect door: nothing is set but a base URL (docs/guides/getting-started.md).
 */

t.test('official SDKs with a base URL', async (t) => {
  const providers = await startProviders(t);
  const gateway = await startGatewayProcess(t, { env: providers.env, bundle: BUNDLE });
  t.equal((await gateway.admin('PUT', '/v1/admin/workloads', { workload_id: 'team-b' })).status, 200);
  const base: Readonly<Record<Sdk, Readonly<Record<string, string>>>> = {
    openai: { OPENAI_BASE_URL: `${gateway.url}/proxy/openai/v1` },
    anthropic: { ANTHROPIC_BASE_URL: `${gateway.url}/proxy/anthropic` },
    gemini: { GOOGLE_GEMINI_BASE_URL: `${gateway.url}/proxy/gemini` },
    mistral: { MISTRAL_URL: `${gateway.url}/proxy/mistral` },
    cohere: { COHERE_URL: `${gateway.url}/proxy/cohere` },
  };
  const header = 'X-GW-Workload-ID: team-b';
  const named: readonly (readonly [Sdk, string])[] = [
    ['openai', 'OPENAI_CUSTOM_HEADERS'],
    ['anthropic', 'ANTHROPIC_CUSTOM_HEADERS'],
  ];
  const runs = SDKS.map((sdk) => ({ sdk, calls: callSdk(t, process.execPath, sdk, CALLS[sdk], base[sdk]) }));
  const namedRuns = named.map(([sdk, variable]) => ({
    sdk,
    calls: callSdk(t, process.execPath, sdk, ['plain'], { ...base[sdk], [variable]: header }),
  }));

  for (const { sdk, calls } of runs) {
    await t.test(`${sdk}`, async (t) => {
      const expected = { workload_id: 'default', connection_type: 'sdk_redirect', traffic_class: 'developer' };
      for (const seen of await calls) await checkCall(t, gateway, sdk, seen, expected);
    });
  }
  for (const { sdk, calls } of namedRuns) {
    await t.test(`${sdk} with the workload named in a default header`, async (t) => {
      for (const seen of await calls) await checkCall(t, gateway, sdk, seen, { workload_id: 'team-b', connection_type: 'sdk_redirect' });
    });
  }

  await t.test('what was refused never reached a provider, and no header of the gateway did', async (t) => {
    const { requests } = providers.tls;
    t.ok(requests.length >= 15);
    t.notOk(requests.some(mentionsForbiddenModel));
    t.strictSame(
      requests.flatMap(({ headers }) => Object.keys(headers).filter((name) => name.startsWith('x-gw-'))),
      [],
    );
  });
});
