import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import pino from 'pino';
import t from 'tap';
import { type Logger, silentLogger } from '../../src/base/lib/log.ts';
import { type Sealed, SecretBox } from '../../src/base/lib/secret-box.ts';
import { APPROVAL_CONTENT, contentContext } from '../../src/services/review/approvals.ts';
import { openEmbeddedStore } from '../../src/storage/embedded/open-embedded-store.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { ALLOW_ALL, bundleOf, CHAT, chat, type Governed, startGoverned } from '../support/governed.ts';
import { startRawUpstream } from '../support/raw-upstream.ts';
import { gw as command } from '../support/run-gw.ts';
import { tempDir } from '../support/temp-dir.ts';
import { towards } from '../support/upstreams.ts';

const SECRET = 'sk-stored-secret-1234567890';
const AZURE = 'res.openai.azure.com';

async function store(gw: TestGateway, credential: object): Promise<void> {
  const answer = await gw.admin('PUT', '/v1/admin/credentials', { mode: 'alias', ...credential });
  if (answer.status !== 200) throw new Error(answer.text);
}

/** A call without any key. */
function keyless(headers: readonly string[] = [], path?: string): ReturnType<typeof chat> {
  const { headers: _withKey, ...call } = chat([], path);
  return { ...call, headers: ['Content-Type', 'application/json', ...headers] };
}

/** The auth headers of the last call that reached the upstream. */
function sent({ upstream }: Governed): Record<string, unknown> {
  const { authorization, 'x-api-key': xApiKey, 'api-key': apiKey, 'x-goog-api-key': google } = upstream.requests.at(-1)?.headers ?? {};
  return { authorization, xApiKey, apiKey, google };
}

const none = { authorization: undefined, xApiKey: undefined, apiKey: undefined, google: undefined };

// Holds: stored-secrets-stay-in
t.test('the admin API never shows a secret', async (t) => {
  const lines: string[] = [];
  const log = pino(
    { level: 'trace' },
    new Writable({
      write: (line, _encoding, done) => {
        lines.push(String(line));
        done();
      },
    }),
  ) as unknown as Logger;
  const governed = await startGoverned(t, { bundle: ALLOW_ALL, log });
  const { gw } = governed;
  const put = (body: unknown) => gw.admin('PUT', '/v1/admin/credentials', body);
  const whole = {
    credential_id: 'cred-a',
    org_id: 'default',
    connector_id: 'provider_a',
    mode: 'alias',
    secret_ref: SECRET,
    name: 'Main',
    billing_owner: 'ops',
  };
  const created = await put(whole);
  t.match(created, {
    status: 200,
    body: { credential_id: 'cred-a', connector_id: 'openai', type: 'ai_provider', distribution: 'org_wide', secret_source: 'stored' },
  });
  process.env['TEST_KEY_OF_A_TEAM'] = 'sk-of-the-environment';
  t.teardown(() => delete process.env['TEST_KEY_OF_A_TEAM']);
  await store(gw, { credential_id: 'cred-env', connector_id: 'anthropic', secret_ref: 'env:TEST_KEY_OF_A_TEAM' });
  t.equal((await governed.execute({ credential_hint: 'cred-a' })).status, 200);
  const listed = await gw.admin('GET', '/v1/admin/credentials');
  t.match(listed.body, {
    credentials: [
      { credential_id: 'cred-a', name: 'Main' },
      { credential_id: 'cred-env', secret_source: 'environment' },
    ],
  });
  for (const text of [created.text, listed.text, lines.join('')]) t.notOk(text.includes(SECRET) || text.includes('secret_ref'));

  t.match(
    await put({ ...whole, secret_ref: undefined, name: 'Renamed' }),
    { status: 200, body: { name: 'Renamed' } },
    'an update keeps the secret',
  );
  await governed.execute({ credential_hint: 'cred-a' });
  t.same(sent(governed), { ...none, authorization: `Bearer ${SECRET}` });
  const bound = { credential_id: 'cred-bound', connector_id: 'azure_openai', mode: 'alias' };
  await put({ ...bound, secret_ref: SECRET, org_id: 'acme', target_hosts: [AZURE], billing_owner: 'ops' });
  t.match(
    await put({ ...bound, name: 'Named' }),
    { body: { org_id: 'acme', target_hosts: [AZURE], billing_owner: 'ops', name: 'Named' } },
    'and leaves it bound to its org and its hosts',
  );
  const { body: anew } = await put({ ...bound, secret_ref: SECRET });
  t.notOk(
    ['org_id', 'target_hosts', 'name'].some((member) => Object.hasOwn(anew as object, member)),
    'with a secret it is written anew',
  );

  t.match(await put({ ...whole, distribution: 'node_scoped' }), { status: 400, body: { error: { code: 'INVALID_ARGUMENT' } } });
  t.match(await gw.admin('PUT', '/v1/admin/credentials/cred-a/nodes', { node_ids: ['n'] }), {
    status: 400,
    body: { error: { code: 'INVALID_ARGUMENT' } },
  });
  for (const [change, path] of [
    [{ credential_id: 'two words' }, 'credential_id'],
    [{ connector_id: 'nowhere' }, 'connector_id'],
    [{ connector_id: 'generic_http' }, 'connector_id'],
    [{ connector_id: 'anthropic', secret_ref: undefined }, 'secret_ref'],
    [{ credential_id: 'new', secret_ref: undefined }, 'secret_ref'],
    [{ mode: 'oauth' }, 'mode'],
    [{ mode: undefined }, 'mode'],
    [{ type: 'other' }, 'type'],
    [{ secret_ref: 'two\nlines' }, 'secret_ref'],
    [{ secret_ref: 'env:not a name' }, 'secret_ref'],
    [{ target_hosts: ['api.mistral.ai'] }, 'target_hosts[0]'],
    [{ target_hosts: [] }, 'target_hosts'],
    [{ secret: SECRET }, 'secret'],
  ] as const) {
    const answer = await put({ ...whole, ...change });
    t.equal(answer.status, 400, path);
    t.match(answer.text, `"path":"${path}"`);
    t.notOk(answer.text.includes(SECRET));
  }
  t.match(await gw.admin('GET', '/v1/admin/connectors'), { status: 200 });
  t.equal((await gw.admin('DELETE', '/v1/admin/credentials/cred-a')).status, 200);
  t.equal((await gw.admin('DELETE', '/v1/admin/credentials/cred-a')).status, 404);
  t.equal((await fetch(`${gw.url}/v1/admin/credentials`)).status, 401);
});

