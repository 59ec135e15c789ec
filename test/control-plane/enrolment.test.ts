import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { sha256Hex } from '../../src/base/lib/sha256.ts';
import { readBootstrapToken } from '../../src/link/shown-token.ts';
import { faultOfCall, identityOf, NOTHING_YET, newRequest, PROTOCOL, pem, runControlPlane, TIMEOUT_MS } from '../support/control-plane.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { requirePeer, skipWithout } from '../support/peers.ts';
import { tempDir } from '../support/temp-dir.ts';

const DAY_MS = 86_400_000;
const CHECK_IN = { versions: NOTHING_YET, gateway_version: '0.0.0', policy_sequence: '0', policy_kid: '' };

t.test('a token and a request make a node, whose certificate names it and its org and is good for 90 days', async (t) => {
  const { plane, enrol, dataDir } = await runControlPlane(t);
  const { client, answer } = await enrol('acme', 'node-1');
  const certificate = new X509Certificate(answer.certificate);
  t.equal(certificate.subject, 'O=acme\nCN=node-1');
  t.same(certificate.keyUsage, ['1.3.6.1.5.5.7.3.2']);
  t.equal(new Date(certificate.validTo).toISOString(), answer.expires_at);
  const days = (Date.parse(certificate.validTo) - Date.now()) / DAY_MS;
  t.ok(days > 89.9 && days <= 90);
  t.equal(pem('CERTIFICATE', answer.ca_certificate), plane.state.caCertificate);
  t.equal((await client.call(PROTOCOL.controlPlane, 'CheckIn', CHECK_IN, TIMEOUT_MS)).node_id, 'node-1');
  const [node] = await plane.state.nodes.list('acme');
  t.match(node, { node_id: 'node-1', org_id: 'acme', gateway_version: '0.0.0', certificate_expires_at: answer.expires_at });
  for (const file of ['ca.pem', 'bundle-key.pem', 'ledger-key.pem']) t.equal(statSync(join(dataDir, file)).mode & 0o777, 0o600, file);
  t.match(await plane.state.audit.page({ orgId: 'acme', operation: 'protocol.enroll' }, { limit: 5, after: undefined }), {
    items: [{ principal: { kind: 'node', id: 'acme/node-1' }, object: 'node-1' }],
  });
});

t.test('openssl takes the chain of a node and that of the server by its strict rules', { skip: skipWithout(['openssl']) }, async (t) => {
  const { plane, enrol } = await runControlPlane(t);
  const dir = tempDir(t);
  const verify = (name: string, text: string, purpose: string, ...more: string[]) => {
    writeFileSync(join(dir, 'ca.pem'), plane.state.caCertificate);
    writeFileSync(join(dir, name), text);
    const options = ['verify', '-x509_strict', '-check_ss_sig', '-purpose', purpose, '-CAfile', join(dir, 'ca.pem'), ...more];
    return execFileSync(requirePeer('openssl'), [...options, join(dir, name)], { encoding: 'utf8', stdio: 'pipe' }).trim();
  };
  t.match(verify('node.pem', (await enrol('acme', 'node-1')).identity.certificate, 'sslclient'), /OK$/);
  const server = await plane.state.authorities.ofNodes.issueForServer(['localhost', '127.0.0.1', '::1']);
  t.match(verify('server.pem', server.certificate, 'sslserver', '-verify_hostname', 'localhost'), /OK$/);
  t.match(verify('server.pem', server.certificate, 'sslserver', '-verify_ip', '::1'), /OK$/);
  t.throws(() => verify('server.pem', server.certificate, 'sslclient'));
});

