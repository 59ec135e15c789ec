import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { sha256Hex } from '../../src/base/lib/sha256.ts';
import { launch } from '../support/child.ts';
import { MAIN } from '../support/gateway-process.ts';
import { gw } from '../support/run-gw.ts';
import { tempDir } from '../support/temp-dir.ts';

/** Written by hand in canonical order, so that the test does not trust the canonicaliser. */
const HASHED =
  '{"cost":"0.000165","labels":{"a":"ü","b":"\\n"},"latency_ms":1.5,"record_id":"0197a0c0-0000-7000-8000-000000000001","z":[1,true,null]}';
const HASH = sha256Hex(HASHED);
const RECORD = `{ "record_hash": "${HASH}",\n "z": [1, true, null], ${HASHED.slice(1).replace('"latency_ms":1.5', '"latency_ms":15e-1').replace(',"z":[1,true,null]', '')}`;

t.test('a record verifies whatever its order and spacing, from a file and from standard input', async (t) => {
  const file = join(tempDir(t), 'record.json');
  writeFileSync(file, RECORD);
  for (const outcome of [await gw(['verify', file]), await gw(['verify', '-'], { stdin: RECORD })]) {
    t.same(outcome, { code: 0, out: `verified  0197a0c0-0000-7000-8000-000000000001\n  record_hash  ${HASH}\n`, err: '' });
  }
});

t.test('one changed byte is a mismatch that shows both hashes', async (t) => {
  const { code, out } = await gw(['verify', '-'], { stdin: RECORD.replace('0.000165', '0.000164') });
  t.equal(code, 1);
  t.match(out, /^MISMATCH {2}0197/);
  t.ok(out.includes(HASH));
  t.ok(out.includes(sha256Hex(HASHED.replace('0.000165', '0.000164'))));
});

t.test('a list of no records says so, and is no success', async (t) => {
  const file = join(tempDir(t), 'records.ndjson');
  writeFileSync(file, '\n');
  for (const json of [[], ['--json']]) {
    t.match(await gw(['verify', '-', ...json], { stdin: '' }), {
      code: 2,
      out: '',
      err: /standard input: it is empty: there is nothing to verify/,
    });
    t.match(await gw(['verify', '--roots', file, '--keys', file, ...json]), {
      code: 2,
      out: '',
      err: /it is empty: there is nothing to verify/,
    });
    t.match(await gw(['verify', file, ...json]), { code: 2, out: '', err: /records\.ndjson: it is empty: there is nothing to verify/ });
  }
});

t.test('what is no record, or can be read in two ways, is not verified', async (t) => {
  const unusable = [
    '',
    'null',
    '[]',
    '{',
    '{}',
    '{"record_hash":"abc"}',
    RECORD.replace('"z":', '"record_hash":"x","z":'),
    RECORD.replace('{"a":"ü"', '{"a":"evil","a":"ü"'),
    RECORD.replace('{"a":"ü"', '{"a":"ev:il\\"","\\u0061":"ü"'),
    RECORD.replace('15e-1', '9007199254740993'),
    RECORD.replace('15e-1', '1e999'),
    RECORD.replace('"ü"', '"\\ud800"'),
    `{"record_hash":"${HASH}","a":${'['.repeat(5000)}${']'.repeat(5000)}}`,
  ];
  for (const text of unusable) {
    const { code, out, err } = await gw(['verify', '-'], { stdin: text });
    t.same({ code, out }, { code: 2, out: '' }, text.slice(0, 60));
    t.match(err, /^gw verify: standard input: .+\n$/);
  }
  t.match(await gw(['verify', '/nonexistent/record.json']), { code: 2, err: /there is no such file/ });
  t.match(await gw(['verify']), { code: 2, err: /it takes one file.*\nusage: gw verify/ });
});

/** What is said where no gateway has been started yet. */
const NOBODY = /^gw env: no gateway answers, so that no call goes through yet: .*; gw start starts one\n$/m;

