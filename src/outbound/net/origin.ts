import type { Clock } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { formatAuthority } from '../../base/lib/host.ts';
import { Shares } from '../../base/lib/shares.ts';
import type { Authority } from '../../base/model/arrival.ts';
import { CONNECTION_BOUNDS } from '../../base/model/traffic-bounds.ts';
import type { CallInLane, Lane, LaneOwner } from './lane.ts';
import { timeoutError } from './upstream-error.ts';

export interface OriginOptions {
  readonly authority: Authority;
  readonly clock: Clock;
  /** Connections at most; further calls wait for one. */
  readonly maxConnections: number;
  /**
   * Whether somebody has laid down something for an org: names that callers make up share one place. Default: all are
   * known.
   */
  readonly isKnownOrg?: ((org: string) => boolean) | undefined;
  /** Calls that may wait for a connection. Default: {@link CONNECTION_BOUNDS}. */
  readonly maxWaiting?: number | undefined;
  /** Makes a lane; it connects when it is given a call. */
  readonly openLane: (owner: LaneOwner) => Lane;
}

export interface SilenceLimits {
  /** Ticks without a sign of life after which a call fails, before its head and inside its body. */
  readonly headersTicks: number;
  readonly idleTicks: number;
  readonly waitTicks: number;
}

/** While fewer than one in so many places are taken, no caller can be at his share of them. */
const FEW = 3;
/** Stands for the gateway itself. */
const OWN_CALLS = '\n';
/** Stands for all orgs that nobody has laid down anything for; no org has this id. */
const UNKNOWN_ORGS = '';

/**
 * The connections to one scheme, host and port: which one serves a call, and which calls wait. Nothing is pipelined,
 * redirected or sent twice.
 */
export class Origin implements LaneOwner {
  readonly #options: OriginOptions;
  readonly #lanes = new Set<Lane>();
  /** The one used last is taken first, so that surplus connections fall idle and are closed. */
  readonly #idle: Lane[] = [];
  #waiting: CallInLane[] = [];
  readonly #waitingShares: Shares;

  constructor(options: OriginOptions) {
    this.#options = options;
    this.#waitingShares = new Shares(options.maxWaiting ?? CONNECTION_BOUNDS.originWaiting.all);
  }

  /** True while a call is under way. */
  get isBusy(): boolean {
    return this.#idle.length < this.#lanes.size || this.#waiting.length > 0;
  }

  /** Hands the call to a connection. Its events come later, never before this returns. */
  start(call: CallInLane): void {
    // Asked here first, so that a call that finds room takes no other step.
    const roomy = FEW * (this.#lanes.size - this.#idle.length) < this.#options.maxConnections;
    const lane = roomy || this.#mayRun(call) ? (this.#takeIdle() ?? this.#open()) : undefined;
    if (lane !== undefined) lane.run(call);
    else this.#wait(call);
  }

  #wait(call: CallInLane): void {
    const full = this.#waitingShares.full(this.#orgOf(call), call.request.client);
    if (full === undefined) {
      this.#waitingShares.take(this.#orgOf(call), call.request.client);
      this.#waiting.push(call);
      return;
    }
    const whose = full === 'all' ? '' : full === 'org' ? ' of this org' : ' of this caller';
    call.starting = true;
    call.fail(
      new GatewayError('overloaded', `Too many calls${whose} to ${formatAuthority(this.#options.authority)} are waiting for a connection.`),
    );
    call.starting = false;
  }

