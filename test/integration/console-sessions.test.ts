// Who may see the console: signing in, the cookie, whose pages may use it, when it ends, and what it opens.
import t from 'tap';
import { withoutOwnCookies } from '../../src/base/lib/own-cookies.ts';
import type { AuditEntry } from '../../src/base/model/audit-entry.ts';
import type { KeyScope } from '../../src/base/model/keys.ts';
import { askAs as ask, Browser, cookieOf, type Fields, OWN_PAGE, type Said, SESSION, SIGN_IN } from '../support/console-browser.ts';
import { type FakeClock, fakeClock } from '../support/fake-clock.ts';
import { ADMIN_TOKEN, startTestGateway, type TestGateway, type TestGatewayOptions } from '../support/gateway.ts';
import { ALLOW_ALL, bundleOf, CHAT, startGoverned } from '../support/governed.ts';
import { managedOf } from '../support/managed.ts';
import { portCertificate } from '../support/port-tls.ts';
import type { HasTeardown } from '../support/temp-dir.ts';

const HOUR = 3_600_000;

/** Whose `default` counts for every org. */
function workloadsIn({ body }: Said): readonly unknown[] {
  return (body['data'] as { workload_id: string }[]).map(({ workload_id: id }) => id);
}

interface Place {
  readonly gw: TestGateway;
  readonly clock: FakeClock;
  readonly browser: (port?: number) => Browser;
  readonly keyOf: (org: string, scopes?: readonly KeyScope[]) => Promise<{ id: string; key: string }>;
  /** A browser that has signed in. */
  readonly signedIn: (secret: string, port?: number) => Promise<Browser>;
}

async function start(t: HasTeardown, { env = {}, ...options }: TestGatewayOptions = {}): Promise<Place> {
  const clock = fakeClock();
  const gw = await startTestGateway(t, { clock, bundle: ALLOW_ALL, env, ...options });
  const { keyOf } = await managedOf(gw);
  const browser = (port = gw.port) => new Browser(port);
  const signedIn = async (secret: string, port?: number): Promise<Browser> => {
    const made = browser(port);
    const said = await made.signIn({ secret });
    if (said.status !== 201) throw new Error(JSON.stringify(said.body));
    return made;
  };
  return { gw, clock, browser, keyOf, signedIn };
}