t.test('each kind of provider gets the stored key in its own way, and what the client sent is gone', async (t) => {
  const governed = await startGoverned(t, { bundle: ALLOW_ALL });
  const { gw, execute, send } = governed;
  for (const connector of ['openai', 'anthropic', 'gemini', 'azure_openai', 'cohere', 'mistral']) {
    await store(gw, { credential_id: `key-${connector}`, connector_id: connector, secret_ref: `stored-${connector}` });
  }
  const direct = (host: string, params: object) => execute({ credential_hint: undefined }, { target_host: host, params });
  await direct('api.openai.com', CHAT);
  t.same(sent(governed), { ...none, authorization: 'Bearer stored-openai' });
  await direct('api.anthropic.com', { model: 'claude-3-5-haiku-20241022', max_tokens: 5, messages: [] });
  t.same(sent(governed), { ...none, xApiKey: 'stored-anthropic' });
  await direct('generativelanguage.googleapis.com', { model: 'gemini-2.5-flash', contents: [] });
  t.same(sent(governed), { ...none, google: 'stored-gemini' });
  await direct(AZURE, CHAT);
  t.same(sent(governed), { ...none, apiKey: 'stored-azure_openai' });

  const body = { model: 'claude-3-5-haiku-20241022', max_tokens: 5, messages: [] };
  const bare = (headers: string[], path: string, of: unknown) =>
    send({ method: 'POST', path, headers: ['Content-Type', 'application/json', ...headers], body: JSON.stringify(of) });
  const answer = await bare([], '/proxy/anthropic/v1/messages', body);
  t.same(sent(governed), { ...none, xApiKey: 'stored-anthropic' }, 'a client without a key');
  t.match(await governed.recordOf(answer), { credential_id: 'key-anthropic' });
  await bare(['Authorization', 'Bearer '], '/proxy/anthropic/v1/messages', body);
  t.same(sent(governed), { ...none, xApiKey: 'stored-anthropic' }, 'an empty scheme is no key');
  await bare(['x-api-key', 'mine'], '/proxy/anthropic/v1/messages', body);
  t.same(sent(governed), { ...none, xApiKey: 'mine' }, "the client's own key comes before the first candidate");
  await bare(['x-goog-api-key', ''], '/proxy/gemini/v1beta/models/gemini-2.5-flash:generateContent?key=', { contents: [] });
  t.same(sent(governed), { ...none, google: 'stored-gemini' });
});

