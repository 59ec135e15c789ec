/* Types of the settings that say where alerts and events go. */
import { parseAuthority } from '../lib/host.ts';
import { percentDecoded } from '../lib/text.ts';
import { readSyslogAddress, readWebAddress, type SyslogAddress, type WebAddress } from '../lib/web-address.ts';
import type { SmtpServer } from '../model/alert-channel.ts';
import type { SettingType } from './setting-types.ts';

const SMTP_URL = /^(smtps?):\/\/(?:([^@/?#]*)@)?([^@/?#]+)\/?(?:\?tls=(required|none))?$/i;
const SMTPS_PORT = 465;
const SUBMISSION_PORT = 587;
const MAIL_ADDRESS = /^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$/;

function refuse(): never {
  throw new RangeError('not allowed');
}

/** User and password are percent-encoded, as in every URL. */
export const smtpUrl: SettingType<SmtpServer> = {
  name: 'mail server',
  allowed:
    '`smtp://HOST:PORT` (STARTTLS is required; `?tls=none` for a relay without it) or `smtps://HOST:PORT`, with `USER:PASSWORD@` before the host',
  parse(text) {
    const [whole, scheme = '', userInfo, address = '', tls] = SMTP_URL.exec(text) ?? [];
    const isImplicit = scheme.toLowerCase() === 'smtps';
    const authority = parseAuthority(address, isImplicit ? SMTPS_PORT : SUBMISSION_PORT);
    if (whole === undefined || authority === undefined || (isImplicit && tls !== undefined)) return refuse();
    return { authority, tls: isImplicit ? 'implicit' : tls === 'none' ? 'none' : 'starttls', ...userOf(userInfo) };
  },
};

function userOf(userInfo: string | undefined): Pick<SmtpServer, 'user' | 'password'> {
  if (userInfo === undefined) return {};
  const colon = userInfo.indexOf(':');
  const user = percentDecoded(colon === -1 ? userInfo : userInfo.slice(0, colon)) ?? refuse();
  const password = percentDecoded(colon === -1 ? '' : userInfo.slice(colon + 1)) ?? refuse();
  return /\p{Cc}/u.test(user + password) ? refuse() : { user, password };
}

export const mailAddress: SettingType<string> = {
  name: 'mail address',
  allowed: 'a mail address without a name, such as `gateway@example.com`',
  parse: (text) => (MAIL_ADDRESS.test(text) ? text : refuse()),
};

/** The operator's own: any address may stand there, also without TLS. */
export const webhookUrl: SettingType<WebAddress> = {
  name: 'URL',
  allowed: 'an `https` or `http` URL without user and password',
  parse(text) {
    const address = readWebAddress(text, () => true, true);
    return typeof address === 'string' ? refuse() : address;
  },
};

/** Whether `http` is allowed there depends on GW_EGRESS_ALLOW too, and is checked with it. */
export const telemetryUrl: SettingType<WebAddress> = {
  name: 'URL',
  allowed: 'an `https` URL without user and password; `http` to loopback and to hosts of `GW_EGRESS_ALLOW`',
  parse: (text) => webhookUrl.parse(text),
};

export const syslogAddress: SettingType<SyslogAddress> = {
  name: 'syslog server',
  allowed: '`udp://HOST:PORT`, `tcp://HOST:PORT` or `tls://HOST:PORT`',
  parse: (text) => readSyslogAddress(text) ?? refuse(),
};
