import type { Authority } from '../model/arrival.ts';
import { parseAuthority } from './host.ts';

/** Where something is sent or asked for. */
export interface WebAddress {
  readonly authority: Authority;
  readonly tls: boolean;
  /** Path with query, as it goes on the wire. */
  readonly path: string;
  /** The operator named it in a setting. */
  readonly operatorOwn: boolean;
}

const MAX_URL = 2_048;
const HTTPS_PORT = 443;
const HTTP_PORT = 80;

/**
 * Reads a URL that somebody wants to have called.
 * @param mayBePlain whether `http` is allowed to this host
 * @returns the address, or what is wrong with it, as the rest of a sentence
 */
export function readWebAddress(text: string, mayBePlain: (host: string) => boolean, operatorOwn = false): WebAddress | string {
  if (text.length > MAX_URL || !URL.canParse(text)) return 'must be a URL';
  const url = new URL(text);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return 'must be an https URL';
  if (url.username !== '' || url.password !== '') return 'must not name a user or a password';
  const tls = url.protocol === 'https:';
  const authority = parseAuthority(url.host, tls ? HTTPS_PORT : HTTP_PORT);
  if (authority === undefined) return 'must name a host';
  if (!tls && !mayBePlain(authority.host)) return 'must be an https URL; http is for hosts of GW_EGRESS_ALLOW';
  return { authority, tls, path: `${url.pathname}${url.search}`, operatorOwn };
}

/** The same with one parameter of the query set. */
export function withParameter(address: WebAddress, name: string, value: string): WebAddress {
  const url = new URL(address.path, 'http://path.invalid');
  url.searchParams.set(name, value);
  return { ...address, path: `${url.pathname}${url.search}` };
}

/** The same with something behind its path, before the query. */
export function withPathEnd(address: WebAddress, end: string): WebAddress {
  const url = new URL(address.path, 'http://path.invalid');
  return { ...address, path: `${url.pathname.replace(/\/$/, '')}${end}${url.search}` };
}

/** How messages get there. */
export const SYSLOG_TRANSPORTS = ['udp', 'tcp', 'tls'] as const;

export interface SyslogAddress {
  readonly transport: (typeof SYSLOG_TRANSPORTS)[number];
  readonly authority: Authority;
}

/** RFC 5425 §4.1. */
const TLS_PORT = 6_514;

/** Reads `udp://host:port`, `tcp://host:port` or `tls://host:port`; undefined for anything else. */
export function readSyslogAddress(text: string): SyslogAddress | undefined {
  const [, transport, rest] = /^(udp|tcp|tls):\/\/([^/?#@\s]{1,300})\/?$/.exec(text) ?? [];
  const found = SYSLOG_TRANSPORTS.find((one) => one === transport);
  const authority = parseAuthority(rest ?? '', found === 'tls' ? TLS_PORT : undefined);
  return found === undefined || authority === undefined ? undefined : { transport: found, authority };
}
