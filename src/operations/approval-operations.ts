import { z } from 'zod';
import { parseDuration } from '../base/lib/clock.ts';
import { GatewayError } from '../base/lib/gateway-error.ts';
import { CONNECTION_TYPES } from '../base/model/action-request.ts';
import { APPROVAL_STATUSES, MAX_HOLD } from '../base/model/approval.ts';
import { nextStep } from '../base/model/next-step.ts';
import type { Principal } from '../base/model/principal.ts';
import type { Commit } from '../services/registers/commit.ts';
import type { ShownApproval } from '../services/review/approvals.ts';
import { CURSOR_PARAMETERS, cursorPage, dataPage, pageOfEntities } from './management/cursor-pages.ts';
import { orgOf } from './management/org-of.ts';
import { choice, id, members, optional, ruled, text } from './members.ts';
import { alike, entryOf, type GatewayOperation, operation, READS, REMOVES, REPLACES } from './operation.ts';
import { page, pageParameters, pageQuery, shownPage } from './pages.ts';
import type { OperationServices } from './services.ts';
import { attribution, PRINCIPAL, pathId, time, usd } from './shapes.ts';

const USUAL = 20;

const FILTERS = { workload_id: text.optional(), status: choice(APPROVAL_STATUSES).optional() };
const QUERY = z.strictObject({ org_id: id.optional(), ...FILTERS, ...pageParameters(USUAL) });
const CURSORED = z.strictObject({ approval_id: id.optional(), ...FILTERS, ...CURSOR_PARAMETERS });

const BODY = members({
  decided_by: text.min(1, 'must not be empty').optional().meta({
    description: 'For whom: kept as `decided_by_note`; who decides, where the admin token asks',
  }),
  reason: text.optional().meta({ description: 'For whoever asks again' }),
});
type Body = z.output<typeof BODY>;

const ACTION = z.object({
  type: z.string(),
  method: z.string(),
  connector_id: z.string().optional().meta({ description: 'That takes the call' }),
  target_host: z.string().meta({ description: 'As it is sent, after hints, custom connectors and policy' }),
  target_origin: z.string().optional().meta({ description: 'Scheme, host and port, where these are not https and 443' }),
  target_path: z.string().meta({ description: 'With the names of the query alone' }),
  model: z.string().optional(),
  stream: z.boolean(),
  param_sizes: z.record(z.string(), z.int()).meta({ description: 'Of each member of the params its size in bytes' }),
});

export const APPROVAL = z.object({
  approval_id: z.string(),
  org_id: z.string(),
  workload_id: z.string(),
  caller_id: z.string().optional(),
  caller_ip: z.string().optional(),
  api_key_id: z.string().optional(),
  delegation_id: z.string().optional().meta({ description: 'Under which it is asked for' }),
  principal_id: z.string().optional().meta({ description: 'For whom the delegation was issued' }),
  credential_id: z
    .string()
    .optional()
    .meta({ description: 'The stored credential that the call would take; absent where its caller brings a key' }),
  status: z.enum(APPROVAL_STATUSES),
  held: z
    .object({ until: time, calls: z.int() })
    .optional()
    .meta({ description: 'Calls that wait for it now, on their open connections, and until when' }),
  needs: z
    .array(z.object({ required: z.int(), group: z.string().optional() }))
    .optional()
    .meta({ description: 'How many different persons must say yes, of which group; absent: one who may decide' }),
  decisions: z
    .array(
      z.object({
        status: z.enum(['approved', 'denied']),
        decided_by: z.string(),
        decided_by_principal: PRINCIPAL,
        decided_by_note: z.string().optional(),
        made_by: z.string().optional(),
        groups: z.array(z.string()).optional(),
        decided_at: time,
        reason: z.string().optional(),
      }),
    )
    .optional()
    .meta({ description: 'Who has said what so far, where more than one person is needed' }),
  reason: z.string().meta({ description: 'Of the rule' }),
  reason_codes: z.array(z.string()),
  rule_ids: z.array(z.string()).meta({ description: 'The rules that ask for it', examples: [['risk/large-models']] }),
  rule_hashes: z
    .array(z.string())
    .optional()
    .meta({ description: 'Hex SHA-256 of the content of each of them: a rule that is changed asks again' }),
  connection_type: z.enum(CONNECTION_TYPES),
  attribution,
  action: ACTION,
  action_hash: z.string().meta({ description: 'Hex SHA-256; what it is good for' }),
  request_hash: z.string().optional().meta({ description: 'The same of the request before policy sends it elsewhere, where it does' }),
  estimated_cost_usd: usd.optional(),
  record_id: z.string().meta({ description: 'The request that opened it' }),
  created_at: time,
  expires_at: time.meta({ description: 'Until then it can be decided, and once approved be used' }),
  decided_by: z
    .string()
    .nullable()
    .meta({ description: 'The name of the key, else its id; for the admin token what was given, else `admin`' }),
  decided_by_principal: PRINCIPAL.optional(),
  decided_by_note: z.string().optional().meta({ description: 'For whom that was, as it said itself' }),
  decided_at: time.nullable(),
  decision_reason: z.string().optional(),
  withdrawn_at: time.optional().meta({ description: 'Its caller left before it was decided' }),
  executed_at: time.optional().meta({ description: 'It is spent' }),
  executed_record_id: z.string().optional(),
  on_approval: z
    .string()
    .optional()
    .meta({
      description: 'What a yes does, while one can be said or used',
      examples: ['allows one identical request until 2026-11-22T12:00:00.000Z'],
    }),
});
const SHOWN = APPROVAL.extend({
  action: ACTION.extend({
    params: z.unknown().optional().meta({ type: 'object', description: 'Where GW_APPROVAL_KEEP_CONTENT keeps them, while it waits' }),
  }),
});

