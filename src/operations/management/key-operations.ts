import { z } from 'zod';
import { parseTime } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { GROUP_RULE, isGroupName } from '../../base/model/approval.ts';
import type { ManagementKey } from '../../base/model/keys.ts';
import { KEY_SCOPE_SETS, KEY_SCOPES, type KeyScope, MANAGEMENT_KEY_KINDS } from '../../base/model/keys.ts';
import type { Principal } from '../../base/model/principal.ts';
import type { Forgetting } from '../../services/people/hashed-keys.ts';
import type { NewManagementKey } from '../../services/people/management-keys.ts';
import type { Commit } from '../../services/registers/commit.ts';
import { choice, id, members, optional, ruled, textThere } from '../members.ts';
import { ADDS, type GatewayOperation, operation, READS, REMOVES } from '../operation.ts';
import { servedOrg } from '../served-org.ts';
import type { OperationServices } from '../services.ts';
import { pathId, time, timeToCome } from '../shapes.ts';
import { CURSOR_QUERY, cursorPage, dataPage, pageInMemory } from './cursor-pages.ts';
import { orgOf } from './org-of.ts';

const MOST_SESSION_MS = 3_600_000;
const SHOWN_SETS = KEY_SCOPE_SETS.map((set) => `[${set.map((scope) => `"${scope}"`).join(', ')}]`);
const SCOPES_RULE = `must be ${SHOWN_SETS.slice(0, -1).join(', ')} or ${SHOWN_SETS.at(-1)}`;

/** Exactly these (specification, "Management API"; decision 10.1). */
const scopes = ruled<readonly KeyScope[]>(
  (value) => Array.isArray(value) && KEY_SCOPE_SETS.some((set) => set.join() === value.join()),
  SCOPES_RULE,
).meta({
  type: 'array',
  items: { type: 'string', enum: KEY_SCOPES },
  minItems: 1,
  maxItems: 2,
  description: '`[read]`; `[read, write]`; `[approve]` lists and decides approvals and quarantines, nothing else; `[read, approve]`',
});

/** A rule that asks for an approval may name one (`effect.approval.group`). */
const GROUPS = ruled<readonly string[]>(
  (value) => Array.isArray(value) && value.length <= 16 && value.every((one) => typeof one === 'string' && isGroupName(one)),
  `must be a list of at most 16 groups; ${GROUP_RULE}`,
).meta({
  type: 'array',
  items: { type: 'string' },
  maxItems: 16,
  description: 'Of approvers (`effect.approval.group`)',
});

function keyMembers({ managementKeys }: OperationServices) {
  return {
    name: textThere,
    kind: choice(MANAGEMENT_KEY_KINDS).meta({ description: '`management` for /mgmt/v1, `mcp` for /mcp' }),
    scopes,
    groups: GROUPS.optional(),
    expires_at: timeToCome(() => managementKeys.clock.now()).optional(),
  };
}

function keyBody(services: OperationServices) {
  return members(keyMembers(services));
}

const SESSION = members({ program: id, user: textThere.optional() });

function anyOrgBody(services: OperationServices) {
  const session = SESSION.optional().meta({
    description:
      'For a program that works with the admin token: the key ends within an hour, what it does is done by the admin token, and it is not told of by itself',
  });
  return members({ org_id: id.optional(), ...keyMembers(services), session });
}

const KEY = z.object({
  id: z.string(),
  org_id: z.string(),
  kind: z.enum(MANAGEMENT_KEY_KINDS),
  name: z.string(),
  key_prefix: z.string().meta({ description: 'The first 16 characters of the key' }),
  scopes: z.array(z.enum(KEY_SCOPES)),
  groups: z.array(z.string()).optional(),
  session: z
    .object({ program: z.string(), user: z.string().optional() })
    .optional()
    .meta({ description: 'It was made for a program that works with the admin token, and ends within an hour' }),
  created_at: time,
  expires_at: time.nullable().meta({ description: 'null: never' }),
});
const MADE = KEY.extend({ key: z.string().meta({ description: 'The key itself; shown this once' }) });
const REVOKED = z.object({ id: z.string(), status: z.literal('revoked') });

type KeyBody = z.output<ReturnType<typeof keyBody>>;

