import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { sha256Hex } from '../../src/base/lib/sha256.ts';
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
  t.match(await gw(['verify', '/nonexistent/record.json']), { code: 2, err: /ENOENT/ });
  t.match(await gw(['verify']), { code: 2, err: /^usage/ });
});

t.test('the variables reach a shell exactly as they are, and name files that exist', async (t) => {
  const caDir = join(tempDir(t), `it's a "folder" $HOME`);
  mkdirSync(caDir);
  const settings = { GW_CA_DIR: caDir, GW_PORT: '7090' };
  t.match(await gw(['env'], { env: settings }), {
    code: 1,
    out: '',
    err: /^gw env: there is no .*root-ca\.pem and no .*ca-bundle\.pem: start/,
  });
  for (const name of ['root-ca.pem', 'ca-bundle.pem']) writeFileSync(join(caDir, name), '');
  const { code, out, err } = await gw(['env'], { env: settings });
  t.same({ code, err }, { code: 0, err: '' });
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
      `set -gx NODE_EXTRA_CA_CERTS '${join(caDir, 'root-ca.pem').replace("'", "\\'")}'`,
    ),
  );
  t.ok(
    (await gw(['env', '--shell=powershell'], { env: settings })).out.includes(
      `$env:DENO_CERT = '${join(caDir, 'root-ca.pem').replace("'", "''")}'`,
    ),
  );
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
  t.match(await gw(['env'], { env: { GW_PORT: 'x' } }), { code: 2, err: /^GW_PORT: "x" is not allowed/ });
});

t.test('help lists every command', async (t) => {
  for (const argv of [['help'], ['--help'], []]) {
    const { code, out } = await gw(argv);
    t.equal(code, 0);
    for (const name of ['start', 'env', 'verify', 'version', 'help']) t.match(out, new RegExp(`^  gw ${name}\\b`, 'm'));
  }
  t.match(await gw(['verify', '--help']), { code: 0, out: /^usage: gw verify/ });
  t.match(await gw(['start', '--help']), { code: 0, out: /^usage: gw start\n/ });
  t.match(await gw(['--version']), { code: 0, out: /^\d+\.\d+\.\d+\n$/ });
});
