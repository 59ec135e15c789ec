// TLS on the gateway's own ports (decision 12.1): every door through it, what is refused, and how its certificate is
// renewed.
import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { connect as connectH2, constants } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import t, { type Test } from 'tap';
import { certificateClock } from '../support/certificate-clock.ts';
import { FAR_AWAY, LONG_OVER, selfSigned, testCa } from '../support/certificates.ts';
import { eventually } from '../support/child.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { ADMIN_TOKEN, startTestGateway } from '../support/gateway.ts';
import { CHAT, startGoverned } from '../support/governed.ts';
import { requirePeer, skipWithout } from '../support/peers.ts';
import { askSecure, connectOn, connectSecure, portCertificate } from '../support/port-tls.ts';
import { connectPlain, h1Request, h2Request, type RawResponse, readToEnd } from '../support/raw-clients.ts';
import { tempDir } from '../support/temp-dir.ts';

const KEY = ['Authorization', 'Bearer sk-test-key', 'Content-Type', 'application/json'];
const CALL = { method: 'POST', path: '/v1/chat/completions', headers: KEY, body: JSON.stringify(CHAT) };

async function start(t: Test, env: Readonly<Record<string, string>> = {}) {
  const certificate = portCertificate(t);
  const { gw, upstream } = await startGoverned(t, { env: { ...certificate.env, GW_MGMT_PORT: '0', ...env } });
  const pem = certificate.ca.certPem;
  const recordOf = async (answer: RawResponse) => {
    t.equal(answer.status, 200, answer.body.toString());
    return (await askSecure(gw.port, pem, `/v1/records/${answer.headers['x-gw-record-id']}`)).body;
  };
  return { gw, upstream, pem, certificate, recordOf };
}

function h2To(t: Test, port: number, ca: string) {
  const session = connectH2(`https://127.0.0.1:${port}`, { ca });
  t.teardown(() => session.destroy());
  return session;
}

t.test('every port speaks TLS from 1.2 on, as HTTP/1.1 and h2', async (t) => {
  const { gw, pem } = await start(t);
  const management = gw.gateway.managementPort ?? 0;
  for (const port of [gw.port, gw.ambientPort, management]) {
    t.match(await askSecure(port, pem, '/healthz'), { status: 200, body: { warnings: [] } });
    const session = h2To(t, port, pem);
    const answer = await h2Request(session, { path: '/readyz' });
    t.strictSame([answer.status, JSON.parse(answer.body.toString())], [200, { status: 'ready' }]);
    session.destroy();
    t.equal((await connectSecure(t, port, pem, { maxVersion: 'TLSv1.2' })).getProtocol(), 'TLSv1.2');
    await t.rejects(connectSecure(t, port, pem, { maxVersion: 'TLSv1.1' }));
  }
  const admin = await h2Request(h2To(t, gw.port, pem), {
    path: '/v1/admin/workloads',
    headers: ['gw-admin-token', ADMIN_TOKEN],
  });
  t.equal(admin.status, 200);
  const both = { alpn: ['h2', 'http/1.1'] };
  t.equal((await connectSecure(t, gw.port, pem, both)).alpnProtocol, 'http/1.1', 'a browser opens its tunnels by HTTP/1.1');
  t.equal((await connectSecure(t, management, pem, both)).alpnProtocol, 'h2', 'where there are no tunnels h2 goes first');
});