/** Keys of the management API and of MCP (specification, "Authentication" 4; decision 10.1). */
export const KEY_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'mgmt.keys.list',
    method: 'GET',
    path: '/mgmt/v1/keys',
    scope: 'read',
    summary: 'Management and MCP keys of the org, those that were revoked left out; never the keys themselves.',
    annotations: READS,
    input: { query: { schema: () => CURSOR_QUERY } },
    output: { status: 200, schema: dataPage(KEY) },
    handle: async ({ principal, query }, { managementKeys }) => {
      // A program that asks by a key of its own session is not told of that one.
      const all = await managementKeys.service.list(orgOf(principal));
      const keys = all.filter((key) => key.session === undefined || key.id !== principal.id);
      return { json: pageInMemory(keys.map(shown), (key) => key.id, cursorPage('keys', query)) };
    },
  }),
  operation({
    id: 'mgmt.keys.create',
    method: 'POST',
    path: '/mgmt/v1/keys',
    scope: 'write',
    summary: 'Makes a key for the management API or for MCP; the answer shows it this once.',
    annotations: ADDS,
    errors: ['not_in_group'],
    input: { body: { schema: keyBody, what: 'The key' } },
    output: { status: 201, schema: MADE },
    handle: async ({ principal, body, commit }, services) => ({
      json: await made({ ...newKey(orgOf(principal), ownGroups(body, principal)), madeBy: makerOf(principal) }, services, commit),
    }),
  }),
  operation({
    id: 'mgmt.keys.revoke',
    method: 'DELETE',
    path: '/mgmt/v1/keys/{id}',
    scope: 'write',
    summary: 'Revokes a key: from the next request on it lets nobody in.',
    annotations: REMOVES,
    errors: ['key_not_found'],
    input: { params: pathId('Key id') },
    output: { status: 200, schema: REVOKED },
    handle: async ({ principal, params, commit }, services) => ({ json: await revoked(params.id, orgOf(principal), services, commit) }),
  }),
  operation({
    id: 'mgmt_keys.list',
    method: 'GET',
    path: '/v1/admin/mgmt-keys',
    scope: 'admin',
    summary: 'Management and MCP keys of every org, those that were revoked left out; `org_id` narrows them.',
    annotations: READS,
    input: { query: { schema: () => z.strictObject({ org_id: id.optional() }) } },
    output: { status: 200, schema: z.object({ keys: z.array(KEY) }) },
    handle: async ({ query }, { managementKeys }) => ({ json: { keys: (await managementKeys.service.list(query.org_id)).map(shown) } }),
  }),
  operation({
    id: 'mgmt_keys.create',
    method: 'POST',
    path: '/v1/admin/mgmt-keys',
    scope: 'admin',
    summary: 'Makes a management or MCP key for an org, such as the first one; the answer shows it this once.',
    annotations: ADDS,
    input: { body: { schema: anyOrgBody, what: 'The key' } },
    output: { status: 201, schema: MADE },
    handle: async ({ body: { org_id: named, ...body }, commit, asking }, services) => {
      const orgId = servedOrg(named, services.managementKeys.orgId, 'The key');
      const { session } = body;
      if (session === undefined) return { json: await made(newKey(orgId, body), services, commit) };
      const asked = {
        ...shortened(newKey(orgId, body), services.managementKeys.clock.now()),
        session: { program: session.program, ...optional('user', session.user) },
      };
      return { json: await made(asked, services, await services.audit.sessionFor(asking, asked.session, orgId)) };
    },
  }),
  operation({
    id: 'mgmt_keys.revoke',
    method: 'DELETE',
    path: '/v1/admin/mgmt-keys/{id}',
    scope: 'admin',
    summary: 'Revokes a management or MCP key of any org.',
    annotations: REMOVES,
    errors: ['key_not_found'],
    input: { params: pathId('Key id') },
    output: { status: 200, schema: REVOKED },
    handle: async ({ params, commit, asking }, services) => ({
      json: await revoked(params.id, undefined, services, commit, ({ session, org_id: orgId }) =>
        session === undefined ? undefined : services.audit.sessionFor(asking, session, orgId),
      ),
    }),
  }),
];

/** The first of the keys that have made what this one makes; undefined: that is the admin token. */
function makerOf({ kind, id, madeBy, session }: Principal): string | undefined {
  if (session !== undefined) return undefined;
  // A session says which key has signed in, or has made that one.
  return kind === 'session' ? madeBy : kind === 'management_key' ? (madeBy ?? id) : undefined;
}

/** Nobody puts a key into a group that his own is not in. @throws GatewayError `not_in_group` */
function ownGroups(body: KeyBody, { kind, groups = [], session }: Principal): KeyBody {
  const isAdmin = kind === 'admin' || session !== undefined;
  const foreign = isAdmin ? undefined : body.groups?.find((group) => !groups.includes(group));
  if (foreign === undefined) return body;
  throw new GatewayError('not_in_group', `This key is not in the group "${foreign}", so it makes no key that is; the admin token does.`);
}

/** A key of a session ends within an hour of the gateway's clock, whatever the program's clock says. */
function shortened(asked: NewManagementKey, now: number): NewManagementKey {
  return { ...asked, expiresAtMs: Math.min(asked.expiresAtMs ?? Number.POSITIVE_INFINITY, now + MOST_SESSION_MS) };
}

function newKey(orgId: string, { name, kind, scopes: held, groups, expires_at: expiry }: KeyBody): NewManagementKey {
  return {
    orgId,
    name,
    kind,
    scopes: held,
    ...optional('groups', groups),
    expiresAtMs: expiry === undefined ? undefined : parseTime(expiry),
  };
}

function shown({ revoked_at: _revoked, made_by: _maker, expires_at: expiry, ...key }: ManagementKey) {
  return { ...key, expires_at: expiry ?? null };
}

async function made(asked: NewManagementKey, { managementKeys }: OperationServices, commit: Commit) {
  const { plain, key } = await managementKeys.service.create(asked, commit);
  return { ...shown(key), key: plain };
}

/** @param orgId undefined: of any org @throws GatewayError `key_not_found` */
async function revoked(
  id: string,
  orgId: string | undefined,
  { managementKeys }: OperationServices,
  commit: Commit,
  forgetting?: Forgetting<ManagementKey>,
) {
  if (!(await managementKeys.service.revoke(id, orgId, commit, forgetting)))
    throw new GatewayError('key_not_found', `There is no key ${id}.`);
  return { id, status: 'revoked' as const };
}
