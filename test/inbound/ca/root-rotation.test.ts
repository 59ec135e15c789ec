import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { chmodSync, existsSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { silentLogger } from '../../../src/base/lib/log.ts';
import { certificatePem } from '../../../src/inbound/ca/certificate.ts';
import { type CertificateAuthority, openCertificateAuthority } from '../../../src/inbound/ca/certificate-authority.ts';
import { type FakeClock, fakeClock } from '../../support/fake-clock.ts';
import { requirePeer, skipWithout } from '../../support/peers.ts';
import { shownBy } from '../../support/shown-certificate.ts';
import { type HasTeardown, tempDir } from '../../support/temp-dir.ts';

const DAY = 86_400_000;
const agreed = () => Promise.resolve();

async function open(t: HasTeardown, dir: string, clock: FakeClock): Promise<CertificateAuthority> {
  const ca = await openCertificateAuthority({ dir, clock, log: silentLogger });
  t.teardown(() => ca.close());
  return ca;
}

const certificates = (pem: string): X509Certificate[] =>
  (pem.match(/-----BEGIN[\s\S]*?END CERTIFICATE-----/g) ?? []).map((one) => new X509Certificate(one));
const prints = (pem: string): string[] => certificates(pem).map(({ fingerprint256 }) => fingerprint256.replaceAll(':', '').toLowerCase());
const rootFile = (dir: string): string => readFileSync(join(dir, 'root-ca.pem'), 'utf8');

async function signerOf(ca: CertificateAuthority, host = 'api.openai.com'): Promise<string> {
  const [leaf, rsa] = [await shownBy(t, await ca.contextFor(host)), await shownBy(t, await ca.contextFor(host, 'rsa'))];
  t.equal(rsa.publicKey.asymmetricKeyType, 'rsa');
  t.same(rsa.issuer, leaf.issuer, 'leaves of both keys have one issuer');
  const found = certificates(ca.rootPem).find((root) => leaf.checkIssued(root) && leaf.verify(root.publicKey));
  return found?.fingerprint256.replaceAll(':', '').toLowerCase() ?? 'nobody';
}

/** Each file with its content, to see that nothing has changed. */
const contents = (dir: string) => Object.fromEntries(readdirSync(dir).map((name) => [name, readFileSync(join(dir, name), 'utf8')]));

t.test('a next root is handed out at once, signs from its date on, and the former one is trusted until it is finished', async (t) => {
  const dir = tempDir(t);
  const clock = fakeClock();
  const ca = await open(t, dir, clock);
  const first = ca.fingerprint;
  const planned = await ca.rotate(clock.now() + 30 * DAY, agreed);
  const second = planned.roots[1]?.fingerprint ?? '';
  t.same(
    planned.roots.map(({ role }) => role),
    ['signs', 'next'],
  );
  t.same(prints(ca.rootPem), [first, second]);
  t.same(prints(rootFile(dir)), [first, second], 'what is read in place has both');
  t.ok(prints(ca.bundlePem()).includes(second) && prints(ca.bundlePem()).includes(first));
  t.equal(readFileSync(ca.bundlePath, 'utf8'), ca.bundlePem());
  t.equal(statSync(join(dir, 'next-root-ca.key')).mode & 0o777, 0o600);
  t.equal(await signerOf(ca), first);
  clock.advance(30 * DAY - 1);
  t.equal(await signerOf(ca), first, 'until its last millisecond');
  clock.set(clock.now() + 1);
  t.equal(await signerOf(ca), second, 'though no timer has run');
  t.same(prints(rootFile(dir)), [second, first]);
  t.same(prints(ca.rootPem), [second, first], 'the one that signs comes first');
  t.equal(new X509Certificate(ca.rootDer).fingerprint256.replaceAll(':', '').toLowerCase(), second);
  t.notOk(existsSync(join(dir, 'next-root-ca.key')));
  t.equal(statSync(join(dir, 'root-ca.key')).mode & 0o777, 0o600);
  await ca.finishRotation(agreed);
  t.same(prints(rootFile(dir)), [second]);
  t.notOk(prints(ca.bundlePem()).includes(first));
  const again = await open(t, dir, clock);
  t.equal(again.fingerprint, second);
  t.same(JSON.parse(readFileSync(join(dir, 'roots.json'), 'utf8')), { made: [first, second] });
});

t.test('the switch comes by itself, and a former root goes when it ends', async (t) => {
  const dir = tempDir(t);
  const clock = fakeClock();
  const ca = await open(t, dir, clock);
  const first = ca.fingerprint;
  clock.advance(10 * DAY);
  await ca.rotate(clock.now() + 2 * DAY, agreed);
  for (let hour = 0; hour < 50; hour += 1) {
    clock.advance(3_600_000);
    await ca.contextFor('api.openai.com');
  }
  t.not(ca.fingerprint, first);
  const second = ca.fingerprint;
  await ca.close();
  clock.set(clock.now() + 3650 * DAY - 5 * DAY);
  const later = await open(t, dir, clock);
  t.same(prints(later.rootPem), [second]);
});

t.test('leaves before and after pass openssl in strict mode with the file of both roots', { skip: skipWithout(['openssl']) }, async (t) => {
  const dir = tempDir(t);
  const clock = fakeClock();
  const ca = await open(t, dir, clock);
  const verify = async (): Promise<string> => {
    const leaf = join(dir, 'leaf.pem');
    writeFileSync(leaf, certificatePem((await shownBy(t, await ca.contextFor('api.openai.com'))).raw));
    const at = String(Math.floor(clock.now() / 1000));
    const args = ['verify', '-x509_strict', '-purpose', 'sslserver', '-attime', at, '-CAfile', join(dir, 'root-ca.pem'), leaf];
    return execFileSync(requirePeer('openssl'), args, { encoding: 'utf8' });
  };
  await ca.rotate(clock.now() + DAY, agreed);
  t.match(await verify(), /: OK/);
  clock.set(clock.now() + DAY);
  t.match(await verify(), /: OK/);
  await ca.finishRotation(agreed);
  t.match(await verify(), /: OK/);
});

t.test('a next root can be given up, and then is trusted nowhere', async (t) => {
  const dir = tempDir(t);
  const clock = fakeClock();
  const ca = await open(t, dir, clock);
  const before = prints(rootFile(dir));
  await ca.rotate(clock.now() + DAY, agreed);
  await t.rejects(ca.rotate(clock.now() + DAY, agreed), { code: 'conflict' });
  await t.rejects(ca.finishRotation(agreed), { code: 'conflict' });
  await ca.cancelRotation(agreed);
  t.same(prints(rootFile(dir)), before);
  t.same(prints(ca.rootPem), before);
  t.notOk(existsSync(join(dir, 'next-root-ca.key')));
  await t.rejects(ca.cancelRotation(agreed), { code: 'conflict' });
  clock.set(clock.now() + 2 * DAY);
  t.equal(await signerOf(ca), before[0]);
});

t.test('what is not agreed to leaves no trace, nor does a date at which the present root has ended', async (t) => {
  const dir = tempDir(t);
  const clock = fakeClock();
  const ca = await open(t, dir, clock);
  const before = contents(dir);
  await t.rejects(
    ca.rotate(clock.now() + DAY, () => Promise.reject(new Error('not stored'))),
    /not stored/,
  );
  await t.rejects(ca.rotate(ca.expiresAt, agreed), { code: 'invalid_request' });
  t.same(contents(dir), before);
});

t.test('a date that has passed means at once', async (t) => {
  const dir = tempDir(t);
  const clock = fakeClock();
  const ca = await open(t, dir, clock);
  const first = ca.fingerprint;
  const status = await ca.rotate(0, agreed);
  t.same(
    status.roots.map(({ role }) => role),
    ['signs', 'former'],
  );
  t.not(await signerOf(ca), first);
});

t.test('a root of an operator is not replaced', { skip: skipWithout(['openssl']) }, async (t) => {
  const dir = tempDir(t);
  const clock = fakeClock();
  const [key, pem] = [join(dir, 'root-ca.key'), join(dir, 'root-ca.pem')];
  execFileSync(requirePeer('openssl'), [
    ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', key, '-out', pem],
    ...['-days', '3650', '-subj', '/O=AI Request Gateway/CN=AI Request Gateway Root of ours', '-addext', 'keyUsage=critical,keyCertSign'],
  ]);
  chmodSync(key, 0o600);
  chmodSync(pem, 0o644);
  clock.set(Math.max(clock.now(), Date.parse(new X509Certificate(readFileSync(pem)).validFrom)) + DAY);
  const ca = await open(t, dir, clock);
  t.notOk(ca.status().made_here);
  await t.rejects(ca.rotate(clock.now() + DAY, agreed), { code: 'conflict', message: /not made by this gateway/ });
});

t.test(
  'an end of the process between any two steps leaves a folder that starts, with one signer whose clients have its root',
  async (t) => {
    // The folder before, while and after, from which each state between is put together.
    const dir = tempDir(t);
    const clock = fakeClock();
    const ca = await open(t, dir, clock);
    const plain = contents(dir);
    const first = ca.fingerprint;
    const switchAt = clock.now() + DAY;
    await ca.rotate(switchAt, agreed);
    const pending = contents(dir);
    clock.set(switchAt);
    await ca.contextFor('a.example');
    const switched = contents(dir);
    const second = ca.fingerprint;
    await ca.close();
    const states: Readonly<Record<string, readonly [Readonly<Record<string, string | undefined>>, number, readonly string[]]>> = {
      'planned: the key alone': [{ ...plain, 'next-root-ca.key': pending['next-root-ca.key'] }, switchAt - DAY, [first]],
      'planned: key and state': [{ ...pending, 'root-ca.pem': plain['root-ca.pem'] }, switchAt - DAY, [first, second]],
      'planned, and stopped past the date': [{ ...pending }, switchAt + DAY, [second, first]],
      'switched: the key alone': [
        { ...pending, 'root-ca.key': switched['root-ca.key'], 'next-root-ca.key': undefined },
        switchAt,
        [second, first],
      ],
      'switched: key and certificates': [
        { ...pending, 'root-ca.key': switched['root-ca.key'], 'next-root-ca.key': undefined, 'root-ca.pem': switched['root-ca.pem'] },
        switchAt,
        [second, first],
      ],
      'cancelled: certificates alone': [{ ...pending, 'root-ca.pem': plain['root-ca.pem'] }, switchAt - DAY, [first, second]],
      'cancelled: the key is left': [{ ...plain, 'next-root-ca.key': pending['next-root-ca.key'] }, switchAt - DAY, [first]],
      'the next key is lost': [{ ...pending, 'next-root-ca.key': undefined }, switchAt + DAY, [first]],
      'a half-written file beside': [{ ...pending, '.root-ca.pem.x': 'half' }, switchAt - DAY, [first, second]],
    };
    for (const [name, [files, now, roots]] of Object.entries(states)) {
      const place = tempDir(t);
      for (const [file, text] of Object.entries(files)) {
        if (text !== undefined) writeFileSync(join(place, file), text, { mode: file.endsWith('.key') ? 0o600 : 0o644 });
      }
      const opened = await open(t, place, fakeClock(now));
      t.same(prints(opened.rootPem), roots, name);
      t.same(prints(rootFile(place)), roots, `${name}: the file`);
      t.equal(await signerOf(opened), roots[0], `${name}: the signer`);
      t.equal(existsSync(join(place, 'next-root-ca.key')), roots[0] === first && roots.length > 1, `${name}: the key`);
    }
  },
);

t.test('a switch that cannot be written leaves the former root to sign, and is tried again', async (t) => {
  const dir = tempDir(t);
  const clock = fakeClock();
  const ca = await open(t, dir, clock);
  const first = ca.fingerprint;
  await ca.rotate(clock.now() + DAY, agreed);
  // Nothing can be written beside what is no folder, whoever runs this.
  renameSync(dir, `${dir}.away`);
  writeFileSync(dir, '');
  clock.set(clock.now() + DAY);
  t.equal(await signerOf(ca), first);
  rmSync(dir);
  renameSync(`${dir}.away`, dir);
  t.equal(await signerOf(ca), first, 'not at every handshake');
  clock.set(clock.now() + 60_000);
  t.not(await signerOf(ca), first);
});

t.test('what is no state is refused with what to do', async (t) => {
  const dir = tempDir(t);
  const clock = fakeClock();
  await open(t, dir, clock);
  for (const text of [
    '{',
    '{}',
    '{"made":["x"]}',
    '{"made":[],"next":{}}',
    '{"made":[],"next":{"switch_at":"2026-11-22T00:00:00Z","certificate":"x"}}',
  ]) {
    writeFileSync(join(dir, 'roots.json'), text);
    await t.rejects(open(t, dir, clock), { message: /roots\.json in .* cannot be read: restore it/ }, text);
  }
  rmSync(join(dir, 'roots.json'));
  await open(t, dir, clock);
});
