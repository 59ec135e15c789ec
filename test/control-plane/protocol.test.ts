import { connect as connectHttp2 } from 'node:http2';
import { connect } from 'node:tls';
import t from 'tap';
import { silentLogger } from '../../src/base/lib/log.ts';
import type { CheckInRequest, Update } from '../../src/control-plane/proto/messages.ts';
import { loadProtocol, MAX_MESSAGE_BYTES } from '../../src/control-plane/proto/protocol.ts';
import { ProtocolClient } from '../../src/control-plane/proto/protocol-client.ts';
import { ProtocolError, type ProtocolFault } from '../../src/control-plane/proto/protocol-error.ts';
import { ProtocolServer } from '../../src/control-plane/proto/protocol-server.ts';
import { type CertificateAndKey, LONG_OVER, testCa } from '../support/certificates.ts';
import { fakeClock, runningClock } from '../support/fake-clock.ts';
import { OPEN_GUARD } from '../support/open-guard.ts';
import { orgSaid } from '../support/org-said.ts';

const protocol = loadProtocol();
const CA = testCa('Control plane');
const SERVER = CA.leaf({ hosts: ['localhost', '127.0.0.1'] });
const NODE = CA.leaf({ hosts: ['node-1'], purpose: 'client' });
const ORG = orgSaid({ stale: null });
const VERSIONS = { policy: '1', workloads: '', credentials: '', export_config: '', addons: '', api_keys: '', keys: '', overlays: '' };
const CHECK_IN: CheckInRequest = { versions: VERSIONS, gateway_version: '0.0.0', policy_sequence: '0', policy_kid: '' };

interface Told {
  certificate: Uint8Array | undefined;
  request: CheckInRequest;
}

async function place(t: { teardown(what: () => unknown): void }) {
  const told: Told[] = [];
  const server = new ProtocolServer({
    host: '127.0.0.1',
    port: 0,
    identity: { ca: CA.certPem, certificate: SERVER.certPem, key: SERVER.keyPem },
    log: silentLogger,
  });
  let waits: (() => void) | undefined;
  const streams: AbortSignal[] = [];
  const refuse = (fault: ProtocolFault) => () => Promise.reject(new ProtocolError(fault, `as ${fault}`));
  server.add<NonNullable<typeof protocol.controlPlane.calls>, 'StreamUpdates'>(
    protocol.controlPlane,
    {
      CheckIn: (request, { certificate }) => {
        told.push({ request, certificate });
        return Promise.resolve({ org: ORG, node_id: 'node-1', at: '2026-01-01T00:00:00.000Z' });
      },
      Renew: refuse('PERMISSION_DENIED'),
      FetchBundle: () => Promise.reject(new Error('a secret that nobody is told')),
      FetchWorkloads: () => Promise.resolve({ org: ORG, version: '1', workloads: ['x'.repeat(MAX_MESSAGE_BYTES)], next_cursor: '' }),
      FetchCredentials: refuse('NOT_FOUND'),
      FetchExportConfig: refuse('RESOURCE_EXHAUSTED'),
      FetchAddons: refuse('INVALID_ARGUMENT'),
      FetchKeys: () =>
        new Promise((_resolve, reject) => {
          waits = () => reject(new ProtocolError('UNAVAILABLE', 'too late'));
        }),
      FetchOverlays: refuse('INTERNAL'),
      Write: refuse('INTERNAL'),
      LookUpApiKey: refuse('UNAUTHENTICATED'),
      SubmitHashes: ({ hashes }) => Promise.resolve({ org: ORG, acknowledged: hashes.length, at: '' }),
      CompareLedger: refuse('INTERNAL'),
      FetchProof: refuse('UNAVAILABLE'),
      ReportTelemetry: refuse('INTERNAL'),
      StreamUpdates: async ({ after }, _peer, { send, signal }) => {
        streams.push(signal);
        for (let sequence = Number(after) + 1; sequence <= 3; sequence++) {
          await send({ sequence: String(sequence), at: '', org: ORG, kind: 'changed', resync: false });
        }
        if (after === '2') throw new ProtocolError('PERMISSION_DENIED', 'revoked');
        await new Promise<void>((resolve) => {
          if (signal.aborted) resolve();
          else signal.addEventListener('abort', () => resolve());
        });
      },
    },
    OPEN_GUARD,
  );
  const port = await server.open();
  t.teardown(() => server.close(AbortSignal.abort()));
  const client = (identity?: CertificateAndKey, ca = CA.certPem, clock = runningClock) => {
    const made = new ProtocolClient({
      address: `127.0.0.1:${port}`,
      ca,
      identity: identity === undefined ? undefined : { certificate: identity.certPem, key: identity.keyPem },
      clock,
    });
    t.teardown(() => made.close());
    return made;
  };
  return { server, port, told, client, streams, waiting: () => waits };
}

