import { type Clock, timestamp } from '../../base/lib/clock.ts';
import type { Logger } from '../../base/lib/log.ts';
import { Shares } from '../../base/lib/shares.ts';
import type { WaitingCalls } from '../../base/model/approval.ts';
import type { Store } from '../../storage/contract/store.ts';
import { REMOVED, Register } from '../registers/register.ts';
import type { Sharer } from '../registers/sharers.ts';
import { entityWith } from '../registers/watched-space.ts';

/** Of each approval and writer the calls that wait there, by `approval id|writer`. */
const SPACE = 'approval_held';

/** A call that would wait on its open connection. */
export interface HeldCall {
  /** When it is answered that it still waits, epoch milliseconds. */
  readonly until: number;
  /** What it keeps in memory meanwhile. */
  readonly bytes: number;
  /**
   * Tells once why it waits no longer, before its time: `gone` where nobody waits for its answer any more, also where
   * that is so already; `ended` where it is to be judged anew. What it gives back ends that.
   */
  readonly onLeft: (listener: (why: 'gone' | 'ended') => void) => () => void;
}

/**
 * Why a call waits no longer. `ended`: its approval waits no more, whatever was decided. `over`: its time is. `gone`:
 * its client has left. `full`: it never did, since all places are taken.
 */
export type HoldEnd = 'ended' | 'over' | 'gone' | 'full';

/** What is stored of the calls that wait at one writer. JSON data. */
interface HeldHere {
  readonly approval_id: string;
  /** Epoch milliseconds; what a writer that was killed has left counts no longer than that. */
  readonly until: number;
  readonly calls: number;
}

interface Waiting {
  readonly until: number;
  /** It counts among the calls that are shown to wait. */
  readonly isCall: boolean;
  readonly end: (why: HoldEnd) => void;
}

export interface HeldCallsOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  /** The name of this process among those that have the store open. */
  readonly writer: string;
  /** Calls that may wait here, of all orgs, and what they may keep in memory together. */
  readonly most: number;
  readonly mostBytes: number;
}

/**
 * Calls that wait for their approvals on open connections, at whichever writer of the store: those of this one, and how
 * many there are of each approval altogether. Places and bytes are shared as approvals are (decision 7.12).
 */
export class HeldCalls {
  readonly #options: HeldCallsOptions;
  readonly #register: Register<HeldHere>;
  /** Of each approval, by the keys of what writers have stored. */
  readonly #everywhere: Map<string, Map<string, HeldHere>>;
  /** Of each approval, the oldest first. */
  readonly #here = new Map<string, Set<Waiting>>();
  readonly #places: Shares;
  readonly #bytes: Shares;
  /** Who waits to hear of one, and is no call. */
  readonly #hearers: Shares;
  /** Approvals of which is being told how many calls wait here. */
  readonly #telling = new Map<string, Promise<void>>();
  #isDraining = false;

  private constructor(options: HeldCallsOptions, register: Register<HeldHere>, everywhere: Map<string, Map<string, HeldHere>>) {
    this.#options = options;
    this.#register = register;
    this.#everywhere = everywhere;
    this.#places = new Shares(options.most);
    this.#bytes = new Shares(options.mostBytes);
    this.#hearers = new Shares(options.most);
  }

  /** @throws Error when the store cannot be read or written */
  static async open(options: HeldCallsOptions): Promise<HeldCalls> {
    const { store, clock, writer } = options;
    const everywhere = new Map<string, Map<string, HeldHere>>();
    const changed = (key: string, held: HeldHere | undefined, before: HeldHere | undefined): void => {
      const id = (held ?? before)?.approval_id;
      if (id === undefined) return;
      const ofOne = everywhere.get(id) ?? new Map<string, HeldHere>();
      if (held === undefined) ofOne.delete(key);
      else ofOne.set(key, held);
      if (ofOne.size === 0) everywhere.delete(id);
      else everywhere.set(id, ofOne);
    };
    const register = await Register.open(store, SPACE, { read: entityWith<HeldHere>('approval_id'), changed });
    // What a process before this one was holding when it was killed, and others long ago.
    const left = [...register.entries()].filter(([key, { until }]) => key.endsWith(`|${writer}`) || until <= clock.now());
    if (left.length > 0) await register.changeAll(new Map(left.map(([key]) => [key, REMOVED] as const)));
    return new HeldCalls(options, register, everywhere);
  }

  /** Calls that wait here. */
  get size(): number {
    return this.#places.taken;
  }

