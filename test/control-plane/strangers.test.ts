// What those who have shown no certificate can take of a control plane: whatever they send, whoever calls is asked
// first.
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { connect as connectTcp, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { silentLogger } from '../../src/base/lib/log.ts';
import { CONTROL_PLANE_BOUNDS } from '../../src/base/model/control-plane-bounds.ts';
import { CALL_BOUNDS } from '../../src/control-plane/proto/call-bounds.ts';
import { ProtocolError } from '../../src/control-plane/proto/protocol-error.ts';
import { ProtocolServer, type ProtocolServerOptions } from '../../src/control-plane/proto/protocol-server.ts';
import type { CallGuard } from '../../src/control-plane/proto/server-call.ts';
import { testCa } from '../support/certificates.ts';
import { NOTHING_YET, PROTOCOL, runControlPlane, TIMEOUT_MS } from '../support/control-plane.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { beginCall, endOfCall, framedMessage, rawGrpc } from '../support/raw-grpc.ts';
import type { HasTeardown } from '../support/temp-dir.ts';

const UNAUTHENTICATED = '16';
const UNIMPLEMENTED = '12';
const RESOURCE_EXHAUSTED = '8';
const INVALID_ARGUMENT = '3';
const CHECK_IN = { versions: NOTHING_YET, gateway_version: '0.0.0', policy_sequence: '0', policy_kid: '' };
const CALLS = Object.keys(PROTOCOL.controlPlane.definition).map((name) => `ControlPlane/${name}`);

/** `hashes: ["", "", …]`, two bytes each. */
function emptyTexts(count: number): Buffer {
  return Buffer.alloc(2 * count, Buffer.from([0x0a, 0x00]));
}

/** A server whose calls count what is read and carried out. */
async function countingServer(t: HasTeardown, options: Partial<ProtocolServerOptions> = {}) {
  const ca = testCa('Control plane');
  const { certPem, keyPem } = ca.leaf({ hosts: ['localhost', '127.0.0.1'] });
  const nodeOf = (org: string) => {
    const made = ca.leaf({ hosts: [org], purpose: 'client' });
    return { certificate: made.certPem, key: made.keyPem };
  };
  const server = new ProtocolServer({
    host: '127.0.0.1',
    port: 0,
    identity: { ca: ca.certPem, certificate: certPem, key: keyPem },
    log: silentLogger,
    callerOf: (certificate) => callerOf(certificate),
    ...options,
  });
  const counts = { decoded: 0, carriedOut: 0, refused: [] as string[] };
  const counting = (definition: object) => ({
    definition: Object.fromEntries(
      Object.entries(definition as typeof PROTOCOL.controlPlane.definition).map(([name, method]) => {
        const requestDeserialize = (bytes: Buffer) => {
          counts.decoded++;
          return method.requestDeserialize(bytes) as unknown;
        };
        return [name, { ...method, requestDeserialize }];
      }),
    ),
  });
  const handlers = new Proxy({} as never, {
    get: (_target, name) => () => {
      counts.carriedOut++;
      if (name === 'FetchWorkloads')
        return Promise.resolve({ org: null, version: '1', workloads: ['x'.repeat(3_000_000)], next_cursor: '' });
      return Promise.reject(new ProtocolError('NOT_FOUND', 'carried out'));
    },
  });
  const callerOf = (certificate: Uint8Array) => ({ orgId: new X509Certificate(certificate).subject, nodeId: 'node-1' });
  const guard: CallGuard<string> = {
    admit: (name, { certificate }) => {
      if (name === 'Enroll') return undefined;
      if (certificate === undefined) throw new ProtocolError('UNAUTHENTICATED', 'no certificate was shown');
      return callerOf(certificate);
    },
    refused: (name, fault) => counts.refused.push(`${name} ${fault}`),
  };
  server.add(counting(PROTOCOL.enrolment.definition), handlers, guard);
  server.add(counting(PROTOCOL.controlPlane.definition), handlers, guard);
  const port = await server.open();
  t.teardown(() => server.close(AbortSignal.abort()));
  return { server, counts, place: { port, ca: ca.certPem }, node: nodeOf('acme'), other: nodeOf('other') };
}

/** Waits until something is so, however long connections take for it. */
async function until(what: () => boolean): Promise<void> {
  while (!what()) await new Promise((resolve) => setImmediate(resolve));
}

async function silentConnections(t: HasTeardown, port: number, count: number): Promise<readonly Socket[]> {
  const sockets = Array.from({ length: count }, () => connectTcp(port, '127.0.0.1'));
  for (const socket of sockets) socket.on('error', () => undefined).resume();
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
  });
  await Promise.all(sockets.map((socket) => once(socket, 'connect').catch(() => undefined)));
  return sockets;
}