async function fault(call: Promise<unknown>): Promise<string> {
  try {
    await call;
    return 'none';
  } catch (error) {
    return error instanceof ProtocolError ? `${error.fault}: ${error.message}` : String(error);
  }
}

t.test('a call comes through with all that it says, and with the certificate that was shown', async (t) => {
  const { told, client } = await place(t);
  const answer = await client(NODE).call(protocol.controlPlane, 'CheckIn', CHECK_IN, 10_000);
  t.same(answer, { org: ORG, node_id: 'node-1', at: '2026-01-01T00:00:00.000Z' });
  t.same(told[0]?.request, CHECK_IN);
  t.match(Buffer.from(told[0]?.certificate ?? []).toString('base64'), NODE.certPem.split('\n').slice(1, -2).join('').slice(0, 100));
  const hashes = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)];
  t.equal((await client(NODE).call(protocol.controlPlane, 'SubmitHashes', { hashes }, 10_000)).acknowledged, 2);
});

t.test('who shows no certificate, or one of another CA, is known to have shown none', async (t) => {
  const { told, client } = await place(t);
  await client().call(protocol.controlPlane, 'CheckIn', CHECK_IN, 10_000);
  await client(testCa('Another').leaf({ hosts: ['node-1'], purpose: 'client' })).call(protocol.controlPlane, 'CheckIn', CHECK_IN, 10_000);
  await client(CA.leaf({ hosts: ['node-1'], purpose: 'client', ...LONG_OVER })).call(protocol.controlPlane, 'CheckIn', CHECK_IN, 10_000);
  t.same(
    told.map(({ certificate }) => certificate),
    [undefined, undefined, undefined],
  );
});

t.test('a control plane of another CA is not spoken to, nor is TLS 1.2 spoken', async (t) => {
  const { told, client, port } = await place(t);
  t.match(await fault(client(NODE, testCa('Another').certPem).call(protocol.controlPlane, 'CheckIn', CHECK_IN, 10_000)), /^UNAVAILABLE: /);
  t.equal(told.length, 0);
  const socket = connect({ port, host: '127.0.0.1', ca: CA.certPem, maxVersion: 'TLSv1.2', ALPNProtocols: ['h2'] });
  const outcome = await new Promise<string>((resolve) => {
    socket.once('secureConnect', () => resolve(socket.getProtocol() ?? ''));
    socket.once('error', () => resolve('refused'));
  });
  socket.destroy();
  t.equal(outcome, 'refused');
});

t.test('the certificate must be for the host that was dialled, name or address, whatever server name is sent', async (t) => {
  const warnings: string[] = [];
  const heed = (warning: Error) => warnings.push(`${warning.name}: ${warning.message}`);
  process.on('warning', heed);
  t.teardown(() => process.off('warning', heed));
  const { server, port } = await place(t);
  const says = async (dialled: string, hosts: readonly string[]) => {
    const shown = CA.leaf({ hosts });
    server.renew({ ca: CA.certPem, certificate: shown.certPem, key: shown.keyPem });
    const one = new ProtocolClient({ address: `${dialled}:${port}`, ca: CA.certPem, identity: undefined, clock: runningClock });
    t.teardown(() => one.close());
    return await fault(one.call(protocol.controlPlane, 'CheckIn', CHECK_IN, 10_000));
  };
  const wrong = /^UNAVAILABLE: .*does not match certificate's altnames/;
  t.equal(await says('127.0.0.1', ['127.0.0.1']), 'none');
  t.equal(await says('localhost', ['localhost']), 'none');
  t.match(await says('127.0.0.1', ['localhost']), wrong);
  t.match(await says('127.0.0.1', ['127.0.0.2']), wrong);
  t.match(await says('127.0.0.1', ['control-plane.invalid']), wrong, 'the name that is sent for an address opens nothing');
  t.match(await says('localhost', ['127.0.0.1']), wrong);
  t.match(await says('localhost', ['control-plane.invalid']), wrong);
  await new Promise(setImmediate);
  t.strictSame(warnings, [], 'no warning of Node (DEP0123)');
});

