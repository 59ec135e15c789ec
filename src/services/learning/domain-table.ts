import type { TrafficClass } from '../../base/model/action-request.ts';
import { entityWith } from '../registers/watched-space.ts';
import type { DomainCallers, StoredCaller } from './domain-callers.ts';

/** How often clients went somewhere. */
export interface DomainCounts {
  /** CONNECTs whose caller was let in. */
  connections: number;
  /** Requests that the gateway saw as such. */
  requests: number;
  /**
   * Both together by the port that they came in by. Zero for what versions counted that did not tell the ports apart.
   */
  developer: number;
  ambient: number;
}

/** What is kept of a domain. Changed in place: it is met with every request. */
export interface DomainEntry extends DomainCounts {
  readonly domain: string;
  /** Milliseconds since the epoch. */
  firstSeen: number;
  lastSeen: number;
  pinned: boolean;
  wantsClientCertificate: boolean;
  /** The wire format that a request to it looked like. */
  looksLike?: string;
  /** The provider that its name looks like. */
  readonly namedLike: string | undefined;
  /** The store has an older state of it, or none. */
  dirty: boolean;
  /** The store may have a state of it. */
  isStored: boolean;
  /** What the store may have is of before it left the list: those counts are among those of what was let go. */
  isAnew: boolean;
  /**
   * The state of it that is stored, as far as is known here: what it has more was counted here since. Undefined: none.
   */
  stored: StoredDomain | undefined;
  /** Which workloads went there. */
  readonly callers: DomainCallers;
  /** The address that named it first, since the start of the gateway; undefined: not known. */
  readonly from?: string | undefined;
}

/** What is stored of a domain. Earlier versions did not tell the ports apart, nor who went there. */
export type StoredDomain = Omit<
  DomainEntry,
  'domain' | 'dirty' | 'isStored' | 'isAnew' | 'stored' | 'namedLike' | 'from' | 'developer' | 'ambient' | 'callers'
> &
  Partial<Pick<DomainEntry, 'developer' | 'ambient'>> & { readonly callers?: readonly StoredCaller[] };

/** Takes in what is stored now: what others have counted is added, and what was counted here since stays. */
export function absorb(entry: DomainEntry, now: StoredDomain): void {
  const before = entry.stored;
  addCounts(entry, now, before);
  entry.callers.absorb(now.callers ?? [], before?.callers ?? []);
  entry.firstSeen = Math.min(entry.firstSeen, now.firstSeen);
  entry.lastSeen = Math.max(entry.lastSeen, now.lastSeen);
  entry.pinned ||= now.pinned;
  entry.wantsClientCertificate ||= now.wantsClientCertificate;
  if (now.looksLike !== undefined) entry.looksLike ??= now.looksLike;
  entry.stored = now;
}

const isDomain = entityWith<StoredDomain>();

/** Undefined: it is none. */
export function storedDomain(value: unknown): StoredDomain | undefined {
  const found = isDomain(value);
  return typeof found?.firstSeen === 'number' && typeof found.lastSeen === 'number' ? found : undefined;
}

/** Adds by how much what is stored has grown. */
function addCounts(counts: DomainCounts, now: Partial<DomainCounts>, before: Partial<DomainCounts> = {}): void {
  for (const name of ['connections', 'requests', 'developer', 'ambient'] as const) counts[name] += (now[name] ?? 0) - (before[name] ?? 0);
}

/** What was counted of domains that are no longer on the list. */
export interface ForgottenDomains extends DomainCounts {
  /** How often a domain was let go; one that came back and went again counts twice. */
  domains: number;
}

const isForgotten = entityWith<ForgottenDomains>();

/** As they are stored; earlier versions did not tell the ports apart. */
export function readForgotten(value: unknown): ForgottenDomains | undefined {
  const found = isForgotten(value);
  return found && { ...NOTHING, ...found };
}

/** Both together. */
export function forgottenOf(stored: Readonly<ForgottenDomains> = NOTHING, more: Readonly<ForgottenDomains>): ForgottenDomains {
  const sum = { ...stored, domains: stored.domains + more.domains };
  addCounts(sum, more);
  return sum;
}

const NOTHING: ForgottenDomains = { domains: 0, connections: 0, requests: 0, developer: 0, ambient: 0 };

