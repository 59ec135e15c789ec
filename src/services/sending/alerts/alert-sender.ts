import type { Clock } from '../../../base/lib/clock.ts';
import { readWebAddress } from '../../../base/lib/web-address.ts';
import type { AlertCard } from '../../../outbound/destinations/alert-card.ts';
import { sendToChat } from '../../../outbound/destinations/chat-webhooks.ts';
import { DeliveryError } from '../../../outbound/destinations/delivery-error.ts';
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

/** Sends an alert by a channel. @returns what came back @throws DeliveryError */
export async function sendAlert(options: AlertSenderOptions, channel: OpenChannel, card: AlertCard, signal: AbortSignal): Promise<string> {
  const { smtp, mayBePlain } = options;
  const { kind, config } = channel;
  if (config === undefined) throw lacking('What the channel is reached by cannot be opened; was GW_SECRETS_KEY changed?');
  if (kind === 'email') {
    if (smtp === undefined) throw lacking('No mail server is configured (GW_SMTP_URL, GW_SMTP_FROM).');
    return smtp.send(card, 'to_addresses' in config ? config.to_addresses : [], signal);
  }
  // Asked again: GW_EGRESS_ALLOW may be another by now.
  const address = readWebAddress('webhook_url' in config ? config.webhook_url : '', mayBePlain);
  if (typeof address === 'string') throw lacking(`The webhook URL ${address}.`);
  return sendToChat(options, kind, address, card, signal);
}

function lacking(message: string): DeliveryError {
  return new DeliveryError('not_configured', message, { retryable: false });
}
