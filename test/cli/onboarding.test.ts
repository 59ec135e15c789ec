import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import t from 'tap';
import { Unusable } from '../../src/cli/command.ts';
import { followCalls } from '../../src/cli/logs/follow-calls.ts';
import { asTyped, linesAsTyped, programName } from '../../src/cli/program-name.ts';
import { npmEnvironment } from '../packages/npm-place.ts';
import { bareEnvironment, eventually, launch, run } from '../support/child.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { MAIN } from '../support/gateway-process.ts';
import { requirePeer, skipWithout } from '../support/peers.ts';
import { isInstalled } from '../support/program-under-test.ts';
import { gw } from '../support/run-gw.ts';
import { startStandInGateway } from '../support/stand-in-gateway.ts';
import { tempDir } from '../support/temp-dir.ts';

/** What a line says that is typed in the folder of these tests, where an installed program is among the others. */
function typed(line: string): string {
  const env = { ...bareEnvironment(), ...npmEnvironment() };
  return spawnSync('sh', ['-c', line], { encoding: 'utf8', env: { ...env, PATH: `${dirname(MAIN)}:${env['PATH']}` } }).stdout;
}

t.test('the demo shows a call through each door, a refusal, a record that verifies, and leaves nothing', async (t) => {
  const dir = tempDir(t);
  const { code, stdout, stderr } = await run(t, process.execPath, [MAIN, 'demo'], { env: { TMPDIR: dir, HOME: dir } });
  t.equal(code, 0, stderr);
  for (const door of ['proxy', 'base-url', 'api']) t.match(stdout, new RegExp(`^allow +default +${door} .*\\$0\\.0`, 'm'), door);
  t.match(stdout, /^deny .*403/m);
  t.match(stdout, /Refused by the AI gateway \(model_not_approved\)/);
  t.match(stdout, / {2}verified +[0-9a-f]{64}/);
  t.match(stdout, /api\.openai\.com +4 requests/);
  t.notMatch(stdout, /undefined|\[object/);
  t.same(
    readdirSync(dir).filter((name) => name.startsWith('gw-demo-')),
    [],
  );
  const [, next = ''] = /^ {2}(\S.*) demo --keep /m.exec(stdout) ?? [];
  t.equal(next, isInstalled() ? 'gw' : 'npx gw');
  if (!skipWithout(['npm']))
    t.match(typed(`${next} version`), /^\d+\.\d+\.\d+ \(commit [0-9a-f]{12}\)\n$/, 'what it says to do next can be done');
});

t.test('the demo as JSON is one object and nothing else', async (t) => {
  const dir = tempDir(t);
  const { code, stdout, stderr } = await run(t, process.execPath, [MAIN, 'demo', '--json'], { env: { TMPDIR: dir, HOME: dir } });
  t.equal(code, 0, stderr);
  const { url, settings, records, domains } = JSON.parse(stdout) as {
    url: string;
    settings: Readonly<Record<string, string>>;
    records: readonly { decision: string }[];
    domains: readonly { domain: string }[];
  };
  t.equal(url, `http://127.0.0.1:${settings['GW_PORT']}`);
  t.strictSame(
    records.map(({ decision }) => decision),
    ['allow', 'allow', 'allow', 'allow', 'deny'],
  );
  t.ok(domains.some(({ domain }) => domain === 'api.openai.com'));
});

t.test('a program is called as it can be: by its name among the programs, by npx where npm finds it, else by its file', (t) => {
  const clone = { root: '/home/a/gateway', clone: true };
  const local = { root: '/home/a/app/node_modules/ai-request-gateway', clone: false };
  const everywhere = { root: '/usr/lib/node_modules/ai-request-gateway', clone: false };
  for (const [file, folder, place, name] of [
    ['/home/a/gateway/build/src/main.js', '/home/a/gateway', clone, 'npx gw'],
    ['/home/a/gateway/scripts/demo.mjs', '/home/a/gateway/policies', clone, 'npx gw'],
    ['/home/a/.npm/_npx/1/node_modules/.bin/gw', '/home/a/gateway', clone, 'npx gw'],
    ['/home/a/gateway/bin/gw.mjs', '/home/a', clone, 'node /home/a/gateway/bin/gw.mjs'],
    ['/home/a/gateway/bin/gw.mjs', '/home/a/gateway-2', clone, 'node /home/a/gateway/bin/gw.mjs'],
    ['/usr/local/bin/gw', '/home/a/gateway', clone, 'gw'],
    ["/opt/it's/bin/gw.mjs", '/', { root: "/opt/it's", clone: true }, `node '/opt/it'\\''s/bin/gw.mjs'`],
    ['/home/a/app/node_modules/.bin/gw', '/home/a/app/src', local, 'npx gw'],
    ['/home/a/app/node_modules/.bin/gw', '/home/b', local, '/home/a/app/node_modules/.bin/gw'],
    ['/usr/bin/gw', '/home/a', everywhere, 'gw'],
    ['/usr/lib/node_modules/ai-request-gateway/build/src/main.js', '/var/lib', everywhere, 'gw'],
    [undefined, '/home/a', everywhere, 'gw'],
  ] as const)
    t.equal(programName(file, folder, place), name, `${file} from ${folder}`);
  t.equal(asTyped('gw run: start one with gw start, or "$(gw env)"', 'npx gw'), 'gw run: start one with npx gw start, or "$(npx gw env)"');
  t.equal(
    asTyped('usage: gw policy check\n/home/gw here, _gw x, gw-mcp y', 'npx gw'),
    'usage: npx gw policy check\n/home/gw here, _gw x, gw-mcp y',
  );
  t.equal(asTyped('gw start'), 'gw start');
  const report = 'PROJECT  COST\ngw red   $1\n  a gw x\nThese:\n  gw records list\nMore: gw spend --by model\n      gw spend today\n';
  t.equal(
    linesAsTyped(report, 'npx gw'),
    report.replace('  gw records', '  npx gw records').replace('More: gw', 'More: npx gw').replace('      gw', '      npx gw'),
    'names of a report stay',
  );
  t.equal(linesAsTyped(report), report);
  t.end();
});

t.test('a demo that is kept can be used as it says, and ends with a signal', async (t) => {
  const dir = join(tempDir(t), "it's kept");
  const child = launch(t, process.execPath, [MAIN, 'demo', '--keep', '--dir', dir], { env: { HOME: tempDir(t) } });
  const said = await eventually('the demo', () => (child.stdout.includes(' --skip-trust ') ? child.stdout : undefined));
  const [, base = ''] = /ANTHROPIC_BASE_URL=(\S+)/.exec(said) ?? [];
  const body = JSON.stringify({ model: 'claude-haiku-4-5', max_tokens: 5, messages: [{ role: 'user', content: 'Hi' }] });
  const answer = await fetch(`${base}/v1/messages`, {
    method: 'POST',
    headers: { 'x-api-key': 'demo', 'content-type': 'application/json' },
    body,
  });
  t.match(await answer.text(), /Hello from the stand-in/);
  const exports = said.slice(said.indexOf('export GW_'), said.lastIndexOf('\n', said.indexOf(' logs --follow\n')));
  const { stdout } = spawnSync('sh', ['-c', `${exports}\n"$0" "$1" logs --limit 1`, process.execPath, MAIN], { encoding: 'utf8' });
  t.match(stdout, /allow +default +base-url +anthropic\/claude-haiku-4-5/);
  t.match(said, /^eval "\$\((?:npx )?gw env\)"$/m);
  const program = "fetch('https://api.openai.com/v1/models').then(({ headers }) => console.log(headers.get('x-gw-decision')))";
  const typed = spawnSync('sh', ['-c', `${exports}\neval "$("$0" "$1" env)"\n"$0" -e "$2"`, process.execPath, MAIN, program], {
    encoding: 'utf8',
  });
  t.match(typed.stdout, /^allow$/m, `Node without the gateway's options: ${typed.stderr}`);
  child.kill('SIGINT');
  t.equal((await child.ended).code, 0);
  t.ok(existsSync(join(dir, 'data')));
});

t.test('logs: what is there, narrowed, as records, and from the log itself', async (t) => {
  const gateway = await startStandInGateway(t);
  const call = (model: string) =>
    fetch(`${gateway.url}/proxy/openai/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: 'Bearer k', 'content-type': 'application/json' },
      body: JSON.stringify({ model, messages: [] }),
    }).then((answer) => answer.text());
  for (const model of ['gpt-4o-mini', 'gpt-4.1-mini', '\u001b[31mevil']) await call(model);
  const env = { ...gateway.settings };
  const shown = async (...args: string[]) => (await gw(['logs', ...args], { env })).out.split('\n').filter((line) => line !== '');
  t.equal((await shown()).length, 3);
  t.same((await shown('--model', '4.1')).length, 1);
  t.match((await shown('--limit', '1'))[0], /\\u\{1b\}\[31mevil/);
  t.equal(JSON.parse((await shown('--json', '--limit', '1'))[0] ?? '')['connection_type'], 'sdk_redirect');
  t.same(await shown('--provider', 'anthropic'), []);
  t.same(
    [await shown('--since', '2020-02-29'), await shown('--since', '2999-01-01')].map(({ length }) => length),
    [3, 0],
  );
  t.same((await shown('--provider', 'Provider_A', '--decision', 'ALLOW')).length, 3, 'names and words as everywhere');
  for (const [args, err] of [
    [['--since', 'soon'], /--since takes a duration/],
    [['--limit', '0'], /--limit takes a whole number/],
    [['--since', '2026-02-30'], /--since takes .* or a day such as/],
    [['01a219a1'], /gw logs: it takes no "01a219a1": - is standard input, gw records read ID shows one call/],
  ] as const)
    t.match(await gw(['logs', ...args], { env }), { code: 2, err });
  const line = {
    time: '2026-11-24T10:00:00.000Z',
    record_id: 'r1',
    decision: 'deny',
    reason_codes: ['no'],
    workload_id: 'w',
    host: 'h\u0007',
  };
  const input = `half a line"}\n${JSON.stringify(line)}\n{"msg":"started"}\n`;
  const piped = await run(t, process.execPath, [MAIN, 'logs', '-', '--decision', 'deny'], { input });
  t.match(piped, { code: 0, stdout: /^2026-11-24T10:00:00\.000Z {2}deny +w .*h\\u\{7\}.* r1 +no\n$/, stderr: '' });
  const openai = `${JSON.stringify({ ...line, provider: 'openai', model: 'gpt-4o' })}\n${JSON.stringify({ ...line, provider: 'mistral' })}\n`;
  const narrowed = await run(t, process.execPath, [MAIN, 'logs', '-', '--provider', 'provider_a', '--model', 'GPT'], { input: openai });
  t.match(narrowed, { code: 0, stdout: /^2026-11-24T10:00:00\.000Z .*openai\/gpt-4o.*\n$/ });
});

t.test('following tells of each record once and in order, also over a gap', async (t) => {
  const clock = fakeClock();
  const stored: { record_id: string }[] = [];
  const add = (...ids: number[]) => stored.push(...ids.map((id) => ({ record_id: `r${id}` })));
  const stop = new AbortController();
  const told: unknown[] = [];
  const gaps: (string | undefined)[] = [];
  let asked = 0;
  let down = false;
  async function* newestFirst() {
    asked += 1;
    if (down) throw new Unusable('gone');
    const all = [...stored].reverse();
    for (let at = 0; at < all.length; at += 2) yield all.slice(at, at + 2);
  }
  add(1, 2, 3);
  const done = followCalls(newestFirst, {
    ...{ clock, everyMs: 1_000, first: 2, since: 0, signal: stop.signal },
    tell: ({ record_id: id }) => told.push(id),
    onGap: (problem) => gaps.push(problem),
  });
  const turn = async () => {
    const before = asked;
    await eventually('the next question', () => {
      clock.advance(1_000);
      return asked > before ? true : undefined;
    });
    await new Promise((resolve) => setImmediate(resolve));
  };
  await eventually('the first', () => (told.length === 2 ? true : undefined));
  add(4, 5, 6, 7, 8);
  await turn();
  await turn();
  down = true;
  await turn();
  add(9);
  await turn();
  down = false;
  await turn();
  await eventually('the last', () => (told.includes('r9') ? true : undefined));
  stop.abort();
  await done;
  t.same(told, ['r2', 'r3', 'r4', 'r5', 'r6', 'r7', 'r8', 'r9']);
  t.same(gaps, ['gone', undefined]);
});

t.test('init makes a folder that loads, and changes nothing the second time', async (t) => {
  const dir = tempDir(t);
  t.match(await gw(['init', dir, '--preset', 'approved-models']), { code: 0, out: /^made .*policies\nmade .*gateway\.env\.example\n/ });
  const bundle = join(dir, 'policies', 'bundle.yaml');
  t.match(readFileSync(bundle, 'utf8'), /\n {2}- presets\/approved-models\.yaml\n/);
  t.equal((await gw(['policy', 'check', join(dir, 'policies')])).code, 0);
  writeFileSync(bundle, 'mine');
  t.match(await gw(['init', dir, '--preset', 'no-streaming']), { code: 0, out: /^there .*\nthere [\s\S]*presets\/no-streaming\.yaml/ });
  t.equal(readFileSync(bundle, 'utf8'), 'mine');
  t.match(await gw(['init', dir, '--preset', 'no-streamin']), { code: 2, err: /did you mean no-streaming\?/ });
  t.equal(JSON.parse((await gw(['init', dir, '--json'])).out).length, 2);
});

t.test('every form of env says the same, and unset takes it back', async (t) => {
  const dir = tempDir(t);
  const caDir = join(dir, 'ca');
  mkdirSync(caDir);
  for (const name of ['root-ca.pem', 'ca-bundle.pem']) writeFileSync(join(caDir, name), '');
  const company = join(dir, 'company.pem');
  writeFileSync(company, '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n');
  const env = { GW_CA_DIR: caDir, XDG_CACHE_HOME: dir, NODE_OPTIONS: '--no-warnings', SSL_CERT_FILE: company, NO_PROXY: 'a.example' };
  const { out } = await gw(['env', '--json'], { env });
  const values = JSON.parse(out) as Record<string, string>;
  t.equal(values['HTTPS_PROXY'], 'http://127.0.0.1:7080');
  t.equal(values['JAVA_TOOL_OPTIONS'], undefined);
  const lines = (text: string) =>
    Object.fromEntries(
      text
        .trim()
        .split('\n')
        .map((line) => [line.split('=', 1)[0], line.slice(line.indexOf('=') + 1)]),
    );
  for (const shell of ['github-actions', 'gitlab', 'dotenv']) {
    const { out: printed, err } = await gw(['env', '--shell', shell], { env });
    const set = lines(printed);
    t.equal(set['NODE_OPTIONS'], undefined, `${shell}: GitHub refuses it, and elsewhere there is no such file`);
    t.same({ ...set, NODE_OPTIONS: values['NODE_OPTIONS'] }, values, shell);
    t.equal(/HTTPS_PROXY names 127\.0\.0\.1, which in a container/.test(err), shell !== 'github-actions', shell);
    // What the company's roots were merged into lies elsewhere than the gateway's own, and has to be mounted, too.
    const folders = `the files that are named are in ${caDir} and ${join(dir, 'ai-request-gateway')}: `;
    t.equal(err.includes(folders), shell !== 'github-actions', shell);
    t.notMatch((await gw(['env', '--unset', '--shell', shell], { env: { ...env, ...values } })).out, 'NODE_OPTIONS');
  }
  for (const shell of ['sh', 'fish', 'powershell'])
    t.match((await gw(['env', '--shell', shell], { env })).out, /NODE_OPTIONS.*node20-proxy/);
  t.match((await gw(['env', '--java', '--json'], { env })).out, /-Dhttps\.proxyPort=7080 .*trustStoreType=PKCS12/);
  const undone = JSON.parse((await gw(['env', '--unset', '--json'], { env: { ...env, ...values } })).out) as Record<string, string | null>;
  t.equal(undone['HTTPS_PROXY'], null);
  t.equal(undone['NODE_OPTIONS'], '--no-warnings');
  t.equal(undone['SSL_CERT_FILE'], company);
  t.equal(undone['NO_PROXY'], 'a.example');
  t.same(JSON.parse((await gw(['env', '--unset', '--json'], { env })).out), {}, 'what is not ours stays');
  t.match(await gw(['env', '--shell', 'csh'], { env }), { code: 2, err: /--shell takes sh, fish/ });
  t.match(await gw(['env', '--token-file', 'x'], { env }), { code: 2, err: /needs --workload/ });
});

t.test('env and run say what keeps every call from being let in, and still give what there is', async (t) => {
  const said = async (settings: Readonly<Record<string, string>>, own: Record<string, string> = {}, ...args: string[]) => {
    const env = { ...settings, XDG_CACHE_HOME: tempDir(t), ...own };
    const printed = await gw(['env', ...args], { env });
    t.match(printed, { code: 0, out: /^export HTTPS_PROXY=/ });
    const ran = await gw(['run', ...args, '--', process.execPath, '-e', ''], { env });
    t.equal(ran.code, 0);
    t.equal(ran.err.replaceAll('gw run: ', 'gw env: '), printed.err, 'both say the same');
    return printed.err;
  };
  const open = await startStandInGateway(t);
  t.equal(await said(open.settings), '');
  t.match(
    await said(open.settings, {}, '--workload', 'nobody'),
    /every call will be refused: Workload nobody is not registered.*gw workloads put --workload-id nobody/,
  );
  const lost = { HTTPS_PROXY: `http://:gwt_lost@127.0.0.1:${open.port}` };
  t.match(
    await said(open.settings, lost),
    /^gw env: The workload token that is shown is not that of workload default.* as if none were shown; leave it out, or .*\n$/,
  );
  const unused = { GW_WORKLOAD_TOKEN: 'gwt_mine' };
  t.equal(
    await said(open.settings, unused),
    'gw env: GW_WORKLOAD_TOKEN is set, but not used: --workload ID says of which workload it is\n',
    'or calls would be of another workload, and nothing would tell it',
  );
  t.notMatch(await said(open.settings, { ...lost, ...unused }), /is set, but/, 'the address of the proxy has one already');
  for (const more of [{}, { GW_PROXY_MITM_ENABLED: 'false' }]) {
    const strict = await startStandInGateway(t, { env: { GW_PROXY_AUTH: 'required', ...more } });
    await strict.admin('PUT', '/v1/admin/workloads', { workload_id: 'ci' });
    const { token } = (await strict.admin('POST', '/v1/admin/workloads/ci/token')).body as { token: string };
    const settings = { ...strict.settings, ...more };
    const nothing = await said(settings);
    t.match(
      nothing,
      /^gw env: every call will be refused: This proxy needs a workload and its token; gw workloads token ID makes one .*--workload ID --token-file FILE.*\n$/,
    );
    t.match(await said(settings, { GW_WORKLOAD_TOKEN: token }), /GW_WORKLOAD_TOKEN is set, and --workload ID says/);
    t.match(
      await said(settings, {}, '--workload', 'ci'),
      /needs the token of workload ci; gw workloads token ci makes one \(which ends an older one: docs.*\n$/,
    );
    t.match(
      await said(settings, { GW_WORKLOAD_TOKEN: 'gwt_old' }, '--workload', 'ci'),
      /token of workload ci; the one that was shown is not valid/,
    );
    t.equal(await said(settings, { GW_WORKLOAD_TOKEN: token }, '--workload', 'ci'), '');
    t.notMatch((await strict.admin('GET', '/metrics')).text, /gw_auth_failures_total\{[^}]*\} [1-9]/, 'a trial is no failure');
  }
  const managed = await startStandInGateway(t, { env: { GW_MANAGED_MODE: 'true' } });
  const made = await managed.admin('POST', '/v1/admin/api-keys', { org_id: 'default', name: 'k' });
  const { key, id } = made.body as { key: string; id: string };
  const shown = () => said(managed.settings, { GW_WORKLOAD_TOKEN: key }, '--workload', 'default');
  t.match(await said(managed.settings), /This proxy needs an API key; an operator makes a key/);
  t.equal(await shown(), '');
  await managed.admin('DELETE', `/v1/admin/api-keys/${id}`);
  t.match(await shown(), /every call will be refused: This API key was revoked; /);
  await managed.gateway.stop();
  const gone = await gw(['env'], { env: { ...managed.settings } });
  t.match(gone, { code: 0, out: /^export HTTPS_PROXY=/, err: /no gateway answers, so that no call goes through yet/ });
});

t.test('help leads a newcomer to each command, on lines that fit', async (t) => {
  const { out } = await gw(['help']);
  const { out: json } = await gw(['help', '--json']);
  for (const { name } of JSON.parse(json) as { name: string }[]) t.match(out, new RegExp(`^  ${name.split(' ')[0]} `, 'm'), name);
  for (const line of out.split('\n')) t.ok(line.length <= 104, line);
  t.equal((await gw(['help', 'run'])).out, (await gw(['run', '--help'])).out);
  t.match(await gw(['help', 'polcy']), { code: 2, err: /did you mean "policy"\?/ });
});

t.test('completion in a real shell', { skip: skipWithout(['fish', 'zsh']) }, async (t) => {
  const dir = tempDir(t);
  writeFileSync(join(dir, 'gw'), `#!/bin/sh\nexec '${process.execPath}' '${MAIN}' "$@"\n`, { mode: 0o755 });
  const env = { PATH: `${dir}:${process.env['PATH'] ?? ''}`, HOME: dir };
  const bash = `source <(gw completion bash); COMP_WORDS=(gw logs --f); COMP_CWORD=2; _gw; printf '%s\\n' "\${COMPREPLY[@]}"`;
  t.equal((await run(t, 'bash', ['-c', bash], { env })).stdout.trim(), '--follow');
  const fish = await run(t, requirePeer('fish'), ['-c', "gw completion fish | source; complete -C 'gw dem'"], { env });
  t.match(fish.stdout, /^demo/);
  const zsh = `compdef() { :; }; compadd() { shift; print -l -- "$@"; }; source <(gw completion zsh); words=(gw env --sh); CURRENT=3; _gw`;
  t.equal((await run(t, requirePeer('zsh'), ['-c', zsh], { env })).stdout.trim(), '--shell');
});

t.test('variables in a real fish, by source and by eval, which joins lines by blanks', { skip: skipWithout(['fish']) }, async (t) => {
  const env = { PATH: process.env['PATH'] ?? '', HOME: tempDir(t), GW_PROXY_MITM_ENABLED: 'false', GW_PORT: '7090' };
  const shown = "; printf '%s\\n' $HTTPS_PROXY $NO_PROXY";
  const typed = `'${process.execPath}' '${MAIN}' env --shell fish`;
  for (const line of [`${typed} | source${shown}`, `eval (${typed})${shown}`]) {
    const { stdout } = await run(t, requirePeer('fish'), ['-c', line], { env });
    t.equal(stdout, 'http://127.0.0.1:7090\nlocalhost,127.0.0.1,::1\n', line);
  }
});

t.test('following a quiet gateway goes on until it is stopped, and ends with 0', async (t) => {
  const { url, settings } = await startStandInGateway(t);
  const call = async () => {
    const answer = await fetch(`${url}/proxy/openai/v1/models`, { headers: { authorization: 'Bearer sk-client' } });
    await answer.arrayBuffer();
    return answer.headers.get('x-gw-record-id') ?? 'none';
  };
  const first = await call();
  const child = launch(t, process.execPath, [MAIN, 'logs', '--follow', '--json', '--url', url], { env: settings });
  let over = false;
  void child.ended.then(() => {
    over = true;
  });
  const tells = (id: string) =>
    eventually(`the record ${id}`, () => {
      if (over) throw new Error(`it has ended: ${child.stdout}${child.stderr}`);
      return child.stdout.includes(id) ? true : undefined;
    });
  await tells(first);
  // Told by a later question than the first.
  await tells(await call());
  child.kill('SIGTERM');
  t.match(await child.ended, { code: 0, signal: null, stderr: '' });
});
