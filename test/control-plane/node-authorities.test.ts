// The CA of nodes gets a successor (decision 13.20): nobody is cut off who was there in time, nor who was away.
import { X509Certificate } from 'node:crypto';
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { silentLogger } from '../../src/base/lib/log.ts';
import type { Authority } from '../../src/base/model/arrival.ts';
import { NodeAuthority } from '../../src/control-plane/pki/node-authority.ts';
import { CertificateRenewal } from '../../src/link/certificate-renewal.ts';
import { ControlPlaneChannel } from '../../src/link/control-plane-channel.ts';
import { enrol } from '../../src/link/enrol.ts';
import { identityAtStart } from '../../src/link/identity-at-start.ts';
import { readNodeFile, writeNodeFile } from '../../src/link/node-file.ts';
import { authoritiesOf, type NodeIdentity } from '../../src/link/node-identity.ts';
import { RemoteKeys } from '../../src/link/remote-keys.ts';
import { openEmbeddedStore } from '../../src/storage/embedded/open-embedded-store.ts';
import { run } from '../support/child.ts';
import { NOTHING_YET, PROTOCOL, type RunningControlPlane, runControlPlane } from '../support/control-plane.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { heardLog } from '../support/heard-log.ts';
import { skipWithout } from '../support/peers.ts';
import { tempDir } from '../support/temp-dir.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
type Clock = ReturnType<typeof fakeClock>;

/** The gateway's side of a node: its file, its channel, what it fetches of keys and CAs. */
async function startNode(t: Test, running: RunningControlPlane, clock: Clock, nodeId: string) {
  const { plane, commit } = running;
  const address: Authority = { host: '127.0.0.1', port: plane.grpcPort };
  const options = { protocol: PROTOCOL, address, orgId: 'acme', nodeId, caFile: undefined, clock };
  const { token } = await plane.state.tokens.issue('acme', 3_600, commit);
  const { identity } = await enrol({ ...options, token });
  const dir = tempDir(t);
  await writeNodeFile(dir, identity);
  const store = await openEmbeddedStore({ dir: join(tempDir(t), 'store'), fsync: 'off', clock, log: silentLogger });
  t.teardown(() => store.close());
  let keys: RemoteKeys;
  const { log, lines } = heardLog();
  const link = async () => {
    keys = await RemoteKeys.open(store);
    const kept = (await readNodeFile(dir)) as NodeIdentity;
    const listener = { heard: () => Promise.resolve(), broke: () => undefined };
    const channel = new ControlPlaneChannel({
      protocol: PROTOCOL,
      address: `127.0.0.1:${plane.grpcPort}`,
      identity: kept,
      clock,
      listener,
    });
    const renewal = new CertificateRenewal({ channel, dir, identity: kept, signingCa: keys.signingCa, clock, log });
    keys.trustBy((cas) => renewal.trust(cas));
    renewal.start();
    t.teardown(async () => {
      await renewal.close();
      channel.close();
    });
    return { channel, renewal };
  };
  let { channel, renewal } = await link();
  return {
    dir,
    get identity() {
      return renewal.identity;
    },
    /** Renewals that failed. */
    failed: () => lines.filter((line) => line.includes('could not be renewed')).length,
    /** As after a restart of the gateway. */
    restart: async () => {
      await renewal.close();
      channel.close();
      ({ channel, renewal } = await link());
    },
    fetch: async () => {
      await keys.fetch(channel);
      const versions = { ...NOTHING_YET, keys: keys.version() };
      await channel.call('CheckIn', { versions, gateway_version: '1', policy_sequence: '0', policy_kid: '' });
    },
    startWith: (caFile: string) =>
      identityAtStart({ ...options, caFile, keyDir: dir, token: undefined, revoked: false, log: silentLogger }),
  };
}

function issuerOf({ certificatePem, caPem }: NodeIdentity): string {
  const own = new X509Certificate(certificatePem);
  const ca = authoritiesOf({ caPem }).find((one) => own.verify(new X509Certificate(one).publicKey)) ?? '';
  return new X509Certificate(ca).subject;
}

/** The hour passes within which a certificate of a former CA is renewed; a try that failed is made again later. */
async function renewed(node: Awaited<ReturnType<typeof startNode>>, before: string, clock: Clock): Promise<void> {
  clock.advance(HOUR_MS);
  for (let failed = node.failed(); node.identity.certificatePem === before; ) {
    if (node.failed() > failed) clock.advance(HOUR_MS);
    failed = node.failed();
    await new Promise((resolve) => setImmediate(resolve));
  }
}

async function place(t: Test, dataDir = tempDir(t)) {
  // Ports look at the real time: all of it is before now.
  const clock = fakeClock(Date.now() - DAY_MS);
  const running = await runControlPlane(t, { clock }, { dataDir });
  if (running.plane.state.registers.register.find('acme') === undefined) await running.plane.state.orgs.put('acme', {}, running.commit);
  return { clock, running, dataDir };
}

