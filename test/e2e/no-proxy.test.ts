// What NO_PROXY means to real programs with a gateway as their proxy, and that what `gw env` prints serves every
// program that reads it.
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { MOCK_TEXT } from '../support/aimock.ts';
import { bareEnvironment, run } from '../support/child.ts';
import { type GatewayProcess, MAIN, startGatewayProcess } from '../support/gateway-process.ts';
import { type PeerName, requirePeer, skipWithout } from '../support/peers.ts';
import { startProviders } from '../support/provider-upstream.ts';
import { tempDir } from '../support/temp-dir.ts';
import { closeServer, listenOnFreePort, startTlsUpstream, trackSockets } from '../support/tls-upstream.ts';

/** Loopback addresses that stand for a company's network. */
const INSIDE = '127.77.3.4';

/** A server that says by which way a request came, on one port of each address. */
async function startSite(t: Test): Promise<number> {
  const open = async (address: string, port: number): Promise<number> => {
    const server = createServer((request, response) => response.end(request.headers.via === undefined ? 'direct' : 'proxied'));
    const sockets = trackSockets(server);
    t.teardown(() => closeServer(server, sockets));
    if (port === 0) return listenOnFreePort(server, address);
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(port, address, resolve);
    });
    return port;
  };
  const port = await open('127.0.0.1', 0);
  await open('::1', port);
  await open(INSIDE, port);
  return port;
}

/** `NO_PROXY`, the host of the URL, and where curl goes then. */
const MATRIX: readonly (readonly [noProxy: string, host: string, way: 'direct' | 'proxied'])[] = [
  ['', 'internal.example', 'proxied'],
  ['internal.example', 'internal.example', 'direct'],
  ['internal.example', 'www.internal.example', 'direct'],
  ['internal.example', 'WWW.Internal.Example', 'direct'],
  ['internal.example', 'notinternal.example', 'proxied'],
  ['.internal.example', 'www.internal.example', 'direct'],
  ['.internal.example', 'internal.example', 'direct'],
  ['*.internal.example', 'www.internal.example', 'proxied'],
  ['a.example,internal.example', 'internal.example', 'direct'],
  ['a.example, internal.example', 'internal.example', 'direct'],
  ['*', 'internal.example', 'direct'],
  ['a.example,*', 'internal.example', 'proxied'],
  [INSIDE, INSIDE, 'direct'],
  ['127.77.', INSIDE, 'proxied'],
  ['127.77.0.0/16', INSIDE, 'direct'],
  ['127.78.0.0/16', INSIDE, 'proxied'],
  ['127.77.0.0/16', 'internal.example', 'proxied'],
  ['::1', '[::1]', 'direct'],
  ['127.0.0.1', '[::1]', 'proxied'],
  ['127.0.0.1', 'localhost', 'proxied'],
  ['localhost', 'localhost', 'direct'],
];

/** What `gw env` says, as an environment. */
async function printed(t: Test, gateway: GatewayProcess): Promise<Readonly<Record<string, string>>> {
  const { code, stdout, stderr } = await run(t, process.execPath, [MAIN, 'env', '--port', String(gateway.port)], { env: gateway.env });
  t.equal(code, 0, stderr);
  return Object.fromEntries([...stdout.matchAll(/^export (\w+)='(.*)'$/gm)].map(([, name = '', value = '']) => [name, value]));
}

