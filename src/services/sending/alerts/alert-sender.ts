import type { Clock } from '../../../base/lib/clock.ts';
import { readWebAddress, type WebAddress, withPathEnd } from '../../../base/lib/web-address.ts';
import type { BotConfig, ChannelConfig } from '../../../base/model/alert-channel.ts';
import type { AlertCard } from '../../../outbound/destinations/alert-card.ts';
import { CHAT_WEBHOOKS, changeInDiscord, type SentMessage, sendToChat } from '../../../outbound/destinations/chat-webhooks.ts';
import { DeliveryError } from '../../../outbound/destinations/delivery-error.ts';
import { changeAsBot, postAsBot, SLACK_API, type SlackBot } from '../../../outbound/destinations/slack-api.ts';
import type { SmtpSender } from '../../../outbound/destinations/smtp-sender.ts';
import type { WayOut } from '../../../outbound/destinations/way-out.ts';
import type { OpenChannel } from './alert-channels.ts';

export interface AlertSenderOptions {
  readonly door: WayOut;
  readonly clock: Clock;
  /** Undefined without `GW_SMTP_URL`. */
  readonly smtp: Pick<SmtpSender, 'send'> | undefined;
  readonly mayBePlain: (host: string) => boolean;
}

/** How a message is told of again that a channel has sent. */
export type ToldAgain = 'changed' | 'followed' | 'never';

/** Sends an alert by a channel. @throws DeliveryError */
export async function sendAlert(
  options: AlertSenderOptions,
  channel: OpenChannel,
  card: AlertCard,
  signal: AbortSignal,
): Promise<SentMessage> {
  const { smtp } = options;
  const { kind } = channel;
  const config = configOf(channel);
  if (kind === 'email') {
    if (smtp === undefined) throw lacking('No mail server is configured (GW_SMTP_URL, GW_SMTP_FROM).');
    return { detail: await smtp.send(card, 'to_addresses' in config ? config.to_addresses : [], signal) };
  }
  if ('bot_token' in config) return postAsBot(options, botOf(config, options), card, signal);
  return sendToChat(options, kind, webhookOf(config, options), card, signal);
}

/** What a channel does with a message when there is more to say of its matter. */
export function toldAgain({ kind, config }: OpenChannel): ToldAgain {
  if (config === undefined || kind === 'email') return 'never';
  return 'bot_token' in config ? 'changed' : (CHAT_WEBHOOKS[kind].again ?? 'never');
}

/**
 * Changes a message that a channel has sent.
 * @param message as {@link sendAlert} has given it
 * @returns what came back @throws DeliveryError
 */
export function changeMessage(
  options: AlertSenderOptions,
  channel: OpenChannel,
  message: string,
  card: AlertCard,
  signal: AbortSignal,
): Promise<string> {
  const config = configOf(channel);
  if ('bot_token' in config) return changeAsBot(options, botOf(config, options), message, card, signal);
  return changeInDiscord(options, webhookOf(config, options), message, card, signal);
}

function configOf({ config }: OpenChannel): ChannelConfig {
  if (config === undefined) throw lacking('What the channel is reached by cannot be opened; was GW_SECRETS_KEY changed?');
  return config;
}

function webhookOf(config: ChannelConfig, options: AlertSenderOptions): WebAddress {
  return addressIn('webhook URL', 'webhook_url' in config ? config.webhook_url : '', options);
}

function botOf({ bot_token: token, channel, api_url: url = SLACK_API }: BotConfig, options: AlertSenderOptions): SlackBot {
  const base = addressIn('address of the app', url, options);
  return { token, channel, methodAt: (name) => withPathEnd(base, `/${name}`) };
}

/** Asked again: GW_EGRESS_ALLOW may be another by now. */
function addressIn(what: string, text: string, { mayBePlain }: AlertSenderOptions): WebAddress {
  const address = readWebAddress(text, mayBePlain);
  if (typeof address === 'string') throw lacking(`The ${what} ${address}.`);
  return address;
}

function lacking(message: string): DeliveryError {
  return new DeliveryError('not_configured', message, { retryable: false });
}
