import { connect, isIP, type Socket } from 'node:net';
import type { Clock } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { formatAuthority } from '../../base/lib/host.ts';
import type { Authority } from '../../base/model/arrival.ts';
import type { EgressGuard } from './egress-guard.ts';
import { openThroughParent, type ParentProxy, parentFault } from './parent-proxy.ts';
import type { Resolver } from './resolver.ts';
import { dialError, timeoutError } from './upstream-error.ts';

/** One row of `GW_UPSTREAM_CONNECT_TO`: where to really connect for a host and port. */
export interface DialTo {
  readonly host: string;
  readonly port: number;
  readonly toHost: string;
  readonly toPort: number;
}

export interface DialerOptions {
  readonly clock: Clock;
  readonly resolver: Resolver;
  readonly guard: EgressGuard;
  readonly connectTo: readonly DialTo[];
  /** Stands between the gateway and every host that the connect-to table does not name. */
  readonly parent?: ParentProxy | undefined;
  /** Our own entry of `Via`, for each CONNECT to the parent. */
  readonly via?: string | undefined;
}

/** Each of TCP, a parent proxy's answer and TLS. */
export const CONNECT_TIMEOUT_MS = 10_000;
/** RFC 8305 §5: the next address is tried beside an attempt that takes longer. */
const ATTEMPT_DELAY_MS = 250;
const MAX_ATTEMPTS = 8;
const KEEP_ALIVE_PROBE_MS = 60_000;
/** Names of this machine wherever they are resolved (RFC 6761 §6.3). */
const LOCAL_NAME = /(?:^|\.)localhost$/;

/**
 * Makes TCP connections: connect-to table, parent proxy, resolver, egress guard, happy eyeballs among what the guard
 * admits.
 */
export class Dialer {
  readonly #clock: Clock;
  readonly #resolver: Resolver;
  readonly #guard: EgressGuard;
  readonly #connectTo: ReadonlyMap<string, Authority>;
  readonly #parent: ParentProxy | undefined;
  readonly #via: string | undefined;

  constructor(options: DialerOptions) {
    this.#clock = options.clock;
    this.#resolver = options.resolver;
    this.#guard = options.guard;
    this.#connectTo = new Map(options.connectTo.map((row) => [formatAuthority(row), { host: row.toHost, port: row.toPort }]));
    this.#parent = options.parent;
    this.#via = options.via;
  }

  /** The parent proxy on the way to `authority`, if there is one. */
  parentOf(authority: Authority): ParentProxy | undefined {
    return this.#parent === undefined || this.#connectTo.has(formatAuthority(authority)) ? undefined : this.#parent;
  }

  /**
   * A connection whose other end is `authority`: a tunnel where a parent proxy is in between.
   * @param operatorOwn the guard refuses nothing but the gateway's own ports
   * @throws GatewayError `egress_denied`, `upstream_unreachable`, `upstream_timeout`, `upstream_protocol`
   */
  async dial(authority: Authority, operatorOwn: boolean): Promise<Socket> {
    const parent = this.parentOf(authority);
    if (parent === undefined) return this.#dialDirect(authority, operatorOwn);
    const socket = await this.#dialParent(parent, authority, operatorOwn);
    return openThroughParent(socket, { ...parent, via: this.#via }, authority, this.#clock, CONNECT_TIMEOUT_MS);
  }

  /**
   * A connection for plain HTTP requests to `authority`: the parent proxy takes them in absolute form, without a
   * tunnel. Throws as `dial` does.
   */
  dialPlain(authority: Authority, operatorOwn: boolean): Promise<Socket> {
    const parent = this.parentOf(authority);
    return parent === undefined ? this.#dialDirect(authority, operatorOwn) : this.#dialParent(parent, authority, operatorOwn);
  }

  /**
   * Looks at what the guard would say of a connection, and makes none. A name that cannot be looked up is left to the
   * call.
   * @throws GatewayError `egress_denied`
   */
  async admits(authority: Authority): Promise<void> {
    if (this.parentOf(authority) !== undefined) {
      this.#admitToParent(authority, false);
      return;
    }
    const redirected = this.#connectTo.get(formatAuthority(authority));
    try {
      await this.addresses(redirected ?? authority, redirected !== undefined);
    } catch (error) {
      if (error instanceof GatewayError && error.code === 'egress_denied') throw error;
    }
  }

  async #dialDirect(authority: Authority, operatorOwn: boolean): Promise<Socket> {
    const redirected = this.#connectTo.get(formatAuthority(authority));
    return this.#dialTarget(authority, redirected ?? authority, operatorOwn || redirected !== undefined);
  }

  /**
   * A target's literal address is judged here; names are the parent's to resolve, so what they stand for is the
   * parent's to judge.
   */
  #admitToParent(authority: Authority, operatorOwn: boolean): void {
    const { host } = authority;
    if (isIP(host) !== 0) this.#guard.admit(authority, [host], operatorOwn);
    else if (LOCAL_NAME.test(host)) this.#guard.admit(authority, ['127.0.0.1'], operatorOwn);
  }

