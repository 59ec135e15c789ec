// A whole managed gateway beside its control plane: API keys that are made there on every door, and a node that is
// revoked there.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { silentLogger } from '../../src/base/lib/log.ts';
import { openEmbeddedStore } from '../../src/storage/embedded/open-embedded-store.ts';
import { eventually } from '../support/child.ts';
import { runControlPlane } from '../support/control-plane.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { ALLOW_ALL, CHAT, chat, type Governed, startGoverned } from '../support/governed.ts';
import { openTunnel } from '../support/raw-clients.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';

const OPENAI = 'api.openai.com:443';
const INNER = '/v1/chat/completions';
const SECRET = 'sk-planted-0123456789abcdef';
const LIMIT_MS = 240_000;
const HELLO = [{ role: 'user', content: 'hello' }];

/**
 * A control plane with a policy, a workload, a credential and an API key of `acme`, and how managed gateways of it are
 * started on one data folder.
 */
async function place(t: HasTeardown) {
  const running = await runControlPlane(t);
  const { state } = running.plane;
  const { commit } = running;
  for (const org of ['acme', 'other']) await state.orgs.put(org, {}, commit);
  await state.bundles.put('acme', ALLOW_ALL, commit);
  await state.entities.put('acme', 'workloads', 'batch', { name: 'Batch' }, commit);
  await state.entities.put('acme', 'credentials', 'wide', { connector_id: 'openai', mode: 'alias', secret_ref: SECRET }, commit);
  const dir = tempDir(t);
  const dataDir = join(dir, 'data');
  const clock = fakeClock(Date.now());
  const token = async () => (await state.tokens.issue('acme', 3_600, commit)).token;
  const keyOf = async (orgId: string, more: { readonly expires_at?: string } = {}) => {
    const { key, plain } = await state.apiKeys.create(orgId, { name: 'ci', ...more }, commit);
    return { id: key.id, plain };
  };
  const start = async (env: Readonly<Record<string, string>> = {}) =>
    await startGoverned(t, {
      clock,
      env: {
        GW_CP_ADDR: `127.0.0.1:${running.plane.grpcPort}`,
        GW_GATEWAY_MODE: 'managed',
        GW_ORG_ID: 'acme',
        GW_NODE_ID: 'node-1',
        GW_KEY_DIR: join(dir, 'keys'),
        GW_DATA_DIR: dataDir,
        ...env,
      },
    });
  const becomes = (what: string, holds: () => Promise<boolean>) =>
    eventually(
      what,
      async () => {
        clock.advance(2_000);
        return (await holds()) ? true : undefined;
      },
      LIMIT_MS,
    );
  return { state, commit, clock, dataDir, token, keyOf, start, becomes };
}

const basic = (password: string) => `Basic ${Buffer.from(`:${password}`).toString('base64')}`;
const named = (field: string, key: string | undefined): readonly string[] => (key === undefined ? [] : [field, key]);

interface Answered {
  readonly status: number;
  readonly text: string;
}

async function tunnelled({ gw }: Governed, key: string | undefined): Promise<Answered> {
  const headers = key === undefined ? {} : { 'Proxy-Authorization': basic(key) };
  try {
    (await openTunnel(gw.port, OPENAI, { headers })).destroy();
    return { status: 200, text: '' };
  } catch (error) {
    const { status, rawHead } = error as { readonly status?: number; readonly rawHead?: string };
    if (status === undefined) throw error;
    return { status, text: rawHead ?? '' };
  }
}

interface Door {
  readonly name: string;
  /** Of who is not let in: a proxy asks for its own credentials with 407. */
  readonly refusal: 401 | 407;
  /** The form in which that is said. */
  readonly form: RegExp;
  call(governed: Governed, key: string | undefined): Promise<Answered>;
}

const redirected =
  (path: string, body: object, field = 'X-GW-API-Key'): Door['call'] =>
  async ({ send }, key) => {
    const { status, body: answer } = await send({
      method: 'POST',
      path,
      headers: ['Content-Type', 'application/json', ...named(field, key)],
      body: JSON.stringify(body),
    });
    return { status, text: answer.toString() };
  };

const OPENAI_FORM = /^\{"error":\{"code":"unauthorized","message":"This .*API key.*","type":"unauthorized","param":null\}\}$/;

