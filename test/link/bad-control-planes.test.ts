// A link before peers that are not what they should be: each is told in words that say what is wrong, nothing is lost,
// and all is well again when the peer is.

import { writeFileSync } from 'node:fs';
import { createSecureServer, type ServerHttp2Stream } from 'node:http2';
import { createServer as createPlainServer, type Server } from 'node:net';
import { join } from 'node:path';
import { createServer as createTlsServer } from 'node:tls';
import t from 'tap';
import { EventBus } from '../../src/base/events/bus.ts';
import { loadProtocol, MAX_MESSAGE_BYTES } from '../../src/control-plane/proto/protocol.ts';
import { ProtocolError } from '../../src/control-plane/proto/protocol-error.ts';
import { requestCertificate } from '../../src/link/certificate-request.ts';
import { ContactBook } from '../../src/link/contact-book.ts';
import { GatewayLink } from '../../src/link/control-plane-link.ts';
import { enrol } from '../../src/link/enrol.ts';
import { EnrolmentError } from '../../src/link/enrolment-error.ts';
import { HashSubmission } from '../../src/link/hash-submission.ts';
import type { RemoteResource } from '../../src/link/link-ports.ts';
import { nodeIdentity } from '../../src/link/node-identity.ts';
import { RemoteKeys } from '../../src/link/remote-keys.ts';
import { OrgService } from '../../src/services/people/orgs.ts';
import { openEmbeddedStore } from '../../src/storage/embedded/open-embedded-store.ts';
import { makeRecord } from '../contract/store-under-test.ts';
import { type CertificateAndKey, LONG_OVER, testCa } from '../support/certificates.ts';
import { eventually } from '../support/child.ts';
import { PLACE_ORG } from '../support/control-plane-place.ts';
import { CuttableLink } from '../support/cuttable-link.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { heardLog } from '../support/heard-log.ts';
import { bootstrapTokenOf, LyingControlPlane } from '../support/lying-control-plane.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';
import { closeServer, listenOnFreePort, trackSockets } from '../support/tls-upstream.ts';

const PROTOCOL = loadProtocol();
const LIMIT_MS = 240_000;
const STEP_MS = 1_000;

/**
 * A link of a node that was enrolled, not started yet, with one record whose hash waits; `plane` is the true peer,
 * behind `wire`.
 */
async function place(t: HasTeardown) {
  const plane = await LyingControlPlane.start(t);
  const wire = await CuttableLink.start(t, plane.port);
  const clock = fakeClock(Date.now());
  const { log, lines } = heardLog();
  const store = await openEmbeddedStore({ dir: join(tempDir(t), 'store'), fsync: 'off', clock, log });
  t.teardown(() => store.close());
  const record = { ...makeRecord(1), committed_at: clock.now() };
  await store.commit(record, []);
  const orgs = await OrgService.open(store, true);
  const { csr, keyPem } = await requestCertificate(PLACE_ORG, 'node-1');
  const { certificate, ca_certificate: ca } = plane.certificateFor(csr, 'node-1');
  const steps: string[] = [];
  let version = '';
  const credentials: RemoteResource = {
    name: 'credentials',
    version: () => version,
    fetch: async (channel) => {
      version = (await channel.call('FetchCredentials', { cursor: '' })).version;
      steps.push('fetched');
    },
    erase: () => {
      version = '';
      steps.push('erased');
      return Promise.resolve();
    },
  };
  const link = new GatewayLink({
    protocol: PROTOCOL,
    address: wire.address,
    identity: nodeIdentity(keyPem, certificate, [ca]),
    contact: await ContactBook.open({ store, clock, log, orgs, orgId: PLACE_ORG, mayBelieveClock: () => true }),
    resources: [credentials],
    keys: await RemoteKeys.open(store),
    submission: await HashSubmission.open({ store, clock, log, events: new EventBus(log), orgId: PLACE_ORG }),
    keyDir: tempDir(t),
    idleMs: 30_000,
    clock,
    log,
  });
  t.teardown(() => link.close());
  const becomes = (what: string, holds: () => boolean) =>
    eventually(
      what,
      () => {
        clock.advance(STEP_MS);
        return holds() ? true : undefined;
      },
      LIMIT_MS,
    );
  return {
    plane,
    wire,
    clock,
    lines,
    steps,
    link,
    becomes,
    /** Whoever was connected is so no more. */
    lead: (port: number) => {
      wire.cut();
      wire.lead(port);
      wire.resume();
    },
    /** The true peer is there again: everything that waited is with it, once. */
    recovers: async () => {
      await becomes('connected', () => link.contact.status === 'connected');
      await becomes('the hash', () => plane.hashes.includes(record.record_hash));
      await becomes('the credentials', () => version === '1');
      return plane.hashes.length;
    },
  };
}

