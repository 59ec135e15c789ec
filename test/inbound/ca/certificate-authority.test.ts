import { execFileSync } from 'node:child_process';
import { generateKeyPairSync, randomUUID, X509Certificate } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import t from 'tap';
import { createLogger, silentLogger } from '../../../src/base/lib/log.ts';
import { readAuthority } from '../../../src/inbound/ca/authority-certificate.ts';
import { certificatePem, issueLeaf, issueRoot, leafProfile, subjectOf } from '../../../src/inbound/ca/certificate.ts';
import { type CertificateAuthority, type LeafKey, openCertificateAuthority } from '../../../src/inbound/ca/certificate-authority.ts';
import { CertificateAuthorityError } from '../../../src/inbound/ca/root-files.ts';
import { trustBundle } from '../../../src/inbound/ca/trust-bundle.ts';
import { type FakeClock, fakeClock } from '../../support/fake-clock.ts';
import { requirePeer, skipWithout } from '../../support/peers.ts';
import { shownBy } from '../../support/shown-certificate.ts';
import { tempDir } from '../../support/temp-dir.ts';

const DAY = 86_400_000;
const LONG_NAME = `${'a'.repeat(40)}.${'b'.repeat(40)}.example`;
/** One character more than a common name can hold. */
const NAME_OF_64 = `${'c'.repeat(56)}.example`;
/** Host as asked for, and the option and value with which openssl checks that the leaf is for it. */
const HOSTS: readonly (readonly [string, string, string])[] = [
  ['api.openai.com', '-verify_hostname', 'api.openai.com'],
  ['api.openai.com.', '-verify_hostname', 'api.openai.com'],
  ['gateway', '-verify_hostname', 'gateway'],
  [NAME_OF_64, '-verify_hostname', NAME_OF_64],
  ['192.0.2.7', '-verify_ip', '192.0.2.7'],
  ['2001:db8::1', '-verify_ip', '2001:db8::1'],
  ['[::ffff:1:2]', '-verify_ip', '::ffff:1:2'],
  ['::1', '-verify_ip', '::1'],
  ['my_host.example.com', '-verify_hostname', 'my_host.example.com'],
  [LONG_NAME, '-verify_hostname', LONG_NAME],
  ['bücher.example', '-verify_hostname', 'xn--bcher-kva.example'],
];
/** Moments at which careless date arithmetic fails. */
const MOMENTS = ['2026-11-21T12:00:00Z', '2027-01-01T00:00:00Z', '2028-02-29T23:59:59Z', '2026-12-31T10:00:00Z'].map((text) =>
  Date.parse(text),
);

function open(dir: string, clock: FakeClock = fakeClock()): Promise<CertificateAuthority> {
  return openCertificateAuthority({ dir, clock, log: silentLogger });
}

function opensslVerify(dir: string, root: string, leaf: string, atMs: number, ...check: readonly string[]): string {
  const file = join(dir, `${randomUUID()}.pem`);
  writeFileSync(file, leaf);
  const rootFile = join(dir, `${randomUUID()}.pem`);
  writeFileSync(rootFile, root);
  const time = String(Math.floor(atMs / 1000));
  return execFileSync(
    requirePeer('openssl'),
    ['verify', '-x509_strict', '-purpose', 'sslserver', '-attime', time, '-CAfile', rootFile, ...check, file],
    { encoding: 'utf8' },
  );
}

t.test(
  'every leaf passes openssl in strict mode, for each kind of host and at each awkward moment',
  { skip: skipWithout(['openssl']) },
  async (t) => {
    for (const now of MOMENTS) {
      const dir = tempDir(t);
      const ca = await open(dir, fakeClock(now));
      for (const [host, option, value, key] of HOSTS.flatMap(([...row]) => [[...row, 'ec'] as const, [...row, 'rsa'] as const])) {
        const leaf = await shownBy(t, await ca.contextFor(host, key));
        const output = opensslVerify(dir, ca.rootPem, certificatePem(leaf.raw), now + 60_000, option, value);
        t.match(output, /: OK/, `${host} at ${new Date(now).toISOString()}`);
        const [from, to] = [Date.parse(leaf.validFrom), Date.parse(leaf.validTo)];
        t.ok(from <= now && now < to, 'valid now');
        t.ok(to - from <= 47 * DAY, 'at most 47 days in all');
        t.ok(now - from <= DAY + 1_000, 'back-dated by at most a day');
      }
    }
  },
);

