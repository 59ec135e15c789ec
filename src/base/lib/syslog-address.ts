import type { Authority } from '../model/arrival.ts';
import { parseAuthority } from './host.ts';

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
