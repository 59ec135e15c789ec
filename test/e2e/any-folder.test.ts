// A gateway that was started in one folder is found by commands from any other (decision 12.15).
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { isAbsolute, join } from 'node:path';
import t, { type Test } from 'tap';
import { run } from '../support/child.ts';
import { type LaunchedGateway, launchGateway, MAIN } from '../support/gateway-process.ts';
import { tempDir } from '../support/temp-dir.ts';

const GW_MCP = MAIN.replace(/main\.js$/, 'mcp-main.js');

type Settings = Readonly<Record<string, string>>;

/** A user of this machine. */
function user(t: Test) {
  const home = tempDir(t);
  const folder = (name: string): string => {
    const path = join(home, name);
    if (!existsSync(path)) mkdirSync(path);
    return path;
  };
  const gw = (name: string, words: readonly string[], env: Settings = {}) =>
    run(t, process.execPath, [MAIN, ...words], { cwd: folder(name), env: { HOME: home, ...env } });
  return {
    home,
    folder,
    gw,
    notes: join(home, '.config', 'ai-request-gateway', 'gateways'),
    async start(name: string, env: Settings = {}): Promise<LaunchedGateway> {
      const settings = { HOME: home, GW_PORT: '0', GW_AMBIENT_PORT: '0', GW_HEALTHZ_STARTUP_GRACE: '0s', GW_DRAIN_TIMEOUT: '1s', ...env };
      return launchGateway(t, settings, { cwd: folder(name) });
    },
    async status(name: string, env: Settings = {}, words: readonly string[] = []) {
      const { code, stdout, stderr } = await gw(name, ['status', '--json', ...words], env);
      return { code, stderr, seen: (stdout === '' ? {} : JSON.parse(stdout)) as Record<string, unknown> };
    },
  };
}

t.test('every command that asks a gateway finds it from any folder', async (t) => {
  const person = user(t);
  const gateway = await person.start('work');
  const [, readme = '', guide = ''] = /^ {2}docs +(\S+), (\S+)$/m.exec(gateway.child.stdout) ?? [];
  t.ok(isAbsolute(readme) && existsSync(readme) && existsSync(guide), 'documents that are there, wherever it was started');
  const url = `http://127.0.0.1:${gateway.port}`;
  const commands: readonly (readonly string[])[] = [
    ['status'],
    ['logs'],
    ['records', 'list'],
    ['workloads', 'list'],
    ['approvals', 'list'],
    ['audit'],
    ['domains'],
    ['ca', 'status'],
    ['prices', 'status'],
    ['telemetry', 'preview'],
    ['env'],
    ['env', '--ambient'],
    ['run', '--', process.execPath, '-e', ''],
  ];
  for (const words of commands) {
    const { code, stderr } = await person.gw('elsewhere', words);
    t.same({ code, stderr }, { code: 0, stderr: '' }, words.join(' '));
  }
  const ran = await person.gw('elsewhere', [
    'run',
    '--',
    process.execPath,
    '-p',
    'process.env.HTTPS_PROXY + " " + process.env.NODE_EXTRA_CA_CERTS',
  ]);
  t.equal(ran.stdout, `${url} ${join(person.folder('work'), 'ca', 'root-ca.pem')}\n`);
  t.match(JSON.parse((await person.gw('elsewhere', ['doctor', '--json'])).stdout), [{ id: 'settings' }, { id: 'gateway', level: 'ok' }]);
  t.match(
    (await person.gw('elsewhere', ['trust', 'status', '--json'])).stdout,
    `"from":"${join(person.folder('work'), 'ca', 'root-ca.pem')}"`,
  );
  const asked =
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}\n';
  const mcp = await run(t, process.execPath, [GW_MCP], { cwd: person.folder('elsewhere'), env: { HOME: person.home }, input: asked });
  t.match(mcp, { code: 0, stderr: '', stdout: /"serverInfo"/ });
  const [note = ''] = readdirSync(person.notes);
  const text = readFileSync(join(person.notes, note), 'utf8');
  const token = readFileSync(join(person.folder('work'), 'data', 'admin-token'), 'utf8').trim();
  t.notOk(text.includes(token), 'the place of the token is kept, and never the token');
  t.equal(statSync(join(person.notes, note)).mode & 0o777, 0o600);
  t.equal(statSync(person.notes).mode & 0o777, 0o700);
});

