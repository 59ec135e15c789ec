import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { silentLogger } from '../../src/base/lib/log.ts';
import { type CertificateAuthority, openCertificateAuthority } from '../../src/inbound/ca/certificate-authority.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { startTestGateway } from '../support/gateway.ts';
import { requirePeer, skipWithout } from '../support/peers.ts';
import { gw } from '../support/run-gw.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';

const agreed = () => Promise.resolve();
// Certificates are judged by programs that have their own clock.
const NOW = Date.now();

interface Place {
  readonly ca: CertificateAuthority;
  readonly env: Record<string, string>;
  readonly dir: string;
  readonly home: string;
}

/** A gateway's root, and a home without anything. */
async function place(t: HasTeardown): Promise<Place> {
  const dir = tempDir(t);
  const home = join(dir, 'home');
  mkdirSync(home);
  const ca = await openCertificateAuthority({ dir: join(dir, 'ca'), clock: fakeClock(NOW), log: silentLogger });
  t.teardown(() => ca.close());
  const env = { HOME: home, PATH: process.env['PATH'] ?? '', GW_CA_DIR: join(dir, 'ca'), JAVA_HOME: join(dir, 'no-java') };
  return { ca, env, dir, home };
}

/** A system of Debian's kind below a folder, with one root of its own. */
function debianBelow(dir: string): string {
  const root = join(dir, 'system');
  for (const folder of ['usr/share/ca-certificates', 'usr/local/share/ca-certificates', 'etc/ssl/certs', 'etc/ca-certificates/update.d'])
    mkdirSync(join(root, folder), { recursive: true });
  const other = join(root, 'usr/local/share/ca-certificates/company.crt');
  execFileSync(requirePeer('openssl'), [
    ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', join(dir, 'company.key')],
    ...['-out', other, '-days', '30', '-subj', '/O=AI Request Gateway/CN=company'],
  ]);
  writeFileSync(join(root, 'etc/ca-certificates.conf'), '');
  return root;
}

function nssDatabase(folder: string): string {
  mkdirSync(folder, { recursive: true });
  execFileSync(requirePeer('certutil'), ['-d', `sql:${folder}`, '-N', '--empty-password']);
  return folder;
}

const SYSTEM = skipWithout(['update-ca-certificates', 'openssl']);

t.test('the system store of Debian: what it makes of our root is what openssl takes', { skip: SYSTEM }, async (t) => {
  const { ca, env, dir } = await place(t);
  const root = debianBelow(dir);
  const at = ['--store', 'system', '--root', root];
  t.equal((await gw(['trust', 'status', ...at], { env })).code, 1);
  const dry = await gw(['trust', 'install', ...at, '--dry-run'], { env });
  t.equal(dry.code, 0, dry.err);
  t.match(
    dry.out,
    /would run {2}install -m 644 ai-request-gateway-[0-9a-f]{16}\.pem .*\n.*would run {2}\S*update-ca-certificates --certsconf/,
  );
  t.same(readdirSync(join(root, 'usr/local/share/ca-certificates')), ['company.crt'], 'a dry run does nothing');
  const done = await gw(['trust', 'install', ...at], { env });
  t.equal(done.code, 0, done.out + done.err);
  t.match(done.out, /for curl, git/);
  const rootFile = join(dir, 'ca', 'root-ca.pem');
  execFileSync(requirePeer('openssl'), ['verify', '-no-CAfile', '-CApath', join(root, 'etc/ssl/certs'), rootFile]);
  t.equal((await gw(['trust', 'status', ...at], { env })).code, 0);
  const again = await gw(['trust', 'install', ...at, '--json'], { env });
  t.same(JSON.parse(again.out).stores[0].steps, [], 'a second time there is nothing to do');
  t.same(JSON.parse(again.out).roots, [ca.fingerprint]);
  const undone = await gw(['trust', 'uninstall', ...at], { env });
  t.equal(undone.code, 0, undone.out);
  t.same(readdirSync(join(root, 'usr/local/share/ca-certificates')), ['company.crt'], 'what is not ours stays');
  t.throws(() =>
    execFileSync(requirePeer('openssl'), ['verify', '-no-CAfile', '-CApath', join(root, 'etc/ssl/certs'), rootFile], { stdio: 'pipe' }),
  );
  t.match(readFileSync(join(root, 'etc/ssl/certs/ca-certificates.crt'), 'utf8'), /BEGIN CERTIFICATE/);
  t.equal((await gw(['trust', 'status', ...at], { env })).code, 1);
});

t.test('roots of a rotation: both are put in, the former one goes, and that of another gateway stays', { skip: SYSTEM }, async (t) => {
  const { ca, env, dir } = await place(t);
  const stranger = await place(t);
  const root = debianBelow(dir);
  const at = ['--store', 'system', '--root', root];
  const folder = join(root, 'usr/local/share/ca-certificates');
  await gw(['trust', 'install', ...at], { env: stranger.env });
  await gw(['trust', 'install', ...at], { env });
  const first = ca.fingerprint;
  await ca.rotate(NOW + 1_000_000, agreed);
  const status = await gw(['trust', 'status', ...at], { env });
  t.equal(status.code, 1);
  t.match(status.out, /trusts one of the roots alone: install again/);
  await gw(['trust', 'install', ...at], { env });
  t.equal(readdirSync(folder).length, 4);
  await ca.cancelRotation(agreed);
  await ca.rotate(0, agreed);
  await ca.finishRotation(agreed);
  t.match((await gw(['trust', 'status', ...at], { env })).out, /has an older root alone: install again/);
  const synced = await gw(['trust', 'install', ...at], { env });
  t.equal(synced.code, 0, synced.out);
  t.notOk(existsSync(join(folder, `ai-request-gateway-${first.slice(0, 16)}.crt`)));
  t.equal(readdirSync(folder).length, 3);
  const undone = await gw(['trust', 'uninstall', ...at], { env });
  t.match(undone.out, /left: .*not known to be of this gateway/);
  t.same(readdirSync(folder).sort(), [`ai-request-gateway-${stranger.ca.fingerprint.slice(0, 16)}.crt`, 'company.crt'].sort());
});

