// A control plane that is killed, restarted, or started twice: what it has said stays true, and nothing is half done.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { sha256Hex } from '../../src/base/lib/sha256.ts';
import { ProtocolClient } from '../../src/control-plane/proto/protocol-client.ts';
import { eventually, launch } from '../support/child.ts';
import { faultOfCall, NOTHING_YET, newRequest, PROTOCOL, runControlPlane, TIMEOUT_MS } from '../support/control-plane.ts';
import { fakeClock, runningClock } from '../support/fake-clock.ts';
import { killedAtWrite } from '../support/killed-at-write.ts';
import { askPublicly, LedgerJudge } from '../support/ledger-judge.ts';
import { gw } from '../support/run-gw.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';

const PROGRAM = fileURLToPath(new URL('../support/control-plane-program.js', import.meta.url));
const NODE = 'the-doomed-node';

interface Place {
  readonly port: number;
  readonly ca: string;
  readonly token: string;
}

async function launchControlPlane(t: HasTeardown, dataDir: string, options: readonly string[] = []) {
  const child = launch(t, process.execPath, [...options, PROGRAM, dataDir]);
  await eventually('where the control plane is', () => (child.stdout.includes('\n') ? child : undefined));
  const place = JSON.parse(child.stdout) as Place;
  const client = new ProtocolClient({ address: `127.0.0.1:${place.port}`, ca: place.ca, identity: undefined, clock: runningClock });
  t.teardown(() => client.close());
  return { child, place, client };
}

function enrolment(token: string) {
  return { bootstrap_token: token, org_id: 'acme', node_id: NODE, csr: newRequest().csr, gateway_version: '' };
}

// Holds: nodes-get-their-own-org
t.test('after a kill a token is used up exactly when its node is enrolled, and the entry of the audit trail is there', async (t) => {
  for (const when of ['before', 'after'] as const) {
    const dataDir = tempDir(t);
    const { child, place, client } = await launchControlPlane(t, dataDir, ['--import', killedAtWrite(NODE, 1, when)]);
    t.match(await faultOfCall(client.call(PROTOCOL.enrolment, 'Enroll', enrolment(place.token), TIMEOUT_MS)), /^UNAVAILABLE: /);
    t.match(await child.ended, { signal: 'SIGKILL' });
    const { plane, client: again } = await runControlPlane(t, {}, { dataDir, secretsKey: undefined });
    const enrolled = when === 'after' ? 1 : 0;
    t.equal((await plane.state.nodes.list('acme')).length, enrolled, when);
    t.equal((await plane.state.audit.page({ operation: 'protocol.enroll' }, { limit: 9, after: undefined })).items.length, enrolled);
    const second = await faultOfCall(again().call(PROTOCOL.enrolment, 'Enroll', enrolment(place.token), TIMEOUT_MS));
    t.match(second, when === 'after' ? /^UNAUTHENTICATED: / : /^none$/);
  }
});

t.test('a declared restore is taken up once, whenever the control plane is killed', async (t) => {
  for (const when of ['before', 'after'] as const) {
    const dataDir = tempDir(t);
    const first = await runControlPlane(t, {}, { dataDir, secretsKey: undefined, adminToken: undefined });
    const { client } = await first.enrol('acme', 'node-1');
    const ledger = ({ plane }: typeof first) => LedgerJudge.read(askPublicly(`http://127.0.0.1:${plane.httpPort}`), 'acme');
    await client.call(PROTOCOL.controlPlane, 'SubmitHashes', { hashes: [Buffer.from(sha256Hex('a record'), 'hex')] }, TIMEOUT_MS);
    await eventually('a root', async () => (await ledger(first)).leaves > 0 || undefined);
    await first.plane.stop();
    t.match(await gw(['control-plane', 'restored', '--yes'], { env: { CP_DATA_DIR: dataDir } }), { code: 0 });
    const child = launch(t, process.execPath, ['--import', killedAtWrite('"restored"', 1, when), PROGRAM, dataDir]);
    t.match(await child.ended, { signal: 'SIGKILL' });
    const second = await runControlPlane(t, {}, { dataDir, secretsKey: undefined, adminToken: undefined });
    const { roots, leaves } = await ledger(second);
    t.match(roots, [{ sequence: 1 }, { restored: { epoch: 1, from_sequence: 1 } }], when);
    t.equal(leaves, 2, 'the restore is one leaf');
    await second.plane.stop();
    t.match(await gw(['control-plane', 'restored', '--yes'], { env: { CP_DATA_DIR: dataDir } }), {
      code: 1,
      err: /declared already, at .*, and nothing was signed since: there is nothing to cut/,
    });
  }
});

