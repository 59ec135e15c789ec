import { connect, createServer, type Server, type Socket } from 'node:net';
import { closeServer, listenOnFreePort, trackSockets } from '../support/tls-upstream.ts';
import type { CleanUp } from './checks.ts';
import { queuesOf } from './process-state.ts';
import type { Seeded } from './seeded.ts';

/** What may befall a connection. `half-close`: the gateway sees one direction end while the other goes on. */
export const FAULTS = ['reset', 'close', 'half-close', 'stall', 'stall, then reset'] as const;
export type FaultKind = (typeof FAULTS)[number];

/** Which of the two sides of the relay the gateway is on. */
export type GatewaySide = 'accepting' | 'dialling';

export interface Strike {
  readonly kind: FaultKind;
  /** Of `performance.now()`, like the next. */
  readonly at: number;
  /** 0: nothing stood still. */
  readonly stalledUntil: number;
}

interface Fault {
  readonly kind: FaultKind;
  /**
   * After so many bytes of one direction, in the middle of a chunk where it falls there, or after so many milliseconds.
   */
  readonly after: { readonly bytes: number; readonly from: 'caller' | 'target' } | { readonly ms: number };
  readonly stallMs: number;
}

const KINDS: readonly (readonly [number, FaultKind])[] = [
  [3, 'reset'],
  [3, 'close'],
  [3, 'half-close'],
  [2, 'stall'],
  [2, 'stall, then reset'],
];
/** How long the other direction of a half-closed connection may still say something. */
const HALF_OPEN_MS = 1_500;

/**
 * Stands in the way of TCP connections and breaks them at moments that the seed picks: whatever is spoken inside, the
 * gateway sees a peer that is killed, stalls, or says half of what it has to say.
 */
export class FaultyRelay {
  readonly port: number;
  /** While false, connections are relayed as they are. */
  armed = true;
  /** Faults that struck, by kind. */
  readonly struck = new Map<FaultKind, number>();
  /**
   * By the port that the other side of the gateway knows a connection by, in the order of their opening: ports are used
   * again and again.
   */
  readonly #pairs = new Map<number, Pair[]>();
  readonly #random: Seeded;
  readonly #gatewaySide: GatewaySide;

  private constructor(server: Server, port: number, target: number, random: Seeded, gatewaySide: GatewaySide) {
    this.port = port;
    this.#random = random;
    this.#gatewaySide = gatewaySide;
    server.on('connection', (caller: Socket) => this.#relay(caller, target));
  }

  static async start(cleanUp: CleanUp, target: number, random: Seeded, gatewaySide: GatewaySide): Promise<FaultyRelay> {
    const server = createServer({ allowHalfOpen: true, noDelay: true });
    const sockets = trackSockets(server);
    const port = await listenOnFreePort(server);
    cleanUp.teardown(() => closeServer(server, sockets));
    return new FaultyRelay(server, port, target, random, gatewaySide);
  }

  /**
   * What befell the connection that used this port at this time (`performance.now()`): a client's own port, or the one
   * that an upstream sees.
   */
  strikesOn(port: number, at: number): readonly Strike[] {
    return this.#pairs.get(port)?.findLast(({ openedAt }) => openedAt <= at)?.strikes ?? [];
  }

  /** Until when that connection stood still (`performance.now()`); 0 when it never did. */
  stalledUntil(port: number, at: number): number {
    return Math.max(0, ...this.strikesOn(port, at).map((strike) => strike.stalledUntil));
  }

  /** Where that connection stands, for whoever has to find out why nothing moves on it. */
  standOf(port: number, at: number): string | undefined {
    return this.#pairs.get(port)?.findLast(({ openedAt }) => openedAt <= at)?.stand;
  }

  #relay(caller: Socket, targetPort: number): void {
    const target = connect({ port: targetPort, host: '127.0.0.1', allowHalfOpen: true, noDelay: true });
    const pair = new Pair(caller, target, this.#gatewaySide === 'dialling' ? caller : target);
    if (this.#gatewaySide === 'accepting') this.#file(caller.remotePort, pair);
    else target.once('connect', () => this.#file(target.localPort, pair));
    const fault = this.armed ? this.#draw() : undefined;
    if (fault === undefined) return;
    const strike = (): void => {
      if (!this.armed || pair.over) return;
      this.struck.set(fault.kind, (this.struck.get(fault.kind) ?? 0) + 1);
      pair.strike(fault.kind, fault.stallMs);
    };
    if ('ms' in fault.after) pair.later(fault.after.ms, strike);
    else pair.watch(fault.after.from === 'caller' ? caller : target, fault.after.bytes, strike);
  }

  #file(port: number | undefined, pair: Pair): void {
    if (port === undefined) return;
    const earlier = this.#pairs.get(port);
    if (earlier === undefined) this.#pairs.set(port, [pair]);
    else earlier.push(pair);
  }

  /** Undefined for a connection that is left alone. */
  #draw(): Fault | undefined {
    const random = this.#random;
    if (random.chance(0.25)) return undefined;
    // As many among the first ten bytes as among ten thousand.
    const bytes = Math.floor(10 ** (random.next() * 5.5));
    const after = random.chance(0.6)
      ? ({ bytes, from: random.chance(0.5) ? 'caller' : 'target' } as const)
      : ({ ms: random.between(0, 3_000) } as const);
    return { kind: random.weighted(KINDS), after, stallMs: random.between(100, 1_500) };
  }
}

/** Two sockets that pass on to each other what they get, ends and breaks included. */
class Pair {
  readonly openedAt = performance.now();
  readonly strikes: Strike[] = [];
  readonly #caller: Socket;
  readonly #target: Socket;
  readonly #gateway: Socket;
  #stalled = false;
  #halfClosed = false;
  #watched: { readonly from: Socket; left: number; readonly then: () => void } | undefined;
  readonly #timers = new Set<NodeJS.Timeout>();

