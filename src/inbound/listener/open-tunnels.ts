import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Link } from './links.ts';

/** The connections that are no longer spoken HTTP on by us alone: CONNECTs, intercepted and blind together, and WebSockets (`GW_MAX_TUNNELS`). */
export class OpenTunnels {
  readonly #max: number;
  readonly #open = new Set<Link>();

  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#open.size;
  }

  /** Counts a connection until it closes or leaves; one that is counted already stays so. False, and not counted, when there is no room. */
  enter(link: Link): boolean {
    if (this.#open.has(link)) return true;
    if (this.#open.size >= this.#max) return false;
    this.#open.add(link);
    link.socket.once('close', () => this.#open.delete(link));
    return true;
  }

  /** A refused one leaves at once: those that linger over their answer must not keep others out. */
  leave(link: Link): void {
    this.#open.delete(link);
  }
}

export function tooManyTunnels(): GatewayError {
  return new GatewayError('too_many_tunnels', 'The limit of open tunnels is reached; try again.');
}
