import { renameSync } from 'node:fs';
import { join } from 'node:path';
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

t.test('where the folder cannot be written a rotation is 503 in words, and all is as before', async (t) => {
  const gateway = await startTestGateway(t);
  const dir = join(gateway.dataDir, '..', 'ca');
  const served = async () => (await fetch(`${gateway.url}/v1/proxy/ca.crt`)).text();
  const before = await served();
  const audited = async () => ((await gateway.admin('GET', '/v1/admin/audit')).body as { items: unknown[] }).items.length;
  const entries = await audited();
  renameSync(dir, `${dir}.away`);
  const switchAt = new Date(Date.now() + 86_400_000).toISOString();
  const refused = await gateway.admin('POST', '/v1/admin/ca/rotate', { switch_at: switchAt });
  t.match([refused.status, refused.body], [503, { error: { code: 'folder_not_writable', message: /^The roots stay as they are: / } }]);
  renameSync(`${dir}.away`, dir);
  t.equal(await served(), before);
  t.equal(await audited(), entries, 'and nothing is told of it');
  t.equal((await gateway.admin('POST', '/v1/admin/ca/rotate', { switch_at: '2020-01-01T00:00:00Z' })).status, 200);
  const rotated = await served();
  t.equal(certificates(rotated), 2);
  renameSync(dir, `${dir}.away`);
  t.match((await gateway.admin('POST', '/v1/admin/ca/finish', {})).body, { error: { code: 'folder_not_writable' } });
  renameSync(`${dir}.away`, dir);
  t.equal(await served(), rotated);
});
