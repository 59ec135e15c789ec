import type { Socket } from 'node:net';
import { type SecureContext, TLSSocket } from 'node:tls';
import type { HandshakeRejectedEvent } from '../../base/events/execution-event.ts';
import type { Clock } from '../../base/lib/clock.ts';
import type { Logger } from '../../base/lib/log.ts';
import type { Tunnel } from '../../base/model/arrival.ts';
import type { InnerServers } from './inner-servers.ts';
import type { ListenerLimits } from './limits.ts';
import { type Activity, ignore, type Link } from './links.ts';
import { watchForRejection } from './rejection-watch.ts';

const ALPN_PROTOCOLS = ['h2', 'http/1.1'];
/** Content type of a TLS handshake record; a ClientHello begins with it. */
const TLS_HANDSHAKE = 0x16;

export interface InterceptionOptions {
  readonly link: Link;
  readonly tunnel: Tunnel;
  /** Of the CONNECT's authority; what the client says in SNI never chooses the leaf. */
  readonly context: SecureContext;
  readonly inner: InnerServers;
  readonly log: Logger;
  readonly clock: Clock;
  readonly limits: ListenerLimits;
  onRejected(event: HandshakeRejectedEvent): void;
}

/**
 * The part of an intercepted tunnel between its 200 and HTTP: finds out whether the client speaks TLS, and ends that in this process. A client that speaks
 * something else speaks plain HTTP (decision 3.8).
 */
export class Interception implements Activity {
  readonly #options: InterceptionOptions;
  /** Monotonic milliseconds. */
  readonly #deadline: number;

  constructor(options: InterceptionOptions) {
    const { socket } = options.link;
    this.#options = options;
    this.#deadline = options.clock.monotonic() + options.limits.handshakeMs;
    // Sockets of an http server stay half open for ever otherwise, once the client has left.
    socket.allowHalfOpen = false;
    socket.once('data', (first: Buffer) => {
      socket.pause();
      socket.unshift(first);
      if (first[0] === TLS_HANDSHAKE) this.#terminate(socket);
      else options.inner.acceptHttp1(options.link, socket, options.tunnel, false);
    });
    socket.resume();
  }

  drain(): void {
    this.#options.link.socket.destroy();
  }

  sweep(now: number): void {
    if (now > this.#deadline) this.#options.link.socket.destroy();
  }

  #terminate(socket: Socket): void {
    const { link, tunnel, context, inner, log, clock, limits, onRejected } = this.#options;
    const secure = new TLSSocket(socket, { isServer: true, server: inner.h2, secureContext: context, ALPNProtocols: ALPN_PROTOCOLS });
    // No SNICallback: it would fail every handshake without SNI. A client that does not trust our root shows as an error here.
    const onFailure = (error: Error): void => {
      log.debug({ host: tunnel.authority.host, reason: error.message }, 'TLS handshake with a client failed');
      socket.destroy();
    };
    secure.once('error', onFailure);
    watchForRejection({
      socket,
      secure,
      clock,
      silentCloseMs: limits.silentCloseMs,
      onRejected: (signal) => onRejected({ host: tunnel.authority.host, signal }),
    });
    secure.once('close', () => socket.destroy());
    secure.once('secure', () => {
      secure.off('error', onFailure);
      secure.on('error', ignore);
      // node:tls clears it for sockets of its own servers only; node:http2 waits for it.
      Object.assign(secure, { secureConnecting: false });
      if (secure.alpnProtocol === 'h2') inner.acceptHttp2(link, secure, tunnel);
      else inner.acceptHttp1(link, secure, tunnel, true);
    });
  }
}
