// gw and gw-mcp at a gateway whose ports speak TLS: what they trust, and how they say that they do not (decision 12.1).
import t, { type Test } from 'tap';
import { fakeClock } from '../support/fake-clock.ts';
import { ADMIN_TOKEN, startTestGateway } from '../support/gateway.ts';
import { askSecure, portCertificate } from '../support/port-tls.ts';
import { gw as runGw } from '../support/run-gw.ts';
import { initializeOf, requestOf } from '../surfaces/mcp/mcp-place.ts';
import { runPlace } from './gw-mcp-place.ts';

const CALL = requestOf('tools/call', { name: 'list_workloads' });

async function start(t: Test, hosts?: readonly string[], more: Readonly<Record<string, string>> = {}) {
  const certificate = portCertificate(t, hosts);
  const clock = fakeClock();
  const gw = await startTestGateway(t, { clock, env: { ...certificate.env, ...more } });
  return { gw, clock, certificate, url: `https://127.0.0.1:${gw.port}`, env: { ...certificate.env, GW_ADMIN_TOKEN: ADMIN_TOKEN } };
}

t.test('gw-mcp by https', async (t) => {
  await t.test('makes its key, asks with it and revokes it, all by TLS', async (t) => {
    const { gw, clock, certificate, url, env } = await start(t);
    const keys = async () => (await askSecure(gw.port, certificate.ca.certPem, '/v1/admin/mgmt-keys')).body['keys'];
    const place = runPlace(t, ['--gateway-url', url], { env, clock });
    await place.ask(initializeOf('2025-11-25'));
    t.match(await place.ask(CALL), { result: { structuredContent: { data: [{ workload_id: 'default' }] } } });
    t.match(await keys(), [{ name: /^gw-mcp / }]);
    place.end();
    t.equal(await place.ended, 0);
    t.strictSame(await keys(), []);
  });

  await t.test('finds the management port, which speaks TLS too', async (t) => {
    const { gw, clock, url, env } = await start(t, undefined, { GW_MGMT_PORT: '0' });
    const place = runPlace(t, ['--gateway-url', url], { env: { ...env, GW_MGMT_PORT: String(gw.gateway.managementPort) }, clock });
    await place.ask(initializeOf('2025-11-25'));
    t.match(await place.ask(CALL), { result: { structuredContent: { data: [{ workload_id: 'default' }] } } });
    place.end();
    t.equal(await place.ended, 0);
  });

  await t.test('asks nobody whom it does not trust, and says what to set', async (t) => {
    const { gw, clock, certificate, url } = await start(t);
    const place = runPlace(t, ['--gateway-url', url], { env: { GW_ADMIN_TOKEN: ADMIN_TOKEN }, clock });
    await place.ask(initializeOf('2025-11-25'));
    t.match(await place.ask(CALL), { result: { isError: true, content: [{ text: /certificate is not trusted here/ }] } });
    t.match(place.stderr(), /its certificate is not trusted here \(.+\): set GW_TLS_CERT_FILE as for the gateway, or NODE_EXTRA_CA_CERTS/);
    t.strictSame((await askSecure(gw.port, certificate.ca.certPem, '/v1/admin/mgmt-keys')).body['keys'], []);
    place.end();
    t.equal(await place.ended, 0);
  });
});

t.test('gw by a name that the certificate does not have says which it has', async (t) => {
  const named = await start(t, ['gw.example.com', '10.0.0.7']);
  const nameless = portCertificate(t);
  nameless.replace(nameless.ca.leaf({ hosts: ['127.0.0.1'], commonNameOnly: true }));
  const other = await startTestGateway(t, { env: nameless.env });
  for (const [port, certificate, names] of [
    [named.gw.port, named.certificate, 'DNS:gw.example.com, IP Address:10.0.0.7'],
    [other.port, nameless, 'it names none'],
  ] as const) {
    const url = `https://127.0.0.1:${port}`;
    t.strictSame(await runGw(['audit', '--url', url], { env: { ...certificate.env, GW_ADMIN_TOKEN: ADMIN_TOKEN } }), {
      code: 2,
      out: '',
      err: `gw audit list: ${url} cannot be asked: its certificate is not for 127.0.0.1 (${names}): ask it by a name of its certificate\n`,
    });
  }
});
