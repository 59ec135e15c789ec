import { hostname, networkInterfaces } from 'node:os';
import { canonicalHost } from '../../base/lib/host.ts';
import { classifyEgress, parseIp } from '../../base/lib/ip.ts';
import type { Authority } from '../../base/model/arrival.ts';

/** Tells whether an authority is the gateway itself, by any name and spelling (decision 3.7). */
export class OwnAddresses {
  readonly #names: ReadonlySet<string>;
  readonly #ports = new Set<number>();

  /** @param names further host names of this gateway (`GW_PUBLIC_NAMES`); what is no host is left out */
  constructor(names: readonly string[]) {
    const own = ['localhost', hostname(), ...names].map((name) => canonicalHost(name));
    this.#names = new Set(own.filter((name) => name !== undefined));
  }

  /** Adds a port that this gateway listens on. */
  addPort(port: number): void {
    this.#ports.add(port);
  }

  owns(authority: Authority): boolean {
    if (!this.#ports.has(authority.port)) return false;
    const host = canonicalHost(authority.host) ?? authority.host;
    if (this.#names.has(host) || host.endsWith('.localhost')) return true;
    const ip = parseIp(host);
    if (ip === undefined) return false;
    const kind = classifyEgress(ip);
    if (kind === 'loopback' || kind === 'unspecified') return true;
    // Read each time: addresses come and go, and this is only reached for our own ports.
    return Object.values(networkInterfaces()).some((entries) => entries?.some((entry) => parseIp(entry.address)?.text === ip.text));
  }
}
