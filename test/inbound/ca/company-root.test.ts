// A company's intermediate in the place of our own root, with its chain, and RSA keys. openssl makes them, and openssl
// and curl judge what is signed.
import { execFile, execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { connect as connectTls, type DetailedPeerCertificate } from 'node:tls';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { systemClock } from '../../../src/base/lib/clock.ts';
import { createLogger } from '../../../src/base/lib/log.ts';
import { certificatePem } from '../../../src/inbound/ca/certificate.ts';
import { type CertificateAuthority, openCertificateAuthority } from '../../../src/inbound/ca/certificate-authority.ts';
import { requirePeer, skipWithout } from '../../support/peers.ts';
import { tempDir } from '../../support/temp-dir.ts';
import { h2Client, h2Request, openTunnel, startListener } from '../listener/harness.ts';

const HOST = 'api.openai.com';
const run = promisify(execFile);
const EC = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256'];
const RSA = ['-newkey', 'rsa:2048'];
const CA_USAGE = ['basicConstraints=critical,CA:TRUE', 'keyUsage=critical,keyCertSign,cRLSign'];

interface Pair {
  readonly file: string;
  readonly keyFile: string;
  readonly pem: string;
}

/** A folder in which openssl keeps a company's authorities. */
class Company {
  readonly dir: string;

  constructor(t: Test) {
    this.dir = tempDir(t);
  }

  root(name: string, key: readonly string[] = RSA): Pair {
    return this.#make(name, [...key, '-days', '300', ...CA_USAGE.flatMap((line) => ['-addext', line])]);
  }

  under(issuer: Pair, name: string, options: { key?: readonly string[]; extensions?: readonly string[]; digest?: string } = {}): Pair {
    const { key = EC, extensions = CA_USAGE, digest = 'sha256' } = options;
    const added = [...extensions, 'subjectKeyIdentifier=hash', 'authorityKeyIdentifier=keyid'].flatMap((line) => ['-addext', line]);
    return this.#make(name, [...key, '-days', '200', `-${digest}`, '-CA', issuer.file, '-CAkey', issuer.keyFile, ...added]);
  }

  #make(name: string, args: readonly string[]): Pair {
    const [file, keyFile] = [join(this.dir, `${name}.pem`), join(this.dir, `${name}.key`)];
    const config = join(this.dir, 'openssl.cnf');
    writeFileSync(config, '[req]\ndistinguished_name=dn\n[dn]\n');
    const subject = ['-subj', `/C=AT/O=Company Ä/CN=${name}`, '-utf8', '-config', config];
    execFileSync(requirePeer('openssl'), ['req', '-x509', '-nodes', '-keyout', keyFile, '-out', file, ...subject, ...args], {
      stdio: 'pipe',
    });
    return { file, keyFile, pem: readFileSync(file, 'utf8') };
  }
}

/** A folder as `GW_CA_DIR`, with these certificates and this key. */
function caFolder(t: Test, certificates: string, key: string): string {
  const dir = tempDir(t);
  writeFileSync(join(dir, 'root-ca.pem'), certificates, { mode: 0o644 });
  writeFileSync(join(dir, 'root-ca.key'), key, { mode: 0o600 });
  return dir;
}

function keyOf({ keyFile }: Pair): string {
  return readFileSync(keyFile, 'utf8');
}

interface Opened {
  readonly ca: CertificateAuthority;
  /** Messages of the log. */
  readonly said: string[];
}

async function open(dir: string): Promise<Opened> {
  const said: string[] = [];
  const write = (line: string): void => void said.push((JSON.parse(line) as { msg: string }).msg);
  const ca = await openCertificateAuthority({
    dir,
    clock: systemClock,
    log: createLogger({ level: 'warn', format: 'json', destination: { write } }),
  });
  return { ca, said };
}

interface Shown extends Opened {
  readonly port: number;
  /** What a client is sent, leaf first. */
  readonly sent: readonly X509Certificate[];
  readonly harness: Awaited<ReturnType<typeof startListener>>;
}

