import type { CurrentCatalogue } from '../../base/catalogue/catalogue-in-force.ts';
import type { Catalogue } from '../../base/catalogue/types.ts';
import type { Listeners } from '../../base/events/bus.ts';
import type { HostMet } from '../../base/events/events.ts';
import { type Clock, timestamp } from '../../base/lib/clock.ts';
import type { Logger } from '../../base/lib/log.ts';
import { Turn } from '../../base/lib/turn.ts';
import type { TrafficClass } from '../../base/model/action-request.ts';
import { CONTROL_BOUNDS } from '../../base/model/org-bounds.ts';
import type { Store } from '../../storage/contract/store.ts';
import type { WorkloadService } from '../people/workloads.ts';
import {
  type DiscoveredDomain,
  type DomainKind,
  kindOf,
  namedDomain,
  type OrgDomain,
  orgDomain,
  type ShownCounts,
  shownCaller,
  shownCounts,
} from './discovered-domain.ts';
import { DomainCallers } from './domain-callers.ts';
import { countHit, type DomainEntry, DomainTable, hitsOf } from './domain-table.ts';
import { StoredDomains } from './stored-domains.ts';

const MAX_DOMAINS = CONTROL_BOUNDS.domains.all;
/** What was counted since the last save is lost when the process is killed. */
const SAVE_EVERY_MS = 60_000;
/** A new name, or a new mark, is saved so soon, once between two saves: a kill then costs a name hardly ever. */
const SAVE_NEWS_MS = 5_000;

/** What came of domains that the list had no room for. */
export interface OtherDomains extends ShownCounts {
  readonly domains: number;
}

/** By what the list can be ordered; the greatest stand first. */
export const DOMAIN_ORDERS = ['last_seen', 'first_seen', 'hits', 'requests'] as const;
export type DomainOrder = (typeof DOMAIN_ORDERS)[number];

export interface DomainQuery {
  /** Only those that a connector covers, or only those that none does. */
  readonly managed?: boolean | undefined;
  readonly category?: string | undefined;
  /** In any case. */
  readonly vendor?: string | undefined;
  /** Only those that look like an AI API, or only those that do not. */
  readonly lookalike?: boolean | undefined;
  /**
   * Only AI: what a connector covers, what is on the list of AI domains, and what looks like an AI API; or only what is
   * none of these.
   */
  readonly ai?: boolean | undefined;
  /** Only those to which this workload went. */
  readonly workloadId?: string | undefined;
  /** Only those that were met by that port. */
  readonly trafficClass?: TrafficClass | undefined;
  /** Default: those that were met last stand first. */
  readonly sort?: DomainOrder | undefined;
  /** Default: all. */
  readonly limit?: number | undefined;
}

export interface DomainList {
  readonly domains: readonly DiscoveredDomain[];
  /** How many the query found, before its limit. */
  readonly total: number;
  /** Of all domains that were let go, whatever the query asks. */
  readonly other: OtherDomains;
}

export interface DiscoveryOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  readonly catalogues: CurrentCatalogue;
  readonly workloads: Pick<WorkloadService, 'get' | 'defaultWorkloadId'>;
  /** The gateway's own; default `default`. */
  readonly ownOrg?: string;
  /** Default 5,000. */
  readonly maxDomains?: number;
}

/**
 * Counts which domains traffic goes to, so that an operator sees AI services that nobody manages yet (specification,
 * "Transparent proxy mode" 8), and says which of them look like one. Names and numbers only: never a path, a header or
 * a payload. It is fed by events, counts in memory, and saves once a minute what changed (decision 12.3).
 */
export class Discovery {
  readonly #options: DiscoveryOptions;
  readonly #table: DomainTable;
  readonly #stored: StoredDomains;
  readonly #gone: Set<string>;
  readonly #saving = new Turn();
  #cancelSave: (() => void) | undefined;
  #cancelNews: (() => void) | undefined;
  #newsSaved = false;

  /** Reads what was saved, and saves from then on. */
  static async open(options: DiscoveryOptions): Promise<Discovery> {
    const { store, catalogues, maxDomains = MAX_DOMAINS } = options;
    const gone = new Set<string>();
    const table = new DomainTable(maxDomains, ({ domain, isStored }) => {
      if (isStored) gone.add(domain);
    });
    const stored = await StoredDomains.open(store, table, gone, (host) => catalogues.current().lookalikes.byName(host));
    const discovery = new Discovery(options, table, gone, stored);
    discovery.#saveLater();
    return discovery;
  }