t.test('policy selects among stored credentials', async (t) => {
  const rules = `  connectors:
    - {id: all, effect: {decision: allow}}
  credentials:
    - {id: team, when: {field: context.attribution.project_id, equals: team}, effect: {decision: allow, select_credential: {credential_id: cred-team}}}
    - {id: bill, when: {field: context.attribution.project_id, equals: bill}, effect: {decision: allow, select_credential: {billing_owner: finance}}}
    - {id: mine, when: {field: context.attribution.project_id, equals: mine}, effect: {decision: allow, select_credential: {mode: byok}}}
    - {id: lost, when: {field: context.attribution.project_id, equals: lost}, effect: {decision: allow, select_credential: {provider: anthropic}}}
    - {id: other, priority: -1, effect: {decision: allow}}
    - {id: never, priority: 5, when: {field: context.credential.id, equals: cred-forbidden}, effect: {decision: deny, reason: not this key}}
    - {id: listed, priority: 9, when: {all: [{field: context.attribution.project_id, equals: listed}, {field: context.candidates.credentials, in: [cred-team]}]}, effect: {decision: deny}}
`;
  const governed = await startGoverned(t, { bundle: bundleOf(rules) });
  const { gw, execute, send } = governed;
  for (const [id, more] of [
    ['cred-a', {}],
    ['cred-team', {}],
    ['cred-fin', { billing_owner: 'finance' }],
    ['cred-forbidden', {}],
    ['cred-0-own', { mode: 'byok' }],
  ] as const) {
    await store(gw, { credential_id: id, connector_id: 'openai', secret_ref: `secret-${id}`, ...more });
  }
  await store(gw, { credential_id: 'cred-elsewhere', connector_id: 'mistral', secret_ref: 'secret-mistral' });
  const call = (project: string, hint?: string) => execute({ credential_hint: hint, attribution: { project_id: project } });
  const took = async (project: string, hint?: string) => {
    const { status, body } = await call(project, hint);
    return status === 200 ? sent(governed)['authorization'] : body['reason_codes'];
  };
  t.equal(await took('any'), 'Bearer secret-cred-a', 'the first by id');
  t.equal(await took('team'), 'Bearer secret-cred-team');
  t.equal(await took('bill'), 'Bearer secret-cred-fin');
  t.same(await took('mine'), ['no_credential_candidate'], 'what is stored with mode byok is never put in');
  t.equal(await took('mine', 'sk-raw-key'), 'Bearer sk-raw-key', 'a rule that selects byok means the key of the caller');
  t.same(await took('mine', 'cred-a'), ['credential_not_allowed']);
  t.same(await took('any', 'cred-0-own'), ['credential_not_allowed'], 'nor when it is named');
  t.same(await took('lost'), ['no_credential_candidate']);
  t.equal(await took('any', 'cred-team'), 'Bearer secret-cred-team', 'a hint');
  t.same(await took('bill', 'cred-team'), ['credential_not_allowed'], 'that policy did not leave');
  t.same(await took('any', 'cred-elsewhere'), ['credential_not_allowed'], 'for another connector');
  t.same(await took('any', 'cred-nobody'), ['credential_not_found']);
  t.equal(await took('any', 'sk-raw-key'), 'Bearer sk-raw-key');
  t.same(await took('bill', 'sk-raw-key'), ['credential_not_allowed'], 'a raw key is no credential of finance');
  t.same(await took('any', 'cred-forbidden'), ['credential_not_allowed'], 'rules see the credential of the hint');
  t.same(await took('listed'), ['credential_not_allowed'], 'and the candidates');
  const proxied = await send(chat(['X-GW-Project-ID', 'team']));
  t.equal(proxied.status, 200);
  t.same(sent(governed), { ...none, authorization: 'Bearer secret-cred-team' }, "what policy selects comes before the client's own header");
  t.equal((await send(chat(['X-GW-Project-ID', 'mine']))).status, 200);
  t.same(sent(governed), { ...none, authorization: 'Bearer sk-client' });
  t.equal((await send(keyless(['X-GW-Project-ID', 'mine']))).status, 403, 'and he must bring one');
});

// Holds: stored-secrets-stay-in
t.test('a credential of mode byok is no key of the gateway, through any door', async (t) => {
  const governed = await startGoverned(t, { bundle: ALLOW_ALL });
  const { gw, execute, send, through } = governed;
  await store(gw, { credential_id: 'cred-byok', connector_id: 'openai', mode: 'byok', secret_ref: SECRET });
  const unnamed = { credential_hint: undefined };
  t.match((await execute(unnamed)).body, { reason_codes: ['no_credential_candidate'] });
  t.match((await execute({ credential_hint: 'cred-byok' })).body, { reason_codes: ['credential_not_allowed'] });
  t.equal(governed.upstream.requests.length, 0);
  await send(keyless());
  await through('api.openai.com:443', keyless([], '/v1/chat/completions'));
  t.equal(governed.upstream.requests.length, 2);
  for (const request of governed.upstream.requests) t.notMatch(JSON.stringify(request.headers), SECRET);
  const { connectors } = (await gw.admin('GET', '/v1/admin/connectors')).body as { connectors: { connector_id: string; status: string }[] };
  t.equal(connectors.find((row) => row.connector_id === 'openai')?.status, 'no_credential');
  await store(gw, { credential_id: 'cred-byok', connector_id: 'openai', mode: 'alias', secret_ref: SECRET });
  t.equal((await execute(unnamed)).status, 200);
  t.equal(sent(governed)['authorization'], `Bearer ${SECRET}`, 'as an alias it is one');
});