// Holds: strangers-are-not-read
t.test('who shows no certificate is told so for each call before he has sent a byte of its message', async (t) => {
  const { plane } = await runControlPlane(t);
  const session = await rawGrpc(t, { port: plane.grpcPort, ca: plane.state.caCertificate });
  for (const path of CALLS) t.match(await endOfCall(beginCall(session, path)), { status: UNAUTHENTICATED }, path);
  const refused = plane.counts.calls.filter(({ result }) => result === 'UNAUTHENTICATED').map(({ method }) => `ControlPlane/${method}`);
  t.same(refused.sort(), [...CALLS].sort(), 'and each refusal is counted');
});

// Holds: strangers-are-not-read
t.test('two million empty hashes in four kilobytes are refused unread, with a certificate and without', async (t) => {
  const { place, counts, node } = await countingServer(t);
  const bomb = gzipSync(emptyTexts(2_000_000));
  t.ok(bomb.length < 5_000);
  for (const identity of [undefined, node]) {
    const session = await rawGrpc(t, place, identity);
    for (const path of [...CALLS, 'Enrolment/Enroll'])
      for (const coding of ['gzip', 'deflate', 'br', 'snappy', 'GZIP', 'identity', undefined]) {
        const call = beginCall(session, path, coding === undefined ? {} : { 'grpc-encoding': coding });
        call.end(framedMessage(bomb, true));
        const { status } = await endOfCall(call);
        const says = coding === 'identity' || coding === undefined ? [UNIMPLEMENTED, UNAUTHENTICATED] : [UNIMPLEMENTED];
        t.ok(says.includes(status), `${path} ${coding} ${status}`);
      }
  }
  t.same([counts.decoded, counts.carriedOut], [0, 0]);
});

t.test('each call takes so many bytes and members, and one more of either is refused before it is read', async (t) => {
  const { place, counts, node } = await countingServer(t);
  const session = await rawGrpc(t, place, node);
  for (const path of [...CALLS, 'Enrolment/Enroll']) {
    const { bytes, members } = CALL_BOUNDS[path.split('/')[1] as keyof typeof CALL_BOUNDS];
    const large = beginCall(session, path);
    large.write(framedMessage(Buffer.alloc(0), false, bytes + 1));
    t.match(await endOfCall(large), { status: RESOURCE_EXHAUSTED }, `${path}: its prefix is enough`);
    const many = beginCall(session, path);
    many.end(framedMessage(emptyTexts(members + 1)));
    t.match(await endOfCall(many), { status: INVALID_ARGUMENT, message: /more than \d+ members/ }, path);
    t.equal(counts.decoded, 0);
    const fits = beginCall(session, path);
    fits.end(framedMessage(emptyTexts(Math.min(members, 8))));
    await endOfCall(fits);
    t.equal(counts.decoded, 1, `${path}: what fits is read`);
    counts.decoded = 0;
  }
});

t.test('a call has one whole message that can be read; everything else is refused', async (t) => {
  const { place, counts, node } = await countingServer(t);
  const session = await rawGrpc(t, place, node);
  const ends = async (...pieces: readonly Buffer[]) => {
    const call = beginCall(session, 'ControlPlane/CheckIn');
    for (const piece of pieces) call.write(piece);
    call.end();
    return (await endOfCall(call)).status;
  };
  t.equal(await ends(), INVALID_ARGUMENT, 'none');
  t.equal(await ends(Buffer.alloc(3)), INVALID_ARGUMENT, 'half of a prefix');
  t.equal(await ends(framedMessage(Buffer.alloc(2, 8), false, 5)), INVALID_ARGUMENT, 'less than it says');
  t.equal(await ends(framedMessage(Buffer.alloc(0)), framedMessage(Buffer.alloc(0))), INVALID_ARGUMENT, 'two');
  t.equal(await ends(framedMessage(Buffer.from('ffffffffffffffffffffff', 'hex'))), INVALID_ARGUMENT, 'a tag without end');
  t.equal(await ends(framedMessage(Buffer.from('0a05', 'hex'))), INVALID_ARGUMENT, 'a text that goes on behind the end');
  t.equal(await ends(framedMessage(Buffer.from('0b0c', 'hex'))), INVALID_ARGUMENT, 'a group');
  t.same([counts.decoded, counts.carriedOut], [0, 0]);
  t.equal(await ends(framedMessage(Buffer.alloc(0))), '5', 'an empty one is one');
  t.equal(counts.carriedOut, 1);
  const wrong = session.request({ ':method': 'GET', ':path': '/' });
  const [headers] = (await once(wrong, 'response')) as [Record<string, unknown>];
  t.equal(headers[':status'], 415);
});

