import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { SecureContext, TLSSocket } from 'node:tls';
import type { HandshakeRejectedEvent } from '../../base/events/events.ts';
import type { UnrecordedEvent } from '../../base/events/unrecorded.ts';
import type { Clock } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Logger } from '../../base/lib/log.ts';
import type { TrafficClass } from '../../base/model/action-request.ts';
import type { Arrival, Authority, Dialled, WaitingClient } from '../../base/model/arrival.ts';
import type { LeafKey } from '../ca/certificate-authority.ts';
import { type Arrivals, refuseArrival } from './arrivals.ts';
import { type HolderOf, Places } from './calls-under-way.ts';
import { ConnectDoor, type ConnectVerdict } from './connect-door.ts';
import type { ConnectRequest } from './connect-request.ts';
import { errorOfClient } from './error-reply.ts';
import { type Front, openFront } from './front.ts';
import { Http1Connection } from './http1.ts';
import { InnerServers } from './inner-servers.ts';
import { DEFAULT_LIMITS, type ListenerLimits } from './limits.ts';
import { type ClosedCounts, type Link, Links } from './links.ts';
import { OpenTunnels } from './open-tunnels.ts';
import { OwnAddresses } from './own-addresses.ts';
import { HTTPS_NEEDED, PortHandshake, type PortTls } from './port-handshake.ts';
import type { TunnelSummary } from './tunnel.ts';

export interface ListenerOptions {
  /** Bind address of both ports (`GW_HOST`). */
  readonly host: string;
  /** `GW_PORT` and `GW_AMBIENT_PORT`; 0 takes a free one. */
  readonly port: number;
  readonly ambientPort: number;
  /** `GW_MGMT_PORT`; undefined: there is none. It is never handed over. */
  readonly managementPort?: number | undefined;
  /**
   * Descriptors of sockets that listen already, by the traffic they are for; host and port are then theirs. They are
   * closed with the listener, not shut down.
   */
  readonly inherited?: Readonly<Partial<Record<TrafficClass, number>>>;
  readonly clock: Clock;
  readonly log: Logger;
  /** Ports that CONNECT may name (`GW_CONNECT_PORTS`). */
  readonly connectPorts: readonly number[];
  /** Further host names of this gateway (`GW_PUBLIC_NAMES`); CONNECT to them on one of the two ports is refused. */
  readonly ownNames?: readonly string[];
  /** Absent: the ports speak plain HTTP (decision 12.1). */
  readonly tls?: PortTls | undefined;
  /** Absent when interception is off: an `intercept` verdict is then answered 503. */
  readonly ca?: { contextFor(host: string, key?: LeafKey): Promise<SecureContext> };
  readonly limits?: Partial<ListenerLimits>;
  /** Told where both ports are, before anybody is served. What it throws ends the start. */
  onBound?(places: readonly BoundPort[]): void;
  /** Decides one CONNECT. A GatewayError that it throws is the refusal. */
  onTunnel(request: ConnectRequest, client: WaitingClient): Promise<ConnectVerdict>;
  /**
   * Connects for a blind tunnel, egress guard included; `signal` says that the client has left. A GatewayError is the
   * refusal.
   */
  dial(authority: Authority, signal: AbortSignal, request: ConnectRequest): Promise<Socket>;
  /** Connects to the origin of a tunnel with `dialFirst`; never rejects (see Upstream.dial). */
  dialOrigin(authority: Authority, protocols: readonly Dialled['protocol'][]): Promise<Dialled>;
  /**
   * Whether an address is that of a proxy whom the operator trusts (`GW_TRUSTED_PROXIES`): it stands for many clients.
   * Default: none is.
   */
  isProxy?(address: string): boolean;
  /** Who has shown by a head who he is; asked where an address has its share of calls under way. Default: nobody. */
  readonly holderOf?: HolderOf;
  /** Takes every HTTP request of every door and answers it through its sink. */
  onArrival(arrival: Arrival): void;
  /** Takes every request of the management port instead. */
  onManagement?(arrival: Arrival): void;
  /** What came was answered with an error here, so that it has no record. */
  onRefused?(event: UnrecordedEvent): void;
  onTunnelClosed?(summary: TunnelSummary): void;
  /** The client of an intercepted connection did not take our certificate (decision 3.10). */
  onHandshakeRejected?(event: HandshakeRejectedEvent): void;
}