t.test('a variable that is not set is refused where it is named, by its name', async (t) => {
  process.env['TEST_PROVIDER_KEY'] = 'sk-of-the-environment';
  process.env['TEST_BAD_KEY'] = 'two\nlines';
  t.teardown(() => {
    delete process.env['TEST_PROVIDER_KEY'];
    delete process.env['TEST_BAD_KEY'];
  });
  const dir = tempDir(t);
  const { gw } = await startGoverned(t, { bundle: ALLOW_ALL, env: { GW_CREDENTIALS_DIR: dir } });
  const put = (secret: string, mode = 'alias') =>
    gw.admin('PUT', '/v1/admin/credentials', { credential_id: 'cred-env', connector_id: 'openai', mode, secret_ref: secret });
  for (const mode of ['alias', 'byok']) {
    const refused = await put('env:TEST_NOT_SET_KEY', mode);
    t.match(refused, { status: 400, body: { error: { details: [{ path: 'secret_ref', message: /env:TEST_NOT_SET_KEY/ }] } } }, mode);
  }
  t.match(await put('env:TEST_BAD_KEY'), { status: 400, text: /env:TEST_BAD_KEY, whose value cannot stand in a header/ });
  t.notMatch((await put('env:TEST_BAD_KEY')).text, /two/);
  t.match(await put('env:TEST_PROVIDER_KEY'), { status: 200, body: { secret_source: 'environment' } });
  t.equal((await put('env:TEST_NOT_SET_KEY')).status, 400, 'nor by a change of one that is there');
  const file = (name: string) => `credential_id: of-file\nconnector_id: openai\nmode: alias\nsecret_ref: env:${name}\n`;
  writeFileSync(join(dir, 'a.yaml'), file('TEST_NOT_SET_KEY'));
  const reloaded = await gw.admin('POST', '/v1/admin/credentials/reload');
  await t.rejects(startTestGateway(t, { env: { GW_CREDENTIALS_DIR: dir } }), /1 mistake/, 'nor at a start');
  t.match(reloaded, {
    status: 400,
    body: { error: { details: [{ file: 'a.yaml', path: 'secret_ref', message: /env:TEST_NOT_SET_KEY/ }] } },
  });
  writeFileSync(join(dir, 'a.yaml'), file('TEST_PROVIDER_KEY'));
  t.equal((await gw.admin('POST', '/v1/admin/credentials/reload')).status, 200);

  delete process.env['TEST_PROVIDER_KEY'];
  writeFileSync(join(dir, 'a.yaml'), '');
  await gw.gateway.stop();
  const lines: string[] = [];
  const sink = new Writable({
    write: (line, _encoding, done) => {
      lines.push(String(line));
      done();
    },
  });
  const log = pino({ level: 'trace' }, sink) as unknown as Logger;
  const again = await startGoverned(t, { bundle: ALLOW_ALL, log, env: { GW_DATA_DIR: gw.dataDir } });
  t.match(lines.join(''), /TEST_PROVIDER_KEY/, 'one that is gone at a later start is told by its name');
  t.match((await again.execute({ credential_hint: undefined })).body, { reason_codes: ['no_credential_candidate'] });
});

// Holds: stored-secrets-stay-in
t.test('a credential goes to no host but its own', async (t) => {
  const rules = `  connectors:
    - {id: all, effect: {decision: allow}}
    - {id: move, when: {field: context.attribution.project_id, equals: move}, effect: {select_connector: mistral}}
  transforms:
    - {id: host, when: {field: context.attribution.project_id, equals: host}, effect: {mutations: [{key: action.target_host, value: api.mistral.ai}]}}
`;
  const governed = await startGoverned(t, { bundle: bundleOf(rules) });
  const { gw, execute, send } = governed;
  await store(gw, { credential_id: 'k-openai', connector_id: 'openai', secret_ref: 'secret-openai' });
  await store(gw, {
    credential_id: 'k-azure',
    connector_id: 'azure_openai',
    secret_ref: 'secret-azure',
    target_hosts: ['other.openai.azure.com'],
  });
  const call = (project: string, action: object = {}, hint?: string) =>
    execute({ credential_hint: hint, attribution: { project_id: project } }, action);
  t.match(await call('', { target_host: AZURE }), { status: 403, body: { reason_codes: ['no_credential_candidate'] } }, 'target_hosts');
  for (const project of ['move', 'host']) {
    t.match(
      await call(project),
      { status: 403, body: { reason_codes: ['no_credential_candidate'] } },
      `${project}: no key for the new connector`,
    );
    t.match(await call(project, {}, 'k-openai'), { status: 403, body: { reason_codes: ['credential_not_allowed'] } });
    t.match(await call(project, {}, 'sk-raw'), { status: 403, body: { reason_codes: ['no_credential_candidate'] } });
  }
  t.equal((await send(chat(['X-GW-Project-ID', 'host']))).status, 403, "nor does the client's own header");
  const inQuery = {
    ...chat(['X-GW-Project-ID', 'move'], '/proxy/gemini/v1beta/models/gemini-2.5-flash:generateContent?key=sk-google', { contents: [] }),
    headers: ['X-GW-Project-ID', 'move', 'Content-Type', 'application/json'],
  };
  t.equal((await send(inQuery)).status, 403, 'nor a key in the query of its own provider');
  t.equal(governed.upstream.requests.length, 0);
  await store(gw, { credential_id: 'k-mistral', connector_id: 'mistral', secret_ref: 'secret-mistral' });
  for (const project of ['move', 'host']) {
    const { status, body } = await call(project);
    t.equal(status, 200, project);
    t.same(sent(governed), { ...none, authorization: 'Bearer secret-mistral' });
    t.match(await gw.record(String(body['record_id'])), {
      connector_id: 'mistral',
      credential_id: 'k-mistral',
      target_host: 'api.mistral.ai',
    });
  }
  t.equal((await send(chat(['X-GW-Project-ID', 'host']))).status, 200);
  t.same(sent(governed), { ...none, authorization: 'Bearer secret-mistral' });
});

