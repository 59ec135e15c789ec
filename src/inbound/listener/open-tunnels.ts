import { GatewayError } from '../../base/lib/gateway-error.ts';
import { type FullFor, Shares } from '../../base/lib/shares.ts';
import type { Tunnel } from '../../base/model/arrival.ts';
import { type AddressShare, type Holder, keptFromProxies } from './client-shares.ts';
import type { Link } from './links.ts';

/** Of fewer places than these nobody has a share: half of them would be next to none. */
const SHARED_FROM = 8;

/**
 * The connections that are no longer spoken HTTP on by us alone: CONNECTs, intercepted and blind together, and
 * WebSockets (`GW_MAX_TUNNELS`). They count for the address that they come from until somebody has shown there who he
 * is (decision 7.12).
 */
export class OpenTunnels {
  readonly #max: number;
  readonly #isShared: boolean;
  /** The last places, which are not for those who come by a proxy and show nothing. */
  readonly #kept: number;
  readonly #shares: Shares;
  readonly #open = new Map<Link, Holder>();

  constructor(max: number) {
    this.#max = max;
    this.#isShared = max >= SHARED_FROM;
    this.#kept = this.#isShared ? keptFromProxies(max) : 0;
    this.#shares = new Shares(max);
  }

  get size(): number {
    return this.#open.size;
  }

  /**
   * Counts a connection until it closes or leaves; one that is counted already stays so. False, and not counted, when
   * there is no room.
   * @param shows something by which it may turn out who that is: then his own share counts, see {@link recognise}
   */
  enter(link: Link, shows = false): boolean {
    if (this.#open.has(link)) return true;
    const full = this.#fullAt(link.share);
    if (full === 'all' || (full !== undefined && !shows)) return false;
    this.#take(link, { org: link.share.key });
    link.socket.once('close', () => this.leave(link));
    return true;
  }

  /**
   * Who that is has been found out.
   * @param holder undefined: nobody has shown who he is.
   * @returns false: he holds his share, and the connection does not count any more
   */
  recognise(link: Link, holder: Holder | undefined): boolean {
    if (!this.#open.has(link)) return true;
    this.leave(link);
    const full = holder === undefined ? this.#fullAt(link.share) : this.#full(holder.org, holder.caller);
    if (full !== undefined) return false;
    this.#take(link, holder ?? { org: link.share.key });
    return true;
  }

  /** A refused one leaves at once: those that linger over their answer must not keep others out. */
  leave(link: Link): void {
    const holder = this.#open.get(link);
    if (holder === undefined) return;
    this.#open.delete(link);
    this.#shares.give(holder.org, holder.caller);
  }

  /** The same for who has shown nothing. */
  #fullAt({ key, isProxy }: AddressShare): FullFor | undefined {
    if (!isProxy) return this.#full(key);
    const free = this.#max - this.#open.size;
    if (free > this.#kept) return undefined;
    return free <= 0 ? 'all' : 'org';
  }

  #full(org: string, caller?: string): FullFor | undefined {
    const full = this.#shares.full(org, caller);
    return this.#isShared || full === 'all' ? full : undefined;
  }

  #take(link: Link, holder: Holder): void {
    this.#open.set(link, holder);
    this.#shares.take(holder.org, holder.caller);
  }

  /** What is said to who finds no room. */
  refusal(): GatewayError {
    return this.#open.size >= this.#max
      ? new GatewayError('too_many_tunnels', 'The limit of open tunnels is reached; try again.')
      : new GatewayError('too_many_tunnels', 'This client holds its share of the open tunnels (GW_MAX_TUNNELS); close some, or try again.');
  }
}

/**
 * Who has shown who he is when he opened a tunnel. Two orgs may have a workload of the same id each: neither takes the
 * share of the other's.
 */
export function holderOfTunnel({
  fixedOrg,
  fixedWorkload,
  workloadOrg,
}: Pick<Tunnel, 'fixedOrg' | 'fixedWorkload' | 'workloadOrg'>): Holder | undefined {
  if (fixedOrg !== undefined) return { org: `org ${fixedOrg}`, caller: fixedWorkload };
  if (fixedWorkload === undefined) return undefined;
  // Ids hold no blank (decision 4.7), so that no two have one name.
  return { org: workloadOrg === undefined ? `workload ${fixedWorkload}` : `workload ${workloadOrg} ${fixedWorkload}` };
}