t.test('the variables reach a shell exactly as they are, and name files that exist', async (t) => {
  const caDir = join(tempDir(t), `it's a "folder" $HOME`);
  mkdirSync(caDir);
  const settings = { GW_CA_DIR: caDir, GW_PORT: '7090' };
  t.match(await gw(['env'], { env: settings }), {
    code: 1,
    out: '',
    err: /^gw env: there is no .*root-ca\.pem and no .*ca-bundle\.pem, and no start of a gateway is noted that has them elsewhere: start it/,
  });
  for (const name of ['root-ca.pem', 'ca-bundle.pem']) writeFileSync(join(caDir, name), '');
  const { code, out, err } = await gw(['env'], { env: settings });
  t.match({ code, err }, { code: 0, err: NOBODY });
  const seen = spawnSync('sh', ['-c', `${out}\nenv`], { env: { PATH: process.env['PATH'] }, encoding: 'utf8' }).stdout.split('\n');
  const expected = {
    HTTPS_PROXY: 'http://127.0.0.1:7090',
    http_proxy: 'http://127.0.0.1:7090',
    NO_PROXY: 'localhost,127.0.0.1,::1',
    NODE_USE_ENV_PROXY: '1',
    NODE_EXTRA_CA_CERTS: join(caDir, 'root-ca.pem'),
    SSL_CERT_FILE: join(caDir, 'ca-bundle.pem'),
    REQUESTS_CA_BUNDLE: join(caDir, 'ca-bundle.pem'),
    CURL_CA_BUNDLE: join(caDir, 'ca-bundle.pem'),
  };
  for (const [name, value] of Object.entries(expected)) t.ok(seen.includes(`${name}=${value}`), name);
  t.ok(
    (await gw(['env', '--shell', 'fish'], { env: settings })).out.includes(
      `set -gx NODE_EXTRA_CA_CERTS '${join(caDir, 'root-ca.pem').replace("'", "\\'")}';\n`,
    ),
  );
  t.ok(
    (await gw(['env', '--shell=powershell'], { env: settings })).out.includes(
      `$env:DENO_CERT = '${join(caDir, 'root-ca.pem').replace("'", "''")}';\n`,
    ),
  );
});

/** A PEM block that nobody parses. */
const pem = (body: string): string => `-----BEGIN CERTIFICATE-----\n${body}\n-----END CERTIFICATE-----`;

/** The variables that a shell gets which has some already. */
async function printedOver(env: Readonly<Record<string, string>>): Promise<{ values: Record<string, string>; err: string }> {
  const { code, out, err } = await gw(['env'], { env });
  t.equal(code, 0, err);
  return {
    values: Object.fromEntries([...out.matchAll(/^export (\w+)='(.*)'$/gm)].map(([, name = '', value = '']) => [name, value])),
    err: err.replace(NOBODY, ''),
  };
}

t.test('what the shell trusts already is kept beside the gateway’s root, for every variable that names certificates', async (t) => {
  const dir = tempDir(t);
  const [caDir, company, cache] = ['ca', 'company.pem', 'cache'].map((name) => join(dir, name)) as [string, string, string];
  mkdirSync(caDir);
  writeFileSync(join(caDir, 'root-ca.pem'), `${pem('OUR+ROOT')}\n`);
  writeFileSync(join(caDir, 'ca-bundle.pem'), `${pem('SYSTEM')}\n${pem('OUR+ROOT')}\n`);
  writeFileSync(company, `# our company\n${pem('COMPANY1')}\ntext\n${pem('COMPANY2')}\n`);
  const settings = { GW_CA_DIR: caDir, XDG_CACHE_HOME: cache };
  const { values: plain } = await printedOver(settings);
  const trusting = Object.keys(plain).filter((name) => String(plain[name]).startsWith(caDir));
  t.equal(trusting.length, 11);
  const held = (file: string | undefined): string[] =>
    [...readFileSync(String(file), 'utf8').matchAll(/^[A-Z0-9+]+$/gm)].map(([body]) => body);

  for (const name of trusting) {
    const { values, err } = await printedOver({ ...settings, [name]: company });
    t.same(held(values[name]), ['OUR+ROOT', 'COMPANY1', 'COMPANY2'], name);
    t.equal(err, '');
    for (const other of trusting) if (other !== name) t.equal(values[other], plain[other], `${name} changes no ${other}`);
    t.same((await printedOver({ ...settings, ...values })).values, values, 'once more it is the same');
  }
  t.equal(readdirSync(join(cache, 'ai-request-gateway')).length, 1, 'one file for all of them');
  const [name = ''] = trusting;

  const { values: before } = await printedOver({ ...settings, [name]: company });
  writeFileSync(join(caDir, 'root-ca.pem'), `${pem('NEW+ROOT')}\n`);
  t.same(
    held((await printedOver({ ...settings, ...before })).values[name]),
    ['NEW+ROOT', 'COMPANY1', 'COMPANY2'],
    'an old root is not kept',
  );
  writeFileSync(company, `${pem('NEW+ROOT')}\n${pem('COMPANY1')}\n`);
  t.equal((await printedOver({ ...settings, [name]: company })).values[name], company, 'what has our root already needs no copy');
  const folder = join(dir, 'certs');
  mkdirSync(folder);
  writeFileSync(join(folder, 'a.pem'), pem('FOLDER1'));
  t.same(held((await printedOver({ ...settings, REQUESTS_CA_BUNDLE: folder })).values['REQUESTS_CA_BUNDLE']), ['NEW+ROOT', 'FOLDER1']);

  for (const [file, why] of [
    [join(dir, 'nowhere.pem'), /cannot be read/],
    [join(caDir, '..', 'empty.pem'), /holds no certificate/],
  ] as const) {
    writeFileSync(join(dir, 'empty.pem'), 'nothing');
    const { values, err } = await printedOver({ ...settings, SSL_CERT_FILE: file });
    t.equal(values['SSL_CERT_FILE'], plain['SSL_CERT_FILE']);
    t.match(err, why);
    t.match(err, /^gw env: SSL_CERT_FILE: /);
  }
});