t.test('a message that does not come ends its call, and a connection that shows nothing ends too', async (t) => {
  const clock = fakeClock();
  const { place, counts, node, server } = await countingServer(t, { clock });
  const known = await rawGrpc(t, place, node);
  await until(() => server.connections.open === 1 && server.connections.openOfStrangers === 0);
  const call = beginCall(known, 'ControlPlane/SubmitHashes');
  call.write(framedMessage(Buffer.alloc(10), false, 100));
  const [silent] = await silentConnections(t, place.port, 1);
  const stranger = await rawGrpc(t, place);
  const enrolling = beginCall(stranger, 'Enrolment/Enroll');
  enrolling.write(Buffer.alloc(1));
  await until(() => server.connections.openOfStrangers === 2);
  // The heads have come when something behind them was answered.
  t.match(await endOfCall(beginCall(known, 'ControlPlane/Nothing')), { status: UNIMPLEMENTED });
  t.match(await endOfCall(beginCall(stranger, 'ControlPlane/Nothing')), { status: UNIMPLEMENTED });
  clock.advance(9_999);
  t.equal(counts.refused.length, 0);
  const ends = [endOfCall(call), endOfCall(enrolling)];
  clock.advance(1);
  t.match(await Promise.all(ends), [{ status: '4' }, { status: '4' }], 'DEADLINE_EXCEEDED');
  const gone = [once(silent as Socket, 'close'), once(stranger, 'close')];
  clock.advance(20_000);
  await Promise.all(gone);
  await until(() => server.connections.open === 1);
  t.notOk(known.destroyed, 'who has shown a certificate stays');
});

t.test('who never answers a question on the connection is gone', async (t) => {
  const clock = fakeClock();
  const { place, node, server } = await countingServer(t, { clock });
  const socket = connectTls({
    port: place.port,
    host: '127.0.0.1',
    ca: place.ca,
    cert: node.certificate,
    key: node.key,
    ALPNProtocols: ['h2'],
  });
  socket.on('error', () => undefined).resume();
  await once(socket, 'secureConnect');
  await until(() => server.connections.open === 1 && server.connections.openOfStrangers === 0);
  const closed = once(socket, 'close');
  // HTTP/2 is never begun.
  await until(() => clock.pending > 0);
  clock.advance(30_000);
  clock.advance(10_000);
  await closed;
  t.equal(server.connections.open, 0);
});

// Holds: strangers-are-not-read
t.test('however many connections say nothing, nodes, those who enrol and the admin API are served', async (t) => {
  const { plane, client, enrol } = await runControlPlane(t);
  const { client: node } = await enrol('acme', 'node-1');
  const held = (CONTROL_PLANE_BOUNDS.strangerConnections.all + CONTROL_PLANE_BOUNDS.strangerAdminConnections.all) / 2;
  const silent = [...(await silentConnections(t, plane.grpcPort, 400)), ...(await silentConnections(t, plane.httpPort, 400))];
  await until(() => silent.filter(({ closed }) => !closed).length <= held);
  t.equal((await node.call(PROTOCOL.controlPlane, 'CheckIn', CHECK_IN, TIMEOUT_MS)).node_id, 'node-1', 'on the connection it has');
  const { client: another } = await enrol('acme', 'node-2');
  t.equal((await another.call(PROTOCOL.controlPlane, 'CheckIn', CHECK_IN, TIMEOUT_MS)).node_id, 'node-2');
  t.match(
    await client()
      .call(PROTOCOL.controlPlane, 'CheckIn', CHECK_IN, TIMEOUT_MS)
      .catch((error: unknown) => error),
    {
      fault: 'UNAUTHENTICATED',
    },
  );
  t.equal((await fetch(`http://127.0.0.1:${plane.httpPort}/healthz`)).status, 200);
  t.ok(silent.filter(({ closed }) => !closed).length <= held, 'an address holds half of the places of each port at most');
});

