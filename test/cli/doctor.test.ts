import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer as createHttpServer, type ServerResponse } from 'node:http';
import { createServer } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import type { DeadLetter } from '../../src/base/model/export-destination.ts';
import { exportFindings, priceFindings } from '../../src/cli/doctor/ask-admin.ts';
import { CHECKS } from '../../src/cli/doctor/doctor.ts';
import type { Finding } from '../../src/cli/doctor/finding.ts';
import { diskFinding } from '../../src/cli/doctor/machine-checks.ts';
import { RUNTIMES } from '../../src/cli/doctor/runtimes.ts';
import { runProgram } from '../../src/cli/trust/run-program.ts';
import type { PriceListStatus } from '../../src/operations/price-list-operations.ts';
import { bareEnvironment } from '../support/child.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { ADMIN_TOKEN, startTestGateway } from '../support/gateway.ts';
import { MAIN } from '../support/gateway-process.ts';
import { managedAs } from '../support/managed.ts';
import { type PeerName, requirePeer, skipWithout } from '../support/peers.ts';
import { portCertificate } from '../support/port-tls.ts';
import { isInstalled } from '../support/program-under-test.ts';
import { openTunnel } from '../support/raw-clients.ts';
import { gw } from '../support/run-gw.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';

const DAY = 86_400_000;

async function ask(env: Record<string, string>, ...args: readonly string[]): Promise<{ code: number; of: (id: string) => Finding[] }> {
  const { code, out, err } = await gw(['doctor', '--json', ...args], { env });
  if (out === '') throw new Error(err);
  const findings = JSON.parse(out) as Finding[];
  return { code, of: (id) => findings.filter((one) => one.id === id) };
}

// Children have the clock of the machine, and minutes may pass in this file.
async function place(t: HasTeardown, clock = fakeClock(Date.now()), more: Record<string, string> = {}) {
  const gateway = await startTestGateway(t, { clock, certificateClock: clock, env: more });
  const home = tempDir(t);
  const caDir = join(gateway.caFile, '..');
  const env: Record<string, string> = {
    HOME: home,
    ...bareEnvironment(),
    GW_CA_DIR: caDir,
    GW_DATA_DIR: gateway.dataDir,
    GW_ADMIN_TOKEN: ADMIN_TOKEN,
  };
  const shell = { ...env };
  for (const line of (await gw(['env', '--port', String(gateway.port)], { env })).out.split('\n')) {
    const [, name, value] = /^export (\w+)='(.*)'$/.exec(line) ?? [];
    if (name !== undefined && value !== undefined) shell[name] = value;
  }
  return { gateway, env, shell, caDir, url: ['--url', gateway.url] };
}

const RUNTIME_PEERS: Readonly<Record<string, readonly PeerName[]>> = {
  node: [],
  python: ['python3'],
  curl: ['curl'],
  git: ['git'],
  java: ['java'],
  go: ['go'],
  chromium: ['chromium'],
};

