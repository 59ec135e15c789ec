// API keys on every door: where they may stand, whose org they bring, what a bad one is answered, and that they never
// go on to a provider or into a record.
import t from 'tap';
import { createLogger } from '../../src/base/lib/log.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { ALLOW_ALL, CHAT, chat, type Governed, startGoverned } from '../support/governed.ts';
import { connectPlain, connectThrough, h1Request, openTunnel, type RawResponse, type RequestOptions } from '../support/raw-clients.ts';

const INNER = '/v1/chat/completions';
const OPENAI = 'api.openai.com:443';
const GEMINI = '/proxy/gemini/v1beta/models/gemini-2.5-flash:generateContent';

const basic = (user: string, password: string) => `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;

async function makeKey(gw: TestGateway, orgId = 'acme', more: object = {}): Promise<{ id: string; key: string }> {
  const made = await gw.admin('POST', '/v1/admin/api-keys', { org_id: orgId, name: 'test', ...more });
  if (made.status !== 201) throw new Error(made.text);
  return made.body as { id: string; key: string };
}

const KEY_REALM = /Proxy-Authenticate: Basic realm="AI Request Gateway: the password is an API key, gwk_\.\.\."/;

/** How a CONNECT is refused. */
async function refusedConnect(gw: TestGateway, shown?: string): Promise<unknown> {
  const headers = shown === undefined ? {} : { 'Proxy-Authorization': shown };
  return openTunnel(gw.port, OPENAI, { headers }).then(
    (socket) => socket.destroy(),
    (refused: unknown) => refused,
  );
}

/** A call with exactly these headers. */
const bare = (headers: readonly string[], path = '/proxy/openai/v1/chat/completions', body: object = CHAT): RequestOptions => ({
  method: 'POST',
  path,
  headers: ['Content-Type', 'application/json', ...headers],
  body: JSON.stringify(body),
});

/** One call on each door, with the key where that door takes it. */
const DOORS: readonly (readonly [name: string, call: (governed: Governed, key: string) => Promise<RawResponse>])[] = [
  ['redirect, X-GW-API-Key', ({ send }, key) => send(chat(['X-GW-API-Key', key]))],
  ['redirect, Authorization', ({ send }, key) => send(bare(['Authorization', `Bearer ${key}`]))],
  ['redirect, x-api-key', ({ send }, key) => send(bare(['x-api-key', key], '/proxy/anthropic/v1/messages'))],
  [
    'redirect, x-goog-api-key',
    ({ send }, key) => send(bare(['x-goog-api-key', key], GEMINI, { contents: [{ role: 'user', parts: [{ text: 'hello' }] }] })),
  ],
  ['tunnel, X-GW-API-Key inside', ({ through }, key) => through(OPENAI, chat(['X-GW-API-Key', key], INNER))],
  ['tunnel, Authorization inside', ({ through }, key) => through(OPENAI, bare(['Authorization', `Bearer ${key}`], INNER))],
  ['CONNECT, password', ({ through }, key) => through(OPENAI, chat([], INNER), { 'Proxy-Authorization': basic('default', key) })],
  ['CONNECT, password alone', ({ through }, key) => through(OPENAI, chat([], INNER), { 'Proxy-Authorization': basic('', key) })],
  ['CONNECT, user alone', ({ through }, key) => through(OPENAI, chat([], INNER), { 'Proxy-Authorization': basic(key, '') })],
  ['CONNECT, X-GW-API-Key', ({ through }, key) => through(OPENAI, chat([], INNER), { 'X-GW-API-Key': key })],
  [
    'absolute, password',
    ({ send }, key) =>
      send({ ...chat(['Proxy-Authorization', basic('default', key)], `http://api.openai.com${INNER}`), host: 'api.openai.com' }),
  ],
];