async function listening(t: HasTeardown, server: Server): Promise<number> {
  const sockets = trackSockets(server);
  const port = await listenOnFreePort(server);
  t.teardown(() => closeServer(server, sockets));
  return port;
}

/** Speaks HTTP/2 with this certificate, and does with each call what is said. */
function speaking(t: HasTeardown, { certPem, keyPem }: CertificateAndKey, does: (stream: ServerHttp2Stream) => void): Promise<number> {
  const server = createSecureServer({ cert: certPem, key: keyPem, minVersion: 'TLSv1.3' });
  server.on('stream', (stream) => {
    stream.on('error', () => undefined);
    does(stream);
  });
  server.on('sessionError', () => undefined);
  return listening(t, server);
}

/** Answers every call with these bytes, and that all went well. */
function answering(bytes: Buffer) {
  return (stream: ServerHttp2Stream): void => {
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
    stream.end(bytes);
  };
}

function framed(length: number, bytes: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(length, 1);
  return Buffer.concat([head, bytes]);
}

type Peer = (t: HasTeardown, plane: LyingControlPlane) => Promise<number>;

const own = (plane: LyingControlPlane): CertificateAndKey => plane.ca.leaf({ hosts: ['localhost', '127.0.0.1'] });
const answers =
  (bytes: Buffer): Peer =>
  (t, plane) =>
    speaking(t, own(plane), answering(bytes));

/** Each with what the log says of it. */
const PEERS: readonly (readonly [what: string, says: RegExp, peer: Peer])[] = [
  [
    'one whose certificate another CA of the same name has signed',
    /unable to verify|self-signed|signature/,
    (t) => speaking(t, testCa('Control plane').leaf({ hosts: ['127.0.0.1'] }), answering(Buffer.alloc(0))),
  ],
  [
    'one whose certificate has ended',
    /certificate has expired/,
    (t, { ca }) => speaking(t, ca.leaf({ hosts: ['127.0.0.1'], ...LONG_OVER }), answering(Buffer.alloc(0))),
  ],
  [
    'one whose certificate is for another host',
    /does not match certificate's altnames/,
    (t, { ca }) => speaking(t, ca.leaf({ hosts: ['localhost', '127.0.0.2'] }), answering(Buffer.alloc(0))),
  ],
  [
    'one that speaks TLS 1.2 alone',
    /protocol version|unsupported protocol|wrong version/i,
    (t, plane) => {
      const { certPem, keyPem } = own(plane);
      return listening(t, createTlsServer({ cert: certPem, key: keyPem, maxVersion: 'TLSv1.2', ALPNProtocols: ['h2'] }));
    },
  ],
  [
    'one that speaks no TLS',
    /wrong version number|packet length|EPROTO|SSL/i,
    (t) =>
      listening(
        t,
        createPlainServer((socket) => socket.on('error', () => undefined).end('HTTP/1.1 400 Bad Request\r\n\r\n')),
      ),
  ],
  [
    'one that speaks no HTTP/2',
    /./,
    (t, plane) => {
      const { certPem, keyPem } = own(plane);
      const server = createTlsServer({ cert: certPem, key: keyPem, ALPNProtocols: ['h2'] }, (socket) => {
        socket.on('error', () => undefined);
        socket.write(Buffer.alloc(1_000, 0xff));
      });
      return listening(t, server);
    },
  ],
  [
    'one whose answers are too large',
    /larger than max|max.*bytes/i,
    answers(framed(MAX_MESSAGE_BYTES + 1, Buffer.alloc(MAX_MESSAGE_BYTES + 1))),
  ],
  ['one whose answers are cut off', /./, answers(framed(1_000, Buffer.alloc(10)))],
  ['one whose answers are nonsense', /pars|index out of range|invalid|illegal/i, answers(framed(12, Buffer.alloc(12, 0xff)))],
  ['one that takes calls and answers none', /no answer in 10 s/, (t, plane) => speaking(t, own(plane), () => undefined)],
  ['one that takes connections and says nothing', /no answer in 10 s/, (t) => listening(t, createPlainServer())],
];

for (const [what, says, peer] of PEERS)
  t.test(`${what} is a lost contact that says why; all that waited reaches the true one`, async (t) => {
    const one = await place(t);
    const port = await peer(t, one.plane);
    one.lead(port);
    const started = one.link.start();
    await one.becomes('offline', () => one.link.contact.status === 'offline');
    await started;
    t.match(
      one.lines.find((line) => line.includes('no contact with the control plane')),
      says,
    );
    t.match([one.link.contact.posture, one.link.contact.revoked, one.plane.calls], ['normal', false, []]);
    one.lead(one.plane.port);
    t.equal(await one.recovers(), 1, 'no hash twice');
    t.same(one.steps, ['fetched'], 'and nothing was erased');
    t.ok(one.lines.some((line) => line.startsWith('info: connected to the control plane')));
  });

