/*
 * A stand-in for Slack and its like: it takes what is posted, says what each product says, and presses buttons as the
 * person does who sees them, with requests that are signed as Slack signs them.
 */
import { createHmac } from 'node:crypto';
import { Inbox, type InboxAnswer, type Received } from './inbox.ts';

export const HOOKS = 'hooks.slack.com';
export const API = 'slack.com';
export const DISCORD = 'discord.com';
export const GOOGLE = 'chat.googleapis.com';
export const TEAMS = 'prod-01.westeurope.logic.azure.com';
export const CHAT_HOSTS = [HOOKS, API, DISCORD, GOOGLE, TEAMS] as const;
export const SIGNING_SECRET = '8f742231b10e8888abcd99yyyzzz85a5';
export const CONFIGS = {
  slack: { webhook_url: `https://${HOOKS}/services/T0/B0/secret-of-slack` },
  bot: { bot_token: 'xoxb-secret-of-bot', channel: '#approvals' },
  discord: { webhook_url: `https://${DISCORD}/api/webhooks/1/secret-of-discord?thread_id=7` },
  google_chat: { webhook_url: `https://${GOOGLE}/v1/spaces/S/messages?key=k&token=secret-of-google` },
  teams: { webhook_url: `https://${TEAMS}/workflows/x/triggers/manual/paths/invoke?sig=secret-of-teams` },
} as const;

interface Button {
  readonly action_id?: string;
  readonly value?: string;
  readonly url?: string;
  readonly confirm?: { readonly text: { readonly text: string } };
}

/** What people see of a message in Slack, and what they can press there. */
export interface SlackSeen {
  readonly title: string;
  readonly text: string;
  readonly buttons: readonly Button[];
}

interface Block {
  readonly type: string;
  readonly text?: { readonly text: string };
  readonly elements?: readonly Button[];
}

/** Each product's own words. A message of an app has a number that goes up. */
export function answering(): (message: Received) => InboxAnswer | undefined {
  let messages = 0;
  const json = (body: object): InboxAnswer => ({
    status: 200,
    text: JSON.stringify(body),
    headers: { 'content-type': 'application/json' },
  });
  return ({ host, path, body }) => {
    messages += 1;
    if (host === HOOKS) return { status: 200, text: 'ok' };
    if (host === DISCORD) return json({ id: path.includes('/messages/') ? '77' : String(70 + messages), type: 0 });
    if (host === GOOGLE) return json({ name: `spaces/S/messages/${messages}` });
    if (host === TEAMS) return { status: 202 };
    if (path === '/api/chat.postMessage')
      return json({ ok: true, channel: 'C0APPROVALS', ts: `1700000000.00000${messages}`, message: body });
    return json({ ok: true, channel: body['channel'], ts: body['ts'] });
  };
}

/** A message of Slack as it is seen. */
export function seenIn({ body }: Received): SlackSeen {
  const [attachment] = (body['attachments'] ?? []) as readonly { readonly blocks: readonly Block[] }[];
  const blocks = attachment?.blocks ?? [];
  return {
    title: String(body['text']),
    text: blocks.find(({ type }) => type === 'section')?.text?.text ?? '',
    buttons: blocks.flatMap(({ elements = [] }) => elements),
  };
}

export interface PressOptions {
  readonly user?: string;
  readonly name?: string;
  readonly team?: string;
  readonly responseUrl?: string;
  readonly secret?: string;
  /** Milliseconds since the epoch, when Slack signs. */
  readonly at: number;
  /** After it was signed. */
  readonly tamper?: (body: string) => string;
}

/** Presses a button. */
export function press(gatewayUrl: string, { action_id: action, value, url }: Button, options: PressOptions): Promise<Response> {
  const { user = 'U0OLGA', name = 'olga', team = 'T0ACME', responseUrl = `https://${HOOKS}/actions/T0/1/x`, at } = options;
  const { secret = SIGNING_SECRET, tamper = (body) => body } = options;
  const payload = {
    type: 'block_actions',
    user: { id: user, username: name, name, team_id: team },
    api_app_id: 'A0',
    token: 'legacy',
    container: { type: 'message', message_ts: '1700000000.000001', channel_id: 'C0APPROVALS', is_ephemeral: false },
    trigger_id: '1.2.3',
    team: { id: team, domain: 'acme' },
    enterprise: null,
    channel: { id: 'C0APPROVALS', name: 'approvals' },
    response_url: responseUrl,
    actions: [
      {
        type: 'button',
        action_id: action ?? 'Xy1',
        block_id: 'b',
        ...(value && { value }),
        ...(url && { url }),
        action_ts: '1700000001.1',
      },
    ],
  };
  const body = `payload=${encodeURIComponent(JSON.stringify(payload))}`;
  const seconds = String(Math.floor(at / 1_000));
  const digest = createHmac('sha256', secret).update(`v0:${seconds}:${body}`).digest('hex');
  return fetch(`${gatewayUrl}/v1/chat/slack/interactions`, {
    method: 'POST',
    headers: {
      'content-type': 'application/x-www-form-urlencoded',
      'x-slack-request-timestamp': seconds,
      'x-slack-signature': `v0=${digest}`,
    },
    body: tamper(body),
  });
}

/** An inbox that speaks as all of them do. */
export function chatInbox(answer: (message: Received) => InboxAnswer | undefined = answering()): Inbox {
  return new Inbox(answer);
}
