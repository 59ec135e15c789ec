// Programs that are not ours, at a gateway whose ports speak TLS (decision 12.1).
import { cpSync, mkdirSync, readFileSync, statSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { chromium } from 'playwright-core';
import t, { type Test } from 'tap';
import { ProxyAgent, fetch as undiciFetch } from 'undici';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { bareEnvironment, run } from '../support/child.ts';
import { gatewayEnvironment, launchGateway } from '../support/gateway-process.ts';
import { requirePeer, skipWithout } from '../support/peers.ts';
import { portCertificate } from '../support/port-tls.ts';
import { gw } from '../support/run-gw.ts';
import { tempDir } from '../support/temp-dir.ts';
import { startTlsUpstream } from '../support/tls-upstream.ts';
import { towards } from '../support/upstreams.ts';

const MODELS = 'https://api.openai.com/v1/models';

async function start(t: Test) {
  const upstream = await startTlsUpstream({
    hosts: ['api.openai.com'],
    handler: (_request, response) =>
      response
        .writeHead(200, { 'Content-Type': 'application/json', 'Access-Control-Allow-Origin': '*', 'Access-Control-Expose-Headers': '*' })
        .end('{"data":[{"id":"gpt-4o-mini"}]}'),
  });
  t.teardown(() => upstream.close());
  const certificate = portCertificate(t);
  const env = gatewayEnvironment(t, { env: { ...certificate.env, ...towards(t, upstream, ['api.openai.com']) } });
  const gateway = await launchGateway(t, env);
  return { gateway, certificate, env, url: `https://127.0.0.1:${gateway.port}` };
}

t.test('clients of ports that speak TLS', async (t) => {
  const { gateway, certificate, env, url } = await start(t);

  await t.test('undici with a ProxyAgent', async (t) => {
    const dispatcher = new ProxyAgent({
      uri: url,
      proxyTls: { ca: certificate.ca.certPem },
      requestTls: { ca: readFileSync(gateway.caFile, 'utf8') },
    });
    t.teardown(() => dispatcher.close());
    const answer = await undiciFetch(MODELS, { dispatcher, headers: { Authorization: 'Bearer sk-test' } });
    t.match(await answer.text(), 'gpt-4o-mini');
    t.ok(answer.headers.get('x-gw-record-id'));
  });

  await t.test('curl, with what it trusts as a proxy told apart', { skip: skipWithout(['curl']) }, async (t) => {
    const args = ['--silent', '--show-error', '--fail', '--include', '--max-time', '60', '--proxy', url];
    const trust = ['--proxy-cacert', certificate.caFile, '--cacert', gateway.caFile];
    const ended = await run(t, requirePeer('curl'), [...args, ...trust, '--header', 'Authorization: Bearer sk-test', MODELS]);
    t.equal(ended.code, 0, ended.stderr);
    t.match(ended.stdout, /x-gw-record-id: /i);
    t.match(ended.stdout, 'gpt-4o-mini');
  });

  await t.test('openssl verifies what it is shown', { skip: skipWithout(['openssl']) }, async (t) => {
    const args = ['s_client', '-connect', `127.0.0.1:${gateway.port}`, '-CAfile', certificate.caFile, '-verify_ip', '127.0.0.1'];
    const ended = await run(t, requirePeer('openssl'), [...args, '-verify_return_error', '-alpn', 'h2']);
    t.match(ended.stdout, /Verify return code: 0 \(ok\)/);
    t.match(ended.stdout, /ALPN protocol: h2/);
  });

  await t.test('Chromium with the configuration that the gateway serves', { skip: skipWithout(['chromium', 'certutil']) }, async (t) => {
    const home = tempDir(t);
    const database = join(home, '.pki', 'nssdb');
    mkdirSync(database, { recursive: true });
    const certutil = (args: readonly string[]) => run(t, requirePeer('certutil'), ['-d', `sql:${database}`, ...args]);
    t.equal((await certutil(['-N', '--empty-password'])).code, 0);
    for (const [name, file] of [
      ['gateway', gateway.caFile],
      ['port', certificate.caFile],
    ] as const) {
      t.equal((await certutil(['-A', '-t', 'C,,', '-n', name, '-i', file])).code, 0);
    }
    const context = await chromium.launchPersistentContext(join(home, 'profile'), {
      executablePath: requirePeer('chromium'),
      headless: true,
      timeout: 600_000,
      env: { ...bareEnvironment(), HOME: home },
      args: [
        ...['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking'],
        ...['--disable-component-update', '--disable-sync', `--proxy-pac-url=${url}/proxy.pac`],
      ],
    });
    t.teardown(() => context.close());
    const page = context.pages()[0] ?? (await context.newPage());
    const answer = await page.goto(MODELS);
    t.equal(answer?.status(), 200);
    t.ok(answer?.headers()['x-gw-record-id']);
  });

  await t.test('gw itself, by its settings and by an address', async (t) => {
    const own = { ...env, GW_PORT: String(gateway.port), XDG_CACHE_HOME: tempDir(t) };
    const asked = await gw(['audit'], { env: own });
    t.equal(asked.code, 0, asked.err);
    const variables = await gw(['env'], { env: own });
    t.match(variables.out, `export HTTPS_PROXY='${url}'`);
    const bundle = /^export SSL_CERT_FILE='(.+)'$/m.exec(variables.out)?.[1] ?? '';
    t.match(
      readFileSync(bundle, 'utf8').replaceAll(/\s/g, ''),
      readFileSync(String(env['GW_TLS_CERT_FILE']), 'utf8').replaceAll(/\s/g, ''),
    );
    const stranger = { ...own, GW_TLS_CERT_FILE: '', GW_TLS_KEY_FILE: '' };
    const refused = async (address: string, settings: Record<string, string>) =>
      (await gw(['audit', '--url', address], { env: settings })).err;
    t.match(await refused(url, stranger), /its certificate is not trusted here .*GW_TLS_CERT_FILE/);
    t.match(await refused(`http://127.0.0.1:${gateway.port}`, own), /This port speaks TLS/);
    t.match(await refused(`https://127.0.0.2:${gateway.port}`, own), /ECONNREFUSED|is not for 127\.0\.0\.2/);
  });
});

t.test(
  'the recipe of the guide makes a certificate of the gateway’s own root that its ports can show',
  { skip: skipWithout(['openssl']) },
  async (t) => {
    const made = await launchGateway(t, gatewayEnvironment(t));
    const place = tempDir(t);
    cpSync(dirname(made.caFile), join(place, 'ca'), { recursive: true });
    const guide = readFileSync(join(packageRoot(), 'docs', 'guides', 'tls.md'), 'utf8');
    const recipe = /^Signed by the gateway's own root.*\n\n```sh\n([^`]+)```$/m.exec(guide)?.[1] ?? '';
    t.match(recipe, 'openssl verify');
    const path = `${dirname(requirePeer('openssl'))}${delimiter}${bareEnvironment()['PATH']}`;
    const ended = await run(t, 'sh', ['-ec', recipe], { cwd: place, env: { PATH: path } });
    t.equal(ended.code, 0, ended.stderr);
    t.match(ended.stdout, 'port.pem: OK');

    const files = { GW_TLS_CERT_FILE: join(place, 'port.pem'), GW_TLS_KEY_FILE: join(place, 'port.key') };
    t.equal(statSync(files.GW_TLS_KEY_FILE).mode & 0o077, 0, 'nobody else can read the key');
    const gateway = await launchGateway(t, gatewayEnvironment(t, { env: files }));
    for (const name of [
      ['-verify_hostname', 'gw.example.com'],
      ['-verify_ip', '10.0.0.7'],
    ]) {
      const args = ['s_client', '-connect', `127.0.0.1:${gateway.port}`, '-CAfile', made.caFile, '-verify_return_error'];
      t.match((await run(t, requirePeer('openssl'), [...args, ...name])).stdout, /Verify return code: 0 \(ok\)/);
    }
  },
);