t.test('a leaf says what a TLS server certificate should and nothing more', { skip: skipWithout(['openssl']) }, async (t) => {
  const ca = await open(tempDir(t));
  const text = async (host: string, key?: LeafKey): Promise<string> => {
    const leaf = await shownBy(t, await ca.contextFor(host, key));
    return execFileSync(requirePeer('openssl'), ['x509', '-noout', '-text'], { input: certificatePem(leaf.raw), encoding: 'utf8' });
  };
  const plain = await text('api.openai.com');
  const rootText = execFileSync(requirePeer('openssl'), ['x509', '-noout', '-text'], { input: ca.rootPem, encoding: 'utf8' });
  t.match(plain, /X509v3 Basic Constraints: critical\s+CA:FALSE/);
  t.match(plain, /X509v3 Key Usage: critical\s+Digital Signature\n/);
  t.match(plain, /X509v3 Extended Key Usage: \s+TLS Web Server Authentication\n/);
  t.match(plain, /Subject: O = AI Request Gateway, CN = api\.openai\.com/);
  t.match(plain, /NIST CURVE: P-256/);
  const rsa = await text('api.openai.com', 'rsa');
  t.match(rsa, /Public-Key: \(2048 bit\)/);
  t.match(rsa, /X509v3 Key Usage: critical\s+Digital Signature, Key Encipherment\n/);
  t.equal(rsa.match(/X509v3 [^\n]*/g)?.join(), plain.match(/X509v3 [^\n]*/g)?.join(), 'and what the other says besides');
  const issuerId = /Subject Key Identifier: \s+([0-9A-F:]+)/.exec(rootText)?.[1];
  t.ok(issuerId);
  t.equal(/Authority Key Identifier: \s+([0-9A-F:]+)/.exec(plain)?.[1], issuerId);
  t.match(rootText, /X509v3 Basic Constraints: critical\s+CA:TRUE, pathlen:0/);
  t.match(rootText, /X509v3 Key Usage: critical\s+Certificate Sign, CRL Sign\n/);
  t.notMatch(rootText, /Name Constraints/);
  t.notMatch(await text(LONG_NAME), /Subject:.*CN = /, 'a name of more than 63 characters is in the SAN only');
});

t.test('serial numbers are positive, of 127 bits, and do not repeat over ten thousand leaves of two processes', async (t) => {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const validity = { notBefore: 0, notAfter: 100 * DAY };
  const root = readAuthority(await issueRoot(subjectOf(publicKey), privateKey, validity));
  const issuer = { name: root.name, keyIdentifier: root.keyIdentifier ?? Buffer.alloc(0), key: privateKey, validity, permits: () => true };
  // Each process has a leaf key of its own.
  const processes = [1, 2].map(() => leafProfile(issuer, subjectOf(generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey)));
  const serials = new Set<string>();
  let odd = 0;
  for (let round = 0; round < 100; round += 1) {
    const leaves = await Promise.all(
      processes.flatMap((profile) => Array.from({ length: 50 }, () => issueLeaf(profile, 'a.example', validity))),
    );
    for (const leaf of leaves) {
      const { serialNumber } = new X509Certificate(leaf);
      if (serialNumber.length !== 32 || Number.parseInt(serialNumber.slice(0, 2), 16) >= 0x80) odd += 1;
      serials.add(serialNumber);
    }
  }
  t.equal(odd, 0);
  t.equal(serials.size, 10_000);
});

t.test(
  'two processes on one root: each shows leaves that clients of the other trust, by keys of their own',
  { skip: skipWithout(['openssl']) },
  async (t) => {
    const dir = tempDir(t);
    await open(dir);
    const [one, two] = await Promise.all([open(dir), open(dir)]);
    t.equal(one.fingerprint, two.fingerprint);
    const shown = async (ca: CertificateAuthority): Promise<X509Certificate> => shownBy(t, await ca.contextFor('api.openai.com'));
    const leaves = [await shown(one), await shown(two)];
    for (const leaf of leaves) {
      t.match(opensslVerify(dir, one.rootPem, certificatePem(leaf.raw), fakeClock().now() + 60_000), /: OK/);
    }
    t.not(leaves[0]?.serialNumber, leaves[1]?.serialNumber);
    t.notSame(leaves[0]?.publicKey.export({ type: 'spki', format: 'der' }), leaves[1]?.publicKey.export({ type: 'spki', format: 'der' }));
  },
);

