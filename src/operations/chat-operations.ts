import { z } from 'zod';
import type { ChatClick } from '../base/events/events.ts';
import { GatewayError } from '../base/lib/gateway-error.ts';
import { shownText } from '../base/lib/shown-text.ts';
import { approvalOfButton, slackDoubt } from '../base/lib/slack-signature.ts';
import { CHAT_PLATFORMS, type ChatPerson, chatUserId } from '../base/model/chat-user.ts';
import type { Principal } from '../base/model/principal.ts';
import type { ShownApproval } from '../services/review/approvals.ts';
import type { Clicked } from '../services/sending/alerts/click-answers.ts';
import { CURSOR_QUERY, cursorPage, dataPage, pageInMemory } from './management/cursor-pages.ts';
import { orgOf } from './management/org-of.ts';
import { id, members } from './members.ts';
import { ADDS, alike, entryOf, type GatewayOperation, operation, READS, REMOVES } from './operation.ts';
import type { OperationServices } from './services.ts';
import { pathId, time } from './shapes.ts';
import { type ApprovalClick, slackClick } from './slack-interaction.ts';

/** A message with all that an approval shows, as Slack sends it back. */
const MAX_INTERACTION = 256 * 1024;

const CHAT_PERSON = z.object({
  platform: z.enum(CHAT_PLATFORMS),
  team_id: z.string().meta({ description: 'The workspace' }),
  team_name: z.string().optional(),
  user_id: z.string(),
  name: z.string().optional(),
});
const CHAT_USER = CHAT_PERSON.extend({
  chat_user_id: z.string().meta({ examples: ['slack:T0123:U0456'] }),
  org_id: z.string(),
  key_id: z.string().meta({ description: 'The management key that decides when this user presses a button' }),
  key_name: z.string(),
  created_at: time,
});
const REMOVED = z.object({ chat_user_id: z.string(), status: z.literal('deleted') });
const BOUND = z.object({
  bound: z.boolean().meta({ description: 'false: `confirm` was not given, and nothing is changed' }),
  chat_user: CHAT_PERSON.extend({ chat_user_id: z.string() }),
  key_name: z.string().meta({ description: 'Of the key that asks' }),
});

const BIND = members({
  code: z.string('is required: what stands behind # in the link').min(1, 'must not be empty').max(128, 'must be at most 128 characters'),
  confirm: z.boolean('must be true or false').optional().meta({ description: 'It is meant. Left out: who would be bound is only told' }),
});
const FORM = members({ form: z.string('is required: the body as Slack sends it') });

const params = pathId('Id of the chat user: platform, workspace and user, with `:` between them');

/** Buttons in chats, and who may press them (decisions 9.8, 11.6). */
const ADMIN: readonly GatewayOperation[] = [
  operation({
    id: 'chat_users.list',
    method: 'GET',
    path: '/v1/admin/chat-users',
    scope: 'admin',
    summary: 'Users of chats who decide approvals by buttons there, and as which key; `org_id` narrows them.',
    annotations: READS,
    input: { query: { schema: () => z.strictObject({ org_id: id.optional() }) } },
    output: { status: 200, schema: z.object({ chat_users: z.array(CHAT_USER) }) },
    handle: ({ query }, { chat }) => ({ json: { chat_users: chat.users.list(query.org_id) } }),
  }),
  operation({
    id: 'chat_users.remove',
    method: 'DELETE',
    path: '/v1/admin/chat-users/{id}',
    scope: 'admin',
    summary: 'A user of a chat decides nothing by buttons any more; the key stays what it is.',
    annotations: REMOVES,
    errors: ['not_found'],
    input: { params },
    output: { status: 200, schema: REMOVED },
    handle: async ({ principal, params: { id: name }, commit }, { chat }) => {
      if (!(await chat.users.remove(name, principal.orgId, commit))) throw unknownUser(name);
      return { json: { chat_user_id: name, status: 'deleted' as const } };
    },
  }),
];

export const CHAT_OPERATIONS: readonly GatewayOperation[] = [
  ...ADMIN,
  operation({
    id: 'mgmt.chat_users.list',
    method: 'GET',
    path: '/mgmt/v1/chat-users',
    scope: 'review',
    summary: 'Users of chats who decide approvals of the org by buttons there, and as which key.',
    annotations: READS,
    input: { query: { schema: () => CURSOR_QUERY } },
    output: { status: 200, schema: dataPage(CHAT_USER) },
    handle: ({ principal, query }, { chat }) => ({
      json: pageInMemory(chat.users.list(orgOf(principal)), (one) => one.chat_user_id, cursorPage('chat users', query)),
    }),
  }),
  alike(entryOf(ADMIN, 'chat_users.remove'), { id: 'mgmt.chat_users.remove', path: '/mgmt/v1/chat-users/{id}', scope: 'write' }),
  operation({
    id: 'chat_users.bind',
    method: 'POST',
    path: '/mgmt/v1/chat-users/{id}/bind',
    scope: 'decide',
    summary: 'Binds a user of a chat to the key that asks, with the code of a link that this user was shown there.',
    annotations: ADDS,
    errors: ['not_found', 'conflict', 'limit_reached'],
    input: { params, body: { schema: () => BIND, what: 'The binding' } },
    output: { status: 200, schema: BOUND },
    handle: async ({ principal, params: { id: name }, body: { code, confirm = false }, commit }, { chat }) => {
      if (principal.kind !== 'management_key' || principal.session !== undefined)
        throw new GatewayError('invalid_request', 'A user of a chat is bound to a management key: ask with the key itself.');
      const person = await chat.users.invited(name, code);
      if (confirm) await chat.users.bind(name, code, { ...principal, orgId: orgOf(principal) }, commit);
      return { json: { bound: confirm, chat_user: { ...person, chat_user_id: name }, key_name: principal.name ?? principal.id } };
    },
  }),
  operation({
    id: 'chat.slack.decide',
    method: 'POST',
    path: '/v1/chat/slack/interactions',
    scope: 'none',
    summary: 'For Slack alone, which signs what it sends: somebody has pressed a button of an approval (`GW_SLACK_SIGNING_SECRET`).',
    annotations: { ...ADDS, idempotent: true },
    errors: ['unauthorized', 'not_found', 'body_too_large'],
    maxBodyBytes: MAX_INTERACTION,
    textMember: 'form',
    available: ({ chat }) => void secretOf(chat),
    input: { body: { schema: () => FORM, what: 'The interaction' } },
    output: { status: 200, contentType: 'text/plain; charset=utf-8' },
    handle: async ({ headers, body: { form }, asking: { from } }, services) => {
      const { chat } = services;
      const secret = secretOf(chat);
      const shown = { seconds: headers['x-slack-request-timestamp'], signature: headers['x-slack-signature'], body: form };
      const doubt = slackDoubt(secret, shown, chat.clock.now());
      const count = (outcome: ChatClick['outcome']): void => chat.events.emit('chatClick', { platform: 'slack', outcome });
      if (doubt !== undefined) {
        count('unsigned');
        throw new GatewayError('unauthorized', `This request ${doubt}.`);
      }
      const click = slackClick(form);
      count(click === undefined ? 'ignored' : await pressed(click, { secret, from }, services));
      return { text: '' };
    },
  }),
];

