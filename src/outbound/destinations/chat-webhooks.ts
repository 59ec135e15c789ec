import { isJsonObject } from '../../base/json/json-object.ts';
import type { Clock } from '../../base/lib/clock.ts';
import { type WebAddress, withParameter, withPathEnd } from '../../base/lib/web-address.ts';
import type { ChatKind } from '../../base/model/alert-channel.ts';
import type { AlertCard } from './alert-card.ts';
import { DeliveryError, deliveryError } from './delivery-error.ts';
import { discordMessage } from './discord-message.ts';
import { googleChatMessage } from './google-chat-message.ts';
import { refusedPost, whatCameBack } from './post-answer.ts';
import { slackMessage } from './slack-message.ts';
import { teamsMessage } from './teams-message.ts';
import type { PostAnswer, PostRequest, WayOut } from './way-out.ts';

interface ChatWebhook {
  readonly message: (card: AlertCard) => unknown;
  /** What is asked for beside the URL that somebody gave; undefined: nothing. */
  readonly parameter?: (card: AlertCard) => readonly [name: string, value: string] | undefined;
  /** Of an answer 2xx: whether it says that the message is there. */
  readonly isTaken: (answer: PostAnswer) => boolean;
  /** How a message that was sent is told of again; absent: it is left as it is. */
  readonly again?: 'changed' | 'followed';
}

/** What came of a message. */
export interface SentMessage {
  /** What came back. */
  readonly detail: string;
  /** By what the message is changed; undefined: the chat has given nothing. */
  readonly message?: string | undefined;
}

/** What Slack says, alone or behind a word, where it does not take a message (its list of webhook errors). */
const SLACK_ERROR =
  /^\s*(?:invalid_\w+|no_\w+|\w+_not_found|\w+_is_archived|\w+_denied|\w+_prohibited|\w+_disabled|too_many_\w+|rollup_error|missing_\w+|fatal_error|internal_error)\b/;

/**
 * Whether a body says in JSON that it was not done: `ok` or `success` that is false, an error that says something, or a
 * code other than 0 beside nothing that was made.
 */
function saysNo(body: string): boolean {
  const said = objectIn(body);
  if (said === undefined) return /^\s*(?:<!doctype|<html)/i.test(body);
  if (said['ok'] === false || said['success'] === false) return true;
  const { error, code, message, id, name } = said;
  return saysSomething(error) || (typeof code === 'number' && code !== 0 && typeof message === 'string' && (id ?? name) === undefined);
}

/** Many receivers have the member in every answer, and leave it empty where all went well. */
function saysSomething(error: unknown): boolean {
  if (typeof error === 'object' && error !== null) return Object.keys(error).length > 0;
  return error !== undefined && error !== null && error !== false && error !== '' && error !== 0;
}

function objectIn(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isJsonObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The four chat products: what each takes, and how it says that it has not. Any 2xx is taken unless its body says
 * otherwise in that product's words.
 */
export const CHAT_WEBHOOKS: Readonly<Record<ChatKind, ChatWebhook>> = {
  // Receivers that take the form of Slack answer in words of their own: Rocket.Chat with `{"success": true}`,
  // Mattermost with `ok`, others with nothing.
  slack: { message: slackMessage, isTaken: ({ body }) => !SLACK_ERROR.test(body) && !saysNo(body) },
  // Its older connectors told of a limit in the text of a 200.
  teams: {
    message: teamsMessage,
    isTaken: ({ body }) => !/returned HTTP error \d|delivery failed/i.test(body) && !saysNo(body),
    again: 'followed',
  },
  // Without `wait` a message that is not kept is answered as one that is, and has no id.
  discord: { message: discordMessage, parameter: () => ['wait', 'true'], isTaken: ({ body }) => !saysNo(body), again: 'changed' },
  google_chat: {
    message: googleChatMessage,
    // A thread key counts for nothing without it.
    parameter: ({ thread }) => (thread === undefined ? undefined : ['messageReplyOption', 'REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD']),
    isTaken: ({ body }) => !saysNo(body),
    again: 'followed',
  },
};

interface ChatGround {
  readonly door: WayOut;
  readonly clock: Clock;
}

/** Sends an alert to a chat. @throws DeliveryError */
export async function sendToChat(
  ground: ChatGround,
  kind: ChatKind,
  address: WebAddress,
  card: AlertCard,
  signal: AbortSignal,
): Promise<SentMessage> {
  const { message, parameter, isTaken, again } = CHAT_WEBHOOKS[kind];
  const asked = parameter?.(card);
  const to = asked === undefined ? address : withParameter(address, ...asked);
  const answer = await posted(ground, { to, body: JSON.stringify(message(card)), signal }, isTaken);
  const id = objectIn(answer.body)?.['id'];
  return { detail: `HTTP ${answer.status}`, message: again === 'changed' && typeof id === 'string' ? id : undefined };
}

/**
 * Changes a message that a webhook of Discord has sent.
 * @param message as {@link sendToChat} has given it
 * @returns what came back @throws DeliveryError
 */
export async function changeInDiscord(
  ground: ChatGround,
  address: WebAddress,
  message: string,
  card: AlertCard,
  signal: AbortSignal,
): Promise<string> {
  const { message: worded, isTaken } = CHAT_WEBHOOKS.discord;
  const to = withPathEnd(address, `/messages/${encodeURIComponent(message)}`);
  const { status } = await posted(ground, { method: 'PATCH', to, body: JSON.stringify(worded(card)), signal }, isTaken);
  return `HTTP ${status}`;
}

/**
 * Posts what answers a click in Slack to the address that came with it.
 * @returns what came back @throws DeliveryError
 */
export async function answerSlackClick(ground: ChatGround, to: WebAddress, body: object, signal: AbortSignal): Promise<string> {
  return `HTTP ${(await posted(ground, { to, body: JSON.stringify(body), signal }, CHAT_WEBHOOKS.slack.isTaken)).status}`;
}

async function posted(
  { door, clock }: ChatGround,
  request: Pick<PostRequest, 'method' | 'to' | 'body' | 'signal'>,
  isTaken: ChatWebhook['isTaken'],
): Promise<PostAnswer> {
  const headers = ['content-type', 'application/json; charset=UTF-8', 'accept', '*/*'];
  let answer: PostAnswer;
  try {
    answer = await door.post({ ...request, headers });
  } catch (error) {
    throw deliveryError(error);
  }
  const { to } = request;
  if (answer.status < 200 || answer.status > 299) throw refusedPost(answer, to, clock.now());
  if (!isTaken(answer)) throw new DeliveryError('server_error', whatCameBack(answer, to), { retryable: true });
  return answer;
}