  constructor(caller: Socket, target: Socket, gateway: Socket) {
    this.#caller = caller;
    this.#target = target;
    this.#gateway = gateway;
    this.#pass(caller, target);
    this.#pass(target, caller);
  }

  get over(): boolean {
    return this.#caller.destroyed && this.#target.destroyed;
  }

  get stand(): string {
    const side = (socket: Socket): string => {
      const { bytesRead, bytesWritten, writableLength, destroyed } = socket;
      // The other port is one that everybody connects to.
      const queues = queuesOf((socket === this.#caller ? socket.remotePort : socket.localPort) ?? 0);
      return JSON.stringify({ paused: socket.isPaused(), bytesRead, bytesWritten, writableLength, destroyed, queues });
    };
    const strikes = this.strikes.map(({ kind, at }) => `${kind} ${(performance.now() - at).toFixed(0)} ms ago`).join(', ');
    return `relay${this.#stalled ? ', stalled' : ''}: ${strikes || 'not struck'}; caller ${side(this.#caller)}; target ${side(this.#target)}`;
  }

  later(ms: number, step: () => void): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      step();
    }, ms);
    this.#timers.add(timer);
  }

  /** Calls `then` when `from` has said so many bytes; what it says beyond them at once comes after that. */
  watch(from: Socket, bytes: number, then: () => void): void {
    this.#watched = { from, left: bytes, then };
  }

  strike(kind: FaultKind, stallMs: number): void {
    const now = performance.now();
    this.strikes.push({ kind, at: now, stalledUntil: kind.startsWith('stall') ? now + stallMs : 0 });
    switch (kind) {
      case 'reset':
        this.#break((socket) => socket.resetAndDestroy());
        return;
      case 'close':
        this.#break((socket) => socket.destroy());
        return;
      case 'half-close':
        this.#halfClosed = true;
        this.#gateway.end();
        this.later(HALF_OPEN_MS, () => this.#break((socket) => socket.resetAndDestroy()));
        return;
      case 'stall':
      case 'stall, then reset':
        this.#stalled = true;
        this.#caller.pause();
        this.#target.pause();
        this.later(stallMs, () => {
          this.#stalled = false;
          if (kind === 'stall') this.#resume();
          else this.#break((socket) => socket.resetAndDestroy());
        });
    }
  }

  #pass(from: Socket, to: Socket): void {
    from.on('error', () => undefined);
    from.on('data', (chunk: Buffer) => {
      const watched = this.#watched;
      if (watched?.from !== from || watched.left > chunk.length) {
        if (watched?.from === from) watched.left -= chunk.length;
        this.#give(chunk, from, to);
        return;
      }
      this.#watched = undefined;
      if (watched.left > 0) this.#give(chunk.subarray(0, watched.left), from, to);
      watched.then();
      if (!this.over && watched.left < chunk.length) this.#give(chunk.subarray(watched.left), from, to);
    });
    from.on('end', () => {
      if (!to.writableEnded) to.end();
    });
    from.on('close', (failed) => {
      if (this.over) for (const timer of this.#timers) clearTimeout(timer);
      if (to.destroyed) return;
      // Nobody is left to hear what `to` may still say.
      if (failed || !from.readableEnded) to.resetAndDestroy();
      else to.destroySoon();
    });
  }

  #give(chunk: Buffer, from: Socket, to: Socket): void {
    // Nobody hears what is said to a side that was told that there is no more.
    if ((this.#halfClosed && to === this.#gateway) || to.destroyed || to.writableEnded) return;
    if (to.write(chunk)) return;
    from.pause();
    to.once('drain', () => {
      if (!this.#stalled) from.resume();
    });
  }

  #resume(): void {
    for (const [from, to] of [
      [this.#caller, this.#target],
      [this.#target, this.#caller],
    ] as const) {
      if (!to.writableNeedDrain) from.resume();
    }
  }

  #break(how: (socket: Socket) => void): void {
    how(this.#caller);
    how(this.#target);
  }
}