t.test('a refusal comes through by its name, and a fault of ours says nothing of what it was', async (t) => {
  const { client } = await place(t);
  const one = client(NODE);
  const calls = [
    ['Renew', 'PERMISSION_DENIED: as PERMISSION_DENIED'],
    ['FetchCredentials', 'NOT_FOUND: as NOT_FOUND'],
    ['FetchExportConfig', 'RESOURCE_EXHAUSTED: as RESOURCE_EXHAUSTED'],
    ['FetchAddons', 'INVALID_ARGUMENT: as INVALID_ARGUMENT'],
    ['LookUpApiKey', 'UNAUTHENTICATED: as UNAUTHENTICATED'],
    ['FetchProof', 'UNAVAILABLE: as UNAVAILABLE'],
    ['ReportTelemetry', 'INTERNAL: as INTERNAL'],
    ['FetchBundle', 'INTERNAL: internal error'],
  ] as const;
  for (const [name, said] of calls) t.equal(await fault(one.call(protocol.controlPlane, name, {}, 10_000)), said);
});

t.test('what is larger than a message may be is neither sent nor taken', async (t) => {
  const { client } = await place(t);
  const one = client(NODE);
  const hashes = Array.from({ length: 140_000 }, () => Buffer.alloc(32));
  t.match(await fault(one.call(protocol.controlPlane, 'SubmitHashes', { hashes }, 10_000)), /^RESOURCE_EXHAUSTED: /);
  t.match(await fault(one.call(protocol.controlPlane, 'FetchWorkloads', { cursor: '' }, 10_000)), /^RESOURCE_EXHAUSTED: /);
  t.equal((await one.call(protocol.controlPlane, 'SubmitHashes', { hashes: hashes.slice(0, 4_096) }, 10_000)).acknowledged, 4_096);
});

t.test('bytes that are no message harm nobody', async (t) => {
  const { client, port } = await place(t);
  for (const path of ['CheckIn', 'Nothing']) {
    const session = connectHttp2(`https://127.0.0.1:${port}`, { ca: CA.certPem, cert: NODE.certPem, key: NODE.keyPem });
    const stream = session.request({
      ':method': 'POST',
      ':path': `/gw.control_plane.v1.ControlPlane/${path}`,
      'content-type': 'application/grpc',
      te: 'trailers',
    });
    stream.end(Buffer.from([0, 0, 0, 0, 3, 0xff, 0xff, 0xff]));
    const status = await new Promise((resolve) => {
      stream.on('response', (headers) => headers['grpc-status'] !== undefined && resolve(headers['grpc-status']));
      stream.on('trailers', (headers) => resolve(headers['grpc-status']));
      stream.resume();
    });
    t.not(String(status), '0', path);
    session.destroy();
  }
  t.equal((await client(NODE).call(protocol.controlPlane, 'CheckIn', CHECK_IN, 10_000)).node_id, 'node-1');
});

t.test('a call that gets no answer ends when its time is over', async (t) => {
  const { client, waiting } = await place(t);
  const clock = fakeClock();
  const call = fault(client(NODE, CA.certPem, clock).call(protocol.controlPlane, 'FetchKeys', {}, 5_000));
  while (waiting() === undefined) await new Promise((resolve) => setImmediate(resolve));
  clock.advance(5_000);
  t.equal(await call, 'DEADLINE_EXCEEDED: no answer in 5 s');
});

t.test('a stream tells what happens until its reader leaves, or it is refused', async (t) => {
  const { client, streams } = await place(t);
  const one = client(NODE);
  const leaving = new AbortController();
  const taken: string[] = [];
  for await (const update of one.stream(protocol.controlPlane, 'StreamUpdates', { after: '0', versions: VERSIONS }, leaving.signal)) {
    taken.push((update satisfies Update).sequence);
    if (taken.length === 3) leaving.abort();
  }
  t.same(taken, ['1', '2', '3']);
  while (streams[0]?.aborted !== true) await new Promise((resolve) => setImmediate(resolve));
  const refused = async () => {
    for await (const _update of one.stream(
      protocol.controlPlane,
      'StreamUpdates',
      { after: '2', versions: VERSIONS },
      new AbortController().signal,
    ));
  };
  t.equal(await fault(refused()), 'PERMISSION_DENIED: revoked');
});

t.test('a certificate of the server is renewed between two connections, and who is away comes back', async (t) => {
  const { server, client, port } = await place(t);
  const one = client(NODE);
  await one.call(protocol.controlPlane, 'CheckIn', CHECK_IN, 10_000);
  const next = CA.leaf({ hosts: ['localhost', '127.0.0.1'] });
  server.renew({ ca: CA.certPem, certificate: next.certPem, key: next.keyPem });
  const socket = connect({ port, host: '127.0.0.1', ca: CA.certPem, ALPNProtocols: ['h2'] });
  await new Promise((resolve) => socket.once('secureConnect', resolve));
  t.match(next.certPem.replaceAll('\n', ''), socket.getPeerX509Certificate()?.raw.toString('base64') ?? 'nothing');
  socket.destroy();
  await one.call(protocol.controlPlane, 'CheckIn', CHECK_IN, 10_000);
});
