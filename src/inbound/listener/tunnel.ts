import type { Socket } from 'node:net';
import type { Clock } from '../../base/lib/clock.ts';
import type { Authority } from '../../base/model/arrival.ts';
import type { TrafficClass } from '../../base/model/connection.ts';
import type { ListenerLimits } from './limits.ts';
import { type Activity, ignore, type Link } from './links.ts';

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
  onClosed(summary: TunnelSummary): void;
}

/** Copies bytes both ways, with back-pressure; an end in one direction is passed on and leaves the other open. */
export class BlindTunnel implements Activity {
  readonly #options: BlindTunnelOptions;
  readonly #startedAt: number;
  #activeAt: number;
  #up = 0;
  #down = 0;
  #halves = 2;
  #draining = false;

  constructor(options: BlindTunnelOptions) {
    const { link, upstream, clock } = options;
    const client = link.socket;
    this.#options = options;
    this.#startedAt = clock.monotonic();
    this.#activeAt = this.#startedAt;
    client.allowHalfOpen = true;
    upstream.allowHalfOpen = true;
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
    client.once('close', (failed) => (failed || !client.readableEnded ? upstream.resetAndDestroy() : upstream.destroySoon()));
    upstream.once('close', (failed) => (failed || !upstream.readableEnded ? link.reset() : client.destroySoon()));
    let closed = 0;
    for (const socket of [client, upstream]) {
      socket.once('close', () => {
        closed++;
        if (closed === 2) this.#report();
      });
    }
    client.pipe(upstream);
    upstream.pipe(client);
  }

  drain(): void {
    this.#draining = true;
    this.sweep(this.#options.clock.monotonic());
  }

  sweep(now: number): void {
    const { link, limits } = this.#options;
    const silentMs = now - this.#activeAt;
    if (this.#draining && silentMs >= limits.idleTunnelMs) link.socket.destroy();
    else if (this.#halves < 2 && silentMs > limits.halfOpenMs) link.socket.destroy();
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
