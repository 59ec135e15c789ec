import type { Catalogue } from '../../base/catalogue/types.ts';
import { timestamp } from '../../base/lib/clock.ts';
import type { DomainCaller } from './domain-callers.ts';
import { type DomainCounts, type DomainEntry, hitsOf } from './domain-table.ts';

/** Counts as they are shown. */
export interface ShownCounts {
  /** `connections` and `requests` together. */
  readonly hits: number;
  /** CONNECTs whose caller was let in, whatever became of them. */
  readonly connections: number;
  /**
   * Requests that the gateway saw as such: governed, inspected or plain ones. Inside of a passed tunnel there are none
   * to be seen.
   */
  readonly requests: number;
  /** Hits by the port that they came in by. */
  readonly traffic: { readonly developer: number; readonly ambient: number };
}

/** What is known of a domain beside who went there. */
export interface NamedDomain {
  readonly domain: string;
  /** Of the AI domain list; absent for a domain that is not on it. */
  readonly vendor?: string;
  readonly category?: string;
  /**
   * True when a connector of the registry, or of the org that is asked for, covers the host, which is then governed.
   */
  readonly managed: boolean;
  readonly connector_id?: string;
  /**
   * Of a domain without a connector: what AI API it looks like. A wire format when a request showed it, else a
   * provider, by its name.
   */
  readonly looks_like?: string;
  readonly looks_like_by?: LookedBy;
}

/** What shows what a domain looks like. */
export const LOOKED_BY = ['request', 'name'] as const;
export type LookedBy = (typeof LOOKED_BY)[number];

/** A workload that went to a domain. */
export interface ShownCaller {
  /** Where all orgs are shown. */
  readonly org_id?: string;
  /** Absent: several of that org, which had no place of their own. */
  readonly workload_id?: string;
  readonly hits: number;
  readonly first_seen: string;
  readonly last_seen: string;
}

/** One domain that traffic went to, as the admin API shows it. */
export interface DiscoveredDomain extends ShownCounts, NamedDomain {
  readonly first_seen: string;
  readonly last_seen: string;
  /**
   * Of a domain that is not managed: an org has a connector of its own for it, by which it is governed for callers of
   * that org alone (decision 3.8).
   */
  readonly org_connector?: true;
  /** A client did not take our certificate for this host (decision 3.10). */
  readonly pinned: boolean;
  /** The host refused the gateway for want of a client certificate (decision 3.11). */
  readonly wants_client_certificate: boolean;
  /** Who went there, the most frequent first. */
  readonly workloads: readonly ShownCaller[];
}

/** The same for one org: its own traffic alone. */
export interface OrgDomain extends NamedDomain {
  readonly hits: number;
  readonly first_seen: string;
  readonly last_seen: string;
  readonly workloads: readonly ShownCaller[];
}

/**
 * What kinds of domains there are: with a connector; on the list of AI domains, or like an AI API, without one; not AI.
 */
export const DOMAIN_KINDS = ['governed', 'ai', 'lookalike', 'other'] as const;
export type DomainKind = (typeof DOMAIN_KINDS)[number];

/** What kind of domain it is. */
export function kindOf({ managed, vendor, looks_like: like }: NamedDomain): DomainKind {
  if (managed) return 'governed';
  if (vendor !== undefined) return 'ai';
  return like === undefined ? 'other' : 'lookalike';
}

/** What a catalogue says of a domain. */
export function namedDomain(entry: DomainEntry, catalogue: Catalogue): NamedDomain {
  const provider = catalogue.providerForHost(entry.domain);
  const label = catalogue.domain(entry.domain);
  return {
    domain: entry.domain,
    ...(label ? { vendor: label.vendor, category: label.category } : {}),
    managed: provider !== undefined,
    ...(provider ? { connector_id: provider.id } : {}),
    ...(provider === undefined ? shownLook(entry) : {}),
  };
}

/** What an org sees of a domain; undefined: none of its workloads went there. */
export function orgDomain(entry: DomainEntry, orgId: string, catalogue: Catalogue): OrgDomain | undefined {
  const callers = entry.callers.list(orgId);
  if (callers.length === 0) return undefined;
  return {
    ...namedDomain(entry, catalogue),
    hits: callers.reduce((sum, { hits }) => sum + hits, 0),
    first_seen: timestamp(Math.min(...callers.map(({ firstSeen }) => firstSeen))),
    last_seen: timestamp(Math.max(...callers.map(({ lastSeen }) => lastSeen))),
    workloads: callers.map((caller) => shownCaller(caller)),
  };
}

export function shownCaller({ orgId, workloadId, hits, firstSeen, lastSeen }: DomainCaller, ofAll = false): ShownCaller {
  return {
    ...(ofAll ? { org_id: orgId } : {}),
    ...(workloadId === undefined ? {} : { workload_id: workloadId }),
    hits,
    first_seen: timestamp(firstSeen),
    last_seen: timestamp(lastSeen),
  };
}

export function shownCounts(counts: DomainCounts): ShownCounts {
  const { connections, requests, developer, ambient } = counts;
  return { hits: hitsOf(counts), connections, requests, traffic: { developer, ambient } };
}

/** A request says more than a name. */
function shownLook({ looksLike, namedLike }: DomainEntry): Pick<NamedDomain, 'looks_like' | 'looks_like_by'> {
  if (looksLike !== undefined) return { looks_like: looksLike, looks_like_by: 'request' };
  return namedLike === undefined ? {} : { looks_like: namedLike, looks_like_by: 'name' };
}
