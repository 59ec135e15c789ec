import t from 'tap';
import { loadCatalogue } from '../../../src/base/catalogue/catalogue.ts';
import { isLoopbackHost } from '../../../src/base/lib/host.ts';
import type { ArrivalHead } from '../../../src/base/model/arrival.ts';
import { classifyOrigin, guardOrigin, type OriginGuard, type Pages } from '../../../src/inbound/normalise/door.ts';
import { resolveTarget } from '../../../src/inbound/normalise/target.ts';
import { codeOr, head } from './heads.ts';

const catalogue = loadCatalogue();
const ownsPath = (path: string) => path === '/v1/actions:execute' || path === '/healthz';

function resolved(members: Parameters<typeof head>[0]): unknown {
  const target = codeOr(() => resolveTarget(head(members), catalogue));
  return typeof target === 'string'
    ? target
    : `${target.connectionType} ${target.tls ? 'https' : 'http'}://${target.host}:${target.port}${target.path} ${target.provider?.id ?? '-'}`;
}

function tunnelled(authority: string, port: number, host: string | undefined, more: Partial<Omit<ArrivalHead, 'headers'>> = {}): unknown {
  const base = head({ door: 'connect', secure: true, rawTarget: '/v1/x', ...more, tunnel: { authority: { host: authority, port } } });
  const target = codeOr(() => resolveTarget({ ...base, headers: { ...base.headers, host } }, catalogue));
  return typeof target === 'string'
    ? target
    : `${target.connectionType} ${target.tls ? 'https' : 'http'}://${target.host}:${target.port}${target.path} ${target.provider?.id ?? '-'}`;
}

t.test('origin-form requests are told apart by Host, route, header and prefix', async (t) => {
  const table: readonly (readonly [string, string, Record<string, string>])[] = [
    ['own_route', '/healthz', {}],
    ['own_route', '/v1/actions:execute?x=1', { 'x-gw-org-id': 'o' }],
    ['transparent', '/healthz', { host: 'api.openai.com' }],
    ['transparent', '/v1/actions:execute', { host: 'API.OpenAI.com.:7080' }],
    ['transparent', '/v1/chat/completions', { 'x-gw-workload-id': 'w' }],
    ['transparent', '/proxy/openai/v1/models', {}],
    ['transparent', '/proxy/nonsense/v1', {}],
    ['not_found', '/v1/chat/completions', {}],
    ['not_found', '/proxy', {}],
    ['not_found', '/proxy.pac', {}],
    ['not_found', '/v1/x', { host: 'evil.test' }],
    ['not_found', '/v1/x', { host: 'not a host' }],
  ];
  for (const [expected, rawTarget, headers] of table) {
    t.equal(classifyOrigin(head({ rawTarget, headers }), { catalogue, ownsPath }), expected, `${rawTarget} ${JSON.stringify(headers)}`);
  }
});

t.test('redirect mode takes the header, then a known Host, then the prefix', async (t) => {
  const table: readonly (readonly [string, string, Record<string, string>])[] = [
    ['sdk_redirect https://api.openai.com:443/v1/chat/completions openai', '/proxy/openai/v1/chat/completions', {}],
    ['sdk_redirect https://api.openai.com:443/v1/x openai', '/proxy/provider_a/v1/x', {}],
    ['sdk_redirect https://generativelanguage.googleapis.com:443/v1/x gemini', '/proxy/google/v1/x', {}],
    ['sdk_redirect https://generativelanguage.googleapis.com:443/v1/x gemini', '/proxy/GEMINI/v1/x', {}],
    ['sdk_redirect https://api.anthropic.com:443/ anthropic', '/proxy/anthropic', {}],
    ['sdk_redirect https://api.anthropic.com:443/?a=/b anthropic', '/proxy/anthropic?a=/b', {}],
    ['sdk_redirect https://api.mistral.ai:443/ mistral', '/proxy/mistral/', {}],
    ['sdk_redirect https://api.openai.com:443/v1/x openai', '/v1/x', { host: 'api.openai.com:7080' }],
    ['sdk_redirect https://api.cohere.com:443/v2/chat cohere', '/v2/chat', { 'x-gw-target-host': 'API.cohere.com' }],
    [
      'sdk_redirect https://api.cohere.com:443/v2/chat cohere',
      '/proxy/openai/v2/chat',
      { 'x-gw-target-host': 'api.cohere.com', host: 'api.openai.com' },
    ],
    [
      'sdk_redirect https://me.openai.azure.com:443/openai/v1/x azure_openai',
      '/proxy/azure_openai/openai/v1/x',
      { 'x-gw-target-host': 'me.openai.azure.com' },
    ],
    ['sdk_redirect https://internal.test:8443//a/../b -', '//a/../b', { 'x-gw-target-host': 'internal.test:8443' }],
    ['no_target_host', '/proxy/azure_openai/openai/v1/x', {}],
    ['no_target_host', '/proxy/provider_d/openai/v1/x', {}],
    ['no_target_host', '/proxy/nonsense/v1', {}],
    ['no_target_host', '/proxy/', {}],
    ['no_target_host', '/proxy/generic_http/x', {}],
    ['no_target_host', '/v1/x', { 'x-gw-target-host': '' }],
    ['invalid_target', '/v1/x', { 'x-gw-target-host': 'https://api.openai.com' }],
    ['invalid_target', '/v1/x', { 'x-gw-target-host': 'user@api.openai.com' }],
    ['invalid_target', '/v1/x', { 'x-gw-target-host': 'api.openai.com:0' }],
    ['invalid_target', '/v1/x', { 'x-gw-target-host': 'api.openai.com, evil.test' }],
    ['invalid_target', '/proxy/openai//v1', {}],
    ['invalid_target', '/proxy/openai/../v1', {}],
    ['invalid_target', '/proxy/openai/v1/%2e%2e/x', {}],
  ];
  for (const [expected, rawTarget, headers] of table)
    t.equal(resolved({ rawTarget, headers }), expected, `${rawTarget} ${JSON.stringify(headers)}`);
});

