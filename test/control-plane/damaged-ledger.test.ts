// What becomes of one org's ledger is no matter of the others, nor of the start; and what one node hands in is bounded.
import { randomBytes } from 'node:crypto';
import { copyFileSync, existsSync, mkdirSync, rmSync, statSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { GatewayError } from '../../src/base/lib/gateway-error.ts';
import { CHANGE_RATES, HASH_RATES, NodeRates } from '../../src/control-plane/calls/node-rates.ts';
import { ProtocolError } from '../../src/control-plane/proto/protocol-error.ts';
import { faultOfCall, NOTHING_YET, PROTOCOL, runControlPlane, TIMEOUT_MS } from '../support/control-plane.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { heardLog } from '../support/heard-log.ts';

const CHECK_IN = { versions: NOTHING_YET, gateway_version: '0.0.0', policy_sequence: '0', policy_kid: '' };
const HASHES = Array.from({ length: 300 }, () => randomBytes(32));

async function until(what: () => boolean): Promise<void> {
  while (!what()) await new Promise((resolve) => setImmediate(resolve));
}

// Holds: one-damaged-ledger-stops-nobody
t.test('a ledger file that is cut off, or no file, sets its org aside and nothing else, until it is put back', async (t) => {
  const clock = fakeClock(Date.now());
  const first = await runControlPlane(t, { clock });
  const { dataDir } = first;
  const identities = new Map<string, Awaited<ReturnType<typeof first.enrol>>['identity']>();
  const orgs = ['acme', 'folder', 'missing', 'other'];
  for (const org of orgs) {
    const { client, identity } = await first.enrol(org, 'node-1');
    identities.set(org, identity);
    await client.call(PROTOCOL.controlPlane, 'SubmitHashes', { hashes: HASHES }, TIMEOUT_MS);
  }
  await until(() => first.plane.state.registers.ledgers.pending < orgs.length * 256);
  await first.plane.stop();
  const fileOf = (org: string) => join(dataDir, 'ledger', `${Buffer.from(org).toString('hex')}.leaves`);
  const copy = `${fileOf('acme')}.copy`;
  copyFileSync(fileOf('acme'), copy);
  truncateSync(fileOf('acme'), statSync(fileOf('acme')).size - 1_000);
  rmSync(fileOf('folder'));
  mkdirSync(join(fileOf('folder'), 'in'), { recursive: true });
  rmSync(fileOf('missing'));
  const { log, lines } = heardLog();
  const { plane, client } = await runControlPlane(t, { clock, log }, { dataDir });
  const clients = new Map(orgs.map((org) => [org, client(identities.get(org))]));
  const submit = (org: string) =>
    faultOfCall(
      (clients.get(org) as ReturnType<typeof client>).call(PROTOCOL.controlPlane, 'SubmitHashes', { hashes: HASHES }, TIMEOUT_MS),
    );
  const aside = () => lines.filter((line) => line.includes('is set aside'));
  t.equal(aside().length, 3, 'the log says which');
  t.match(aside()[2], /missing\.leaves|is missing: \d+ leaves are under signed roots; .* put back a copy/);
  t.match(aside()[0], /^error: .* \| .*61636d65\.leaves is damaged: .* put back a copy/);
  t.equal(plane.counts.ledgersAside, 3);
  t.equal(await submit('other'), 'none');
  t.match(await submit('acme'), /^UNAVAILABLE: The ledger of the org acme is set aside: .*is damaged.*put back a copy/);
  t.match(await submit('folder'), /^UNAVAILABLE: The ledger of the org folder is set aside: /);
  t.match(await submit('missing'), /^UNAVAILABLE: The ledger of the org missing is set aside: /);
  t.notOk(existsSync(fileOf('missing')), 'no empty file is put into its place');
  t.equal(plane.counts.ledgersAside, 3);
  for (const one of clients.values()) t.equal(await faultOfCall(one.call(PROTOCOL.controlPlane, 'CheckIn', CHECK_IN, TIMEOUT_MS)), 'none');
  const ask = async (path: string) => {
    const answer = await fetch(`http://127.0.0.1:${plane.httpPort}/v1/orgs/${path}`);
    return { status: answer.status, text: await answer.text() };
  };
  const [hash] = HASHES.map((one) => one.toString('hex'));
  t.same(await Promise.all(orgs.map(async (org) => (await ask(`${org}/proofs/${hash}`)).status)), [503, 503, 503, 200]);
  for (const org of orgs) t.match(await ask(`${org}/roots`), { status: 200, text: /"sequence":1/ }, 'roots are shown all the same');
  t.match(await (await fetch(`http://127.0.0.1:${plane.httpPort}/metrics`)).text(), /^cp_ledgers_set_aside 3$/m);
  t.equal((await fetch(`http://127.0.0.1:${plane.httpPort}/healthz`)).status, 200);
  const before = aside().length;
  for (let i = 0; i < 5; i++) await submit('acme');
  t.equal(aside().length, before, 'one line for each time it breaks');
  copyFileSync(copy, fileOf('acme'));
  t.match(await submit('acme'), /^UNAVAILABLE/, 'its whole file is not read for every call');
  clock.advance(60_000);
  t.equal(await submit('acme'), 'none', 'without a start');
  t.equal(plane.counts.ledgersAside, 2);
});

t.test('hashes that the disk does not take are no fault of ours: the gateway is told to come again', async (t) => {
  const { plane, enrol } = await runControlPlane(t);
  const { client } = await enrol('acme', 'node-1');
  const { ledgers } = plane.state.registers;
  t.capture(ledgers, 'submit', () =>
    Promise.reject(new GatewayError('record_store_unavailable', 'The ledger of the org cannot be written.')),
  );
  t.match(
    await faultOfCall(client.call(PROTOCOL.controlPlane, 'SubmitHashes', { hashes: HASHES }, TIMEOUT_MS)),
    /^UNAVAILABLE: The ledger/,
  );
});

t.test('a node, an org and all together hand in so many hashes a second, and are told when they may go on', async (t) => {
  const clock = fakeClock(Date.now());
  const rate = (perSecond: number) => ({ perSecond, burst: perSecond * 2 });
  const rates = { hashRates: { node: rate(300), org: rate(500), all: rate(900) } };
  const { enrol, plane } = await runControlPlane(t, { clock, rates });
  const nodes = {
    a1: (await enrol('a', '1')).client,
    a2: (await enrol('a', '2')).client,
    b1: (await enrol('b', '1')).client,
    c1: (await enrol('c', '1')).client,
  };
  const submit = async (node: keyof typeof nodes) => {
    try {
      await nodes[node].call(PROTOCOL.controlPlane, 'SubmitHashes', { hashes: HASHES }, TIMEOUT_MS);
      return 0;
    } catch (error) {
      return error instanceof ProtocolError && error.fault === 'RESOURCE_EXHAUSTED' ? error.retryAfterMs : String(error);
    }
  };
  t.same([await submit('a1'), await submit('a1'), await submit('a1')], [0, 0, 1_000], 'a node');
  t.same([await submit('a2'), await submit('a2')], [0, 400], 'an org: 100 of 1,000 are left, and 200 more come in 400 ms');
  t.same([await submit('b1'), await submit('b1'), await submit('c1')], [0, 0, 0], 'another org has its own');
  t.equal(await submit('c1'), 334, 'all together: 1,800');
  t.equal(plane.counts.acknowledgedHashes, 6 * HASHES.length);
  clock.advance(400);
  t.equal(await submit('a2'), 0, 'when the time is over that was told');
});

t.test('what a node has stored has a rate, so that no disk is filled by check-ins, renewals or reports', async (t) => {
  const clock = fakeClock(Date.now());
  const { enrol } = await runControlPlane(t, { clock });
  const { client } = await enrol('acme', 'node-1');
  const { client: another } = await enrol('acme', 'node-2');
  const checkIn = (one: typeof client) => faultOfCall(one.call(PROTOCOL.controlPlane, 'CheckIn', CHECK_IN, TIMEOUT_MS));
  const said = await Promise.all(Array.from({ length: CHANGE_RATES.node.burst + 5 }, () => checkIn(client)));
  t.equal(said.filter((one) => one === 'none').length, CHANGE_RATES.node.burst);
  t.match(said.at(-1), /^RESOURCE_EXHAUSTED: more changes come from here than are taken; try again in 100 ms/);
  t.match(await faultOfCall(client.call(PROTOCOL.controlPlane, 'ReportTelemetry', { report: '{}' }, TIMEOUT_MS)), /^RESOURCE_EXHAUSTED/);
  t.equal(await faultOfCall(client.call(PROTOCOL.controlPlane, 'FetchKeys', {}, TIMEOUT_MS)), 'none', 'what only reads goes on');
  t.equal(await checkIn(another), 'none');
  clock.advance(100);
  t.equal(await checkIn(client), 'none');
});

t.test('rates remember nobody who may do everything again', (t) => {
  const clock = fakeClock();
  const rates = new NodeRates(clock, 'hashes', { ...HASH_RATES, all: { perSecond: 1e12, burst: 1e12 } });
  for (let node = 0; node < 20_000; node++) {
    rates.take({ orgId: `org-${node}`, nodeId: 'node' }, 4_096);
    clock.advance(10);
  }
  let asked: unknown;
  try {
    rates.take({ orgId: 'org', nodeId: 'node' }, HASH_RATES.node.burst + 1);
  } catch (error) {
    asked = error;
  }
  t.match(asked, { fault: 'RESOURCE_EXHAUSTED', retryAfterMs: 1_000 / HASH_RATES.node.perSecond });
  t.end();
});
