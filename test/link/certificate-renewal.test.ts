// The certificate of a node: renewed in time, every hour until that succeeds, and never lost; one that has ended keeps
// nobody from being served.
import { createServer } from 'node:net';
import t from 'tap';
import type { EnrolledResponse } from '../../src/control-plane/proto/messages.ts';
import { loadProtocol } from '../../src/control-plane/proto/protocol.ts';
import { ProtocolError } from '../../src/control-plane/proto/protocol-error.ts';
import { CertificateRenewal } from '../../src/link/certificate-renewal.ts';
import { requestCertificate } from '../../src/link/certificate-request.ts';
import { identityAtStart } from '../../src/link/identity-at-start.ts';
import type { Channel } from '../../src/link/link-ports.ts';
import { readNodeFile, writeNodeFile } from '../../src/link/node-file.ts';
import { type NodeIdentity, nodeIdentity } from '../../src/link/node-identity.ts';
import { type TestCa, testCa, type Validity } from '../support/certificates.ts';
import { type FakeClock, fakeClock } from '../support/fake-clock.ts';
import { heardLog } from '../support/heard-log.ts';
import { bootstrapTokenOf } from '../support/lying-control-plane.ts';
import { comes, orgSaid } from '../support/org-said.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';
import { closeServer, listenOnFreePort, trackSockets } from '../support/tls-upstream.ts';

const SECOND_MS = 1_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const NODE = { commonName: 'node-1', organization: 'acme' };

/** Since yesterday, for so long from now on. */
function validFor(clock: FakeClock, ms: number): Validity {
  return { notBefore: new Date(clock.now() - DAY_MS), notAfter: new Date(clock.now() + ms) };
}

async function identityOf(ca: TestCa, validity: Validity): Promise<NodeIdentity> {
  const { csr, keyPem } = await requestCertificate(NODE.organization, NODE.commonName);
  return nodeIdentity(keyPem, ca.answer(csr, NODE, validity), [ca.certPem]);
}

function answerOf(ca: TestCa, csr: Uint8Array, validity: Validity, node = NODE): EnrolledResponse {
  const der = (pem: string) => Buffer.from(pem.replaceAll(/-----.*-----|\n/g, ''), 'base64');
  return {
    certificate: der(ca.answer(csr, node, validity)),
    ca_certificate: der(ca.certPem),
    expires_at: '',
    org: orgSaid(),
    trusted_ca_certificates: [],
  };
}

/** A certificate of some days in its folder, whose renewals the test answers. */
async function place(t: HasTeardown, days: number) {
  const clock = fakeClock();
  const ca = testCa('Control plane');
  const dir = tempDir(t);
  const identity = await identityOf(ca, validFor(clock, days * DAY_MS));
  await writeNodeFile(dir, identity);
  const { log, lines } = heardLog();
  const tries: { readonly at: number; answer(make: (csr: Uint8Array) => EnrolledResponse): void; fail(error: Error): void }[] = [];
  const used: NodeIdentity[] = [];
  let over = false;
  const call = (_name: string, request: { readonly csr: Uint8Array }): Promise<EnrolledResponse> =>
    new Promise((resolve, reject) => {
      if (over) reject(new Error('the test is over'));
      tries.push({ at: clock.now(), answer: (make) => resolve(make(request.csr)), fail: reject });
    });
  const channel = { call: call as unknown as Channel['call'], use: (next: NodeIdentity) => void used.push(next) };
  const renewal = new CertificateRenewal({ channel, dir, identity, clock, log });
  t.teardown(async () => {
    over = true;
    const closed = renewal.close();
    for (const { fail } of tries) fail(new Error('the test is over'));
    await closed;
  });
  renewal.start();
  return {
    clock,
    ca,
    dir,
    identity,
    lines,
    tries,
    used,
    renewal,
    nth: async (count: number) => {
      await comes(`try ${count}`, () => tries.length >= count);
      const one = tries[count - 1];
      if (one === undefined) throw new Error('there is none');
      return one;
    },
    planned: () => comes('the next look', () => clock.pending > 0),
  };
}

t.test('a renewal that fails is tried every hour until it succeeds, and what was there counts so long', async (t) => {
  const one = await place(t, 30);
  one.clock.advance(16 * DAY_MS - SECOND_MS);
  t.equal(one.tries.length, 0, 'not before the last 14 days');
  one.clock.advance(DAY_MS + SECOND_MS);
  for (let count = 1; count <= 4; count++) {
    (await one.nth(count)).fail(new ProtocolError('UNAVAILABLE', 'nobody answers'));
    await one.planned();
    t.equal(one.renewal.fault, 'nobody answers');
    one.clock.advance(HOUR_MS - 1);
    t.equal(one.tries.length, count, 'not before the hour is over');
    one.clock.advance(1);
  }
  t.same(await readNodeFile(one.dir), one.identity);
  t.match(one.lines, Array(4).fill(/^warn: the certificate of this node could not be renewed; it is tried again in an hour/));
  const given = validFor(one.clock, 90 * DAY_MS);
  (await one.nth(5)).answer((csr) => answerOf(one.ca, csr, given));
  await comes('the new one', () => one.used.length > 0);
  t.equal(one.renewal.fault, undefined);
  t.equal(one.renewal.identity.notAfter, given.notAfter.getTime());
  t.not(one.renewal.identity.keyPem, one.identity.keyPem);
  t.same(await readNodeFile(one.dir), one.renewal.identity, 'it is in the folder before it is used');
  t.same(one.used, [one.renewal.identity]);
  await one.planned();
  one.clock.advance(75 * DAY_MS);
  t.equal(one.tries.length, 5);
});

