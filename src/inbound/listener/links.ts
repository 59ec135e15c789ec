import type { Socket } from 'node:net';
import { resetSocket } from '../../base/lib/reset-socket.ts';
import type { TrafficClass } from '../../base/model/connection.ts';

/** What a client's connection is busy with at the moment. */
export interface Activity {
  /** Called once when draining begins: end what is idle at once, the rest when it is done. */
  drain(): void;
  /** Called once, behind `drain`, when the time for that is over: tell whoever can still be told; a moment later the connection is destroyed. */
  cut?(): void;
  /** Called every {@link ListenerLimits.sweepMs} with monotonic milliseconds; ends what is past its deadline. */
  sweep(now: number): void;
}

/** At 7 µs for one that has to be asked whether it is broken, 1 ms. */
const SWEPT_AT_ONCE = 128;

const NOTHING: Activity = { drain: () => undefined, sweep: () => undefined };

/** One TCP connection of a client, from accept to close. */
export class Link {
  /** The TCP connection itself. */
  readonly wire: Socket;
  /** What the client speaks HTTP on: the wire, or our own TLS around it (decision 12.1). */
  socket: Socket;
  readonly trafficClass: TrafficClass;
  /** TCP peer without port; an IPv4 peer of a dual-stack socket in its IPv4 form. */
  readonly remoteAddress: string;
  activity: Activity = NOTHING;

  constructor(socket: Socket, trafficClass: TrafficClass) {
    const address = socket.remoteAddress ?? '';
    this.wire = socket;
    this.socket = socket;
    this.trafficClass = trafficClass;
    this.remoteAddress = address.startsWith('::ffff:') && address.includes('.') ? address.slice(7) : address;
  }

  /** Closes with RST, so that nobody takes what was sent for complete. */
  reset(): void {
    resetSocket(this.wire);
  }
}

/** Every connection that is open. */
export class Links {
  readonly #open = new Set<Link>();
  #draining = false;
  #sweeping = false;
  #empty: Promise<void> | undefined;
  #onEmpty: (() => void) | undefined;

  get draining(): boolean {
    return this.#draining;
  }

  get size(): number {
    return this.#open.size;
  }

  open(socket: Socket, trafficClass: TrafficClass): Link {
    const link = new Link(socket, trafficClass);
    this.#open.add(link);
    // Errors of a client's connection end in `close`; there is nothing else to do about them.
    socket.on('error', ignore);
    socket.once('close', () => {
      this.#open.delete(link);
      if (this.#open.size === 0) this.#onEmpty?.();
    });
    return link;
  }

  /** Looks at every connection, some in each turn of the event loop; an earlier sweep that is under way goes first. */
  sweep(now: number): void {
    if (this.#sweeping) return;
    this.#sweeping = true;
    this.#sweepSome(this.#open.values(), now);
  }

  #sweepSome(rest: Iterator<Link>, now: number): void {
    for (let i = 0; i < SWEPT_AT_ONCE; i++) {
      const next = rest.next();
      if (next.done === true) {
        this.#sweeping = false;
        return;
      }
      next.value.activity.sweep(now);
    }
    setImmediate(() => this.#sweepSome(rest, now));
  }

  /** Lets every connection finish; resolves when none is left. */
  drain(): Promise<void> {
    if (this.#empty === undefined) {
      this.#draining = true;
      this.#empty = new Promise<void>((resolve) => {
        this.#onEmpty = resolve;
      });
      for (const link of [...this.#open]) link.activity.drain();
      if (this.#open.size === 0) this.#onEmpty?.();
    }
    return this.#empty;
  }

  /** Tells every connection that is left that its time is over. */
  cut(): void {
    for (const link of [...this.#open]) link.activity.cut?.();
  }

  destroyAll(): void {
    for (const link of [...this.#open]) link.wire.destroy();
  }
}

/** True when nobody takes anything from a socket, or from the TLS socket around it: it has to wait, nobody has begun, or all was said. */
export function isUnread(transport: Socket): boolean {
  return transport.readableFlowing !== true || transport.readableEnded;
}

/** For `error` events that need a listener and no action. */
export function ignore(): void {}
