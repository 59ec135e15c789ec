/*
 * Peers that are not what they should be: each is refused in words that say what is wrong, and nothing that was there
 * before is lost (decisions 13.1, 13.2, 13.7, 13.9).
 */
import { generateKeyPairSync, X509Certificate } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { type ClientHttp2Session, connect as connectHttp2, createSecureServer } from 'node:http2';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import t from 'tap';
import { loadProtocol, MAX_MESSAGE_BYTES } from '../../src/control-plane/proto/protocol.ts';
import { readNodeFile, writeNodeFile } from '../../src/link/node-file.ts';
import { testCa } from '../support/certificates.ts';
import { eventually, run } from '../support/child.ts';
import { ControlPlanePlace } from '../support/control-plane-place.ts';
import { CuttableLink } from '../support/cuttable-link.ts';
import { MAIN, startGatewayWith } from '../support/gateway-process.ts';
import { environmentFor, RECONNECT_MS, says, serves, upstreamOf } from '../support/lied-to-gateway.ts';
import { bootstrapTokenOf, LyingControlPlane } from '../support/lying-control-plane.ts';
import { becomes, type SaidHealth } from '../support/said-health.ts';
import { tempDir } from '../support/temp-dir.ts';
import { closeServer, listenOnFreePort, trackSockets } from '../support/tls-upstream.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

t.test('a control plane of another CA than the bootstrap token says is not enrolled with, and never sees the token', async (t) => {
  const plane = await LyingControlPlane.start(t);
  const env = await environmentFor(t, plane);
  const refused = await run(t, process.execPath, [MAIN, 'start'], {
    env: { ...env, GW_BOOTSTRAP_TOKEN: bootstrapTokenOf(testCa('Another')) },
  });
  t.equal(refused.code, 1);
  t.match(refused.stderr, /ca_mismatch|another CA|certificate authority/i);
  t.notOk(plane.calls.includes('Enroll'), 'the token was not shown');

  const file = join(tempDir(t), 'another.pem');
  writeFileSync(file, testCa('Another').certPem);
  const disagree = await run(t, process.execPath, [MAIN, 'start'], { env: { ...env, GW_CP_CA_FILE: file } });
  t.equal(disagree.code, 1);
  t.match(disagree.stderr, /ca_mismatch|GW_CP_CA_FILE/);
  t.notOk(plane.calls.includes('Enroll'));

  const right = join(tempDir(t), 'right.pem');
  writeFileSync(right, plane.ca.certPem);
  const gateway = await startGatewayWith(t, { ...env, GW_CP_CA_FILE: right });
  await becomes(gateway, { cp_status: 'connected' }, RECONNECT_MS);
});

t.test('an impostor on the way of a gateway that is enrolled is told nothing, and what waits for him reaches the true one', async (t) => {
  const plane = await LyingControlPlane.start(t);
  const impostor = await LyingControlPlane.start(t, testCa('Control plane'));
  const link = await CuttableLink.start(t, plane.port);
  const gateway = await startGatewayWith(t, await environmentFor(t, plane, link.port));
  await becomes(gateway, { cp_status: 'connected' }, RECONNECT_MS);
  link.cut();
  link.lead(impostor.port);
  link.resume();
  const before = link.accepted;
  const hash = await serves(t, gateway);
  await eventually('a connection to the impostor', () => (link.accepted > before ? true : undefined), RECONNECT_MS);
  await becomes(gateway, { cp_status: 'offline' }, RECONNECT_MS);
  t.strictSame(impostor.calls, []);
  link.cut();
  link.lead(plane.port);
  link.resume();
  await eventually('the hash at the true one', () => (plane.hashes.includes(hash) ? true : undefined), RECONNECT_MS);
  await becomes(gateway, { cp_status: 'connected' }, RECONNECT_MS);
});

t.test('a proof of another leaf, and a root that a stranger has signed, are not handed on as proofs', async (t) => {
  const plane = await LyingControlPlane.start(t);
  const gateway = await startGatewayWith(t, await environmentFor(t, plane));
  await becomes(gateway, { cp_status: 'connected' }, RECONNECT_MS);
  const other = await serves(t, gateway);
  const stranger = generateKeyPairSync('ed25519').privateKey;
  const proofs: Readonly<Record<string, (hash: string) => string>> = {
    'of another leaf': () => plane.proofOf(other),
    'of another leaf under its name': (hash) => plane.proofOf(other).replace(`"record_hash":"${other}"`, `"record_hash":"${hash}"`),
    'signed by a stranger': (hash) => plane.proofOf(hash, [hash], plane.root([hash], stranger)),
    'signed by a key that is not known': (hash) => plane.proofOf(hash, [hash], plane.root([hash], stranger, 'ledger-9')),
    'that is none': () => '{"schema":"gw.inclusion_proof.v1"}',
    'cut off': (hash) => plane.proofOf(hash).slice(0, 100),
  };
  for (const [name, proofOf] of Object.entries(proofs)) {
    const hash = await serves(t, gateway);
    await eventually('the hash arrived', () => (plane.hashes.includes(hash) ? true : undefined));
    plane.instead = { FetchProof: () => Promise.resolve({ org: plane.state(), status: 'verified', inclusion_proof: proofOf(hash) }) };
    const { body } = await gateway.admin('GET', `/v1/verify/${hash}`);
    t.not((body as SaidHealth)['status'], 'verified', name);
    t.notOk((body as SaidHealth)['inclusion_proof'], name);
    plane.instead = {};
    const { status, body: now } = await gateway.admin('GET', `/v1/verify/${hash}`);
    t.match({ status, now }, { status: 200, now: { status: 'verified', record_hash: hash } }, `${name}: the true one is taken`);
  }
});

