import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { SecureContext, TLSSocket } from 'node:tls';
import type { HandshakeRejectedEvent } from '../../base/events/events.ts';
import { requestLine, type UnrecordedEvent } from '../../base/events/unrecorded.ts';
import type { Clock } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { REQUEST_ID_HEADER, requestIdOf } from '../../base/lib/ids.ts';
import type { Logger } from '../../base/lib/log.ts';
import { stopping } from '../../base/lib/stopping.ts';
import type { Authority, Dialled, Tunnel, WaitingClient } from '../../base/model/arrival.ts';
import type { LeafKey } from '../ca/certificate-authority.ts';
import type { Holder } from './client-shares.ts';
import { type ConnectRequest, readConnect } from './connect-request.ts';
import { rawErrorReply } from './error-reply.ts';
import type { JudgeServerName } from './hello-gate.ts';
import type { InnerServers } from './inner-servers.ts';
import { Interception } from './interception.ts';
import type { ListenerLimits } from './limits.ts';
import type { Link, Links } from './links.ts';
import { holderOfTunnel, type OpenTunnels } from './open-tunnels.ts';
import type { OwnAddresses } from './own-addresses.ts';
import { RejectionWatch, tlsClientOf } from './rejection-watch.ts';
import { BlindTunnel, type TunnelSummary } from './tunnel.ts';

/** What is done with one CONNECT. */
export type ConnectVerdict =
  /** `dialFirst`: the origin's connection comes before the client's handshake (decision 3.11). */
  | { readonly kind: 'intercept'; readonly tunnel: Tunnel; readonly dialFirst?: boolean }
  /**
   * `judge` is asked about each host that a ClientHello names, before its bytes go on. `headers` of the answer, a flat
   * name, value list. `notOpened` is told when the client is never told that the tunnel is open. `watch` may end the
   * tunnel at any time from its beginning on, until what it returns is called.
   */
  | {
      readonly kind: 'tunnel';
      readonly judge?: JudgeServerName;
      /** Who has shown who he is. */
      readonly holder?: Holder | undefined;
      readonly headers?: readonly string[];
      readonly notOpened?: () => void;
      readonly watch?: (end: () => void) => () => void;
    }
  /** `headers` is a flat name, value list. */
  | { readonly kind: 'refuse'; readonly error: GatewayError; readonly headers?: readonly string[] };

export interface ConnectDoorOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly limits: ListenerLimits;
  readonly links: Links;
  readonly inner: InnerServers;
  readonly own: OwnAddresses;
  readonly tunnels: OpenTunnels;
  readonly connectPorts: ReadonlySet<number>;
  /** Absent when interception is off. */
  readonly contextFor: ((host: string, key?: LeafKey) => Promise<SecureContext>) | undefined;
  /** @param client that waits for the answer */
  decide(request: ConnectRequest, client: WaitingClient): Promise<ConnectVerdict>;
  dial(authority: Authority, signal: AbortSignal, request: ConnectRequest): Promise<Socket>;
  dialOrigin(authority: Authority, protocols: readonly Dialled['protocol'][]): Promise<Dialled>;
  onRefused(event: UnrecordedEvent): void;
  onTunnelClosed(summary: TunnelSummary): void;
  onHandshakeRejected(event: HandshakeRejectedEvent): void;
}

/** Who has sent a CONNECT: nothing is read of it until it is answered, so that it is looked whether it leaves. */
class ConnectingClient implements WaitingClient {
  readonly #socket: Socket;
  readonly #left: AbortSignal;
  /** Its end is seen where there is nothing to read before that; what it sends stays where it is. */
  readonly #look = (): void => {
    if (this.#socket.readableLength === 0) this.#socket.read();
  };

  constructor(socket: Socket, left: AbortSignal) {
    this.#socket = socket;
    this.#left = left;
  }

  onGone(listener: () => void): void {
    if (this.#left.aborted) listener();
    else this.#left.addEventListener('abort', listener, { once: true });
    this.#socket.once('end', listener);
  }

  held(): void {
    // It may be held more than once.
    this.#socket.off('readable', this.#look).on('readable', this.#look);
  }

  answered(): void {
    this.#socket.off('readable', this.#look);
  }
}

const ESTABLISHED = established();
/** Decision 3.7; every other refusal is given inside the tunnel, and a fault of ours says 503. */
const CONNECT_STATUSES = new Set([400, 403, 407, 429, 502, 503, 504, 508]);

/** Answers CONNECT: refuses, ends TLS here, or copies bytes. */
export class ConnectDoor {
  readonly #options: ConnectDoorOptions;
  readonly #rejections: RejectionWatch;

