// GW_MGMT_PORT: the management API and MCP on a port of their own, behind the same guards, and nothing else there.
import { request as httpRequest } from 'node:http';
import { connect } from 'node:net';
import t from 'tap';
import { loadConfig } from '../../src/base/config/config.ts';
import { ADMIN_TOKEN } from '../support/gateway.ts';
import { startManaged } from '../support/managed.ts';
import { initializeOf } from '../surfaces/mcp/mcp-place.ts';

const APART = { env: { GW_MGMT_PORT: '0' } };

t.test('without it the first port serves everything', async (t) => {
  const { gw, manage } = await startManaged(t);
  t.equal(gw.gateway.managementPort, undefined);
  t.equal((await manage('GET', 'workloads')).status, 200);
});

t.test('the management API and MCP are there, and no longer on the first port; health is on both', async (t) => {
  const { gw, keyOf } = await startManaged(t, APART);
  const apart = `http://127.0.0.1:${gw.gateway.managementPort}`;
  const [mgk, mcpk] = [(await keyOf('acme')).key, (await keyOf('acme', ['read'], 'mcp')).key];
  const list = (url: string) => fetch(`${url}/mgmt/v1/workloads`, { headers: { authorization: `Bearer ${mgk}` } });
  const speak = (url: string) =>
    fetch(`${url}/mcp`, {
      method: 'POST',
      headers: { authorization: `Bearer ${mcpk}`, 'content-type': 'application/json' },
      body: JSON.stringify(initializeOf('2025-11-25')),
    });
  t.equal((await list(apart)).status, 200);
  t.equal((await speak(apart)).status, 200);
  t.equal((await list(gw.url)).status, 404);
  t.equal((await speak(gw.url)).status, 404);
  for (const url of [apart, gw.url]) t.equal((await fetch(`${url}/healthz`)).status, 200);
});

t.test('nothing else is there: no admin API, no actions, no proxy of any kind', async (t) => {
  const { gw } = await startManaged(t, APART);
  const port = gw.gateway.managementPort ?? 0;
  const apart = `http://127.0.0.1:${port}`;
  const headers = { 'GW-Admin-Token': ADMIN_TOKEN, 'x-gw-org-id': 'acme', 'x-gw-workload-id': 'default' };
  for (const path of ['/v1/admin/workloads', '/metrics', '/proxy/openai/v1/models', '/v1/models']) {
    t.equal((await fetch(apart + path, { headers })).status, 404, path);
  }
  t.equal((await fetch(`${apart}/v1/actions:execute`, { method: 'POST', body: '{}' })).status, 404);
  const absolute = new Promise<number>((resolve, reject) => {
    const call = httpRequest({ host: '127.0.0.1', port, path: 'http://example.com/', headers: { host: 'example.com' } }, (answer) => {
      answer.resume();
      resolve(answer.statusCode ?? 0);
    });
    call.on('error', reject).end();
  });
  t.equal(await absolute, 403);
  const tunnel = new Promise<string>((resolve, reject) => {
    let said = '';
    const socket = connect(port, '127.0.0.1', () =>
      socket.write('CONNECT api.openai.com:443 HTTP/1.1\r\nHost: api.openai.com:443\r\n\r\n'),
    );
    socket.on('data', (chunk) => (said += chunk.toString()));
    socket.on('close', () => resolve(said));
    socket.on('error', reject);
  });
  t.match(await tunnel, /^HTTP\/1\.1 403 [\s\S]*connect_refused/);
});

t.test('its guards are those of the other ports, and no tunnel leads to it', async (t) => {
  const { gw, keyOf } = await startManaged(t, APART);
  const port = gw.gateway.managementPort ?? 0;
  const { key } = await keyOf('acme');
  const status = (headers: Readonly<Record<string, string>>) =>
    new Promise<number>((resolve, reject) => {
      const sent = { authorization: `Bearer ${key}`, ...headers };
      const call = httpRequest({ host: '127.0.0.1', port, path: '/mgmt/v1/workloads', headers: sent }, (answer) => {
        answer.resume();
        resolve(answer.statusCode ?? 0);
      });
      call.on('error', reject).end();
    });
  t.equal(await status({}), 200);
  t.equal(await status({ host: 'evil.example.com' }), 421);
  t.equal(await status({ origin: 'https://elsewhere.example' }), 403);
  t.equal(await status({ origin: `http://127.0.0.1:${port}` }), 200);
  t.equal(await status({ authorization: 'Bearer mgk_x' }), 401);
  const through = new Promise<number>((resolve, reject) => {
    const call = httpRequest({ host: '127.0.0.1', port: gw.port, method: 'CONNECT', path: `localhost:${port}` });
    call.on('connect', (answer, socket) => {
      socket.destroy();
      resolve(answer.statusCode ?? 0);
    });
    call.on('error', reject).end();
  });
  t.equal(await through, 403);
});

t.test('it is a port of its own', (t) => {
  const load = (env: Readonly<Record<string, string>>) => loadConfig(env, false);
  t.throws(() => load({ GW_MGMT_PORT: '7080' }), { message: /GW_MGMT_PORT: "7080" is GW_PORT too/ });
  t.throws(() => load({ GW_MGMT_PORT: '7081' }), { message: /GW_MGMT_PORT: "7081" is GW_AMBIENT_PORT too/ });
  t.equal(load({ GW_MGMT_PORT: '7082' }).config.mgmtPort, 7082);
  t.end();
});
