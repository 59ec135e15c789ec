import { IpSet } from './ip.ts';

const LOOPBACK = IpSet.parse(['127.0.0.0/8', '::1']);

/** True for `localhost`, names below it, and loopback addresses: what only this machine can reach. The argument is canonical (decision 3.17). */
export function isLoopbackHost(host: string): boolean {
  return host === 'localhost' || host === '127.0.0.1' || host.endsWith('.localhost') || LOOPBACK.has(host);
}
