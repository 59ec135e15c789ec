import { parseIp } from '../../base/lib/ip.ts';

/**
 * Who is counted for what a request holds: the workload that has shown its token, else the caller's address. Of IPv6 it is the network of 64 bits, as many addresses
 * as one machine may give itself.
 */
export function clientOf(callerIp: string, provenWorkload: string | undefined): string {
  if (provenWorkload !== undefined) return `workload ${provenWorkload}`;
  return callerIp.includes(':') ? networkOf(callerIp) : callerIp;
}

function networkOf(address: string): string {
  const [first = 0, second = 0] = parseIp(address)?.words ?? [];
  return `${first.toString(16)}:${second.toString(16)}`;
}
