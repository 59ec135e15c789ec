// Whether calls should be sent to a gateway (decision 12.2), and what it says of itself.
import t from 'tap';
import { fakeClock } from '../support/fake-clock.ts';
import { startTestGateway } from '../support/gateway.ts';
import { connectPlain, h1Request } from '../support/raw-clients.ts';

async function ask(url: string, path = '/readyz') {
  const answer = await fetch(url + path);
  return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
}

t.test('it is 503 while the start-up grace lasts, then 200, on every port', async (t) => {
  const clock = fakeClock();
  const gw = await startTestGateway(t, { clock, env: { GW_HEALTHZ_STARTUP_GRACE: '10s', GW_MGMT_PORT: '0' } });
  const urls = [gw.port, gw.ambientPort, gw.gateway.managementPort].map((port) => `http://127.0.0.1:${port}`);
  for (const url of urls) t.match(await ask(url), { status: 503, body: { status: 'starting', reasons: ['starting'] } });
  t.match(await ask(gw.url, '/healthz'), { status: 200, body: { status: 'starting' } }, 'which lives all the same');
  clock.advance(10_000);
  for (const url of urls) t.strictSame(await ask(url), { status: 200, body: { status: 'ready' } });
});

t.test('it is 503 for as long as nothing can be stored', async (t) => {
  let writable = true;
  const gw = await startTestGateway(t, {
    store: (opened) => new Proxy(opened, { get: (target, name) => (name === 'writable' ? writable : bound(target, name)) }),
  });
  t.match(await ask(gw.url), { status: 200 });
  writable = false;
  t.match(await ask(gw.url), { status: 503, body: { status: 'record_store_unavailable', reasons: ['record_store_unavailable'] } });
  t.match(await ask(gw.url, '/healthz'), { status: 200 });
  writable = true;
  t.match(await ask(gw.url), { status: 200 });
});

t.test('it is 503 while the gateway drains, to who is connected still', async (t) => {
  const gw = await startTestGateway(t);
  const socket = await connectPlain(gw.port);
  t.teardown(() => socket.destroy());
  // The server has taken the connection once it answers another one that came later.
  t.match(await ask(gw.url), { status: 200 });
  const stopped = gw.gateway.stop();
  const answer = await h1Request(socket, `127.0.0.1:${gw.port}`, { path: '/readyz' });
  t.equal(answer.status, 503);
  t.strictSame(JSON.parse(answer.body.toString()), { status: 'draining', reasons: ['draining'] });
  await stopped;
});

t.test('a port that others can reach and that speaks plain HTTP is a warning in its health', async (t) => {
  const open = await startTestGateway(t, { env: { GW_HOST: '0.0.0.0', GW_PROXY_AUTH: 'required' } });
  t.match(await ask(open.url, '/healthz'), { body: { warnings: [{ code: 'clear_text_beyond_loopback', message: /GW_TLS_CERT_FILE/ }] } });
  const closed = await startTestGateway(t);
  t.match(await ask(closed.url, '/healthz'), { body: { warnings: [] } });
});

function bound(target: object, name: string | symbol): unknown {
  const value: unknown = Reflect.get(target, name);
  return typeof value === 'function' ? value.bind(target) : value;
}
