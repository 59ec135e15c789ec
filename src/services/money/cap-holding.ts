import type { CapAnswer, CapAsk, CapCount } from '../../storage/contract/cap-accounts.ts';
import type { CapSource, CapWindow } from './shared-ledger.ts';

/** What was not used for so long is given back. */
const IDLE_MS = 60_000;
/** A node asks for what it spends in this time. */
const AHEAD_MS = 10_000;

/** What an exchange has said of a window. */
interface KnownWindow {
  readonly start: number;
  readonly settled: bigint;
  /** Of that, what this node's own sums do not have. */
  readonly elsewhere: bigint;
  /** The caps that were in force when it was said. A smaller one that came later is to be asked for by itself. */
  readonly caps: ReadonlySet<bigint>;
}

/** What stands in the journal when it is read, so that an exchange ships it. */
interface Mark {
  readonly stored: bigint;
  /** Counted, and not in there. */
  readonly unstored: bigint;
  readonly windows: readonly CapWindow[];
  /** Nothing was stored while it was read: what is said counts nothing twice. */
  isExact: boolean;
}

/** What the calls that wait want of a holding: those of the first one and of others that are under the same caps. */
export interface CapWish {
  wanted: bigint;
  /** By the name of their windows. */
  readonly caps: ReadonlyMap<string, bigint>;
}

/**
 * What this node holds of an account, and may spend without asking. Its obligations are what calls under way have set
 * aside and what was counted and is not shipped; they are never more than it holds, unless a call costs more than was
 * set aside for it. A cap lets through what obligations and call do not make more than `held`, nor more than cap -
 * settled - what others hold: the latter two as the last exchange has said them, when that cap was in force.
 */
export class CapHolding {
  readonly id: string;
  readonly source: CapSource;
  /** What others hold. */
  others = 0n;
  #held = 0n;
  /** All that was counted here since the holding was made ... */
  #counted = 0n;
  /** ... and of that, what was shipped with the last exchange. Negative where something counted before it was. */
  #shipped = 0n;
  readonly #known = new Map<string, KnownWindow>();
  /** Caps that calls have brought along, and when one did so last. */
  readonly #brought = new Map<string, Map<bigint, number>>();
  #mark: Mark | undefined;
  #said = 0n;
  #saidOf: readonly [bigint, bigint] | undefined;
  /** What was free when an exchange had answered. */
  #quota = 0n;
  #recent = 0n;
  #taken = 0n;
  #usedAt: number;
  answeredAt = Number.NEGATIVE_INFINITY;
  #members = 1n;

  constructor(id: string, source: CapSource, now: number) {
    this.id = id;
    this.source = source;
    this.#usedAt = now;
  }

  /** What calls under way have set aside, and what was counted and is not shipped. */
  get own(): bigint {
    return this.source.reserved + this.#counted - this.#shipped;
  }