  private constructor(options: DiscoveryOptions, table: DomainTable, gone: Set<string>, stored: StoredDomains) {
    this.#options = options;
    this.#table = table;
    this.#gone = gone;
    this.#stored = stored;
  }

  /** What this wants to hear. */
  readonly events: Listeners = {
    connected: (met) => this.#count(met, 'connections'),
    passed: (met) => this.#count(met, 'requests'),
    execution: ({ record }) => {
      if (record.record_tier !== 'action' || record.target_host === '') return;
      const { target_host: host, caller_ip: from, traffic_class: trafficClass, org_id: orgId, workload_id: named } = record;
      const { workloads } = this.#options;
      // A name that nobody has registered is a stranger's: it takes no place.
      const workloadId = workloads.get(orgId, named) === undefined ? workloads.defaultWorkloadId(orgId) : named;
      this.#count({ host, from, trafficClass, orgId, workloadId }, 'requests');
    },
    handshakeRejected: ({ host }) => this.#mark(host, 'pinned'),
    clientCertificateWanted: (host) => this.#mark(host, 'wantsClientCertificate'),
    lookedLike: ({ host, like }) => this.#look(host, like),
  };

  /** What was found, and what was let go. */
  list({ sort = 'last_seen', limit, ...query }: DomainQuery = {}): DomainList {
    const found = Array.from(this.#table.values(), (entry) => this.#shown(entry)).filter((domain) => fits(domain, query));
    found.sort((a, b) => descending(a[sort], b[sort]) || (a.domain < b.domain ? -1 : 1));
    const { domains, ...counts } = this.#stored.forgotten;
    return { domains: found.slice(0, limit), total: found.length, other: { domains, ...shownCounts(counts) } };
  }

  /**
   * The same for one org: where its own workloads went, as its own connectors cover it, in the order of their names.
   */
  listOf(orgId: string, query: Pick<DomainQuery, 'managed' | 'ai' | 'vendor' | 'workloadId'>): readonly OrgDomain[] {
    const catalogue = this.#options.catalogues.current().forOrg(orgId);
    const found: OrgDomain[] = [];
    for (const entry of this.#table.values()) {
      const domain = orgDomain(entry, orgId, catalogue);
      if (domain !== undefined && fits(domain, query)) found.push(domain);
    }
    return found;
  }

  /** How many domains of each kind there are, and their hits. */
  kinds(): Readonly<Record<DomainKind, { readonly domains: number; readonly hits: number }>> {
    const catalogue = this.#ownCatalogue();
    const sums = {
      governed: { domains: 0, hits: 0 },
      ai: { domains: 0, hits: 0 },
      lookalike: { domains: 0, hits: 0 },
      other: { domains: 0, hits: 0 },
    };
    for (const entry of this.#table.values()) {
      const sum = sums[kindOf(namedDomain(entry, catalogue))];
      sum.domains += 1;
      sum.hits += hitsOf(entry);
    }
    return sums;
  }

  /** Domains on the list. */
  get size(): number {
    return this.#table.size;
  }

  /** Domains on the list that look like an AI API and that no connector covers. */
  get lookalikes(): number {
    const catalogue = this.#ownCatalogue();
    let count = 0;
    for (const { domain, looksLike, namedLike } of this.#table.values()) {
      if ((looksLike ?? namedLike) !== undefined && catalogue.providerForHost(domain) === undefined) count += 1;
    }
    return count;
  }

  /** Whether a request has shown what a host looks like. */
  knowsLook(host: string): boolean {
    return this.#table.get(host)?.looksLike !== undefined;
  }

  /**
   * Forgets every domain, in the store too.
   * @throws GatewayError `record_store_unavailable` when the store cannot write
   */
  reset(): Promise<void> {
    return this.#saving.take(() => this.#stored.reset());
  }

  /**
   * Brings what changed into the store. Saves follow one another, so that an older state never overtakes a newer one.
   */
  save(): Promise<void> {
    return this.#saving.take(() => this.#stored.save());
  }

  /** Saves once more and stops. */
  async close(): Promise<void> {
    this.#cancelSave?.();
    this.#cancelNews?.();
    await this.#trySave();
  }

  #count({ host, from, trafficClass, orgId, workloadId }: HostMet, what: 'connections' | 'requests'): void {
    const entry = this.#meet(host, from);
    countHit(entry, what, trafficClass);
    entry.callers.count(orgId, workloadId, entry.lastSeen);
  }