  #orgOf({ request: { org = OWN_CALLS } }: CallInLane): string {
    const { isKnownOrg } = this.#options;
    return org === OWN_CALLS || isKnownOrg === undefined || isKnownOrg(org) ? org : UNKNOWN_ORGS;
  }

  /**
   * Who has how many connections. While fewer than a third are in use nobody can be at his share: undefined, so that
   * nothing is counted for calls that find room.
   */
  #inUse(): Shares | undefined {
    const { maxConnections } = this.#options;
    if (FEW * (this.#lanes.size - this.#idle.length) < maxConnections) return undefined;
    const shares = new Shares(maxConnections);
    for (const { call } of this.#lanes) if (call !== undefined) shares.take(this.#orgOf(call), call.request.client);
    return shares;
  }

  #mayRun(call: CallInLane, inUse = this.#inUse()): boolean {
    return inUse === undefined || call.request.org === undefined || inUse.full(this.#orgOf(call), call.request.client) === undefined;
  }

  /** True while a connection is open whose time to be closed has to be watched. */
  get hasExpiring(): boolean {
    return this.#idle.some((lane) => lane.expiresAt !== undefined);
  }

  /** Closes what has been idle for too long. */
  closeExpired(): void {
    const now = this.#options.clock.monotonic();
    for (const lane of this.#idle.filter(({ expiresAt }) => expiresAt !== undefined && now >= expiresAt)) this.disconnected(lane);
  }

  /**
   * Fails the calls that have been silent for too long. `limits` in ticks of the counter that the calls know, `texts`
   * complete "host:port …".
   */
  failSilent(tick: number, limits: SilenceLimits, texts: { readonly headers: string; readonly idle: string }): void {
    const { authority } = this.#options;
    for (const { call } of this.#lanes) {
      if (call === undefined || call.paused) continue;
      const answering = call.phase === 'answering';
      if (tick - call.seenAt <= (answering ? limits.idleTicks : limits.headersTicks)) continue;
      call.fail(timeoutError(authority, answering ? texts.idle : texts.headers));
    }
    this.#failWaiting(tick, limits.waitTicks);
  }

  #failWaiting(tick: number, waitTicks: number): void {
    const isInTime = (call: CallInLane): boolean => !call.done && tick - call.seenAt <= waitTicks;
    const late = this.#waiting.filter((call) => !isInTime(call));
    if (late.length > 0) this.#waiting = this.#waiting.filter(isInTime);
    for (const call of late) this.#waitingShares.give(this.#orgOf(call), call.request.client);
    for (const call of late) call.fail(timeoutError(this.#options.authority, 'has no free connection: too many calls are under way'));
  }

  /** Fails what is under way with `error` and closes every connection. */
  async close(error: GatewayError): Promise<void> {
    for (const call of this.#waiting.splice(0)) {
      this.#waitingShares.give(this.#orgOf(call), call.request.client);
      call.fail(error);
    }
    const lanes = [...this.#lanes];
    for (const { call } of lanes) call?.fail(error);
    this.#idle.length = 0;
    this.#lanes.clear();
    await Promise.all(lanes.map((lane) => lane.close()));
  }

  /** Called by a lane whose call is over. */
  free(lane: Lane, reusable: boolean): void {
    if (!this.#lanes.has(lane)) return;
    if (!reusable) this.#drop(lane);
    const next = this.#nextWaiting();
    if (next !== undefined) (reusable ? lane : this.#open())?.run(next);
    else if (reusable) this.#idle.push(lane);
  }

  /** Called by a lane whose connection is gone. A call that it has meanwhile been given makes it connect again. */
  disconnected(lane: Lane): void {
    if (lane.call !== undefined) return;
    const at = this.#idle.lastIndexOf(lane);
    if (at === -1) return;
    this.#idle.splice(at, 1);
    this.#drop(lane);
  }

  #takeIdle(): Lane | undefined {
    for (;;) {
      const lane = this.#idle.pop();
      if (lane?.expiresAt === undefined || this.#options.clock.monotonic() < lane.expiresAt) return lane;
      this.#drop(lane);
    }
  }

  #open(): Lane | undefined {
    if (this.#lanes.size >= this.#options.maxConnections) return undefined;
    const lane = this.#options.openLane(this);
    this.#lanes.add(lane);
    return lane;
  }

  #drop(lane: Lane): void {
    this.#lanes.delete(lane);
    void lane.close();
  }

  /** The one that waits longest of those who are not at their share. */
  #nextWaiting(): CallInLane | undefined {
    if (this.#waiting.length === 0) return undefined;
    const inUse = this.#inUse();
    for (let at = 0; at < this.#waiting.length; ) {
      const call = this.#waiting[at];
      if (call === undefined || !(call.done || this.#mayRun(call, inUse))) {
        at += 1;
        continue;
      }
      this.#waiting.splice(at, 1);
      this.#waitingShares.give(this.#orgOf(call), call.request.client);
      if (!call.done) return call;
    }
    return undefined;
  }
}