  constructor(options: ConnectDoorOptions) {
    const { clock, limits, onHandshakeRejected } = options;
    this.#options = options;
    this.#rejections = new RejectionWatch({ clock, limits, onRejected: onHandshakeRejected });
  }

  /** Handshakes that wait to be judged are not any more. */
  stop(): void {
    this.#rejections.stop();
  }

  /** Takes over a connection whose CONNECT has been read. `head` is what came right behind it. Never throws. */
  accept(request: IncomingMessage, link: Link, head: Buffer): void {
    const { socket } = link;
    socket.setTimeout(0);
    socket.setNoDelay(true);
    // A client that has said all waits for the answer; TLS sockets would be ended before there is a tunnel.
    socket.allowHalfOpen = true;
    // Until it is settled what the bytes mean they wait, also those that came with the CONNECT.
    if (head.length > 0) socket.unshift(head);
    const left = new AbortController();
    socket.once('close', () => left.abort());
    const cut = (): void => {
      this.#refuse(request, link, stopping());
      left.abort();
    };
    link.activity = { drain: () => undefined, cut, sweep: () => undefined };
    this.#settle(request, link, left.signal).catch((error: unknown) => this.#refuse(request, link, this.#asRefusal(error)));
  }

  /** What is refused whoever asks, cheapest first. @throws GatewayError the refusal */
  #screen(request: IncomingMessage, link: Link): ConnectRequest {
    const { links, tunnels, connectPorts, own } = this.#options;
    const connect = readConnect(request, link);
    if (connect instanceof GatewayError) throw connect;
    if (links.draining) throw stopping();
    if (!tunnels.enter(link, showsSomething(request))) throw tunnels.refusal();
    const { host, port } = connect.authority;
    if (!connectPorts.has(port)) throw new GatewayError('connect_refused', `CONNECT to port ${port} is not allowed (GW_CONNECT_PORTS).`);
    if (own.owns(connect.authority)) throw new GatewayError('connect_refused', `${host}:${port} is this gateway itself.`);
    return connect;
  }