t.test('absolute-form names its own upstream and never a user', async (t) => {
  const table: readonly (readonly [string, string])[] = [
    ['connect_proxy http://example.test:80/a?b -', 'http://example.test/a?b'],
    ['connect_proxy http://example.test:8080/ -', 'HTTP://EXAMPLE.test:8080'],
    ['connect_proxy http://example.test:80/?q -', 'http://example.test?q'],
    ['connect_proxy https://api.openai.com:443/v1/x openai', 'https://api.openai.com/v1/x'],
    ['connect_proxy http://127.0.0.1:80/ -', 'http://0x7f.1/'],
    ['connect_proxy http://::1:80/x -', 'http://[::1]/x'],
    ['invalid_target', 'http://user@example.test/'],
    ['invalid_target', 'http://api.openai.com@evil.test/'],
    ['invalid_target', 'http://evil.test\\@api.openai.com/'],
    ['invalid_target', 'http:///x'],
    ['invalid_target', 'ftp://example.test/'],
    ['invalid_target', 'http:example.test'],
    ['invalid_target', 'http://example.test:99999/'],
    ['invalid_target', 'http://api.openai.com//x'],
    ['invalid_target', 'http://example.test/a b'],
  ];
  for (const [expected, rawTarget] of table) t.equal(resolved({ door: 'absolute', rawTarget }), expected, rawTarget);
});

t.test('inside a tunnel Host must be the authority of the CONNECT', async (t) => {
  const https = 'connect_proxy https://api.openai.com:443/v1/x openai';
  t.equal(tunnelled('api.openai.com', 443, 'api.openai.com'), https);
  t.equal(tunnelled('api.openai.com', 443, 'API.openai.com.:443'), https);
  t.equal(tunnelled('::1', 443, '[::1]'), 'connect_proxy https://::1:443/v1/x -');
  t.equal(tunnelled('x.test', 8443, 'x.test:8443'), 'connect_proxy https://x.test:8443/v1/x -');
  t.equal(tunnelled('x.test', 80, 'x.test', { secure: false }), 'connect_proxy http://x.test:80/v1/x -');
  t.equal(tunnelled('x.test', 443, 'x.test:443', { secure: false }), 'connect_proxy http://x.test:443/v1/x -', 'as the client spoke');
  for (const port of [443, 8443]) {
    const found = tunnelled('api.openai.com', port, `api.openai.com:${port}`, { secure: false });
    t.equal(found, `connect_proxy https://api.openai.com:${port}/v1/x openai`, 'no key goes to an AI host in the clear');
  }
  const onPort80 = tunnelled('api.openai.com', 80, 'api.openai.com', { secure: false });
  t.equal(onPort80, 'connect_proxy http://api.openai.com:80/v1/x openai', 'unless the client itself named the port of plain HTTP');
  t.equal(tunnelled('x.test', 80, 'x.test:80', { secure: true }), 'connect_proxy https://x.test:80/v1/x -');
  t.equal(tunnelled('api.openai.com', 443, 'x', { rawTarget: 'https://api.openai.com/v1/x' }), 'misdirected_request');
  t.equal(tunnelled('api.openai.com', 443, 'api.openai.com', { rawTarget: 'https://API.openai.com/v1/x' }), https);
  t.equal(tunnelled('x.test', 443, 'x.test', { rawTarget: '*', method: 'OPTIONS' }), 'connect_proxy https://x.test:443* -');
  for (const host of [
    'evil.test',
    'api.openai.com:80',
    'api.openai.com.evil.test',
    'u@api.openai.com',
    '',
    'api.openai.com, api.openai.com',
    undefined,
  ]) {
    t.equal(tunnelled('api.openai.com', 443, host), 'misdirected_request', String(host));
  }
  t.equal(tunnelled('x.test', 8443, 'x.test'), 'misdirected_request', 'a missing port is the scheme’s own');
  t.equal(tunnelled('api.openai.com', 443, 'api.openai.com', { rawTarget: 'https://evil.test/v1/x' }), 'misdirected_request');
  t.equal(tunnelled('api.openai.com', 443, 'api.openai.com', { rawTarget: '*', method: 'OPTIONS' }), 'invalid_target');
  t.equal(tunnelled('api.openai.com', 443, 'api.openai.com', { rawTarget: 'v1/x' }), 'invalid_target');
});

