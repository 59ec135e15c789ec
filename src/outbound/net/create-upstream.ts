// The only door out: every byte that leaves for an upstream leaves through here. In this room: which address may be
// dialled, TLS, connections, time-outs, and the two header filters. Not in here: what is sent (connectors), who may
// send it (policy), and what an answer means.
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { Clock } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { EgressAllow } from '../../base/lib/host.ts';
import { networkOf } from '../../base/lib/ip.ts';
import { type Logger, silentLogger } from '../../base/lib/log.ts';
import { Lru } from '../../base/lib/lru.ts';
import { stopping } from '../../base/lib/stopping.ts';
import type { Authority, Dialled } from '../../base/model/arrival.ts';
import { CONNECTION_BOUNDS } from '../../base/model/traffic-bounds.ts';
import { AnswerGuard } from './answer-guard.ts';
import { Dialer, type DialTo } from './dialer.ts';
import { DialledHttp1, type DialledOrigin, UndialledOrigin } from './dialled.ts';
import { DialledHttp2 } from './dialled-http2.ts';
import { DirectLane } from './direct-lane.ts';
import { EgressGuard, type OwnAddress } from './egress-guard.ts';
import type { Lane, LaneOptions, LaneOwner, OpenLane } from './lane.ts';
import { CallInLane, NextTurn, type SlowCounter } from './lane.ts';
import { Origin, type OriginOptions, type SilenceLimits } from './origin.ts';
import type { ParentProxy } from './parent-proxy.ts';
import { type Lookup, Resolver } from './resolver.ts';
import { TinyPieces } from './tiny-pieces.ts';
import { TlsClient } from './tls-client.ts';
import { UpgradeCall } from './upgrade-call.ts';
import type { RawWays, UpgradeEvents, Upstream, UpstreamCall, UpstreamEvents, UpstreamHandle } from './upstream.ts';

/** Addresses of HTTP/2 origins of which is remembered how many tiny pieces came from there. */
const REMEMBERED_ADDRESSES = 1_000;

export interface UpstreamOptions {
  readonly clock: Clock;
  /** Default: nothing is logged. */
  readonly log?: Logger;
  /**
   * Who speaks HTTP/1.1 on the connections. Default: {@link DirectLane}. Another one stands here in tests, to judge it.
   */
  readonly openLane?: OpenLane | undefined;
  /** `GW_UPSTREAM_CONNECT_TO`; hosts canonical. */
  readonly connectTo?: readonly DialTo[];
  /** `GW_UPSTREAM_PROXY`: stands before every host that `connectTo` does not name. */
  readonly parentProxy?: ParentProxy;
  /** Our own entry of `Via`, for CONNECTs to the parent; that of requests is among their headers. */
  readonly via?: string;
  /** PEM text of `GW_UPSTREAM_CA_FILE`, trusted beside the runtime's roots. */
  readonly caFile?: string;
  /** `GW_EGRESS_ALLOW`: CIDR ranges and hosts. */
  readonly egressAllow?: EgressAllow;
  readonly headersTimeoutMs: number;
  readonly idleTimeoutMs: number;
  /** Addresses that are never dialled, by whatever name: both ports of this gateway. Asked anew for each connection. */
  readonly ownAddresses?: () => readonly OwnAddress[];
  /** AI hosts: their names are refreshed behind a stale answer and never wait for a place. Default: none. */
  readonly isAiHost?: (host: string) => boolean;
  /** Default: the system's resolver. */
  readonly lookup?: Lookup;
  /** Connections per scheme, host and port. Default: {@link CONNECTION_BOUNDS}. */
  readonly maxConnections?: number;
  /** Calls that may wait for one of them. Default: {@link CONNECTION_BOUNDS}. */
  readonly maxWaiting?: number;
  /** Whether somebody has laid down something for an org. Default: all are known. */
  readonly isKnownOrg?: (org: string) => boolean;
  /** Origins whose connections are kept. Default 256. */
  readonly maxOrigins?: number;
}

/** A call that waits for one of an origin's connections gives up after that. */
const WAIT_MS = 30_000;

/** @throws Error when `caFile` is not PEM */
export function createUpstream(options: UpstreamOptions): Upstream & RawWays {
  return new UpstreamDoor(options);
}