// Holds: own-tokens-stay-here
t.test('a key is taken in every place of every door, brings its org, is named in the record and goes nowhere', async (t) => {
  const governed = await startGoverned(t, { bundle: ALLOW_ALL });
  const { gw, upstream, recordOf, execute } = governed;
  const { id, key } = await makeKey(gw);
  for (const [name, call] of DOORS) {
    const answer = await call(governed, key);
    const record = await recordOf(answer);
    t.match(
      record,
      { org_id: 'acme', workload_id: 'default', api_key_id: id, decision: name.startsWith('absolute') ? 'error' : 'allow' },
      name,
    );
    t.notMatch(JSON.stringify(record), 'gwk_', name);
  }
  for (const headers of [{ authorization: `Bearer ${key}` }, { 'X-GW-API-Key': key }]) {
    const direct = await execute({ org_id: 'acme' }, {}, headers);
    t.equal(direct.status, 200);
    t.match(await gw.record(String(direct.body['record_id'])), { org_id: 'acme', api_key_id: id });
  }
  t.not(upstream.requests.length, 0);
  for (const request of upstream.requests) t.notMatch(JSON.stringify([request.url, request.headers]), 'gwk_');
  t.match((await gw.admin('GET', '/metrics')).text, /gw_auth_key_lookup_total\{result="hit"\} \d/);
  const managed = await startGoverned(t, { bundle: ALLOW_ALL, env: { GW_MANAGED_MODE: 'true', GW_PROXY_MITM_ENABLED: 'false' } });
  const own = await makeKey(managed.gw);
  const socket = await openTunnel(managed.gw.port, OPENAI, { headers: { 'Proxy-Authorization': basic('', own.key) } });
  socket.destroy();
  t.match(await refusedConnect(managed.gw, basic('default', 'gwk_other')), { status: 407 }, 'a tunnel that is not intercepted');
});

t.test('what is no valid key is refused on every door before a body is read, and counted by its reason', async (t) => {
  const clock = fakeClock();
  const governed = await startGoverned(t, { env: { GW_MANAGED_MODE: 'true' }, clock });
  const { gw, upstream, send, execute } = governed;
  const revoked = await makeKey(gw);
  await gw.admin('DELETE', `/v1/admin/api-keys/${revoked.id}`);
  const expired = await makeKey(gw, 'acme', { expires_at: new Date(clock.now() + 1000).toISOString() });
  clock.advance(1000);
  const keys = { invalid_key: 'gwk_nobody', revoked: revoked.key, expired: expired.key };
  for (const [reason, key] of Object.entries(keys)) {
    for (const [name, call] of DOORS.filter(
      ([door]) => !door.startsWith('CONNECT') && !door.startsWith('absolute') && !door.startsWith('tunnel'),
    )) {
      const answer = await call(governed, key);
      t.equal(answer.status, 401, `${name} ${reason}`);
      t.match(answer.body.toString(), /API key/);
      t.notOk(answer.headers['x-gw-record-id'], 'no record');
    }
    t.match(await execute({ org_id: 'acme' }, {}, { authorization: `Bearer ${key}` }), {
      status: 401,
      body: { error: { code: 'unauthorized' } },
    });
    for (const shown of [basic('', key), basic('default', key)])
      t.match(await refusedConnect(gw, shown), { status: 407, rawHead: KEY_REALM });
    const absolute = await send({
      ...chat(['Proxy-Authorization', basic('', key)], `http://api.openai.com${INNER}`),
      host: 'api.openai.com',
    });
    t.equal(absolute.status, 407);
    const metrics = (await gw.admin('GET', '/metrics')).text;
    t.match(metrics, new RegExp(`gw_auth_failures_total\\{reason="${reason}",org_id="[a-z]+"\\} \\d`));
  }
  t.equal((await send(chat())).status, 401, 'without one');
  t.equal((await execute()).status, 401);
  t.match(await refusedConnect(gw), { status: 407, rawHead: KEY_REALM });
  t.match((await gw.admin('GET', '/metrics')).text, /gw_auth_failures_total\{reason="missing_header",org_id="default"\} 3/);
  t.equal(upstream.requests.length, 0);
});

t.test('a request is for the org of its key, or denied with a record', async (t) => {
  const { gw, send, through, execute, recordOf, upstream } = await startGoverned(t);
  const { id, key } = await makeKey(gw);
  const theirs = await makeKey(gw, 'other');
  const mismatch = { decision: 'deny', reason_codes: ['org_mismatch'] };
  const redirected = await send(chat(['X-GW-API-Key', key, 'X-GW-Org-ID', 'other']));
  t.match([redirected.status, await recordOf(redirected)], [403, { ...mismatch, org_id: 'other' }]);
  t.match(await execute({ org_id: 'other' }, {}, { authorization: `Bearer ${key}` }), { status: 403, body: mismatch });
  const opened = { 'Proxy-Authorization': basic('default', key) };
  for (const inside of [
    ['X-GW-Org-ID', 'other'],
    ['X-GW-API-Key', theirs.key],
  ]) {
    t.match(await recordOf(await through(OPENAI, chat(inside, INNER), opened)), mismatch, `inside: ${inside[0]}`);
  }
  t.equal(upstream.requests.length, 0);
  t.match(await recordOf(await through(OPENAI, chat(['X-GW-Org-ID', 'acme'], INNER), opened)), {
    decision: 'allow',
    org_id: 'acme',
    api_key_id: id,
  });
});

