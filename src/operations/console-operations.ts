import { z } from 'zod';
import { timestamp } from '../base/lib/clock.ts';
import type { Cookie } from '../base/lib/cookie.ts';
import { GatewayError } from '../base/lib/gateway-error.ts';
import { MANAGEMENT_KEY_PREFIX } from '../base/lib/own-tokens.ts';
import { packageVersion } from '../base/lib/package-root.ts';
import type { ArrivalHead } from '../base/model/arrival.ts';
import { CONSOLE_SESSION_KINDS, type ShownSession } from '../base/model/console-session.ts';
import type { Principal } from '../base/model/principal.ts';
import type { SigningIn } from '../services/people/console-sessions.ts';
import { CONSOLE_HEADER } from '../surfaces/http/proofs.ts';
import { CURSOR_QUERY, cursorPage, dataPage, pageInMemory } from './management/cursor-pages.ts';
import { orgOf } from './management/org-of.ts';
import { ALSO_WHEN_WRONG, members } from './members.ts';
import { ADDS, alike, entryOf, type GatewayOperation, operation, READS, REMOVES } from './operation.ts';
import type { ConsoleServices, OperationServices } from './services.ts';
import { pathId, time } from './shapes.ts';

/** Where the console is, below the address of the management API. */
export const CONSOLE_PATH = '/console';

const MAX_SECRET = 4_096;
const ONE_RULE = 'name a secret or a code, not both';

const secret = z.string('must be text').min(1, 'must not be empty').max(MAX_SECRET, `must be at most ${MAX_SECRET} characters`);

const SIGN_IN = members({
  secret: secret.optional().meta({ description: 'The admin token, or a management key' }),
  code: secret.optional().meta({ description: 'What stands behind `#code=` in a link of `POST /v1/console/links`' }),
}).refine((given) => (given.secret === undefined) !== (given.code === undefined), { error: ONE_RULE, ...ALSO_WHEN_WRONG });

const SESSION = z.object({
  id: z.string(),
  kind: z.enum(CONSOLE_SESSION_KINDS).meta({ description: 'With what somebody has signed in' }),
  name: z.string().optional().meta({ description: 'Of the management key' }),
  key_id: z.string().optional().meta({ description: 'Of the management key: the session ends with it' }),
  org_id: z.string().optional().meta({ description: 'Of the management key; absent: the admin token is of no org' }),
  scopes: z.array(z.string()).meta({ description: 'What it may ask for; of a management key as that may at the moment' }),
  made_at: time,
  last_seen_at: time.meta({ description: 'When it was last used, as of a minute' }),
  expires_at: time.meta({ description: 'When it ends, however much it is used' }),
  idle_expires_at: time.meta({ description: 'When it ends if nothing more is asked by it' }),
  address: z.string().meta({ description: 'From which it was begun' }),
  browser: z.string().optional().meta({ description: 'As the browser called itself' }),
  current: z.boolean().meta({ description: 'It is the one that asks' }),
});

const OWN_SESSION = SESSION.omit({ current: true }).extend({
  org_id: z.string().meta({ description: 'The org that is asked about: of the admin token that of `GW-Org`' }),
  gateway: z.object({
    version: z.string(),
    node_id: z.string(),
    org_id: z.string().nullable().meta({ description: 'The one org that it serves; null: any' }),
    mode: z.enum(['embedded', 'distributed']).meta({ description: '`distributed`: it shares a database with others' }),
    time: time.meta({ description: 'Of its clock, as it answered: that of a browser may be another' }),
  }),
});

const REVOKED = z.object({ id: z.string(), status: z.literal('revoked') });
const params = pathId('Session id');

