// Every route of the gateway is closed to who shows nothing, something wrong, or the token of another surface
// (specification, "Authentication").
import t from 'tap';
import { DESCRIBED } from '../../src/app/routes.ts';
import type { Scope } from '../../src/base/model/principal.ts';
import { ADMIN_TOKEN, startTestGateway } from '../support/gateway.ts';

const METRICS_TOKEN = 'metrics-token-0123456789';

/** What anybody may ask: it shows no data of anybody, or asks for a key by itself. */
const PUBLIC = [
  'GET /',
  'GET /approvals/{id}',
  'GET /assets/{file}',
  'GET /chat-users/{id}',
  // Pages and files of the console, which hold no datum.
  'GET /console',
  'GET /console/',
  'GET /console/assets/{file}',
  'GET /console/{page}',
  'GET /healthz',
  'GET /llms.txt',
  'GET /mgmt/v1/openapi.json',
  'GET /proxy.pac',
  'GET /readyz',
  'GET /v1/openapi.json',
  'GET /v1/proxy/ca-bundle.crt',
  'GET /v1/proxy/ca.crt',
  // Of Slack, which signs each request.
  'POST /v1/chat/slack/interactions',
  // Of browsers, which show a secret in the body.
  'POST /v1/console/sessions',
];
/** Closed by `GW_PROXY_AUTH=required`, as every door is through which calls go. */
const CALLS = 'POST /v1/actions:execute';

interface Tokens {
  readonly [kind: string]: Readonly<Record<string, string>>;
}

/** Which of them open a scope; every other one is that of another surface. */
const OPENS: Readonly<Record<Exclude<Scope, 'none'>, readonly string[]>> = {
  admin: ['admin', 'admin as bearer'],
  org: ['admin', 'admin as bearer', 'API key', 'API key of a header'],
  caller: ['admin', 'API key', 'API key of a header'],
  metrics: ['metrics'],
  read: ['management'],
  write: ['management'],
  review: ['management'],
  decide: ['management'],
  mcp: ['mcp'],
  sign_in: ['admin', 'admin as bearer', 'management'],
  session: [],
};

t.test('every route but those that are listed', async (t) => {
  const gw = await startTestGateway(t, {
    env: { GW_METRICS_TOKEN: METRICS_TOKEN, GW_PROXY_AUTH: 'required', GW_POLICIES_SHADOW: `${process.cwd()}/policies` },
  });
  const made = async (path: string, body: object): Promise<string> =>
    String(((await gw.admin('POST', path, body)).body as Record<string, unknown>)['key']);
  const management = { org_id: 'default', name: 'walk', scopes: ['read', 'write'] };
  const apiKey = await made('/v1/admin/api-keys', { org_id: 'default', name: 'walk' });
  const managementKey = await made('/v1/admin/mgmt-keys', { ...management, kind: 'management' });
  const mcpKey = await made('/v1/admin/mgmt-keys', { ...management, kind: 'mcp' });
  for (const key of [apiKey, managementKey, mcpKey]) t.match(key, /^(?:gwk|mgk|mcpk)_/);
  const bearer = (token: string): Record<string, string> => ({ Authorization: `Bearer ${token}` });
  const tokens: Tokens = {
    nothing: {},
    'something wrong': bearer('wrong-token-0123456789'),
    'a wrong admin token': { 'GW-Admin-Token': 'wrong-token-0123456789' },
    'Basic with the admin token': { Authorization: `Basic ${Buffer.from(`admin:${ADMIN_TOKEN}`).toString('base64')}` },
    'a cookie': { Cookie: `__Host-gw-session=${ADMIN_TOKEN}` },
    admin: { 'GW-Admin-Token': ADMIN_TOKEN },
    'admin as bearer': bearer(ADMIN_TOKEN),
    metrics: bearer(METRICS_TOKEN),
    'API key': bearer(apiKey),
    'API key of a header': { 'X-GW-API-Key': apiKey },
    management: bearer(managementKey),
    mcp: bearer(mcpKey),
  };
  let asked = 0;
  const ask = async (method: string, path: string, headers: Readonly<Record<string, string>>): Promise<number> => {
    const url = gw.url + path.replaceAll(/\{[^}]+\}/g, 'some-id');
    const hasBody = !['GET', 'HEAD', 'DELETE'].includes(method);
    // Whoever shows many wrong keys is let wait: each comes from an address of its own.
    asked++;
    const from = { 'X-Forwarded-For': `10.0.${asked >> 8}.${asked & 255}` };
    const answer = await fetch(url, { method, headers: { ...headers, ...from }, ...(hasBody ? { body: '{}' } : {}) });
    await answer.arrayBuffer();
    return answer.status;
  };

  // Holds: no-open-route
  await t.test('is closed to every token that is not its own', async (t) => {
    const open: string[] = [];
    for (const { method, path, scope } of DESCRIBED) {
      const route = `${method} ${path}`;
      if (scope === 'none') {
        if (route !== CALLS) open.push(route);
        continue;
      }
      for (const [kind, headers] of Object.entries(tokens)) {
        if (OPENS[scope].includes(kind)) continue;
        const status = await ask(method, path, headers);
        // Whether somebody has signed in is told; what is no session is nobody.
        if (status !== (scope === 'session' ? 204 : 401)) t.fail(`${route} with ${kind}: ${status}`);
      }
    }
    t.strictSame(open.sort(), PUBLIC);
    t.ok(asked > 500, `${asked} requests`);
  });

  await t.test('and so is the structured API, where callers must show who they are', async (t) => {
    for (const kind of ['nothing', 'something wrong', 'admin', 'metrics', 'management', 'mcp']) {
      t.equal(await ask('POST', '/v1/actions:execute', tokens[kind] ?? {}), 401, kind);
    }
  });

  await t.test('a HEAD is as closed as its GET', async (t) => {
    for (const { method, path, scope } of DESCRIBED) {
      if (method === 'GET' && scope === 'admin') t.equal(await ask('HEAD', path, {}), 401, path);
    }
  });
});
