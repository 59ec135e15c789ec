import type { Socket } from 'node:net';
import type { Clock } from './clock.ts';
import { networkOf } from './ip.ts';
import { Roster, type Seat } from './roster.ts';
import { Shares } from './shares.ts';

/**
 * Connections that the kernel keeps for a port while nobody takes them (it has a limit of its own). Who comes when it
 * is full asks again after one, three, seven seconds.
 */
export const BACKLOG = 4_096;

export interface ConnectionSharesOptions {
  /** Connections of callers who have shown nothing, in all. */
  readonly strangers: number;
  /** Connections of callers who have shown who they are, in all. */
  readonly known: number;
  /** Of these, connections of one caller. */
  readonly each: number;
  readonly clock: Pick<Clock, 'after'>;
  /**
   * Milliseconds after which a connection that has shown nothing ends, whatever it does; absent: its server looks after
   * that.
   */
  readonly strangerMs?: number;
}

/** One open connection. */
export interface HeldConnection {
  readonly socket: Socket;
  /** Who has shown himself on it; undefined: nobody. */
  readonly caller: KnownCaller | undefined;
}

interface KnownCaller {
  readonly org: string;
  readonly id: string;
}

interface Held extends HeldConnection {
  caller: KnownCaller | undefined;
  readonly address: string;
  seat: Seat<Held> | undefined;
  cancel: () => void;
}

/**
 * The connections of one port (decision 7.12). Those of strangers have few places, shared by their addresses: where an
 * address, or everybody, has no further one, the oldest connection of that address makes way, or of the one that holds
 * most, so that who comes and shows at once who he is gets in, however many say nothing. Who has shown who he is holds
 * none of these, and is never cut for others.
 */
export class ConnectionShares {
  readonly #options: ConnectionSharesOptions;
  readonly #strangers: Shares;
  readonly #known: Shares;
  /** Of each address that has any, the oldest first. */
  readonly #byAddress = new Map<string, Roster<Held>>();
  readonly #all = new Roster<Held>();
  /** Connections that were ended for others, and because a caller had too many. */
  readonly counts = { madeWay: 0, refused: 0 };

  constructor(options: ConnectionSharesOptions) {
    this.#options = options;
    this.#strangers = new Shares(options.strangers);
    this.#known = new Shares(options.known);
  }

  get open(): number {
    return this.#all.size;
  }

  get openOfStrangers(): number {
    return this.#strangers.taken;
  }

  /** A connection has come, of which nothing is known. It counts until it is closed. */
  arrive(socket: Socket): HeldConnection {
    const address = networkOf(socket.remoteAddress ?? '');
    const held: Held = { socket, caller: undefined, address, seat: undefined, cancel: () => undefined };
    this.#makeRoom(address);
    this.#seat(held);
    const seat = this.#all.add(held);
    const { clock, strangerMs } = this.#options;
    if (strangerMs !== undefined) held.cancel = clock.after(strangerMs, () => socket.destroy());
    socket.once('close', () => {
      held.cancel();
      this.#leave(held);
      this.#all.remove(seat);
    });
    return held;
  }

  /**
   * The caller of a connection has shown who he is.
   * @returns false: he, his org or everybody has no further place, and the connection is ended
   */
  recognise(connection: HeldConnection, org: string, id: string): boolean {
    const held = connection as Held;
    if (held.caller !== undefined || held.socket.destroyed) return true;
    // Held by his own name: an org is asked for what its callers hold together.
    if (this.#known.full(org) !== undefined || this.#count(org, id) >= this.#options.each) {
      this.counts.refused++;
      held.socket.destroy();
      return false;
    }
    held.cancel();
    this.#leave(held);
    held.caller = { org, id };
    this.#known.take(org, id);
    return true;
  }

  /** All that are open. */
  [Symbol.iterator](): IterableIterator<HeldConnection> {
    return this.#all[Symbol.iterator]();
  }

  #makeRoom(address: string): void {
    const full = this.#strangers.full(address);
    if (full === undefined) return;
    const from = full === 'all' ? (this.#strangers.largest() ?? address) : address;
    for (const oldest of this.#byAddress.get(from) ?? []) {
      this.counts.madeWay++;
      oldest.cancel();
      this.#leave(oldest);
      oldest.socket.destroy();
      return;
    }
  }

  #seat(held: Held): void {
    const roster = this.#byAddress.get(held.address) ?? new Roster<Held>();
    this.#byAddress.set(held.address, roster);
    held.seat = roster.add(held);
    this.#strangers.take(held.address);
  }

  /** Gives back the place that it holds, whichever that is. The second time nothing is left to give. */
  #leave(held: Held): void {
    if (held.caller !== undefined) {
      this.#known.give(held.caller.org, held.caller.id);
      held.caller = undefined;
    }
    if (held.seat === undefined) return;
    const roster = this.#byAddress.get(held.address);
    roster?.remove(held.seat);
    if (roster?.size === 0) this.#byAddress.delete(held.address);
    held.seat = undefined;
    this.#strangers.give(held.address);
  }

  #count(org: string, id: string): number {
    let count = 0;
    for (const { caller } of this.#all) if (caller?.id === id && caller.org === org) count++;
    return count;
  }
}