/** @throws GatewayError `not_found` where there are no buttons */
function secretOf({ slackSecret }: OperationServices['chat']): string {
  if (slackSecret !== undefined) return slackSecret;
  throw new GatewayError('not_found', 'There are no buttons in Slack here: GW_SLACK_SIGNING_SECRET is not set.');
}

interface Pressing {
  readonly secret: string;
  /** Address of who asks. */
  readonly from: string;
}

/** Decides as the key to which this person is bound; whatever comes of it, the person is told in the chat. */
async function pressed(click: ApprovalClick, how: Pressing, services: OperationServices): Promise<ChatClick['outcome']> {
  const { approvals, alerts, chat } = services;
  const approvalId = approvalOfButton(how.secret, click.value, click.verdict);
  const approval = approvalId === undefined ? undefined : await approvals.show(approvalId, undefined);
  const clicked: Clicked = { orgId: approval?.org_id, responseUrl: click.responseUrl };
  if (approval === undefined) {
    alerts.clicks.tell(clicked, 'This button is of no request that the gateway knows.');
    return 'late';
  }
  if (approval.status !== 'pending') {
    alerts.clicks.replace(clicked, approval);
    return 'late';
  }
  const holder = await chat.users.holderOf(click.person);
  if (holder.kind === 'bound') return decided(approval, click, { ...how, clicked, principal: holder.principal }, services);
  const why =
    holder.kind === 'void'
      ? 'The management key that you were bound to is revoked or expired.'
      : 'The gateway does not know yet who you are.';
  alerts.clicks.tell(clicked, `${why} ${await invitation(click.person, approval, services)}`);
  return 'unbound';
}

interface DecidingClick extends Pressing {
  readonly clicked: Clicked;
  readonly principal: Principal;
}

async function decided(
  approval: ShownApproval,
  { person, verdict }: ApprovalClick,
  { clicked, principal, from }: DecidingClick,
  { approvals, alerts, audit }: OperationServices,
): Promise<ChatClick['outcome']> {
  const { approval_id: approvalId } = approval;
  const commit = audit.commitFor({ principal, operation: verdict === 'approved' ? 'approvals.approve' : 'approvals.deny', from });
  try {
    if (!principal.scopes.includes('decide')) throw new GatewayError('insufficient_scope', 'The key that you are bound to may not decide.');
    const after = await approvals.decide(approvalId, { status: verdict, note: noteOf(person), reason: undefined, principal }, commit);
    if (after === undefined) throw new GatewayError('not_found', 'The key that you are bound to is of another org.');
    alerts.clicks.replace(clicked, after);
    return 'decided';
  } catch (error) {
    if (!(error instanceof GatewayError) || error.status >= 500) throw error;
    // Somebody was first.
    const now = await approvals.show(approvalId, principal.orgId);
    const isOver = now !== undefined && now.status !== 'pending';
    if (isOver) alerts.clicks.replace(clicked, now);
    else alerts.clicks.tell(clicked, shownText(error.message, 'slack'));
    return isOver ? 'late' : 'refused';
  }
}

/** How somebody says who he is, and how he decides without it. */
async function invitation(person: ChatPerson, { approval_id: approvalId }: ShownApproval, { chat }: OperationServices): Promise<string> {
  const { pages } = chat.place;
  if (pages === undefined) return 'It cannot give you a link to say so, because its GW_PUBLIC_URL is not set.';
  const code = await chat.users.invite(person);
  const link = `${pages}/chat-users/${chatUserId(person)}#${code}`;
  return `<${link}|Say who you are> once, with your management key and within ten minutes; then press the button again. Or <${pages}/approvals/${approvalId}|decide on the page>.`;
}

/** Kept with the decision, beside the key. */
function noteOf({ name, user_id: user, team_name: team, team_id: teamId }: ChatPerson): string {
  return `the Slack user ${name ?? user} (${user} of ${team ?? teamId})`;
}

function unknownUser(name: string): GatewayError {
  return new GatewayError('not_found', `There is no chat user ${name}.`);
}