// Holds: revoked-is-revoked
t.test('a key that is revoked lets nobody in from the next request on, also inside a tunnel that is open', async (t) => {
  const { gw } = await startGoverned(t);
  const { id, key } = await makeKey(gw);
  const plain = await connectPlain(gw.port);
  t.teardown(() => plain.destroy());
  const tunnel = await connectThrough(gw.port, OPENAI, gw.caPem, { headers: { 'Proxy-Authorization': basic('default', key) } });
  t.teardown(() => tunnel.destroy());
  const kept = () => h1Request(plain, `127.0.0.1:${gw.port}`, chat(['X-GW-API-Key', key]));
  const inside = () => h1Request(tunnel, 'api.openai.com', chat([], INNER));
  t.same([(await kept()).status, (await inside()).status], [200, 200]);
  await gw.admin('DELETE', `/v1/admin/api-keys/${id}`);
  t.same([(await kept()).status, (await inside()).status], [401, 401]);
});

t.test('with GW_PROXY_AUTH=required a key will do as a token does, and a token names its workload where nothing else does', async (t) => {
  const { gw, send, through, recordOf, execute, upstream } = await startGoverned(t, { env: { GW_PROXY_AUTH: 'required' } });
  const { key } = await makeKey(gw, 'default');
  await gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'ci' });
  const token = ((await gw.admin('POST', '/v1/admin/workloads/ci/token')).body as { token: string }).token;
  t.equal((await send(chat())).status, 401);
  t.match(await recordOf(await send(chat(['X-GW-API-Key', key]))), { decision: 'allow', workload_id: 'default' });
  t.match(await recordOf(await send(bare(['Authorization', `Bearer ${token}`]))), { decision: 'allow', workload_id: 'ci' });
  t.match(await recordOf(await send(chat(['X-GW-Workload-Token', token]))), { decision: 'allow', workload_id: 'ci' });
  for (const shown of [basic('ci', token), basic('', token), basic(token, '')])
    t.match(await recordOf(await through(OPENAI, chat([], INNER), { 'Proxy-Authorization': shown })), {
      decision: 'allow',
      workload_id: 'ci',
    });
  t.match(await recordOf(await send(chat(['X-GW-API-Key', key, 'X-GW-Workload-Token', token]))), { workload_id: 'ci', decision: 'allow' });
  t.equal((await send(chat(['X-GW-API-Key', key, 'X-GW-Workload-ID', 'ci']))).status, 401, 'its token is needed all the same');
  const both = { authorization: `Bearer ${key}`, 'X-GW-Workload-Token': token };
  t.match(await execute({ workload_id: 'ci' }, {}, both), { status: 200 });
  t.match(await execute({}, {}, { authorization: `Bearer ${key}` }), { status: 200 });
  t.match(await refusedConnect(gw, basic('ci', 'gwt_wrong')), {
    status: 407,
    rawHead:
      /Basic realm="AI Request Gateway: the password is the token of workload ci, gwt_\.\.\., which POST \/v1\/admin\/workloads\/ID\/token makes"/,
  });
  for (const { headers } of upstream.requests) t.notMatch(JSON.stringify(headers), /gw[kt]_/);
});

// Holds: own-tokens-stay-here
t.test('a key in a URL goes nowhere and into no log, to an AI host or another, and is told so', async (t) => {
  const lines: string[] = [];
  const log = createLogger({ level: 'trace', format: 'json', destination: { write: (line: string) => void lines.push(line) } });
  const { send, through, upstream } = await startGoverned(t, { log, env: { GW_PROXY_NON_AI: 'inspect' } });
  const site = 'www.example.com';
  for (const ask of [
    () => send(bare([], `${GEMINI}?key=gwk_x`)),
    () => send({ ...bare([], `http://${site}/?key=gwk_x`), host: site }),
    () => through(`${site}:443`, bare([], '/?key=gwk_x')),
  ]) {
    const answer = await ask();
    t.match([answer.status, answer.body.toString()], [400, /in a header, never in a URL/]);
  }
  t.equal(upstream.requests.length, 0);
  t.notMatch(lines.join(''), 'gwk_x');
});

