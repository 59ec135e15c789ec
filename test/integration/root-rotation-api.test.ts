import t from 'tap';
import { startTestGateway } from '../support/gateway.ts';
import { gw } from '../support/run-gw.ts';

const certificates = (pem: string): number => pem.split('BEGIN CERTIFICATE').length - 1;

t.test('a running gateway rotates its root on request, tells the audit trail, and is asked by gw ca', async (t) => {
  const gateway = await startTestGateway(t);
  const at = ['--url', gateway.url];
  const env = { GW_ADMIN_TOKEN: 'test-admin-token-0123456789', GW_DATA_DIR: gateway.dataDir };
  const served = async () => (await fetch(`${gateway.url}/v1/proxy/ca.crt`)).text();
  t.equal(certificates(await served()), 1);
  t.equal((await gw(['ca', 'rotate', '--in', 'soon', ...at], { env })).code, 2);
  t.equal((await gw(['ca', 'rotate', '--in', '1d', '--finish', ...at], { env })).code, 2);
  const planned = await gw(['ca', 'rotate', '--in', '1d', ...at], { env });
  t.equal(planned.code, 0, planned.err);
  t.match(planned.out, /signs later/);
  t.equal(certificates(await served()), 2);
  const twice = await gw(['ca', 'rotate', ...at], { env });
  t.equal(twice.code, 1);
  t.match(twice.err, /cancel that first/);
  t.equal((await gw(['ca', 'rotate', '--cancel', ...at], { env })).code, 0);
  t.equal(certificates(await served()), 1);
  t.equal((await gw(['ca', 'rotate', '--in', '0', ...at], { env })).code, 0);
  t.match((await gw(['ca', 'status', ...at], { env })).out, /trusted still/);
  t.equal((await gw(['ca', 'rotate', '--finish', ...at], { env })).code, 0);
  t.equal(certificates(await served()), 1);
  const { body } = await gateway.admin('GET', '/v1/admin/audit');
  t.match(body, {
    items: [{ operation: 'ca.finish' }, { operation: 'ca.rotate' }, { operation: 'ca.cancel' }, { operation: 'ca.rotate' }],
  });
  t.match(await (await fetch(`${gateway.url}/metrics`)).text(), /^gw_root_expiry_timestamp_seconds \d/m);
});
