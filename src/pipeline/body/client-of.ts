import { networkOf } from '../../base/lib/ip.ts';

/** What somebody has proven himself with. */
interface Proven {
  readonly workload: string | undefined;
  readonly apiKey: { readonly id: string } | undefined;
}

/**
 * Who is counted for what a request holds: the workload that has shown its token, the API key, else the caller's
 * address. Of IPv6 it is the network of 64 bits, as many addresses as one machine may give itself.
 */
export function clientOf(callerIp: string, proven: Proven | undefined): string {
  if (proven?.workload !== undefined) return `workload ${proven.workload}`;
  if (proven?.apiKey !== undefined) return `key ${proven.apiKey.id}`;
  // Asked for each call: most addresses need no look.
  return callerIp.includes(':') ? networkOf(callerIp) : callerIp;
}