t.test('each door is reached through it', async (t) => {
  const { gw, pem, recordOf, upstream } = await start(t);

  await t.test('a CONNECT, with the TLS of the client inside, by HTTP/1.1 and h2', async (t) => {
    for (const alpn of ['http/1.1', 'h2']) {
      const proxy = await connectSecure(t, gw.port, pem);
      t.match(await connectOn(proxy, 'api.openai.com:443'), /^HTTP\/1\.1 200 /);
      const inner = connectTls({ socket: proxy, ca: gw.caPem, servername: 'api.openai.com', ALPNProtocols: [alpn] });
      t.teardown(() => inner.destroy());
      await new Promise<void>((resolve, reject) => inner.once('secureConnect', resolve).once('error', reject));
      t.equal(inner.alpnProtocol, alpn);
      const session = alpn === 'h2' ? connectH2('https://api.openai.com', { createConnection: () => inner }) : undefined;
      if (session !== undefined) t.teardown(() => session.destroy());
      const answer = session ? await h2Request(session, CALL) : await h1Request(inner, 'api.openai.com', CALL);
      t.match(await recordOf(answer), {
        connection_type: 'connect_proxy',
        provider: 'openai',
        target: 'https://api.openai.com/v1/chat/completions',
      });
    }
  });

  await t.test('redirect mode, by HTTP/1.1 and h2', async (t) => {
    const call = { ...CALL, path: '/proxy/openai/v1/chat/completions' };
    const plain = await h1Request(await connectSecure(t, gw.port, pem), `127.0.0.1:${gw.port}`, call);
    t.match(await recordOf(plain), { connection_type: 'sdk_redirect', target: 'https://api.openai.com/v1/chat/completions' });
    const h2 = await h2Request(h2To(t, gw.port, pem), call);
    t.match(await recordOf(h2), { connection_type: 'sdk_redirect', target: 'https://api.openai.com/v1/chat/completions' });
  });

  await t.test('the absolute form, which h2 says by its scheme', async (t) => {
    const h1 = await h1Request(await connectSecure(t, gw.port, pem), 'api.openai.com', {
      ...CALL,
      path: 'https://api.openai.com/v1/chat/completions',
    });
    t.match(await recordOf(h1), { connection_type: 'connect_proxy', provider: 'openai' });
    const before = upstream.requests.length;
    const session = h2To(t, gw.port, pem);
    const stream = session.request({ ':scheme': 'http', ':authority': 'no-such-host.invalid', ':path': '/' });
    const status = await new Promise((resolve) => stream.once('response', (head) => resolve(head[':status'])));
    t.equal(status, 502, 'it is taken for a proxied request');
    t.equal(upstream.requests.length, before);
    session.destroy();
  });

  await t.test('a tunnel that passes unopened', async (t) => {
    const echo = createServer((socket) => {
      socket.on('error', () => undefined).once('data', (bytes: Buffer) => socket.end(`got ${bytes.toString()}`));
    });
    await new Promise<void>((resolve) => echo.listen(0, '127.0.0.1', resolve));
    t.teardown(() => echo.close());
    const { port } = echo.address() as AddressInfo;
    const certificate = portCertificate(t);
    const other = await startTestGateway(t, {
      env: { ...certificate.env, GW_UPSTREAM_CONNECT_TO: `tools.example.com:443=127.0.0.1:${port}` },
    });
    const proxy = await connectSecure(t, other.port, certificate.ca.certPem);
    t.match(await connectOn(proxy, 'tools.example.com:443'), /^HTTP\/1\.1 200 /);
    proxy.write('some bytes');
    t.equal((await readToEnd(proxy)).toString(), 'got some bytes');
  });

  await t.test('the configuration of browsers names a proxy by https', async (t) => {
    const { body } = await askSecure(gw.port, pem, '/proxy.pac');
    t.match(body['text'], `return "HTTPS 127.0.0.1:${gw.port}"`);
  });
});

