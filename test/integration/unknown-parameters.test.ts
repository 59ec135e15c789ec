// Every route refuses parameters that it does not know, and says what it takes (decision 8.15).
import t from 'tap';
import { DESCRIBED } from '../../src/app/routes.ts';
import { Browser, SESSION } from '../support/console-browser.ts';
import { ADMIN_TOKEN, startTestGateway } from '../support/gateway.ts';
import { managedOf } from '../support/managed.ts';

/** Routes that read no parameters, by the status that a program is answered. */
const UNREAD: Readonly<Record<string, number>> = {
  // A link to it may have been decorated by a chat or a mail program.
  'GET /approvals/{id}': 200,
  'GET /chat-users/{id}': 200,
  // Without a secret of Slack there is nothing to ask.
  'POST /v1/chat/slack/interactions': 404,
  // A page for browsers; a program is told that there is nothing.
  'GET /': 404,
  // A file of a page, which may be asked for with something against caches.
  'GET /assets/{file}': 404,
  // What a page of the console shows is in its address, which its script reads.
  'GET /console': 200,
  'GET /console/': 200,
  'GET /console/{page}': 200,
  'GET /console/assets/{file}': 404,
  // Without a control plane there is nothing to ask.
  'GET /v1/orgs/{orgID}/addons': 404,
};
/** What anybody may read, and probes or browsers ask for with something against caches. */
const PUBLIC = [
  '/healthz',
  '/readyz',
  '/proxy.pac',
  '/v1/proxy/ca.crt',
  '/v1/proxy/ca-bundle.crt',
  '/v1/openapi.json',
  '/mgmt/v1/openapi.json',
];

interface ErrorBody {
  readonly error?: { readonly code: string; readonly details?: readonly { readonly path: string; readonly message: string }[] };
}

t.test('parameters that a route does not know', async (t) => {
  const gw = await startTestGateway(t, { env: { GW_POLICIES_SHADOW: `${process.cwd()}/policies` } });
  const { keyOf } = await managedOf(gw);
  const [management, mcp] = [(await keyOf('default')).key, (await keyOf('default', ['read', 'write'], 'mcp')).key];
  const browser = new Browser(gw.port);
  await browser.signIn({ secret: ADMIN_TOKEN });
  const ask = async (method: string, path: string) => {
    if (path.startsWith(`${SESSION}?`)) {
      const said = await browser.ask(method, path);
      return { status: said.status, text: JSON.stringify(said.body), body: said.body as ErrorBody };
    }
    const key = path.startsWith('/mgmt/v1') ? management : path.startsWith('/mcp') ? mcp : ADMIN_TOKEN;
    const hasBody = !['GET', 'HEAD', 'DELETE'].includes(method);
    const answer = await fetch(gw.url + path.replaceAll(/\{[^}]+\}/g, 'some-id'), {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(hasBody ? { body: '{}' } : {}),
    });
    const text = await answer.text();
    return { status: answer.status, text, body: (text.startsWith('{') ? JSON.parse(text) : {}) as ErrorBody };
  };

  // Holds: no-unknown-parameter
  await t.test('are refused by each of them, whatever else is asked', async (t) => {
    let asked = 0;
    for (const { method, path } of DESCRIBED) {
      const route = `${method} ${path}`;
      const { status, text, body } = await ask(method, `${path}?nonsense=1`);
      const unread = UNREAD[route];
      if (unread !== undefined) {
        t.equal(status, unread, route);
        continue;
      }
      asked++;
      t.equal(status, 400, `${route}: ${status}`);
      const found = body.error?.details?.find((detail) => detail.path === 'nonsense');
      if (body.error?.code !== 'invalid_request' || found?.message.startsWith('is no parameter of this path, which takes ') !== true)
        t.fail(`${route}: ${text}`);
    }
    t.ok(asked > 140, `${asked} routes`);
  });

  await t.test('are told with those that there are', async (t) => {
    const { body } = await ask('GET', '/v1/admin/discovery/domains?manged=true');
    t.match(body, {
      error: {
        details: [{ path: 'manged', message: /takes managed, lookalike, ai, workload_id, category, vendor, traffic_class, sort, limit$/ }],
      },
    });
    t.match(await ask('GET', '/v1/admin/workloads?limit=3'), { status: 400, body: { error: { details: [{ message: /takes none$/ }] } } });
    t.match(await ask('GET', '/metrics?name[]=gw_requests_total'), { status: 400 });
    t.match(await ask('GET', '/v1/dashboard/summary?org_id=a&org_id=b'), {
      status: 400,
      body: { error: { details: [{ path: 'org_id' }] } },
    });
  });

  await t.test('but what passes caches, of what anybody may read', async (t) => {
    for (const path of PUBLIC) {
      for (const query of ['_=1732600000', 'ts=1', 't=1', 'cb=x', '_=1&_=2'])
        t.equal((await ask('GET', `${path}?${query}`)).status, 200, path);
      t.equal((await ask('HEAD', `${path}?_=1`)).status, 200, path);
      t.equal((await ask('GET', `${path}?_=1&verbose=1`)).status, 400, path);
    }
    for (const path of ['/v1/admin/workloads', '/mgmt/v1/workloads', '/metrics'])
      t.equal((await ask('GET', `${path}?_=1`)).status, 400, path);
    t.equal((await ask('POST', '/v1/actions:execute?_=1')).status, 400);
  });
});

t.test('words that a parameter takes are read in any letter case', async (t) => {
  const gw = await startTestGateway(t);
  const get = async (path: string) => (await gw.admin('GET', path)).status;
  for (const query of ['managed=TRUE', 'traffic_class=Ambient', 'sort=HITS'])
    t.equal(await get(`/v1/admin/discovery/domains?${query}`), 200, query);
  t.equal(await get('/v1/admin/approvals?status=Pending'), 200);
  t.equal(await get('/v1/admin/approvals?status=Pendin'), 400);
  t.equal(await get('/v1/admin/quarantine?active=True'), 200);
  const { manage } = await managedOf(gw);
  for (const query of [
    'decision=DENY',
    'traffic_class=Developer',
    'connection_type=CONNECT_PROXY',
    'stream_outcome=Complete',
    'record_tier=Action',
  ])
    t.equal((await manage('GET', `records?${query}`)).status, 200, query);
  t.equal(((await manage('GET', 'spend?window=6H')).body as { bucket: string }).bucket, '30m');
  t.equal((await manage('GET', 'alerts/history?level=Critical')).status, 200);
  t.equal((await manage('GET', 'projects?status=ARCHIVED')).status, 200);
});