  get free(): bigint {
    return positive(this.#held - this.own);
  }

  /** Whether a call may take so much more under a cap. @param start of the window that it is in */
  covers(name: string, start: number, cap: bigint, more: bigint): boolean {
    const known = this.#known.get(name);
    if (known === undefined || known.start !== start || !known.caps.has(cap)) return false;
    const left = cap - known.settled - this.others;
    return this.own + more <= (left < this.#held ? left : this.#held);
  }

  /** Whether the last exchange has said that a cap does not leave so much. */
  passes(name: string, start: number, cap: bigint, more: bigint): boolean {
    const known = this.#known.get(name);
    return known?.start === start && known.caps.has(cap) && known.settled + this.others + this.own + more > cap;
  }

  /** What is settled in a window and is not in this node's own sums. */
  elsewhere(name: string, start: number): bigint {
    const known = this.#known.get(name);
    return known?.start === start ? known.elsewhere : 0n;
  }

  count(pico: bigint): void {
    this.#counted += pico;
  }

  /** A call has taken so much under a cap, or waits for it. */
  use(now: number, more: bigint): void {
    this.#usedAt = now;
    this.#taken += more;
  }

  /** A cap that a call brings along is of interest while calls do. */
  bring(name: string, cap: bigint, now: number): void {
    const caps = this.#brought.get(name);
    if (caps === undefined) this.#brought.set(name, new Map([[cap, now]]));
    else caps.set(cap, now);
  }

  /** Less than half of what the last exchange left free is still free, and the cap leaves more to ask for. */
  get isLow(): boolean {
    return this.free * 2n < this.#quota && this.#ahead() > 0n;
  }

  /** What stands in the journal is known: it was there before the last piece was read. */
  get isMarked(): boolean {
    return this.#mark !== undefined;
  }

  /** Something is to be said: sums have changed, or what is free has not been used for long. */
  isNews(now: number): boolean {
    const [reserved, counted] = this.#saidOf ?? [];
    return reserved !== this.source.reserved || counted !== this.#counted || (this.#isUnused(now) && this.free > 0n);
  }

  mark(hour: number, now: number): void {
    for (const [name, caps] of this.#brought) {
      for (const [cap, usedAt] of caps) if (usedAt < now - IDLE_MS) caps.delete(cap);
      if (caps.size === 0) this.#brought.delete(name);
    }
    const windows = this.source.windows(hour, new Set(this.#brought.keys()));
    const { unstored } = this.source;
    this.#mark = { stored: this.#counted - unstored, unstored, windows, isExact: true };
  }

  /**
   * What it says, behind the mark. What it gives back is not spent from now on.
   * @param isLast all that is free is given back
   */
  say(wish: CapWish | undefined, now: number, isLast: boolean): CapAsk {
    const { stored, windows } = this.#mark as Mark;
    (this.#mark as Mark).isExact = stored === this.#counted - this.source.unstored;
    const keeps = isLast || this.#isUnused(now) ? 0n : this.#usable();
    if (keeps < this.free) this.#held = this.own + keeps;
    const held = positive(this.source.reserved + this.#counted - stored) + keeps;
    this.#said = held;
    this.#saidOf = [this.source.reserved, this.#counted];
    const counts = windows.map((window): CapCount => ({ range: window.range, cap: this.#capOf(window, wish) }));
    const ahead = isLast || (wish === undefined && !this.isLow) ? 0n : this.#ahead();
    return { id: this.id, held, wanted: positive((wish?.wanted ?? 0n) + ahead - keeps), counts };
  }

  /**
   * @param isOpen the store grants: every member has said what it holds
   * @returns false: something may have been counted twice, so that a call that does not fit is to ask once more
   */
  answered({ granted, others, settled }: CapAnswer, now: number, members: number, isOpen: boolean): boolean {
    const { stored, unstored, windows, isExact } = this.#mark as Mark;
    this.others = others;
    this.#held = this.#said + granted;
    this.#shipped = stored;
    const before = new Map(this.#known);
    this.#known.clear();
    for (const [at, { name, start, caps, settled: believed }] of windows.entries()) {
      const sum = settled[at] ?? 0n;
      const told = before.get(name);
      // A store that is not open may not know all that was spent: no cap counts from what it says for the first time.
      const isKnown = (cap: bigint): boolean => isOpen || (told?.start === start && told.caps.has(cap));
      const known = new Set([...caps, ...(this.#brought.get(name)?.keys() ?? [])].filter(isKnown));
      this.#known.set(name, { start, settled: sum, elsewhere: sum - (believed - unstored), caps: known });
    }
    const passed = BigInt(Math.round(Math.min(AHEAD_MS, Math.max(0, now - this.answeredAt))));
    this.#recent = (this.#recent * (BigInt(AHEAD_MS) - passed)) / BigInt(AHEAD_MS) + this.#taken;
    this.#taken = 0n;
    this.#quota = this.free;
    this.#members = BigInt(Math.max(1, members));
    this.answeredAt = now;
    return isExact;
  }

  /** Nothing is held, and no limit looks at it. */
  isOver(now: number): boolean {
    const isWatched = this.#mark?.windows.some((window) => window.isWatched) === true;
    return !isWatched && this.#held === 0n && this.own === 0n && this.#brought.size === 0 && this.#isUnused(now);
  }

  #isUnused(now: number): boolean {
    return now - this.#usedAt >= IDLE_MS;
  }

  /** The part of the free amount that no cap in force forbids. */
  #usable(): bigint {
    let usable = this.free;
    for (const { name, start, caps } of this.#mark?.windows ?? []) {
      const known = this.#known.get(name);
      if (known?.start !== start) continue;
      for (const cap of caps) usable = least(usable, positive(cap - known.settled - this.others - this.own));
    }
    return usable;
  }

  /** The cap that a wish is held against: that of the calls which wait, else the least that there is. */
  #capOf({ name, caps }: CapWindow, wish: CapWish | undefined): bigint | undefined {
    if (wish !== undefined) return wish.caps.get(name);
    return leastOf([...caps, ...(this.#brought.get(name)?.keys() ?? [])]);
  }

  /** How much more than what calls need it is to have: nothing near a cap, where each call is asked for by itself. */
  #ahead(): bigint {
    let ahead = this.#recent;
    for (const { settled, caps } of this.#known.values()) {
      const cap = leastOf([...caps]);
      if (cap === undefined) continue;
      const left = positive(cap - settled - this.others - this.#held);
      ahead = left * 20n < cap ? 0n : least(ahead, left / (4n * this.#members));
    }
    return ahead;
  }
}

function positive(amount: bigint): bigint {
  return amount > 0n ? amount : 0n;
}

function least(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}

function leastOf(amounts: readonly bigint[]): bigint | undefined {
  return amounts.reduce<bigint | undefined>((found, one) => (found === undefined || one < found ? one : found), undefined);
}