// A process of its own: what asks for such a folder for ever asks without a pause.
t.test(
  'where nothing can be kept, that is said at once, and nothing is set by halves',
  { skip: process.platform !== 'linux' },
  async (t) => {
    const dir = tempDir(t);
    writeFileSync(join(dir, 'root-ca.pem'), pem('OUR+ROOT'));
    writeFileSync(join(dir, 'ca-bundle.pem'), pem('OUR+ROOT'));
    writeFileSync(join(dir, 'company.pem'), pem('COMPANY1'));
    const env = { GW_CA_DIR: dir, XDG_CACHE_HOME: '/proc/x', SSL_CERT_FILE: join(dir, 'company.pem') };
    const { code, stdout, stderr } = await launch(t, process.execPath, [MAIN, 'env'], { env }).ended;
    t.equal(code, 1);
    t.equal(stdout, '');
    t.match(
      stderr,
      /^gw env: XDG_CACHE_HOME: the folder \/proc\/x\/ai-request-gateway cannot be used: nothing can be made there \(ENOENT: .+\)\n$/,
    );
  },
);

t.test('what the shell says of proxies and of Node is kept where it does no harm', async (t) => {
  const settings = { GW_PROXY_MITM_ENABLED: 'false' };
  const { values: plain } = await printedOver(settings);
  const preload = plain['NODE_OPTIONS'];
  t.match(preload, /^--require=.*node20-proxy\.cjs$/);
  const { values, err } = await printedOver({
    ...settings,
    NO_PROXY: 'git.corp.example, .internal,localhost,*',
    NODE_OPTIONS: '--max-old-space-size=4096',
    HTTPS_PROXY: 'http://team-a:token@127.0.0.1:7080',
    https_proxy: 'http://proxy.corp.example:3128',
  });
  t.equal(values['NO_PROXY'], 'git.corp.example,.internal,localhost,127.0.0.1,::1');
  t.equal(values['no_proxy'], 'localhost,127.0.0.1,::1,git.corp.example,.internal', 'in the other spelling, too');
  t.equal(values['NODE_OPTIONS'], `--max-old-space-size=4096 ${preload}`);
  t.equal(values['HTTPS_PROXY'], 'http://team-a:token@127.0.0.1:7080', 'the workload that is named stays');
  t.equal(values['https_proxy'], 'http://127.0.0.1:7080');
  t.match(err, /^gw env: this shell named another proxy; .*GW_UPSTREAM_PROXY\n$/);
  const again = await printedOver({ ...settings, ...values });
  t.same(again, { values, err: '' }, 'once more it is the same');
  const told = { ...settings, GW_UPSTREAM_PROXY: 'http://proxy.corp.example:3128', HTTPS_PROXY: 'http://proxy.corp.example:3128' };
  t.match(await printedOver(told), { values: { HTTPS_PROXY: 'http://127.0.0.1:7080' }, err: '' });
});