t.test('curl and NO_PROXY', { skip: skipWithout(['curl']) }, async (t) => {
  const port = await startSite(t);
  const names = ['internal.example', 'www.internal.example', 'notinternal.example', 'localhost', INSIDE];
  const gateway = await startGatewayProcess(t, {
    env: {
      GW_UPSTREAM_CONNECT_TO: names.map((name) => `${name}:${port}=127.0.0.1:${port}`).join(','),
      GW_EGRESS_ALLOW: '127.0.0.0/8,::1/128',
    },
  });
  const curl = async (host: string, env: Readonly<Record<string, string>>): Promise<string> => {
    const args = ['--silent', '--show-error', '--max-time', '100', '--resolve', `*:${port}:127.0.0.1`, `http://${host}:${port}/`];
    const { stdout, stderr } = await run(t, requirePeer('curl'), args, { env });
    return stdout === '' ? stderr : stdout;
  };

  await t.test('each entry is a name with all below it, an address, or a range of IPv4; a port or a pattern is none', async (t) => {
    const rows = [...MATRIX, [`internal.example:${port}`, 'internal.example', 'proxied'] as const];
    for (const [noProxy, host, way] of rows)
      t.equal(await curl(host, { http_proxy: gateway.url, NO_PROXY: noProxy }), way, `NO_PROXY=${noProxy}: ${host}`);
  });

  await t.test('with what `gw env` prints only the machine itself is reached without the gateway', async (t) => {
    const env = await printed(t, gateway);
    for (const [host, way] of [
      ['localhost', 'direct'],
      ['127.0.0.1', 'direct'],
      ['[::1]', 'direct'],
      [INSIDE, 'proxied'],
      ['internal.example', 'proxied'],
    ] as const)
      t.equal(await curl(host, env), way, host);
  });
});

const CHAT = JSON.stringify({ model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'hello' }] });
const URL_OPENAI = 'https://api.openai.com/v1/chat/completions';
const FETCH = `const answer = await fetch(${JSON.stringify(URL_OPENAI)}, { method: 'POST', body: ${JSON.stringify(CHAT)}, headers: { 'content-type': 'application/json', authorization: 'Bearer k' } });
console.log(await answer.text());`;
const URLLIB = `import urllib.request
request = urllib.request.Request(${JSON.stringify(URL_OPENAI)}, ${JSON.stringify(CHAT)}.encode(), {"Content-Type": "application/json", "Authorization": "Bearer k"})
print(urllib.request.urlopen(request).read().decode())`;

/**
 * Programs that make one call with nothing but their environment, and the variables by which each of them trusts the
 * gateway.
 */
const PROGRAMS: readonly {
  readonly name: string;
  readonly peers: readonly PeerName[];
  readonly trust: readonly string[];
  readonly command: () => readonly string[];
}[] = [
  {
    name: 'curl',
    peers: ['curl'],
    // The second where the first is not set.
    trust: ['CURL_CA_BUNDLE', 'SSL_CERT_FILE'],
    command: () => [
      requirePeer('curl'),
      '--silent',
      '--show-error',
      '--max-time',
      '100',
      '--header',
      'Authorization: Bearer k',
      '--json',
      CHAT,
      URL_OPENAI,
    ],
  },
  {
    name: 'requests',
    peers: ['python3-requests'],
    trust: ['REQUESTS_CA_BUNDLE', 'CURL_CA_BUNDLE'],
    command: () => [
      requirePeer('python3-requests'),
      join(packageRoot(), 'test', 'e2e', 'clients', 'http-clients.py'),
      'requests',
      'variables',
    ],
  },
  {
    name: 'httpx',
    peers: ['python3-httpx'],
    trust: ['SSL_CERT_FILE'],
    command: () => [requirePeer('python3-httpx'), join(packageRoot(), 'test', 'e2e', 'clients', 'http-clients.py'), 'httpx', 'variables'],
  },
  { name: "Python's urllib", peers: ['python3'], trust: ['SSL_CERT_FILE'], command: () => [requirePeer('python3'), '-c', URLLIB] },
  {
    name: 'fetch of Node 24',
    peers: ['node24'],
    trust: ['NODE_EXTRA_CA_CERTS'],
    command: () => [requirePeer('node24'), '--input-type=module', '--eval', FETCH],
  },
  {
    name: 'fetch of this Node',
    peers: [],
    trust: ['NODE_EXTRA_CA_CERTS'],
    command: () => [process.execPath, '--input-type=module', '--eval', FETCH],
  },
  {
    name: 'fetch of this Node, with the file of the guide',
    peers: [],
    trust: ['NODE_EXTRA_CA_CERTS'],
    command: () => [
      process.execPath,
      '--import',
      join(packageRoot(), 'docs', 'examples', 'node20-proxy.mjs'),
      '--input-type=module',
      '--eval',
      FETCH,
    ],
  },
];

