import type { Socket } from 'node:net';
import type { SecureContext, TLSSocket } from 'node:tls';
import { ByteCollector } from '../../base/lib/byte-collector.ts';
import type { Clock } from '../../base/lib/clock.ts';
import type { Logger } from '../../base/lib/log.ts';
import type { Authority, Dialled, Tunnel } from '../../base/model/arrival.ts';
import { ClientHelloReader } from './client-hello.ts';
import { takesP256 } from './hello-keys.ts';
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
  /** The same with an RSA key, for a client that cannot be served otherwise. */
  readonly rsaContext: () => Promise<SecureContext>;
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
 * The part of an intercepted tunnel between its 200 and HTTP: finds out whether the client speaks TLS, and ends that in
 * this process. A client that speaks something else speaks plain HTTP (decision 3.8).
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
      else this.#readHello(socket, first);
    });
    socket.resume();
  }

  drain(): void {
    this.#options.link.socket.destroy();
  }

  sweep(now: number): void {
    if (now > this.#deadline) this.#options.link.socket.destroy();
  }

  /**
   * What the client can do must be known before it is served: which of our keys it takes, and which protocols the
   * origin may choose from.
   * @param first what it has said so far; it will be read again
   */
  #readHello(socket: Socket, first: Buffer): void {
    const whole = new ClientHelloReader();
    if (whole.push(first)) {
      this.#serve(socket, whole);
      return;
    }
    const reader = new ClientHelloReader();
    const held = new ByteCollector();
    const onData = (chunk: Buffer): void => {
      held.push(chunk);
      if (!reader.push(chunk)) return;
      socket.off('data', onData);
      socket.pause();
      socket.unshift(held.take());
      this.#serve(socket, reader);
    };
    socket.on('data', onData);
    socket.resume();
  }

  #serve(socket: Socket, { algorithms, protocols }: ClientHelloReader): void {
    const { context, rsaContext, dial, tunnel, log } = this.#options;
    const needsRsa = algorithms !== undefined && !takesP256(algorithms);
    if (!needsRsa && dial === undefined) {
      this.#terminate(socket, context, tunnel, PROTOCOLS);
      return;
    }
    const begin = async (): Promise<void> => {
      const own = needsRsa ? await rsaContext() : context;
      if (dial !== undefined) await this.#dialFirst(socket, own, dial, offeredOf(protocols));
      else if (!socket.destroyed) this.#terminate(socket, own, tunnel, PROTOCOLS);
    };
    begin().catch((error: unknown) => {
      log.error({ err: error, host: tunnel.authority.host }, dial ? 'an origin could not be dialled' : 'a client could not be served');
      socket.destroy();
    });
  }

  async #dialFirst(
    socket: Socket,
    context: SecureContext,
    dial: NonNullable<InterceptionOptions['dial']>,
    offered: readonly Protocol[],
  ): Promise<void> {
    const { link, tunnel, clock, limits } = this.#options;
    if (socket.destroyed) return;
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
    this.#terminate(socket, context, { ...tunnel, dialled }, [dialled.protocol]);
  }

  #terminate(socket: Socket, context: SecureContext, tunnel: Tunnel, protocols: readonly Protocol[]): void {
    const { link, inner, log, watch } = this.#options;
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

/** What the origin may choose from: a client without ALPN speaks HTTP/1.1. */
function offeredOf(protocols: readonly string[]): readonly Protocol[] {
  const offered = PROTOCOLS.filter((protocol) => protocols.includes(protocol));
  return offered.length === 0 ? ['http/1.1'] : offered;
}
