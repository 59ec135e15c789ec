// Keys and tokens of the gateway in places that are no places for one: nothing of them goes on, into a record, the list
// of discovered domains or a line of the log (decision 3.21).
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { createLogger } from '../../src/base/lib/log.ts';
import { ADMIN_TOKEN } from '../support/gateway.ts';
import { ALLOW_ALL, CHAT, chat, type Governed, startGoverned } from '../support/governed.ts';
import { managedOf } from '../support/managed.ts';
import { ConnectRefused, connectPlain, connectThrough, h1Request, h2Request, h2Session, openTunnel } from '../support/raw-clients.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';
import { startPlainUpstream } from '../support/tls-upstream.ts';

const INNER = '/v1/chat/completions';
const SITE = 'www.example.com';
const ADMIN = ADMIN_TOKEN;

interface Scene extends Governed {
  /** What was logged, recorded and stored so far. */
  written(): Promise<string>;
}

async function scene(t: HasTeardown, env: Record<string, string> = {}): Promise<Scene> {
  const lines: string[] = [];
  const log = createLogger({ level: 'trace', format: 'json', destination: { write: (line: string) => void lines.push(line) } });
  const dataDir = tempDir(t);
  const governed = await startGoverned(t, { log, bundle: ALLOW_ALL, env: { GW_PROXY_NON_AI: 'inspect', GW_DATA_DIR: dataDir, ...env } });
  return {
    ...governed,
    written: async () => {
      const domains = await governed.gw.admin('GET', '/v1/admin/discovery/domains');
      const files = readdirSync(dataDir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
      const stored = files.map((file) => readFileSync(join(file.parentPath, file.name), 'latin1'));
      return [...lines, domains.text, ...stored].join('\n');
    },
  };
}

/** Its secret part, which none of what is kept may hold in any spelling that a test uses. */
const secretOf = (token: string): string => token.slice(token.indexOf('_') + 1);

async function tokensOf({ gw }: Governed): Promise<readonly string[]> {
  const made = await gw.admin('POST', '/v1/admin/api-keys', { org_id: 'default', name: 'k' });
  const management = await gw.admin('POST', '/v1/admin/mgmt-keys', { org_id: 'default', name: 'k', kind: 'management', scopes: ['read'] });
  const mcp = await gw.admin('POST', '/v1/admin/mgmt-keys', { org_id: 'default', name: 'k', kind: 'mcp', scopes: ['read'] });
  const workload = await gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'ci' });
  const token = await gw.admin('POST', '/v1/admin/workloads/ci/token');
  if (workload.status !== 200 || token.status >= 300) throw new Error(token.text);
  const { key } = made.body as { key: string };
  const [managed, assistant, held] = [management, mcp, token].map(({ body }) => body as { key?: string; token?: string });
  return [key, String(managed?.key), String(assistant?.key), String(held?.token), `gwb_${'q'.repeat(43)}.${'r'.repeat(43)}`];
}

const escaped = (text: string): string => Array.from(text, (one) => `%${one.charCodeAt(0).toString(16)}`).join('');