// Holds: keys-stay-in-their-rooms
t.test('of two first starts at once in one folder one makes the root, and no other ever stands there', async (t) => {
  for (let round = 0; round < 10; round += 1) {
    const dir = tempDir(t);
    const outcomes = await Promise.allSettled([open(dir), open(dir), open(dir)]);
    const winners = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []));
    for (const outcome of outcomes) {
      if (outcome.status === 'rejected') t.ok(outcome.reason instanceof CertificateAuthorityError, String(outcome.reason));
    }
    t.ok(winners.length > 0);
    const after = await open(dir);
    t.equal(after.created, false);
    for (const { fingerprint } of winners) t.equal(fingerprint, after.fingerprint);
  }
});

t.test('the first start makes the root, the next one finds it', async (t) => {
  const dir = join(tempDir(t), 'deep', 'ca');
  const first = await open(dir);
  t.equal(first.created, true);
  t.equal(statSync(join(dir, 'root-ca.key')).mode & 0o777, 0o600);
  t.equal(statSync(join(dir, 'root-ca.pem')).mode & 0o777, 0o644);
  t.equal(statSync(join(dir, 'ca-bundle.pem')).mode & 0o777, 0o644);
  const before = [readFileSync(join(dir, 'root-ca.pem')), readFileSync(join(dir, 'root-ca.key'))];
  const second = await open(dir);
  t.equal(second.created, false);
  t.equal(second.fingerprint, first.fingerprint);
  t.equal(second.fingerprint, new X509Certificate(second.rootDer).fingerprint256.replaceAll(':', '').toLowerCase());
  t.same([readFileSync(join(dir, 'root-ca.pem')), readFileSync(join(dir, 'root-ca.key'))], before);
  t.same(readdirSync(dir).sort(), ['ca-bundle.pem', 'root-ca.key', 'root-ca.pem', 'roots.json'], 'nothing else is left there');
});

t.test('two roots have different names, so that a trust store can hold both', async (t) => {
  const [one, two] = [await open(tempDir(t)), await open(tempDir(t))];
  t.not(new X509Certificate(one.rootDer).subject, new X509Certificate(two.rootDer).subject);
});