t.test('a peer that says that the node is revoked has what was given erased; when it was a mistake, it is fetched again', async (t) => {
  const one = await place(t);
  await one.link.start();
  t.equal(await one.recovers(), 1);
  const refuse = () => Promise.reject(new ProtocolError('PERMISSION_DENIED', 'the certificate of this node was revoked'));
  one.plane.instead = { CheckIn: refuse };
  one.link.checkInSoon();
  await one.becomes('erased', () => one.steps.includes('erased'));
  t.match([one.link.contact.status, one.link.contact.revoked, one.link.versions().credentials], ['offline', true, '']);
  t.ok(one.lines.some((line) => /^error: the control plane has revoked .* Enrol it anew/.test(line)));
  one.plane.instead = {};
  one.plane.changed('credentials');
  await one.recovers();
  t.match([one.link.contact.revoked, one.steps.at(-1)], [false, 'fetched']);
});

t.test('a peer that goes away in good order while a call is under way is come back to', async (t) => {
  const one = await place(t);
  await one.link.start();
  await one.recovers();
  const port = await speaking(t, own(one.plane), (stream) => {
    stream.session?.goaway(0);
    stream.session?.destroy();
  });
  one.lead(port);
  one.link.checkInSoon();
  await one.becomes('offline', () => one.link.contact.status === 'offline');
  one.lead(one.plane.port);
  t.equal(await one.recovers(), 1);
});

t.test('a peer that does not show its CA is not enrolled with where the token alone names it', async (t) => {
  const ca = testCa('Control plane');
  const calls: string[] = [];
  const port = await speaking(t, ca.leaf({ hosts: ['127.0.0.1'] }), (stream) => {
    calls.push('a call');
    stream.close();
  });
  const asked = enrol({
    protocol: PROTOCOL,
    address: { host: '127.0.0.1', port },
    orgId: PLACE_ORG,
    nodeId: 'node-1',
    token: bootstrapTokenOf(ca),
    caFile: undefined,
    clock: fakeClock(Date.now()),
  });
  const error = await asked.catch((failure: unknown) => failure);
  t.type(error, EnrolmentError);
  t.match(error, { fault: 'ca_not_shown', message: /does not show its CA: set GW_CP_CA_FILE/ });
  t.same(calls, [], 'the token was not shown');
});

t.test('a first start says of two mistakes in GW_CP_ADDR what is to be done, and not in the words of OpenSSL', async (t) => {
  const ca = testCa('Control plane');
  const plain = createPlainServer((socket) => socket.on('error', () => undefined).end('HTTP/1.1 400 Bad Request\r\n\r\n'));
  const sockets = trackSockets(plain);
  t.teardown(() => closeServer(plain, sockets));
  const caFile = join(tempDir(t), 'ca.pem');
  writeFileSync(caFile, ca.certPem);
  const otherName = await speaking(t, ca.leaf({ hosts: ['plane.example.com'] }), (stream) => stream.close());
  for (const [port, says] of [
    [await listenOnFreePort(plain), /cannot be reached: what answers there speaks no TLS \(the port for gateways is CP_GRPC_PORT/],
    [otherName, /cannot be reached: its certificate is not for 127\.0\.0\.1 \(start the control plane with CP_NAMES/],
  ] as const) {
    const place = { protocol: PROTOCOL, address: { host: '127.0.0.1', port }, orgId: PLACE_ORG, nodeId: 'node-1' };
    const asked = enrol({ ...place, token: bootstrapTokenOf(ca), caFile, clock: fakeClock(Date.now()) });
    const error = await asked.catch((failure: unknown) => failure);
    t.match(error, { fault: 'unreachable', message: says }, String(error));
    t.notMatch(String(error), /Resolution note|routines/);
  }
});

t.test('a first start waits for a control plane that asks it to come again', async (t) => {
  const plane = await LyingControlPlane.start(t);
  const enrolled = plane.enrolled.bind(plane);
  let refusals = 3;
  plane.enrolled = (csr, nodeId) => {
    if (refusals-- > 0) throw new ProtocolError('RESOURCE_EXHAUSTED', 'too many', { retryAfterMs: 1_000 });
    return enrolled(csr, nodeId);
  };
  const waits: number[] = [];
  const after = (ms: number, callback: () => void) => {
    if (ms === 1_000) setImmediate(callback);
    waits.push(ms);
    return () => undefined;
  };
  const { identity } = await enrol({
    protocol: PROTOCOL,
    address: { host: '127.0.0.1', port: plane.port },
    orgId: PLACE_ORG,
    nodeId: 'node-1',
    token: plane.bootstrapToken,
    caFile: undefined,
    clock: { ...fakeClock(Date.now()), after },
  });
  t.equal(identity.nodeId, 'node-1');
  t.equal(waits.filter((ms) => ms === 1_000).length, 3);
});
