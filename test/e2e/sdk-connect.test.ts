import { join } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { startGatewayProcess } from '../support/gateway-process.ts';
import { peer, skipWithout } from '../support/peers.ts';
import { startProviders } from '../support/provider-upstream.ts';
import { BUNDLE, CALLS, callSdk, checkCall, governKeys, keysFrom, mentionsForbiddenModel, SDKS } from './sdk-calls.ts';

/*
 * The official SDKs, as they come, through the CONNECT door: nothing is set but proxy and CA variables of the runtime
 * (docs/guides/getting-started.md).
 */

const PRELOAD = join(packageRoot(), 'docs', 'examples', 'node20-proxy.mjs');

t.test('official SDKs through the proxy', async (t) => {
  const providers = await startProviders(t);
  const gateway = await startGatewayProcess(t, { env: providers.env, bundle: BUNDLE });
  t.equal((await gateway.admin('PUT', '/v1/admin/workloads', { workload_id: 'team-a' })).status, 200);

  const node24 = peer('node24');
  // An Azure resource has an address of its own, gateway or not.
  const trust = { NODE_EXTRA_CA_CERTS: gateway.caFile, AZURE_OPENAI_ENDPOINT: 'https://example-resource.openai.azure.com' };
  const named = { ...trust, NODE_USE_ENV_PROXY: '1', HTTPS_PROXY: `http://team-a:unused@127.0.0.1:${gateway.port}` };
  const ambient = { ...trust, NODE_USE_ENV_PROXY: '1', HTTPS_PROXY: gateway.ambientUrl };
  const preloaded = { ...trust, HTTPS_PROXY: gateway.url };
  const runs = SDKS.map((sdk) => ({
    sdk,
    onNode24: node24 === undefined ? undefined : callSdk(t, node24, sdk, CALLS[sdk], named),
    onAmbient: node24 === undefined ? undefined : callSdk(t, node24, sdk, ['plain'], ambient),
    onNode20: callSdk(t, process.execPath, sdk, ['plain', 'stream'], preloaded, ['--import', PRELOAD]),
  }));

  const own = await governKeys(gateway);
  const ownKeyRuns = (['openai', 'anthropic'] as const).map((sdk) => ({
    sdk,
    calls: callSdk(t, process.execPath, sdk, ['plain', 'stream'], { ...preloaded, ...keysFrom(own.key) }, ['--import', PRELOAD]),
  }));
  const unknown = { ...preloaded, HTTPS_PROXY: `http://nobody:unused@127.0.0.1:${gateway.port}` };
  const byNobody = callSdk(t, process.execPath, 'openai', ['plain'], unknown, ['--import', PRELOAD]);

  for (const { sdk, onNode24, onAmbient, onNode20 } of runs) {
    await t.test(
      `${sdk} on Node 24 with NODE_USE_ENV_PROXY, the workload named in the proxy's address`,
      { skip: skipWithout(['node24']) },
      async (t) => {
        const expected = { workload_id: 'team-a', connection_type: 'connect_proxy', traffic_class: 'developer' };
        for (const seen of (await onNode24) ?? []) await checkCall(t, gateway, sdk, seen, expected);
      },
    );
    await t.test(`${sdk} on Node 24 at the ambient port is ambient traffic`, { skip: skipWithout(['node24']) }, async (t) => {
      const expected = { workload_id: 'default', connection_type: 'connect_proxy', traffic_class: 'ambient' };
      for (const seen of (await onAmbient) ?? []) await checkCall(t, gateway, sdk, seen, expected);
    });
    await t.test(`${sdk} on this Node with the preload of the guide`, async (t) => {
      const expected = { workload_id: 'default', connection_type: 'connect_proxy', traffic_class: 'developer' };
      for (const seen of await onNode20) await checkCall(t, gateway, sdk, seen, expected);
    });
  }

  for (const { sdk, calls } of ownKeyRuns) {
    await t.test(`${sdk} with an API key of the gateway in the place of the provider's`, async (t) => {
      for (const seen of await calls) await checkCall(t, gateway, sdk, seen, { api_key_id: own.id, credential_id: `c-${sdk}` });
    });
  }

  await t.test("a workload that nobody registered, named in the proxy's address, is told so by the SDK", async (t) => {
    const [seen] = await byNobody;
    t.match(seen, { sent: 1, error: { status: 403, message: /Workload nobody is not registered/ } });
    t.match(await gateway.record(seen?.answers[0]?.recordId), {
      decision: 'deny',
      workload_id: 'nobody',
      reason_codes: ['workload_not_registered'],
      provider: 'openai',
    });
  });

  await t.test('what was refused never reached a provider', async (t) => {
    t.ok(providers.tls.requests.length >= 2 * SDKS.length, 'what this Node asked for did');
    t.notOk(providers.tls.requests.some(mentionsForbiddenModel));
  });
});