t.test('status says of a guessed place that nothing is there', async (t) => {
  const dir = tempDir(t);
  const env = { GW_PORT: '1', GW_DATA_DIR: dir, GW_CA_DIR: dir, GW_CONFIG_DIR: 'none' };
  const places = async () => (await gw(['status'], { env })).out.match(/^(?:admin token|root):.*$/gm);
  t.same(await places(), [`admin token: ${dir}/admin-token (not there)`, `root:        ${dir}/root-ca.pem (not there)`]);
  for (const name of ['admin-token', 'root-ca.pem']) writeFileSync(join(dir, name), 'x');
  t.same(await places(), [`admin token: ${dir}/admin-token`, `root:        ${dir}/root-ca.pem`]);
});

t.test('an entry of NO_PROXY that takes calls past the gateway is kept, and said', async (t) => {
  const settings = { GW_PROXY_MITM_ENABLED: 'false' };
  for (const [entry, host] of [
    ['api.openai.com', 'api.openai.com'],
    ['.anthropic.com', 'api.anthropic.com'],
    ['Googleapis.com', 'generativelanguage.googleapis.com'],
  ] as const) {
    for (const name of ['NO_PROXY', 'no_proxy']) {
      const { values, err } = await printedOver({ ...settings, [name]: `corp.example,${entry}` });
      t.equal(err, `gw env: NO_PROXY has "${entry}": calls to ${host} pass the gateway by; take it out where they are to be decided\n`);
      t.match(values['NO_PROXY'], entry);
    }
  }
  for (const entry of ['*', 'openai.example', 'i.openai.com', 'localhost', '10.0.0.0/8'])
    t.equal((await printedOver({ ...settings, NO_PROXY: entry })).err, '', entry);
  const { code, err } = await gw(['run', '--', process.execPath, '-e', ''], { env: { ...settings, NO_PROXY: 'openai.com', GW_PORT: '1' } });
  t.match({ code, err }, { code: 125, err: /^gw run: / }, 'without a gateway nothing is run');
});

t.test('what stands in one spelling of NO_PROXY or of a proxy is in both, and is taken back', async (t) => {
  const settings = { GW_PROXY_MITM_ENABLED: 'false' };
  const OURS = 'localhost,127.0.0.1,::1';
  const table: readonly (readonly [given: Record<string, string>, upper: string, lower: string])[] = [
    [{}, OURS, OURS],
    [{ NO_PROXY: 'corp' }, `corp,${OURS}`, `${OURS},corp`],
    [{ no_proxy: 'corp, .inside' }, `${OURS},corp,.inside`, `corp,.inside,${OURS}`],
    [{ NO_PROXY: 'corp', no_proxy: '' }, `corp,${OURS}`, `${OURS},corp`],
    [{ NO_PROXY: 'a,b', no_proxy: 'b,c' }, `a,b,${OURS},c`, `b,c,${OURS},a`],
    [{ NO_PROXY: 'a', no_proxy: 'a' }, `a,${OURS}`, `a,${OURS}`],
    [{ NO_PROXY: '*', no_proxy: 'a' }, `${OURS},a`, `a,${OURS}`],
    [{ NO_PROXY: `${OURS},corp`, no_proxy: `${OURS},corp` }, `${OURS},corp`, `${OURS},corp`],
    [{ NO_PROXY: 'localhost,corp' }, 'localhost,corp,127.0.0.1,::1', `${OURS},corp`],
  ];
  for (const [given, upper, lower] of table) {
    const { values } = await printedOver({ ...settings, ...given });
    const what = JSON.stringify(given);
    t.same([values['NO_PROXY'], values['no_proxy']], [upper, lower], what);
    const again = await printedOver({ ...settings, ...given, ...values });
    t.same(again.values, values, `${what}: once more it is the same`);
    if (what.includes('localhost') || what.includes('*')) continue;
    const { out } = await gw(['env', '--unset', '--json'], { env: { ...settings, ...given, ...values } });
    const undone = JSON.parse(out) as Record<string, string | null>;
    const entries = (text: string | null | undefined) => (text ?? '').split(',').map((entry) => entry.trim());
    for (const name of ['NO_PROXY', 'no_proxy']) t.same(entries(undone[name]), entries(given[name]), `${what}: ${name} as it was`);
  }
  const named = 'http://team-a:token@127.0.0.1:7080';
  const { values } = await printedOver({ ...settings, https_proxy: named, HTTP_PROXY: named });
  for (const name of ['HTTPS_PROXY', 'https_proxy', 'HTTP_PROXY', 'http_proxy']) t.equal(values[name], named, `${name} says who calls`);

  const elsewhere = { ...settings, GW_PORT: '0' };
  const made = await gw(['env', '--port', '9999', '--json'], { env: elsewhere });
  const set = JSON.parse(made.out) as Record<string, string>;
  const { out } = await gw(['env', '--unset', '--port', '9999', '--json'], { env: { ...elsewhere, ...set } });
  t.same(Object.keys(JSON.parse(out) as object).sort(), Object.keys(set).sort(), 'all of it is taken back');
  t.match(await gw(['env', '--unset', '--json'], { env: elsewhere }), { code: 0, out: '{}\n' });
});

