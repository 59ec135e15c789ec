import { createServer } from 'node:net';
import t from 'tap';
import { startGatewayProcess } from '../support/gateway-process.ts';
import { startProviders } from '../support/provider-upstream.ts';
import { closeServer, listenOnFreePort } from '../support/tls-upstream.ts';
import { BUNDLE, CALLS, callSdk, checkCall, governKeys, keysFrom, mentionsForbiddenModel, SDKS, type Sdk } from './sdk-calls.ts';

/*
 * The official SDKs, as they come, through the redirect door: nothing is set but a base URL
 * (docs/guides/getting-started.md).
 */

async function closedPort(): Promise<number> {
  const server = createServer();
  const port = await listenOnFreePort(server);
  await closeServer(server, []);
  return port;
}

t.test('official SDKs with a base URL', async (t) => {
  const providers = await startProviders(t);
  const connectTo = `${providers.env['GW_UPSTREAM_CONNECT_TO'] ?? ''},api.groq.com:443=127.0.0.1:${await closedPort()}`;
  const gateway = await startGatewayProcess(t, { env: { ...providers.env, GW_UPSTREAM_CONNECT_TO: connectTo }, bundle: BUNDLE });
  t.equal((await gateway.admin('PUT', '/v1/admin/workloads', { workload_id: 'team-b' })).status, 200);
  const base: Readonly<Record<Sdk, Readonly<Record<string, string>>>> = {
    openai: { OPENAI_BASE_URL: `${gateway.url}/proxy/openai/v1` },
    azure: { AZURE_OPENAI_ENDPOINT: gateway.url, AZURE_TARGET_HOST: 'example-resource.openai.azure.com' },
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

  const own = await governKeys(gateway);
  const ownKeyRuns = SDKS.map((sdk) => ({
    sdk,
    calls: callSdk(t, process.execPath, sdk, ['plain', 'stream'], { ...base[sdk], ...keysFrom(own.key) }),
  }));
  const wrongKey = callSdk(t, process.execPath, 'anthropic', ['plain'], { ...base.anthropic, ...keysFrom('gwk_wrong') });
  const unreachable = callSdk(t, process.execPath, 'openai', ['plain'], { OPENAI_BASE_URL: `${gateway.url}/proxy/groq/openai/v1` });

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

  for (const { sdk, calls } of ownKeyRuns) {
    await t.test(`${sdk} with an API key of the gateway in the place of the provider's`, async (t) => {
      for (const seen of await calls) await checkCall(t, gateway, sdk, seen, { api_key_id: own.id, credential_id: `c-${sdk}` });
    });
  }
  await t.test('a wrong API key of the gateway reads well too', async (t) => {
    t.match((await wrongKey)[0]?.error, { status: 401, message: /This API key is not known/ });
  });

  await t.test('a provider that cannot be reached reads well too', async (t) => {
    const [seen] = await unreachable;
    t.match(seen?.error, { status: 502, message: /upstream_unreachable.*api\.groq\.com/ });
    t.match(await gateway.record(seen?.answers.at(-1)?.recordId), {
      decision: 'error',
      provider: 'groq',
      reason_codes: ['upstream_unreachable'],
      status_code: 502,
    });
  });

  await t.test('what was refused never reached a provider, and no header of the gateway did', async (t) => {
    const { requests } = providers.tls;
    t.ok(requests.length >= 15);
    t.notOk(requests.some(mentionsForbiddenModel));
    t.strictSame(
      requests.flatMap(({ headers }) => Object.keys(headers).filter((name) => name.startsWith('x-gw-'))),
      [],
    );
    t.notOk(
      requests.some(({ headers }) => JSON.stringify(headers).includes('gwk_')),
      'nor a key of it',
    );
  });
});