t.test('nodes trust the next CA before it signs, are renewed by it, and one that was away is still known', async (t) => {
  const { clock, running } = await place(t);
  const { plane, commit } = running;
  const { rotations } = plane.state;
  const [here, away] = [await startNode(t, running, clock, 'here'), await startNode(t, running, clock, 'away')];
  const first = issuerOf(here.identity);
  const switchAt = clock.now() + 6 * HOUR_MS;
  t.match(await rotations.rotate('ca', switchAt, commit), { unaware_nodes: 2, keys: [{ state: 'current' }, { state: 'next' }] });
  await t.rejects(rotations.rotate('ca', switchAt, commit), { code: 'conflict' });
  t.equal(plane.state.caCertificate.match(/BEGIN CERTIFICATE/g)?.length, 2);
  await here.fetch();
  t.equal(authoritiesOf(here.identity).length, 2);
  t.equal(issuerOf(here.identity), first, 'nothing is renewed before its time');
  await here.fetch();
  t.match(await rotations.status('ca'), { unaware_nodes: 1, nodes_on_former: 0, nodes: [{ node_id: 'away' }] });
  await t.rejects(rotations.finish('ca', true, commit), { code: 'conflict', message: /no former CA/ });
  clock.advance(6 * HOUR_MS);
  t.match(await rotations.status('ca'), { keys: [{ state: 'current' }, { state: 'former' }], nodes_on_former: 2, switch_at: null });
  await t.rejects(rotations.cancel('ca', commit), { code: 'conflict' });
  await here.fetch();
  await renewed(here, here.identity.certificatePem, clock);
  t.equal(
    new X509Certificate((await readNodeFile(here.dir))?.certificatePem ?? '').issuer,
    issuerOf(here.identity),
    'and it is in its file',
  );
  await here.fetch();
  const young = await startNode(t, running, clock, 'young');
  t.equal(issuerOf(young.identity), issuerOf(here.identity), 'a new node has a certificate of it at once');
  await young.fetch();
  t.match(await rotations.status('ca'), { nodes_on_former: 1, unaware_nodes: 1, nodes: [{ node_id: 'away' }] });
  await t.rejects(rotations.finish('ca', false, commit), { code: 'conflict', message: /away of acme/ });
  await away.restart();
  await away.fetch();
  await renewed(away, away.identity.certificatePem, clock);
  await away.fetch();
  const caFile = join(tempDir(t), 'ca.crt');
  writeFileSync(caFile, plane.state.caCertificate);
  const oldFile = join(tempDir(t), 'ca.crt');
  writeFileSync(oldFile, plane.state.authorities.ofServer.certificatePem);
  t.match(await rotations.finish('ca', false, commit), { keys: [{ state: 'current' }], nodes_on_former: 0 });
  t.equal(plane.state.caCertificate.match(/BEGIN CERTIFICATE/g)?.length, 1);
  for (const node of [here, away, young]) {
    await node.restart();
    await node.fetch();
    t.equal(authoritiesOf(node.identity).length, 1, 'the former CA is trusted no longer');
    await node.restart();
    await node.fetch();
    for (const file of [caFile, oldFile]) t.ok(await node.startWith(file), 'a file of the former CA keeps no node from starting');
  }
  const late = await startNode(t, running, clock, 'late');
  t.equal(issuerOf(late.identity), issuerOf(here.identity));
  const stranger = await NodeAuthority.open(join(tempDir(t), 'ca.pem'), clock);
  writeFileSync(oldFile, stranger.certificatePem);
  await t.rejects(late.startWith(oldFile), { message: /ca_mismatch/ });
});

t.test('what was confirmed is done: a node that was not renewed in time has to be enrolled anew', async (t) => {
  const { clock, running } = await place(t);
  const { plane, commit } = running;
  const node = await startNode(t, running, clock, 'node-1');
  await node.fetch();
  await plane.state.rotations.rotate('ca', clock.now(), commit);
  await t.rejects(plane.state.rotations.finish('ca', false, commit), { code: 'conflict' });
  await plane.state.rotations.finish('ca', true, commit);
  await node.restart();
  await t.rejects(node.fetch());
  t.ok(await startNode(t, running, clock, 'node-1'), 'which works');
});

t.test('openssl says the same of every certificate', { skip: skipWithout(['openssl']) }, async (t) => {
  const { clock, running } = await place(t);
  const { plane, commit } = running;
  const node = await startNode(t, running, clock, 'node-1');
  await node.fetch();
  const dir = tempDir(t);
  const verify = async (ca: string, certificate: string) => {
    writeFileSync(join(dir, 'ca.pem'), ca);
    writeFileSync(join(dir, 'one.pem'), certificate);
    const { code } = await run(t, 'openssl', ['verify', '-CAfile', join(dir, 'ca.pem'), '-purpose', 'sslclient', join(dir, 'one.pem')]);
    return code === 0;
  };
  const former = plane.state.caCertificate;
  const before = node.identity.certificatePem;
  await plane.state.rotations.rotate('ca', clock.now(), commit);
  const both = plane.state.caCertificate;
  await node.fetch();
  await renewed(node, before, clock);
  const after = node.identity.certificatePem;
  t.same([await verify(former, before), await verify(former, after)], [true, false]);
  t.same([await verify(both, before), await verify(both, after)], [true, true]);
  await node.fetch();
  await plane.state.rotations.finish('ca', false, commit);
  t.same([await verify(plane.state.caCertificate, before), await verify(plane.state.caCertificate, after)], [false, true]);
});

