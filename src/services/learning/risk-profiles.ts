import { randomBytes } from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import type { Clock } from '../../base/lib/clock.ts';
import type { Logger } from '../../base/lib/log.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import { Shares } from '../../base/lib/shares.ts';
import { significant } from '../../base/lib/text.ts';
import { newProfile, type RiskProfile, type Spread } from '../../decide/risk/risk-profile.ts';
import type { RiskNotice } from '../../decide/risk/risk-score.ts';
import type { Effect, Store } from '../../storage/contract/store.ts';
import { entityPages } from '../../storage/contract/store-pages.ts';
import { ALL_LAID_DOWN, type LaidDown, type Sharer, sharerOf } from '../registers/sharers.ts';
import type { QuarantineCaller } from '../review/quarantines.ts';

/** By the hash of org, workload and caller: names that callers choose are not kept. */
const SPACE = 'risk_profile';
/** What a kill loses at most. */
const STORE_EVERY_MS = 60_000;
const STORED_AT_ONCE = 250;
/**
 * Callers that memory has no place for any more and that wait to be stored: from the first number on they are stored at
 * once, beyond the second what was learnt lately of the oldest is lost.
 */
const MANY_LEAVING = 250;
const MAX_LEAVING = 1_000;
/** Another form of the profile: what is stored in this one is not read then. */
const FORM = 1;
/** Of what is stored, significant digits. */
const DIGITS = 5;

export interface RiskProfilesOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  /** Profiles in memory (`GW_RISK_MAX_CALLERS`). */
  readonly maxCallers: number;
  /** Which names are no caller's own. Default: all. */
  readonly known?: LaidDown;
}

/** A caller in memory. */
export interface KnownCaller {
  readonly key: string;
  /** Whose share of the memory he takes. */
  readonly share: Sharer;
  readonly profile: RiskProfile;
  /** False where nothing could be read of him: what is stored must not give way to it. */
  readonly isKept: boolean;
  /** Something was learnt of him that is not stored. */
  isChanged: boolean;
  /** What people were last told of him, since this process has known him. */
  noticed: RiskNotice | undefined;
}

interface StoredProfile {
  readonly form: number;
  readonly profile: RiskProfile;
}

/**
 * The profiles of callers: those that were heard of last are in memory, all are in the store. Who takes most of the
 * memory gives way first (decision 7.12). They are stored together, once a minute and at the end. What nothing can be
 * read or stored of costs no request: he is new then.
 */
export class RiskProfiles {
  readonly #options: RiskProfilesOptions;
  readonly #known = new Map<string, KnownCaller>();
  /** The same by whose share they take; the one that was not heard of for longest comes first. */
  readonly #groups = new Map<string, Map<string, KnownCaller>>();
  readonly #shares = new Shares(Number.POSITIVE_INFINITY);
  /** Those of them of whom something is not stored. */
  readonly #changed = new Map<string, KnownCaller>();
  /** Those that memory has no place for any more, and of whom something is not stored; the oldest first. */
  readonly #leaving = new Map<string, KnownCaller>();
  /** The last of those in memory. */
  #latest: KnownCaller | undefined;
  readonly #reading = new Map<string, Promise<KnownCaller>>();
  #storing: Promise<void> = Promise.resolve();
  #isMakingRoom = false;
  #cancel: (() => void) | undefined;
  #isClosed = false;
  #isFailing = false;

  constructor(options: RiskProfilesOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#known.size;
  }

  /** What is known of a caller, at once when it is in memory. */
  of(caller: QuarantineCaller): KnownCaller | Promise<KnownCaller> {
    const key = keyOf(caller);
    const known = this.#known.get(key);
    if (known) return this.#hold(known);
    const leaving = this.#leaving.get(key);
    if (leaving) {
      this.#leaving.delete(key);
      this.#changed.set(key, leaving);
      return this.#hold(leaving);
    }
    const reading = this.#reading.get(key);
    if (reading) return reading;
    const begun = this.#read(key, sharerOf(caller, this.#options.known ?? ALL_LAID_DOWN)).finally(() => this.#reading.delete(key));
    this.#reading.set(key, begun);
    return begun;
  }