const guard: OriginGuard = {
  allowedOrigins: new Set(['https://app.example']),
  publicNames: new Set(['gw.corp.example']),
  loopbackBind: true,
  ports: new Set([7080, 7081]),
  catalogues: { current: () => catalogue },
};

const pages: Pages = { isPage: (path) => path === '/approvals/1' };

function guarded(
  headers: Record<string, string>,
  members: Partial<OriginGuard> = {},
  more: Partial<Omit<ArrivalHead, 'headers'>> = {},
): string {
  return guardOrigin(head({ headers, ...more }), { ...guard, ...members }, pages)?.code ?? 'ok';
}

t.test('a web page of another origin is kept off the gateway’s port', async (t) => {
  const foreign = [
    'https://evil.test',
    'null',
    'http://localhost:3000',
    'http://127.0.0.1',
    'http://localhost:7080.evil.test',
    'http://u@localhost:7080',
    'file://',
    '',
  ];
  for (const origin of foreign) t.equal(guarded({ origin }), 'origin_not_allowed', origin);
  for (const origin of [
    'https://app.example',
    'http://localhost:7080',
    'http://127.0.0.1:7081',
    'http://[::1]:7080',
    'https://gw.corp.example',
    'http://console.localhost:7080',
  ]) {
    t.equal(guarded({ origin }), 'ok', origin);
  }
  t.equal(guarded({ 'sec-fetch-site': 'cross-site' }), 'origin_not_allowed');
  t.equal(guarded({ 'sec-fetch-site': 'same-origin' }), 'ok');
  t.equal(guarded({ origin: 'https://app.example', 'sec-fetch-site': 'cross-site' }), 'ok', 'an allowed origin is cross-site by nature');
  t.equal(
    guarded({ origin: 'http://evil.test:7080', host: 'evil.test:7080' }, { loopbackBind: false }),
    'origin_not_allowed',
    'a name can be rebound',
  );
  t.equal(guarded({ origin: 'http://10.0.0.5:7080', host: '10.0.0.5:7080' }, { loopbackBind: false }), 'ok', 'an address cannot');
});

t.test('a link from another site leads to a page of the gateway’s own, and to nothing else', async (t) => {
  const visit = { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' };
  const link = { method: 'GET', rawTarget: '/approvals/1' };
  t.equal(guarded(visit, {}, link), 'ok');
  t.equal(guarded(visit, {}, { ...link, rawTarget: '/approvals/1?from=chat' }), 'ok');
  t.equal(guarded(visit, {}, { ...link, rawTarget: '/v1/admin/approvals' }), 'origin_not_allowed', 'no other path');
  t.equal(guarded(visit, {}, { ...link, method: 'POST' }), 'origin_not_allowed', 'no form');
  for (const dest of ['iframe', 'frame', 'object', 'embed', 'empty'])
    t.equal(guarded({ ...visit, 'sec-fetch-dest': dest }, {}, link), 'origin_not_allowed', dest);
  for (const mode of ['cors', 'no-cors', 'websocket'])
    t.equal(guarded({ ...visit, 'sec-fetch-mode': mode }, {}, link), 'origin_not_allowed', mode);
  t.equal(guarded({ ...visit, origin: 'https://evil.test' }, {}, link), 'origin_not_allowed', 'a navigation by GET has no Origin');
  t.equal(guarded({ ...visit, host: 'evil.test' }, {}, link), 'misdirected_request', 'Host is judged as ever');
  t.equal(guarded({ ...visit, host: 'api.openai.com' }, {}, link), 'origin_not_allowed', 'a provider has no pages of the gateway');
});

t.test('on a loopback bind Host must be loopback, a public name or a provider', async (t) => {
  for (const host of [
    'localhost:7080',
    '127.0.0.1',
    '127.9.9.9:1',
    '[::1]:7080',
    'a.localhost',
    'gw.corp.example',
    'api.openai.com',
    '[::ffff:127.0.0.1]:7080',
  ]) {
    t.equal(guarded({ host }), 'ok', host);
  }
  for (const host of ['evil.test', '10.0.0.1', 'localhost.evil.test', '128.0.0.1', 'not a host', ''])
    t.equal(guarded({ host }), 'misdirected_request', host);
  t.equal(guarded({ host: 'gateway:7080' }, { loopbackBind: false }), 'ok');
  const inside = head({ door: 'connect', headers: { origin: 'https://evil.test', host: 'evil.test' } });
  t.equal(guardOrigin(inside, guard, pages), undefined, 'tunnels are exempt');
  t.ok(isLoopbackHost('127.1.2.3') && !isLoopbackHost('127.evil.test'));
});
