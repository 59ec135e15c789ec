import type { CurrentCatalogue } from '../base/catalogue/catalogue-in-force.ts';
import type { Listeners } from '../base/events/bus.ts';
import { type Clock, timestamp } from '../base/lib/clock.ts';
import type { Logger } from '../base/lib/log.ts';
import { Lru } from '../base/lib/lru.ts';
import type { Effect, Store } from '../storage/contract/store.ts';

const SPACE = 'discovered_domain';
/** Clients name hosts at will, so the list forgets those that were not met for longest. */
const MAX_DOMAINS = 5_000;
/** What was counted since the last save is lost when the process is killed. */
const SAVE_EVERY_MS = 60_000;
const EFFECTS_PER_COMMIT = 500;

/** One domain that traffic went to, as the admin API shows it. */
export interface DiscoveredDomain {
  readonly domain: string;
  /** CONNECTs whose caller was let in, whatever became of them. */
  readonly connections: number;
  /** Requests that the gateway saw as such: governed, inspected or plain ones. Inside of a passed tunnel there are none to be seen. */
  readonly requests: number;
  readonly first_seen: string;
  readonly last_seen: string;
  /** Of the AI domain list; absent for a domain that is not on it. */
  readonly vendor?: string;
  readonly category?: string;
  /** True when a connector covers the host, which is then governed. */
  readonly managed: boolean;
  readonly connector_id?: string;
  /** A client did not take our certificate for this host (decision 3.10). */
  readonly pinned: boolean;
  /** The host refused the gateway for want of a client certificate (decision 3.11). */
  readonly wants_client_certificate: boolean;
}

/** What is kept of a domain. Changed in place: this is on the path of every request. */
interface Entry {
  readonly domain: string;
  connections: number;
  requests: number;
  /** Milliseconds since the epoch. */
  readonly firstSeen: number;
  lastSeen: number;
  pinned: boolean;
  wantsClientCertificate: boolean;
  /** The store has an older state of it, or none. */
  dirty: boolean;
  /** The store may have a state of it. */
  stored: boolean;
}

type StoredEntry = Omit<Entry, 'domain' | 'dirty' | 'stored'>;

export interface DiscoveryOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  readonly catalogues: CurrentCatalogue;
  /** Default 5,000. */
  readonly maxDomains?: number;
}

/**
 * Counts which domains traffic goes to, so that an operator sees AI services that nobody manages yet (specification, "Transparent proxy mode" 8). Names and
 * numbers only: never a path, a header or a payload. It is fed by events, counts in memory, and saves once a minute what changed.
 */
export class Discovery {
  readonly #options: DiscoveryOptions;
  readonly #domains: Lru<string, Entry>;
  /** Left the list and may still be in the store, so that there are never more of them than fit into the list: clients can make up any number of names between two saves. */
  readonly #forgotten = new Set<string>();
  #saving: Promise<void> = Promise.resolve();
  #cancelSave: (() => void) | undefined;

  /** Reads what was saved, and saves from then on. */
  static async open(options: DiscoveryOptions): Promise<Discovery> {
    const discovery = new Discovery(options);
    await discovery.#load();
    discovery.#saveLater();
    return discovery;
  }

  private constructor(options: DiscoveryOptions) {
    this.#options = options;
    this.#domains = new Lru({ max: options.maxDomains ?? MAX_DOMAINS, onGone: (entry) => this.#left(entry) });
  }

  /** What this wants to hear. */
  readonly events: Listeners = {
    connected: (host) => {
      this.#meet(host).connections++;
    },
    passed: (host) => {
      this.#meet(host).requests++;
    },
    execution: ({ record }) => {
      if (record.record_tier === 'action' && record.target_host !== '') this.#meet(record.target_host).requests++;
    },
    handshakeRejected: ({ host }) => {
      this.#meet(host).pinned = true;
    },
    clientCertificateWanted: (host) => {
      this.#meet(host).wantsClientCertificate = true;
    },
  };