// Holds: stored-secrets-stay-in
t.test('to a host that a customer of the provider runs goes no key that is not for that host', async (t) => {
  const mine = 'mine.us-east-1.aws.endpoints.huggingface.cloud';
  const others = 'others.us-east-1.aws.endpoints.huggingface.cloud';
  const governed = await startGoverned(t, { bundle: ALLOW_ALL, hosts: [mine, others] });
  const { gw, execute, through, upstream } = governed;
  const call = (host: string) => execute({ credential_hint: undefined }, { target_host: host });
  await store(gw, { credential_id: 'k-wide', connector_id: 'huggingface_endpoints', secret_ref: SECRET });
  t.match(await call(mine), { status: 403, body: { reason_codes: ['no_credential_candidate'] } });
  const bare = { ...chat([], '/v1/chat/completions'), headers: ['Content-Type', 'application/json'] };
  await through(`${mine}:443`, bare);
  t.notOk(JSON.stringify(upstream.requests).includes(SECRET), 'no door takes it there');
  await store(gw, { credential_id: 'k-mine', connector_id: 'huggingface_endpoints', secret_ref: 'secret-mine', target_hosts: [mine] });
  t.match(await call(mine), { status: 200 });
  t.same(sent(governed), { ...none, authorization: 'Bearer secret-mine' });
  t.match(await call(others), { status: 403, body: { reason_codes: ['no_credential_candidate'] } });
});