/**
 * Domains by name, never more than `max`. When it is full a fifth is let go in one pass, so that a new name costs next
 * to nothing: a quarter of what stays is what was met last, the rest is what was met most. Addresses that have named
 * more than others lose theirs first (decision 7.12). So names that somebody makes up push out each other, and no
 * domain that has traffic, while a domain that is new has time to gather its own (decision 12.3).
 */
export class DomainTable {
  readonly #max: number;
  readonly #entries = new Map<string, DomainEntry>();
  readonly #onGone: (entry: DomainEntry) => void;
  #forgotten: ForgottenDomains = { ...NOTHING };

  /** @param onGone called for each domain that is let go */
  constructor(max: number, onGone: (entry: DomainEntry) => void) {
    this.#max = max;
    this.#onGone = onGone;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** The counts of what was let go since {@link clearForgotten}. */
  get forgotten(): Readonly<ForgottenDomains> {
    return this.#forgotten;
  }

  /** In the order in which they came to the list. */
  values(): IterableIterator<DomainEntry> {
    return this.#entries.values();
  }

  get(domain: string): DomainEntry | undefined {
    return this.#entries.get(domain);
  }

  add(entry: DomainEntry): void {
    if (this.#entries.size >= this.#max) this.#makeRoom();
    this.#entries.set(entry.domain, entry);
  }

  /** Counts of what was let go, which could not be saved. */
  addForgotten(counts: ForgottenDomains): void {
    this.#forgotten = forgottenOf(this.#forgotten, counts);
  }

  /** Takes it off the list; it does not count as let go. */
  drop(domain: string): void {
    this.#entries.delete(domain);
  }

  /** Forgets everything, without a trace. */
  clear(): void {
    for (const entry of this.#entries.values()) this.#onGone(entry);
    this.#entries.clear();
    this.clearForgotten();
  }

  /** They count elsewhere from now on. */
  clearForgotten(): void {
    this.#forgotten = { ...NOTHING };
  }

  #makeRoom(): void {
    const count = Math.max(1, Math.floor(this.#max / 5));
    const gone = leastOfLargest(this.#entries.values(), count) ?? leastOf([...this.#entries.values()], count);
    for (const entry of gone) this.#letGo(entry);
  }

  #letGo(entry: DomainEntry): void {
    this.#entries.delete(entry.domain);
    const sum = this.#forgotten;
    sum.domains += 1;
    sum.connections += entry.connections;
    sum.requests += entry.requests;
    sum.developer += entry.developer;
    sum.ambient += entry.ambient;
    this.#onGone(entry);
  }
}

/** What is let go of these, in the order in which they came. */
function leastOf(entries: readonly DomainEntry[], count: number): readonly DomainEntry[] {
  const kept = entries.length - count;
  // Of those that were met in the same millisecond the later name is the newer one: the sort keeps this order.
  const newestFirst = [...entries].reverse().sort((a, b) => b.lastSeen - a.lastSeen);
  const others = newestFirst.slice(Math.floor(kept / 4)).sort((a, b) => hitsOf(b) - hitsOf(a));
  return others.slice(kept - Math.floor(kept / 4));
}

/**
 * What is let go of the addresses that have named most, so that each of them keeps as many as the others; undefined
 * where none has named more than others.
 */
function leastOfLargest(entries: Iterable<DomainEntry>, count: number): readonly DomainEntry[] | undefined {
  const groups = new Map<string, DomainEntry[]>();
  for (const entry of entries) {
    if (entry.from === undefined) continue;
    const group = groups.get(entry.from);
    if (group === undefined) groups.set(entry.from, [entry]);
    else group.push(entry);
  }
  const largest = [...groups.values()].sort((a, b) => b.length - a.length);
  let sum = 0;
  for (const [at, group] of largest.entries()) {
    sum += group.length;
    const next = largest[at + 1]?.length ?? 0;
    if (sum - (at + 1) * next < count) continue;
    const left = Math.ceil((sum - count) / (at + 1));
    return left < 2 ? undefined : largest.slice(0, at + 1).flatMap((one) => leastOf(one, Math.max(0, one.length - left)));
  }
  return undefined;
}

/** How often somebody went there: by CONNECT, and by each request that was seen. */
export function hitsOf({ connections, requests }: Readonly<DomainCounts>): number {
  return connections + requests;
}

/** Counts one more, by the port that it came in by. */
export function countHit(entry: DomainCounts, what: 'connections' | 'requests', trafficClass: TrafficClass): void {
  entry[what] += 1;
  entry[trafficClass] += 1;
}