class UpstreamDoor implements Upstream, RawWays, SlowCounter {
  tick = 0;

  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #openLane: OpenLane | undefined;
  readonly #nextTurn = new NextTurn();
  readonly #dialer: Dialer;
  readonly #tls: TlsClient;
  readonly #maxConnections: number;
  readonly #waits: Pick<OriginOptions, 'maxWaiting' | 'isKnownOrg'>;
  readonly #maxOrigins: number;
  readonly #headersTimeoutMs: number;
  /** From the least to the most recently used. */
  readonly #origins = new Map<string, Origin>();
  /** Connections of tunnels with calls under way. */
  readonly #dialled = new Set<DialledOrigin>();
  /** What may still come from the addresses of such connections. */
  readonly #tiny = new Lru<string, TinyPieces>({ max: REMEMBERED_ADDRESSES });
  /** Handshakes of WebSockets that are not answered yet. */
  readonly #upgrades = new Set<UpgradeCall>();
  readonly #tickMs: number;
  readonly #limits: SilenceLimits;
  readonly #texts: { readonly headers: string; readonly idle: string };
  #latestKey = '';
  #latest: Origin | undefined;
  #cancelTick: (() => void) | undefined;
  #closed = false;

  constructor(options: UpstreamOptions) {
    const { clock, headersTimeoutMs, idleTimeoutMs } = options;
    this.#clock = clock;
    this.#log = options.log ?? silentLogger;
    this.#openLane = options.openLane;
    const resolver = new Resolver({
      clock,
      isKnown: options.isAiHost ?? (() => false),
      ...(options.lookup ? { lookup: options.lookup } : {}),
    });
    const guard = new EgressGuard({ egressAllow: options.egressAllow, ownAddresses: options.ownAddresses ?? (() => []) });
    this.#dialer = new Dialer({
      clock,
      resolver,
      guard,
      connectTo: options.connectTo ?? [],
      parent: options.parentProxy,
      via: options.via,
    });
    this.#tls = new TlsClient(clock, options.caFile);
    this.#maxConnections = options.maxConnections ?? CONNECTION_BOUNDS.originConnections.all;
    this.#waits = { maxWaiting: options.maxWaiting, isKnownOrg: options.isKnownOrg };
    this.#maxOrigins = options.maxOrigins ?? 256;
    this.#headersTimeoutMs = headersTimeoutMs;
    this.#tickMs = Math.min(1_000, Math.max(10, Math.min(headersTimeoutMs, idleTimeoutMs) / 8));
    // A sign of life may be almost one tick younger than its number says.
    const ticks = (ms: number): number => Math.ceil(ms / this.#tickMs);
    this.#limits = { headersTicks: ticks(headersTimeoutMs), idleTicks: ticks(idleTimeoutMs), waitTicks: ticks(WAIT_MS) };
    this.#texts = {
      headers: `did not begin to answer within ${headersTimeoutMs / 1000} seconds`,
      idle: `was silent for ${idleTimeoutMs / 1000} seconds in the middle of its answer`,
    };
  }

  call(request: UpstreamCall, events: UpstreamEvents): UpstreamHandle {
    // Nobody else makes them.
    const dialled = request.on as DialledOrigin | undefined;
    const guard = this.#guardOf(request.authority, events, this.#openLane !== undefined || dialled?.protocol === 'h2');
    if (dialled === undefined) return guard.guards(this.#callShared(request, guard));
    this.#dialled.add(dialled);
    this.#cancelTick ??= this.#clock.after(this.#tickMs, this.#onTick);
    return guard.guards(dialled.call(request, guard));
  }

  #guardOf(authority: Authority, events: UpstreamEvents | UpgradeEvents, looksAtHeads: boolean): AnswerGuard {
    return new AnswerGuard({ events, authority, log: this.#log, looksAtHeads });
  }

  #callShared(request: UpstreamCall, events: UpstreamEvents): UpstreamHandle {
    const call = new CallInLane(request, events, this, request.tls ? undefined : this.#dialer.parentOf(request.authority));
    if (this.#closed) {
      call.starting = true;
      call.fail(stopping());
      return call;
    }
    this.#originOf(request).start(call);
    this.#cancelTick ??= this.#clock.after(this.#tickMs, this.#onTick);
    return call;
  }

  upgrade(call: Parameters<Upstream['upgrade']>[0], events: UpgradeEvents): UpstreamHandle {
    const { authority, tls, operatorOwn = false, on } = call;
    const dialled = on as DialledOrigin | undefined;
    const connect = (): Promise<Socket> => dialled?.connect() ?? this.#connectRaw(authority, tls, operatorOwn);
    const guard = this.#guardOf(authority, events, true);
    const upgrade = new UpgradeCall({
      call,
      events: guard,
      clock: this.#clock,
      headersTimeoutMs: this.#headersTimeoutMs,
      connect: () => (this.#closed ? Promise.reject(stopping()) : connect()),
      onOver: () => this.#upgrades.delete(upgrade),
    });
    this.#upgrades.add(upgrade);
    return guard.guards(upgrade);
  }

  connect(authority: Authority, how: Parameters<RawWays['connect']>[1] = {}): Promise<Socket> {
    return this.#connectRaw(authority, how.tls === true, how.operatorOwn === true);
  }

  admits(authority: Authority): Promise<void> {
    return this.#dialer.admits(authority);
  }

  addresses(authority: Authority, operatorOwn: boolean): Promise<readonly string[]> {
    return this.#dialer.addresses(authority, operatorOwn);
  }

  parentOf(authority: Authority): ParentProxy | undefined {
    return this.#dialer.parentOf(authority);
  }

  #tinyPiecesOf({ remoteAddress = '' }: Socket): TinyPieces {
    const key = networkOf(remoteAddress);
    const known = this.#tiny.get(key) ?? new TinyPieces(this.#clock);
    this.#tiny.set(key, known);
    return known;
  }

  async dial(authority: Authority, protocols: readonly Dialled['protocol'][]): Promise<Dialled> {
    const secure = (raw: Socket, offered: readonly Dialled['protocol'][]): Promise<TLSSocket> =>
      this.#tls.secure(raw, authority, `${TlsClient.scopeOf(authority, false)} ${offered.join()}`, offered);
    try {
      const raw = await this.#dialer.dial(authority, false);
      const socket = await secure(raw, protocols);
      const clock = this.#clock;
      if (socket.alpnProtocol === 'h2')
        return new DialledHttp2({ authority, socket, raw, counter: this, clock, tinyPieces: this.#tinyPiecesOf(raw) });
      return new DialledHttp1({
        authority,
        socket,
        counter: this,
        clock,
        redial: async () => secure(await this.#dialer.dial(authority, false), ['http/1.1']),
        laneMaker: (connect) => this.#laneMaker({ authority, tls: true, parent: undefined, connect }),
      });
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error;
      return new UndialledOrigin(protocols.includes('http/1.1') ? 'http/1.1' : 'h2', error);
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#cancelTick?.();
    const error = stopping();
    for (const dialled of this.#dialled) dialled.fail(error);
    for (const upgrade of [...this.#upgrades]) upgrade.fail(error);
    const origins = [...this.#origins.values()];
    this.#origins.clear();
    await Promise.all(origins.map((origin) => origin.close(error)));
  }

  /** The operator's own targets pass the guard, so their connections never serve a call that has to. */
  #originOf(request: UpstreamCall): Origin {
    const { authority, tls, operatorOwn = false } = request;
    const key = `${tls ? 's' : 'p'}${operatorOwn ? 'o' : 'g'}${authority.port} ${authority.host}`;
    if (key === this.#latestKey && this.#latest !== undefined) return this.#latest;
    let origin = this.#origins.get(key);
    if (origin === undefined) {
      this.#evict();
      const parent = tls ? undefined : this.#dialer.parentOf(authority);
      const openLane = this.#laneMaker({ authority, tls, parent, connect: () => this.connectForHttp(authority, tls, operatorOwn) });
      origin = new Origin({ ...this.#waits, authority, clock: this.#clock, maxConnections: this.#maxConnections, openLane });
    } else {
      this.#origins.delete(key);
    }
    this.#origins.set(key, origin);
    this.#latestKey = key;
    this.#latest = origin;
    return origin;
  }

  #laneMaker(options: LaneOptions): (owner: LaneOwner) => Lane {
    const open = this.#openLane;
    if (open !== undefined) return (owner) => open(owner, options);
    return (owner) => new DirectLane(owner, options, this.#nextTurn, this.#clock);
  }

  connectForHttp(authority: Authority, tls: boolean, operatorOwn: boolean): Promise<Socket> {
    return tls ? this.#connectRaw(authority, tls, operatorOwn) : this.#dialer.dialPlain(authority, operatorOwn);
  }

  /** A connection whose other end is the origin, whatever stands in between. */
  async #connectRaw(authority: Authority, tls: boolean, operatorOwn: boolean): Promise<Socket> {
    const socket = await this.#dialer.dial(authority, operatorOwn);
    return tls ? this.#tls.secure(socket, authority, TlsClient.scopeOf(authority, operatorOwn)) : socket;
  }

  /** Makes room for one more: the origin that was not used for longest and has nothing under way. */
  #evict(): void {
    if (this.#origins.size < this.#maxOrigins) return;
    for (const [key, origin] of this.#origins) {
      if (origin.isBusy) continue;
      this.#origins.delete(key);
      void origin.close(new GatewayError('shutting_down', 'The connection was closed.'));
      return;
    }
  }

  readonly #onTick = (): void => {
    this.tick++;
    let busy = false;
    for (const origin of this.#origins.values()) {
      if (origin.isBusy) origin.failSilent(this.tick, this.#limits, this.#texts);
      origin.closeExpired();
      busy ||= origin.isBusy || origin.hasExpiring;
    }
    for (const dialled of this.#dialled) {
      busy = true;
      if (dialled.isBusy) dialled.failSilent(this.tick, this.#limits, this.#texts);
      else this.#dialled.delete(dialled);
    }
    this.#cancelTick = busy ? this.#clock.after(this.#tickMs, this.#onTick) : undefined;
  };
}