t.test('calls that need no certificate, and those of one node, hold their share and leave the rest to others', async (t) => {
  const { place, node, counts } = await countingServer(t, { bounds: { strangerCalls: 8, nodeCalls: 24 } });
  const stranger = await rawGrpc(t, place);
  const begun = (session: typeof stranger, path: string, bytes: Buffer) => {
    const call = beginCall(session, path);
    call.write(bytes);
    return endOfCall(call);
  };
  const enrolling = Array.from({ length: 8 }, () => begun(stranger, 'Enrolment/Enroll', Buffer.alloc(1)));
  const refusals = await Promise.all(enrolling.slice(4));
  t.ok(
    refusals.every(({ status, pushback }) => status === RESOURCE_EXHAUSTED && pushback === '1000'),
    'of eight places an address has four',
  );
  const known = await rawGrpc(t, place, node);
  // 24 places of 32 KiB, of which a node alone gets a third and an org half: 8 for one node.
  const first = begun(known, 'ControlPlane/Write', framedMessage(Buffer.alloc(200_000), false, 4_000_000));
  const second = await begun(known, 'ControlPlane/Write', framedMessage(Buffer.alloc(400_000), false, 4_000_000));
  t.match(second, { status: RESOURCE_EXHAUSTED, pushback: '1000' });
  t.equal(counts.decoded, 0);
  known.destroy();
  await first;
  const free = await rawGrpc(t, place, node);
  const after = beginCall(free, 'ControlPlane/CheckIn');
  after.end(framedMessage(Buffer.alloc(0)));
  t.match(await endOfCall(after), { status: '5' }, 'what a connection held is free when it has gone');
});

t.test('answers that a node does not read are few, hold nobody else up, and are cut', async (t) => {
  const clock = fakeClock();
  const { place, node, other, counts } = await countingServer(t, { clock, bounds: { largeAnswers: 6 } });
  const fetch = (session: Awaited<ReturnType<typeof rawGrpc>>) => {
    const call = beginCall(session, 'ControlPlane/FetchWorkloads');
    call.end(framedMessage(Buffer.alloc(0)));
    return call;
  };
  const session = await rawGrpc(t, place, node);
  const unread = Array.from({ length: 40 }, () => fetch(session).pause());
  // What is asked behind them is answered: all of them have come.
  const asked = beginCall(session, 'ControlPlane/CheckIn');
  asked.end(framedMessage(Buffer.alloc(0)));
  t.match(await endOfCall(asked), { status: '5' });
  const made = counts.carriedOut - 1;
  t.equal(made, 2, 'a node has a third of the turns');
  const another = await rawGrpc(t, place, other);
  const read = fetch(another);
  let bytes = 0;
  read.on('data', (piece: Buffer) => {
    bytes += piece.length;
  });
  t.match(await endOfCall(read), { status: '0' });
  t.ok(bytes > 3_000_000, 'another org gets its own');
  const cut = unread.slice(0, 2).map((call) => once(call, 'close'));
  clock.advance(30_000);
  await Promise.all(cut);
  await until(() => counts.carriedOut === made + 4);
  session.destroy();
});

t.test('a hundred gateways behind one address come and enrol at once', async (t) => {
  const { place, counts, server } = await countingServer(t);
  const sessions = [await rawGrpc(t, place), await rawGrpc(t, place)];
  await silentConnections(t, place.port, 98);
  await until(() => server.connections.open + server.connections.counts.madeWay === 100);
  t.equal(server.connections.open, 100);
  for (const session of sessions) {
    for (let at = 0; at < 50; at++) beginCall(session, 'Enrolment/Enroll').write(Buffer.alloc(1));
    // The calls before it have come when it is answered.
    t.match(await endOfCall(beginCall(session, 'ControlPlane/Nothing')), { status: UNIMPLEMENTED });
  }
  t.same(counts.refused, []);
});

/** Sends this to the HTTP port and gives back what came until the other side ends the connection. */
async function untilEnded(t: HasTeardown, port: number, head: string, more: string): Promise<string> {
  const socket = connectTcp(port, '127.0.0.1');
  socket.on('error', () => undefined);
  t.teardown(() => socket.destroy());
  let heard = '';
  socket.on('data', (piece: Buffer) => {
    heard += piece.toString();
  });
  const send = () => {
    if (more !== '' && !socket.destroyed) socket.write(more, () => setImmediate(send));
  };
  socket.write(head, send);
  await once(socket, 'close');
  return heard;
}

t.test('a body that never ends is not read behind its answer, and who expects anything is answered once', async (t) => {
  const { plane } = await runControlPlane(t);
  const head = 'POST /v1/orgs HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n';
  t.match(await untilEnded(t, plane.httpPort, head, '1\r\nx\r\n'), /^HTTP\/1.1 40/);
  const long = head.replace('Transfer-Encoding: chunked', 'Content-Length: 1000000000');
  t.match(await untilEnded(t, plane.httpPort, long, 'x'.repeat(1_000)), /^HTTP\/1.1 40/);
  const expecting = 'GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nExpect: x\r\n\r\n'.repeat(20);
  t.equal((await untilEnded(t, plane.httpPort, expecting, '')).match(/HTTP\/1.1 417/g)?.length, 1);
});