// Holds: keys-stay-in-their-rooms
t.test('a root that cannot be trusted stops the start and is left as it is', async (t) => {
  const other = tempDir(t);
  await open(other);
  const leafOnly = await shownBy(t, await (await open(tempDir(t))).contextFor('a.example'));
  const cases: Readonly<Record<string, { spoil: (dir: string) => void; message: RegExp; at?: number }>> = {
    'a key that others can read': { spoil: (dir) => chmodSync(join(dir, 'root-ca.key'), 0o640), message: /mode 0640.*chmod 600/ },
    'a certificate that others can change': { spoil: (dir) => chmodSync(join(dir, 'root-ca.pem'), 0o666), message: /mode 0666/ },
    'a key that is a symbolic link': {
      spoil: (dir) => {
        renameSync(join(dir, 'root-ca.key'), join(dir, 'real.key'));
        symlinkSync(join(dir, 'real.key'), join(dir, 'root-ca.key'));
      },
      message: /symbolic link/,
    },
    'a certificate that is a symbolic link to nowhere': {
      spoil: (dir) => {
        unlinkSync(join(dir, 'root-ca.pem'));
        symlinkSync(join(dir, 'nowhere'), join(dir, 'root-ca.pem'));
      },
      message: /symbolic link/,
    },
    'a key that is a folder': {
      spoil: (dir) => {
        unlinkSync(join(dir, 'root-ca.key'));
        mkdirSync(join(dir, 'root-ca.key'), { mode: 0o700 });
      },
      message: /not a plain file/,
    },
    'a key without certificate': { spoil: (dir) => unlinkSync(join(dir, 'root-ca.pem')), message: /without root-ca\.pem/ },
    'a certificate without key': { spoil: (dir) => unlinkSync(join(dir, 'root-ca.key')), message: /without root-ca\.key/ },
    'a key of another certificate': {
      spoil: (dir) => writeFileSync(join(dir, 'root-ca.key'), readFileSync(join(other, 'root-ca.key'))),
      message: /do not belong together/,
    },
    'a certificate that is no authority': {
      spoil: (dir) => {
        const key = generateKeyPairSync('ec', { namedCurve: 'P-256' });
        writeFileSync(join(dir, 'root-ca.pem'), certificatePem(leafOnly.raw));
        writeFileSync(join(dir, 'root-ca.key'), key.privateKey.export({ type: 'pkcs8', format: 'pem' }));
      },
      message: /do not belong together|not that of a certificate authority/,
    },
    'a short RSA key': {
      spoil: (dir) =>
        writeFileSync(
          join(dir, 'root-ca.key'),
          generateKeyPairSync('rsa', { modulusLength: 1024 }).privateKey.export({ type: 'pkcs8', format: 'pem' }),
        ),
      message: /RSA key has 1024 bits/,
    },
    'a certificate that is no certificate': {
      spoil: (dir) => writeFileSync(join(dir, 'root-ca.pem'), 'nonsense'),
      message: /cannot be read/,
    },
    'an empty key file': { spoil: (dir) => writeFileSync(join(dir, 'root-ca.key'), ''), message: /cannot be read/ },
    'a root that has expired': { spoil: () => undefined, message: /expired at 2036/, at: Date.UTC(2037, 0, 1) },
    'a root of the future': { spoil: () => undefined, message: /not valid before/, at: Date.UTC(2020, 0, 1) },
  };
  for (const [name, { spoil, message, at }] of Object.entries(cases)) {
    const dir = tempDir(t);
    await open(dir);
    unlinkSync(join(dir, 'ca-bundle.pem'));
    spoil(dir);
    const listing = readdirSync(dir).sort();
    await t.rejects(open(dir, at === undefined ? fakeClock() : fakeClock(at)), { name: 'CertificateAuthorityError', message }, name);
    t.same(readdirSync(dir).sort(), listing, `${name}: nothing is added or removed`);
  }
});

// Holds: keys-stay-in-their-rooms
t.test('a key that stands in the certificate file never leaves with it', async (t) => {
  const dir = tempDir(t);
  await open(dir);
  const both = readFileSync(join(dir, 'root-ca.pem'), 'utf8') + readFileSync(join(dir, 'root-ca.key'), 'utf8');
  writeFileSync(join(dir, 'root-ca.pem'), both);
  const ca = await open(dir);
  t.notMatch(ca.rootPem, /PRIVATE/);
  t.notMatch(ca.bundlePem(), /PRIVATE/);
  t.notMatch(readFileSync(ca.bundlePath, 'utf8'), /PRIVATE/);
});

t.test('a root that expires within a month is used and warned about', async (t) => {
  const dir = tempDir(t);
  const { expiresAt } = await open(dir);
  const lines = new PassThrough();
  const log = createLogger({ level: 'warn', format: 'json', destination: lines });
  const late = fakeClock(expiresAt - 10 * DAY);
  const ca = await openCertificateAuthority({ dir, clock: late, log });
  t.match(String(lines.read()), /expires soon/);
  const leaf = await shownBy(t, await ca.contextFor('a.example'));
  t.equal(Date.parse(leaf.validTo), expiresAt, 'no leaf outlives its root');
  const [one, two] = [await ca.contextFor('a.example'), await ca.contextFor('a.example')];
  t.equal(one, two, 'a leaf cut short by its root is not made anew for each connection');
  late.advance(11 * DAY);
  await t.rejects(ca.contextFor('b.example'), CertificateAuthorityError, 'a root that expires meanwhile signs nothing more');
});

