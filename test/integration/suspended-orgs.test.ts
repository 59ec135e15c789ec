// What passes undecided while the org is suspended: nothing, whatever GW_PROXY_NON_AI says, and what was open before is
// ended (decisions 3.7, 4.6, 8.1).
import t from 'tap';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { ALLOW_ALL } from '../support/governed.ts';
import { scene } from '../support/non-ai.ts';
import { ConnectRefused, connectPlain, connectThrough, h1Request, h2Request, h2Session, openTunnel } from '../support/raw-clients.ts';
import type { HasTeardown } from '../support/temp-dir.ts';
import { closing, opened, refused, startSocketUpstream, webSocketOn } from '../support/websockets.ts';

const HOST = 'www.example.com';
const SUSPENDED = { error: 'org_suspended' };
const MODES = ['pass', 'govern-ai', 'inspect', 'govern'] as const;

const suspend = (gw: TestGateway) => gw.admin('POST', '/v1/admin/org/suspend', { reason: 'unpaid' });
const reactivate = (gw: TestGateway) => gw.admin('POST', '/v1/admin/org/reactivate');

for (const mode of MODES) {
  t.test(`${mode}: a tunnel to a host without a connector is refused with a record, and nothing reaches the host`, async (t) => {
    const env = { GW_ORG_ID: 'acme', GW_PROXY_NON_AI: mode };
    const { gw, upstream, recorded } = await scene(t, env, { h2: true, bundle: ALLOW_ALL });
    await suspend(gw);
    const opened = mode === 'inspect' || mode === 'govern';
    // Naming another org is no way round, and a known AI domain none either.
    for (const [host, headers] of [
      [HOST, {}],
      [HOST, { 'X-GW-Org-ID': 'other' }],
      ['chat.deepseek.com', {}],
    ] as const) {
      if (opened) {
        const socket = await connectThrough(gw.port, `${host}:443`, gw.caPem, { headers });
        t.teardown(() => socket.destroy());
        const answer = await h1Request(socket, host);
        t.same([answer.status, JSON.parse(answer.body.toString())], [403, SUSPENDED], host);
        continue;
      }
      const error = await openTunnel(gw.port, `${host}:443`, { headers }).catch((reason: unknown) => reason);
      if (!(error instanceof ConnectRefused)) throw new Error(`${host} ${JSON.stringify(headers)} was not refused`);
      t.same([error.status, JSON.parse(error.body)], [403, SUSPENDED], host);
      t.match(error.rawHead, /x-gw-record-id: /i);
    }
    if (opened) {
      const socket = await connectThrough(gw.port, `${HOST}:443`, gw.caPem, { alpn: ['h2'] });
      const session = h2Session(socket, HOST);
      t.teardown(() => session.destroy());
      t.match(await h2Request(session), { status: 403 });
    }
    t.equal(upstream.connections, 0, 'no origin hears of it');
    t.equal(recorded().length, opened ? 4 : 3);
    t.match(await gw.record(recorded()[0] ?? ''), {
      org_id: 'acme',
      decision: 'deny',
      reason_codes: ['org_suspended'],
      target_host: HOST,
      record_tier: opened ? 'action' : 'connection',
    });
    t.match((await gw.admin('GET', '/metrics')).text, /gw_auth_failures_total\{reason="suspended",org_id="acme"\} [34]/);

    const plain = await connectPlain(gw.port);
    t.teardown(() => plain.destroy());
    const answer = await h1Request(plain, HOST, { path: `http://${HOST}/` });
    t.same([answer.status, JSON.parse(answer.body.toString())], [403, SUSPENDED], 'absolute-form');

    await reactivate(gw);
    const again = await connectThrough(gw.port, `${HOST}:443`, opened ? gw.caPem : upstream.caPem);
    t.teardown(() => again.destroy());
    t.equal((await h1Request(again, HOST)).status, 200);
  });
}

t.test(
  'tunnels that are open when the org is suspended: one that passes is ended, in one that is inspected each request is refused',
  async (t) => {
    const passing = await scene(t, { GW_ORG_ID: 'acme' });
    const open = await connectThrough(passing.gw.port, `${HOST}:443`, passing.upstream.caPem);
    open.on('error', () => undefined);
    t.equal((await h1Request(open, HOST)).status, 200);
    const ended = new Promise<void>((resolve) => void open.once('close', () => resolve()));
    await suspend(passing.gw);
    await ended;
    await reactivate(passing.gw);
    const later = await connectThrough(passing.gw.port, `${HOST}:443`, passing.upstream.caPem);
    t.teardown(() => later.destroy());
    t.equal((await h1Request(later, HOST)).status, 200);

    const inspected = await scene(t, { GW_ORG_ID: 'acme', GW_PROXY_NON_AI: 'inspect' });
    const inside = await connectThrough(inspected.gw.port, `${HOST}:443`, inspected.gw.caPem);
    t.teardown(() => inside.destroy());
    t.equal((await h1Request(inside, HOST)).status, 200);
    await suspend(inspected.gw);
    t.equal((await h1Request(inside, HOST)).status, 403);
    t.equal(inspected.upstream.requests.length, 1);
  },
);

t.test('a host that is bypassed is refused like any other', async (t) => {
  const { gw, upstream } = await scene(t, { GW_ORG_ID: 'acme', GW_PROXY_BYPASS: 'api.openai.com' });
  await suspend(gw);
  await t.rejects(openTunnel(gw.port, 'api.openai.com:443'), /403/);
  t.equal(upstream.connections, 0);
});

async function sockets(t: HasTeardown, mode: string) {
  const upstream = await startSocketUpstream(t);
  const env = { GW_ORG_ID: 'acme', GW_PROXY_NON_AI: mode, GW_UPSTREAM_CONNECT_TO: `${HOST}:80=127.0.0.1:${upstream.port}` };
  const gw = await startTestGateway(t, { env, bundle: ALLOW_ALL });
  const socket = async () => webSocketOn(t, await connectPlain(gw.port), HOST, '/room', { target: `ws://${HOST}/room` });
  return { gw, upstream, socket };
}

for (const mode of ['pass', 'govern']) {
  t.test(`${mode}: a WebSocket that is relayed ends with the suspension, and the next handshake is refused`, async (t) => {
    const { gw, upstream, socket } = await sockets(t, mode);
    const client = await socket();
    await opened(client);
    const gone = closing(client);
    await suspend(gw);
    t.match(await gone, { code: 1006 });
    const refusal = await refused(await socket());
    t.same([refusal.status, JSON.parse(refusal.body)], [403, SUSPENDED]);
    t.equal(upstream.handshakes.length, 1);
    t.match((await gw.admin('GET', '/metrics')).text, /gw_websockets_open\{kind="relayed"\} 0/);
  });
}