/** Where a port really is. */
export interface BoundPort {
  /** Undefined: it carries no traffic, but the management API. */
  readonly trafficClass?: TrafficClass;
  readonly address: string;
  readonly port: number;
}

export interface Listener {
  /** The ports that were really taken. */
  readonly port: number;
  readonly ambientPort: number;
  readonly managementPort: number | undefined;
  /** The same with their addresses: `developer`, `ambient`, management. */
  readonly places: readonly BoundPort[];
  /** Open CONNECTs and WebSockets, and connections of clients in all. */
  readonly openTunnels: number;
  readonly openConnections: number;
  /** HTTP calls under way. */
  readonly callsUnderWay: number;
  /** Bytes of answers that clients have not taken, as of the last look. */
  readonly unreadBytes: number;
  /** Connections that were closed here, by why. */
  readonly closed: Readonly<ClosedCounts>;
  /**
   * True when the authority is this gateway: its addresses, every loopback spelling and its names, on one of the two
   * ports.
   */
  owns(authority: Authority): boolean;
  /**
   * Stops accepting, ends what is idle, lets running requests, streams and tunnels finish, and closes what is left
   * after `timeoutMs`.
   * @param cut ends what still waits for an upstream then, so that each call is told why in the words of its door
   * before its connection is closed
   * @returns true when nothing had to be cut
   */
  drain(timeoutMs: number, cut?: () => Promise<void>): Promise<boolean>;
  /** Ends everything at once. */
  close(): Promise<void>;
}

/** How long what is cut may take to be recorded, and to be read by its client. */
const CUT_MS = 1_000;

/** In the order in which they are opened. */
const PORTS = ['developer', 'ambient', 'management'] as const;
type PortName = (typeof PORTS)[number];
/**
 * What ports that speak TLS offer by ALPN. A browser takes h2 where it can, and then opens its tunnels in it, which
 * HTTP/1.1 alone can do here: a port that is a proxy takes it only from who speaks nothing else.
 */
const PROTOCOLS: Readonly<Record<PortName, readonly string[]>> = {
  developer: ['http/1.1', 'h2'],
  ambient: ['http/1.1', 'h2'],
  management: ['h2', 'http/1.1'],
};
/** A CONNECT there asks the wrong port, whatever it asks for. */
const NO_PROXY_HERE = new GatewayError('connect_refused', 'This port serves the management API and MCP; the proxy is on GW_PORT.');

/**
 * Opens the ports. Who comes before all are there waits.
 * @throws Error of `listen` (EADDRINUSE, EACCES, …); nothing stays open then
 */
export async function openListener(options: ListenerOptions): Promise<Listener> {
  const doors = new PortServers(options);
  const fronts: Front[] = [];
  let places: readonly BoundPort[] = [];
  try {
    const names = PORTS.filter((name) => name !== 'management' || options.managementPort !== undefined);
    for (const name of names) fronts.push(await openFront(doors.frontOptions(name)));
    for (const { port } of fronts) doors.own.addPort(port);
    places = fronts.map(({ address, port }, at) => placeOf(names[at], address, port));
    options.onBound?.(places);
  } catch (error) {
    for (const front of fronts) front.close();
    doors.stop();
    throw error;
  }
  for (const front of fronts) front.open();
  const servers = fronts.map(({ server }) => server);
  return opened(doors, servers, places, options.clock);
}

function placeOf(name: PortName | undefined, address: string, port: number): BoundPort {
  return name === 'management' || name === undefined ? { address, port } : { trafficClass: name, address, port };
}

function opened(doors: PortServers, servers: readonly Server[], places: readonly BoundPort[], clock: Clock): Listener {
  const [port = 0, ambientPort = 0, managementPort] = places.map((place) => place.port);
  const stopAccepting = (): Promise<unknown> =>
    Promise.all(servers.map((server) => new Promise<void>((resolve) => (server.listening ? server.close(() => resolve()) : resolve()))));
  const close = async (): Promise<void> => {
    const closed = stopAccepting();
    const empty = doors.links.drain();
    doors.links.destroyAll();
    doors.stop();
    await Promise.all([closed, empty]);
  };
  return {
    port,
    ambientPort,
    managementPort,
    places,
    // eslint-disable-next-line no-restricted-syntax -- made once
    get openTunnels() {
      return doors.tunnels.size;
    },
    // eslint-disable-next-line no-restricted-syntax -- made once
    get openConnections() {
      return doors.links.size;
    },
    // eslint-disable-next-line no-restricted-syntax -- made once
    get callsUnderWay() {
      return doors.places.calls.taken;
    },
    // eslint-disable-next-line no-restricted-syntax -- made once
    get unreadBytes() {
      return doors.links.unread.bytes;
    },
    // eslint-disable-next-line no-restricted-syntax -- made once
    get closed() {
      const { counts, unread } = doors.links;
      return { ...counts, made_room: counts.made_room + unread.closed };
    },
    owns: (authority) => doors.own.owns(authority),
    async drain(timeoutMs, cut) {
      void stopAccepting();
      const clean = await within(doors.links.drain(), timeoutMs, clock);
      if (!clean) {
        const over = doors.links.drain();
        await cut?.();
        doors.links.cut();
        await within(over, CUT_MS, clock);
      }
      await close();
      return clean;
    },
    close,
  };
}

