import type { Socket } from 'node:net';
import { mayTake } from '../../base/lib/shares.ts';
import { resetSocket } from '../../base/lib/sockets.ts';
import { UnreadAnswers } from '../../base/lib/unread-answers.ts';
import type { TrafficClass } from '../../base/model/action-request.ts';
import { AddressShare, AddressShares } from './client-shares.ts';
import { DEFAULT_LIMITS, type ListenerLimits } from './limits.ts';
import type { Unread } from './unread.ts';

/** What a client's connection is busy with at the moment. */
export interface Activity {
  /** Called once when draining begins: end what is idle at once, the rest when it is done. */
  drain(): void;
  /**
   * Called once, behind `drain`, when the time for that is over: tell whoever can still be told; a moment later the
   * connection is destroyed.
   */
  cut?(): void;
  /** Called every {@link ListenerLimits.sweepMs} with monotonic milliseconds; ends what is past its deadline. */
  sweep(now: number): void;
  /** Nothing is under way, so that its place can be given to others. Absent: there is. */
  readonly isIdle?: boolean;
  /** Absent: what waits for the client does not count. */
  readonly unread?: Unread;
}

/** At 7 µs for one that has to be asked whether it is broken, 1 ms. */
const SWEPT_AT_ONCE = 128;

const NOTHING: Activity = { drain: () => undefined, sweep: () => undefined, isIdle: true };

/** One TCP connection of a client, from accept to close. */
export class Link {
  /** The TCP connection itself. */
  readonly wire: Socket;
  /** What the client speaks HTTP on: the wire, or our own TLS around it (decision 12.1). */
  socket: Socket;
  readonly trafficClass: TrafficClass;
  /** TCP peer without port; an IPv4 peer of a dual-stack socket in its IPv4 form. */
  readonly remoteAddress: string;
  /** What the clients of its address hold together. */
  readonly share: AddressShare;
  activity: Activity = NOTHING;

  /** @param shareOf gives the share of an address; default: one of its own */
  constructor(socket: Socket, trafficClass: TrafficClass, shareOf = (key: string) => new AddressShare(key, false)) {
    const address = socket.remoteAddress ?? '';
    this.wire = socket;
    this.socket = socket;
    this.trafficClass = trafficClass;
    this.remoteAddress = address.startsWith('::ffff:') && address.includes('.') ? address.slice(7) : address;
    this.share = shareOf(this.remoteAddress);
  }

  /** Closes with RST, so that nobody takes what was sent for complete. */
  reset(): void {
    resetSocket(this.wire);
  }
}

/** Connections that were closed here, by why. */
export interface ClosedCounts {
  /** For others. */
  made_room: number;
  /** There was no room. */
  refused: number;
  /** Nobody read what was sent on them. */
  unread: number;
}

export interface LinksOptions {
  readonly limits: Pick<ListenerLimits, 'maxConnections' | 'maxUnreadBytes' | 'unreadMs'>;
  /** Whether an address is that of a proxy whom the operator trusts. */
  isProxy(address: string): boolean;
}

/** Connections that make room at once, of those of one address: each look for them walks all that are open. */
const MADE_ROOM = 1 / 32;

/** Every connection that is open. */
export class Links {
  readonly #open = new Set<Link>();
  readonly #shares: AddressShares;
  readonly #max: number;
  readonly #unreadMs: number;
  readonly unread: UnreadAnswers;
  readonly counts: ClosedCounts = { made_room: 0, refused: 0, unread: 0 };
  #draining = false;
  #sweeping = false;
  #empty: Promise<void> | undefined;
  #onEmpty: (() => void) | undefined;

  constructor({ limits, isProxy }: LinksOptions = { limits: DEFAULT_LIMITS, isProxy: () => false }) {
    this.#shares = new AddressShares(isProxy);
    this.#max = limits.maxConnections;
    this.#unreadMs = limits.unreadMs;
    this.unread = new UnreadAnswers(limits.maxUnreadBytes);
  }

  get draining(): boolean {
    return this.#draining;
  }

  get size(): number {
    return this.#open.size;
  }

  /** @returns undefined: there is no room, and the connection is ended */
  open(socket: Socket, trafficClass: TrafficClass): Link | undefined {
    const link = new Link(socket, trafficClass, (address) => this.#shares.enter(address));
    // Errors of a client's connection end in `close`; there is nothing else to do about them.
    socket.on('error', ignore);
    if (!this.#hasRoom(link.share)) {
      this.#shares.leave(link.share);
      this.counts.refused++;
      resetSocket(socket);
      return undefined;
    }
    this.#open.add(link);
    socket.once('close', () => {
      this.#leave(link);
      if (this.#open.size === 0) this.#onEmpty?.();
    });
    return link;
  }

  #leave(link: Link): void {
    if (this.#open.delete(link)) this.#shares.leave(link.share);
  }

  /** For one more of an address, which counts already; others may have to go for it (decision 7.12). */
  #hasRoom(share: AddressShare): boolean {
    const free = this.#max - this.#open.size;
    if (free <= 0) return this.#makeRoom(this.#shares.largest() ?? share);
    return share.isProxy || mayTake(share.connections - 1, free) || this.#makeRoom(share);
  }

  /** Ends the oldest connections of an address that have nothing under way; those that never had anything go first. */
  #makeRoom(share: AddressShare): boolean {
    let left = Math.max(1, Math.floor(share.connections * MADE_ROOM));
    const before = left;
    for (const isUsed of [false, true]) {
      for (const link of this.#open) {
        if (left === 0) return true;
        if (link.share !== share || link.activity.isIdle !== true || link.wire.bytesWritten > 0 !== isUsed) continue;
        this.#leave(link);
        this.counts.made_room++;
        link.wire.destroy();
        left--;
      }
    }
    return left < before;
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
        this.unread.settle();
        return;
      }
      this.#look(next.value, now);
    }
    setImmediate(() => this.#sweepSome(rest, now));
  }

  #look(link: Link, now: number): void {
    link.activity.sweep(now);
    const { unread } = link.activity;
    const bytes = unread?.look(now) ?? 0;
    if (unread === undefined || bytes === 0 || link.wire.destroyed) return;
    if (unread.isTimed === true && now - unread.since > this.#unreadMs) {
      this.counts.unread++;
      link.reset();
      return;
    }
    this.unread.note({ share: link.share.key, bytes, since: unread.since, close: () => link.reset() });
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

/**
 * True when nobody takes anything from a socket, or from the TLS socket around it: it has to wait, nobody has begun, or
 * all was said.
 */
export function isUnread(transport: Socket): boolean {
  return transport.readableFlowing !== true || transport.readableEnded;
}

/** For `error` events that need a listener and no action. */
export function ignore(): void {}
