import { join } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { MOCK_TEXT } from '../support/aimock.ts';
import { atMost, run } from '../support/child.ts';
import { startGatewayProcess } from '../support/gateway-process.ts';
import { type PeerName, peer, skipWithout } from '../support/peers.ts';
import { startProviders } from '../support/provider-upstream.ts';

const CLIENT = join(packageRoot(), 'test', 'e2e', 'clients', 'http-clients.py');

const CLIENTS: readonly { readonly name: 'requests' | 'httpx'; readonly peer: PeerName; readonly variable: string }[] = [
  { name: 'requests', peer: 'python3-requests', variable: 'REQUESTS_CA_BUNDLE' },
  { name: 'httpx', peer: 'python3-httpx', variable: 'SSL_CERT_FILE' },
];

t.test('Python through the proxy', { skip: skipWithout(['python3-requests', 'python3-httpx']) }, async (t) => {
  const providers = await startProviders(t);
  const gateway = await startGatewayProcess(t, { env: providers.env });
  const limited = atMost(2);
  const start = (name: string, python: PeerName, trust: string, env: Readonly<Record<string, string>>) =>
    limited(() => run(t, peer(python) ?? '', [CLIENT, name, trust], { env: { HTTPS_PROXY: gateway.url, ...env } }));
  const runs = CLIENTS.map((client) => ({
    ...client,
    byVariables: start(client.name, client.peer, 'variables', { [client.variable]: gateway.bundleFile }),
    byContext: start(client.name, client.peer, 'strict', { BUNDLE: gateway.bundleFile }),
    withoutTrust: start(client.name, client.peer, 'variables', {}),
  }));

  for (const { name, variable, byVariables, byContext, withoutTrust } of runs) {
    for (const [how, ended] of [
      [`with HTTPS_PROXY and ${variable}`, byVariables],
      ['with VERIFY_X509_STRICT set in code', byContext],
    ] as const) {
      await t.test(`${name} ${how}`, async (t) => {
        const { code, stdout, stderr } = await ended;
        t.equal(code, 0, stderr.slice(-2000));
        const answer = JSON.parse(stdout) as { status: number; text: string; record_id: string };
        t.match(answer, { status: 200, text: MOCK_TEXT });
        t.match(await gateway.record(answer.record_id), {
          workload_id: 'default',
          provider: 'openai',
          model: 'gpt-4o-mini',
          connection_type: 'connect_proxy',
          traffic_class: 'developer',
          metering: { tokens_in: 11, tokens_out: 7 },
        });
      });
    }
    await t.test(`${name} without ${variable} does not trust the gateway, so the calls above were intercepted`, async (t) => {
      const { code, stderr } = await withoutTrust;
      t.not(code, 0);
      t.match(stderr, /CERTIFICATE_VERIFY_FAILED/);
    });
  }
});