  /** Something was learnt of him. */
  changed(known: KnownCaller): void {
    if (known.isChanged || !known.isKept) return;
    const { key } = known;
    const current = this.#known.get(key);
    // Another may have been read in his place since he was let go of: then that one counts.
    if (current !== undefined && current !== known) return;
    known.isChanged = true;
    this.#changed.set(key, known);
    if (current === undefined) this.#hold(known);
    if (this.#cancel === undefined && !this.#isClosed) this.#storeLater();
  }

  async removeBefore(epochMs: number): Promise<number> {
    const { store } = this.#options;
    let removed = 0;
    for await (const rows of entityPages(store, SPACE)) {
      const gone = rows.filter(({ value }) => !((value as StoredProfile).profile.lastAt >= epochMs));
      if (gone.length > 0)
        await store.commit(
          undefined,
          gone.map(({ key }): Effect => ({ op: 'delete', space: SPACE, key })),
        );
      removed += gone.length;
    }
    return removed;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancel?.();
    await Promise.allSettled(this.#reading.values());
    await this.#storing;
    await this.store();
  }

  /** Stores what has changed so far. Never rejects. */
  store(): Promise<void> {
    return this.#storeAll([...this.#leaving.values(), ...this.#changed.values()]);
  }

  /** One after the other, so that of one caller the latest is what stays. */
  #storeAll(all: readonly KnownCaller[]): Promise<void> {
    this.#storing = this.#storing.then(async () => {
      for (let at = 0; at < all.length; at += STORED_AT_ONCE) {
        if (!(await this.#storeSome(all.slice(at, at + STORED_AT_ONCE)))) return;
        await turn();
      }
    });
    return this.#storing;
  }

  /** @returns false when it could not be stored */
  async #storeSome(some: readonly KnownCaller[]): Promise<boolean> {
    const effects = some.map(({ key, profile }): Effect => ({ op: 'put', space: SPACE, key: storedKey(key), value: kept(profile) }));
    // What is learnt from here on is stored the next time. Who leaves can be found until he is stored.
    for (const known of some) {
      this.#changed.delete(known.key);
      known.isChanged = this.#leaving.get(known.key) === known;
    }
    try {
      await this.#options.store.commit(undefined, effects);
    } catch (error) {
      this.#notStored(some, error);
      return false;
    }
    this.#isFailing = false;
    for (const known of some) this.#stored(known);
    return true;
  }

  #stored(known: KnownCaller): void {
    if (this.#leaving.get(known.key) !== known) return;
    this.#leaving.delete(known.key);
    known.isChanged = false;
  }

