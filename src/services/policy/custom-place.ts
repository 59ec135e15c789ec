import type { EgressAllow } from '../../base/lib/host.ts';
import { bracketHost, canonicalHost, formatAuthority, isLoopbackHost } from '../../base/lib/host.ts';
import { classifyEgress, parseIp } from '../../base/lib/ip.ts';

/** Where a custom connector is, as its base URL says. */
export interface CustomUrl {
  /** Canonical. */
  readonly host: string;
  readonly port: number;
  readonly tls: boolean;
  /** Without a slash at its end; empty: the root. */
  readonly path: string;
  /** The URL as it is stored and shown. */
  readonly text: string;
}

const URL_RULE = 'must be https://HOST[:PORT][/PATH], without user, query and fragment';
/** What a path of an AI host may hold without having two readings (decision 3.18). */
const PATH = /^(?:\/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*$/;

/**
 * Reads the base URL of a custom connector. Plain HTTP, and addresses that are not public, are for hosts that the
 * operator has named in `GW_EGRESS_ALLOW`: whoever may make a connector cannot open the inside of the operator's
 * network by it.
 * @returns what is wrong with it, as a text for its member
 */
export function readBaseUrl(text: string, allow: EgressAllow): CustomUrl | string {
  const parsed = /^(https?):\/\/([^/?#@\s]+)(\/[^?#\s]*)?$/i.exec(text);
  if (parsed === null || text.length > 512) return URL_RULE;
  const [, scheme = '', authority = '', rawPath = ''] = parsed;
  const tls = scheme.toLowerCase() === 'https';
  const [host, port] = splitAuthority(authority, tls ? 443 : 80);
  if (host === undefined || port === undefined) return URL_RULE;
  const path = rawPath.replace(/\/+$/, '');
  if (!PATH.test(path)) return 'must have a path of plain segments: letters, digits and . _ ~ -';
  const isAllowed = allow.hosts.has(host) || allow.ranges.has(host);
  if (!tls && !isAllowed) return 'must be https: plain http is only for hosts that GW_EGRESS_ALLOW names';
  if (!isAllowed && isPrivate(host)) return 'must be a public host: others have to be named in GW_EGRESS_ALLOW';
  const usual = tls ? 443 : 80;
  const shown = port === usual ? bracketHost(host) : formatAuthority({ host, port });
  return { host, port, tls, path, text: `${tls ? 'https' : 'http'}://${shown}${path}` };
}

function splitAuthority(authority: string, usual: number): readonly [string | undefined, number | undefined] {
  const parts = /^(\[[^\]]*\]|[^:]*)(?::([1-9]\d{0,4}))?$/.exec(authority);
  if (parts === null) return [undefined, undefined];
  const port = parts[2] === undefined ? usual : Number(parts[2]);
  return [canonicalHost(parts[1] ?? ''), port > 65_535 ? undefined : port];
}

/** Of names that resolve to such an address the door out says it, with each call (decision 8.5). */
function isPrivate(host: string): boolean {
  if (isLoopbackHost(host)) return true;
  const ip = parseIp(host);
  return ip !== undefined && classifyEgress(ip) !== 'public';
}