t.test('a stored key never leaves in the clear', async (t) => {
  const plain = await startRawUpstream((socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}'));
  t.teardown(() => plain.close());
  const governed = await startGoverned(t, {
    bundle: ALLOW_ALL,
    env: { GW_UPSTREAM_CONNECT_TO: `api.openai.com:80=127.0.0.1:${plain.port}` },
  });
  const { gw, execute, send } = governed;
  await store(gw, { credential_id: 'k-openai', connector_id: 'openai', secret_ref: SECRET });
  const target = 'http://api.openai.com/v1/chat/completions';
  t.match(await execute({ credential_hint: undefined }, { target }), { status: 403, body: { reason_codes: ['no_credential_candidate'] } });
  t.match(
    await execute({ credential_hint: 'k-openai' }, { target }),
    { status: 403, body: { reason_codes: ['credential_not_allowed'] } },
    'not when it is asked for either',
  );
  const proxied = await send({ ...chat([], target), headers: ['Content-Type', 'application/json'], host: 'api.openai.com' });
  t.equal(proxied.status, 200, 'a proxied call goes without one, as its caller sent it');
  t.match(plain.received, /^POST \/v1\/chat\/completions /);
  t.notMatch(plain.received, /authorization|sk-/i);
});

t.test('orgs, nodes and types', async (t) => {
  const governed = await startGoverned(t, { bundle: ALLOW_ALL, env: { GW_NODE_ID: 'node-1' } });
  const { gw, execute } = governed;
  await store(gw, { credential_id: 'a-acme', org_id: 'acme', connector_id: 'openai', secret_ref: 'secret-acme' });
  await store(gw, { credential_id: 'b-export', type: 'export_auth', connector_id: 'openai', secret_ref: 'secret-export' });
  await store(gw, { credential_id: 'c-node', distribution: 'node_scoped', connector_id: 'openai', secret_ref: 'secret-node' });
  const call = (org: string, hint?: string) => execute({ org_id: org, credential_hint: hint });
  t.equal((await call('acme')).status, 200);
  t.same(sent(governed), { ...none, authorization: 'Bearer secret-acme' });
  t.match(
    await call('default'),
    { status: 403, body: { reason_codes: ['no_credential_candidate'] } },
    "neither another org's, nor one for exports, nor one of other nodes",
  );
  t.match(await call('default', 'b-export'), { status: 200 }, 'an id that this org may not name is a raw key');
  t.same(sent(governed), { ...none, authorization: 'Bearer b-export' });
  t.equal((await gw.admin('PUT', '/v1/admin/credentials/c-node/nodes', { node_ids: ['node-1', 'node-2'] })).status, 200);
  t.equal((await call('default')).status, 200);
  t.same(sent(governed), { ...none, authorization: 'Bearer secret-node' });
  t.equal((await gw.admin('PUT', '/v1/admin/credentials/c-node/nodes', { node_ids: 'node-1' })).status, 400);
  t.equal((await gw.admin('PUT', '/v1/admin/credentials/none/nodes', { node_ids: [] })).status, 404);
});

t.test('the passthrough toggle', async (t) => {
  const governed = await startGoverned(t, { bundle: ALLOW_ALL, env: { GW_OAUTH_PASSTHROUGH: 'claude, openai' } });
  const rules = bundleOf('  credentials:\n    - {id: all, effect: {decision: allow, select_credential: {mode: alias}}}\n');
  await governed.gw.admin('PUT', '/v1/admin/policies', { bundle_yaml: rules });
  await store(governed.gw, { credential_id: 'k', connector_id: 'openai', secret_ref: 'secret' });
  const passed = await governed.send(chat());
  t.same(sent(governed), { ...none, authorization: 'Bearer sk-client' }, 'goes ahead of what policy selects');
  t.match(await governed.recordOf(passed), { oauth_passthrough: true });
  t.notOk('credential_id' in (await governed.recordOf(passed)));
  const bare = await governed.send({ method: 'POST', path: '/proxy/openai/v1/chat/completions', headers: [], body: JSON.stringify(CHAT) });
  t.same(sent(governed), { ...none, authorization: 'Bearer secret' });
  t.notOk('oauth_passthrough' in (await governed.recordOf(bare)));
  await store(governed.gw, { credential_id: 'a', connector_id: 'anthropic', secret_ref: 'secret' });
  const withKey = {
    method: 'POST',
    path: '/proxy/anthropic/v1/messages',
    headers: ['x-api-key', 'sk-client', 'Authorization', 'Bearer '],
    body: '{"model":"m"}',
  };
  const plain = await governed.send(withKey);
  t.same(sent(governed), { ...none, xApiKey: 'secret' }, 'a static key is none of what the toggle is for');
  t.notOk('oauth_passthrough' in (await governed.recordOf(plain)));
  await t.rejects(startTestGateway(t, { env: { GW_OAUTH_PASSTHROUGH: 'nobody' } }), /GW_OAUTH_PASSTHROUGH/);
  await t.rejects(startTestGateway(t, { env: { GW_OAUTH_PASSTHROUGH: 'custom:x' } }), /"custom:x" is no connector/);
});

t.test('files, restarts, keys and the status of connectors', async (t) => {
  const dir = tempDir(t);
  mkdirSync(join(dir, 'c'));
  process.env['GW_TEST_PROVIDER_KEY'] = ' secret-from-environment\n';
  writeFileSync(join(dir, 'c', 'a.yaml'), `credential_id: "007"\nconnector_id: openai\nmode: alias\nsecret_ref: ${SECRET}\n`);
  writeFileSync(
    join(dir, 'c', 'b.yaml'),
    'credentials:\n  - {credential_id: b1, connector_id: mistral, mode: alias, secret_ref: "env:GW_TEST_PROVIDER_KEY"}\n',
  );
  chmodSync(join(dir, 'c', 'a.yaml'), 0o600);
  chmodSync(join(dir, 'c', 'b.yaml'), 0o644);
  mkdirSync(join(dir, 'c', 'folder.yaml'));
  const lines: string[] = [];
  const log = pino({ level: 'warn' }, { write: (line: string) => void lines.push(line) }) as unknown as Logger;
  const governed = await startGoverned(t, { bundle: ALLOW_ALL, log, env: { GW_CREDENTIALS_DIR: join(dir, 'c') } });
  const { gw, execute } = governed;
  t.notMatch(lines.join(''), /chmod 600/, 'a file that only its owner reads, and one without a key in it');
  t.equal((await execute({ credential_hint: undefined })).status, 200);
  t.same(sent(governed), { ...none, authorization: `Bearer ${SECRET}` });
  t.equal((await execute({ credential_hint: undefined }, { target_host: 'api.mistral.ai' })).status, 200);
  t.same(sent(governed), { ...none, authorization: 'Bearer secret-from-environment' });
  const connectors = (await gw.admin('GET', '/v1/admin/connectors')).body as {
    connectors: { connector_id: string; status: string; target_host: string }[];
  };
  const statusOf = (id: string) => connectors.connectors.find(({ connector_id }) => connector_id === id);
  t.match(
    [statusOf('openai'), statusOf('cohere'), statusOf('generic_http')],
    [{ status: 'ok', target_host: 'api.openai.com' }, { status: 'no_credential' }, { status: 'ok' }],
  );

  writeFileSync(join(dir, 'c', 'a.yaml'), 'credential_id: "007"\nconnector_id: openai\nmode: alias\nsecret_ref: sk-new\n');
  writeFileSync(join(dir, 'c', 'z.yaml'), `- x\n`);
  const broken = await gw.admin('POST', '/v1/admin/credentials/reload');
  t.match(broken, { status: 400, body: { error: { details: [{ file: 'z.yaml', line: 1 }] } } });
  await execute({ credential_hint: undefined });
  t.same(sent(governed), { ...none, authorization: `Bearer ${SECRET}` }, 'a mistake in one file changes nothing');
  const reload = () => gw.admin('POST', '/v1/admin/credentials/reload');
  await store(gw, { credential_id: 'made', connector_id: 'groq', secret_ref: 'x' });
  for (const [name, text, detail] of [
    ['a fixed member', 'credential_id: made\nconnector_id: groq\nmode: alias\nsecret_ref: x\ndistribution: node_scoped\n', /fixed/],
    ['an alias without a secret', '\ncredentials:\n  - {credential_id: n, connector_id: cohere, mode: alias}\n', /alias/],
    [
      'one id twice',
      'credentials:\n  - {credential_id: b1, connector_id: cohere, mode: alias, secret_ref: x}\n',
      /b1 stands in b\.yaml:2, too/,
    ],
  ] as const) {
    writeFileSync(join(dir, 'c', 'z.yaml'), text);
    t.match(await reload(), { status: 400, body: { error: { details: [{ file: 'z.yaml', line: Number, message: detail }] } } }, name);
    await execute({ credential_hint: undefined });
    t.same(sent(governed), { ...none, authorization: `Bearer ${SECRET}` }, `${name}: nothing of the other files is taken`);
  }
  await gw.admin('DELETE', '/v1/admin/credentials/made');
  for (const nothing of ['', '# later\n']) {
    writeFileSync(join(dir, 'c', 'z.yaml'), nothing);
    t.equal((await reload()).status, 200, 'an empty file holds none');
  }
  writeFileSync(join(dir, 'c', 'z.yaml'), 'credentials: []\n');
  chmodSync(join(dir, 'c', 'a.yaml'), 0o644);
  lines.length = 0;
  t.match(await gw.admin('POST', '/v1/admin/credentials/reload'), { status: 200, body: { credentials: ['007', 'b1'] } });
  await execute({ credential_hint: undefined });
  t.same(sent(governed), { ...none, authorization: 'Bearer sk-new' });
  t.match(
    lines.filter((line) => line.includes('chmod 600')),
    [/a\.yaml/],
    'keys that everybody can read are warned of',
  );

  await store(gw, { credential_id: 'kept', connector_id: 'cohere', secret_ref: SECRET });
  await gw.gateway.stop();
  for (const file of await readdir(gw.dataDir, { recursive: true, withFileTypes: true })) {
    if (file.isFile()) t.notOk(readFileSync(join(file.parentPath, file.name)).includes(SECRET), file.name);
  }
  const again = await startTestGateway(t, { env: { GW_DATA_DIR: gw.dataDir } });
  t.match((await again.admin('GET', '/v1/admin/credentials')).body, {
    credentials: [{ credential_id: '007' }, { credential_id: 'b1' }, { credential_id: 'kept', secret_source: 'stored' }],
  });
  const list = (await again.admin('GET', '/v1/admin/connectors')).body as typeof connectors;
  t.match(
    list.connectors.find(({ connector_id }) => connector_id === 'cohere'),
    { status: 'ok' },
    'the secret opens after a restart',
  );
});

// Holds: commands-make-no-data-folder
t.test('gw secrets rotate makes nothing in a folder that is not that of a gateway, and no key where there is none', async (t) => {
  const dir = tempDir(t);
  const env = { GW_DATA_DIR: join(dir, 'data') };
  t.match(await command(['secrets', 'rotate'], { env }), {
    code: 1,
    out: '',
    err: `gw secrets rotate: GW_DATA_DIR: there is no store of a gateway in ${dir}/data: run this in the gateway's own folder, or with its GW_DATA_DIR\n`,
  });
  t.same(readdirSync(dir), []);
  const configured = { GW_SECRETS_KEY: Buffer.alloc(32, 7).toString('base64') };
  const { gw } = await startGoverned(t, { bundle: ALLOW_ALL, env: configured });
  await gw.gateway.stop();
  const before = readdirSync(gw.dataDir);
  t.match(await command(['secrets', 'rotate'], { env: { GW_DATA_DIR: gw.dataDir } }), {
    code: 1,
    err: /there is no .*secrets-key, and GW_SECRETS_KEY is not set/,
  });
  t.same(readdirSync(gw.dataDir), before);
});

t.test('gw secrets rotate takes the content of waiting approvals with it', async (t) => {
  const { gw } = await startGoverned(t, { bundle: ALLOW_ALL });
  await gw.gateway.stop();
  const box = () => new SecretBox([Buffer.from(readFileSync(join(gw.dataDir, 'secrets-key'), 'utf8').trim(), 'base64')]);
  const inStore = async <R>(use: (store: Awaited<ReturnType<typeof openEmbeddedStore>>) => Promise<R>): Promise<R> => {
    const store = await openEmbeddedStore({
      dir: join(gw.dataDir, 'store'),
      fsync: 'off',
      clock: fakeClock(Date.now()),
      log: silentLogger,
    });
    return use(store).finally(() => store.close());
  };
  const value = box().seal('{"asked":"this"}', contentContext('a-1'));
  await inStore((store) => store.commit(undefined, [{ op: 'put', space: APPROVAL_CONTENT, key: 'a-1', value }]));
  t.match(await command(['secrets', 'rotate'], { env: { GW_DATA_DIR: gw.dataDir } }), { code: 0, out: '1 secret(s) have a new key.\n' });
  const kept = (await inStore((store) => store.get(APPROVAL_CONTENT, 'a-1'))) as Sealed;
  t.equal(box().open(kept, contentContext('a-1')).toString(), '{"asked":"this"}');
});

t.test('gw secrets rotate', async (t) => {
  const first = await startGoverned(t, { bundle: ALLOW_ALL });
  await store(first.gw, { credential_id: 'k', connector_id: 'openai', secret_ref: SECRET });
  const answer = await first.execute({ credential_hint: 'k', idempotency_key: 'i' });
  const env = { GW_DATA_DIR: first.gw.dataDir };
  const key = () => readFileSync(join(first.gw.dataDir, 'secrets-key'), 'utf8');
  t.match(await command(['secrets', 'rotate'], { env }), { code: 1, err: /stop it first/ });
  await first.gw.gateway.stop();
  const before = key();
  t.match(await command(['secrets', 'rotate'], { env }), { code: 0, out: '2 secret(s) have a new key.\n' });
  t.not(key(), before);
  t.equal(key().trim().split('\n').length, 1, 'the older key is gone');
  const statusAfter = async (more: Record<string, string>) => {
    const next = await startTestGateway(t, { env: { ...env, ...more, ...towards(t, first.upstream, ['api.openai.com']) } });
    const body = { schema: 'gw.action_request.v2', org_id: 'default', workload_id: 'default' };
    const action = { type: 'ai.infer', method: 'POST', target_host: 'api.openai.com', params: CHAT };
    const post = async (extra: object) =>
      (await fetch(`${next.url}/v1/actions:execute`, { method: 'POST', body: JSON.stringify({ ...body, action, ...extra }) })).json();
    t.match(await post({ credential_hint: 'k' }), { decision: 'allow' });
    t.same(sent(first)['authorization'], `Bearer ${SECRET}`);
    t.same(await post({ credential_hint: 'k', idempotency_key: 'i' }), answer.body);
    await next.gateway.stop();
  };
  await statusAfter({});
  t.same(JSON.parse((await command(['secrets', 'rotate', '--json'], { env })).out), { secrets: 2, set_secrets_key: false });
  const configured = key().trim();
  const file = join(tempDir(t), 'next');
  writeFileSync(file, Buffer.alloc(32, 7).toString('base64'));
  t.match(await command(['secrets', 'rotate'], { env: { ...env, GW_SECRETS_KEY: configured } }), { code: 2, err: /--new-key-file/ });
  const rotateWith = (name: string) =>
    command(['secrets', 'rotate', '--new-key-file', name], { env: { ...env, GW_SECRETS_KEY: configured } });
  t.match(await rotateWith(`${file}-not-there`), {
    code: 1,
    err: /--new-key-file: .* cannot be read \(ENOENT\); it holds 32 bytes in base64/,
  });
  const short = join(tempDir(t), 'short');
  writeFileSync(short, 'c2hvcnQ=');
  t.match(await rotateWith(short), { code: 1, err: /--new-key-file: .* does not hold 32 bytes in base64, as openssl rand/ });
  t.match(await command(['secrets', 'rotate', '--new-key-file', file], { env: { ...env, GW_SECRETS_KEY: configured } }), {
    code: 0,
    out: /Set GW_SECRETS_KEY/,
  });
  await statusAfter({ GW_SECRETS_KEY: Buffer.alloc(32, 7).toString('base64') });
});
