import type { Clock } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { networkOf } from '../../base/lib/ip.ts';
import { Roster, type Seat } from '../../base/lib/roster.ts';

/** Of all buffers, what one client may hold: with less than all of them nobody shuts the others out. */
const CLIENT_SHARE = 0.5;
/**
 * What arrives slower than so many bytes in so long loses its place to who needs it; while there is room it may take
 * its time.
 */
const PROGRESS_BYTES = 16_384;
const PATIENCE_MS = 5_000;

/**
 * Counts the bytes that all requests together hold in memory (`GW_MAX_BUFFERED_BYTES`), and what each client does. They
 * are taken as they arrive, never as they are announced. One body alone always fits: nobody's largest permitted body is
 * refused because a limit is smaller than what is held of it.
 */
export class BufferBudget {
  readonly #limit: number;
  readonly #clientLimit: number;
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #clients = new Map<string, number>();
  /** Bodies of which more is to come; the one that has not moved for longest is the first. */
  readonly #arriving = new Roster<BufferHold>();
  #used = 0;

  constructor(limitBytes: number, clock: Pick<Clock, 'monotonic'>) {
    this.#limit = limitBytes;
    this.#clientLimit = limitBytes * CLIENT_SHARE;
    this.#clock = clock;
  }

  get used(): number {
    return this.#used;
  }

  /**
   * For what belongs to no client.
   * @throws GatewayError `overloaded` when the limit would be passed; then nothing is taken.
   */
  take(bytes: number): void {
    if (!this.tryTake(bytes)) throw inUse();
  }

