import { isJsonObject } from '../../../base/json/json-object.ts';
import { GatewayError } from '../../../base/lib/gateway-error.ts';
import { holdsMask, MASK } from '../../../base/lib/text.ts';
import { readWebAddress } from '../../../base/lib/web-address.ts';
import type { BotConfig, ChannelConfig, ChannelKind } from '../../../base/model/alert-channel.ts';

const MAX_ADDRESSES = 50;
const MASKED = 'is the mask of a secret; leave config out to keep what is stored';
/** One address without a name or quotes: nothing of it can end a header or name another recipient. */
const MAIL_ADDRESS = /^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$/;

const TOKEN = /^[\x21-\x7e]{1,512}$/;
/** An id, or a name with or without its sign. */
const CHANNEL = /^#?[\p{L}\p{N}._-]{1,80}$/u;
/** By which a config of Slack is told to be that of an app. */
const BOT_MEMBERS: readonly string[] = ['bot_token', 'channel', 'api_url'];

/**
 * Reads what a channel of this kind is reached by.
 * @param mayBePlain whether `http` is allowed to this host
 * @throws GatewayError `invalid_request` that names the member
 */
export function readChannelConfig(kind: ChannelKind, config: unknown, mayBePlain: (host: string) => boolean): ChannelConfig {
  const name = kind === 'email' ? 'to_addresses' : 'webhook_url';
  if (!isJsonObject(config)) throw invalid('config', `must be an object with ${name}`);
  const isBot = kind === 'slack' && 'bot_token' in config;
  const known = isBot ? BOT_MEMBERS : [name];
  const other = Object.keys(config).find((key) => !known.includes(key));
  if (other !== undefined)
    throw invalid(
      `config.${other}`,
      isBot ? `is not a member of the config of an app, which is ${BOT_MEMBERS.join(', ')}` : notOfKind(kind, name),
    );
  if (isBot) return botIn(config, mayBePlain);
  return kind === 'email' ? { to_addresses: addressesIn(config[name]) } : { webhook_url: urlIn('webhook_url', config[name], mayBePlain) };
}

/** A config as it is shown: never the URL of a webhook, never a token. */
export function maskedConfig(config: ChannelConfig): ChannelConfig {
  if ('webhook_url' in config) return { webhook_url: MASK };
  return 'bot_token' in config ? { ...config, bot_token: MASK } : config;
}

function notOfKind(kind: ChannelKind, name: string): string {
  const or = kind === 'slack' ? ', or bot_token and channel of an app' : '';
  return `is not a member of the config of this kind, which is ${name} alone${or}`;
}

function botIn(config: Readonly<Record<string, unknown>>, mayBePlain: (host: string) => boolean): BotConfig {
  const { bot_token: token, channel, api_url: url } = config;
  if (typeof token !== 'string' || !TOKEN.test(token))
    throw invalid(
      'config.bot_token',
      holdsMask(String(token)) ? MASKED : 'must be the token of the app: visible ASCII characters without spaces',
    );
  if (typeof channel !== 'string' || !CHANNEL.test(channel))
    throw invalid('config.channel', 'is required: the id or the name of a channel');
  return { bot_token: token, channel, ...(url === undefined ? {} : { api_url: urlIn('api_url', url, mayBePlain) }) };
}

function urlIn(member: string, value: unknown, mayBePlain: (host: string) => boolean): string {
  if (typeof value !== 'string') throw invalid(`config.${member}`, 'is required: the https URL of the webhook');
  if (holdsMask(value)) throw invalid(`config.${member}`, MASKED);
  const address = readWebAddress(value, mayBePlain);
  if (typeof address === 'string') throw invalid(`config.${member}`, address);
  return value;
}

function addressesIn(value: unknown): readonly string[] {
  const rule = `must be a list of 1 to ${MAX_ADDRESSES} mail addresses`;
  if (!Array.isArray(value) || value.length === 0 || value.length > MAX_ADDRESSES) throw invalid('config.to_addresses', rule);
  return value.map((address: unknown, at) => {
    if (typeof address !== 'string' || !MAIL_ADDRESS.test(address)) throw invalid(`config.to_addresses[${at}]`, 'must be a mail address');
    return address;
  });
}

function invalid(path: string, message: string): GatewayError {
  return new GatewayError('invalid_request', 'The alert channel is not valid.', { details: [{ path, message }] });
}