// Holds: own-tokens-stay-here
t.test('a key is none of the provider: the stored credential is used, and without one the call goes without', async (t) => {
  const { gw, send, upstream } = await startGoverned(t);
  const { key } = await makeKey(gw);
  const call = () => send(bare(['Authorization', `Bearer ${key}`]));
  await call();
  t.equal(upstream.requests.at(-1)?.headers['authorization'], undefined);
  const credential = { credential_id: 'c', connector_id: 'openai', mode: 'alias', secret_ref: 'sk-stored' };
  t.equal((await gw.admin('PUT', '/v1/admin/credentials', credential)).status, 200);
  await call();
  t.equal(upstream.requests.at(-1)?.headers['authorization'], 'Bearer sk-stored');
});

t.test('a key reads the records and reports of its org, and nothing else', async (t) => {
  const { gw, execute } = await startGoverned(t);
  const { key } = await makeKey(gw, 'default');
  const theirs = await makeKey(gw, 'other');
  const { body } = await execute();
  const id = String(body['record_id']);
  const { record_hash: hash } = await gw.record(id);
  const ask = async (path: string, shown: string) => {
    const response = await fetch(gw.url + path, { headers: { authorization: `Bearer ${shown}` } });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };
  t.match(await ask(`/v1/records/${id}`, key), { status: 200, body: { record_id: id } });
  t.match(await ask(`/v1/verify/${String(hash)}`, key), { status: 200 });
  t.match(await ask('/v1/reports/usage', key), { status: 200, body: { org_id: 'default', workloads: [{ requests: 1 }] } });
  t.match(await ask('/v1/reports/spend?org_id=default', key), { status: 200, body: { org_id: 'default' } });
  t.match(await ask(`/v1/records/${id}`, theirs.key), { status: 404 });
  t.match(await ask(`/v1/verify/${String(hash)}`, theirs.key), { status: 404 });
  t.match(await ask('/v1/reports/usage?org_id=default', theirs.key), { status: 403, body: { error: { code: 'forbidden' } } });
  t.match(await ask(`/v1/records/${id}`, 'gwk_nobody'), { status: 401 });
  t.match(await ask('/v1/admin/workloads', key), { status: 401 });
  t.match(await gw.admin('GET', '/v1/reports/usage'), { status: 400, body: { error: { details: [{ path: 'org_id' }] } } });
});

t.test('keys that another writer of the store has made and revoked count over a restart', async (t) => {
  const first = await startTestGateway(t);
  const { id, key } = await makeKey(first);
  await first.gateway.stop();
  const { gw, send, recordOf } = await startGoverned(t, { env: { GW_DATA_DIR: first.dataDir } });
  t.match(await recordOf(await send(chat(['X-GW-API-Key', key]))), { api_key_id: id, org_id: 'acme' });
  t.match((await gw.admin('GET', '/metrics')).text, /gw_auth_key_lookup_total\{result="fallback"\} 1/);
});

t.test('a key that the store does not give is 503 on every door, and never called unknown', async (t) => {
  let broken = false;
  const place = await startGoverned(t, {
    bundle: ALLOW_ALL,
    store: (opened) =>
      new Proxy(opened, {
        get: (target, name) => {
          if (name === 'get') return (space: string, key: string) => (broken ? Promise.reject(new Error('EIO')) : target.get(space, key));
          const member: unknown = Reflect.get(target, name, target);
          return typeof member === 'function' ? (member.bind(target) as unknown) : member;
        },
      }),
  });
  const { gw, send, execute } = place;
  const { key } = await makeKey(gw, 'default');
  broken = true;
  const wanted = { error: { code: 'key_lookup_failed' } };
  const answer = await send(bare(['X-GW-API-Key', key]));
  t.match([answer.status, answer.headers['retry-after'], JSON.parse(answer.body.toString())], [503, '1', wanted]);
  const direct = await execute({}, {}, { Authorization: `Bearer ${key}` });
  t.match([direct.status, direct.headers.get('retry-after'), direct.body], [503, '1', wanted]);
  const asked = await fetch(`${gw.url}/v1/reports/usage`, { headers: { 'X-GW-API-Key': key } });
  t.match([asked.status, await asked.json()], [503, wanted]);
  t.match(await refusedConnect(gw, basic('ci', key)), { status: 503, rawHead: /Retry-After: 1/ });
  const managed = await fetch(`${gw.url}/mgmt/v1/records`, { headers: { Authorization: 'Bearer mgk_0123456789' } });
  t.match([managed.status, await managed.json()], [503, wanted], 'nor a management key');
  t.notMatch((await gw.admin('GET', '/metrics')).text, /gw_auth_failures_total\{reason="invalid_key"[^}]*\} [1-9]/);
  broken = false;
  t.equal((await send(bare(['X-GW-API-Key', key]))).status, 200);
});
