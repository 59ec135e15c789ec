import type { Socket } from 'node:net';
import type { Clock } from '../../base/lib/clock.ts';
import { isBroken, resetSocket } from '../../base/lib/sockets.ts';
import type { TrafficClass } from '../../base/model/action-request.ts';
import type { Authority } from '../../base/model/arrival.ts';
import { HelloGate, type JudgeServerName } from './hello-gate.ts';
import type { ListenerLimits } from './limits.ts';
import { type Activity, ignore, isUnread, type Link } from './links.ts';
import { SocketUnread } from './unread.ts';

/** What a blind tunnel carried, told when it is closed. */
export interface TunnelSummary {
  readonly authority: Authority;
  readonly trafficClass: TrafficClass;
  readonly remoteAddress: string;
  readonly bytesUp: number;
  readonly bytesDown: number;
  /** Milliseconds from the 200 to the close. */
  readonly durationMs: number;
}

export interface BlindTunnelOptions {
  readonly link: Link;
  readonly upstream: Socket;
  readonly authority: Authority;
  readonly clock: Clock;
  readonly limits: ListenerLimits;
  /** Without it nothing is looked at. */
  readonly judge: JudgeServerName | undefined;
  onClosed(summary: TunnelSummary): void;
}

/** Fatal alert `unrecognized_name` (RFC 6066 §3), in the clear as everything is before the ServerHello. */
const UNRECOGNIZED_NAME = Uint8Array.of(21, 3, 3, 0, 2, 2, 112);

/**
 * Copies bytes both ways, with back-pressure; an end in one direction is passed on and leaves the other open. A client
 * whose ClientHello is refused is told so by an alert, once that is on record, and its upstream never hears from it.
 */
export class BlindTunnel implements Activity {
  readonly #options: BlindTunnelOptions;
  readonly #startedAt: number;
  #activeAt: number;
  #up = 0;
  #down = 0;
  /** A client who pauses what passes may take his time, as long as nobody needs the room. */
  readonly unread: SocketUnread;
  #halves = 2;
  #draining = false;
  readonly #gate: HelloGate | undefined;
  #refused = false;
  /** Monotonic milliseconds until which a refused client may take to read why. */
  #lingersUntil = Number.POSITIVE_INFINITY;

  constructor(options: BlindTunnelOptions) {
    const { link, upstream, clock, limits, judge } = options;
    const client = link.socket;
    this.#options = options;
    this.#startedAt = clock.monotonic();
    this.#activeAt = this.#startedAt;
    upstream.allowHalfOpen = true;
    this.unread = new SocketUnread(client, { isTimed: false, more: () => upstream.writableLength });
    // Its end may have come before there was an upstream; what looks at it below sees that by itself.
    if (client.readableEnded) this.#halves--;
    for (const socket of [client, upstream]) {
      socket.setNoDelay(true);
      socket.setKeepAlive(true, 60_000);
      socket.once('end', () => {
        this.#halves--;
      });
    }
    upstream.on('error', ignore);
    client.on('data', (chunk: Uint8Array) => {
      this.#up += chunk.length;
      this.#activeAt = clock.monotonic();
    });
    upstream.on('data', (chunk: Uint8Array) => {
      this.#down += chunk.length;
      this.#activeAt = clock.monotonic();
    });
    // A side that broke off must not look to the other like one that had said all.
    client.once('close', (failed) => (failed || !client.readableEnded ? resetSocket(upstream) : upstream.destroySoon()));
    upstream.once('close', (failed) => {
      if (this.#refused) return;
      if (failed || !upstream.readableEnded) link.reset();
      else client.destroySoon();
    });
    let closed = 0;
    for (const socket of [client, upstream]) {
      socket.once('close', () => {
        closed++;
        if (closed === 2) this.#report();
      });
    }
    if (judge === undefined) {
      client.pipe(upstream);
    } else {
      const onRefused = (recorded: Promise<unknown>, heldBytes: number): void => this.#refuse(recorded, heldBytes);
      this.#gate = new HelloGate({ client, upstream, clock, holdMs: limits.helloMs, judge, onRefused });
    }
    upstream.pipe(client);
  }

  /** Breaks both sides off at once. */
  breakOff(): void {
    resetSocket(this.#options.upstream);
    this.#options.link.reset();
  }

  drain(): void {
    this.#draining = true;
    this.sweep(this.#options.clock.monotonic());
  }

  sweep(now: number): void {
    const { link, upstream, limits } = this.#options;
    if (isUnread(link.socket) && isBroken(link.wire)) link.socket.destroy();
    if (isUnread(upstream) && isBroken(upstream)) upstream.destroy();
    const silentMs = now - this.#activeAt;
    this.#gate?.sweep(now);
    if (now > this.#lingersUntil) link.socket.destroy();
    else if (this.#draining && silentMs >= limits.idleTunnelMs) link.socket.destroy();
    else if (this.#halves < 2 && silentMs > limits.halfOpenMs) link.socket.destroy();
  }

  #refuse(recorded: Promise<unknown>, heldBytes: number): void {
    const { link, upstream } = this.#options;
    this.#refused = true;
    this.#up -= heldBytes;
    resetSocket(upstream);
    const end = (): void => this.#endRefused(link.socket);
    recorded.then(end, end);
  }

  #endRefused(client: Socket): void {
    const { clock, limits } = this.#options;
    this.#lingersUntil = clock.monotonic() + limits.lingerMs;
    // To a client that has heard from the server already an alert would be noise.
    if (this.#down === 0) client.write(UNRECOGNIZED_NAME);
    client.end();
    if (client.readableEnded) client.destroySoon();
    else client.once('end', () => client.destroySoon());
    client.resume();
  }

  #report(): void {
    const { link, authority, clock, onClosed } = this.#options;
    onClosed({
      authority,
      trafficClass: link.trafficClass,
      remoteAddress: link.remoteAddress,
      bytesUp: this.#up,
      bytesDown: this.#down,
      durationMs: clock.monotonic() - this.#startedAt,
    });
  }
}