t.test('NSS: Chromium’s and each Firefox profile of this user', { skip: skipWithout(['certutil']) }, async (t) => {
  const { env, home } = await place(t);
  const folders = ['.pki/nssdb', '.mozilla/firefox/a.default', 'snap/firefox/common/.mozilla/firefox/b'].map((one) =>
    nssDatabase(join(home, one)),
  );
  mkdirSync(join(home, '.mozilla/firefox/Crash Reports'), { recursive: true });
  const at = ['--store', 'nss'];
  const list = (folder: string) => execFileSync(requirePeer('certutil'), ['-d', `sql:${folder}`, '-L'], { encoding: 'utf8' });
  const done = await gw(['trust', 'install', ...at], { env });
  t.equal(done.code, 0, done.out + done.err);
  for (const folder of folders) t.match(list(folder), /ai-request-gateway-[0-9a-f]{16} +C,,/);
  t.equal((await gw(['trust', 'status', ...at], { env })).code, 0);
  t.notMatch((await gw(['trust', 'install', ...at], { env })).out, /did {2}/);
  t.equal((await gw(['trust', 'uninstall', ...at], { env })).code, 0);
  for (const folder of folders) t.notMatch(list(folder), /ai-request-gateway/);
  t.equal((await gw(['trust', 'status', ...at], { env })).code, 1);
});

t.test('a program that is missing is named with its package, and the exit code says that it was not done', async (t) => {
  const { env, home } = await place(t);
  mkdirSync(join(home, '.pki/nssdb'), { recursive: true });
  writeFileSync(join(home, '.pki/nssdb/cert9.db'), '');
  const { code, out } = await gw(['trust', 'install', '--store', 'java', '--json'], { env });
  t.equal(code, 1, 'there is no Java');
  t.same(JSON.parse(out).stores, []);
  const wrong = await gw(['trust', 'install', '--store', 'windows'], { env });
  t.equal(wrong.code, 2);
  t.match(wrong.err, /--store takes one of system\|nss\|java\|all, not "windows"/);
});

t.test('Java: the cacerts of JAVA_HOME', { skip: skipWithout(['keytool']) }, async (t) => {
  const { env, dir, ca } = await place(t);
  const home = join(dir, 'java');
  mkdirSync(join(home, 'lib/security'), { recursive: true });
  const store = join(home, 'lib/security/cacerts');
  const keytool = requirePeer('keytool');
  const other = join(dir, 'other.pem');
  copyFileSync(join(dir, 'ca', 'root-ca.pem'), other);
  const stranger = await place(t);
  execFileSync(
    keytool,
    [
      '-importcert',
      '-noprompt',
      '-alias',
      'company',
      '-file',
      join(stranger.dir, 'ca', 'root-ca.pem'),
      '-keystore',
      store,
      '-storepass',
      'changeit',
    ],
    { stdio: 'pipe' },
  );
  const java = { ...env, JAVA_HOME: home };
  const at = ['--store', 'java'];
  t.equal((await gw(['trust', 'status', ...at], { env: java })).code, 1);
  const done = await gw(['trust', 'install', ...at], { env: java });
  t.equal(done.code, 0, done.out);
  const list = () => execFileSync(keytool, ['-list', '-keystore', store, '-storepass', 'changeit'], { encoding: 'utf8' }).toLowerCase();
  t.match(list(), `ai-request-gateway-${ca.fingerprint.slice(0, 16)}`);
  t.equal((await gw(['trust', 'status', ...at], { env: java })).code, 0);
  t.equal((await gw(['trust', 'uninstall', ...at], { env: java })).code, 0);
  t.notMatch(list(), 'ai-request-gateway');
  t.match(list(), 'company');
});

t.test('the root of a running gateway is taken from its address', { skip: skipWithout(['certutil']) }, async (t) => {
  const gateway = await startTestGateway(t);
  const { env, home } = await place(t);
  const folder = nssDatabase(join(home, '.pki/nssdb'));
  const done = await gw(['trust', 'install', '--store', 'nss', '--url', gateway.url], { env });
  t.equal(done.code, 0, done.out + done.err);
  t.match(done.out, `from ${gateway.url}/v1/proxy/ca.crt`);
  const pem = execFileSync(
    requirePeer('certutil'),
    ['-d', `sql:${folder}`, '-L', '-n', /ai-request-gateway-\w+/.exec(done.out)?.[0] ?? '', '-a'],
    { encoding: 'utf8' },
  );
  t.equal(pem.replace(/\s/g, ''), gateway.caPem.replace(/\s/g, ''));
  const nobody = await gw(['trust', 'status', '--url', 'http://127.0.0.1:9'], { env });
  t.equal(nobody.code, 2);
  t.match(nobody.err, /cannot be asked/);
});
