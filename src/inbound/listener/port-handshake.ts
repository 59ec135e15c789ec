import type { Http2SecureServer } from 'node:http2';
import type { Socket } from 'node:net';
import type { SecureContext, TLSSocket } from 'node:tls';
import type { Clock } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { ListenerLimits } from './limits.ts';
import type { Activity, Link } from './links.ts';
import { endTls, isTls } from './server-tls.ts';

/** The TLS of the ports themselves (decision 12.1). */
export interface PortTls {
  /** What a connection that begins now is shown. */
  context(): SecureContext;
  /** A client and we did not agree. */
  onFailure?(error: Error): void;
}

/** What is said to who speaks plain HTTP there. */
export const HTTPS_NEEDED = new GatewayError(
  'https_required',
  'This port speaks TLS (GW_TLS_CERT_FILE): use https:// in the address of the gateway, or of the proxy.',
);

export interface PortHandshakeOptions {
  readonly link: Link;
  readonly tls: PortTls;
  readonly protocols: readonly string[];
  readonly server: Http2SecureServer;
  readonly clock: Clock;
  readonly limits: Pick<ListenerLimits, 'handshakeMs'>;
  onSecure(secure: TLSSocket): void;
  /** It is no TLS; nothing of it was read. */
  onPlain(): void;
}

/** A connection to a port that speaks TLS, from its accept to HTTP. */
export class PortHandshake implements Activity {
  readonly isIdle = true;
  readonly #wire: Socket;
  /** Monotonic milliseconds. */
  readonly #deadline: number;
  /** A byte has come. */
  #begun = false;

  constructor(options: PortHandshakeOptions) {
    const { link, tls, protocols, server, clock, limits, onSecure, onPlain } = options;
    const { wire } = link;
    this.#wire = wire;
    this.#deadline = clock.monotonic() + limits.handshakeMs;
    // Sockets of an http server stay half open for ever otherwise, once the client has left.
    wire.allowHalfOpen = false;
    wire.once('data', (first: Buffer) => {
      this.#begun = true;
      wire.pause();
      wire.unshift(first);
      if (!isTls(first)) onPlain();
      else endTls(wire, { context: tls.context(), protocols, server, onSecure, onFailure: (error) => tls.onFailure?.(error) });
    });
    wire.resume();
  }

  /** Who has just connected is let finish: his first request may be on its way. */
  drain(): void {
    if (!this.#begun) this.#wire.destroy();
  }

  sweep(now: number): void {
    if (now > this.#deadline) this.#wire.destroy();
  }
}