t.test('each runtime is found to come through and to trust, not to trust, and to pass the proxy by', async (t) => {
  const { shell, env, gateway, url } = await place(t);
  const proxy = { HTTPS_PROXY: gateway.url, https_proxy: gateway.url };
  for (const { id } of RUNTIMES.filter(({ slow }) => slow === undefined)) {
    await t.test(id, { skip: skipWithout(RUNTIME_PEERS[id] ?? []) }, async (t) => {
      const well = await ask(shell, '--for', id, ...url);
      t.match(well.of(id), [{ level: 'ok', found: /came through the proxy and trusts the root/ }]);
      const { NODE_EXTRA_CA_CERTS: _extra, ...untrusting } = shell;
      const bare = { ...(id === 'node' ? untrusting : env), ...proxy };
      const distrust = await ask(bare, '--for', id, ...url);
      t.match(distrust.of(id), [{ level: 'wrong', found: /does not trust the root/ }], JSON.stringify(distrust.of(id)));
      t.equal(distrust.code, 1);
    });
  }
  const past = await ask({ ...shell, NO_PROXY: '*', no_proxy: '*' }, '--for', 'node,curl', ...url);
  t.match(past.of('proxy-variable'), [{ level: 'wrong', found: /NO_PROXY has "\*"/ }]);
  for (const one of [
    { NO_PROXY: 'openai.com', no_proxy: 'localhost' },
    { NO_PROXY: 'localhost', no_proxy: 'openai.com' },
  ]) {
    const { of } = await ask({ ...shell, ...one }, ...url);
    t.match(of('proxy-variable'), [{ level: 'wrong', found: /NO_PROXY has "openai.com"/ }], 'whichever a program reads');
  }
  for (const id of skipWithout(['curl']) ? ['node'] : ['node', 'curl'])
    t.match(past.of(id), [{ level: 'wrong', found: /does not use the proxy/ }], JSON.stringify(past.of(id)));
  const unreached = await ask({ ...shell, HTTPS_PROXY: 'http://127.0.0.1:9', https_proxy: 'http://127.0.0.1:9' }, '--for', 'node', ...url);
  t.match(unreached.of('node'), [{ level: 'wrong', found: /cannot reach its proxy/ }], JSON.stringify(unreached.of('node')));
  t.match(unreached.of('proxy-variable'), [{ level: 'warning', found: /leads to 127\.0\.0\.1:9/ }]);
  t.match((await ask(env, ...url)).of('runtimes'), [{ level: 'skipped' }]);
});

for (const id of ['java', 'go'] as const) {
  t.test(`${id}, when it is asked for`, { skip: skipWithout(RUNTIME_PEERS[id] ?? []) }, async (t) => {
    const { env, shell, gateway, url } = await place(t);
    const goEnv = { GOFLAGS: '-mod=mod', GO111MODULE: 'off', GOCACHE: join(tempDir(t), 'cache') };
    const distrust = await ask({ ...env, ...goEnv, HTTPS_PROXY: gateway.url, https_proxy: gateway.url }, '--for', id, ...url);
    t.match(distrust.of(id), [{ level: 'wrong', found: /does not trust the root/ }], JSON.stringify(distrust.of(id)));
    if (id === 'go') t.match((await ask({ ...shell, ...goEnv }, '--for', id, ...url)).of(id), [{ level: 'ok' }]);
  });
}

