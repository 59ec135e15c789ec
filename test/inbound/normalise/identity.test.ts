import t from 'tap';
import { GatewayError } from '../../../src/base/lib/gateway-error.ts';
import { IpSet } from '../../../src/base/lib/ip.ts';
import type { Tunnel } from '../../../src/base/model/arrival.ts';
import { callerIp, readIdentity } from '../../../src/inbound/normalise/identity.ts';
import { head } from './heads.ts';

const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`;
/** As Node hands header bytes over. */
const asHeader = (text: string) => Buffer.from(text, 'utf8').toString('latin1');

t.test('identity and attribution come from the headers of redirect mode on every proxied door', async (t) => {
  const headers = {
    'x-gw-org-id': 'acme',
    'x-gw-workload-id': 'ci',
    'x-gw-caller-id': asHeader('Zoë'),
    'x-gw-project-id': 'p1',
    'x-gw-customer-id': asHeader('münchen 東京'),
    'x-gw-account-id': 'a1',
    'x-gw-delegation-id': 'd1',
    'x-gw-workload-token': 'gwt_x',
    'x-gw-api-key': 'gwk_x',
  };
  const expected = {
    orgId: 'acme',
    workloadId: 'ci',
    workloadSource: 'header',
    callerId: 'Zoë',
    attribution: { customer_id: 'münchen 東京', account_id: 'a1', project_id: 'p1' },
    delegationId: 'd1',
    workloadToken: 'gwt_x',
    apiKey: 'gwk_x',
  };
  t.strictSame(readIdentity(head({ headers })), expected);
  const tunnel = { authority: { host: 'api.openai.com', port: 443 } };
  t.strictSame(readIdentity(head({ door: 'connect', headers, tunnel })), expected);
});

t.test('an absent or empty header says nothing', async (t) => {
  t.strictSame(readIdentity(head()), { workloadSource: 'none', attribution: {} });
  t.strictSame(readIdentity(head({ headers: { 'x-gw-org-id': '', 'x-gw-project-id': '' } })), { workloadSource: 'none', attribution: {} });
});

t.test('the user name of the proxy is the workload unless a header names one', async (t) => {
  const tunnel = { authority: { host: 'x.test', port: 443 }, proxyUser: 'ci-runner', proxyPassword: 'gwt_a', fixedWorkload: 'ci-runner' };
  t.match(readIdentity(head({ door: 'connect', tunnel })), {
    workloadId: 'ci-runner',
    workloadSource: 'proxy_user',
    proxyUser: 'ci-runner',
    proxyPassword: 'gwt_a',
    fixedWorkload: 'ci-runner',
  });
  t.match(readIdentity(head({ door: 'connect', tunnel, headers: { 'x-gw-workload-id': 'other' } })), {
    workloadId: 'other',
    workloadSource: 'header',
    fixedWorkload: 'ci-runner',
  });
  const absolute = head({ door: 'absolute', headers: { 'proxy-authorization': basic('w:a:b') } });
  t.match(readIdentity(absolute), { workloadId: 'w', workloadSource: 'proxy_user', proxyPassword: 'a:b' });
  const origin = head({ headers: { 'proxy-authorization': basic('w:p') } });
  t.equal(readIdentity(origin).workloadId, undefined, 'not on an origin-form request');
});

t.test('every header that breaks a rule is named', async (t) => {
  const headers = {
    'x-gw-org-id': 'a b',
    'x-gw-workload-id': 'x'.repeat(129),
    'x-gw-delegation-id': 'é',
    'x-gw-project-id': 'p'.repeat(257),
    'x-gw-caller-id': 'c'.repeat(256),
  };
  try {
    readIdentity(head({ headers }));
    t.fail('must be refused');
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    t.equal(error.code, 'invalid_request');
    t.same(
      error.details?.map((detail) => detail.path),
      ['X-GW-Org-ID', 'X-GW-Workload-ID', 'X-GW-Project-ID', 'X-GW-Delegation-ID'],
    );
  }
  t.throws(() => readIdentity(head({ door: 'absolute', headers: { 'proxy-authorization': basic('a b:c') } })), { code: 'invalid_request' });
});

t.test('the caller’s address is the first forwarded one, and only a trusted peer may forward', async (t) => {
  const trusted = IpSet.parse(['127.0.0.0/8', '::1', '10.0.0.0/8']);
  const table: readonly (readonly [string, string, Record<string, string>])[] = [
    ['203.0.113.9', '127.0.0.1', { 'x-forwarded-for': '203.0.113.9, 10.0.0.1', 'x-real-ip': '198.51.100.1' }],
    ['198.51.100.1', '127.0.0.1', { 'x-real-ip': '198.51.100.1' }],
    ['198.51.100.1', '::ffff:127.0.0.1', { 'x-forwarded-for': 'unknown', 'x-real-ip': '198.51.100.1' }],
    ['127.0.0.1', '127.0.0.1', { 'x-forwarded-for': 'not-an-ip, 203.0.113.9' }],
    ['127.0.0.1', '127.0.0.1', { 'x-forwarded-for': '' }],
    ['8.8.8.8', '8.8.8.8', { 'x-forwarded-for': '203.0.113.9' }],
    ['203.0.113.9', '10.1.1.1', { 'x-forwarded-for': ' 203.0.113.9:5555 ' }],
    ['2001:db8::1', '::1', { 'x-forwarded-for': '[2001:DB8:0::1]:443' }],
    ['203.0.113.9', '::1', { 'x-forwarded-for': '::ffff:203.0.113.9' }],
    ['192.0.2.1', '::ffff:192.0.2.1', {}],
    ['192.0.2.1', '192.0.2.1', {}],
  ];
  for (const [expected, remoteAddress, headers] of table) {
    t.equal(callerIp(head({ remoteAddress, headers }), trusted), expected, `${remoteAddress} ${JSON.stringify(headers)}`);
    const authority = { host: 'api.openai.com', port: 443 };
    const inside = (tunnel: Tunnel): string => callerIp(head({ door: 'connect', remoteAddress, headers, tunnel }), trusted);
    t.equal(inside({ authority, callerIp: '198.51.100.99' }), '198.51.100.99', 'inside a tunnel');
    t.equal(inside({ authority }), callerIp(head({ remoteAddress }), trusted), 'inside one of which nothing more is known');
  }
});