t.test('of two the folder, the environment or an option says which; else the one that was started last', async (t) => {
  const person = user(t);
  const first = await person.start('first');
  const second = await person.start('second');
  const at = ({ port }: LaunchedGateway) => `http://127.0.0.1:${port}`;
  const data = join(person.folder('first'), 'data');
  t.match(await person.status('other'), {
    code: 0,
    seen: { url: at(second), found_by: 'last', answers: true, others: [{ port: first.port, running: true }] },
  });
  t.match(await person.status('first'), { code: 0, seen: { url: at(first), found_by: 'folder' } });
  t.match(await person.status('other', { GW_DATA_DIR: data }), { code: 0, seen: { url: at(first), found_by: 'environment' } });
  t.match(await person.status('other', { GW_PORT: String(first.port) }), {
    seen: { url: at(first), admin_token: join(data, 'admin-token') },
  });
  t.match(await person.status('other', {}, ['--url', at(first)]), {
    code: 0,
    seen: { url: at(first), found_by: 'option', folder: person.folder('first') },
  });
  t.match(await person.gw('other', ['records', 'list', '--url', at(first)]), { code: 0, stderr: '' });
  t.match((await person.gw('other', ['env', '--port', String(first.port)])).stdout, `HTTPS_PROXY='${at(first)}'`);
  // The token of one is not shown to another.
  const mixed = await person.gw('other', ['records', 'list'], { GW_PORT: String(first.port), GW_DATA_DIR: person.folder('nothing') });
  t.match(mixed, { code: 2, stderr: /there is no admin token/ });

  second.child.kill('SIGTERM');
  await second.child.ended;
  t.match(await person.status('other'), {
    code: 0,
    seen: { url: at(first), found_by: 'last', others: [{ port: second.port, running: false }] },
  });
  t.match(await person.gw('second', ['logs']), {
    code: 2,
    stderr: /the gateway of .*second was stopped at .*: .* start in that folder starts it again/,
  });
  t.match(await person.gw('second', ['env']), {
    code: 0,
    stdout: `HTTPS_PROXY='${at(second)}'`,
    stderr: /^gw env: the gateway of .*second was stopped at .*: .* start in that folder starts it again/,
  });
  first.child.kill('SIGKILL');
  await first.child.ended;
  t.match(await person.status('first'), {
    code: 1,
    seen: { url: at(first), answers: false, problem: /^it is not running: gw start in .*first starts it again$/ },
  });
  rmSync(person.folder('first'), { recursive: true });
  const { stdout } = await person.gw('other', ['status']);
  t.match(stdout, /^Forgotten: the gateway of .*first, whose data folder .*data is gone\.$/m);
  t.equal(readdirSync(person.notes).length, 1);
});

t.test('a start is noted anew, and what another program answers there is told', async (t) => {
  const person = user(t);
  const before = await person.start('work');
  before.child.kill('SIGTERM');
  await before.child.ended;
  const after = await person.start('work');
  t.not(after.port, before.port);
  t.match(await person.status('other'), { code: 0, seen: { url: `http://127.0.0.1:${after.port}`, others: [] } });
  after.child.kill('SIGKILL');
  await after.child.ended;
  const stranger = createServer((_request, response) => response.end('{}'));
  await new Promise<void>((resolve) => stranger.listen(after.port, '127.0.0.1', resolve));
  t.teardown(() => stranger.close());
  t.match(await person.status('other'), { code: 1, seen: { answers: false, problem: /^another program answers there/ } });
});