const params = pathId('Approval id');

const MOST_WAIT = parseDuration(MAX_HOLD) ?? 0;

const WAITED = z.object({
  approval_id: z.string(),
  status: z.enum(APPROVAL_STATUSES),
  reason: z.string().meta({ description: 'Of the rule' }),
  expires_at: time.meta({ description: 'Until then it can be decided, and once approved be used' }),
  decision_reason: z.string().optional(),
  executed_record_id: z.string().optional().meta({ description: 'The execution that it allowed' }),
  next: z
    .object({
      wait_url: z.string().optional(),
      retry_after: z.int().optional(),
      request: z.enum(['repeat', 'change']),
      message: z.string(),
    })
    .meta({ description: 'What to do with the request: send it again as it was, or change it; while it waits, where to ask again' }),
});

/** For programs whose request waits: what people decide, and no more of it (decision 9.1). */
const WAIT: GatewayOperation = operation({
  id: 'approvals.wait',
  method: 'GET',
  path: '/v1/approvals/{id}/wait',
  scope: 'caller',
  waits: true,
  summary:
    'Answers when a request that waits is decided, or as it is when the time is over; for whoever made the request, with the same credential.',
  annotations: READS,
  errors: ['not_found'],
  input: {
    params: pathId('Approval id'),
    query: {
      schema: () =>
        z.strictObject({
          timeout: ruled<string>(
            (value) => typeof value === 'string' && timeoutMs(value) !== undefined,
            `must be a time from 0s to ${MAX_HOLD}`,
          )
            .optional()
            .meta({ type: 'string', description: `How long to wait: \`30s\` (default), at most \`${MAX_HOLD}\``, examples: ['30s'] }),
        }),
    },
  },
  output: { status: 200, schema: WAITED },
  handle: async ({ principal, params: { id: name }, query: { timeout = '30s' }, signal }, { approvals, workloads }) => {
    const approval = await approvals.show(name, principal.orgId);
    if (approval === undefined || !isOwn(approval, principal, workloads)) throw unknown(name);
    const gone = (listener: (why: 'gone') => void): (() => void) => {
      const left = (): void => listener('gone');
      if (signal?.aborted === true) left();
      signal?.addEventListener('abort', left, { once: true });
      return () => signal?.removeEventListener('abort', left);
    };
    const heard = (await approvals.heard(approval, timeoutMs(timeout) ?? 0, gone)) ?? approval;
    const { approval_id, status, reason, expires_at, decision_reason, executed_record_id } = heard;
    const more = { ...optional('decision_reason', decision_reason), ...optional('executed_record_id', executed_record_id) };
    return { json: { approval_id, status, reason, expires_at, ...more, next: nextStep(heard) } };
  },
});

/** Milliseconds; a bare number is of seconds. */
function timeoutMs(text: string): number | undefined {
  const ms = parseDuration(/^\d+$/.test(text) ? `${text}s` : text);
  return ms !== undefined && ms <= MOST_WAIT ? ms : undefined;
}

/**
 * Whether it is of a request that this caller has made; one who has shown nothing has made those for which nothing is
 * to be shown.
 */
function isOwn(
  { org_id: orgId, workload_id: workloadId, api_key_id: key }: ShownApproval,
  { kind, id }: Principal,
  workloads: OperationServices['workloads'],
): boolean {
  if (kind === 'admin') return true;
  if (kind === 'api_key') return id === key;
  if (kind === 'workload') return id === workloadId;
  return key === undefined && !workloads.hasToken(orgId, workloadId);
}