t.test('contexts are made once per host, bounded, and renewed before their leaf expires', async (t) => {
  const clock = fakeClock();
  const ca = await openCertificateAuthority({ dir: tempDir(t), clock, log: silentLogger, maxContexts: 10 });
  const many = await Promise.all(Array.from({ length: 200 }, (_, i) => ca.contextFor(`h${i % 5}.example`)));
  t.equal(new Set(many).size, 5, '200 callers at once for 5 hosts make 5 leaves');
  t.equal(await ca.contextFor('H0.example.'), many[0], 'other spellings of a host share its context');
  clock.advance(36 * DAY);
  t.equal(await ca.contextFor('h0.example'), many[0]);
  clock.advance(2 * DAY);
  t.not(await ca.contextFor('h0.example'), many[0], 'a week before the end there is a new one');
  const old = await ca.contextFor('h1.example');
  for (let i = 100; i < 110; i++) await ca.contextFor(`h${i}.example`);
  t.not(await ca.contextFor('h1.example'), old, 'what was not used for longest is forgotten');
});

t.test('a leaf that was made while the clock was ahead is not shown before it is valid', { skip: skipWithout(['openssl']) }, async (t) => {
  const clock = fakeClock();
  const right = clock.now();
  const ca = await openCertificateAuthority({ dir: tempDir(t), clock, log: silentLogger });
  const shown = async (): Promise<X509Certificate> => shownBy(t, await ca.contextFor('a.example'));
  clock.set(right + 20 * DAY);
  t.ok(Date.parse((await shown()).validFrom) > right);
  clock.set(right);
  const leaf = await shown();
  t.ok(Date.parse(leaf.validFrom) <= right && Date.parse(leaf.validTo) > right, `${leaf.validFrom} to ${leaf.validTo}`);
  t.match(opensslVerify(tempDir(t), ca.rootPem, certificatePem(leaf.raw), right), /: OK/);
  t.equal(await ca.contextFor('a.example'), await ca.contextFor('a.example'), 'it is made once');
  clock.set(right - 2 * DAY);
  await t.rejects(ca.contextFor('a.example'), { name: 'CertificateAuthorityError', message: /not valid before .*is the clock right/ });
  clock.set(right);
  t.ok(await ca.contextFor('a.example'), 'and it goes on when the clock is right');
});

t.test('no certificate is made for what is no host', async (t) => {
  const dir = tempDir(t);
  const ca = await open(dir);
  const before = readdirSync(dir).map((name) => [name, readFileSync(join(dir, name), 'utf8')]);
  for (const host of ['', '../../x', 'a/b', 'a b', 'a\0b', `${'x'.repeat(64)}.example`, 'user@host', '[::1', 'fe80::1%eth0']) {
    await t.rejects(ca.contextFor(host), { code: 'invalid_target' }, JSON.stringify(host));
  }
  for (const host of ['ca', 'ca.private', 'root-ca']) await ca.contextFor(host);
  t.same(
    readdirSync(dir).map((name) => [name, readFileSync(join(dir, name), 'utf8')]),
    before,
    'host names never reach the file system',
  );
});

t.test('the trust bundle holds the roots of Node and of the system, each once, and ours', async (t) => {
  const dir = tempDir(t);
  const [ours, company] = [await open(join(dir, 'a')), await open(join(dir, 'b'))];
  const systemFile = join(dir, 'system.pem');
  writeFileSync(systemFile, `# a comment\r\n${company.rootPem.replaceAll('\n', '\r\n')}${ours.rootPem}`);
  const bundle = await trustBundle(ours.rootPem, [join(dir, 'missing.pem'), systemFile]);
  const certificates = bundle.split('-----BEGIN').length - 1;
  t.equal(bundle.split(ours.rootPem).length - 1, 1);
  t.equal(bundle.split(company.rootPem).length - 1, 1);
  const { rootCertificates } = await import('node:tls');
  t.equal(certificates, new Set(rootCertificates).size + 2);
  t.ok(existsSync(ours.bundlePath));
  t.equal(readFileSync(ours.bundlePath, 'utf8'), ours.bundlePem());
});

t.test('a symbolic link in the place of the trust bundle is replaced, and what it points to left alone', async (t) => {
  const dir = tempDir(t);
  const ca = await open(dir);
  const precious = join(tempDir(t), 'precious');
  writeFileSync(precious, 'mine');
  unlinkSync(ca.bundlePath);
  symlinkSync(precious, ca.bundlePath);
  await open(dir);
  t.equal(readFileSync(precious, 'utf8'), 'mine');
  t.equal(statSync(ca.bundlePath).size, ca.bundlePem().length);
});