async function show(t: Test, dir: string): Promise<Shown> {
  const opened = await open(dir);
  const harness = await startListener(t, { ca: opened.ca });
  const { port } = harness.listener;
  const secure = connectTls({ socket: await openTunnel(t, port), servername: HOST, rejectUnauthorized: false });
  const sent = await new Promise<X509Certificate[]>((resolve, reject) => {
    secure.once('error', reject);
    secure.once('secureConnect', () => {
      const found: X509Certificate[] = [];
      const leaf: DetailedPeerCertificate = secure.getPeerCertificate(true);
      for (let at = leaf; !found.some(({ raw }) => raw.equals(at.raw)); at = at.issuerCertificate) {
        found.push(new X509Certificate(at.raw));
        if (at.issuerCertificate === undefined) break;
      }
      resolve(found);
    });
  });
  secure.destroy();
  return { ...opened, port, sent, harness };
}

/** Judged by openssl, by strict rules, with nothing trusted but `root`. */
async function verify(t: Test, root: Pair, sent: readonly X509Certificate[]): Promise<void> {
  const dir = tempDir(t);
  const [leaf, ...chain] = sent.map(({ raw }) => certificatePem(raw));
  writeFileSync(join(dir, 'leaf.pem'), leaf ?? '');
  writeFileSync(join(dir, 'chain.pem'), chain.join(''));
  const untrusted = chain.length > 0 ? ['-untrusted', join(dir, 'chain.pem')] : [];
  const args = [
    'verify',
    '-x509_strict',
    '-purpose',
    'sslserver',
    '-verify_hostname',
    HOST,
    '-no-CApath',
    '-no-CAstore',
    '-CAfile',
    root.file,
  ];
  t.match((await run(requirePeer('openssl'), [...args, ...untrusted, join(dir, 'leaf.pem')])).stdout, /: OK/);
}

/** The same in a handshake, by openssl's client and by curl in both protocols. */
async function handshake(t: Test, root: Pair, { port, harness }: Shown): Promise<void> {
  const proxy = `127.0.0.1:${port}`;
  const client = run(requirePeer('openssl'), [
    's_client',
    '-proxy',
    proxy,
    '-connect',
    `${HOST}:443`,
    '-verify_return_error',
    '-CAfile',
    root.file,
  ]);
  client.child.stdin?.end();
  t.match((await client).stdout, /Verify return code: 0 \(ok\)/);
  for (const protocol of ['--http1.1', '--http2']) {
    const args = [
      '-sS',
      protocol,
      '--cacert',
      root.file,
      '--proxy',
      `http://${proxy}`,
      '-w',
      '%{http_version}',
      '-d',
      'hello ',
      `https://${HOST}/v1/x`,
    ];
    t.match((await run(requirePeer('curl'), args)).stdout, protocol === '--http2' ? /^hello 2$/ : /^hello 1\.1$/);
  }
  const session = await h2Client(t, { ...harness, ca: { ...harness.ca, rootPem: root.pem } });
  t.equal((await h2Request(session, { ':method': 'POST' }, 'x')).body, 'x');
}

