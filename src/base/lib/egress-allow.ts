import { HostPatterns } from './host-patterns.ts';
import { IpSet, parseIp } from './ip.ts';

/** What the operator exempts from the egress guard (`GW_EGRESS_ALLOW`). */
export interface EgressAllow {
  readonly ranges: IpSet;
  readonly hosts: HostPatterns;
}

/** @throws RangeError naming the first entry that is neither an address, a CIDR range nor a host pattern */
export function parseEgressAllow(entries: readonly string[]): EgressAllow {
  const isRange = (entry: string): boolean => entry.includes('/') || parseIp(entry) !== undefined;
  return {
    ranges: IpSet.parse(entries.filter(isRange)),
    hosts: HostPatterns.parse(entries.filter((entry) => !isRange(entry))),
  };
}
