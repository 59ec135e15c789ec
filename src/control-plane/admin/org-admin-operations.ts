import { z } from 'zod';
import { PLAN_TIERS } from '../../base/model/org.ts';
import { choice, members, text, textThere, wholeNumber } from '../../operations/members.ts';
import { ADDS, READS, REMOVES, REPLACES } from '../../operations/operation.ts';
import { time, timeToCome } from '../../operations/shapes.ts';
import type { OrgChange } from '../state/control-plane-state.ts';
import { type AdminOperation, adminOperation, dataOf, ofOrg, oneOfOrg } from './admin-operation.ts';

const STATUSES = ['active', 'suspended', 'terminated'] as const;
const OFFLINE = ['permissive', 'strict'] as const;
const LIMITS = ['allow', 'deny'] as const;
/** Beyond what any month has. */
const MAX_REQUESTS = 1_000_000_000_000;
/** A day. */
const MAX_GRACE_SECONDS = 86_400;
/** Long enough to be sent to somebody, and no key for ever. */
const MAX_TOKEN_SECONDS = 7 * 86_400;
const TOKEN_SECONDS = 3_600;

const ORG = z.object({
  org_id: z.string(),
  status: z.enum(STATUSES),
  suspended_reason: z.string().optional(),
  plan_tier: z.enum(PLAN_TIERS),
  cp_down_policy: z.enum(OFFLINE),
  redis_down_policy: z.enum(LIMITS),
  grace_seconds: z.int(),
  gateway_writes: z.enum(LIMITS),
  monthly_request_limit: z.int().nullable(),
  overage_enabled: z.boolean(),
  created_at: time,
  updated_at: time,
});

const ORG_CHANGE = members({
  status: choice(STATUSES).optional().meta({ description: 'Of a terminated org nothing is served, as of a suspended one' }),
  suspended_reason: text.nullable().optional().meta({ description: 'Shown to whoever is refused; null takes it away' }),
  plan_tier: choice(PLAN_TIERS).optional().meta({ description: 'Which layers an overlay may use; over `GW_PLAN_TIER` of the gateways' }),
  cp_down_policy: choice(OFFLINE).optional().meta({ description: 'What a gateway does when the grace period is over' }),
  redis_down_policy: choice(LIMITS).optional(),
  grace_seconds: wholeNumber(0, MAX_GRACE_SECONDS).optional().meta({ description: 'How long a gateway goes on without contact' }),
  gateway_writes: choice(LIMITS).optional().meta({ description: 'Whether gateways may hand on what is written there' }),
  monthly_request_limit: wholeNumber(0, MAX_REQUESTS).nullable().optional().meta({
    description: 'Requests that each gateway lets through in a UTC calendar month; null: what `GW_MONTHLY_REQUEST_LIMIT` says there',
  }),
  overage_enabled: z.boolean('must be true or false').optional().meta({ description: 'Lets requests pass the limit' }),
});

const TOKEN = members({
  ttl_seconds: wholeNumber(1, MAX_TOKEN_SECONDS)
    .optional()
    .meta({ description: `How long it may be used; default ${TOKEN_SECONDS}` }),
});

const KEY = z.object({
  id: z.string(),
  org_id: z.string(),
  name: z.string(),
  key_prefix: z.string(),
  created_at: time,
  expires_at: z.string().optional(),
  revoked_at: z.string().optional(),
});

/** Orgs, and what lets gateways and callers in (decision 13.6). */
export const ORG_ADMIN_OPERATIONS: readonly AdminOperation[] = [
  adminOperation({
    id: 'org.list',
    method: 'GET',
    path: '/v1/orgs',
    scope: 'admin',
    annotations: READS,
    summary: 'All orgs.',
    output: { status: 200, schema: dataOf(ORG) },
    handle: (_call, { state }) => ({ json: { data: state.orgs.list() } }),
  }),
  adminOperation({
    id: 'org.read',
    method: 'GET',
    path: '/v1/orgs/{org}',
    scope: 'admin',
    annotations: READS,
    summary: 'One org.',
    errors: ['not_found'],
    input: { params: ofOrg },
    output: { status: 200, schema: ORG },
    handle: ({ params }, { state }) => ({ json: state.orgs.get(params.org) }),
  }),
  adminOperation({
    id: 'org.put',
    method: 'PUT',
    path: '/v1/orgs/{org}',
    scope: 'admin',
    annotations: REPLACES,
    summary: 'Makes an org, or changes what is given of it. Its gateways know within a second, or with their next request.',
    input: { params: ofOrg, body: { schema: () => ORG_CHANGE, what: 'The org', optional: true } },
    output: { status: 200, schema: ORG },
    handle: async ({ params, body, commit }, { state }) => ({ json: await state.orgs.put(params.org, given(body), commit) }),
  }),
  adminOperation({
    id: 'token.create',
    method: 'POST',
    path: '/v1/orgs/{org}/bootstrap-tokens',
    scope: 'admin',
    annotations: ADDS,
    summary: 'A bootstrap token, by which one gateway enrols once; the answer shows it this once.',
    errors: ['not_found'],
    input: { params: ofOrg, body: { schema: () => TOKEN, what: 'The bootstrap token', optional: true } },
    output: { status: 201, schema: z.object({ token: z.string(), expires_at: time }) },
    handle: async ({ params, body, commit }, { state }) => ({
      json: await state.tokens.issue(params.org, body.ttl_seconds ?? TOKEN_SECONDS, commit),
    }),
  }),
  adminOperation({
    id: 'key.list',
    method: 'GET',
    path: '/v1/orgs/{org}/api-keys',
    scope: 'admin',
    annotations: READS,
    summary: 'API keys of an org, those that were revoked too; never the keys themselves.',
    errors: ['not_found'],
    input: { params: ofOrg },
    output: { status: 200, schema: dataOf(KEY) },
    handle: async ({ params }, { state }) => ({ json: { data: await state.apiKeys.list(params.org) } }),
  }),
  adminOperation({
    id: 'key.create',
    method: 'POST',
    path: '/v1/orgs/{org}/api-keys',
    scope: 'admin',
    annotations: ADDS,
    summary: 'An API key (`gwk_…`) for callers of the org; the answer shows it this once.',
    errors: ['not_found'],
    input: {
      params: ofOrg,
      body: {
        schema: ({ clock }) => members({ name: textThere, expires_at: timeToCome(() => clock.now()).optional() }),
        what: 'The API key',
      },
    },
    output: { status: 201, schema: KEY.extend({ key: z.string() }) },
    handle: async ({ params, body: { name, expires_at: until }, commit }, { state }) => {
      const { key, plain } = await state.apiKeys.create(
        params.org,
        { name, ...(until === undefined ? {} : { expires_at: until }) },
        commit,
      );
      return { json: { ...key, key: plain } };
    },
  }),
  adminOperation({
    id: 'key.revoke',
    method: 'DELETE',
    path: '/v1/orgs/{org}/api-keys/{id}',
    scope: 'admin',
    annotations: REMOVES,
    summary: 'Revokes an API key of an org.',
    errors: ['not_found'],
    input: { params: oneOfOrg('Id of the key') },
    output: { status: 200, schema: KEY },
    handle: async ({ params, commit }, { state }) => ({ json: await state.apiKeys.revoke(params.org, params.id, commit) }),
  }),
];

/** What was left out stays as it is. */
function given(body: z.output<typeof ORG_CHANGE>): OrgChange {
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined));
}