// Holds: own-tokens-stay-here
t.test('in a URL of any door it is refused, told so and kept nowhere', async (t) => {
  const one = await scene(t);
  const { gw, send, through, upstream, execute } = one;
  const tokens = await tokensOf(one);
  for (const token of tokens) {
    for (const place of [
      `/${token}/x`,
      `/x;k=${token}`,
      `/x?${token}`,
      `/x?k=${token}`,
      `/x?${token}=1`,
      `/${escaped(token)}`,
      `/%25${token.charCodeAt(0).toString(16)}${token.slice(1)}`,
    ]) {
      const asked = [
        () => send(chat([], `/proxy/openai${place}`)),
        () => send({ ...chat([], place), host: 'api.openai.com' }),
        () => send({ ...chat([], `http://${SITE}${place}`), host: SITE }),
        () => through('api.openai.com:443', chat([], place)),
        () => through(`${SITE}:443`, chat([], place)),
      ];
      for (const ask of asked) {
        const answer = await ask();
        t.match([answer.status, answer.body.toString()], [400, /in a header, never in a URL/], place);
        t.notOk(answer.body.toString().includes(secretOf(token)));
      }
      const structured = await execute({}, { target_path: place });
      t.match(structured, { status: 400, text: /key or token of this gateway/ });
    }
    for (const host of [`${token.replaceAll('.', '-')}.example.com`.slice(0, 63), `a.${token.slice(0, 60)}.example.com`]) {
      const refused = await openTunnel(gw.port, `${host}:443`).then(
        () => undefined,
        (error: unknown) => error,
      );
      t.ok(refused instanceof ConnectRefused, host);
      t.equal((await send(chat(['X-GW-Target-Host', host], INNER))).status, 400);
      t.equal((await send({ ...chat([], `http://${host}/`), host })).status, 400);
      t.equal((await execute({}, { target_host: host })).status, 400);
    }
    t.equal((await send({ ...chat([], `http://${token}@${SITE}/`), host: SITE })).status, 400);
    t.equal((await execute({}, { target: `https://api.openai.com/v1/${token}` })).status, 400);
    t.equal((await execute({ credential_hint: token })).status, 400, 'none of them is a key of a provider');
    const tls = await connectThrough(gw.port, 'api.openai.com:443', gw.caPem, { alpn: ['h2'] });
    t.teardown(() => tls.destroy());
    const session = h2Session(tls, 'api.openai.com');
    t.teardown(() => session.destroy());
    t.equal((await h2Request(session, { method: 'GET', path: `/v1/models/${token}` })).status, 400);
  }
  t.equal(upstream.requests.length, 0);
  const written = await one.written();
  for (const token of tokens) t.notOk(written.toLowerCase().includes(secretOf(token).toLowerCase()), token.slice(0, 4));
});

// Holds: own-tokens-stay-here
t.test('a header field that holds one is left out, on the way to AI hosts and others, and in trailers', async (t) => {
  const plain = await startPlainUpstream();
  t.teardown(() => plain.close());
  const one = await scene(t, { GW_EGRESS_ALLOW: '127.0.0.1' });
  const { gw, send, through, upstream, execute } = one;
  const tokens = [...(await tokensOf(one)), ADMIN];
  for (const token of tokens) {
    const fields = [
      ...['Cookie', `a=b; session=${token}`, 'Referer', `https://app.example/?key=${token}`, 'X-Custom', `{"k":"${token}"}`],
      ...['X-Escaped', escaped(token), 'X-Other', 'kept', 'X-Basic', `Basic ${Buffer.from(`u:${token}`).toString('base64')}`],
    ];
    const headers = ['Content-Type', 'application/json', 'Authorization', 'Bearer sk-client', ...fields.slice(0, 6), ...fields.slice(8)];
    const whole = token === ADMIN ? headers : [...headers, ...fields.slice(6, 8)];
    const body = JSON.stringify(CHAT);
    await send({ method: 'POST', path: `/proxy/openai${INNER}`, headers: whole, body });
    await through('api.openai.com:443', { method: 'POST', path: INNER, headers: whole, body });
    await through(`${SITE}:443`, { method: 'POST', path: '/x', headers: whole, body });
    await execute({}, {}, {});
    await execute({}, { headers: { Referer: `https://app.example/${token}`, 'X-Other': 'kept' } });
    for (const { rawHeaders } of upstream.requests.slice(-5)) {
      t.notOk(rawHeaders.join('\n').includes(secretOf(token)) || rawHeaders.join('\n').includes(escaped(token)), token.slice(0, 4));
    }
    for (const { headers: came } of upstream.requests.slice(-5, -2)) t.match(came, { 'x-other': 'kept' });
    const socket = await connectPlain(gw.port);
    t.teardown(() => socket.destroy());
    const authority = `127.0.0.1:${plain.port}`;
    await h1Request(socket, authority, { path: `http://${authority}/x`, headers: ['Cookie', `k=${token}`, 'X-Other', 'kept'] });
    t.match(plain.requests.at(-1)?.headers, { 'x-other': 'kept', cookie: undefined });
  }
  const written = await one.written();
  for (const token of tokens) t.notOk(written.includes(secretOf(token)), token.slice(0, 4));
});