// Holds: nodes-get-their-own-org
t.test('a bootstrap token names the CA, is kept as a hash, and lets one node in once, in its time and its org', async (t) => {
  const clock = fakeClock(Date.now());
  const { plane, client, commit } = await runControlPlane(t, { clock });
  for (const org of ['acme', 'other']) await plane.state.orgs.put(org, {}, commit);
  const one = client();
  const enroll = (token: string, { org_id = 'acme', node_id = 'node-1', csr = newRequest().csr } = {}) =>
    faultOfCall(one.call(PROTOCOL.enrolment, 'Enroll', { bootstrap_token: token, org_id, node_id, csr, gateway_version: '' }, TIMEOUT_MS));
  const { token } = await plane.state.tokens.issue('acme', 60, commit);
  t.match(token, /^gwb_/);
  t.equal(readBootstrapToken(token)?.caSha256?.toString('hex'), sha256Hex(plane.state.authorities.ofNodes.certificate));
  t.match(await enroll(token, { org_id: 'other' }), /^UNAUTHENTICATED: the bootstrap token/);
  t.match(await enroll(token, { org_id: 'nobody' }), /^UNAUTHENTICATED: the bootstrap token/);
  t.match(await enroll(`${token.slice(0, -1)}x`), /^UNAUTHENTICATED: the bootstrap token/);
  t.match(await enroll(token, { csr: newRequest({ foreign: true }).csr }), /^INVALID_ARGUMENT: csr: its signature is not that of its key/);
  t.match(await enroll(token, { csr: newRequest({ curve: 'P-384' }).csr }), /^INVALID_ARGUMENT: csr: its key is neither/);
  t.match(await enroll(token, { csr: Buffer.from('3003020100', 'hex') }), /^INVALID_ARGUMENT: csr: it is not a PKCS #10 request/);
  t.match(await enroll(token, { node_id: 'node 1' }), /^INVALID_ARGUMENT: node_id/);
  const both = await Promise.all([enroll(token, { csr: newRequest({ curve: 'ed25519' }).csr }), enroll(token, { node_id: 'node-2' })]);
  t.same(both.map((said) => said.split(':')[0]).sort(), ['UNAUTHENTICATED', 'none'], 'of two who show it at once one gets in');
  t.match(await enroll(token), /^UNAUTHENTICATED: the bootstrap token/);
  const late = await plane.state.tokens.issue('acme', 60, commit);
  clock.advance(60_000);
  t.match(await enroll(late.token), /^UNAUTHENTICATED: the bootstrap token/);
  t.notMatch(JSON.stringify(await plane.state.audit.page({}, { limit: 100, after: undefined })), token.slice(4, 20));
});

t.test('a node that is enrolled again has one certificate; one that is renewed has both, each until its end', async (t) => {
  const clock = fakeClock(Date.now());
  const { client, enrol } = await runControlPlane(t, { clock });
  const first = await enrol('acme', 'node-1');
  const checkIn = (one: typeof first.client) => faultOfCall(one.call(PROTOCOL.controlPlane, 'CheckIn', CHECK_IN, TIMEOUT_MS));
  const { key, csr } = newRequest({ curve: 'ed25519' });
  const renewed = client(identityOf(await first.client.call(PROTOCOL.controlPlane, 'Renew', { csr }, TIMEOUT_MS), key));
  t.equal(await checkIn(first.client), 'none');
  t.equal(await checkIn(renewed), 'none');
  const again = await enrol('acme', 'node-1');
  t.equal(await checkIn(again.client), 'none');
  for (const one of [first.client, renewed]) t.match(await checkIn(one), /^PERMISSION_DENIED: /);
  clock.advance(90 * DAY_MS);
  t.match(await checkIn(again.client), /^UNAUTHENTICATED: the certificate has expired/, 'also on a connection that is older than its end');
});

// Holds: nodes-get-their-own-org
t.test('a certificate counts for nothing once its node is revoked, and the node may be enrolled anew', async (t) => {
  const { plane, client, commit, enrol } = await runControlPlane(t);
  const node = await enrol('acme', 'node-1');
  const checkIn = (one: typeof node.client) => faultOfCall(one.call(PROTOCOL.controlPlane, 'CheckIn', CHECK_IN, TIMEOUT_MS));
  const revoked = await plane.state.nodes.revoke('acme', 'node-1', commit);
  t.ok(revoked.revoked_at);
  t.same(await plane.state.nodes.revoke('acme', 'node-1', commit), revoked, 'the second time changes nothing');
  t.match(await checkIn(node.client), /^PERMISSION_DENIED: /);
  t.match(
    await faultOfCall(node.client.call(PROTOCOL.controlPlane, 'Renew', { csr: newRequest().csr }, TIMEOUT_MS)),
    /^PERMISSION_DENIED: /,
  );
  t.match(await checkIn(client()), /^UNAUTHENTICATED: /);
  t.equal(plane.counts.enrolledNodes, 0);
  t.equal(await checkIn((await enrol('acme', 'node-1')).client), 'none');
  t.equal(plane.counts.enrolledNodes, 1);
  await t.rejects(plane.state.nodes.revoke('acme', 'node-2', commit), { code: 'not_found' });
});

// Holds: one-damaged-ledger-stops-nobody
t.test('however often a node renews, the certificate that it uses counts to its end', async (t) => {
  const clock = fakeClock(Date.now());
  const { client, enrol } = await runControlPlane(t, { clock });
  const first = await enrol('acme', 'node-1');
  const checkIn = (one: typeof first.client) => faultOfCall(one.call(PROTOCOL.controlPlane, 'CheckIn', CHECK_IN, TIMEOUT_MS));
  const renewed = async (one: typeof first.client) => {
    clock.advance(1_000);
    const { key, csr } = newRequest({ curve: 'ed25519' });
    return client(identityOf(await one.call(PROTOCOL.controlPlane, 'Renew', { csr }, TIMEOUT_MS), key));
  };
  const lost = [];
  for (let i = 0; i < 9; i++) lost.push(await renewed(first.client));
  t.equal(await checkIn(first.client), 'none', 'whose answers were all lost');
  const kept = await Promise.all(lost.map(checkIn));
  t.same(
    kept.map((said) => said.split(':')[0]),
    [...Array.from({ length: 6 }, () => 'PERMISSION_DENIED'), 'none', 'none', 'none'],
    'of those that nobody has shown the newest three are kept',
  );
  // All four are in use now: whoever has one of them takes none from the others.
  const refused = await faultOfCall(
    (lost[8] as typeof first.client).call(PROTOCOL.controlPlane, 'Renew', { csr: newRequest().csr }, TIMEOUT_MS),
  );
  t.match(refused, /^RESOURCE_EXHAUSTED: The node node-1 has used 4 certificates within a day/);
  for (const one of [first.client, ...lost.slice(6)]) t.equal(await checkIn(one), 'none');
  clock.advance(DAY_MS - 1_000);
  t.equal(await checkIn(first.client), 'none');
  clock.advance(1_000);
  // Certificates are checked against the clock of the machine, by which none is made tomorrow.
  clock.set(Date.now());
  t.equal(await checkIn(await renewed(lost[8] as typeof first.client)), 'none', 'a day later what nobody uses makes way');
  t.equal(await checkIn(first.client), 'none');
  t.match(await checkIn(lost[6] as typeof first.client), /^PERMISSION_DENIED/);
});

t.test('a token that lets nobody in is refused before its signing request is looked at', async (t) => {
  const { client, plane, commit } = await runControlPlane(t);
  await plane.state.orgs.put('acme', {}, commit);
  const request = {
    bootstrap_token: 'gwb_nothing',
    org_id: 'acme',
    node_id: 'node-1',
    csr: Buffer.from('no request'),
    gateway_version: '',
  };
  t.match(await faultOfCall(client().call(PROTOCOL.enrolment, 'Enroll', request, TIMEOUT_MS)), /^UNAUTHENTICATED: the bootstrap token/);
});