  #notStored(batch: readonly KnownCaller[], error: unknown): void {
    for (const known of batch) {
      if (this.#known.get(known.key) !== known) continue;
      known.isChanged = true;
      this.#changed.set(known.key, known);
    }
    if (!this.#isFailing) this.#options.log.warn({ err: error }, 'what was learnt of callers could not be stored; it is tried again');
    this.#isFailing = true;
  }

  #storeLater(): void {
    this.#cancel = this.#options.clock.after(STORE_EVERY_MS, () => {
      void this.store().then(() => {
        this.#cancel = undefined;
        if (this.#changed.size + this.#leaving.size > 0 && !this.#isClosed) this.#storeLater();
      });
    });
  }

  async #read(key: string, share: Sharer): Promise<KnownCaller> {
    const { store, clock, log } = this.#options;
    const fresh = (): RiskProfile => newProfile(clock.now(), randomBytes(4).readInt32LE());
    const known = (profile: RiskProfile, isKept: boolean): KnownCaller => ({
      key,
      share,
      profile,
      isKept,
      isChanged: false,
      noticed: undefined,
    });
    try {
      const stored = (await store.get(SPACE, storedKey(key))) as StoredProfile | undefined;
      return this.#hold(known(stored?.form === FORM ? stored.profile : fresh(), true));
    } catch (error) {
      if (!this.#isFailing) log.warn({ err: error }, 'what is known of callers cannot be read; they count as new');
      this.#isFailing = true;
      return known(fresh(), false);
    }
  }

  /** He is the most recent one; of the share that has most the one that was not heard of for longest gives way. */
  #hold(known: KnownCaller): KnownCaller {
    // Whoever calls again and again is in his place.
    if (known === this.#latest) return known;
    this.#latest = known;
    const { key, share } = known;
    const group = this.#groupOf(share);
    if (this.#known.get(key) === undefined) this.#shares.take(share.org, share.caller);
    this.#known.set(key, known);
    group.delete(key);
    group.set(key, known);
    if (this.#known.size > this.#options.maxCallers) {
      const oldest = this.#oldest();
      if (oldest) this.#letGo(oldest);
    }
    return known;
  }

  #groupOf({ org, caller }: Sharer): Map<string, KnownCaller> {
    const name = `${org}\u0000${caller}`;
    let group = this.#groups.get(name);
    if (group === undefined) {
      group = new Map();
      this.#groups.set(name, group);
    }
    return group;
  }

  #oldest(): KnownCaller | undefined {
    const org = this.#shares.largest();
    const caller = org === undefined ? undefined : this.#shares.largestCaller(org);
    if (org === undefined || caller === undefined) return undefined;
    const [oldest] = this.#groupOf({ org, caller }).values();
    return oldest;
  }

  #letGo(known: KnownCaller): void {
    const { key, share } = known;
    this.#known.delete(key);
    this.#shares.give(share.org, share.caller);
    const group = this.#groupOf(share);
    group.delete(key);
    if (group.size === 0) this.#groups.delete(`${share.org}\u0000${share.caller}`);
    if (!this.#changed.delete(known.key)) return;
    this.#leaving.set(known.key, known);
    if (this.#leaving.size >= MANY_LEAVING) this.#makeRoom();
    const [oldest] = this.#leaving.keys();
    const lost = oldest === undefined || this.#leaving.size <= MAX_LEAVING ? undefined : this.#leaving.get(oldest);
    if (lost) this.#stored(lost);
  }

  #makeRoom(): void {
    if (this.#isMakingRoom) return;
    this.#isMakingRoom = true;
    void this.#storeAll([...this.#leaving.values()]).finally(() => {
      this.#isMakingRoom = false;
    });
  }
}

function keyOf({ orgId, workloadId, callerId, callerIp }: QuarantineCaller): string {
  // A name and an address that read the same are two callers.
  return `${orgId}\u0000${workloadId}\u0000${callerId === undefined ? `ip ${callerIp}` : `id ${callerId}`}`;
}

function storedKey(key: string): string {
  return sha256Hex(key);
}

/** With as many digits as mean something: it is stored once a minute for each caller. */
function kept(profile: RiskProfile): StoredProfile {
  const { cost, prompt, rate, hours, days } = profile;
  return {
    form: FORM,
    profile: {
      ...profile,
      recent: digits(profile.recent),
      recentDenied: digits(profile.recentDenied),
      recentCost: digits(profile.recentCost),
      denied: digits(profile.denied),
      novelty: digits(profile.novelty),
      peak: digits(profile.peak),
      rate: short(rate),
      cost: short(cost),
      prompt: short(prompt),
      hours: hours.map(digits),
      days: days.map(digits),
    },
  };
}

function short({ weight, mean, variance }: Spread): Spread {
  return { weight: digits(weight), mean: digits(mean), variance: digits(variance) };
}

function digits(value: number): number {
  return significant(value, DIGITS);
}