t.test('a start that cannot be noted is as any other', async (t) => {
  const closed = tempDir(t);
  chmodSync(closed, 0o500);
  t.teardown(() => chmodSync(closed, 0o700));
  const cases: readonly Settings[] = [
    { HOME: '' },
    { HOME: '/' },
    { HOME: closed },
    { GW_CONFIG_DIR: 'none' },
    { XDG_CONFIG_HOME: '/proc/none' },
  ];
  for (const env of cases) {
    const person = user(t);
    const gateway = await person.start('work', env);
    t.equal(gateway.child.stderr.replace(/^note: there is no .*\n/, ''), '', JSON.stringify(env));
    t.match(
      gateway.child.stdout,
      env['HOME'] === closed && process.getuid?.() === 0 ? /Next/ : /Next, in another terminal in this folder, with the same GW_ settings:/,
    );
    gateway.child.kill('SIGTERM');
    t.equal((await gateway.child.ended).code, 0);
    t.notOk(existsSync(person.notes));
  }
});

t.test('what is printed at the start works as it is printed, from any folder', async (t) => {
  const person = user(t);
  const gateway = await person.start('work');
  // As this program is called: `gw` where it is installed.
  const lines = gateway.child.stdout.replaceAll(/^ {2}node \S+ /gm, '  gw ');
  const commands = [...lines.matchAll(/^ {2}gw ((?:\S+ )*?\S+) {2,}/gm)].map(([, words = '']) => words.split(' '));
  t.same(commands, [['status'], ['logs', '--follow'], ['run', '--', 'curl', 'https://api.openai.com/v1/models']]);
  for (const line of lines.split('\n').filter((one) => one.startsWith('  gw '))) t.ok(line.length <= 80, line);
  t.equal((await person.gw('other', ['status'])).code, 0);
  t.equal((await person.gw('other', ['logs'])).code, 0);
});

t.test('the port 0 is nobody, and not the port 80', async (t) => {
  const person = user(t);
  for (const words of [['logs'], ['records', 'list'], ['status'], ['ca', 'status']]) {
    const { code, stderr } = await person.gw('work', words, { GW_PORT: '0', GW_ADMIN_TOKEN: 'a-token-of-this-test' });
    t.match({ code, stderr }, { code: 2, stderr: /GW_PORT is 0, so the gateway picked a port itself/ }, words.join(' '));
  }
  const { code, stderr } = await person.gw('work', ['records', 'list', '--key', 'mgk_x'], { GW_MGMT_PORT: '0' });
  t.match({ code, stderr }, { code: 2, stderr: /GW_MGMT_PORT is 0/ });
});

t.test('a root that cannot be read is asked for, and taken only when it is the one that was noted', async (t) => {
  const person = user(t);
  await person.start('work');
  const ca = join(person.folder('work'), 'ca');
  renameSync(ca, `${ca}-moved`);
  const env = await person.gw('other', ['env', '--json'], { XDG_CACHE_HOME: join(person.home, 'cache') });
  t.match(env, { code: 0, stderr: '' });
  const { NODE_EXTRA_CA_CERTS: root = '', SSL_CERT_FILE: bundle = '' } = JSON.parse(env.stdout) as Record<string, string>;
  t.ok(root.startsWith(join(person.home, 'cache')));
  const body = (file: string) => readFileSync(file, 'utf8').replaceAll(/\s/g, '');
  t.equal(body(root), body(`${ca}-moved/root-ca.pem`));
  t.ok(body(bundle).includes(body(root)) && body(bundle).length > 10 * body(root).length, 'the roots of the system are in there');
  const undone = await person.gw('other', ['env', '--unset'], {
    XDG_CACHE_HOME: join(person.home, 'cache'),
    ...(JSON.parse(env.stdout) as Settings),
  });
  t.match(undone.stdout, /unset.*SSL_CERT_FILE/);
  const [note = ''] = readdirSync(person.notes);
  const file = join(person.notes, note);
  writeFileSync(
    file,
    readFileSync(file, 'utf8').replace(/"root_sha256": \[\s*"\w{8}/, (text) => `${text.slice(0, -8)}00000000`),
  );
  t.match(await person.gw('other', ['env']), { code: 1, stdout: '', stderr: /hands out a root that is not known to be its own/ });
  t.match(await person.status('other'), { code: 1, seen: { answers: true, problem: /^it hands out another root than at its start/ } });
});
