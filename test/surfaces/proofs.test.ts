// People beside keys: a session of a browser lets in where people can sign in, and nowhere else.
import t from 'tap';
import { EventBus } from '../../src/base/events/bus.ts';
import { cookieIn } from '../../src/base/lib/cookie.ts';
import { GatewayError } from '../../src/base/lib/gateway-error.ts';
import { silentLogger } from '../../src/base/lib/log.ts';
import type { ArrivalHead } from '../../src/base/model/arrival.ts';
import { namedPrincipal, type Principal, principalText, principalWord, type Scope } from '../../src/base/model/principal.ts';
import { Authenticator } from '../../src/services/people/authenticator.ts';
import { WrongKeys } from '../../src/services/people/wrong-keys.ts';
import type { SignedIn } from '../../src/surfaces/http/proofs.ts';
import { fakeClock } from '../support/fake-clock.ts';

const COOKIE = '__Host-gw-session';
const ADA: Principal = {
  kind: 'session',
  id: 's1',
  name: 'Ada',
  userId: 'u1',
  groups: ['ops'],
  orgId: 'acme',
  scopes: ['none', 'read', 'review', 'decide', 'write'],
};
/** Of all orgs. */
const ROOT: Principal = { kind: 'session', id: 's2', userId: 'u2', scopes: ['none', 'admin', 'org'] };
const SIGNED_IN: SignedIn = {
  shown: ({ headers }) => cookieIn(headers['cookie'], COOKIE),
  personOf: (value) => (value === 'ada' ? ADA : Promise.resolve(value === 'root' ? ROOT : undefined)),
};
const NO_KEYS = { judge: () => ({ result: 'invalid_key' as const }) };

async function ask(
  scope: Scope,
  headers: Readonly<Record<string, string>>,
  { method = 'GET', signedIn = [SIGNED_IN] }: { readonly method?: string; readonly signedIn?: readonly SignedIn[] } = {},
) {
  const failures: string[] = [];
  const events = new EventBus(silentLogger);
  events.subscribe(['authFailure'], ({ reason, surface }) => failures.push(`${surface} ${reason}`));
  const authenticator = new Authenticator({
    apiKeys: NO_KEYS,
    managementKeys: NO_KEYS,
    wrongKeys: new WrongKeys(fakeClock()),
    ...(signedIn[0] && { signedIn: signedIn[0] }),
    managed: false,
    workloads: { hasToken: () => false, tokenMatches: () => false, holderOf: () => undefined },
    required: false,
    adminToken: 'admin-token',
    metricsToken: 'metrics-token',
    orgId: 'o',
    events,
    callerIp: () => '127.0.0.1',
  });
  const head = { method, rawTarget: '/x', headers, rawHeaders: [], remoteAddress: '127.0.0.1' } as unknown as ArrivalHead;
  try {
    return { who: await authenticator.principal(scope, head), failures };
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    return { code: error.code, failures };
  }
}

t.test('a person who has signed in may what the session may', async (t) => {
  const cookie = `x=1; ${COOKIE}=ada`;
  for (const scope of ['read', 'write', 'review', 'decide'] as const) t.same((await ask(scope, { cookie })).who, ADA, scope);
  t.match(await ask('admin', { cookie }), { code: 'insufficient_scope', failures: [] });
  t.match(await ask('admin', { cookie: `${COOKIE}=root` }), { who: { kind: 'session', scopes: ['none', 'admin', 'org'] } });
  for (const scope of ['mcp', 'metrics'] as const)
    t.match(await ask(scope, { cookie }), { code: 'unauthorized' }, `${scope} is for programs`);
  t.match(await ask('read', { cookie: `${COOKIE}=ended` }), { code: 'unauthorized', failures: ['management expired'] });
  t.match(await ask('org', { cookie: `${COOKIE}=ended` }), { code: 'unauthorized', failures: ['admin expired'] });
});

t.test('only a page of the gateway itself changes something by a session', async (t) => {
  const cookie = `${COOKIE}=ada`;
  const change = (site: Readonly<Record<string, string>>, method = 'POST') => ask('write', { cookie, ...site }, { method });
  const OWN = { 'sec-fetch-site': 'same-origin', 'gw-console': '1' };
  t.same((await change(OWN)).who, ADA);
  t.match(await change({ 'sec-fetch-site': 'same-origin' }), { code: 'origin_not_allowed' }, 'a form of a page cannot send the header');
  t.match(await change({ 'gw-console': '1' }), { code: 'origin_not_allowed' }, 'nor does a browser say nothing of where a page is from');
  for (const site of ['same-site', 'cross-site', 'none'])
    t.match(await change({ ...OWN, 'sec-fetch-site': site }), { code: 'origin_not_allowed' }, site);
  for (const site of ['same-site', 'cross-site'])
    t.match(await change({ 'sec-fetch-site': site }, 'GET'), { code: 'origin_not_allowed' }, site);
  for (const site of ['same-origin', 'none']) t.same((await change({ 'sec-fetch-site': site }, 'GET')).who, ADA, site);
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) t.match(await change({}, method), { code: 'origin_not_allowed' }, method);
});

t.test('a key that is shown beside a cookie is what is judged', async (t) => {
  const cookie = `${COOKIE}=root`;
  t.match(await ask('read', { cookie: `${COOKIE}=ada`, authorization: 'Bearer mgk_wrong' }), { code: 'unauthorized' });
  t.match(await ask('admin', { cookie, 'gw-admin-token': 'wrong' }), { code: 'unauthorized' });
  t.match(await ask('admin', { cookie, 'gw-admin-token': 'admin-token' }), { who: { kind: 'admin' } });
});

t.test('where nobody can sign in a cookie says nothing', async (t) => {
  const cookie = `${COOKIE}=ada`;
  for (const scope of ['admin', 'org', 'read', 'write', 'review', 'decide', 'mcp', 'metrics'] as const) {
    const { code, failures } = await ask(scope, { cookie }, { signedIn: [] });
    t.equal(code, 'unauthorized', scope);
    t.match(failures, [/missing_header$/], scope);
  }
});

t.test('people are named in the audit trail by who they are, and by what proves it', async (t) => {
  const session = namedPrincipal(ADA);
  t.same(session, { kind: 'session', id: 's1', name: 'Ada', user_id: 'u1' });
  t.equal(principalText(session), 'Ada (user u1, session s1)');
  t.equal(principalWord(session), 'Ada');
  const { name: _name, ...nameless } = session;
  t.equal(principalText(nameless), 'u1 (session s1)');
  t.equal(principalWord(nameless), 'u1');
  const user = namedPrincipal({ kind: 'user', id: 'u1', name: 'Ada' });
  t.equal(principalText(user, 'a ticket'), 'Ada (user u1, for a ticket)');
  t.equal(principalText({ kind: 'user', id: 'u1' }), 'u1');
});
