// Programs that have nothing to do with AI, through a gateway that opens their traffic: they must not notice.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import t, { type Test } from 'tap';
import { bareEnvironment, type Ended, run } from '../support/child.ts';
import { type EverydaySite, FILE, SITE_HOSTS, startEverydaySite } from '../support/everyday-site.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { ALLOW_ALL } from '../support/governed.ts';
import { requirePeer, skipWithout } from '../support/peers.ts';
import { tempDir } from '../support/temp-dir.ts';
import { towards } from '../support/upstreams.ts';

const OPENED = ['inspect', 'govern'] as const;

interface Scene {
  readonly gw: TestGateway;
  readonly site: EverydaySite;
  /** What the programs trust: our root where their traffic is opened, the site's own where it is not. */
  readonly trust: string;
  readonly dir: string;
}

async function scene(t: Test, site: EverydaySite, mode: string): Promise<Scene> {
  const gw = await startTestGateway(t, { bundle: ALLOW_ALL, env: { ...towards(t, site, SITE_HOSTS), GW_PROXY_NON_AI: mode } });
  const dir = tempDir(t);
  const trust = join(dir, 'trust.pem');
  writeFileSync(trust, OPENED.some((opened) => opened === mode) ? gw.caPem : site.caPem);
  return { gw, site, trust, dir };
}