t.test('an answer with what was not asked for changes nothing', async (t) => {
  const one = await place(t, 28);
  one.clock.advance(15 * DAY_MS);
  const other = testCa('Control plane');
  const later = () => validFor(one.clock, 90 * DAY_MS);
  const wrong: Readonly<Record<string, (csr: Uint8Array) => EnrolledResponse>> = {
    ca_mismatch: (csr) => answerOf(other, csr, later()),
    'of node node-2 of org acme': (csr) => answerOf(one.ca, csr, later(), { ...NODE, commonName: 'node-2' }),
    'cannot be used': (csr) => ({ ...answerOf(one.ca, csr, later()), certificate: Buffer.from('no certificate') }),
    'one of the clocks is wrong': (csr) => answerOf(one.ca, csr, validFor(one.clock, -SECOND_MS)),
  };
  for (const [at, [why, answer]] of Object.entries(wrong).entries()) {
    (await one.nth(at + 1)).answer(answer);
    await comes(why, () => one.renewal.fault?.includes(why) === true);
    await one.planned();
    one.clock.advance(HOUR_MS);
  }
  t.same(one.used, []);
  t.same(await readNodeFile(one.dir), one.identity);
});

t.test('a clock that is ahead has no certificate renewed more often than once an hour', async (t) => {
  const one = await place(t, 1);
  const issued = { ...validFor(one.clock, 90 * DAY_MS) };
  // The clock of the control plane has not moved.
  one.clock.set(one.clock.now() + 80 * DAY_MS);
  one.clock.advance(6 * HOUR_MS);
  for (let count = 1; count <= 3; count += 1) {
    (await one.nth(count)).answer((csr) => answerOf(one.ca, csr, issued));
    await comes(`renewal ${count}`, () => one.used.length === count);
    await one.planned();
    one.clock.advance(HOUR_MS - SECOND_MS);
    await one.planned();
    t.equal(one.tries.length, count, 'none within the hour');
    // Nor does a clock that runs away bring it nearer.
    one.clock.set(one.clock.now() + HOUR_MS);
    one.clock.advance(0);
    t.equal(one.tries.length, count);
    one.clock.advance(SECOND_MS);
  }
  await one.nth(4);
  t.match(
    one.lines.filter((line) => line.startsWith('warn')),
    Array(3).fill(/is the clock of this machine ahead/),
  );
});

t.test('a short one is renewed from the middle of its life on, and a clock that is set is noticed within six hours', async (t) => {
  const short = await place(t, 3);
  // It began a day ago.
  short.clock.advance(DAY_MS - SECOND_MS);
  t.equal(short.tries.length, 0);
  short.clock.advance(4 * HOUR_MS);
  await short.nth(1);
  const set = await place(t, 80);
  set.clock.set(set.clock.now() + 70 * DAY_MS);
  t.equal(set.tries.length, 0);
  set.clock.advance(6 * HOUR_MS);
  await set.nth(1);
});

t.test(
  'a certificate that has ended keeps nobody from being served: the start says how to enrol, and the node stays who it was',
  async (t) => {
    const ca = testCa('Control plane');
    const keyDir = tempDir(t);
    const clock = fakeClock();
    const ended = await identityOf(ca, validFor(clock, -HOUR_MS));
    await writeNodeFile(keyDir, ended);
    const silent = createServer((socket) => socket.destroy());
    const port = await listenOnFreePort(silent);
    const sockets = trackSockets(silent);
    t.teardown(() => closeServer(silent, sockets));
    const { log, lines } = heardLog();
    const start = (token: string | undefined, revoked = false) =>
      identityAtStart({
        protocol: loadProtocol(),
        address: { host: '127.0.0.1', port },
        orgId: 'acme',
        nodeId: 'node-1',
        token,
        caFile: undefined,
        keyDir,
        clock,
        log,
        revoked,
      });
    t.same(await start(undefined), { identity: ended, org: undefined });
    t.match(
      lines.at(-1),
      /^error: The certificate of this node ended at 20.*: serving without contact .*gw control-plane token create acme/,
    );
    t.same(await start(bootstrapTokenOf(ca)), { identity: ended, org: undefined }, 'nor does an enrolment that fails');
    t.match(lines.at(-1), /ended at 20.*, and enrolling it anew has failed: serving without contact .*gw control-plane token create acme/);
    t.same(await start(undefined, true), { identity: ended, org: undefined });
    t.match(lines.at(-1), /^error: The control plane has revoked the certificate .*: serving without contact/);
    t.same(await readNodeFile(keyDir), ended);
  },
);
