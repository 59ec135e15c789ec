import { z } from 'zod';
import { parseSafeJson } from '../base/json/safe-json.ts';
import { GatewayError } from '../base/lib/gateway-error.ts';
import { shorten } from '../base/lib/text.ts';
import type { ChatPerson } from '../base/model/chat-user.ts';
import { APPROVE_ACTION, DENY_ACTION } from '../outbound/destinations/slack-message.ts';

/** Of workspaces, enterprises and users. */
const ID = z.string().regex(/^[A-Z0-9]{1,32}$/);
const MAX_NAME = 80;
const VERDICTS: Readonly<Record<string, 'approved' | 'denied'>> = { [APPROVE_ACTION]: 'approved', [DENY_ACTION]: 'denied' };

/** What the gateway reads of Slack's `block_actions`; the rest is not looked at. */
const PAYLOAD = z.object({
  type: z.literal('block_actions'),
  user: z.object({ id: ID, team_id: ID.nullish(), name: z.string().nullish() }),
  team: z.object({ id: ID, domain: z.string().nullish() }).nullish(),
  enterprise: z.object({ id: ID }).nullish(),
  response_url: z.string().max(2_048).nullish(),
  actions: z.array(z.object({ action_id: z.string().nullish(), value: z.string().max(256).nullish() })).max(100),
});

/** A button of an approval that somebody has pressed. */
export interface ApprovalClick {
  readonly person: ChatPerson;
  readonly verdict: 'approved' | 'denied';
  /** What the button says. */
  readonly value: string;
  readonly responseUrl: string | undefined;
}

/**
 * Reads what Slack sends when something in a message is pressed.
 * @param form the body, whose member `payload` is JSON
 * @returns undefined for anything but the buttons of an approval: Slack tells of links as well
 * @throws GatewayError `invalid_request` for what is no interaction at all
 */
export function slackClick(form: string): ApprovalClick | undefined {
  const text = new URLSearchParams(form).get('payload');
  if (text === null) throw new GatewayError('invalid_request', 'The body has no member `payload`, as an interaction of Slack does.');
  const { value: said } = parseSafeJson(Buffer.from(text), { malformed: 'invalid_request' });
  const read = PAYLOAD.safeParse(said);
  if (!read.success) return undefined;
  const { user, team, enterprise, actions, response_url: responseUrl } = read.data;
  const pressed = actions.find(({ action_id: id }) => id !== null && id !== undefined && Object.hasOwn(VERDICTS, id));
  const verdict = VERDICTS[pressed?.action_id ?? ''];
  // In a channel that two companies share, the user's own workspace is another one.
  const teamId = user.team_id ?? team?.id ?? enterprise?.id;
  if (verdict === undefined || teamId === undefined) return undefined;
  const domain = team?.id === teamId ? nameIn(team.domain) : undefined;
  const name = nameIn(user.name);
  const person: ChatPerson = {
    platform: 'slack',
    team_id: teamId,
    ...(domain === undefined ? {} : { team_name: domain }),
    user_id: user.id,
    ...(name === undefined ? {} : { name }),
  };
  return { person, verdict, value: pressed?.value ?? '', responseUrl: responseUrl ?? undefined };
}

function nameIn(text: string | null | undefined): string | undefined {
  return text === null || text === undefined || text === '' ? undefined : shorten(text.toWellFormed(), MAX_NAME);
}