/** Runs a program that finds the proxy in its environment, as a user's shell has it. */
async function proxied(
  t: Test,
  { gw, dir }: Scene,
  command: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Ended> {
  const ended = await run(t, command, args, { cwd: dir, env: { HOME: dir, HTTPS_PROXY: gw.url, https_proxy: gw.url, ...env } });
  t.equal(ended.code, 0, `${command} ${args[0] ?? ''}: ${ended.stderr.slice(-1500)}`);
  return ended;
}

async function gitWorks(t: Test, scene: Scene, mode: string): Promise<void> {
  const env = { GIT_SSL_CAINFO: scene.trust, GIT_CONFIG_NOSYSTEM: '1', GIT_TERMINAL_PROMPT: '0' };
  const git = (...args: readonly string[]) => proxied(t, scene, requirePeer('git'), args, env);
  await git('clone', '--quiet', 'https://git.example/repo.git', 'work');
  // Larger than git's buffer for a POST, so that it is sent in chunks.
  writeFileSync(join(scene.dir, 'work', mode), Buffer.from(Array.from({ length: 3_000_000 }, (_, i) => (i * 7919) % 251)));
  await git('-C', 'work', 'add', '.');
  await git('-C', 'work', '-c', 'user.name=A', '-c', 'user.email=a@example.com', 'commit', '--quiet', '-m', mode);
  await git('-C', 'work', 'push', '--quiet', 'origin', 'HEAD:main');
  await git('clone', '--quiet', '--branch', 'main', 'https://git.example/repo.git', 'again');
  t.same(readFileSync(join(scene.dir, 'again', mode)), readFileSync(join(scene.dir, 'work', mode)));
}

async function npmWorks(t: Test, scene: Scene): Promise<void> {
  const flags = [
    '--registry=https://registry.example/',
    '--no-audit',
    '--no-fund',
    '--no-update-notifier',
    '--fetch-retries=0',
    `--cache=${join(scene.dir, 'npm-cache')}`,
  ];
  writeFileSync(join(scene.dir, 'package.json'), '{"private":true}');
  await proxied(t, scene, requirePeer('npm'), ['install', 'tiny', ...flags], {
    npm_config_cafile: scene.trust,
    npm_config_https_proxy: scene.gw.url,
  });
  t.match(readFileSync(join(scene.dir, 'node_modules', 'tiny', 'index.js'), 'utf8'), 'tiny');
}

async function pipWorks(t: Test, scene: Scene): Promise<void> {
  const args = [
    '-m',
    'pip',
    'install',
    '--quiet',
    '--no-cache-dir',
    '--no-deps',
    '--timeout',
    '100',
    '--disable-pip-version-check',
    '--target',
    'site',
  ];
  await proxied(t, scene, requirePeer('pip'), [...args, '--index-url', 'https://pypi.example/simple', 'tiny'], { PIP_CERT: scene.trust });
  t.match(readFileSync(join(scene.dir, 'site', 'tiny.py'), 'utf8'), 'tiny');
}

async function curlWorks(t: Test, scene: Scene): Promise<void> {
  const curl = (...args: readonly string[]) =>
    proxied(t, scene, requirePeer('curl'), ['--silent', '--show-error', '--fail', '--max-time', '100', '--cacert', scene.trust, ...args]);
  for (const [flag, version] of [
    ['--http1.1', '1.1'],
    ['--http2', '2'],
  ] as const) {
    const { stdout } = await curl(flag, '--output', `whole${version}`, '--write-out', '%{http_version}', 'https://www.example.com/file');
    t.equal(stdout, version);
    t.ok(readFileSync(join(scene.dir, `whole${version}`)).equals(FILE));
    writeFileSync(join(scene.dir, `part${version}`), FILE.subarray(0, 1_234_567));
    await curl(flag, '--continue-at', '-', '--output', `part${version}`, 'https://www.example.com/file');
    t.ok(readFileSync(join(scene.dir, `part${version}`)).equals(FILE), 'resumed');
    await curl(flag, '--upload-file', `whole${version}`, 'https://www.example.com/upload');
    t.ok(scene.site.uploaded().equals(FILE), 'uploaded');
  }
}

t.test('everyday programs, opened by the gateway', { skip: skipWithout(['git', 'python3']) }, async (t) => {
  const site = await startEverydaySite(t);
  for (const mode of OPENED) {
    const before = site.requests.length;
    const at = await scene(t, site, mode);
    await t.test(`${mode}: git clones and pushes`, (t) => gitWorks(t, at, mode));
    await t.test(`${mode}: npm installs`, { skip: skipWithout(['npm']) }, (t) => npmWorks(t, at));
    await t.test(`${mode}: pip installs`, { skip: skipWithout(['pip']) }, (t) => pipWorks(t, at));
    await t.test(`${mode}: curl loads, resumes and uploads, over http/1.1 and h2`, { skip: skipWithout(['curl']) }, (t) =>
      curlWorks(t, at),
    );
    const { body } = await at.gw.admin('GET', '/v1/admin/discovery/domains');
    const { domains } = body as { domains: { domain: string; requests: number }[] };
    t.equal(
      domains.reduce((sum, { requests }) => sum + requests, 0),
      site.requests.length - before,
      'each request was counted once',
    );
  }
});

async function openBrowser(t: Test, { gw, trust }: Scene) {
  const home = tempDir(t);
  const database = join(home, '.pki', 'nssdb');
  mkdirSync(database, { recursive: true });
  for (const args of [
    ['-N', '--empty-password'],
    ['-A', '-t', 'C,,', '-n', 'root', '-i', trust],
  ])
    t.equal((await run(t, requirePeer('certutil'), ['-d', `sql:${database}`, ...args])).code, 0);
  const context = await chromium.launchPersistentContext(join(home, 'profile'), {
    executablePath: requirePeer('chromium'),
    headless: true,
    timeout: 600_000,
    env: { ...bareEnvironment(), HOME: home },
    args: [
      ...['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking'],
      ...['--disable-component-update', '--disable-sync', `--proxy-server=${gw.url}`],
    ],
  });
  t.teardown(() => context.close());
  context.setDefaultTimeout(120_000);
  return context.pages()[0] ?? (await context.newPage());
}

t.test('an ordinary page in headless Chromium', { skip: skipWithout(['chromium', 'certutil', 'git', 'python3']) }, async (t) => {
  const site = await startEverydaySite(t);
  for (const mode of ['pass', 'inspect', 'govern-ai', 'govern']) {
    await t.test(mode, async (t) => {
      const page = await openBrowser(t, await scene(t, site, mode));
      const before = site.requests.length;
      await page.goto('https://www.example.com/', { waitUntil: 'load' });
      t.equal(await page.title(), 'loaded', 'its script ran');
      t.equal(await page.evaluate('getComputedStyle(document.querySelector("p")).color'), 'rgb(1, 2, 3)');
      t.equal(await page.evaluate('document.querySelector("img").naturalWidth'), 1);
      const echo = `fetch('/echo', { method: 'POST', body: 'x'.repeat(200000) }).then(async (answer) => (await answer.text()).length)`;
      t.equal(await page.evaluate(echo), 200_000);
      const [download] = await Promise.all([page.waitForEvent('download'), page.click('#get')]);
      t.ok(readFileSync(await download.path()).equals(FILE), 'downloaded');
      const socket = `new Promise((resolve, reject) => {
        const socket = new WebSocket('wss://www.example.com/socket');
        socket.onopen = () => socket.send('hello');
        socket.onmessage = ({ data }) => resolve(data);
        socket.onerror = () => reject(new Error('socket failed'));
      })`;
      t.equal(await page.evaluate(socket), 'echo hello');
      const versions = site.requests.slice(before).map((line) => line.split(' ').at(-1));
      t.same([...new Set(versions)], ['2.0'], 'over h2 from end to end');
    });
  }
});
