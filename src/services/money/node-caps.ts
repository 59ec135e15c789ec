import type { Clock } from '../../base/lib/clock.ts';
import type { Logger } from '../../base/lib/log.ts';
import { hourOf } from '../../decide/limits/windows.ts';
import { type CapAnswer, type CapAsk, type CapExchanged, type CapSpeaker, SPEND_ACCOUNTS } from '../../storage/contract/cap-accounts.ts';
import { CapHolding, type CapWish } from './cap-holding.ts';
import type { CapSource, CapVerdict, SharedLedger } from './shared-ledger.ts';

/** Nobody waits longer for an exchange; behind a broken link nobody knows that it is broken. */
const WAIT_MS = 10_000;
const RETRY_MS = 250;
/** While something happens others are told of it that often, and what they have spent is seen. */
const BUSY_MS = 1_000;
const QUIET_MS = 10_000;
/**
 * Accounts of which nothing is news that one exchange asks about all the same, those first that were so longest ago.
 */
const MAX_STALE = 100;
/** How often a call is asked for that is neither granted nor refused for certain. */
const MAX_TRIES = 5;
/** So many answers of a store that grants nothing end the wait of calls. */
const CLOSED_FOR_CALLS = 8;

/** A cap that a call is under, and what it counts in. */
export interface CapNeed {
  readonly holding: CapHolding;
  /** Of the window. */
  readonly name: string;
  readonly start: number;
  readonly cap: bigint;
}

interface Waiter {
  readonly needs: readonly CapNeed[];
  readonly more: bigint;
  readonly end: (verdict: CapVerdict) => void;
  isAsked: boolean;
  tries: number;
}

export interface NodeCapsOptions {
  readonly ledger: SharedLedger;
  readonly clock: Clock;
  readonly log: Pick<Logger, 'warn' | 'info'>;
}

/**
 * All that this node holds of the caps that it shares, and the exchanges by which it comes to that: at once while a
 * call waits, ahead of need where little is left, and once a second while anything changes. Calls that wait are served
 * first come first served.
 */
export class NodeCaps implements CapSpeaker {
  readonly #options: NodeCapsOptions;
  readonly #holdings = new Map<string, CapHolding>();
  #waiting: Waiter[] = [];
  #running: Promise<void> | undefined;
  /** Somebody has waited in vain, and nothing was heard since: nobody else waits. */
  #isSilent = false;
  /** Exchanges that failed since one has succeeded. */
  #failures = 0;
  #asked: readonly CapHolding[] = [];
  #cancelNext: (() => void) | undefined;
  #isEnding = false;
  /** Answers since the last one of a store that was open for grants. */
  #closed = 0;
  #isStarted = false;

  constructor(options: NodeCapsOptions) {
    this.#options = options;
  }

  /**
   * Begins to exchange. What this process has not set aside again by now, of calls of the one before it, others may
   * take: intents are records by now, and what is still to be charged is held.
   */
  start(): void {
    this.#isStarted = true;
    void this.#run();
  }