  /** The most recently met first. @param managed only those that a connector covers, or only those that none does */
  list(managed?: boolean): readonly DiscoveredDomain[] {
    const found: DiscoveredDomain[] = [];
    for (const [, entry] of this.#domains.entries()) {
      const shown = this.#shown(entry);
      if (managed === undefined || shown.managed === managed) found.push(shown);
    }
    return found;
  }

  /** Domains on the list. */
  get size(): number {
    return this.#domains.size;
  }

  /** Forgets every domain, in the store too. @throws GatewayError `record_store_unavailable` when the store cannot write */
  async reset(): Promise<void> {
    this.#domains.clear();
    for (const { key } of await this.#options.store.list(SPACE)) this.#forgotten.add(key);
    await this.save();
  }

  /** Brings what changed into the store. Saves follow one another, so that an older state never overtakes a newer one. */
  save(): Promise<void> {
    const saved = this.#saving.then(() => this.#write());
    this.#saving = saved.catch(() => undefined);
    return saved;
  }

  /** Saves once more and stops. */
  async close(): Promise<void> {
    this.#cancelSave?.();
    await this.#trySave();
  }

  #meet(host: string): Entry {
    const now = this.#options.clock.now();
    let entry = this.#domains.get(host);
    if (entry === undefined) {
      entry = {
        domain: host,
        connections: 0,
        requests: 0,
        firstSeen: now,
        lastSeen: now,
        pinned: false,
        wantsClientCertificate: false,
        dirty: true,
        stored: this.#forgotten.delete(host),
      };
      this.#domains.set(host, entry);
    }
    entry.lastSeen = now;
    entry.dirty = true;
    return entry;
  }

  #left({ domain, stored }: Entry): void {
    if (stored) this.#forgotten.add(domain);
  }

  #shown(entry: Entry): DiscoveredDomain {
    const catalogue = this.#options.catalogues.current();
    const provider = catalogue.providerForHost(entry.domain);
    const label = catalogue.domain(entry.domain);
    return {
      domain: entry.domain,
      connections: entry.connections,
      requests: entry.requests,
      first_seen: timestamp(entry.firstSeen),
      last_seen: timestamp(entry.lastSeen),
      ...(label ? { vendor: label.vendor, category: label.category } : {}),
      managed: provider !== undefined,
      ...(provider ? { connector_id: provider.id } : {}),
      pinned: entry.pinned,
      wants_client_certificate: entry.wantsClientCertificate,
    };
  }

  async #load(): Promise<void> {
    const rows = await this.#options.store.list(SPACE);
    const entries = rows.map(({ key, value }): Entry => ({ domain: key, ...(value as StoredEntry), dirty: false, stored: true }));
    for (const entry of entries.sort((a, b) => a.lastSeen - b.lastSeen)) this.#domains.set(entry.domain, entry);
  }

  async #write(): Promise<void> {
    const gone = [...this.#forgotten];
    const changed = Array.from(this.#domains.entries(), ([, entry]) => entry).filter(({ dirty }) => dirty);
    this.#forgotten.clear();
    for (const entry of changed) {
      entry.dirty = false;
      entry.stored = true;
    }
    const effects: Effect[] = [
      ...gone.map((key): Effect => ({ op: 'delete', space: SPACE, key })),
      ...changed.map((entry): Effect => ({ op: 'put', space: SPACE, key: entry.domain, value: storedOf(entry) })),
    ];
    try {
      for (let at = 0; at < effects.length; at += EFFECTS_PER_COMMIT) {
        await this.#options.store.commit(undefined, effects.slice(at, at + EFFECTS_PER_COMMIT));
      }
    } catch (error) {
      for (const key of gone) {
        const again = this.#domains.peek(key);
        if (again) again.stored = true;
        else this.#forgotten.add(key);
      }
      for (const entry of changed) entry.dirty = true;
      throw error;
    }
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
      void this.#trySave();
      this.#saveLater();
    });
  }
}

function storedOf({ connections, requests, firstSeen, lastSeen, pinned, wantsClientCertificate }: Entry): StoredEntry {
  return { connections, requests, firstSeen, lastSeen, pinned, wantsClientCertificate };
}