const DOORS: readonly Door[] = [
  { name: 'redirect, OpenAI', refusal: 401, form: OPENAI_FORM, call: redirected('/proxy/openai/v1/chat/completions', CHAT) },
  {
    name: 'redirect, Anthropic',
    refusal: 401,
    form: /^\{"type":"error","error":\{"code":"unauthorized","type":"unauthorized","message":"This .*API key/,
    call: redirected('/proxy/anthropic/v1/messages', { model: 'claude-sonnet-4-5', max_tokens: 5, messages: HELLO }),
  },
  {
    name: 'redirect, Gemini',
    refusal: 401,
    form: /"status":\s*"UNAUTHENTICATED"/,
    call: redirected('/proxy/gemini/v1beta/models/gemini-2.5-flash:generateContent', {
      contents: [{ role: 'user', parts: [{ text: 'hello' }] }],
    }),
  },
  { name: 'CONNECT', refusal: 407, form: /Proxy-Authenticate: Basic/, call: tunnelled },
  {
    name: 'absolute form',
    refusal: 407,
    form: /API key/,
    call: async ({ send }, key) => {
      const shown = named('Proxy-Authorization', key === undefined ? undefined : basic(key));
      const { status, body } = await send({ ...chat(shown, `http://api.openai.com${INNER}`), host: 'api.openai.com' });
      return { status, text: body.toString() };
    },
  },
  {
    name: 'structured API',
    refusal: 401,
    form: /"code":\s*"unauthorized"/,
    call: async ({ execute }, key) => {
      const { status, text } = await execute({ org_id: 'acme' }, {}, key === undefined ? {} : { authorization: `Bearer ${key}` });
      return { status, text };
    },
  },
  {
    name: 'WebSocket',
    refusal: 401,
    form: OPENAI_FORM,
    call: async ({ send }, key) => {
      const shown = named('X-GW-API-Key', key);
      const asks = [
        'Connection',
        'Upgrade',
        'Upgrade',
        'websocket',
        'Sec-WebSocket-Version',
        '13',
        'Sec-WebSocket-Key',
        'dGhlIHNhbXBsZSBub25jZQ==',
      ];
      const { status, body } = await send({ path: '/proxy/openai/v1/realtime?model=gpt-realtime', headers: [...asks, ...shown] });
      return { status, text: body.toString() };
    },
  },
];

t.test('a managed gateway lets in who shows an API key of its org on every door, and nobody else, in words of that door', async (t) => {
  const { state, commit, clock, token, keyOf, start, becomes } = await place(t);
  const used = await keyOf('acme');
  const revoked = await keyOf('acme');
  await state.apiKeys.revoke('acme', revoked.id, commit);
  const expired = await keyOf('acme', { expires_at: new Date(clock.now() - 1_000).toISOString() });
  const foreign = await keyOf('other');
  const governed = await start({ GW_BOOTSTRAP_TOKEN: await token() });
  const shown = { none: undefined, wrong: 'gwk_nobody', revoked: revoked.plain, expired: expired.plain, foreign: foreign.plain };
  for (const { name, refusal, form, call } of DOORS) {
    for (const [what, key] of Object.entries(shown)) {
      const { status, text } = await call(governed, key);
      t.equal(status, refusal, `${name}: ${what}`);
      t.match(text, form, `${name}: ${what}`);
      if (key !== undefined) t.notMatch(text, key);
    }
  }
  t.equal(governed.upstream.requests.length, 0);
  for (const { name, refusal, call } of DOORS) t.not((await call(governed, used.plain)).status, refusal, `${name}: a good one`);
  t.not(governed.upstream.requests.length, 0);
  const mismatch = await governed.send(chat(['X-GW-API-Key', used.plain, 'X-GW-Org-ID', 'other']));
  t.match([mismatch.status, await governed.recordOf(mismatch)], [403, { decision: 'deny', reason_codes: ['org_mismatch'] }]);
  await state.apiKeys.revoke('acme', used.id, commit);
  const redirect = chat(['X-GW-API-Key', used.plain]);
  await becomes('the key that was in use is refused', async () => (await governed.send(redirect)).status === 401);
  for (const { name, refusal, call } of DOORS) t.equal((await call(governed, used.plain)).status, refusal, `${name}: revoked while in use`);
});

/** Whether these bytes stand in any file below a folder. */
function isBelow(folder: string, bytes: string): boolean {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).some((name) => {
    const file = join(folder, name);
    return statSync(file).isFile() && readFileSync(file).includes(bytes);
  });
}

t.test(
  'a node that is revoked has lost what it was given in confidence, serves nobody, and is as before when it is enrolled anew',
  async (t) => {
    const { state, commit, clock, dataDir, token, keyOf, start, becomes } = await place(t);
    const { plain } = await keyOf('acme');
    const governed = await start({ GW_BOOTSTRAP_TOKEN: await token() });
    const { gw } = governed;
    const serves = async (one: Governed) => (await one.send(chat(['X-GW-API-Key', plain]))).status;
    const health = async (one: Governed) => (await one.gw.admin('GET', '/healthz')).body as Readonly<Record<string, unknown>>;
    t.equal(await serves(governed), 200);
    const { bundle_id: bundle } = await health(governed);
    t.match((await gw.admin('GET', '/v1/admin/credentials')).body, { credentials: [{ credential_id: 'wide', secret_source: 'stored' }] });

    await state.nodes.revoke('acme', 'node-1', commit);
    await becomes('the credentials are gone', async () => {
      const { body } = await gw.admin('GET', '/v1/admin/credentials');
      return (body as { readonly credentials: readonly unknown[] }).credentials.length === 0;
    });
    await becomes('nobody is let in', async () => (await serves(governed)) === 503);
    t.match(await health(governed), { cp_status: 'offline', cp_posture: 'normal', bundle_id: bundle });
    t.match(JSON.stringify(await health(governed)), /"code":"cp_node_revoked"/);
    t.match(await gw.admin('GET', '/v1/admin/workloads'), { body: { workloads: [{ workload_id: 'batch' }, { workload_id: 'default' }] } });
    await gw.gateway.stop();

    const store = await openEmbeddedStore({ dir: join(dataDir, 'store'), fsync: 'off', clock, log: silentLogger });
    t.same(await store.list('credential'), []);
    t.same(await store.list('remote_api_key'), []);
    await store.close();
    t.notOk(isBelow(dataDir, SECRET), 'nor was the secret ever there as it is');
    t.notOk(isBelow(dataDir, plain));

    const again = await start();
    t.match(await health(again), { cp_status: 'offline', bundle_id: bundle }, 'a restart is still revoked');
    t.equal(await serves(again), 503);
    await again.gw.gateway.stop();

    const healed = await start({ GW_BOOTSTRAP_TOKEN: await token() });
    t.match(await health(healed), { cp_status: 'connected', bundle_id: bundle });
    t.notMatch(JSON.stringify(await health(healed)), /cp_node_revoked/);
    await becomes('served again', async () => (await serves(healed)) === 200);
    t.match((await healed.gw.admin('GET', '/v1/admin/credentials')).body, { credentials: [{ credential_id: 'wide' }] });
  },
);