t.test('the self-test says nothing but that, goes nowhere, leaves no record, and pins nothing', async (t) => {
  const { shell, gateway, url } = await place(t);
  await ask(shell, '--for', 'node', ...url);
  const { body } = await gateway.admin('GET', '/v1/admin/discovery/domains');
  t.match(body, { domains: [], total: 0 });
  const metrics = await (await fetch(`${gateway.url}/metrics`)).text();
  t.notMatch(metrics, /gw_requests_total\{/);
});

t.test('a runtime that shows a token which is none, where none is needed', async (t) => {
  const { shell, gateway, url } = await place(t);
  const proxy = `http://default:gwt_lost@127.0.0.1:${gateway.port}`;
  const { of, code } = await ask({ ...shell, HTTPS_PROXY: proxy, https_proxy: proxy }, '--for', 'node', ...url);
  t.match(of('node'), [{ level: 'warning', found: /The workload token that is shown is not that of workload default/ }]);
  t.equal(code, 0);
});

t.test('a runtime that comes through and shows no token where one is asked for', async (t) => {
  const { shell, gateway, url } = await place(t, fakeClock(Date.now()), { GW_PROXY_AUTH: 'required' });
  const failures = async () => (/^gw_auth_failures_total\{.*$/m.exec(await (await fetch(`${gateway.url}/metrics`)).text()) ?? [''])[0];
  const before = await failures();
  const without = await ask(shell, '--for', 'node', ...url);
  t.match(without.of('node'), [
    {
      level: 'wrong',
      found: /its calls are refused: the proxy asks for a token.*\(This proxy needs a workload and its token\.\)/,
      remedy: /gw workloads token/,
    },
  ]);
  t.equal(without.code, 1);
  t.equal(await failures(), before, 'a trial is no failure');
  await gateway.admin('PUT', '/v1/admin/workloads', { workload_id: 'ci' });
  const { body } = await gateway.admin('POST', '/v1/admin/workloads/ci/token');
  const { token } = body as { token: string };
  for (const [shown, level] of [
    [token, 'ok'],
    [`${token}x`, 'wrong'],
  ] as const) {
    const proxy = `http://ci:${shown}@127.0.0.1:${gateway.port}`;
    const { of } = await ask({ ...shell, HTTPS_PROXY: proxy, https_proxy: proxy }, '--for', 'node', ...url);
    t.match(of('node'), [{ level }], JSON.stringify(of('node')));
  }
});

t.test('a gateway that is not there, and another program at its port', async (t) => {
  const { env } = await place(t);
  const nobody = await ask(env, '--url', 'http://127.0.0.1:9');
  t.match(nobody.of('gateway'), [{ level: 'wrong', found: /no gateway answers at http:\/\/127\.0\.0\.1:9/ }]);
  t.equal(nobody.code, 1);
  t.equal(JSON.stringify(nobody.of('gateway')).split('http://127.0.0.1:9').length, 2, 'its address is told once');
  const secure = await startTestGateway(t, { env: portCertificate(t).env });
  const plain = await ask(env, '--url', `http://127.0.0.1:${secure.port}`);
  t.match(plain.of('gateway'), [{ level: 'wrong', found: /its port speaks TLS alone: its address begins with https:/ }]);
  const other = createServer((socket) => socket.on('error', () => undefined).end('SSH-2.0-other\r\n')).listen(0, '127.0.0.1');
  await once(other, 'listening');
  t.teardown(() => other.close());
  const address = other.address();
  const port = typeof address === 'object' ? address?.port : 0;
  t.match((await ask(env, '--url', `http://127.0.0.1:${port}`)).of('gateway'), [{ level: 'wrong', found: /another program answers/ }]);
});

t.test('settings that are not valid, and names that are none', async (t) => {
  const { env, url } = await place(t);
  const bad = await ask({ ...env, GW_LOG_LEVEL: 'loud', GW_PROT: '1' }, ...url);
  t.match(bad.of('settings'), [
    { level: 'wrong', found: /GW_LOG_LEVEL/ },
    { level: 'warning', found: /GW_PROT"? is not a setting/ },
  ]);
  t.equal(bad.code, 1);
  const nowhere = await ask({ ...env, GW_LOG_LEVEL: 'loud' });
  t.match(nowhere.of('gateway'), [{ level: 'skipped', found: /while a setting is not valid/ }], 'it may run as well as ever');
  const known = await ask({ ...env, GW_PROT: '1' }, ...url);
  t.equal(known.code, 0, 'a warning is no fault');
  t.match((await gw(['doctor', ...url], { env: { ...env, GW_PROT: '1' } })).out, /\nNothing is wrong \(\d+ warnings\)\.\n$/);
  t.match(
    (await gw(['doctor', ...url], { env: { ...env, GW_LOG_LEVEL: 'loud' } })).out,
    /\nOne thing is wrong(?: \(\d+ warnings?\))?\.\n$/,
  );
  t.equal((await gw(['doctor', '--for', 'perl'], { env })).code, 2);
});

t.test('a root that others can read, does not fit its key, or has ended', async (t) => {
  const { env, url, caDir } = await place(t);
  t.match((await ask(env, ...url)).of('root'), [{ level: 'ok' }]);
  chmodSync(join(caDir, 'root-ca.key'), 0o644);
  t.match((await ask(env, ...url)).of('root'), [{ level: 'wrong', found: /lets others at it: run chmod 600/ }]);
  chmodSync(join(caDir, 'root-ca.key'), 0o600);
  const other = await place(t);
  t.match((await ask({ ...env, GW_CA_DIR: other.caDir }, ...url)).of('root-served'), [{ level: 'wrong', found: /another root/ }]);
  writeFileSync(join(caDir, 'root-ca.pem'), readFileSync(join(other.caDir, 'root-ca.pem')));
  t.match((await ask(env, ...url)).of('root'), [{ level: 'wrong', found: /do not belong together/ }]);
  // Made ten years ago, so that it has ended by the clock of the machine.
  const old = await place(t, fakeClock(Date.now() - 3655 * DAY));
  const ended = await ask(old.env, ...old.url);
  t.match(ended.of('root'), [{ level: 'wrong', found: /expired at/ }]);
  t.match(ended.of('root-served'), [{ level: 'wrong', found: /ended at/ }]);
  const soon = await place(t, fakeClock(Date.now() - 3640 * DAY));
  t.match((await ask(soon.env, ...soon.url)).of('root'), [{ level: 'warning', remedy: /gw ca rotate/ }]);
});

/** What is found at a gateway that says something of itself. */
async function saying(t: HasTeardown, env: Record<string, string>) {
  let said: object = {};
  const server = createHttpServer((_request, response) => response.end(JSON.stringify({ node_id: 'n', status: 'ok', ...said })));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return (health: object) => {
    said = health;
    return ask(env, '--url', `http://127.0.0.1:${address.port}`);
  };
}

t.test('what a gateway says is wrong with it is found, with what to do', async (t) => {
  const { env } = await place(t);
  const asked = await saying(t, env);
  const found = async (...codes: readonly string[]) => {
    const { code, of } = await asked({ warnings: codes.map((code) => ({ code, message: `It is ${code}.` })) });
    return { code, gateway: of('gateway') };
  };
  t.match(await found(), { gateway: [{ level: 'ok' }] });
  t.match(await found('record_store_unavailable', 'certificate_of_dropped_root'), {
    code: 1,
    gateway: [
      { level: 'wrong', found: 'It is record_store_unavailable.', remedy: /make room on the disk/ },
      { level: 'wrong', found: 'It is certificate_of_dropped_root.', remedy: /docs\/guides\/tls\.md/ },
      { level: 'ok' },
    ],
  });
  t.match(await found('policy_change_not_loaded', 'something_new', 'cp_node_revoked'), {
    gateway: [
      { level: 'warning', found: 'It is policy_change_not_loaded.', remedy: /gw policy check/ },
      { level: 'warning', found: 'It is something_new.', remedy: /the log/ },
      { level: 'ok' },
    ],
  });
});

t.test('how a gateway stands with its control plane', async (t) => {
  const { env, url } = await place(t);
  t.match((await ask(env, ...url)).of('control-plane'), [{ level: 'skipped', found: /has no control plane/ }]);
  const asked = await saying(t, env);
  const found = async (health: object) =>
    (await asked({ cp_certificate_expires_at: '2027-02-01T00:00:00.000Z', ...health })).of('control-plane');
  t.match(await found({ cp_status: 'connected', cp_posture: 'normal', warnings: [{ code: 'no_bundle', message: 'of another room' }] }), [
    { level: 'ok', found: 'connected to the control plane; the certificate of the node ends at 2027-02-01T00:00:00.000Z' },
  ]);
  const offline = { cp_status: 'offline', cp_offline_since: '2027-01-01T00:00:00.000Z' };
  t.match(
    await found({ ...offline, cp_posture: 'permissive', warnings: [{ code: 'cp_node_revoked', message: 'revoked: enrol it anew.' }] }),
    [
      { level: 'warning', found: 'revoked: enrol it anew.' },
      { level: 'warning', found: /^no contact with the control plane since 2027-01-01T00:00:00.000Z \(permissive\); / },
    ],
  );
  t.match(await found({ ...offline, cp_posture: 'strict', warnings: 'none' }), [
    { level: 'wrong', found: /\(strict\).*: nobody is served$/ },
  ]);
});

t.test('a clock that is hours behind', async (t) => {
  const { env } = await place(t);
  const answer = (_request: unknown, response: ServerResponse) =>
    response.setHeader('Date', new Date(Date.now() - 7_200_000).toUTCString()).end('{"node_id":"n","status":"ok"}');
  const behind = createHttpServer(answer).listen(0, '127.0.0.1');
  await once(behind, 'listening');
  t.teardown(() => behind.close());
  const address = behind.address();
  const port = typeof address === 'object' ? address?.port : 0;
  t.match((await ask(env, '--url', `http://127.0.0.1:${port}`)).of('clock'), [
    { level: 'wrong', found: /s behind the one of this machine/ },
  ]);
});

t.test('a store of a newer format', async (t) => {
  const { env, url } = await place(t);
  const dataDir = tempDir(t);
  mkdirSync(join(dataDir, 'store'));
  writeFileSync(join(dataDir, 'store', 'format'), 'gateway-store 99\n');
  t.match((await ask({ ...env, GW_DATA_DIR: dataDir }, ...url)).of('data'), [
    { level: 'wrong', found: /has format 99; this version reads up to/ },
  ]);
});

t.test('a unit that has failed, too few threads, a parent proxy that is not there', async (t) => {
  const { env, url } = await place(t);
  const bin = tempDir(t);
  writeFileSync(
    join(bin, 'systemctl'),
    '#!/bin/sh\nprintf "LoadState=loaded\\nActiveState=failed\\nSubState=failed\\nResult=exit-code\\n"\n',
    { mode: 0o755 },
  );
  const found = await ask(
    { ...env, PATH: `${bin}:${env['PATH']}`, UV_THREADPOOL_SIZE: '1', GW_UPSTREAM_PROXY: 'http://127.0.0.1:9' },
    '--online',
    ...url,
  );
  t.match(found.of('unit'), [{ level: 'wrong', remedy: /journalctl -u/ }]);
  t.match(found.of('threads'), [{ level: 'warning' }]);
  t.match(found.of('online'), [{ level: 'wrong', found: /the parent proxy cannot be reached/ }]);
  t.match((await ask(env, ...url)).of('online'), [{ level: 'skipped' }]);
});

t.test('few files that may be open, in a shell that says so', async (t) => {
  const { env, url } = await place(t);
  const { stdout } = spawnSync(
    'sh',
    ['-c', 'ulimit -n 256; exec "$@"', 'sh', process.execPath, MAIN, 'doctor', '--json', '--url', 'http://127.0.0.1:9'],
    { env, encoding: 'utf8' },
  );
  t.match(
    (JSON.parse(stdout) as Finding[]).filter(({ id }) => id === 'files'),
    [{ level: process.platform === 'linux' ? 'warning' : 'skipped' }],
  );
  t.ok(url);
});

t.test('a price list that is old, not renewed or held back in parts, and models without a price', async (t) => {
  const shipped = { date: '2026-09-23', sha256: 'a', providers: 1, models: 1 };
  const sound: PriceListStatus = {
    source: 'https://lists.example.com/data.json',
    refresh_seconds: 86_400,
    next_at: null,
    last: null,
    in_force: { ...shipped, from: 'shipped', name: 'shipped', age_days: 60 },
    shipped,
    held: [],
    warnings: [],
    priced_by_default: [],
  };
  t.match(priceFindings(sound), [{ id: 'prices', level: 'ok', found: /2026-09-23/ }]);
  t.match(priceFindings({ ...sound, in_force: { ...sound.in_force, age_days: 61 } }), [
    { level: 'warning', found: /61 day/, remedy: /gw prices update/ },
  ]);
  const failed = { at: '2026-11-21T12:00:00.000Z', outcome: 'failed', detail: 'it answered HTTP 500' } as const;
  t.match(priceFindings({ ...sound, last: failed }), [{ level: 'warning', found: /HTTP 500/, remedy: /GW_PRICE_LIST/ }]);
  t.match(priceFindings({ ...sound, last: { ...failed, outcome: 'older' } }), [{ level: 'ok' }]);
  const change = { provider: 'openai', model: 'm', rate: 'in', before: '1', after: '0', held: true };
  t.match(priceFindings({ ...sound, held: [change] }), [{ level: 'warning', remedy: /gw prices accept/ }]);
  const models = Array.from({ length: 7 }, (_, at) => ({ provider: 'openai', model: `m-${at}`, calls: 1, last_at: failed.at }));
  t.match(priceFindings({ ...sound, priced_by_default: models }), [
    { level: 'warning', found: /openai m-0, .* and 2 more$/, remedy: /GW_PRICING_FILE/ },
  ]);

  const { env, url } = await place(t, fakeClock(Date.UTC(2030, 0, 1)));
  t.match((await ask(env, ...url)).of('prices'), [{ level: 'warning', found: /the price list in force is that of/ }]);
  t.match((await ask({ ...env, GW_ADMIN_TOKEN: 'wrong-token-of-some-length' }, ...url)).of('prices'), [{ level: 'skipped' }]);
  t.match((await ask(env, '--url', 'http://127.0.0.1:9')).of('prices'), [{ level: 'skipped' }]);
});

t.test('an export destination that took nothing is named with its last reason', async (t) => {
  const letter = (destination: string, detail: string): DeadLetter => ({
    dead_letter_id: '01a219a7-fa97-7137-9b49-891ffe24cb7e',
    destination_id: destination,
    org_id: 'default',
    event_type: 'execution',
    event_id: '01a219a7-fa97-7137-9b49-891ffe24cb7f',
    reason: 'unreachable',
    detail,
    attempts: 4,
    at: '2026-11-24T12:00:00.000Z',
  });
  t.match(exportFindings([letter('siem', 'connection refused'), letter('siem', 'HTTP 503'), letter('other', '')]), [
    { level: 'warning', found: '2 event(s) were not taken by siem, the last at 2026-11-24T12:00:00.000Z: connection refused' },
    { level: 'warning', found: /^1 event\(s\) .* other, .*: unreachable$/, remedy: /When a receiver is away/ },
  ]);
  t.match(exportFindings(Array.from({ length: 500 }, () => letter('siem', 'no'))), [{ found: /^500 or more event/ }]);
  const { env, url } = await place(t);
  t.match((await ask(env, ...url)).of('exports'), [{ level: 'ok' }]);
  t.match((await ask(env, '--url', 'http://127.0.0.1:9')).of('exports'), [{ level: 'skipped' }]);
});

t.test('little room on a disk', (t) => {
  t.match(diskFinding(50 * 1_048_576, '/x'), { level: 'wrong' });
  t.match(diskFinding(500 * 1_048_576, '/x'), { level: 'warning' });
  t.match(diskFinding(5_000 * 1_048_576, '/x'), { level: 'ok' });
  t.end();
});

t.test('a host whose client did not take our certificate is named', { skip: skipWithout(['curl']) }, async (t) => {
  const { env, gateway, url } = await place(t);
  await runProgram(requirePeer('curl'), ['-s', '--proxy', gateway.url, 'https://api.openai.com/'], { env });
  const { of } = await ask(env, ...url);
  t.match(of('pinned'), [{ level: 'warning', found: /a client of api\.openai\.com/ }]);
});

t.test('a host at which an org has a connector, and which all clients passed by, is named', async (t) => {
  const host = 'llm.corp.example';
  const { env, gateway, url } = await place(t, fakeClock(Date.now()), { GW_UPSTREAM_CONNECT_TO: `${host}:443=127.0.0.1:9` });
  const connector = { name: 'Ours', base_url: `https://${host}/v1`, auth_mode: 'none' };
  await (await managedAs(gateway, 'acme')).manage('POST', 'connectors', connector);
  t.match((await ask(env, ...url)).of('connectors'), [{ level: 'ok' }]);
  await openTunnel(gateway.port, `${host}:443`).catch(() => undefined);
  t.match((await ask(env, ...url)).of('connectors'), [
    { level: 'warning', found: /llm\.corp\.example/, remedy: /API key or its workload/ },
  ]);
});

// What is installed is started as a process, which has no terminal here.
t.test('on a terminal every line fits', async (t) => {
  if (isInstalled()) return;
  const { env, url } = await place(t);
  const narrow = await gw(['doctor', ...url], { env, columns: 80 });
  for (const line of narrow.out.split('\n')) t.ok(line.length <= 80 || !line.trim().includes(' '), line);
  const wide = await gw(['doctor', ...url], { env });
  t.equal(narrow.out.replaceAll(/\n {25,28}(?!-> )/g, ' '), wide.out, 'and the words are the same');
});

t.test('the guide names every check and every runtime', (t) => {
  const guide = readFileSync(join(packageRoot(), 'docs/guides/doctor.md'), 'utf8');
  for (const { id, looksAt } of CHECKS) t.ok(guide.includes(`| \`${id}\` | ${looksAt} |`), id);
  for (const { id } of RUNTIMES) t.ok(guide.includes(`| \`${id}\` |`), id);
  t.end();
});