t.test('an answer that is too large, cut off or nonsense is a failed call, and no more', async (t) => {
  const plane = await LyingControlPlane.start(t);
  const link = await CuttableLink.start(t, plane.port);
  const gateway = await startGatewayWith(t, await environmentFor(t, plane, link.port));
  await becomes(gateway, { cp_status: 'connected', bundle_id: 'small-models' }, RECONNECT_MS);
  const { certPem, keyPem } = plane.ca.leaf({ hosts: ['localhost', '127.0.0.1'] });
  const frame = (length: number, bytes: Buffer): Buffer => {
    const head = Buffer.alloc(5);
    head.writeUInt32BE(length, 1);
    return Buffer.concat([head, bytes]);
  };
  const answers: Readonly<Record<string, Buffer>> = {
    'too large': frame(MAX_MESSAGE_BYTES + 1, Buffer.alloc(MAX_MESSAGE_BYTES + 1)),
    'cut off': frame(1_000, Buffer.alloc(10)),
    nonsense: frame(12, Buffer.from('\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff', 'latin1')),
    empty: Buffer.alloc(0),
  };
  for (const [name, bytes] of Object.entries(answers)) {
    let asked = 0;
    const server = createSecureServer({ cert: certPem, key: keyPem, minVersion: 'TLSv1.3' });
    server.on('stream', (stream) => {
      asked += 1;
      stream.on('error', () => undefined);
      stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
      stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
      stream.end(bytes);
    });
    server.on('sessionError', () => undefined);
    const port = await listenOnFreePort(server);
    const sockets = trackSockets(server);
    t.teardown(() => closeServer(server, sockets));
    link.cut();
    link.lead(port);
    link.resume();
    const hash = await serves(t, gateway);
    await eventually(`${name}: it is asked`, () => (asked > 0 ? true : undefined), RECONNECT_MS);
    await becomes(gateway, { cp_status: 'offline' }, RECONNECT_MS);
    await serves(t, gateway);
    link.cut();
    link.lead(plane.port);
    link.resume();
    await eventually(`${name}: the hash at the true one`, () => (plane.hashes.includes(hash) ? true : undefined), RECONNECT_MS);
    await becomes(gateway, { cp_status: 'connected', bundle_id: 'small-models' }, RECONNECT_MS);
  }
});

t.test('a certificate that has expired asks for a new bootstrap token and says how; calls are served all the same', async (t) => {
  const plane = await LyingControlPlane.start(t);
  plane.instead = { Renew: () => Promise.reject(new Error('not today')) };
  const env = await environmentFor(t, plane);
  const gateway = await startGatewayWith(t, env);
  await becomes(gateway, { cp_status: 'connected', bundle_id: 'small-models' }, RECONNECT_MS);
  gateway.child.kill('SIGTERM');
  await gateway.child.ended;
  // As if it had been off until its certificate had ended.
  plane.certificatesEnd = new Date(Date.now() - HOUR);
  const keys = String(env['GW_KEY_DIR']);
  const identity = await readNodeFile(keys);
  const [request] = plane.requests;
  if (identity === undefined || request === undefined) throw new Error('the gateway did not enrol');
  const { certificate } = plane.certificateFor(request.csr, request.nodeId);
  await writeNodeFile(keys, { ...identity, certificatePem: new X509Certificate(certificate).toString() });
  const again = await startGatewayWith(t, { ...env, GW_BOOTSTRAP_TOKEN: '' });
  const hash = await serves(t, again);
  await becomes(again, { cp_status: 'offline' }, RECONNECT_MS);
  await says(again, /certificate of this node ended at/);
  await says(again, /GW_BOOTSTRAP_TOKEN|bootstrap token/);
  again.child.kill('SIGTERM');
  await again.child.ended;
  plane.certificatesEnd = new Date(Date.now() + 90 * DAY);
  plane.instead = {};
  const renewed = await startGatewayWith(t, { ...env, GW_BOOTSTRAP_TOKEN: bootstrapTokenOf(plane.ca) });
  await becomes(renewed, { cp_status: 'connected' }, RECONNECT_MS);
  await eventually('what waited', () => (plane.hashes.includes(hash) ? true : undefined), RECONNECT_MS);
});