t.test('the address is one that can be connected to, and without interception there is no CA to trust', async (t) => {
  const off = { GW_PROXY_MITM_ENABLED: 'false' };
  t.match((await gw(['env'], { env: { ...off, GW_HOST: '::', GW_PROXY_AUTH: 'required' } })).out, /HTTPS_PROXY='http:\/\/\[::1\]:7080'/);
  t.match(
    (await gw(['env', '--ambient'], { env: { ...off, GW_HOST: '0.0.0.0', GW_PROXY_AUTH: 'required' } })).out,
    /HTTPS_PROXY='http:\/\/127\.0\.0\.1:7081'/,
  );
  t.notMatch((await gw(['env'], { env: off })).out, /CA_|CERT/);
  t.match(await gw(['env'], { env: { ...off, GW_PORT: '0' } }), { code: 2, err: /--port/ });
  t.match((await gw(['env', '--port', '9999'], { env: { ...off, GW_PORT: '0' } })).out, /:9999'/);
});

t.test('wrong use is exit code 2 and says what is right', async (t) => {
  for (const argv of [
    ['env', '--shell', 'cmd'],
    ['env', '--shell', '__proto__'],
    ['env', '--port', '0'],
    ['env', '--nope'],
    ['env', 'extra'],
    ['verfy'],
    ['env', '--shell'],
    ['start', '--port', '8080'],
  ]) {
    const { code, out, err } = await gw(argv);
    t.same({ code, out }, { code: 2, out: '' }, argv.join(' '));
    t.not(err, '');
  }
  t.match(await gw(['verfy']), { err: /did you mean "verify"\?/ });
  t.match(await gw(['quux']), { err: 'gw: there is no command "quux". "gw help" lists them.\n' });
  t.match(await gw(['start', '--port', '8080']), {
    err: 'gw start: it takes no arguments: its settings are GW_* variables\nusage: gw start\n',
  });
  t.match(await gw(['env'], { env: { GW_PORT: 'x' } }), { code: 2, err: /^gw env: GW_PORT: "x" is not allowed/ });
});

t.test('help lists every command', async (t) => {
  for (const argv of [['help'], ['--help'], []]) {
    const { code, out } = await gw(argv);
    t.equal(code, 0);
    for (const name of ['start', 'env', 'verify', 'version', 'help']) t.match(out, new RegExp(`^  ${name}\\b`, 'm'));
  }
  t.match(await gw(['verify', '--help']), { code: 0, out: /^usage: gw verify/ });
  t.match(await gw(['start', '--help']), { code: 0, out: /^usage: gw start\n/ });
  t.match(await gw(['--version']), { code: 0, out: /^\d+\.\d+\.\d+( \(commit [0-9a-f]{12}\))?\n$/ });
  t.match(JSON.parse((await gw(['version', '--json'])).out), { version: /^\d+\.\d+\.\d+$/ });
  const named = async (...words: string[]) =>
    (JSON.parse((await gw(['help', ...words, '--json'])).out) as readonly { readonly name: string }[]).map(({ name }) => name);
  t.ok((await named()).length > 100);
  t.strictSame(await named('verify'), ['verify']);
  t.strictSame(await named('journal'), ['journal check', 'journal repair', 'journal confirm-clock']);
  t.match(await gw(['help', 'verfy', '--json']), { code: 2, out: '', err: /did you mean "verify"/ });
});
