// The package as it is given out: packed, judged, installed from its tarball into an empty folder, and run there.
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { publint } from 'publint';
import t, { type Test } from 'tap';
import { packageRoot, packageVersion } from '../../src/base/lib/package-root.ts';
import { STAND_IN_TEXT } from '../../src/cli/demo/stand-in-answers.ts';
import { eventually, launch, run } from '../support/child.ts';
import { requirePeer, skipWithout } from '../support/peers.ts';
import { startStandInGateway } from '../support/stand-in-gateway.ts';
import { tempDir } from '../support/temp-dir.ts';
import { startTlsUpstream } from '../support/tls-upstream.ts';
import { TOOL_PROGRAMS } from '../support/tool-programs.ts';
import { installsByNpm, npmEnvironment } from './npm-place.ts';

const ANSWER = JSON.stringify({ id: 'chatcmpl-1', object: 'chat.completion', model: 'gpt-4o-mini', choices: [] });

/** Packs the project as it is built; returns the tarball. */
async function packed(t: Test, folder: string): Promise<string> {
  const args = ['pack', '--ignore-scripts', '--silent', '--pack-destination', folder];
  const { code, stderr } = await run(t, requirePeer('npm'), args, { cwd: packageRoot(), env: npmEnvironment() });
  if (code !== 0) throw new Error(stderr);
  return join(folder, `ai-request-gateway-${packageVersion()}.tgz`);
}

t.test('the package', { skip: skipWithout(['npm']) }, async (t) => {
  const folder = tempDir(t);
  const tarball = await packed(t, folder);
  const place = join(folder, 'empty');
  mkdirSync(place);

  await t.test('publint has nothing to say of it', async (t) => {
    const bytes = readFileSync(tarball);
    const { messages } = await publint({
      strict: true,
      level: 'suggestion',
      pack: { tarball: bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) },
    });
    t.strictSame(messages, []);
  });

  const install = ['install', '--omit=dev', '--ignore-scripts', '--loglevel=error', tarball];
  const installed = await run(t, requirePeer('npm'), install, { cwd: place, env: npmEnvironment() });
  if (installed.code !== 0 && installsByNpm.unreachable(installed.stderr)) {
    await t.test('runs from its tarball', { skip: installsByNpm.SKIP }, () => undefined);
    return;
  }
  t.equal(installed.code, 0, installed.stderr);
  const home = join(place, 'node_modules', 'ai-request-gateway');

  await t.test('brings its own files and nothing of the workshop', async (t) => {
    const all = readdirSync(home, { recursive: true, encoding: 'utf8' }).filter((file) => statSync(join(home, file)).isFile());
    t.strictSame(
      all.filter((file) => /^(test|scripts|bench|dist|data)\/|^build\/(test|bench)\/|\.map$|\.ts$|\.(pem|key|log|tsbuildinfo)$/.test(file)),
      [],
    );
    for (const file of ['systemd/install.sh', 'deploy/kubernetes/deployment.yaml', 'LICENSE', 'NOTICE']) t.ok(all.includes(file), file);
    t.equal(existsSync(join(place, 'node_modules', 'typescript')), false);
  });

  await t.test('has both programs, by npx', async (t) => {
    const npx = (args: readonly string[]) =>
      run(t, requirePeer('npm'), ['exec', '--no', '--offline', '--', ...args], { cwd: place, env: npmEnvironment() });
    const version = await npx(['gw', 'version']);
    t.equal(version.code, 0, version.stderr);
    t.match(version.stdout, packageVersion());
    const help = await npx(['gw-mcp', '--help']);
    t.match(help, { code: 0, stdout: /^usage: gw-mcp /, stderr: '' });
    for (const bin of ['gw', 'gw-mcp']) t.ok(statSync(join(place, 'node_modules', '.bin', bin)).mode & 0o100, bin);
  });

  await t.test('serves, decides, records and ends', async (t) => {
    const upstream = await startTlsUpstream({
      hosts: ['api.openai.com'],
      handler: (_request, response, body) => {
        void body.then(() => response.writeHead(200, { 'Content-Type': 'application/json' }).end(ANSWER));
      },
    });
    t.teardown(() => upstream.close());
    writeFileSync(join(place, 'upstream.pem'), upstream.caPem);
    cpSync(join(home, 'policies'), join(place, 'policies'), { recursive: true });
    const gateway = launch(t, join(place, 'node_modules', '.bin', 'gw'), ['start'], {
      cwd: place,
      env: {
        GW_PORT: '0',
        GW_AMBIENT_PORT: '0',
        GW_HEALTHZ_STARTUP_GRACE: '0s',
        GW_UPSTREAM_CONNECT_TO: `api.openai.com:443=127.0.0.1:${upstream.port}`,
        GW_UPSTREAM_CA_FILE: join(place, 'upstream.pem'),
      },
    });
    let over = false;
    void gateway.ended.then(() => {
      over = true;
    });
    const url = await eventually('the start', () => {
      if (over) throw new Error(gateway.stdout + gateway.stderr);
      return /^ {2}proxy +(http:\/\/127\.0\.0\.1:\d+)$/m.exec(gateway.stdout)?.[1];
    });
    t.equal((await fetch(`${url}/healthz`)).status, 200);
    // The health check of the image, from the package that it has.
    const check = await run(t, process.execPath, [join(home, 'deploy/docker/healthcheck.mjs')], { env: { GW_PORT: new URL(url).port } });
    t.equal(check.code, 0, check.stderr);
    const answer = await fetch(`${url}/proxy/openai/v1/chat/completions`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: 'Bearer sk-test' },
      body: JSON.stringify({ model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'Hi' }] }),
    });
    t.equal(answer.status, 200);
    t.equal(await answer.text(), ANSWER);
    t.ok(answer.headers.get('x-gw-record-id'));
    gateway.kill('SIGTERM');
    t.equal((await gateway.ended).code, 0);
  });

  await t.test('lends programs on Node 20 a way through the gateway', async (t) => {
    const gateway = await startStandInGateway(t);
    const program = join(place, 'call.mjs');
    writeFileSync(program, TOOL_PROGRAMS.node);
    const env = { ...npmEnvironment(), OPENAI_API_KEY: 'sk-fake', ...gateway.settings };
    const bin = join(place, 'node_modules', '.bin', 'gw');
    const { code, stdout, stderr } = await run(t, bin, ['run', '--', process.execPath, program], { cwd: place, env });
    t.equal(code, 0, stderr);
    t.match(stdout, STAND_IN_TEXT);
  });

  await t.test('goes again', async (t) => {
    const { code, stderr } = await run(t, requirePeer('npm'), ['uninstall', 'ai-request-gateway', '--loglevel=error'], {
      cwd: place,
      env: npmEnvironment(),
    });
    t.equal(code, 0, stderr);
    t.equal(existsSync(join(place, 'node_modules', '.bin', 'gw')), false);
  });
});

t.test('the files of the programs can be run as they are', async (t) => {
  const manifest = JSON.parse(readFileSync(join(packageRoot(), 'package.json'), 'utf8')) as { bin: Record<string, string> };
  for (const file of Object.values(manifest.bin)) {
    const main = join(packageRoot(), file);
    t.ok(readFileSync(main, 'utf8').startsWith('#!/usr/bin/env node\n'), file);
    t.equal(spawnSync(process.execPath, ['--check', main]).status, 0);
  }
});