/** Whether it resolves within so many milliseconds. */
async function within(promise: Promise<void>, ms: number, clock: Clock): Promise<boolean> {
  let cancel: (() => void) | undefined;
  const expired = new Promise<false>((resolve) => {
    cancel = clock.after(ms, () => resolve(false));
  });
  const inTime = await Promise.race([promise.then(() => true), expired]);
  cancel?.();
  return inTime;
}

/** A connection to a port that speaks TLS. */
interface SecuredPort {
  readonly tls: PortTls;
  readonly link: Link;
  readonly protocols: readonly string[];
  readonly arrivals: Arrivals;
  serve(secured: Socket): void;
}

/** The state that all ports share. */
class PortServers {
  readonly links: Links;
  readonly places: Places;
  readonly own: OwnAddresses;
  readonly tunnels: OpenTunnels;
  readonly connect: ConnectDoor;
  readonly #options: ListenerOptions;
  readonly #arrivals: Arrivals;
  readonly #managed: Arrivals;
  readonly #inner: InnerServers;
  readonly #http1 = new WeakMap<object, Http1Connection>();
  /** Of connections whose TLS was ended here, by what came out of it. */
  readonly #secured = new WeakMap<Socket, Link>();
  #cancelSweep: (() => void) | undefined;

  constructor(options: ListenerOptions) {
    const { clock, log } = options;
    const limits = { ...DEFAULT_LIMITS, ...options.limits };
    this.#options = options;
    this.links = new Links({ limits, isProxy: (address) => options.isProxy?.(address) ?? false });
    this.places = new Places(limits.maxCalls, (head) => options.holderOf?.(head));
    this.own = new OwnAddresses(options.ownNames ?? []);
    this.tunnels = new OpenTunnels(limits.maxTunnels);
    const onRefused = (event: UnrecordedEvent): void => options.onRefused?.(event);
    this.#arrivals = {
      clock,
      limits,
      tunnels: this.tunnels,
      places: this.places,
      counts: this.links.counts,
      onArrival: (arrival) => this.#arrive(arrival),
      onRefused,
    };
    this.#managed = { ...this.#arrivals, onArrival: (arrival) => this.#arrive(arrival, options.onManagement) };
    this.#inner = new InnerServers(this.#arrivals);
    this.connect = new ConnectDoor({
      clock,
      log,
      limits,
      links: this.links,
      inner: this.#inner,
      own: this.own,
      tunnels: this.tunnels,
      connectPorts: new Set(options.connectPorts),
      contextFor: options.ca ? (host, key) => contextOf(options.ca, host, key) : undefined,
      decide: (request, client) => options.onTunnel(request, client),
      dial: (authority, signal, request) => options.dial(authority, signal, request),
      dialOrigin: (authority, protocols) => options.dialOrigin(authority, protocols),
      onRefused,
      onTunnelClosed: (summary) => options.onTunnelClosed?.(summary),
      onHandshakeRejected: (event) => options.onHandshakeRejected?.(event),
    });
    this.#sweepLater(limits.sweepMs);
  }

  frontOptions(name: PortName): Parameters<typeof openFront>[0] {
    const { host, port, ambientPort, managementPort = 0, inherited, clock, tls } = this.#options;
    const isManagement = name === 'management';
    const arrivals = isManagement ? this.#managed : this.#arrivals;
    const trafficClass = isManagement ? 'developer' : name;
    return {
      descriptor: isManagement ? undefined : inherited?.[name],
      host,
      port: { developer: port, ambient: ambientPort, management: managementPort }[name],
      now: clock.now(),
      limits: this.#arrivals.limits,
      anteroom:
        tls &&
        ((socket, serve) => {
          const link = this.links.open(socket, trafficClass);
          if (link !== undefined) this.#secure({ tls, link, protocols: PROTOCOLS[name], arrivals, serve });
        }),
      onConnection: (socket) => this.#connected(socket, trafficClass, arrivals),
      onConnect: (request, socket, head) => (isManagement ? this.#misplaced(socket) : this.#tunnelled(request, socket, head)),
      onRequest: (request, response, expectsContinue) => this.#requested(request, response, expectsContinue),
      onUpgrade: (request, socket, head) => this.#upgraded(request, socket, head),
      onClientError: (error, socket) => this.#unreadable(error, socket),
    };
  }

  stop(): void {
    this.#cancelSweep?.();
    this.connect.stop();
    this.#inner.close();
  }

  #connected(socket: Socket, trafficClass: TrafficClass, arrivals: Arrivals): void {
    const secured = this.#secured.get(socket);
    const link = secured ?? this.links.open(socket, trafficClass);
    if (link === undefined) return;
    const connection = new Http1Connection({ link, transport: socket, secure: secured !== undefined, arrivals });
    link.activity = connection;
    this.#http1.set(socket, connection);
    if (this.links.draining) connection.drain();
  }

  /** Ends the TLS of a connection; what comes out of it goes the way of every other one. */
  #secure({ tls, link, protocols, arrivals, serve }: SecuredPort): void {
    const { clock, limits } = arrivals;
    const onPlain = (): void => {
      const connection = new Http1Connection({ link, transport: link.wire, secure: false, arrivals });
      link.activity = connection;
      connection.refuse(HTTPS_NEEDED);
      link.wire.resume();
    };
    const onSecure = (secure: TLSSocket): void => {
      link.socket = secure;
      this.#secured.set(secure, link);
      if (secure.alpnProtocol === 'h2') {
        this.#inner.acceptHttp2(link, secure, undefined, arrivals);
        if (this.links.draining) link.activity.drain();
      } else {
        serve(secure);
        secure.resume();
      }
    };
    link.activity = new PortHandshake({ link, tls, protocols, server: this.#inner.h2, clock, limits, onSecure, onPlain });
  }

  #requested(request: IncomingMessage, response: ServerResponse, expectsContinue: boolean): void {
    const connection = this.#http1.get(request.socket);
    if (connection === undefined) request.socket.destroy();
    else connection.accept(request, response, expectsContinue);
  }

  #tunnelled(request: IncomingMessage, socket: Socket, head: Buffer): void {
    const before = this.#http1.get(socket);
    // An answer that is still on its way would end up inside the tunnel.
    if (before?.lingers === true) socket.resume();
    else if (before === undefined || before.unanswered > 0) socket.destroy();
    else this.connect.accept(request, before.options.link, head);
  }

  #misplaced(socket: Socket): void {
    const connection = this.#http1.get(socket);
    if (connection === undefined) socket.destroy();
    else connection.refuse(NO_PROXY_HERE);
  }

  #upgraded(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const connection = this.#http1.get(socket);
    if (connection === undefined) socket.destroy();
    else this.#inner.acceptUpgrade(connection, request, head);
  }

  #unreadable(error: Error, socket: Duplex): void {
    const connection = this.#http1.get(socket);
    const answer = errorOfClient(error);
    if (connection === undefined) socket.destroy();
    else connection.refuse(answer);
  }

  #arrive(arrival: Arrival, take: ((arrival: Arrival) => void) | undefined = this.#options.onArrival): void {
    try {
      take(arrival);
    } catch (error) {
      this.#options.log.error({ err: error }, 'a request could not be taken in');
      if (arrival.reply.headSent) arrival.reply.reset();
      else refuseArrival(arrival, new GatewayError('internal', 'A fault of the gateway; its log has the details.'), this.#arrivals);
    }
  }

  #sweepLater(ms: number): void {
    const { clock } = this.#options;
    this.#cancelSweep = clock.after(ms, () => {
      this.links.sweep(clock.monotonic());
      this.#sweepLater(ms);
    });
  }
}

async function contextOf(ca: ListenerOptions['ca'], host: string, key?: LeafKey): Promise<SecureContext> {
  if (ca === undefined) throw new GatewayError('internal', 'Interception is off.');
  return await ca.contextFor(host, key);
}
