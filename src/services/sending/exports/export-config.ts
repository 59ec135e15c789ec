import { isJsonObject, type JsonObject } from '../../../base/json/json-object.ts';
import { type ErrorDetail, GatewayError } from '../../../base/lib/gateway-error.ts';
import { holdsMask, MASK, maskedUrl } from '../../../base/lib/text.ts';
import { readSyslogAddress, readWebAddress, type WebAddress } from '../../../base/lib/web-address.ts';
import {
  type ExportKind,
  SYSLOG_FORMATS,
  type SyslogConfig,
  WEBHOOK_FORMATS,
  type WebhookConfig,
} from '../../../base/model/export-destination.ts';

const MEMBERS: Readonly<Record<ExportKind, readonly string[]>> = {
  webhook: ['url', 'token', 'secret', 'format'],
  syslog: ['address', 'format'],
};
const MASKED = 'is the mask of a secret; leave config out to keep what is stored';
const TOKEN = /^[\x21-\x7e]{1,1024}$/;
const STANDARD_SECRET = /^whsec_[A-Za-z0-9+/]{32,88}={0,2}$/;

/**
 * Reads what a destination of this kind is reached by.
 * @param mayBePlain whether `http` is allowed to this host
 * @throws GatewayError `invalid_request` that names every member that is wrong
 */
export function readExportConfig(kind: ExportKind, config: unknown, mayBePlain: (host: string) => boolean): WebhookConfig | SyslogConfig {
  if (!isJsonObject(config)) throw invalid([{ path: 'config', message: `must be an object with ${MEMBERS[kind].join(', ')}` }]);
  const others = Object.keys(config).filter((name) => !MEMBERS[kind].includes(name));
  const details: ErrorDetail[] = others.map((name) => ({ path: `config.${name}`, message: 'is not a member of the config of this kind' }));
  const read = kind === 'webhook' ? webhookIn(config, mayBePlain, details) : syslogIn(config, details);
  if (details.length > 0) throw invalid(details);
  return read;
}

/** A config as it is shown: of a webhook neither its secrets nor what stands behind the host of its URL. */
export function maskedExport(config: WebhookConfig | SyslogConfig): WebhookConfig | SyslogConfig {
  if (!('url' in config)) return config;
  return {
    url: maskedUrl(config.url),
    ...(config.token === undefined ? {} : { token: MASK }),
    ...(config.secret === undefined ? {} : { secret: MASK }),
    ...(config.format === undefined ? {} : { format: config.format }),
  };
}

function webhookIn(
  { url, token, secret, format = 'json' }: JsonObject,
  mayBePlain: (host: string) => boolean,
  details: ErrorDetail[],
): WebhookConfig {
  const address = typeof url === 'string' ? webAddressIn(url, mayBePlain) : 'is required: the https URL of the webhook';
  if (typeof address === 'string') details.push({ path: 'config.url', message: address });
  const known = WEBHOOK_FORMATS.find((one) => one === format);
  if (known === undefined) details.push({ path: 'config.format', message: `must be one of ${WEBHOOK_FORMATS.join(', ')}` });
  const isSecret = (text: string): boolean =>
    STANDARD_SECRET.test(text) || (!text.startsWith('whsec_') && text.length >= 16 && TOKEN.test(text));
  return {
    url: typeof url === 'string' ? url : '',
    ...secretMember('token', token, (text) => TOKEN.test(text), 'must be 1 to 1024 visible ASCII characters', details),
    ...secretMember(
      'secret',
      secret,
      isSecret,
      'must be `whsec_` and base64 of 24 to 64 bytes, or 16 or more visible ASCII characters',
      details,
    ),
    ...(known === undefined || known === 'json' ? {} : { format: known }),
  };
}

function webAddressIn(url: string, mayBePlain: (host: string) => boolean): WebAddress | string {
  return holdsMask(url) ? MASKED : readWebAddress(url, mayBePlain);
}

function secretMember(name: 'token' | 'secret', value: unknown, fits: (text: string) => boolean, rule: string, details: ErrorDetail[]) {
  if (value === undefined) return {};
  if (typeof value === 'string' && fits(value)) return { [name]: value };
  details.push({ path: `config.${name}`, message: typeof value === 'string' && holdsMask(value) ? MASKED : rule });
  return {};
}

function syslogIn({ address, format = 'rfc5424' }: JsonObject, details: ErrorDetail[]): SyslogConfig {
  const known = SYSLOG_FORMATS.find((one) => one === format);
  if (typeof address !== 'string' || readSyslogAddress(address) === undefined)
    details.push({ path: 'config.address', message: 'must be udp://host:port, tcp://host:port or tls://host:port' });
  if (known === undefined) details.push({ path: 'config.format', message: `must be one of ${SYSLOG_FORMATS.join(', ')}` });
  return { address: typeof address === 'string' ? address : '', format: known ?? 'rfc5424' };
}

function invalid(details: readonly ErrorDetail[]): GatewayError {
  return new GatewayError('invalid_request', 'The export destination is not valid.', { details });
}