  /** Calls that wait for an approval, here and at other writers; undefined: none. */
  of(approvalId: string): WaitingCalls | undefined {
    const now = this.#options.clock.now();
    const held = [...(this.#everywhere.get(approvalId)?.values() ?? [])].filter(({ until }) => until > now);
    if (held.length === 0) return undefined;
    return { until: timestamp(Math.max(...held.map(({ until }) => until))), calls: held.reduce((sum, { calls }) => sum + calls, 0) };
  }

  /**
   * Waits as long as the approval does, at most until the call's time is over. It is asked behind the look whether the
   * approval still waits, so that no end is missed.
   * @param isWaiting asks whether it does
   */
  async hold(approvalId: string, call: HeldCall, { org, caller }: Sharer, isWaiting: () => Promise<boolean>): Promise<HoldEnd> {
    if (this.#isDraining) return 'over';
    const isFull = this.#places.full(org, caller) !== undefined || this.#bytes.full(org, caller, call.bytes) !== undefined;
    if (isFull) return 'full';
    this.#places.take(org, caller);
    this.#bytes.take(org, caller, call.bytes);
    try {
      return await this.#wait(approvalId, call, isWaiting, true);
    } finally {
      this.#places.give(org, caller);
      this.#bytes.give(org, caller, call.bytes);
    }
  }

  /** Somebody else than a call waits to hear of it: that is shown to nobody, and takes a place among those who do. */
  async hear(
    approvalId: string,
    call: Omit<HeldCall, 'bytes'>,
    { org, caller }: Sharer,
    isWaiting: () => Promise<boolean>,
  ): Promise<HoldEnd> {
    if (this.#isDraining) return 'over';
    if (this.#hearers.full(org, caller) !== undefined) return 'full';
    this.#hearers.take(org, caller);
    try {
      return await this.#wait(approvalId, { ...call, bytes: 0 }, isWaiting, false);
    } finally {
      this.#hearers.give(org, caller);
    }
  }

  /** An approval waits no longer: neither does what waits for it. */
  ended(approvalId: string): void {
    for (const { end } of this.#here.get(approvalId) ?? []) end('ended');
  }

  /** The gateway stops: the time of everything that waits is over, and nothing waits from now on. */
  drain(): void {
    this.#isDraining = true;
    for (const waiting of this.#here.values()) for (const { end } of waiting) end('over');
  }

  /** How many calls wait here has been told of. */
  async settled(): Promise<void> {
    await Promise.all(this.#telling.values());
  }

  async #wait(id: string, { until, onLeft }: HeldCall, isWaiting: () => Promise<boolean>, isCall: boolean): Promise<HoldEnd> {
    const { clock } = this.#options;
    let end: (why: HoldEnd) => void = () => undefined;
    const ended = new Promise<HoldEnd>((resolve) => {
      end = resolve;
    });
    const waiting: Waiting = { until, isCall, end };
    const all = this.#here.get(id) ?? new Set();
    this.#here.set(id, all.add(waiting));
    const cancel = clock.after(Math.max(0, until - clock.now()), () => end('over'));
    const unwatch = onLeft(end);
    try {
      if (!(await isWaiting())) return 'ended';
      if (isCall) void this.#tell(id);
      return await ended;
    } finally {
      cancel();
      unwatch();
      all.delete(waiting);
      if (all.size === 0) this.#here.delete(id);
      if (isCall) void this.#tell(id);
    }
  }

  /** Stores how many calls wait here now; what changes meanwhile is told of after that. */
  #tell(id: string): Promise<void> {
    const next = (this.#telling.get(id) ?? Promise.resolve()).then(() => this.#tellNow(id));
    this.#telling.set(id, next);
    return next.finally(() => {
      if (this.#telling.get(id) === next) this.#telling.delete(id);
    });
  }

  async #tellNow(id: string): Promise<void> {
    const { writer, log } = this.#options;
    const key = `${id}|${writer}`;
    const here = [...(this.#here.get(id) ?? [])].filter(({ isCall }) => isCall);
    const known = this.#register.get(key);
    const until = Math.max(0, ...here.map((one) => one.until));
    if (known === undefined ? here.length === 0 : known.calls === here.length && known.until === until) return;
    try {
      await this.#register.changeAll(new Map([[key, here.length === 0 ? REMOVED : { approval_id: id, until, calls: here.length }]]));
    } catch (error) {
      log.warn({ err: error, approval_id: id }, 'how many calls wait for an approval could not be stored; they wait all the same');
    }
  }
}