t.test('a second process on the same folder is told so and changes nothing; a signal ends the first one', async (t) => {
  const dataDir = tempDir(t);
  const { child, client, place } = await launchControlPlane(t, dataDir);
  const before = readFileSync(join(dataDir, 'ca.pem'), 'utf8');
  const second = await runControlPlane(t, {}, { dataDir }).catch((error: unknown) => error);
  t.match(second, { name: 'StoreError', code: 'in_use', message: `in use by another control plane (pid ${child.pid})` });
  t.match(second, { message: '(CP_DATA_DIR)' });
  t.equal(readFileSync(join(dataDir, 'ca.pem'), 'utf8'), before);
  t.equal(await faultOfCall(client.call(PROTOCOL.enrolment, 'Enroll', enrolment(place.token), TIMEOUT_MS)), 'none');
  client.close();
  child.kill('SIGTERM');
  t.match(await child.ended, { code: 0, signal: null, stderr: '' });
});

t.test('keys, nodes, versions and hashes that wait are there again after a restart', async (t) => {
  const clock = fakeClock(Date.now());
  const first = await runControlPlane(t, { clock });
  const { dataDir, commit } = first;
  const { client, identity } = await first.enrol('acme', 'node-1');
  await first.plane.state.entities.put('acme', 'workloads', 'w', {}, commit);
  const versions = { ...NOTHING_YET, ...first.plane.state.presentVersions('acme') };
  await client.call(PROTOCOL.controlPlane, 'CheckIn', { versions, gateway_version: '1', policy_sequence: '0', policy_kid: '' }, TIMEOUT_MS);
  await client.call(PROTOCOL.controlPlane, 'SubmitHashes', { hashes: [Buffer.from(sha256Hex('a record'), 'hex')] }, TIMEOUT_MS);
  t.equal(first.plane.counts.pendingHashes, 1);
  const [keys, ca] = [first.plane.state.keys(), first.plane.state.caCertificate];
  await first.plane.stop();
  t.match(await faultOfCall(client.call(PROTOCOL.controlPlane, 'FetchKeys', {}, TIMEOUT_MS)), /^UNAVAILABLE: /);
  const { plane, client: clientOf } = await runControlPlane(t, { clock }, { dataDir });
  t.same([plane.state.keys(), plane.state.caCertificate], [keys, ca]);
  const { org } = await clientOf(identity).call(PROTOCOL.controlPlane, 'FetchKeys', {}, TIMEOUT_MS);
  t.notOk(Object.values(org?.stale ?? {}).includes(true), 'what a node has said is remembered');
  while (plane.counts.pendingHashes > 0) {
    clock.advance(1_000);
    await new Promise((resolve) => setImmediate(resolve));
  }
  t.equal((await plane.state.ledger.roots('acme', 0, 10)).length, 1);
});

t.test('the certificate of the server is renewed 30 days before its end, while it runs', async (t) => {
  const clock = fakeClock(Date.now() - 61 * 86_400_000);
  const { plane, enrol } = await runControlPlane(t, { clock });
  const expires = async () => {
    const answer = await fetch(`http://127.0.0.1:${plane.httpPort}/healthz`);
    return Date.parse(((await answer.json()) as { certificate_expires_at: string }).certificate_expires_at);
  };
  const before = await expires();
  for (let day = 0; day < 61; day++) clock.advance(86_400_000);
  while ((await expires()) === before) await new Promise((resolve) => setImmediate(resolve));
  t.ok((await expires()) > before + 59 * 86_400_000);
  t.ok((await enrol('acme', 'node-1')).answer.certificate.length > 0, 'whose new connections see the new one');
});