/** Signing in to the console, and who has (decision 10.19). */
const OF_BROWSERS: readonly GatewayOperation[] = [
  operation({
    id: 'console.sign_in',
    method: 'POST',
    path: '/v1/console/sessions',
    scope: 'none',
    summary: 'Signs a browser in with the admin token, a management key, or the code of a link; needs the header `GW-Console: 1`.',
    annotations: ADDS,
    errors: ['unauthorized', 'forbidden', 'origin_not_allowed', 'misdirected_request', 'too_many_attempts', 'key_lookup_failed'],
    input: { body: { schema: () => SIGN_IN, what: 'The sign-in' } },
    output: { status: 201, schema: z.object({ session: SESSION }) },
    handle: async ({ body, head, asking }, services) => {
      const { sessions, door, wrong } = consoleOf(services);
      const from = browserOf(head);
      const refusal = door.refusal(from);
      if (refusal !== undefined) throw refusal;
      const where: SigningIn = { address: asking.from, browser: from.headers['user-agent'] };
      const commitAs = (principal: Principal) => services.audit.commitFor({ ...asking, principal });
      const { secret: shown, code = '' } = body;
      const begun = await (shown === undefined ? sessions.redeem(code, where, commitAs) : sessions.signIn(shown, where, commitAs));
      if (begun === undefined) {
        await wrong(from, shown, shown?.startsWith(MANAGEMENT_KEY_PREFIX) === false);
        throw new GatewayError('unauthorized', shown === undefined ? NO_CODE : NO_SECRET);
      }
      return { json: { session: { ...sessions.shown(begun), current: true } }, cookies: cookiesOf(door.cookie(from, begun.value)) };
    },
  }),
  operation({
    id: 'console.session.read',
    method: 'GET',
    path: '/v1/console/session',
    scope: 'session',
    summary: 'The session that asks: who has signed in, what that may, until when, and at which gateway. 204: nobody has.',
    annotations: READS,
    errors: ['origin_not_allowed', 'misdirected_request'],
    output: { status: 200, otherStatuses: [204], schema: OWN_SESSION },
    handle: async ({ principal }, services) => {
      if (principal.kind !== 'session') return { status: 204 as const };
      const own = await consoleOf(services).sessions.show(principal.id);
      if (own === undefined) throw new GatewayError('unauthorized', 'This session is over: sign in again.');
      const { health, orgs } = services;
      const mode = health.cluster === undefined ? ('embedded' as const) : ('distributed' as const);
      const node = { version: packageVersion(), node_id: health.nodeId, org_id: orgs.orgId ?? null, mode };
      const gateway = { ...node, time: timestamp(services.reports.clock.now()) };
      return { json: { ...own, org_id: orgOf(principal), gateway } };
    },
  }),
  operation({
    id: 'console.sign_out',
    method: 'DELETE',
    path: '/v1/console/session',
    scope: 'session',
    summary: 'Ends the session that asks.',
    annotations: REMOVES,
    errors: ['origin_not_allowed', 'misdirected_request'],
    output: { status: 204 },
    handle: async ({ principal, head, commit }, services) => {
      const { sessions, door } = consoleOf(services);
      if (principal.kind === 'session') await sessions.end(principal.id, undefined, commit);
      return { cookies: head === undefined ? [] : cookiesOf(door.cookie(head, undefined)) };
    },
  }),
  operation({
    id: 'console.links.create',
    method: 'POST',
    path: '/v1/console/links',
    scope: 'sign_in',
    summary: 'A link by which one browser signs in as who asks, once, within two minutes.',
    annotations: ADDS,
    errors: ['too_many_attempts', 'insufficient_scope', 'key_lookup_failed'],
    output: {
      status: 201,
      schema: z.object({ url: z.string().meta({ description: 'What lets in stands behind `#`, which no server sees' }), expires_at: time }),
    },
    handle: async ({ principal, commit }, services) => {
      const { sessions } = consoleOf(services);
      const made = await sessions.invite(principal, commit);
      if (made === undefined) throw new GatewayError('unauthorized', 'This key was revoked.');
      const { place } = services.chat;
      return { json: { url: `${place.pages ?? place.url}${CONSOLE_PATH}#code=${made.code}`, expires_at: made.expiresAt } };
    },
  }),
];

const OF_ADMIN: readonly GatewayOperation[] = [
  operation({
    id: 'sessions.list',
    method: 'GET',
    path: '/v1/admin/sessions',
    scope: 'admin',
    summary: 'Who has signed in to the console, with the admin token and of every org; the last sign-in first.',
    annotations: READS,
    output: { status: 200, schema: z.object({ sessions: z.array(SESSION) }) },
    handle: async ({ principal }, services) => ({
      json: { sessions: (await consoleOf(services).sessions.list()).map((one) => withCurrent(one, principal)) },
    }),
  }),
  operation({
    id: 'sessions.revoke',
    method: 'DELETE',
    path: '/v1/admin/sessions/{id}',
    scope: 'admin',
    summary: 'Ends a session of the console: from the next request on it lets nobody in.',
    annotations: REMOVES,
    errors: ['not_found'],
    input: { params },
    output: { status: 200, schema: REVOKED },
    handle: async ({ principal, params: { id }, commit }, services) => {
      if (!(await consoleOf(services).sessions.end(id, principal.orgId, commit)))
        throw new GatewayError('not_found', `There is no session ${id}.`);
      return { json: { id, status: 'revoked' as const } };
    },
  }),
];

export const CONSOLE_OPERATIONS: readonly GatewayOperation[] = [
  ...OF_BROWSERS,
  ...OF_ADMIN,
  operation({
    id: 'mgmt.sessions.list',
    method: 'GET',
    path: '/mgmt/v1/sessions',
    scope: 'read',
    summary: 'Who has signed in to the console with a key of the org.',
    annotations: READS,
    input: { query: { schema: () => CURSOR_QUERY } },
    output: { status: 200, schema: dataPage(SESSION) },
    handle: async ({ principal, query }, services) => {
      const own = (await consoleOf(services).sessions.list(orgOf(principal))).map((one) => withCurrent(one, principal));
      return { json: pageInMemory(own, ({ id }) => id, cursorPage('sessions', query)) };
    },
  }),
  alike(entryOf(OF_ADMIN, 'sessions.revoke'), { id: 'mgmt.sessions.revoke', path: '/mgmt/v1/sessions/{id}', scope: 'write' }),
];

const NO_SECRET = 'This is neither the admin token of this gateway nor a management key that is good.';
const NO_CODE = 'This link was used before, or its two minutes are over: gw console makes another.';

/** @throws GatewayError `not_found` */
function consoleOf({ console: found }: OperationServices): ConsoleServices {
  if (found === undefined) throw new GatewayError('not_found', 'The console is switched off (GW_CONSOLE_ENABLED=false).');
  return found;
}

/**
 * A page of this gateway, or a program that says that it means it: else a page of another origin could sign somebody in
 * as somebody else.
 * @throws GatewayError `origin_not_allowed`
 */
function browserOf(head: ArrivalHead | undefined): ArrivalHead {
  const site = head?.headers['sec-fetch-site'];
  if (head?.headers[CONSOLE_HEADER] === '1' && (site === undefined || site === 'same-origin')) return head;
  throw new GatewayError('origin_not_allowed', 'Only a page of this gateway itself signs in, which sends GW-Console: 1.');
}

function cookiesOf(cookie: Cookie | undefined): readonly Cookie[] {
  return cookie === undefined ? [] : [cookie];
}

function withCurrent(session: ShownSession, { kind, id }: Principal) {
  return { ...session, current: kind === 'session' && id === session.id };
}
