import { isJsonObject } from '../../base/json/json-object.ts';
import type { Clock } from '../../base/lib/clock.ts';
import { shorten } from '../../base/lib/text.ts';
import type { WebAddress } from '../../base/lib/web-address.ts';
import type { FailureReason } from '../../base/model/export-destination.ts';
import type { AlertCard } from './alert-card.ts';
import type { SentMessage } from './chat-webhooks.ts';
import { DeliveryError, deliveryError } from './delivery-error.ts';
import { refusedPost } from './post-answer.ts';
import { slackMessage } from './slack-message.ts';
import type { PostAnswer, WayOut } from './way-out.ts';

/** Where Slack's methods are. */
export const SLACK_API = 'https://slack.com/api';

export interface SlackBot {
  readonly token: string;
  /** Where messages go: an id or a name. */
  readonly channel: string;
  /** The address of a method, such as `chat.postMessage`. */
  readonly methodAt: (name: string) => WebAddress;
}

interface SlackGround {
  readonly door: WayOut;
  readonly clock: Clock;
}

/** An answer repeats the whole message. */
const MOST_READ = 262_144;

/** What Slack says of itself, which is worth another try (its list of errors of `chat.postMessage`). */
const PASSING: ReadonlySet<string> = new Set([
  'internal_error',
  'fatal_error',
  'service_unavailable',
  'request_timeout',
  'ratelimited',
  'rate_limited',
]);
const REASONS: Readonly<Record<string, FailureReason>> = {
  not_authed: 'auth_error',
  invalid_auth: 'auth_error',
  account_inactive: 'auth_error',
  token_revoked: 'auth_error',
  token_expired: 'auth_error',
  missing_scope: 'auth_error',
  channel_not_found: 'gone',
  is_archived: 'gone',
  message_not_found: 'gone',
};

/** Sends an alert as an app (`chat.postMessage`). @throws DeliveryError */
export async function postAsBot(ground: SlackGround, bot: SlackBot, card: AlertCard, signal: AbortSignal): Promise<SentMessage> {
  const said = await called(ground, bot, 'chat.postMessage', { channel: bot.channel, ...messageOf(card) }, signal);
  const { ts, channel = bot.channel } = said;
  const isKnown = typeof ts === 'string' && typeof channel === 'string';
  return { detail: 'HTTP 200', message: isKnown ? `${channel} ${ts}` : undefined };
}

/**
 * Changes a message that this app has sent (`chat.update`).
 * @param message as {@link postAsBot} has given it
 * @returns what came back @throws DeliveryError
 */
export async function changeAsBot(
  ground: SlackGround,
  bot: SlackBot,
  message: string,
  card: AlertCard,
  signal: AbortSignal,
): Promise<string> {
  const [channel = '', ts = ''] = message.split(' ');
  await called(ground, bot, 'chat.update', { channel, ts, ...messageOf(card) }, signal);
  return 'HTTP 200';
}

function messageOf(card: AlertCard): object {
  return slackMessage(card) as object;
}

/** Whatever goes wrong is said in the body of a 200. */
async function called(
  { door, clock }: SlackGround,
  { token, methodAt }: SlackBot,
  method: string,
  body: object,
  signal: AbortSignal,
): Promise<Readonly<Record<string, unknown>>> {
  const to = methodAt(method);
  const headers = ['content-type', 'application/json; charset=utf-8', 'authorization', `Bearer ${token}`, 'accept', '*/*'];
  const answer = await door.post({ to, headers, body: JSON.stringify(body), mostRead: MOST_READ, signal }).catch((error: unknown) => {
    throw deliveryError(error);
  });
  if (answer.status < 200 || answer.status > 299) throw refusedPost(answer, to, clock.now());
  const said = saidIn(answer);
  if (said?.['ok'] === true) return said;
  const error = typeof said?.['error'] === 'string' ? said['error'] : 'no answer of Slack';
  throw new DeliveryError(REASONS[error] ?? 'client_error', `${method}: ${shorten(error, 100)}`, {
    // What cannot be read may have been done: a message that is there twice is worse than one not changed later.
    retryable: PASSING.has(error),
  });
}

function saidIn({ body }: PostAnswer): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(body);
    return isJsonObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