  #meet(host: string, from?: string): DomainEntry {
    const now = this.#options.clock.now();
    let entry = this.#table.get(host);
    if (entry === undefined) {
      const namedLike = this.#options.catalogues.current().lookalikes.byName(host);
      const isAnew = this.#gone.delete(host);
      const marks = { pinned: false, wantsClientCertificate: false, namedLike, dirty: true, callers: new DomainCallers(), from };
      entry = {
        domain: host,
        connections: 0,
        requests: 0,
        developer: 0,
        ambient: 0,
        firstSeen: now,
        lastSeen: now,
        ...marks,
        isStored: isAnew,
        isAnew,
        stored: undefined,
      };
      this.#table.add(entry);
      this.#saveNews();
    }
    entry.lastSeen = now;
    entry.dirty = true;
    return entry;
  }

  #mark(host: string, mark: 'pinned' | 'wantsClientCertificate'): void {
    const entry = this.#meet(host);
    if (!entry[mark]) this.#saveNews();
    entry[mark] = true;
  }

  #look(host: string, like: string): void {
    const entry = this.#meet(host);
    if (entry.looksLike === undefined) this.#saveNews();
    entry.looksLike ??= like;
  }

  /** What one org has made changes nothing in what is said of the traffic of all (decision 3.8). */
  #ownCatalogue(): Catalogue {
    return this.#options.catalogues.current().forOrg(this.#options.ownOrg ?? 'default');
  }

  #shown(entry: DomainEntry): DiscoveredDomain {
    const catalogue = this.#ownCatalogue();
    const named = namedDomain(entry, catalogue);
    const ofAnOrg = !named.managed && this.#options.catalogues.current().providerForHost(entry.domain) !== undefined;
    return {
      ...named,
      ...shownCounts(entry),
      first_seen: timestamp(entry.firstSeen),
      last_seen: timestamp(entry.lastSeen),
      ...(ofAnOrg ? { org_connector: true } : {}),
      pinned: entry.pinned,
      wants_client_certificate: entry.wantsClientCertificate,
      workloads: entry.callers.list().map((caller) => shownCaller(caller, true)),
    };
  }

  async #trySave(): Promise<void> {
    try {
      await this.save();
    } catch (error) {
      this.#options.log.warn({ err: error }, 'the counters of discovered domains could not be saved; it is tried again');
    }
  }

  #saveLater(): void {
    this.#cancelSave = this.#options.clock.after(SAVE_EVERY_MS, () => {
      this.#newsSaved = false;
      void this.#trySave();
      this.#saveLater();
    });
  }

  /** Made-up names are news too: so there is one such save between two others, however many there are. */
  #saveNews(): void {
    if (this.#newsSaved) return;
    this.#newsSaved = true;
    this.#cancelNews = this.#options.clock.after(SAVE_NEWS_MS, () => void this.#trySave());
  }
}

function fits(
  domain: OrgDomain & { readonly traffic?: ShownCounts['traffic'] },
  { managed, lookalike, ai, category, vendor, workloadId, trafficClass }: DomainQuery,
): boolean {
  return (
    (managed === undefined || domain.managed === managed) &&
    (lookalike === undefined || (domain.looks_like !== undefined) === lookalike) &&
    (ai === undefined || (kindOf(domain) !== 'other') === ai) &&
    (category === undefined || domain.category?.toLowerCase() === category.toLowerCase()) &&
    (vendor === undefined || domain.vendor?.toLowerCase() === vendor.toLowerCase()) &&
    (workloadId === undefined || domain.workloads.some((one) => one.workload_id === workloadId)) &&
    (trafficClass === undefined || (domain.traffic?.[trafficClass] ?? 0) > 0)
  );
}

function descending(a: string | number, b: string | number): number {
  if (a === b) return 0;
  return a > b ? -1 : 1;
}