  async #settle(request: IncomingMessage, link: Link, left: AbortSignal): Promise<void> {
    const connect = this.#screen(request, link);
    const client = new ConnectingClient(link.socket, left);
    const verdict = await this.#options.decide(connect, client).finally(() => client.answered());
    const isOver = left.aborted || this.#options.links.draining;
    if (isOver && verdict.kind === 'tunnel') verdict.notOpened?.();
    if (left.aborted) return;
    if (isOver && verdict.kind !== 'refuse') throw stopping();
    this.#recognise(verdict, link);
    if (verdict.kind === 'refuse') this.#refuse(request, link, verdict.error, verdict.headers);
    else if (verdict.kind === 'tunnel') await this.#tunnel(connect, verdict, link, left);
    else await this.#intercept(connect, verdict, link, left);
  }

  /** A tunnel counts for who has shown who he is. @throws GatewayError `too_many_tunnels` when he holds his share */
  #recognise(verdict: ConnectVerdict, link: Link): void {
    const { tunnels } = this.#options;
    if (verdict.kind === 'refuse') return;
    const holder = verdict.kind === 'tunnel' ? verdict.holder : holderOfTunnel(verdict.tunnel);
    if (tunnels.recognise(link, holder)) return;
    if (verdict.kind === 'tunnel') verdict.notOpened?.();
    throw tunnels.refusal();
  }

  async #intercept(
    connect: ConnectRequest,
    { tunnel, dialFirst }: Extract<ConnectVerdict, { kind: 'intercept' }>,
    link: Link,
    left: AbortSignal,
  ): Promise<void> {
    const { contextFor, inner, log, clock, limits, dialOrigin } = this.#options;
    if (contextFor === undefined) throw new GatewayError('internal', 'Interception is off.');
    const context = await contextFor(tunnel.authority.host);
    if (left.aborted) return;
    link.socket.write(ESTABLISHED);
    const dial = dialFirst ? dialOrigin : undefined;
    const { host } = tunnel.authority;
    const watch = (secure: TLSSocket): void => this.#rejections.watch({ client: tlsClientOf(connect), host, socket: link.socket, secure });
    const rsaContext = () => contextFor(host, 'rsa');
    link.activity = new Interception({ link, tunnel, context, rsaContext, inner, log, clock, limits, dial, watch });
  }

  async #tunnel(
    connect: ConnectRequest,
    { judge, headers, notOpened, watch }: Extract<ConnectVerdict, { kind: 'tunnel' }>,
    link: Link,
    left: AbortSignal,
  ): Promise<void> {
    const { links, clock, limits, onTunnelClosed } = this.#options;
    const { authority } = connect;
    const upstream = await this.#dial(connect, left).catch((error: unknown) => {
      notOpened?.();
      throw error;
    });
    if (left.aborted) {
      notOpened?.();
      upstream.destroy();
      return;
    }
    link.socket.write(established(headers));
    let unwatch: (() => void) | undefined;
    let isClosed = false;
    const onClosed = (summary: TunnelSummary): void => {
      isClosed = true;
      unwatch?.();
      onTunnelClosed(summary);
    };
    const tunnel = new BlindTunnel({ link, upstream, authority, clock, limits, judge, onClosed });
    link.activity = tunnel;
    unwatch = watch?.(() => tunnel.breakOff());
    // What was stopped while it was dialled ends at once.
    if (isClosed) unwatch?.();
    if (links.draining) tunnel.drain();
  }

  /**
   * @throws GatewayError `connect_refused` for a name that leads here, which is seen only now, and whatever dialling
   * throws
   */
  async #dial(connect: ConnectRequest, left: AbortSignal): Promise<Socket> {
    const { dial, own } = this.#options;
    const { authority } = connect;
    const upstream = await dial(authority, left, connect);
    const { remoteAddress: host = '', remotePort: port = 0 } = upstream;
    if (!own.owns({ host, port })) return upstream;
    upstream.destroy();
    throw new GatewayError('connect_refused', `${authority.host} is this gateway itself.`);
  }

  /** Answers, gives the client a moment to read it, and closes. */
  #refuse(request: IncomingMessage, link: Link, error: GatewayError, headers: readonly string[] = []): void {
    const { socket } = link;
    this.#options.tunnels.leave(link);
    if (socket.destroyed || socket.writableEnded) return;
    if (!error.reported) this.#report(request, link, error);
    const deadline = this.#options.clock.monotonic() + this.#options.limits.lingerMs;
    link.activity = {
      drain: () => undefined,
      sweep: (now) => {
        if (now > deadline) socket.destroy();
      },
    };
    const sent = [...headers, ...error.headers];
    if (!sent.includes(REQUEST_ID_HEADER)) sent.push(REQUEST_ID_HEADER, requestIdOf(request.rawHeaders));
    socket.end(rawErrorReply(error, sent, CONNECT_STATUSES.has(error.status) ? error.status : 503));
    // Unread bytes would turn the close into a reset, which can overtake the answer.
    socket.once('end', () => socket.destroySoon());
    socket.resume();
  }

  #report(
    { url = '', rawHeaders }: IncomingMessage,
    { remoteAddress: callerIp, trafficClass }: Link,
    { code, message }: GatewayError,
  ): void {
    this.#options.onRefused({
      requestId: requestIdOf(rawHeaders),
      code,
      message,
      callerIp,
      trafficClass,
      request: requestLine({ method: 'CONNECT', rawTarget: url }),
    });
  }

  #asRefusal(error: unknown): GatewayError {
    if (error instanceof GatewayError) return error;
    this.#options.log.error({ err: error }, 'a CONNECT failed');
    return new GatewayError('internal', 'The gateway could not open the tunnel.');
  }
}

function showsSomething({ headers }: IncomingMessage): boolean {
  return (
    headers['proxy-authorization'] !== undefined || headers['x-gw-api-key'] !== undefined || headers['x-gw-workload-token'] !== undefined
  );
}

function established(headers: readonly string[] = []): string {
  let head = 'HTTP/1.1 200 Connection Established\r\n';
  for (let at = 0; at + 1 < headers.length; at += 2) head += `${headers[at]}: ${headers[at + 1]}\r\n`;
  return `${head}\r\n`;
}
