import { networkInterfaces } from 'node:os';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { EgressAllow } from '../../base/lib/host.ts';
import { classifyEgress, IpSet, parseIp } from '../../base/lib/ip.ts';
import type { Authority } from '../../base/model/arrival.ts';

/**
 * An address that this process listens on; an unspecified one (`0.0.0.0`, `::`) stands for every address of this
 * machine.
 */
export interface OwnAddress {
  readonly address: string;
  readonly port: number;
}

export interface EgressGuardOptions {
  /** Undefined: nothing is exempt. */
  readonly egressAllow: EgressAllow | undefined;
  readonly ownAddresses: () => readonly OwnAddress[];
}

const WHY: Readonly<Record<string, string>> = {
  loopback: 'a loopback address',
  private: 'a private address',
  link_local: 'a link-local address',
  metadata: 'an address of a cloud metadata service',
  unspecified: 'the unspecified address',
  shared: 'an address of a carrier-internal network',
  multicast: 'a multicast address',
  not_an_address: 'no IP address',
};

/**
 * Judges every address just before it is dialled (decision 8.5): what is not the public internet is refused unless the
 * operator exempted it, and the gateway's own ports are refused always.
 */
export class EgressGuard {
  readonly #allow: EgressAllow | undefined;
  readonly #own: () => readonly OwnAddress[];

  constructor(options: EgressGuardOptions) {
    this.#allow = options.egressAllow;
    this.#own = options.ownAddresses;
  }

  /**
   * The addresses of `addresses` that may be dialled for `target`, order kept.
   * @param exempt the operator named the target himself; only the gateway's own ports are refused
   * @throws GatewayError `egress_denied` when none is left
   */
  admit(target: Authority, addresses: readonly string[], exempt: boolean): readonly string[] {
    const trusted = exempt || this.#allow?.hosts.has(target.host) === true;
    let refusal: string | undefined;
    const admitted = addresses.filter((address) => {
      const reason = this.#refuse(address, target.port, trusted);
      refusal ??= reason;
      return reason === undefined;
    });
    if (admitted.length > 0) return admitted;
    throw new GatewayError(
      'egress_denied',
      `${target.host} is not reachable through the gateway: it is ${refusal ?? 'without an address'}.`,
    );
  }

  #refuse(address: string, port: number, trusted: boolean): string | undefined {
    if (this.#own().some((own) => own.port === port && isOwn(own.address, address))) return 'the gateway itself';
    if (trusted) return undefined;
    const kind = classifyEgress(address);
    if (kind === 'public' || this.#allow?.ranges.has(address) === true) return undefined;
    return WHY[kind] ?? 'not on the public internet';
  }
}

function isOwn(ownAddress: string, address: string): boolean {
  const target = parseIp(address);
  if (target === undefined) return false;
  // Dialling the unspecified address reaches this machine.
  const local =
    LOCAL.has(target) || Object.values(networkInterfaces()).some((list) => list?.some((one) => parseIp(one.address)?.text === target.text));
  const own = parseIp(ownAddress);
  if (own === undefined || UNSPECIFIED.has(own)) return local;
  return own.text === target.text || (UNSPECIFIED.has(target) && LOCAL.has(own));
}

const UNSPECIFIED = IpSet.parse(['0.0.0.0', '::']);
const LOCAL = IpSet.parse(['0.0.0.0', '::', '127.0.0.0/8', '::1']);
