import { parseIp } from './ip.ts';

/**
 * What stands for the owner of an address where strangers have shares: an IPv4 address, or the first 64 bits of an IPv6 address, since who has one address of those has them all
 * (RFC 6177, section 2).
 * @param address as sockets tell it; what is none is a share of its own
 */
export function addressShare(address: string | undefined): string {
  const ip = address === undefined ? undefined : parseIp(address.replace(/%.*$/, ''));
  if (ip === undefined) return 'unknown';
  if (ip.version === 4) return ip.text;
  const [high = 0, low = 0] = ip.words;
  return `${high.toString(16)}:${low.toString(16)}::/64`;
}
