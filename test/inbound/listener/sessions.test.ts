// TLS sessions of intercepted connections: resumed for one host, worthless for any other; and handshakes that stop.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { Duplex } from 'node:stream';
import { connect as connectTls } from 'node:tls';
import { promisify } from 'node:util';
import t from 'tap';
import { systemClock } from '../../../src/base/lib/clock.ts';
import { silentLogger } from '../../../src/base/lib/log.ts';
import { openCertificateAuthority } from '../../../src/inbound/ca/certificate-authority.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { requirePeer, skipWithout } from '../../support/peers.ts';
import { tempDir } from '../../support/temp-dir.ts';
import { type Harness, type HasTeardown, openTunnel, startListener, tlsInside, watch } from './harness.ts';

const run = promisify(execFile);
const VERSIONS = ['TLSv1.2', 'TLSv1.3'] as const;
const INSIDE = 'GET /inside HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n';

interface Call {
  readonly host: string;
  readonly version: (typeof VERSIONS)[number];
  readonly alpn?: readonly string[];
  readonly session?: Buffer;
}

/** One request; gives the newest session and whether an older one was resumed. */
async function call(t: HasTeardown, harness: Harness, { host, version, alpn = ['http/1.1'], session }: Call) {
  const secure = await tlsInside(t, harness, await openTunnel(t, harness.listener.port, `${host}:443`), {
    servername: host,
    minVersion: version,
    maxVersion: version,
    ALPNProtocols: [...alpn],
    ...(session ? { session } : {}),
  });
  let newest = secure.getSession();
  secure.on('session', (ticket) => {
    newest = ticket;
  });
  const reused = secure.isSessionReused();
  const leaf = secure.getPeerCertificate().subjectaltname;
  if (alpn[0] === 'h2') {
    secure.destroy();
  } else {
    const client = watch(secure);
    secure.write(INSIDE);
    t.teardown(() => secure.destroy());
    const { text } = await client.closed;
    if (!text.startsWith('HTTP/1.1 200 ')) throw new Error(`no answer: ${text}`);
  }
  return { reused, session: newest, leaf };
}

t.test('a session is resumed by any later connection to its host, over both protocols and versions, again and again', async (t) => {
  const harness = await startListener(t);
  for (const version of VERSIONS) {
    let { session } = await call(t, harness, { host: 'api.openai.com', version });
    for (let i = 0; i < 3; i++) {
      const next = await call(t, harness, { host: 'api.openai.com', version, ...(session ? { session } : {}) });
      t.equal(next.reused, true, `${version}, connection ${i + 2}`);
      session = next.session ?? session;
    }
    const h2 = await call(t, harness, { host: 'api.openai.com', version, alpn: ['h2', 'http/1.1'], ...(session ? { session } : {}) });
    t.equal(h2.reused, true, `${version}, h2`);
  }
});

t.test('a session is never resumed for another host, and the handshake is then a full one', async (t) => {
  const harness = await startListener(t);
  for (const version of VERSIONS) {
    const { session } = await call(t, harness, { host: 'api.openai.com', version });
    t.ok(session);
    for (const host of ['api.anthropic.com', 'a.openai.azure.com', '192.0.2.1']) {
      // The name stays that of the first host: only the CONNECT tells the two apart, as for a client that lies about
      // it.
      const tunnel = await openTunnel(t, harness.listener.port, `${host}:443`);
      const options = { minVersion: version, maxVersion: version, checkServerIdentity: () => undefined, ...(session ? { session } : {}) };
      const secure = connectTls({ socket: tunnel, ca: harness.ca.rootPem, servername: 'api.openai.com', ...options });
      t.teardown(() => secure.destroy());
      await once(secure, 'secureConnect');
      t.equal(secure.isSessionReused(), false, `${version}, ${host}`);
      t.match(secure.getPeerCertificate().subjectaltname, host);
    }
    const back = await call(t, harness, { host: 'api.openai.com', version, ...(session ? { session } : {}) });
    t.equal(back.reused, true, 'at its own host it still counts');
  }
});

t.test('a session whose context is gone falls back to a full handshake', async (t) => {
  const ca = await openCertificateAuthority({ dir: tempDir(t), clock: systemClock, log: silentLogger, maxContexts: 1 });
  const harness = { ...(await startListener(t, { ca })), ca };
  for (const version of VERSIONS) {
    const { session } = await call(t, harness, { host: 'api.openai.com', version });
    await call(t, harness, { host: 'api.anthropic.com', version });
    const again = await call(t, harness, { host: 'api.openai.com', version, ...(session ? { session } : {}) });
    t.match(again, { reused: false, leaf: 'DNS:api.openai.com' });
  }
});

t.test('openssl resumes at the same host and not at another', { skip: skipWithout(['openssl']) }, async (t) => {
  const harness = await startListener(t);
  const file = join(tempDir(t), 'session.pem');
  const handshake = async (host: string, ...args: readonly string[]): Promise<string> => {
    const proxy = `127.0.0.1:${harness.listener.port}`;
    const all = [
      's_client',
      '-proxy',
      proxy,
      '-connect',
      `${host}:443`,
      '-CAfile',
      join(harness.caDir, 'root-ca.pem'),
      '-ign_eof',
      ...args,
    ];
    const child = spawn(requirePeer('openssl'), all);
    let text = '';
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk;
    });
    child.stdin.end(INSIDE);
    await once(child, 'close');
    t.match(text, /HTTP\/1\.1 200 OK/);
    return text;
  };
  for (const version of ['-tls1_2', '-tls1_3']) {
    t.match(await handshake('api.openai.com', version, '-sess_out', file), /^New, TLS/m);
    t.match(await handshake('api.openai.com', version, '-sess_in', file), /^Reused, TLS/m, version);
    t.match(await handshake('api.anthropic.com', version, '-sess_in', file), /^New, TLS/m, version);
  }
  t.match((await run(requirePeer('openssl'), ['sess_id', '-in', file, '-noout', '-text'])).stdout, /TLS session ticket lifetime hint/);
});

t.test('a client that is shown our certificate and never finishes its handshake is closed at the deadline', async (t) => {
  const clock = fakeClock();
  const { listener } = await startListener(t, { clock });
  const tunnel = await openTunnel(t, listener.port);
  // What a real client says first is passed on, the answer to it is not.
  const wire = new Duplex({ read: () => undefined, write: (chunk: Buffer, _encoding, done) => tunnel.write(chunk, done) });
  const client = connectTls({ socket: wire, servername: 'api.openai.com' });
  client.on('error', () => undefined);
  t.teardown(() => client.destroy());
  const flight = watch(tunnel);
  await flight.until(/^\x16\x03\x03/);
  clock.advance(9_000);
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
  t.equal(tunnel.destroyed, false);
  clock.advance(3_000);
  await flight.closed;
  while (listener.openConnections > 0) await new Promise(setImmediate);
  t.equal(listener.openTunnels, 0);
});
