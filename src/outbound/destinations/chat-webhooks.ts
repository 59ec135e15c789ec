import type { Clock } from '../../base/lib/clock.ts';
import { type WebAddress, withParameter } from '../../base/lib/web-address.ts';
import type { ChatKind } from '../../base/model/alert-channel.ts';
import type { AlertCard } from './alert-card.ts';
import { DeliveryError, deliveryError } from './delivery-error.ts';
import { discordMessage } from './discord-message.ts';
import { googleChatMessage } from './google-chat-message.ts';
import { refusedPost, whatCameBack } from './post-answer.ts';
import { slackMessage } from './slack-message.ts';
import { teamsMessage } from './teams-message.ts';
import type { PostAnswer, WayOut } from './way-out.ts';

interface ChatWebhook {
  readonly message: (card: AlertCard) => unknown;
  /** What is asked for beside the URL that somebody gave. */
  readonly parameter?: readonly [name: string, value: string];
  /** Of an answer 2xx: whether it says that the message is there. */
  readonly isTaken: (answer: PostAnswer) => boolean;
}

/** The four chat products: what each takes, and how it says that it has. */
export const CHAT_WEBHOOKS: Readonly<Record<ChatKind, ChatWebhook>> = {
  slack: { message: slackMessage, isTaken: ({ status, body }) => status === 200 && body.trim() === 'ok' },
  // Its older connectors told of a limit in the text of a 200.
  teams: { message: teamsMessage, isTaken: ({ body }) => !/returned HTTP error \d/.test(body) },
  // Without `wait` a message that is not kept is answered as one that is.
  discord: { message: discordMessage, parameter: ['wait', 'true'], isTaken: () => true },
  google_chat: { message: googleChatMessage, isTaken: ({ status }) => status === 200 },
};

/** Sends an alert to a chat. @returns what came back @throws DeliveryError */
export async function sendToChat(
  { door, clock }: { readonly door: WayOut; readonly clock: Clock },
  kind: ChatKind,
  address: WebAddress,
  card: AlertCard,
  signal: AbortSignal,
): Promise<string> {
  const { message, parameter, isTaken } = CHAT_WEBHOOKS[kind];
  const to = parameter === undefined ? address : withParameter(address, ...parameter);
  const headers = ['content-type', 'application/json; charset=UTF-8', 'accept', '*/*'];
  let answer: PostAnswer;
  try {
    answer = await door.post({ to, headers, body: JSON.stringify(message(card)), signal });
  } catch (error) {
    throw deliveryError(error);
  }
  if (answer.status < 200 || answer.status > 299) throw refusedPost(answer, to, clock.now());
  if (!isTaken(answer)) throw new DeliveryError('server_error', whatCameBack(answer, to), { retryable: true });
  return `HTTP ${answer.status}`;
}
