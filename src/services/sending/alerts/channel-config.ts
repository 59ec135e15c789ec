import { isJsonObject } from '../../../base/json/json-object.ts';
import { GatewayError } from '../../../base/lib/gateway-error.ts';
import { holdsMask, MASK } from '../../../base/lib/text.ts';
import { readWebAddress } from '../../../base/lib/web-address.ts';
import type { ChannelConfig, ChannelKind } from '../../../base/model/alert-channel.ts';

const MAX_ADDRESSES = 50;
/** One address without a name or quotes: nothing of it can end a header or name another recipient. */
const MAIL_ADDRESS = /^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$/;

/**
 * Reads what a channel of this kind is reached by.
 * @param mayBePlain whether `http` is allowed to this host
 * @throws GatewayError `invalid_request` that names the member
 */
export function readChannelConfig(kind: ChannelKind, config: unknown, mayBePlain: (host: string) => boolean): ChannelConfig {
  const name = kind === 'email' ? 'to_addresses' : 'webhook_url';
  if (!isJsonObject(config)) throw invalid('config', `must be an object with ${name}`);
  const other = Object.keys(config).find((key) => key !== name);
  if (other !== undefined) throw invalid(`config.${other}`, `is not a member of the config of this kind, which is ${name} alone`);
  return kind === 'email' ? { to_addresses: addressesIn(config[name]) } : { webhook_url: urlIn(config[name], mayBePlain) };
}

/** A config as it is shown: never the URL. */
export function maskedConfig(config: ChannelConfig): ChannelConfig {
  return 'webhook_url' in config ? { webhook_url: MASK } : config;
}

function urlIn(value: unknown, mayBePlain: (host: string) => boolean): string {
  if (typeof value !== 'string') throw invalid('config.webhook_url', 'is required: the https URL of the webhook');
  if (holdsMask(value)) throw invalid('config.webhook_url', 'is the mask of a secret; leave config out to keep what is stored');
  const address = readWebAddress(value, mayBePlain);
  if (typeof address === 'string') throw invalid('config.webhook_url', address);
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