/** PEM texts below a folder. */
function pemBelow(folder: string, kind: RegExp): string {
  for (const file of readdirSync(folder)) {
    const text = readFileSync(join(folder, file), 'utf8');
    const found = kind.exec(text)?.[0];
    if (found !== undefined) return found;
  }
  throw new Error(`nothing of ${String(kind)} in ${folder}`);
}

/** Sends one gRPC request as it is written. */
function rawCall(session: ClientHttp2Session, path: string, body: Buffer): Promise<{ readonly status: string; readonly message: string }> {
  return new Promise((resolve) => {
    const stream = session.request({ ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers' });
    let status = '';
    let message = '';
    const read = (head: Readonly<Record<string, unknown>>): void => {
      if (head['grpc-status'] === undefined) return;
      status = String(head['grpc-status']);
      message = decodeURIComponent(String(head['grpc-message'] ?? ''));
    };
    stream.on('response', read);
    stream.on('trailers', read);
    stream.on('error', () => undefined);
    stream.resume();
    stream.on('close', () => resolve({ status, message }));
    stream.end(body);
  });
}

t.test('a control plane refuses messages that are too large, cut off or nonsense, and those of nodes that it does not know', async (t) => {
  const place = await ControlPlanePlace.start(t);
  const gateway = await place.gateway('node-1', await upstreamOf(t));
  await becomes(gateway, { cp_status: 'connected' }, RECONNECT_MS);
  const keys = String(gateway.env['GW_KEY_DIR']);
  const key = pemBelow(keys, /-----BEGIN (?:EC )?PRIVATE KEY-----[\s\S]*?-----END (?:EC )?PRIVATE KEY-----/);
  const caPem = await (await fetch(`${place.controlPlane.url}/v1/ca.crt`)).text();
  const certificates = readdirSync(keys).flatMap(
    (file) => readFileSync(join(keys, file), 'utf8').match(/-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g) ?? [],
  );
  const certificate = certificates.find((pem) => pem.trim() !== caPem.trim()) ?? '';
  const session = (identity: { readonly cert?: string; readonly key?: string }): ClientHttp2Session => {
    const socket = connectTls({ port: place.controlPlane.grpcPort, host: '127.0.0.1', ca: caPem, ALPNProtocols: ['h2'], ...identity });
    const made = connectHttp2(`https://127.0.0.1:${place.controlPlane.grpcPort}`, { createConnection: () => socket });
    made.on('error', () => undefined);
    t.teardown(() => made.destroy());
    return made;
  };
  const path = loadProtocol().controlPlane.definition['FetchKeys']?.path ?? '';
  const known = { cert: certificate, key };
  const framed = (length: number, bytes: Buffer): Buffer => {
    const head = Buffer.alloc(5);
    head.writeUInt32BE(length, 1);
    return Buffer.concat([head, bytes]);
  };
  t.equal((await rawCall(session(known), path, framed(0, Buffer.alloc(0)))).status, '0', 'the smallest one is answered');
  t.equal((await rawCall(session(known), path, framed(MAX_MESSAGE_BYTES + 1, Buffer.alloc(MAX_MESSAGE_BYTES + 1)))).status, '8');
  t.not((await rawCall(session(known), path, framed(500, Buffer.alloc(3)))).status, '0');
  t.not((await rawCall(session(known), path, framed(4, Buffer.from([0xff, 0xff, 0xff, 0xff])))).status, '0');
  t.equal((await rawCall(session({}), path, framed(0, Buffer.alloc(0)))).status, '16', 'nobody');
  const strange = testCa('Another').leaf({ hosts: ['node-1'], purpose: 'client' });
  const stranger = { cert: strange.certPem, key: strange.keyPem };
  t.equal((await rawCall(session(stranger), path, framed(0, Buffer.alloc(0)))).status, '16', 'one of another CA');
  await place.does('DELETE', '/nodes/node-1');
  t.equal((await rawCall(session(known), path, framed(0, Buffer.alloc(0)))).status, '7', 'one that was revoked');
  const other = await place.gateway('node-2', await upstreamOf(t));
  await becomes(other, { cp_status: 'connected' }, RECONNECT_MS);
  const hash = await serves(t, other);
  await eventually('it goes on for others', async () => {
    const answer = (await other.admin('GET', `/v1/verify/${hash}`)).body as SaidHealth;
    return answer['status'] === 'verified' ? true : undefined;
  });
});

t.test('of two that show one bootstrap token at once one is enrolled', async (t) => {
  const place = await ControlPlanePlace.start(t);
  const token = await place.bootstrapToken();
  const upstream = await upstreamOf(t);
  const environments = await Promise.all(
    ['node-1', 'node-2', 'node-3'].map(async (node) => ({
      ...(await place.gatewayEnvironment(node, upstream)),
      GW_BOOTSTRAP_TOKEN: token,
    })),
  );
  const outcomes = await Promise.allSettled(environments.map((env) => startGatewayWith(t, env)));
  t.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 1);
  for (const outcome of outcomes) if (outcome.status === 'rejected') t.match(String(outcome.reason), /bootstrap token/i);
  t.equal((await place.listOf('/nodes')).length, 1);
});
