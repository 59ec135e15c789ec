import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import t from 'tap';
import { loadConfig } from '../../../src/base/config/config.ts';
import { SETTINGS } from '../../../src/base/config/settings.ts';
import { ConfigError, type ConfigProblem, type Environment, LATER_SETTINGS } from '../../../src/base/config/settings-reader.ts';
import { userFolder } from '../../../src/base/config/user-folder.ts';
import { isLoopbackHost } from '../../../src/base/lib/host.ts';
import { tempDir } from '../../support/temp-dir.ts';

function problemsOf(env: Environment): readonly ConfigProblem[] {
  try {
    loadConfig(env, false);
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  return [];
}

t.test('an empty environment gives the specified defaults', async (t) => {
  const { config, warnings } = loadConfig({}, false);
  t.same(warnings, []);
  t.match(config, {
    host: '127.0.0.1',
    port: 7080,
    ambientPort: 7081,
    proxyEnabled: true,
    proxyMitmEnabled: true,
    proxyNonAi: 'pass',
    proxyAuth: 'optional',
    planTier: 'enterprise',
    maxBodyBytes: 33_554_432,
    maxBufferedBytes: 268_435_456,
    recordFsync: 1000,
    maxTunnels: 10_000,
    upstreamHeadersTimeout: 600_000,
    upstreamIdleTimeout: 300_000,
    recordRetention: 90 * 86_400_000,
    healthzStartupGrace: 10_000,
    drainTimeout: 30_000,
    logLevel: 'info',
    logFormat: 'json',
    metricsEnabled: true,
    dataDir: resolve('data'),
    caDir: resolve('ca'),
    policiesDir: resolve('policies'),
  });
  t.same([config.orgId, config.adminToken, config.metricsToken, config.upstreamCaFile], [undefined, undefined, undefined, undefined]);
  t.same([...config.connectPorts], [443, 80]);
  t.ok(config.trustedProxies.has('::ffff:127.0.0.1') && config.trustedProxies.has('::1') && !config.trustedProxies.has('10.0.0.1'));
  t.ok(config.proxyBypass.isEmpty && config.egressAllow.hosts.isEmpty && config.egressAllow.ranges.isEmpty);
  t.ok(Object.isFrozen(config));
  t.equal(loadConfig({}, true).config.logFormat, 'pretty', 'on a terminal');
  t.equal(loadConfig({ GW_LOG_FORMAT: 'json' }, true).config.logFormat, 'json');
});

t.test('values come out ready to use', async (t) => {
  const { config } = loadConfig(
    {
      GW_HOST: 'LOCALHOST',
      GW_PORT: '0',
      GW_AMBIENT_PORT: '0',
      GW_PUBLIC_NAMES: 'Gateway.example, bücher.example',
      GW_ALLOWED_ORIGINS: 'https://App.example:8443,http://localhost',
      GW_TRUSTED_PROXIES: '',
      GW_PROXY_BYPASS: '*.bank.example',
      GW_CONNECT_PORTS: '8443',
      GW_RECORD_FSYNC: 'always',
      GW_EGRESS_ALLOW: '10.0.0.0/8, ::1,127.0.0.1,*.corp.example',
      GW_UPSTREAM_CONNECT_TO: 'API.openai.com:443=127.0.0.1:9443, a.example:80=[::1]:8080',
      GW_METRICS_ENABLED: 'FALSE',
      GW_DRAIN_TIMEOUT: '0',
      GW_NODE_ID: 'edge-1',
    },
    false,
  );
  t.equal(config.host, 'localhost');
  t.same([...config.publicNames], ['gateway.example', 'xn--bcher-kva.example']);
  t.same([...config.allowedOrigins], ['https://app.example:8443', 'http://localhost']);
  t.ok(config.trustedProxies.isEmpty, 'an empty list is empty, not the default');
  t.ok(config.proxyBypass.has('www.bank.example'));
  t.same([...config.connectPorts], [8443]);
  t.equal(config.recordFsync, 'always');
  t.ok(['10.1.2.3', '::1', '127.0.0.1'].every((address) => config.egressAllow.ranges.has(address)));
  t.ok(config.egressAllow.hosts.has('a.corp.example'));
  t.same(config.upstreamConnectTo, [
    { from: { host: 'api.openai.com', port: 443 }, to: { host: '127.0.0.1', port: 9443 } },
    { from: { host: 'a.example', port: 80 }, to: { host: '::1', port: 8080 } },
  ]);
  t.same([config.metricsEnabled, config.drainTimeout, config.nodeId], [false, 0, 'edge-1']);
});

t.test('where people reach the gateway is an origin, and its host one of the public names', async (t) => {
  const load = (GW_PUBLIC_URL: string) => loadConfig({ GW_PUBLIC_URL, GW_PUBLIC_NAMES: 'gw.corp.example' }, false).config;
  const { publicUrl, publicNames } = load('https://Gateway.example:7080');
  t.equal(publicUrl, 'https://gateway.example:7080');
  t.same([...publicNames], ['gw.corp.example', 'gateway.example']);
  t.same([...load('http://[::1]:7080').publicNames], ['gw.corp.example', '::1']);
  t.equal(load('https://gateway.example:443').publicUrl, 'https://gateway.example');
  t.equal(loadConfig({}, false).config.publicUrl, undefined);
  for (const bad of [
    'gateway.example',
    'ftp://gateway.example',
    'https://gateway.example/',
    'https://gateway.example/gw',
    'https://gateway.example?',
    'https://gateway.example?x=1',
    'https://gateway.example#',
    'https://u:p@gateway.example',
    'https://@gateway.example',
    'https://a..b',
    'https://gateway.example:70800',
    'https:gateway.example',
    'https://',
    'javascript:alert(1)',
  ]) {
    t.match(problemsOf({ GW_PUBLIC_URL: bad }), [{ variable: 'GW_PUBLIC_URL', message: /it takes `https:/ }], bad);
  }
});

t.test('every mistake is reported at once, one line each with name, value and what is allowed', async (t) => {
  const bad: Readonly<Record<string, string>> = {
    GW_HOST: 'a b',
    GW_PORT: '70800',
    GW_AMBIENT_PORT: '-1',
    GW_PUBLIC_NAMES: 'a..b',
    GW_ALLOWED_ORIGINS: 'https://a/path',
    GW_TRUSTED_PROXIES: '10.0.0.1/8',
    GW_PROXY_ENABLED: 'maybe',
    GW_PROXY_AUTH: 'yes',
    GW_PROXY_BYPASS: '*a',
    GW_CONNECT_PORTS: '',
    GW_MAX_TUNNELS: '0',
    GW_UPSTREAM_CONNECT_TO: 'a=b',
    GW_UPSTREAM_CA_FILE: '/nonexistent.pem',
    GW_UPSTREAM_IDLE_TIMEOUT: '5',
    GW_EGRESS_ALLOW: '10.0.0.0/99',
    GW_MAX_BODY_BYTES: '1e6',
    GW_RECORD_FSYNC: 'sometimes',
    GW_RECORD_RETENTION: '-1d',
    GW_PLAN_TIER: 'gold',
    GW_LOG_LEVEL: 'loud',
    GW_ORG_ID: 'two words',
    GW_NODE_ID: 'ü',
    GW_DATA_DIR: 'a\0b',
    GW_DRAIN_TIMEOUT: '60d',
  };
  const problems = problemsOf(bad);
  t.same(problems.map((problem) => problem.variable).sort(), Object.keys(bad).sort());
  for (const { variable, message } of problems) {
    t.match(message, new RegExp(`^${variable}: `));
    t.ok(message.includes(JSON.stringify(bad[variable])), message);
    t.match(message, /; it takes /);
    t.notMatch(message, /\n/);
  }
  t.equal(
    problems.find((problem) => problem.variable === 'GW_PORT')?.message,
    'GW_PORT: "70800" is not allowed; it takes a whole number from 0 to 65535',
  );
});

t.test('a value can neither flood nor steer a terminal', async (t) => {
  const [problem] = problemsOf({ GW_LOG_LEVEL: `\u001b[31m\n${'x'.repeat(5000)}` });
  t.ok((problem?.message.length ?? 0) < 300);
  t.notMatch(problem?.message, /[\u0000-\u001f]/);
});

t.test('another address than loopback starts only when GW_PROXY_AUTH is said', async (t) => {
  for (const host of ['0.0.0.0', '::', '192.168.1.5', 'gateway.example']) {
    t.match(problemsOf({ GW_HOST: host }), [{ variable: 'GW_PROXY_AUTH', code: 'invalid' }], host);
    t.same(problemsOf({ GW_HOST: host, GW_PROXY_AUTH: 'optional' }), [], host);
  }
  for (const host of ['127.0.0.1', '127.8.8.8', '[::1]', 'localhost', '0x7f.1']) t.same(problemsOf({ GW_HOST: host }), [], host);
  t.notOk(isLoopbackHost('notlocalhost'));
});

t.test('settings must agree with each other', async (t) => {
  t.match(problemsOf({ GW_PORT: '9000', GW_AMBIENT_PORT: '9000' }), [{ variable: 'GW_AMBIENT_PORT' }]);
  t.match(problemsOf({ GW_MAX_BODY_BYTES: '1000000', GW_MAX_BUFFERED_BYTES: '2000' }), [{ variable: 'GW_MAX_BUFFERED_BYTES' }]);
  t.equal(problemsOf({ GW_HOST: '0.0.0.0', GW_PORT: 'x' }).length, 2, 'also when another one is bad');
});

t.test('secrets are read from files, and are never printed', async (t) => {
  const folder = tempDir(t);
  const file = join(folder, 'token');
  writeFileSync(file, 'a-very-long-admin-token\n');
  t.equal(loadConfig({ GW_ADMIN_TOKEN_FILE: file }, false).config.adminToken, 'a-very-long-admin-token');
  t.match(problemsOf({ GW_ADMIN_TOKEN_FILE: file, GW_ADMIN_TOKEN: 'other' }), [{ variable: 'GW_ADMIN_TOKEN', message: /both set/ }]);
  t.match(problemsOf({ GW_METRICS_TOKEN_FILE: join(folder, 'none') }), [{ message: /cannot be read \(ENOENT\)/ }]);
  writeFileSync(file, '');
  t.match(problemsOf({ GW_METRICS_TOKEN_FILE: file }), [{ message: /is empty/ }]);
  mkdirSync(join(folder, 'dir'));
  t.equal(problemsOf({ GW_METRICS_TOKEN_FILE: join(folder, 'dir') }).length, 1);
  const shown = problemsOf({
    GW_ADMIN_TOKEN: 'hush hush',
    GW_REDIS_URL: 'redis://u:hush@h',
    GW_UPSTREAM_PROXY: 'http://u:hush@h',
    GW_BOOTSTRAP_TOKEN: 'hush',
  });
  t.equal(shown.length, 4);
  t.notOk(JSON.stringify(shown).includes('hush'));
  t.match(loadConfig({ GW_ADMIN_TOKEN: 'short' }, false).warnings, [/^GW_ADMIN_TOKEN has fewer than 16/]);
});

t.test('a parent proxy is an http URL, whose user and password become one header value that nobody prints', async (t) => {
  const read = (text: string) => loadConfig({ GW_UPSTREAM_PROXY: text }, false).config.upstreamProxy;
  const basic = (text: string) => `Basic ${Buffer.from(text, 'utf8').toString('base64')}`;
  t.equal(loadConfig({}, false).config.upstreamProxy, undefined);
  t.same(read('http://Proxy.Corp.example:3128'), { host: 'proxy.corp.example', port: 3128, authorization: undefined });
  t.same(read('HTTP://user:pa%40ss%3A%2f@[::1]:80/'), { host: '::1', port: 80, authorization: basic('user:pa@ss:/') });
  t.same(read('http://us%C3%A9r@p:1'), { host: 'p', port: 1, authorization: basic('usér:') });
  t.same(read('http://u:a:b@p:1')?.authorization, basic('u:a:b'));
  for (const bad of [
    'hush:1',
    'https://u:hush@p:1',
    'http://u:hush@p',
    'http://u:hush@p:0',
    'http://u:hush@p:1/path',
    'http://u:hush@p:1?q',
  ])
    t.match(
      problemsOf({ GW_UPSTREAM_PROXY: bad }),
      [{ variable: 'GW_UPSTREAM_PROXY', message: /its value is not allowed; it takes/ }],
      bad,
    );
  for (const bad of [
    'http://u%3Ax:hush@p:1',
    'http://u:hush%0d%0a@p:1',
    'http://u:hush%e9@p:1',
    'http://u:hu@sh@p:1',
    'http://u:hush@a b:1',
  ])
    t.notMatch(JSON.stringify(problemsOf({ GW_UPSTREAM_PROXY: bad })), /hush|^\[\]$/, bad);
  const file = join(tempDir(t), 'proxy');
  writeFileSync(file, 'http://u:p@proxy.example:8080\n');
  t.match(loadConfig({ GW_UPSTREAM_PROXY_FILE: file }, false), {
    config: { upstreamProxy: { port: 8080, authorization: basic('u:p') } },
    warnings: [],
  });
});

t.test('a CA file must hold a certificate', async (t) => {
  const file = join(tempDir(t), 'ca.pem');
  writeFileSync(file, '-----BEGIN PRIVATE KEY-----\n');
  t.equal(problemsOf({ GW_UPSTREAM_CA_FILE: file }).length, 1);
  writeFileSync(file, '-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n');
  t.equal(loadConfig({ GW_UPSTREAM_CA_FILE: file }, false).config.upstreamCaFile, file);
});

// Holds: nothing-accepted-in-silence
t.test('what nothing enforces yet is refused, never silently accepted', async (t) => {
  for (const { variable, fallback } of LATER_SETTINGS) {
    t.match(problemsOf({ [variable]: 'something' }), [{ variable, code: 'not_supported_yet' }], variable);
    for (const value of ['', ...(fallback === undefined ? [] : [fallback])])
      t.same(problemsOf({ [variable]: value }), [], `${variable}=${value}`);
  }
  t.match(problemsOf({ GW_PROXY_NON_AI: 'open' }), [{ code: 'invalid' }]);
  t.match(problemsOf({ GW_REDIS_URL_FILE: '/x' }), [{ variable: 'GW_REDIS_URL', code: 'not_supported_yet' }]);
});

t.test('a user has a folder of his own where his system has such, and a service none', async (t) => {
  const cases: readonly (readonly [env: Environment, platform: string, expected: string | undefined, given?: string])[] = [
    [{ HOME: '/home/a' }, 'linux', '/home/a/.config/ai-request-gateway'],
    [{ HOME: '/home/a', XDG_CONFIG_HOME: '/conf' }, 'linux', '/conf/ai-request-gateway'],
    [{ HOME: '/home/a', XDG_CONFIG_HOME: 'conf' }, 'linux', '/home/a/.config/ai-request-gateway'],
    [{ HOME: '/Users/a' }, 'darwin', '/Users/a/Library/Application Support/ai-request-gateway'],
    [{ APPDATA: '/roaming', HOME: '/home/a' }, 'win32', '/roaming/ai-request-gateway'],
    [{ HOME: '/home/a' }, 'win32', undefined],
    [{}, 'linux', undefined],
    [{ HOME: '' }, 'linux', undefined],
    [{ HOME: '/' }, 'linux', undefined],
    [{ HOME: 'home' }, 'darwin', undefined],
    [{ HOME: '/home/a' }, 'linux', undefined, 'none'],
    [{ HOME: '/home/a' }, 'linux', '/notes', '/notes'],
  ];
  for (const [env, platform, expected, given] of cases)
    t.equal(userFolder(given, env, platform), expected, JSON.stringify([env, platform]));
  t.equal(loadConfig({ GW_CONFIG_DIR: 'none', HOME: '/home/a' }, false).config.configDir, undefined);
  t.equal(loadConfig({ GW_CONFIG_DIR: 'notes' }, false).config.configDir, resolve('notes'));
});

t.test('an unknown GW_ variable is a warning with the nearest name; other variables are none of our business', async (t) => {
  const { warnings } = loadConfig({ GW_PROT: '1', GW_QQQQQQQQQQ: '', PATH: '/bin', GWX: '1', GW_ADMIN_TOKEN_FILE: '' }, false);
  t.same(warnings, [
    '"GW_PROT" is not a setting and has no effect; did you mean GW_PORT?',
    '"GW_QQQQQQQQQQ" is not a setting and has no effect',
  ]);
  const left = loadConfig({ GW_CA_FILE: 'a', GW_RETENTION: '1d', GW_TOKEN: 'a' }, false).warnings;
  t.same(left, [
    '"GW_CA_FILE" is not a setting and has no effect; did you mean GW_CP_CA_FILE or GW_UPSTREAM_CA_FILE?',
    '"GW_RETENTION" is not a setting and has no effect; did you mean GW_RECORD_RETENTION or GW_AUDIT_RETENTION?',
    '"GW_TOKEN" is not a setting and has no effect',
  ]);
});

t.test('the node has a stable name that differs between data folders and says nothing about the machine', async (t) => {
  const name = loadConfig({ GW_DATA_DIR: '/a' }, false).config.nodeId;
  t.match(name, /^[0-9a-f]{12}$/);
  t.equal(loadConfig({ GW_DATA_DIR: '/a' }, false).config.nodeId, name);
  t.not(loadConfig({ GW_DATA_DIR: '/b' }, false).config.nodeId, name);
});

t.test('each member is its variable in camel case, no variable stands twice, and each has help', async (t) => {
  const names = new Set<string>();
  for (const [member, { variable, help }] of Object.entries(SETTINGS)) {
    const prefix = member.startsWith('otel') ? '' : 'GW_';
    t.equal(variable, `${prefix}${member.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`);
    t.match(help, /\.$/);
    names.add(variable);
  }
  for (const { variable, help } of LATER_SETTINGS) {
    t.notOk(names.has(variable), variable);
    t.match(help, /\.$/);
    names.add(variable);
  }
});