/** Resolves with what is asked again and again, a turn apart, when it is as wanted. */
async function until<T>(ask: () => T | Promise<T>, isSo: (found: T) => boolean): Promise<T> {
  for (;;) {
    const found = await ask();
    if (isSo(found)) return found;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

t.test('the cookie of a browser', async (t) => {
  const { gw, clock, browser, keyOf } = await start(t);

  await t.test('over plain HTTP on the machine itself bears the port, and no script reads it', async (t) => {
    const said = await browser().signIn({ secret: ADMIN_TOKEN });
    t.match(said, { status: 201, headers: { 'cache-control': 'no-store' } });
    const [field = ''] = said.headers['set-cookie'] ?? [];
    t.match(field, new RegExp(`^gw-console-${gw.port}=[\\w-]{43}; Path=/; HttpOnly; SameSite=Strict$`));
    t.notMatch(JSON.stringify(said.body), field.split(/[=;]/)[1] ?? '-');
    t.strictSame(said.headers['set-cookie']?.length, 1);
    t.match(said.body['session'], { kind: 'admin', address: '127.0.0.1', browser: 'Firefox', current: true, key_id: undefined });
  });

  await t.test('counts at the port alone that it was made for', async (t) => {
    const one = browser();
    await one.signIn({ secret: ADMIN_TOKEN });
    t.equal((await one.ask('GET', SESSION)).status, 200);
    const value = one.cookie.split('=')[1];
    for (const name of [`gw-console-${gw.port + 1}`, 'gw-console', `__Host-gw-console-${gw.port}`, '__Host-gw-session'])
      t.match(await one.ask('GET', SESSION, { headers: { cookie: `${name}=${value}` } }), { status: 204 }, name);
    const twice = await one.ask('GET', SESSION, { headers: { cookie: `${one.cookie}; ${one.cookie}` } });
    t.equal(twice.status, 204, 'nobody knows which of two is ours');
    const tunnelled = await one.ask('GET', SESSION, { headers: { host: 'localhost:9999', cookie: `gw-console-9999=${value}` } });
    t.equal(tunnelled.status, 200, 'a browser that reaches it by another port has that in its name');
  });

  await t.test('says nothing of what a management key is', async (t) => {
    const { key, id } = await keyOf('acme');
    const one = browser();
    t.match(await one.signIn({ secret: key }), { status: 201, body: { session: { kind: 'management_key', key_id: id, org_id: 'acme' } } });
    t.notMatch(one.cookie, key);
    t.match(await one.ask('GET', SESSION), {
      status: 200,
      body: {
        name: 'key of acme',
        org_id: 'acme',
        scopes: ['read', 'review', 'write', 'decide'],
        gateway: { version: String, node_id: String, org_id: null, mode: 'embedded', time: new Date(clock.now()).toISOString() },
      },
    });
  });

  await t.test('goes with the session', async (t) => {
    const one = browser();
    await one.signIn({ secret: ADMIN_TOKEN });
    const out = await one.ask('DELETE', SESSION);
    t.equal(out.status, 204);
    t.match(out.headers['set-cookie']?.[0], new RegExp(`^gw-console-${gw.port}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0$`));
    t.match(await one.ask('GET', SESSION), { status: 401, code: 'unauthorized' });
  });
});

t.test('over TLS the cookie is bound to the host, and to TLS', async (t) => {
  const pair = portCertificate(t, ['127.0.0.1', 'gw.example']);
  const gw = await startTestGateway(t, { env: pair.env });
  const said = await ask(gw.port, 'POST', SIGN_IN, { headers: { ...OWN_PAGE }, body: { secret: ADMIN_TOKEN }, ca: pair.ca.certPem });
  t.match(said.headers['set-cookie'], [new RegExp(`^__Host-gw-console-${gw.port}=[\\w-]{43}; Path=/; Secure; HttpOnly; SameSite=Strict$`)]);
  const headers = { ...OWN_PAGE, cookie: cookieOf(said) };
  t.equal((await ask(gw.port, 'GET', SESSION, { headers, ca: pair.ca.certPem })).status, 200);
  t.equal(said.status, 201);
  t.match(
    await ask(gw.port, 'POST', SIGN_IN, {
      headers: { ...OWN_PAGE, host: 'evil.example' },
      body: { secret: ADMIN_TOKEN },
      ca: pair.ca.certPem,
    }),
    { status: 421, code: 'misdirected_request' },
    'a name that is in no certificate and no setting',
  );
});

t.test('over plain HTTP from elsewhere nobody signs in', async (t) => {
  const { gw, browser } = await start(t, { env: { GW_PUBLIC_NAMES: 'gw.example' } });
  const sign = (headers: Fields) => ask(gw.port, 'POST', SIGN_IN, { headers: { ...OWN_PAGE, ...headers }, body: { secret: ADMIN_TOKEN } });
  for (const headers of [{ 'x-forwarded-for': '192.0.2.7' }, { host: 'gw.example' }]) {
    const said = await sign(headers);
    t.match(said, { status: 403, code: 'forbidden', body: { error: { message: /GW_TLS_CERT_FILE and GW_TLS_KEY_FILE/ } } });
    t.equal(said.headers['set-cookie'], undefined);
  }
  t.match(await sign({ host: 'evil.example' }), { status: 421, code: 'misdirected_request' });

  const behind = { host: 'gw.example', 'x-forwarded-for': '192.0.2.7', 'x-forwarded-proto': 'https' };
  const said = await sign(behind);
  t.match(said.headers['set-cookie'], [/^__Host-gw-console-443=/], 'a trusted proxy that speaks TLS says so');
  const cookie = cookieOf(said);
  t.equal((await ask(gw.port, 'GET', SESSION, { headers: { ...behind, cookie } })).status, 200);
  const { 'x-forwarded-proto': _tls, ...plain } = behind;
  t.equal((await ask(gw.port, 'GET', SESSION, { headers: { ...plain, cookie } })).status, 204, 'the cookie of TLS counts by TLS alone');

  const local = browser();
  await local.signIn({ secret: ADMIN_TOKEN });
  const stolen = await local.ask('GET', SESSION, { headers: { 'x-forwarded-for': '192.0.2.7' } });
  t.equal(stolen.status, 204, 'that of this machine counts on it alone');
});

t.test('a proxy that is not trusted says nothing of TLS', async (t) => {
  const { gw } = await start(t, { env: { GW_TRUSTED_PROXIES: '192.0.2.1/32', GW_PUBLIC_NAMES: 'gw.example' } });
  const headers = { ...OWN_PAGE, host: 'gw.example', 'x-forwarded-proto': 'https' };
  t.match(await ask(gw.port, 'POST', SIGN_IN, { headers, body: { secret: ADMIN_TOKEN } }), { status: 403, code: 'forbidden' });
});

t.test('pages of others use no session', async (t) => {
  const { gw, signedIn, keyOf } = await start(t, { env: { GW_ALLOWED_ORIGINS: 'https://allowed.example' } });
  const one = await signedIn((await keyOf('acme')).key);
  const change = (headers: Fields) =>
    ask(gw.port, 'PUT', '/mgmt/v1/workloads', { headers: { cookie: one.cookie, ...headers }, body: { workload_id: 'w' } });
  for (const headers of [
    {},
    { 'sec-fetch-site': 'same-origin' },
    { 'gw-console': '1' },
    { ...OWN_PAGE, 'gw-console': '0' },
    { ...OWN_PAGE, 'sec-fetch-site': 'same-site' },
    { ...OWN_PAGE, 'sec-fetch-site': 'cross-site' },
    { ...OWN_PAGE, 'sec-fetch-site': 'none' },
    { ...OWN_PAGE, origin: 'https://evil.example' },
    { ...OWN_PAGE, 'sec-fetch-site': 'cross-site', origin: 'https://allowed.example' },
  ])
    t.match(await change(headers), { status: 403, code: 'origin_not_allowed' }, JSON.stringify(headers));
  t.equal((await change({ ...OWN_PAGE, origin: `http://127.0.0.1:${gw.port}` })).status, 200);
  for (const site of ['same-site', 'cross-site'])
    t.equal((await one.ask('GET', '/mgmt/v1/workloads', { headers: { 'sec-fetch-site': site } })).status, 403, `read from ${site}`);
  t.match(await one.ask('GET', SESSION, { headers: { host: 'evil.example' } }), { status: 421, code: 'misdirected_request' });
  for (const headers of [{}, { ...OWN_PAGE, 'gw-console': '' }, { ...OWN_PAGE, 'sec-fetch-site': 'same-site' }] as const) {
    const forged = await ask(gw.port, 'POST', SIGN_IN, { headers, body: { secret: ADMIN_TOKEN } });
    t.match(forged, { status: 403, code: 'origin_not_allowed' }, 'nobody is signed in by a page of another');
    t.equal(forged.headers['set-cookie'], undefined);
  }
});

t.test('what a session may', async (t) => {
  const { gw, signedIn, keyOf } = await start(t);

  await t.test('of an org: what its key may, there alone', async (t) => {
    const [acme, globex] = [await signedIn((await keyOf('acme')).key), await signedIn((await keyOf('globex')).key)];
    t.equal((await acme.ask('PUT', '/mgmt/v1/workloads', { body: { workload_id: 'of-acme' } })).status, 200);
    t.strictSame(workloadsIn(await globex.ask('GET', '/mgmt/v1/workloads')), ['default']);
    t.strictSame(workloadsIn(await acme.ask('GET', '/mgmt/v1/workloads', { headers: { 'gw-org': 'acme' } })), ['default', 'of-acme']);
    t.match(await globex.ask('GET', '/mgmt/v1/workloads', { headers: { 'gw-org': 'acme' } }), { status: 403, code: 'insufficient_scope' });
    for (const path of ['/v1/admin/workloads', '/v1/admin/sessions', '/v1/admin/mgmt-keys'])
      t.match(await acme.ask('GET', path), { status: 403, code: 'insufficient_scope' }, path);
    const own = (await acme.ask('GET', '/mgmt/v1/sessions')).body as { data: Record<string, unknown>[] };
    t.strictSame(
      own.data.map(({ id, current }) => [id, current]),
      [[acme.session['id'], true]],
    );
    t.notMatch(JSON.stringify(own), /hash|fingerprint/);
    const theirs = `/mgmt/v1/sessions/${String(acme.session['id'])}`;
    t.match(await globex.ask('DELETE', theirs), { status: 404, code: 'not_found' });
    t.equal((await acme.ask('GET', SESSION)).status, 200);
    t.equal((await acme.ask('DELETE', theirs)).status, 200);
    t.equal((await acme.ask('GET', SESSION)).status, 401);
  });

  await t.test('of a key that only reads: no change', async (t) => {
    const reader = await signedIn((await keyOf('acme', ['read'])).key);
    t.match((await reader.ask('GET', SESSION)).body, { scopes: ['read', 'review'] });
    t.equal((await reader.ask('GET', '/mgmt/v1/workloads')).status, 200);
    t.match(await reader.ask('PUT', '/mgmt/v1/workloads', { body: { workload_id: 'x' } }), { status: 403, code: 'insufficient_scope' });
    t.equal((await reader.ask('DELETE', SESSION)).status, 204, 'but it may end itself');
    const approver = await signedIn((await keyOf('acme', ['approve'])).key);
    t.match((await approver.ask('GET', SESSION)).body, { scopes: ['review', 'decide'] });
    t.match(await approver.ask('GET', '/mgmt/v1/workloads'), { status: 403, code: 'insufficient_scope' });
  });

  await t.test('of the admin token: all of the admin API, and one org after the other', async (t) => {
    const admin = await signedIn(ADMIN_TOKEN);
    t.equal((await admin.ask('GET', '/v1/admin/orgs')).status, (await gw.admin('GET', '/v1/admin/orgs')).status);
    t.match((await admin.ask('GET', SESSION)).body, {
      kind: 'admin',
      org_id: 'default',
      scopes: ['admin', 'org', 'read', 'write', 'review', 'decide'],
    });
    const workloads = async (headers: Fields = {}) => workloadsIn(await admin.ask('GET', '/mgmt/v1/workloads', { headers }));
    t.strictSame(await workloads(), ['default']);
    t.strictSame(await workloads({ 'gw-org': 'acme' }), ['default', 'of-acme']);
    t.match(await admin.ask('GET', SESSION, { headers: { 'gw-org': 'acme' } }), { body: { org_id: 'acme' } });
    t.match(await admin.ask('GET', '/mgmt/v1/workloads', { headers: { 'gw-org': 'a b' } }), { status: 400, code: 'invalid_request' });
    const made = await admin.ask('POST', '/v1/admin/mgmt-keys', {
      body: { org_id: 'initech', name: 'first', kind: 'management', scopes: ['read'] },
    });
    t.match(made, { status: 201, body: { org_id: 'initech', key: /^mgk_/ } }, 'the first key of an org is made in the console');
    const more = await admin.ask('POST', '/mgmt/v1/keys', {
      headers: { 'gw-org': 'initech' },
      body: { name: 'next', kind: 'mcp', scopes: ['read'] },
    });
    t.match(more, { status: 201, body: { org_id: 'initech' } });
    for (const path of ['/mcp', '/metrics', '/v1/console/links'])
      t.not((await admin.ask('POST', path, { body: {} })).status, 201, `${path} is for programs`);
    t.match(await admin.ask('POST', '/v1/console/links', {}), { status: 401 }, 'a session makes no link');
  });

  await t.test('a key that is shown beside the cookie is what counts', async (t) => {
    const admin = await signedIn(ADMIN_TOKEN);
    t.equal((await admin.ask('GET', '/v1/admin/workloads', { headers: { 'gw-admin-token': 'wrong' } })).status, 401);
    t.equal((await admin.ask('GET', '/mgmt/v1/workloads', { headers: { authorization: 'Bearer mgk_wrong' } })).status, 401);
  });
});

t.test('what a first look shows is of one org', async (t) => {
  const bundle = bundleOf(`  targets:
    - {id: ask, when: {field: context.action.params.model, equals: o3}, effect: {decision: require_approval, reason: ask}}
    - {id: all, effect: {decision: allow}}
`);
  const { gw, execute } = await startGoverned(t, { bundle });
  const { keyOf } = await managedOf(gw);
  const browserOf = async (secret: string): Promise<Browser> => {
    const made = new Browser(gw.port);
    t.equal((await made.signIn({ secret })).status, 201);
    return made;
  };
  const [acme, globex, admin] = [
    await browserOf((await keyOf('acme')).key),
    await browserOf((await keyOf('globex')).key),
    new Browser(gw.port),
  ];
  await admin.signIn({ secret: ADMIN_TOKEN });
  await execute({ org_id: 'acme', caller_id: 'of-acme' }, { params: { ...CHAT } });
  await execute({ org_id: 'acme', caller_id: 'of-acme' }, { params: { ...CHAT, model: 'o3' } });
  const stop = { scope: { workload: 'of-acme' }, reason: 'of-acme stops', confirm: 'stop' };
  t.equal((await acme.ask('POST', '/mgmt/v1/stop', { body: stop })).status, 201);
  const look = (who: Browser, headers: Fields = {}) => who.ask('GET', '/mgmt/v1/overview', { headers });
  const own = await look(acme);
  t.match(own, { status: 200, headers: { 'cache-control': 'no-store' }, body: { org_id: 'acme', stops: [{ reason: 'of-acme stops' }] } });
  t.match(own.body, { waiting: { approvals: [{ caller_id: 'of-acme' }] }, today: { requests: 2 } });
  t.equal((own.body['latest'] as unknown[]).length, 2);
  const other = await look(globex);
  t.match(other, { status: 200, body: { org_id: 'globex', waiting: { approvals: [] }, stops: [], latest: [], today: { requests: 0 } } });
  t.notMatch(JSON.stringify(other.body), 'of-acme');
  t.equal((await look(globex, { 'gw-org': 'acme' })).status, 403);
  t.notMatch(JSON.stringify((await look(admin)).body), 'of-acme', 'the admin token names the org that it looks at');
  t.strictSame((await look(admin, { 'gw-org': 'acme' })).body['latest'], own.body['latest']);
  for (const method of ['OPTIONS', 'POST', 'TRACE']) t.equal((await acme.ask(method, '/mgmt/v1/overview')).status, 405, method);
  const ambient = new Browser(gw.ambientPort);
  ambient.cookie = acme.at(ambient.port).cookie;
  for (const path of ['/mgmt/v1/overview', SESSION, '/console/'])
    t.equal((await ambient.ask('GET', path)).status, 404, `${path} is not there`);
});

t.test('on a gateway of one org the admin token asks about that one', async (t) => {
  const gw = await startTestGateway(t, { env: { GW_ORG_ID: 'acme' } });
  const admin = new Browser(gw.port);
  await admin.signIn({ secret: ADMIN_TOKEN });
  t.match(await admin.ask('GET', SESSION), { status: 200, body: { org_id: 'acme', gateway: { org_id: 'acme' } } });
  t.match(await admin.ask('GET', '/mgmt/v1/workloads', { headers: { 'gw-org': 'globex' } }), { status: 403, code: 'insufficient_scope' });
});

t.test('a session ends', async (t) => {
  await t.test('when it is not used, and in any case some day', async (t) => {
    const { gw, clock, signedIn } = await start(t, { env: { GW_CONSOLE_SESSION_IDLE: '2h', GW_CONSOLE_SESSION_MAX: '5h' } });
    const [used, idle] = [await signedIn(ADMIN_TOKEN), await signedIn(ADMIN_TOKEN)];
    const seen = async (): Promise<unknown> => (await used.ask('GET', SESSION)).body['last_seen_at'];
    const before = await seen();
    clock.advance(30_000);
    t.equal(await seen(), before, 'its use is stored once a minute');
    for (let hours = 1; hours <= 4; hours += 1) {
      clock.advance(HOUR);
      const at = new Date(clock.now()).toISOString();
      await used.ask('GET', SESSION);
      t.equal(await until(seen, (now) => now === at), at);
      if (hours === 1) t.equal(((await gw.admin('GET', '/v1/admin/sessions')).body as { sessions: unknown[] }).sessions.length, 2);
    }
    t.match(await idle.ask('GET', SESSION), { status: 401, body: { error: { message: 'This session is over: sign in again.' } } });
    t.match(((await gw.admin('GET', '/v1/admin/sessions')).body as { sessions: unknown[] }).sessions, [
      { id: used.session['id'], current: false },
    ]);
    t.equal((await used.ask('GET', SESSION)).status, 200);
    clock.advance(HOUR);
    t.equal((await used.ask('GET', SESSION)).status, 401);
  });

  await t.test('with its key', async (t) => {
    const { gw, clock, signedIn, keyOf } = await start(t);
    const [revoked, kept] = [await keyOf('acme'), await keyOf('acme')];
    const made = await gw.admin('POST', '/v1/admin/mgmt-keys', {
      ...{ org_id: 'acme', name: 'short', kind: 'management', scopes: ['read'] },
      expires_at: new Date(clock.now() + HOUR).toISOString(),
    });
    const short = await signedIn(String((made.body as Record<string, unknown>)['key']));
    const [one, two] = [await signedIn(revoked.key), await signedIn(kept.key)];
    t.equal((await gw.admin('DELETE', `/v1/admin/mgmt-keys/${revoked.id}`)).status, 200);
    t.equal((await one.ask('GET', '/mgmt/v1/workloads')).status, 401);
    t.equal((await two.ask('GET', '/mgmt/v1/workloads')).status, 200);
    clock.advance(HOUR);
    t.equal((await short.ask('GET', SESSION)).status, 401);
  });

  await t.test('by whoever may end it', async (t) => {
    const { gw, signedIn, keyOf } = await start(t);
    const [admin, acme] = [await signedIn(ADMIN_TOKEN), await signedIn((await keyOf('acme')).key)];
    t.equal((await gw.admin('DELETE', `/v1/admin/sessions/${String(acme.session['id'])}`)).status, 200);
    t.equal((await acme.ask('GET', SESSION)).status, 401);
    t.match(await gw.admin('DELETE', `/v1/admin/sessions/${String(acme.session['id'])}`), { status: 404 });
    const trail = await gw.admin('GET', '/v1/admin/audit?operation=sessions.revoke');
    const revoked = { operation: 'sessions.revoke', org_id: 'acme', object: acme.session['id'], principal: { kind: 'admin' } };
    t.match((trail.body as { items: AuditEntry[] }).items, [revoked]);
    t.equal((trail.body as { items: AuditEntry[] }).items.length, 1, 'one for what was ended, none for what was not there');
    const itself = `/v1/admin/sessions/${String(admin.session['id'])}`;
    t.equal((await admin.ask('DELETE', itself)).status, 200);
    t.equal((await admin.ask('GET', SESSION)).status, 401);
  });
});

t.test('of the admin token with that token, at every gateway of the folder', async (t) => {
  const { gw, clock, signedIn, keyOf } = await start(t);
  const [admin, acme] = [await signedIn(ADMIN_TOKEN), await signedIn((await keyOf('acme')).key)];
  await gw.gateway.stop();
  const again = (token: string) =>
    startTestGateway(t, { clock, bundle: ALLOW_ALL, env: { GW_DATA_DIR: gw.dataDir, GW_ADMIN_TOKEN: token } });
  const at = (port: number, browser: Browser) => browser.at(port).ask('GET', SESSION);
  const same = await again(ADMIN_TOKEN);
  t.equal((await at(same.port, admin)).status, 200, 'a start ends no session');
  t.equal((await at(same.port, acme)).status, 200);
  await same.gateway.stop();
  const other = await again('another-admin-token-0123456789');
  t.equal((await at(other.port, admin)).status, 401);
  t.equal((await at(other.port, acme)).status, 200, 'those of keys go on');
});

t.test('a link', async (t) => {
  const { gw, clock, browser, keyOf } = await start(t);
  const codeIn = (url: unknown): string => /^http:\/\/127\.0\.0\.1:\d+\/console#code=([\w-]{43})$/.exec(String(url))?.[1] ?? '';
  const link = async (headers: Fields = { 'gw-admin-token': ADMIN_TOKEN }): Promise<string> => {
    const said = await ask(gw.port, 'POST', '/v1/console/links', { headers });
    t.match(said, { status: 201, body: { expires_at: new Date(clock.now() + 120_000).toISOString() } });
    return codeIn(said.body['url']);
  };

  await t.test('lets in once', async (t) => {
    const code = await link();
    t.match(await browser().signIn({ code }), { status: 201, body: { session: { kind: 'admin' } } });
    t.match(await browser().signIn({ code }), { status: 401, code: 'unauthorized', body: { error: { message: /used before/ } } });
    const both = await link();
    const said = await Promise.all([browser().signIn({ code: both }), browser().signIn({ code: both })]);
    t.strictSame(said.map(({ status }) => status).sort(), [201, 401], 'also of two at the same moment');
  });

  await t.test('is of who has asked for it', async (t) => {
    const { id, key } = await keyOf('acme', ['read']);
    const code = await link({ authorization: `Bearer ${key}` });
    t.match(await browser().signIn({ code }), {
      status: 201,
      body: { session: { kind: 'management_key', key_id: id, scopes: ['read', 'review'] } },
    });
    const late = await link({ authorization: `Bearer ${key}` });
    await gw.admin('DELETE', `/v1/admin/mgmt-keys/${id}`);
    t.equal((await browser().signIn({ code: late })).status, 401, 'and lets nobody in without its key');
    const mcp = (await managedOf(gw)).keyOf('acme', ['read'], 'mcp');
    t.equal((await ask(gw.port, 'POST', '/v1/console/links', { headers: { authorization: `Bearer ${(await mcp).key}` } })).status, 401);
  });

  await t.test('is good for two minutes', async (t) => {
    const code = await link();
    clock.advance(120_000);
    t.equal((await browser().signIn({ code })).status, 401);
  });
});

t.test('wrong secrets are told of, and tried slowly', async (t) => {
  const { gw, clock, browser, keyOf } = await start(t);
  const { key, id } = await keyOf('acme');
  await gw.admin('DELETE', `/v1/admin/mgmt-keys/${id}`);
  for (const body of [{ secret: 'wrong-token' }, { secret: 'mgk_wrong' }, { secret: key }, { code: 'wrong' }]) {
    const said = await browser().signIn(body);
    t.match(said, { status: 401, code: 'unauthorized' }, JSON.stringify(body));
    t.equal(said.headers['set-cookie'], undefined);
  }
  t.match((await gw.admin('GET', '/metrics')).text, /gw_auth_failures_total\{reason="invalid_key",org_id="default"\} 3/);
  t.match(await browser().signIn({ secret: 'x', code: 'y' }), { status: 400, code: 'invalid_request' });
  await browser().signIn({ secret: 'wrong-token' });
  const waits = clock.pending;
  const held = browser().signIn({ secret: 'wrong-token' });
  await until(
    () => clock.pending,
    (now) => now > waits,
  );
  t.match(await browser().signIn({ secret: ADMIN_TOKEN }), { status: 201 }, 'the right one is not held up');
  clock.advance(100);
  t.match(await held, { status: 401 });
});

t.test('the trail says who has signed in, and out', async (t) => {
  const { gw, signedIn, keyOf } = await start(t);
  const { key, id } = await keyOf('acme');
  const acme = await signedIn(key);
  await acme.ask('PUT', '/mgmt/v1/workloads', { body: { workload_id: 'w' } });
  await acme.ask('DELETE', SESSION);
  const admin = await signedIn(ADMIN_TOKEN);
  await admin.ask('PUT', '/mgmt/v1/workloads', { headers: { 'gw-org': 'acme' }, body: { workload_id: 'x' } });
  const trail = ((await gw.admin('GET', '/v1/admin/audit?limit=5')).body as { items: AuditEntry[] }).items.toReversed();
  const session = { kind: 'session', id: acme.session['id'], name: 'key of acme', user_id: id };
  t.match(
    trail.map(({ operation, org_id, principal, object }) => ({ operation, org_id, principal, object })),
    [
      { operation: 'console.sign_in', org_id: 'acme', principal: session, object: acme.session['id'] },
      { operation: /workloads\.put$/, org_id: 'acme', principal: session },
      { operation: 'console.sign_out', org_id: 'acme', principal: session, object: acme.session['id'] },
      { operation: 'console.sign_in', org_id: undefined, principal: { kind: 'admin', program: 'console' }, object: admin.session['id'] },
      { operation: /workloads\.put$/, org_id: 'acme', principal: { kind: 'admin', program: 'console' } },
    ],
  );
  const text = JSON.stringify(trail);
  for (const hidden of [key, ADMIN_TOKEN, acme.cookie.split('=')[1], admin.cookie.split('=')[1]]) t.notMatch(text, hidden ?? '-');
});

t.test('a key and its sessions are one person', async (t) => {
  const bundle = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
  risk:
    - {id: ask, when: {field: caller_id, equals: ben}, effect: {decision: require_approval, approval: {required: 2}}}
`);
  const { gw, execute } = await startGoverned(t, { bundle });
  const managed = await managedOf(gw);
  const own = await managed.keyOf('acme');
  const approval = String((await execute({ org_id: 'acme', caller_id: 'ben' }, { params: { ...CHAT } })).body['approval_id']);
  const browser = new Browser(gw.port);
  await browser.signIn({ secret: own.key });
  const path = `/mgmt/v1/approvals/${approval}/approve`;
  t.match(await browser.ask('POST', path, { body: {} }), { status: 200, body: { status: 'pending' } });
  t.equal((await managed.with(own.key)('POST', path, {})).status, 409);
  const made = await browser.ask('POST', '/mgmt/v1/keys', { body: { name: 'made', kind: 'management', scopes: ['read', 'write'] } });
  t.equal((await managed.with(String(made.body['key']))('POST', path, {})).status, 409, 'nor does a key that the session has made');
  const admin = new Browser(gw.port);
  await admin.signIn({ secret: ADMIN_TOKEN });
  t.match(await admin.ask('POST', path, { headers: { 'gw-org': 'acme' }, body: {} }), { status: 200, body: { status: 'approved' } });
});

t.test('no cookie of the console leaves for a provider, and none comes from one', async (t) => {
  const seen: (string | undefined)[] = [];
  const { gw } = await startGoverned(t, {
    bundle: ALLOW_ALL,
    handler: (request, response) => {
      seen.push(request.headers.cookie);
      response.setHeader('set-cookie', [`gw-console-${gw.port}=planted; Path=/`, 'theirs=1']).setHeader('content-type', 'application/json');
      response.end('{"usage":{"prompt_tokens":1,"completion_tokens":1}}');
    },
  });
  const browser = new Browser(gw.port);
  await browser.signIn({ secret: ADMIN_TOKEN });
  const proxied = async (cookie: string) => {
    const said = await ask(gw.port, 'POST', '/proxy/openai/v1/chat/completions', {
      headers: { cookie, authorization: 'Bearer sk-x', 'x-gw-workload-id': 'default' },
      body: { ...CHAT },
    });
    t.equal(said.status, 200, JSON.stringify(said.body));
    return said.headers['set-cookie'];
  };
  t.strictSame(await proxied(`${browser.cookie}; own=1; __Host-gw-console-443=x`), ['theirs=1']);
  await proxied(browser.cookie);
  t.strictSame(seen, ['own=1', undefined]);
  t.equal(withoutOwnCookies('a=gw-console-1; b=2'), 'a=gw-console-1; b=2', 'a value is no name');
});

t.test('GW_CONSOLE_ENABLED=false', async (t) => {
  const on = await start(t);
  const admin = await on.signedIn(ADMIN_TOKEN);
  await on.gw.gateway.stop();
  const gw = await startTestGateway(t, { env: { GW_CONSOLE_ENABLED: 'false', GW_DATA_DIR: on.gw.dataDir } });
  const headers = { ...OWN_PAGE, cookie: admin.at(gw.port).cookie };
  t.match(await ask(gw.port, 'POST', SIGN_IN, { headers, body: { secret: ADMIN_TOKEN } }), { status: 404, code: 'not_found' });
  for (const path of [SESSION, '/v1/admin/sessions', '/mgmt/v1/sessions'])
    t.equal((await ask(gw.port, 'GET', path, { headers })).status, 404, path);
  t.equal((await ask(gw.port, 'GET', '/v1/admin/workloads', { headers })).status, 401, 'no cookie opens anything');
  const described = (await gw.admin('GET', '/v1/openapi.json')).text;
  t.notMatch(described, /\/v1\/console\/|admin\/sessions|mgmt\/v1\/sessions/);
});

t.test('with a port of its own the console is there, with what the admin API has', async (t) => {
  const { gw, browser } = await start(t, { env: { GW_MGMT_PORT: '0' } });
  const port = gw.gateway.managementPort ?? 0;
  t.equal((await browser().signIn({ secret: ADMIN_TOKEN })).status, 404, 'not on the first port');
  const one = browser(port);
  t.equal((await one.signIn({ secret: ADMIN_TOKEN })).status, 201);
  for (const path of [SESSION, '/mgmt/v1/workloads', '/v1/admin/workloads', '/v1/admin/sessions'])
    t.equal((await one.ask('GET', path)).status, 200, path);
  for (const headers of [{}, { 'gw-admin-token': ADMIN_TOKEN }])
    t.equal((await ask(port, 'GET', '/v1/admin/workloads', { headers })).status, 404, 'for sessions alone');
  t.equal((await ask(port, 'POST', '/v1/admin/workloads')).status, 404, 'whatever the method');
  const there = { headers: { ...OWN_PAGE, cookie: one.cookie } };
  t.equal((await ask(gw.port, 'GET', '/v1/admin/workloads', there)).status, 401, 'and its cookie counts on that port alone');
});