t.test('what is recorded of a caller holds none: names, labels, ids and the model', async (t) => {
  const one = await scene(t);
  const [token = ''] = await tokensOf(one);
  for (const name of [
    'X-GW-Caller-ID',
    'X-GW-Project-ID',
    'X-GW-Customer-ID',
    'X-GW-Account-ID',
    'X-GW-Org-ID',
    'X-GW-Workload-ID',
    'X-GW-Label-Team',
  ]) {
    const refused = await one.send(chat([name, `by ${token}`.slice(name.endsWith('-ID') && /Org|Workload/.test(name) ? 3 : 0)]));
    t.match([refused.status, refused.body.toString()], [400, /must not hold a key or token/], name);
  }
  for (const extra of [
    { caller_id: token },
    { request_id: token },
    { idempotency_key: token },
    { attribution: { project_id: `a ${token}` } },
    { attribution: { labels: { team: token } } },
    { context: { purpose: token, labels: { [token]: 'x' } } },
  ])
    t.match(await one.execute(extra), { status: 400, text: /must not hold a key or token/ });
  const model = { ...CHAT, model: token };
  const refused = await one.send(chat([], undefined, model));
  t.match([refused.status, refused.body.toString()], [400, /model must not hold a key or token/]);
  t.equal((await one.execute({}, { params: model })).status, 400);
  t.equal(one.upstream.requests.length, 0);
  t.notOk((await one.written()).includes(secretOf(token)));
});

t.test('none is stored as the key of a provider, nor where it would be sent on, and no answer repeats it', async (t) => {
  const [variable] = ['GW_TEST_OWN_TOKEN_AS_KEY'];
  const one = await scene(t);
  const { gw, upstream } = one;
  const { manage } = await managedOf(gw);
  t.teardown(() => void delete process.env[variable ?? '']);
  for (const token of await tokensOf(one)) {
    const stored = { credential_id: 'c', connector_id: 'openai', mode: 'alias', secret_ref: token };
    const refused = { status: 400, body: { error: { code: 'invalid_request' } }, text: /none of a provider/ };
    t.match(await gw.admin('PUT', '/v1/admin/credentials', stored), refused);
    const managed = await manage('PUT', 'credentials', { id: 'c', provider: 'openai', mode: 'alias', secret: token });
    t.match([managed.status, JSON.stringify(managed.body)], [400, /none of a provider/]);
    const connector = { name: 'Ours', base_url: 'https://llm.corp.example/v1', auth_mode: 'none' };
    for (const more of [{ default_model: token }, { base_url: `https://llm.corp.example/${token.replace('.', '/')}` }]) {
      const answer = await manage('POST', 'connectors', { ...connector, ...more });
      t.match([answer.status, JSON.stringify(answer.body)], [400, new RegExp(`"path":"${Object.keys(more)[0]}"`)]);
    }
    const { id } = (await manage('POST', 'connectors', { ...connector, default_model: token, enabled: false })).body as { id: string };
    t.equal((await manage('POST', `connectors/${id}/enable`)).status, 400, 'one that is switched off sends nothing');
    t.equal((await manage('DELETE', `connectors/${id}`)).status, 200);
    const nothing = await fetch(`${gw.url}/nope/${token}`);
    t.match([nothing.status, await nothing.text()], [404, /There is nothing at \/nope\/\w+_…/]);

    process.env[variable ?? ''] = token;
    t.equal((await gw.admin('PUT', '/v1/admin/credentials', { ...stored, secret_ref: `env:${variable}` })).status, 200);
    const before = upstream.requests.length;
    const sent = await one.execute({ credential_hint: 'c' });
    t.match(sent, { status: 400, text: /none of a provider/ }, 'nor from a variable, whose value comes later');
    t.equal(upstream.requests.length, before);
  }
});