t.test('a company root', { skip: skipWithout(['openssl', 'curl']) }, async (t) => {
  const company = new Company(t);
  const root = company.root('Root');

  await t.test(
    'an intermediate sends its chain up to the root and without it, and clients that trust the root alone take it',
    async (t) => {
      const upper = company.under(root, 'Upper', { key: RSA });
      const lower = company.under(upper, 'Lower');
      const dir = caFolder(t, lower.pem + upper.pem + root.pem, keyOf(lower));
      const shown = await show(t, dir);
      t.same(
        shown.sent.map(({ subject }) => /CN=(.*)$/m.exec(subject)?.[1]),
        [HOST, 'Lower', 'Upper'],
      );
      t.same(shown.said, []);
      t.equal(shown.ca.created, false);
      t.same(new X509Certificate(shown.ca.rootPem).raw, new X509Certificate(root.pem).raw, 'what clients are given is the root');
      t.same(shown.ca.rootDer, new X509Certificate(root.pem).raw);
      t.ok(shown.ca.bundlePem().endsWith(certificatePem(new X509Certificate(root.pem).raw)));
      t.equal(readFileSync(shown.ca.bundlePath, 'utf8'), shown.ca.bundlePem());
      await verify(t, root, shown.sent);
      await handshake(t, root, shown);
      const text = execFileSync(requirePeer('openssl'), ['x509', '-noout', '-text'], {
        input: certificatePem(shown.sent[0]?.raw ?? Buffer.alloc(0)),
        encoding: 'utf8',
      });
      const lowerText = execFileSync(requirePeer('openssl'), ['x509', '-noout', '-text', '-in', lower.file], { encoding: 'utf8' });
      const identifier = /Subject Key Identifier: \s+([0-9A-F:]+)/.exec(lowerText)?.[1];
      t.ok(identifier);
      t.equal(/Authority Key Identifier: \s+([0-9A-F:]+)/.exec(text)?.[1], identifier);
      t.match(text, /NIST CURVE: P-256/);
      t.ok(shown.ca.expiresAt < Date.now() + 201 * 86_400_000, 'the chain lasts as long as the first of it to expire');
    },
  );

  await t.test('RSA keys sign, in PKCS#1 and PKCS#8, as a root of their own and as an intermediate', async (t) => {
    const alone = await show(t, caFolder(t, root.pem, keyOf(root)));
    t.equal(alone.sent.length, 1, 'a root is not sent');
    await verify(t, root, alone.sent);
    await handshake(t, root, alone);
    const lower = company.under(root, 'Rsa', { key: ['-newkey', 'rsa:3072'] });
    const pkcs1 = execFileSync(requirePeer('openssl'), ['rsa', '-traditional', '-in', lower.keyFile], { encoding: 'utf8', stdio: 'pipe' });
    t.match(pkcs1, /BEGIN RSA PRIVATE KEY/);
    const shown = await show(t, caFolder(t, lower.pem + root.pem, pkcs1));
    t.equal(shown.sent.length, 2);
    await verify(t, root, shown.sent);
    await handshake(t, root, shown);
  });

  await t.test('EC keys on other curves sign too', async (t) => {
    const lower = company.under(root, 'P-384', { key: ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-384'] });
    const { sent } = await show(t, caFolder(t, lower.pem + root.pem, keyOf(lower)));
    await verify(t, root, sent);
  });

  await t.test('of an intermediate without its issuers clients are given itself, and the operator is told', async (t) => {
    const lower = company.under(root, 'Lone');
    const { ca, said, sent } = await show(t, caFolder(t, lower.pem, keyOf(lower)));
    t.same(new X509Certificate(ca.rootPem).raw, new X509Certificate(lower.pem).raw);
    t.equal(sent.length, 2, 'and it is sent, for clients that know its issuer');
    await verify(t, root, sent);
    t.equal(said.length, 1);
    t.match(said[0], /does not go up to a root that signs itself/);
  });

  await t.test('an intermediate that may sign for some hosts signs for those, and says so', async (t) => {
    const limits = 'nameConstraints=critical,permitted;DNS:openai.com,permitted;IP:10.0.0.0/255.0.0.0,excluded;DNS:evil.openai.com';
    const lower = company.under(root, 'Limited', { extensions: [...CA_USAGE, limits] });
    const { ca, said, sent } = await show(t, caFolder(t, lower.pem + root.pem, keyOf(lower)));
    await verify(t, root, sent);
    t.match(said, [/may sign for some hosts only/]);
    for (const host of ['openai.com', HOST, '10.1.2.3']) t.ok(await ca.contextFor(host), host);
    for (const host of ['api.anthropic.com', 'notopenai.com', 'x.evil.openai.com', 'evil.openai.com', '192.0.2.1', '::1'])
      await t.rejects(
        ca.contextFor(host),
        { name: 'CertificateAuthorityError', message: new RegExp(`name constraints .* ${host.replaceAll('.', '\\.')}$`) },
        host,
      );
  });

  await t.test('what clients would not take is refused at the start, with the reason', async (t) => {
    const lower = company.under(root, 'Good');
    const noIntermediate = company.under(root, 'Path0', {
      key: RSA,
      extensions: ['basicConstraints=critical,CA:TRUE,pathlen:0', 'keyUsage=critical,keyCertSign'],
    });
    const belowPath0 = company.under(noIntermediate, 'Below');
    const stranger = company.root('Stranger');
    const weak = company.root('Weak', ['-newkey', 'rsa:1024']);
    const noSign = company.under(root, 'NoSign', { extensions: ['basicConstraints=critical,CA:TRUE', 'keyUsage=critical,cRLSign'] });
    const noCa = company.under(root, 'NoCa', { extensions: ['basicConstraints=critical,CA:FALSE', 'keyUsage=critical,keyCertSign'] });
    const mail = company.under(root, 'Mail', { extensions: [...CA_USAGE, 'extendedKeyUsage=emailProtection'] });
    const sha1 = company.under(root, 'Sha1', { digest: 'sha1' });
    const names = company.under(root, 'Names', { extensions: [...CA_USAGE, 'nameConstraints=critical,permitted;DNS:openai.com'] });
    const ed25519 = company.root('Ed', ['-newkey', 'ed25519']);
    const encrypted = (args: readonly string[]): string =>
      execFileSync(requirePeer('openssl'), [...args, '-aes128', '-passout', 'pass:secret', '-in', root.keyFile], {
        encoding: 'utf8',
        stdio: 'pipe',
      });
    const cases: Readonly<Record<string, readonly [certificates: string, key: string, message: RegExp]>> = {
      'the root first': [root.pem + lower.pem, keyOf(lower), /its key belongs to certificate 2 of root-ca\.pem: that one goes first/],
      'a stranger in the chain': [lower.pem + stranger.pem, keyOf(lower), /certificate 2 of root-ca\.pem did not sign the one before it/],
      'something behind the root': [lower.pem + root.pem + stranger.pem, keyOf(lower), /certificate 2 of root-ca\.pem signs itself/],
      'a path length that leaves no room': [
        belowPath0.pem + noIntermediate.pem + root.pem,
        keyOf(belowPath0),
        /certificate 2 .* allows 0 intermediate/,
      ],
      'an RSA key of 1,024 bits': [weak.pem, keyOf(weak), /its RSA key has 1024 bits/],
      'an Ed25519 key': [ed25519.pem, keyOf(ed25519), /neither RSA nor EC/],
      'a key that may not sign certificates': [noSign.pem + root.pem, keyOf(noSign), /keyUsage without keyCertSign/],
      'no authority': [noCa.pem + root.pem, keyOf(noCa), /is not that of a certificate authority/],
      'another purpose': [mail.pem + root.pem, keyOf(mail), /extendedKeyUsage without serverAuth/],
      'a SHA-1 signature': [sha1.pem + root.pem, keyOf(sha1), /SHA-1/],
      'an encrypted key (PKCS#8)': [root.pem, encrypted(['pkey']), /the root key .* is encrypted/],
      'an encrypted key (PKCS#1)': [root.pem, encrypted(['rsa', '-traditional']), /the root key .* is encrypted/],
      'eleven certificates': [root.pem.repeat(11), keyOf(root), /more than 10 certificates/],
    };
    t.ok(await open(caFolder(t, names.pem + root.pem, keyOf(names))), 'a root that may not sign for localhost starts all the same');
    for (const [name, [certificates, key, message]] of Object.entries(cases)) {
      const dir = caFolder(t, certificates, key);
      await t.rejects(open(dir), { name: 'CertificateAuthorityError', message }, name);
      t.same(readdirSync(dir).sort(), ['root-ca.key', 'root-ca.pem'], `${name}: nothing is added`);
    }
  });

  await t.test('what strict verifiers would miss is said', async (t) => {
    const lower = company.under(root, 'Loose', { extensions: ['basicConstraints=CA:TRUE'] });
    const { said } = await open(caFolder(t, lower.pem + root.pem, keyOf(lower)));
    t.same(said, ['certificate 1 of root-ca.pem has no critical basicConstraints, no keyUsage: clients that verify strictly refuse it']);
  });
});