t.test('what `gw env` prints', async (t) => {
  const providers = await startProviders(t);
  const gateway = await startGatewayProcess(t, { env: providers.env });
  const env = await printed(t, gateway);
  for (const { name, peers, trust, command } of PROGRAMS) {
    await t.test(`${name} calls through the gateway, and trusts it by ${trust.join(' or ')}`, { skip: skipWithout(peers) }, async (t) => {
      const [program = '', ...args] = command();
      const good = await run(t, program, args, { env });
      t.equal(good.code, 0, good.stderr.slice(-1_000));
      t.match(good.stdout, MOCK_TEXT);
      const others = Object.fromEntries(Object.entries(env).filter(([variable]) => !trust.includes(variable)));
      const bad = await run(t, program, args, { env: others });
      t.notMatch(bad.stdout, MOCK_TEXT, 'without them it does not trust what it is shown');
      t.match(bad.stderr, /certificate|CERTIFICATE/);
    });
  }

  await t.test(
    'the one line of the README brings the SDK as it comes through the gateway, in a shell that trusts a company already',
    async (t) => {
      const company = join(tempDir(t), 'company.pem');
      const other = await startTlsUpstream({ hosts: ['intranet.example'] });
      t.teardown(() => other.close());
      writeFileSync(company, other.caPem);
      const sdk = join(packageRoot(), 'test', 'e2e', 'clients', 'sdk.mjs');
      const lines = [
        'eval "$("$NODE" "$MAIN" env --port "$PORT")"',
        '"$NODE" "$SDK" openai plain stream',
        // What the company signed is still trusted.
        `"$NODE" --input-type=module --eval 'import { connect } from "node:tls"; connect({ port: process.env.OTHER, host: "127.0.0.1", servername: "intranet.example" }, function () { console.log("trusted " + this.authorized); this.end(); })'`,
      ];
      const { code, stdout, stderr } = await run(t, 'sh', ['-euc', lines.join('\n')], {
        env: {
          ...gateway.env,
          ...{ NODE: process.execPath, MAIN, PORT: String(gateway.port), SDK: sdk, OTHER: String(other.port), OPENAI_API_KEY: 'sk-test' },
          ...{ NODE_EXTRA_CA_CERTS: company, XDG_CACHE_HOME: tempDir(t) },
        },
      });
      t.equal(code, 0, stderr);
      t.equal(stdout.split(MOCK_TEXT).length - 1, 2, 'both calls are answered');
      t.equal((stdout.match(/recordId/g) ?? []).length, 2, 'and recorded');
      t.match(stdout, /^trusted true$/m);
      t.equal(stderr, '', 'without a word of warning');
    },
  );

  await t.test('git trusts the gateway by GIT_SSL_CAINFO', { skip: skipWithout(['git']) }, async (t) => {
    // It is shown our certificate, and asks for a repository that the provider does not have.
    const args = ['ls-remote', 'https://api.openai.com/none.git'];
    const ask = (variables: Readonly<Record<string, string>>) =>
      run(t, requirePeer('git'), args, { env: { ...bareEnvironment(), ...variables, GIT_TERMINAL_PROMPT: '0', GIT_CONFIG_NOSYSTEM: '1' } });
    t.notMatch((await ask(env)).stderr, /certificate/i);
    const { GIT_SSL_CAINFO: _removed, CURL_CA_BUNDLE: _other, SSL_CERT_FILE: _third, ...others } = env;
    t.match((await ask(others)).stderr, /certificate/i);
  });
});