  tryTake(bytes: number): boolean {
    while (this.#used + bytes > this.#limit) if (!this.#makeRoom()) return false;
    this.#used += bytes;
    return true;
  }

  give(bytes: number): void {
    this.#used -= bytes;
  }

  /** What one request is going to hold. `client`: who is counted for it; see {@link clientOf}. */
  hold(client: string): BufferHold {
    return new BufferHold(this, client);
  }

  /** For {@link BufferHold}. @throws GatewayError `overloaded` */
  takeFor(hold: BufferHold, bytes: number): void {
    const { client } = hold;
    let held = this.#clients.get(client) ?? 0;
    for (; held + bytes > this.#clientLimit && held > hold.bytes; held = this.#clients.get(client) ?? 0) {
      if (!this.#makeRoom(hold, client)) throw shareInUse();
    }
    while (this.#used + bytes > this.#limit && this.#used > hold.bytes) if (!this.#makeRoom(hold)) throw inUse();
    this.#used += bytes;
    this.#clients.set(client, (this.#clients.get(client) ?? 0) + bytes);
  }

  /** For {@link BufferHold}. */
  giveFor(client: string, bytes: number): void {
    this.#used -= bytes;
    const left = (this.#clients.get(client) ?? 0) - bytes;
    if (left > 0) this.#clients.set(client, left);
    else this.#clients.delete(client);
  }

  /**
   * For {@link BufferHold}.
   * @param seat that it had.
   * @returns the one that it has now, behind all others, and the time, monotonic milliseconds
   */
  moved(hold: BufferHold, seat: Seat<BufferHold> | undefined): { readonly seat: Seat<BufferHold>; readonly at: number } {
    if (seat !== undefined) this.#arriving.remove(seat);
    return { seat: this.#arriving.add(hold), at: this.#clock.monotonic() };
  }

  /** For {@link BufferHold}. */
  arrived(seat: Seat<BufferHold>): void {
    this.#arriving.remove(seat);
  }

  /** Lets go of the body that has not moved for longest, of `client` or of anybody. False: all of them move. */
  #makeRoom(except?: BufferHold, client?: string): boolean {
    const before = this.#clock.monotonic() - PATIENCE_MS;
    for (const hold of this.#arriving) {
      if (hold.movedAt > before) return false;
      if (hold === except || (client !== undefined && hold.client !== client)) continue;
      hold.evict();
      return true;
    }
    return false;
  }
}

/** What one request holds of the budget. */
export class BufferHold {
  readonly client: string;
  readonly #budget: BufferBudget;
  #bytes = 0;
  #stop: ((reason: GatewayError) => void) | undefined;
  /** While it arrives. */
  #seat: Seat<BufferHold> | undefined;
  #markedBytes = 0;
  #movedAt = 0;
  #made = 0;

  constructor(budget: BufferBudget, client: string) {
    this.#budget = budget;
    this.client = client;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** When it was last seen to arrive, monotonic milliseconds. */
  get movedAt(): number {
    return this.#movedAt;
  }

  /** @throws GatewayError `overloaded` when all buffers are in use, or this client's share; then nothing is taken. */
  take(bytes: number): void {
    this.#budget.takeFor(this, bytes);
    this.#bytes += bytes;
  }

  /**
   * So many bytes were made of the body beside its own: text and parsed form. What is made and let go of in one turn
   * exists once, whatever the number of calls.
   */
  made(bytes: number): void {
    this.#made += bytes;
  }

  /**
   * Takes what was made: to be called before a call waits for anything, since that exists with each of them.
   * @throws GatewayError `overloaded`
   */
  takeMade(): void {
    const bytes = this.#made;
    this.#made = 0;
    this.take(bytes);
  }

  /** Gives back all but so many bytes. */
  keep(bytes: number): void {
    if (this.#stop !== undefined) this.settle();
    const surplus = this.#bytes - bytes;
    if (surplus <= 0) return;
    this.#bytes = bytes;
    this.#budget.giveFor(this.client, surplus);
  }

  /** What is held now is so much, more or less than before. @throws GatewayError `overloaded` */
  resize(bytes: number): void {
    if (bytes > this.#bytes) this.take(bytes - this.#bytes);
    else this.keep(bytes);
  }

  /**
   * Takes what has arrived of a body of which more is to come.
   * @param stop ends its reading when others need the room and it does not move
   * @throws GatewayError `overloaded`
   */
  arrive(bytes: number, stop: (reason: GatewayError) => void): void {
    this.take(bytes);
    if (this.#stop !== undefined && this.#bytes - this.#markedBytes < PROGRESS_BYTES) return;
    this.#stop = stop;
    this.#markedBytes = this.#bytes;
    const { seat, at } = this.#budget.moved(this, this.#seat);
    this.#seat = seat;
    this.#movedAt = at;
  }

  /** Nothing more is to come. */
  settle(): void {
    if (this.#stop === undefined) return;
    this.#stop = undefined;
    if (this.#seat !== undefined) this.#budget.arrived(this.#seat);
    this.#seat = undefined;
  }

  /** Its place goes to who needs it. */
  evict(): void {
    const stop = this.#stop;
    this.keep(0);
    stop?.(new GatewayError('overloaded', 'The body came too slowly while request buffers were short; try again in a moment.'));
  }
}

function inUse(): GatewayError {
  return new GatewayError('overloaded', 'All request buffers are in use; try again in a moment.');
}

function shareInUse(): GatewayError {
  return new GatewayError(
    'overloaded',
    'This client holds its share of the request buffers; let its other calls end, or try again in a moment.',
  );
}

/** What somebody has proven himself with. */
interface Proven {
  readonly workload: string | undefined;
  readonly apiKey: { readonly id: string } | undefined;
}

/**
 * Who is counted for what a request holds: the workload that has shown its token, the API key, else the caller's
 * address. Of IPv6 it is the network of 64 bits, as many addresses as one machine may give itself.
 */
export function clientOf(callerIp: string, proven: Proven | undefined): string {
  if (proven?.workload !== undefined) return `workload ${proven.workload}`;
  if (proven?.apiKey !== undefined) return `key ${proven.apiKey.id}`;
  // Asked for each call: most addresses need no look.
  return callerIp.includes(':') ? networkOf(callerIp) : callerIp;
}