  /** The holding of an account. */
  of(id: string, source: () => CapSource): CapHolding {
    let holding = this.#holdings.get(id);
    if (holding === undefined) {
      holding = new CapHolding(id, source(), this.#now());
      this.#holdings.set(id, holding);
      // What is under way here others are to know at once.
      if (this.#isStarted && this.#running === undefined) this.#later(0);
    }
    return holding;
  }

  /** Whether the last exchange has succeeded. */
  get isReached(): boolean {
    return this.#failures === 0;
  }

  /** Pico-dollars that this node holds of the spend of scopes: of each scope of a call, what it is under a cap of. */
  get heldPico(): bigint {
    let held = 0n;
    for (const holding of this.#holdings.values()) if (holding.id.startsWith(SPEND_ACCOUNTS)) held += holding.free + holding.own;
    return held;
  }

  /** A call has taken so much under these caps. */
  use(needs: readonly CapNeed[], more: bigint): void {
    const now = this.#now();
    for (const holding of holdingsOf(needs)) {
      holding.use(now, more);
      if (holding.isLow) void this.#run();
    }
  }

  /** Asks for what a call needs more under these caps. */
  ask(needs: readonly CapNeed[], more: bigint): Promise<CapVerdict> {
    const { clock } = this.#options;
    const now = this.#now();
    if (this.#isEnding || this.#isSilent) return Promise.resolve('unavailable');
    for (const { holding, name, cap } of needs) {
      holding.bring(name, cap, now);
      holding.use(now, 0n);
    }
    return new Promise((resolve) => {
      const cancel = clock.after(WAIT_MS, () => {
        this.#isSilent = true;
        this.#end([waiter], 'unavailable');
      });
      const end = (verdict: CapVerdict): void => {
        cancel();
        resolve(verdict);
      };
      const waiter: Waiter = { needs, more, end, isAsked: false, tries: 0 };
      this.#waiting.push(waiter);
      void this.#run();
    });
  }

  /** Says now what there is to say. Resolves when that has succeeded or failed. */
  async exchange(): Promise<void> {
    while (this.#running !== undefined) await this.#running;
    await this.#run();
  }

  /** Takes nothing more, and gives back what is free. Who waits is not served. */
  async close(): Promise<void> {
    this.#isEnding = true;
    this.#end(this.#waiting, 'unavailable');
    await this.exchange();
    this.#cancelNext?.();
  }

  /** It says for the last time what it holds. */
  get isLeaving(): boolean {
    return this.#isEnding;
  }

  mark(): void {
    const now = this.#now();
    const hour = hourOf(this.#options.clock.now());
    for (const holding of this.#holdings.values()) holding.mark(hour, now);
  }

  say(isWhole: boolean): readonly CapAsk[] {
    const now = this.#now();
    const wishes = this.#wishes();
    // Of one that was made while the journal was read nobody knows what stands there.
    const holdings = [...this.#holdings.values()].filter((one) => one.isMarked);
    const named = new Set(holdings.filter((one) => isWhole || this.#isEnding || wishes.has(one) || one.isLow || one.isNews(now)));
    const stale = holdings.filter((one) => !named.has(one) && one.answeredAt <= now - BUSY_MS);
    for (const one of stale.sort((a, b) => a.answeredAt - b.answeredAt).slice(0, MAX_STALE)) named.add(one);
    this.#asked = [...named];
    return this.#asked.map((one) => one.say(wishes.get(one), now, this.#isEnding));
  }

  /** What those who wait want: of each holding, the first one and who is under the same caps. */
  #wishes(): ReadonlyMap<CapHolding, CapWish> {
    const wishes = new Map<CapHolding, CapWish>();
    for (const waiter of this.#waiting) {
      const holdings = holdingsOf(waiter.needs);
      waiter.isAsked = [...holdings].every((one) => one.isMarked);
      if (!waiter.isAsked) continue;
      for (const holding of holdings) {
        const caps = capsOf(holding, waiter.needs);
        const wish = wishes.get(holding);
        if (wish === undefined) wishes.set(holding, { wanted: waiter.more, caps });
        else if (isSame(wish.caps, caps)) wish.wanted += waiter.more;
        else waiter.isAsked = false;
      }
    }
    return wishes;
  }

  /** Begins an exchange; when one is under way another follows it for those who wait. */
  #run(): Promise<void> {
    if (this.#running !== undefined) return this.#running;
    this.#cancelNext?.();
    this.#running = this.#exchange().finally(() => {
      this.#running = undefined;
      this.#next();
    });
    return this.#running;
  }

  async #exchange(): Promise<void> {
    const { ledger, log } = this.#options;
    try {
      const done = await ledger.exchange(this);
      if (this.#failures > 1) log.info({}, 'caps that nodes share can be asked for again');
      this.#failures = 0;
      this.#isSilent = false;
      this.#learn(done);
    } catch (error) {
      this.#failures += 1;
      // A connection that broke is made anew once before anybody is refused for it.
      if (this.#failures < 2) return;
      if (this.#failures === 2) log.warn({ err: error }, 'caps that nodes share cannot be asked for; what this node holds of them lasts');
      this.#end(this.#waiting, 'unavailable');
    }
  }

  #next(): void {
    if (this.#isEnding) return;
    const isAsked = this.#waiting.some((one) => one.isAsked);
    if (this.#waiting.length > 0) this.#later(this.#failures > 0 || isAsked ? RETRY_MS : 0);
    else this.#later([...this.#holdings.values()].some((one) => one.isNews(this.#now())) || this.#failures > 0 ? BUSY_MS : QUIET_MS);
  }

  #later(ms: number): void {
    this.#cancelNext?.();
    if (ms === 0) queueMicrotask(() => void this.#run());
    else this.#cancelNext = this.#options.clock.after(ms, () => void this.#run());
  }

  #learn({ answers, isOpen, isTold, members }: CapExchanged): void {
    const now = this.#now();
    const exact = new Set<CapHolding>();
    for (const holding of this.#asked) {
      const answer: CapAnswer | undefined = answers.get(holding.id);
      if (answer && holding.answered(answer, now, members, isOpen && isTold)) exact.add(holding);
      if (holding.isOver(now)) {
        this.#holdings.delete(holding.id);
        holding.source.forget();
      }
    }
    const isGranting = isOpen && isTold;
    this.#closed = isGranting ? 0 : this.#closed + 1;
    // Some member has not said what it holds to the server as it is now: nobody knows when it will.
    if (this.#closed >= CLOSED_FOR_CALLS) this.#end(this.#waiting, 'unavailable');
    else this.#serve(isGranting, exact);
  }

  /** In their order. What one is to take is gone for those behind it. */
  #serve(isOpen: boolean, exact: ReadonlySet<CapHolding>): void {
    const taken = new Map<CapHolding, bigint>();
    for (const waiter of [...this.#waiting]) {
      const verdict = verdictOn(waiter, taken, isOpen, exact);
      if (verdict !== undefined) this.#end([waiter], verdict);
    }
  }

  #end(waiters: readonly Waiter[], verdict: CapVerdict): void {
    const ended = new Set(waiters);
    this.#waiting = this.#waiting.filter((one) => !ended.has(one));
    for (const { end } of ended) end(verdict);
  }

  #now(): number {
    return this.#options.clock.monotonic();
  }
}

/**
 * What becomes of one who waits, after an exchange; undefined: he waits on.
 * @param taken what those before him are to take, which he is added to
 * @param isOpen the exchange could grant something
 * @param exact of which it has said for certain what is left
 */
function verdictOn(
  waiter: Waiter,
  taken: Map<CapHolding, bigint>,
  isOpen: boolean,
  exact: ReadonlySet<CapHolding>,
): CapVerdict | undefined {
  const { needs } = waiter;
  const more = (holding: CapHolding): bigint => waiter.more + (taken.get(holding) ?? 0n);
  if (needs.every(({ holding, name, start, cap }) => holding.covers(name, start, cap, more(holding)))) {
    for (const holding of holdingsOf(needs)) taken.set(holding, more(holding));
    return 'granted';
  }
  if (!isOpen || !waiter.isAsked) return undefined;
  waiter.tries += 1;
  // Unless it is refused it is asked for once more, at once.
  waiter.isAsked = false;
  const passed = needs.find(({ holding, name, start, cap }) => holding.passes(name, start, cap, more(holding)));
  if (passed !== undefined && exact.has(passed.holding)) return 'refused';
  if (waiter.tries < MAX_TRIES) return undefined;
  // An hour may have turned meanwhile: whoever asks looks again what it is under.
  return passed ? 'refused' : 'granted';
}

function holdingsOf(needs: readonly CapNeed[]): ReadonlySet<CapHolding> {
  return new Set(needs.map(({ holding }) => holding));
}

/** The least of each window. */
function capsOf(holding: CapHolding, needs: readonly CapNeed[]): ReadonlyMap<string, bigint> {
  const caps = new Map<string, bigint>();
  for (const { name, cap, holding: of } of needs) {
    const before = caps.get(name);
    if (of === holding && (before === undefined || cap < before)) caps.set(name, cap);
  }
  return caps;
}

function isSame(a: ReadonlyMap<string, bigint>, b: ReadonlyMap<string, bigint>): boolean {
  return a.size === b.size && [...a].every(([name, cap]) => b.get(name) === cap);
}
