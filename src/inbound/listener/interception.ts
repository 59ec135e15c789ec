import type { Socket } from 'node:net';
import type { SecureContext, TLSSocket } from 'node:tls';
import { ByteCollector } from '../../base/lib/byte-collector.ts';
import type { Clock } from '../../base/lib/clock.ts';
import type { Logger } from '../../base/lib/log.ts';
import type { Authority, Dialled, Tunnel } from '../../base/model/arrival.ts';
import { ClientHelloReader } from './client-hello.ts';
import type { InnerServers } from './inner-servers.ts';
import type { ListenerLimits } from './limits.ts';
import type { Activity, Link } from './links.ts';
import { endTls, isTls } from './server-tls.ts';

/** What a dialled origin is asked for, when the client offers it too. */
type Protocol = Dialled['protocol'];

const PROTOCOLS: readonly Protocol[] = ['h2', 'http/1.1'];

export interface InterceptionOptions {
  readonly link: Link;
  readonly tunnel: Tunnel;
  /** Of the CONNECT's authority; what the client says in SNI never chooses the leaf. */
  readonly context: SecureContext;
  readonly inner: InnerServers;
  readonly log: Logger;
  readonly clock: Clock;
  readonly limits: ListenerLimits;
  /** Given when the origin's connection comes before the client's handshake (decision 3.11). */
  readonly dial?: ((authority: Authority, protocols: readonly Protocol[]) => Promise<Dialled>) | undefined;
  /** Told of the TLS connection before its handshake begins. */
  watch(secure: TLSSocket): void;
}

/**
 * The part of an intercepted tunnel between its 200 and HTTP: finds out whether the client speaks TLS, and ends that in this process. A client that speaks
 * something else speaks plain HTTP (decision 3.8).
 */
export class Interception implements Activity {
  readonly #options: InterceptionOptions;
  /** Monotonic milliseconds. */
  #deadline: number;

  constructor(options: InterceptionOptions) {
    const { socket } = options.link;
    this.#options = options;
    this.#deadline = options.clock.monotonic() + options.limits.handshakeMs;
    // Sockets of an http server stay half open for ever otherwise, once the client has left.
    socket.allowHalfOpen = false;
    socket.once('data', (first: Buffer) => {
      socket.pause();
      socket.unshift(first);
      if (!isTls(first)) options.inner.acceptHttp1(options.link, socket, options.tunnel, false);
      else if (options.dial === undefined) this.#terminate(socket, options.tunnel, PROTOCOLS);
      else this.#readHello(socket, options.dial);
    });
    socket.resume();
  }

  drain(): void {
    this.#options.link.socket.destroy();
  }

  sweep(now: number): void {
    if (now > this.#deadline) this.#options.link.socket.destroy();
  }

  /** Which protocols the client speaks must be known before the origin is asked to choose one of them. */
  #readHello(socket: Socket, dial: NonNullable<InterceptionOptions['dial']>): void {
    const reader = new ClientHelloReader();
    const held = new ByteCollector();
    const onData = (chunk: Buffer): void => {
      held.push(chunk);
      if (!reader.push(chunk)) return;
      socket.off('data', onData);
      socket.pause();
      socket.unshift(held.take());
      const offered = PROTOCOLS.filter((protocol) => reader.protocols.includes(protocol));
      this.#dialFirst(socket, dial, offered.length === 0 ? ['http/1.1'] : offered).catch((error: unknown) => {
        this.#options.log.error({ err: error, host: this.#options.tunnel.authority.host }, 'an origin could not be dialled');
        socket.destroy();
      });
    };
    socket.on('data', onData);
    socket.resume();
  }

  async #dialFirst(socket: Socket, dial: NonNullable<InterceptionOptions['dial']>, offered: readonly Protocol[]): Promise<void> {
    const { link, tunnel, clock, limits } = this.#options;
    // The net room has limits of its own for each step.
    this.#deadline = Number.POSITIVE_INFINITY;
    const dialled = await dial(tunnel.authority, offered);
    if (socket.destroyed) {
      dialled.close();
      return;
    }
    this.#deadline = clock.monotonic() + limits.handshakeMs;
    socket.once('close', () => dialled.close());
    dialled.onGone(() => link.activity.drain());
    this.#terminate(socket, { ...tunnel, dialled }, [dialled.protocol]);
  }

  #terminate(socket: Socket, tunnel: Tunnel, protocols: readonly Protocol[]): void {
    const { link, context, inner, log, watch } = this.#options;
    // What the client says in SNI never chooses the leaf. A client that does not trust our root shows as an error here.
    const secure = endTls(socket, {
      context,
      protocols,
      server: inner.h2,
      onFailure: (error) => log.debug({ host: tunnel.authority.host, reason: error.message }, 'TLS handshake with a client failed'),
      onSecure: () => {
        if (secure.alpnProtocol === 'h2') inner.acceptHttp2(link, secure, tunnel);
        else inner.acceptHttp1(link, secure, tunnel, true);
      },
    });
    watch(secure);
  }
}