/** Requests that wait for a person (specification, "Approval"; decision 9.1). */
const ADMIN: readonly GatewayOperation[] = [
  operation({
    id: 'approvals.list',
    method: 'GET',
    path: '/v1/admin/approvals',
    scope: 'admin',
    summary: 'Approvals, the newest first; `org_id`, `workload_id` and `status` narrow them.',
    annotations: READS,
    input: { query: { schema: () => QUERY } },
    output: { status: 200, schema: page(APPROVAL) },
    handle: async ({ query }, { approvals }) => {
      const { org_id: orgId, workload_id: workloadId, status } = query;
      return { json: shownPage(await approvals.page({ orgId, workloadId, status }, pageQuery(query))) };
    },
  }),
  operation({
    id: 'approvals.show',
    method: 'GET',
    path: '/v1/admin/approvals/{id}',
    scope: 'admin',
    summary: 'One approval: what is asked, by whom, what it may cost and which rule asks.',
    annotations: READS,
    errors: ['not_found'],
    input: { params },
    output: { status: 200, schema: SHOWN },
    handle: async ({ principal, params: { id: name } }, { approvals }) => {
      const shown = await approvals.show(name, principal.orgId);
      if (shown === undefined) throw unknown(name);
      return { json: withContent(shown) };
    },
  }),
  operation({
    id: 'approvals.approve',
    method: 'POST',
    path: '/v1/admin/approvals/{id}/approve',
    scope: 'admin',
    summary: 'Approves a request that waits: it is sent at once where it is held, else the same one runs once, when it comes again.',
    annotations: { ...REPLACES, destructive: false, idempotent: false },
    errors: ['not_found', 'conflict', 'own_request', 'not_in_group'],
    input: { params, body: { schema: () => BODY, what: 'The decision', optional: true } },
    output: { status: 200, schema: APPROVAL },
    handle: async ({ principal, params: { id: name }, body, commit }, services) => ({
      json: await decide(name, 'approved', { principal, body, commit }, services),
    }),
  }),
  operation({
    id: 'approvals.deny',
    method: 'POST',
    path: '/v1/admin/approvals/{id}/deny',
    scope: 'admin',
    summary: 'Denies a request that waits: the same one is refused for `GW_APPROVAL_REJECT_FOR`.',
    annotations: { ...REMOVES, idempotent: false },
    errors: ['not_found', 'conflict', 'own_request', 'not_in_group'],
    input: { params, body: { schema: () => BODY, what: 'The decision', optional: true } },
    output: { status: 200, schema: APPROVAL },
    handle: async ({ principal, params: { id: name }, body, commit }, services) => ({
      json: await decide(name, 'denied', { principal, body, commit }, services),
    }),
  }),
];

export const APPROVAL_OPERATIONS: readonly GatewayOperation[] = [
  ...ADMIN,
  WAIT,
  operation({
    id: 'mgmt.approvals.list',
    method: 'GET',
    path: '/mgmt/v1/approvals',
    scope: 'review',
    summary: 'Requests that wait for a person or did so, the newest first.',
    annotations: READS,
    tools: [{ name: 'list_approvals', title: 'List approvals' }],
    input: { query: { schema: () => CURSORED } },
    output: { status: 200, schema: dataPage(SHOWN) },
    handle: async ({ principal, query }, { approvals }) => {
      const page = cursorPage('approvals', query);
      const { approval_id: approvalId, workload_id: workloadId, status } = query;
      const found = await approvals.page({ approvalId, orgId: orgOf(principal), workloadId, status }, page);
      const items = await Promise.all(
        found.items.map(async (approval) => withContent((await approvals.show(approval.approval_id, undefined)) ?? approval)),
      );
      return { json: pageOfEntities({ ...found, items }, page) };
    },
  }),
  alike(entryOf(ADMIN, 'approvals.approve'), {
    id: 'mgmt.approvals.approve',
    path: '/mgmt/v1/approvals/{id}/approve',
    scope: 'decide',
    tools: [{ name: 'approve_request', title: 'Approve a request', ids: { id: 'approval_id' } }],
  }),
  alike(entryOf(ADMIN, 'approvals.deny'), {
    id: 'mgmt.approvals.deny',
    path: '/mgmt/v1/approvals/{id}/deny',
    scope: 'decide',
    tools: [{ name: 'deny_request', title: 'Deny a request', ids: { id: 'approval_id' }, like: 'approve_request' }],
  }),
];

/** The content that is kept for approvers stands where they look for it. */
function withContent({ params: content, ...approval }: ShownApproval) {
  return content === undefined ? approval : { ...approval, action: { ...approval.action, params: content } };
}

interface Deciding {
  readonly principal: Principal;
  readonly body: Body;
  readonly commit: Commit;
}

async function decide(
  name: string,
  status: 'approved' | 'denied',
  { principal, body, commit }: Deciding,
  { approvals }: OperationServices,
) {
  const decided = await approvals.decide(name, { status, note: body.decided_by, reason: body.reason, principal }, commit);
  if (decided === undefined) throw unknown(name);
  return decided;
}

function unknown(name: string): GatewayError {
  return new GatewayError('not_found', `There is no approval ${name}.`);
}