  async #dialParent(parent: ParentProxy, authority: Authority, operatorOwn: boolean): Promise<Socket> {
    this.#admitToParent(authority, operatorOwn);
    try {
      return await this.#dialTarget(parent, parent, true);
    } catch (error) {
      throw parentFault(parent, error);
    }
  }

  /**
   * The addresses of `authority` that the guard admits, for what makes no connection.
   * @throws GatewayError as `dial`
   */
  async addresses({ host, port }: Authority, operatorOwn: boolean): Promise<readonly string[]> {
    const addresses = isIP(host) === 0 ? await this.#resolver.resolve(host) : [host];
    return this.#guard.admit({ host, port }, addresses, operatorOwn);
  }

  async #dialTarget(authority: Authority, target: Authority, exempt: boolean): Promise<Socket> {
    const isLiteral = isIP(target.host) !== 0;
    // Nothing is waited for where nothing is looked up.
    const addresses = isLiteral ? [target.host] : await this.#resolver.resolve(target.host);
    const admitted = this.#guard.admit(target, addresses, exempt);
    try {
      return await dialFirst(authority, interleave(admitted), target.port, this.#clock);
    } catch (error) {
      if (!isLiteral) this.#resolver.forget(target.host);
      throw error;
    }
  }
}

/** Address families in turn, beginning with that of the first address (RFC 8305 §4). */
function interleave(addresses: readonly string[]): readonly string[] {
  if (addresses.length < 3) return addresses;
  const first = addresses.filter((address) => address.includes(':') === addresses[0]?.includes(':'));
  const second = addresses.filter((address) => !first.includes(address));
  const mixed: string[] = [];
  for (let i = 0; mixed.length < Math.min(addresses.length, MAX_ATTEMPTS); i++)
    mixed.push(...first.slice(i, i + 1), ...second.slice(i, i + 1));
  return mixed.slice(0, MAX_ATTEMPTS);
}

/** The first connection that stands; the others are closed. */
function dialFirst(authority: Authority, addresses: readonly string[], port: number, clock: Clock): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const attempts = new Set<Socket>();
    let next = 0;
    let firstFault: unknown;
    let cancelDelay = (): void => undefined;
    const cancelLimit = clock.after(CONNECT_TIMEOUT_MS, () => {
      finish();
      reject(timeoutError(authority, `did not accept a connection within ${CONNECT_TIMEOUT_MS / 1000} seconds`));
    });

    function finish(winner?: Socket): void {
      cancelDelay();
      cancelLimit();
      next = addresses.length;
      for (const socket of attempts) {
        if (socket !== winner) socket.destroy();
      }
      attempts.clear();
    }

    function startNext(): void {
      cancelDelay();
      const address = addresses[next++];
      if (address === undefined) return;
      const socket = connect({ host: address, port, noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_PROBE_MS });
      attempts.add(socket);
      const onFault = (fault: unknown): void => {
        if (!attempts.delete(socket)) return;
        firstFault ??= fault;
        if (next < addresses.length) startNext();
        else if (attempts.size === 0) {
          finish();
          reject(dialError(authority, firstFault));
        }
      };
      socket.once('error', onFault);
      socket.once('connect', () => {
        if (!attempts.has(socket)) return;
        finish(socket);
        socket.off('error', onFault);
        // Whoever takes the socket listens a moment later.
        socket.on('error', () => undefined);
        resolve(socket);
      });
      if (next < addresses.length) cancelDelay = clock.after(ATTEMPT_DELAY_MS, startNext);
    }

    startNext();
  });
}