t.test('an end of the process between any two steps leaves a folder that starts', async (t) => {
  const dataDir = tempDir(t);
  const [file, next] = [join(dataDir, 'ca.pem'), join(dataDir, 'ca.next.pem')];
  let { clock, running } = await place(t, dataDir);
  const kids = () => running.plane.state.authorities.shown().map(({ kid, state }) => `${state} ${kid}`);
  const start = async () => {
    running = await runControlPlane(t, { clock }, { dataDir });
  };
  const [first] = kids();
  await running.plane.stop();
  // A next CA was made, and not stored that there is one.
  await NodeAuthority.open(next, clock);
  await start();
  t.same(kids(), [first]);
  t.notOk(existsSync(next));
  await running.plane.state.rotations.rotate('ca', clock.now() + HOUR_MS, running.commit);
  const second = kids()[1]?.replace('next', 'current');
  await running.plane.stop();
  await start();
  t.equal(kids().length, 2);
  clock.advance(HOUR_MS);
  await running.plane.stop();
  await start();
  t.same(kids(), [second, first?.replace('current', 'former')], 'the switch needs no step of its own');
  // The end of the rotation was stored, and the file not renamed.
  const old = readFileSync(file);
  await running.plane.state.rotations.finish('ca', true, running.commit);
  await running.plane.stop();
  renameSync(file, next);
  writeFileSync(file, old, { mode: 0o600 });
  await start();
  t.same(kids(), [second]);
  t.notOk(existsSync(next));
  // The next CA was lost, though nodes may have certificates of it.
  await running.plane.state.rotations.rotate('ca', clock.now(), running.commit);
  await running.plane.stop();
  renameSync(next, `${next}.away`);
  await t.rejects(start(), { message: /the file of the next CA \(ca-.*\) is gone/ });
});

t.test('a gateway that starts again between hearing of the switch and its renewal is renewed', async (t) => {
  const { clock, running } = await place(t);
  const { plane, commit } = running;
  const node = await startNode(t, running, clock, 'node-1');
  await node.fetch();
  const before = node.identity.certificatePem;
  await plane.state.rotations.rotate('ca', clock.now(), commit);
  await node.fetch();
  t.equal(node.identity.certificatePem, before, 'which takes up to an hour');
  await node.restart();
  await renewed(node, before, clock);
  t.match(await plane.state.rotations.status('ca'), { nodes_on_former: 1 }, 'what was issued may not have been written');
  await node.fetch();
  t.match(await plane.state.rotations.status('ca'), { nodes_on_former: 0 }, 'what was shown was');
});

t.test('nodes whose certificates have ended keep nobody waiting', async (t) => {
  const { clock, running } = await place(t);
  const { plane, commit, enrol: enrolled } = running;
  await enrolled('acme', 'gone');
  await plane.state.rotations.rotate('ca', clock.now(), commit);
  t.match(await plane.state.rotations.status('ca'), { nodes_on_former: 1, unaware_nodes: 1 });
  clock.advance(400 * DAY_MS);
  t.match(await plane.state.rotations.status('ca'), { nodes_on_former: 0, unaware_nodes: 0, nodes: [] });
  await plane.state.rotations.finish('ca', false, commit);
});

t.test('a next CA of which a node has a certificate is not given up, though the clock was set back', async (t) => {
  const { clock, running } = await place(t);
  const { plane, commit } = running;
  await plane.state.rotations.rotate('ca', clock.now() + HOUR_MS, commit);
  clock.advance(HOUR_MS);
  await startNode(t, running, clock, 'young');
  clock.set(clock.now() - HOUR_MS);
  await t.rejects(plane.state.rotations.cancel('ca', commit), { code: 'conflict', message: /young of acme/ });
  await plane.state.nodes.revoke('acme', 'young', commit);
  t.equal((await plane.state.rotations.cancel('ca', commit)).keys.length, 1);
});

t.test('no certificate is issued by the former CA while the rotation is finished', async (t) => {
  const { clock, running } = await place(t);
  const { state } = running.plane;
  await state.rotations.rotate('ca', clock.now(), running.commit);
  const next = state.authorities.ofNodes.kid;
  const { authorities } = state;
  const seen = new Set<string>();
  let over = false;
  const finished = state.rotations.finish('ca', true, running.commit).finally(() => {
    over = true;
  });
  // The files are read meanwhile, which gives way to this.
  while (!over) {
    seen.add(authorities.ofNodes.kid);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await finished;
  t.same([...seen], [next]);
});