t.test('what does not fit is refused in words', async (t) => {
  const { gw, pem } = await start(t);

  await t.test('plain HTTP, of whatever form', async (t) => {
    for (const head of ['GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n', 'CONNECT api.openai.com:443 HTTP/1.1\r\n\r\n']) {
      const socket = await connectPlain(gw.port);
      socket.write(head);
      const answer = (await readToEnd(socket)).toString();
      t.match(answer, /^HTTP\/1\.1 400 Bad Request\r\n/);
      t.match(answer, /"code":"https_required".*https:\/\//);
    }
    const { body } = await askSecure(gw.port, pem, '/metrics');
    t.match(body['text'], 'gw_unrecorded_requests_total{code="https_required"} 2');
  });

  await t.test('a CONNECT by h2', async (t) => {
    const session = h2To(t, gw.port, pem);
    const stream = session.request({ ':method': 'CONNECT', ':authority': 'api.openai.com:443' });
    const status = await new Promise((resolve) => stream.once('response', (head) => resolve(head[constants.HTTP2_HEADER_STATUS])));
    t.equal(status, 400);
    let text = '';
    for await (const piece of stream) text += String(piece);
    t.match(text, /offer http\/1\.1/);
  });

  await t.test('pages of other origins, and those of its own by https are not', async (t) => {
    const from = async (origin: string) =>
      (await h1Request(await connectSecure(t, gw.port, pem), `127.0.0.1:${gw.port}`, { path: '/healthz', headers: ['Origin', origin] }))
        .status;
    t.equal(await from('https://evil.example'), 403);
    t.equal(await from(`https://localhost:${gw.port}`), 200);
  });

  await t.test('a handshake that fails is counted', async (t) => {
    await t.rejects(connectSecure(t, gw.port, pem, { maxVersion: 'TLSv1.1' }));
    await eventually('the count', async () => {
      const { body } = await askSecure(gw.port, pem, '/metrics');
      return /^gw_own_handshakes_failed_total [1-9]/m.test(String(body['text'])) || undefined;
    });
  });
});

t.test('a renewed certificate is shown to who comes then, and one that does not load leaves the one before', async (t) => {
  const certificate = portCertificate(t);
  const { certPem } = certificate.ca;
  // Three days before a certificate ends that its clients, who have the clock of the machine, find valid.
  const ends = Date.UTC(2049, 0);
  const clock = fakeClock(ends - 3 * 86_400_000);
  const gw = await startTestGateway(t, { clock, env: certificate.env });
  const shown = async () => (await connectSecure(t, gw.port, certPem)).getPeerX509Certificate()?.fingerprint256;
  const counts = async () => String((await askSecure(gw.port, certPem, '/metrics')).body['text']);
  const first = await shown();
  const old = await connectSecure(t, gw.port, certPem);
  // The clock is moved on below: its handshake must be over on both sides before.
  t.equal((await h1Request(old, `127.0.0.1:${gw.port}`, { path: '/healthz' })).status, 200);

  certificate.replace({ ...certificate.ca.leaf({ hosts: ['127.0.0.1'] }), keyPem: certificate.ca.leaf({ hosts: ['x.example'] }).keyPem });
  await eventually('a pair that does not belong together', async () => {
    clock.advance(30_000);
    return /gw_own_certificate_reloads_total\{result="refused"\} [1-9]/.test(await counts()) || undefined;
  });
  t.equal(await shown(), first);
  const { body } = await askSecure(gw.port, certPem, '/healthz');
  t.match(body['warnings'], [{ code: 'certificate_not_loaded', message: /is not the key of/ }]);

  const next = certificate.ca.leaf({ hosts: ['127.0.0.1'], notAfter: new Date(ends) });
  certificate.replace(next);
  await eventually('the renewed one', async () => {
    clock.advance(30_000);
    return (await shown()) !== first || undefined;
  });
  t.match(await counts(), /gw_own_certificate_reloads_total\{result="loaded"\} 1/);
  t.match(await counts(), /^gw_own_certificate_expiry_timestamp_seconds \d{10}$/m);
  t.match((await askSecure(gw.port, certPem, '/healthz')).body['warnings'], [{ code: 'certificate_expires_soon' }]);
  t.equal((await h1Request(old, `127.0.0.1:${gw.port}`, { path: '/healthz' })).status, 200, 'what stands, stays');
});

t.test('what keeps a certificate from being used is said at the start, with its file', async (t) => {
  const folder = tempDir(t);
  const file = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  const ca = testCa();
  const good = ca.leaf({ hosts: ['127.0.0.1'] });
  const cert = file('good.pem', good.certPem);
  const key = file('good.key', good.keyPem);
  const old = ca.leaf({ hosts: ['a'], ...LONG_OVER });
  const early = ca.leaf({ hosts: ['a'], ...FAR_AWAY });
  const table: readonly (readonly [cert: string, key: string, message: RegExp])[] = [
    [join(folder, 'none.pem'), key, /^GW_TLS_CERT_FILE: .*none\.pem cannot be read \(ENOENT\)$/],
    [cert, folder, /^GW_TLS_KEY_FILE: .* cannot be read \(it is no regular file\)$/],
    [key, key, /^GW_TLS_CERT_FILE: .*good\.key holds no certificate/],
    [cert, cert, /^GW_TLS_KEY_FILE: .*good\.pem holds no private key/],
    [
      file('broken.pem', good.certPem.replace(/\n[A-Za-z0-9]{8}/, '\nAAAAAAAA')),
      key,
      /^GW_TLS_CERT_FILE: certificate 1 of .*broken\.pem cannot be read/,
    ],
    [cert, file('other.key', selfSigned(['a']).keyPem), /^GW_TLS_KEY_FILE: .*other\.key is not the key of the certificate in .*good\.pem$/],
    [file('turned.pem', ca.certPem + good.certPem), key, /^GW_TLS_CERT_FILE: the certificate of the key stands at place 2 of/],
    [file('old.pem', old.certPem), file('old.key', old.keyPem), /^GW_TLS_CERT_FILE: the certificate in .*old\.pem expired at 2/],
    [file('early.pem', early.certPem), file('early.key', early.keyPem), /is not valid before .*; is the clock of this machine right\?$/],
    [cert, file('sealed.key', '-----BEGIN ENCRYPTED PRIVATE KEY-----\n'), /^GW_TLS_KEY_FILE: .*sealed\.key is encrypted/],
  ];
  for (const [certFile, keyFile, message] of table) {
    await t.rejects(startTestGateway(t, { env: { GW_TLS_CERT_FILE: certFile, GW_TLS_KEY_FILE: keyFile } }), { message }, String(message));
  }
  await t.rejects(startTestGateway(t, { env: { GW_TLS_CERT_FILE: cert } }), {
    message: /GW_TLS_KEY_FILE is not set, and GW_TLS_CERT_FILE needs it/,
  });
  await t.rejects(startTestGateway(t, { env: { GW_TLS_KEY_FILE: key } }), { message: /GW_TLS_CERT_FILE is not set/ });
});

t.test(
  'a certificate that a root of the gateway has signed keeps that root from being dropped, and health says so',
  { skip: skipWithout(['openssl']) },
  async (t) => {
    const certificate = portCertificate(t);
    // What openssl signs is of today.
    const gw = await startTestGateway(t, { clock: certificateClock, env: certificate.env });
    const caDir = join(gw.caFile, '..');
    const folder = tempDir(t);
    const file = (name: string): string => join(folder, name);
    const openssl = (...args: readonly string[]): string => execFileSync(requirePeer('openssl'), args, { encoding: 'utf8', stdio: 'pipe' });
    /** As docs/guides/tls.md says. */
    const signed = () => {
      const [root, rootKey] = [join(caDir, 'root-ca.pem'), join(caDir, 'root-ca.key')];
      writeFileSync(file('ext'), 'subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth\n');
      openssl(
        'req',
        '-new',
        '-newkey',
        'ec',
        '-pkeyopt',
        'ec_paramgen_curve:P-256',
        '-nodes',
        '-subj',
        '/CN=gw',
        '-keyout',
        file('key'),
        '-out',
        file('csr'),
      );
      openssl(
        'x509',
        '-req',
        '-in',
        file('csr'),
        '-CA',
        root,
        '-CAkey',
        rootKey,
        '-CAcreateserial',
        '-CAserial',
        file('srl'),
        '-days',
        '90',
        '-extfile',
        file('ext'),
        '-out',
        file('pem'),
      );
      return { certPem: readFileSync(file('pem'), 'utf8'), keyPem: readFileSync(file('key'), 'utf8') };
    };
    let trusted = certificate.ca.certPem;
    const codes = async () => {
      const { body } = await askSecure(gw.port, trusted, '/healthz');
      return (body as { warnings: { code: string }[] }).warnings.map(({ code }) => code);
    };
    const use = async (pair: ReturnType<typeof signed>, more = '') => {
      trusted = `${certificate.ca.certPem}${readFileSync(join(caDir, 'root-ca.pem'), 'utf8')}${more}`;
      certificate.replace(pair);
      const { fingerprint256 } = new X509Certificate(pair.certPem);
      await eventually('the new certificate', async () => (await shown()) === fingerprint256 || undefined);
    };
    const shown = async () => (await connectSecure(t, gw.port, trusted)).getPeerX509Certificate()?.fingerprint256;
    const admin = (path: string, body: object = {}) => askSecure(gw.port, trusted, path, body);
    const former = readFileSync(join(caDir, 'root-ca.pem'), 'utf8');
    const old = signed();
    await use(old);
    t.same(await codes(), []);
    t.match(await admin('/v1/admin/ca/rotate', { switch_at: '2020-01-01T00:00:00Z' }), { status: 200 });
    t.same(await codes(), ['certificate_of_former_root']);
    t.match(await admin('/v1/admin/ca/finish'), { status: 409, body: { error: { code: 'conflict', message: /docs\/guides\/tls\.md/ } } });
    await use(signed());
    t.same(await codes(), []);
    t.match(await admin('/v1/admin/ca/finish'), { status: 200 });
    await use(old, former);
    t.same(await codes(), ['certificate_of_dropped_root']);
  },
);

t.test('who begins a handshake and does not end it is let go of, and a stop does not wait for who said nothing', async (t) => {
  const certificate = portCertificate(t);
  const clock = fakeClock();
  const gw = await startTestGateway(t, { clock, env: certificate.env });
  const slow = await connectPlain(gw.port);
  slow.on('error', () => undefined);
  const closed = new Promise<void>((resolve) => slow.once('close', () => resolve()));
  slow.write(Buffer.from([0x16, 3, 1, 2, 0, 1]));
  slow.resume();
  await askSecure(gw.port, certificate.ca.certPem, '/healthz');
  clock.advance(11_000);
  await closed;
  const silent = await connectPlain(gw.port);
  silent.on('error', () => undefined).resume();
  const gone = new Promise<void>((resolve) => silent.once('close', () => resolve()));
  await askSecure(gw.port, certificate.ca.certPem, '/healthz');
  await gw.gateway.stop();
  await gone;
});
