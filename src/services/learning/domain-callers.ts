import { CONTROL_BOUNDS } from '../../base/model/org-bounds.ts';

const MOST = CONTROL_BOUNDS.domainCallers.one;
/** Stands for workloads of an org that had no place of their own. */
const OTHERS = '';

/** How often a workload went to a domain. Changed in place. Times are milliseconds since the epoch. */
export interface CallerHits {
  hits: number;
  firstSeen: number;
  lastSeen: number;
}

/** As it is stored. */
export type StoredCaller = readonly [org: string, workload: string, hits: number, firstSeen: number, lastSeen: number];

/** One workload that went there, as it is shown. */
export interface DomainCaller extends Readonly<CallerHits> {
  readonly orgId: string;
  /** Undefined: several that had no place of their own. */
  readonly workloadId: string | undefined;
}

/**
 * Which workloads went to a domain, by org. There are so many places; the org with most gives up the one of its
 * workloads that was met least, whose counts go on as those of its others (decision 7.12).
 */
export class DomainCallers {
  readonly #orgs = new Map<string, Map<string, CallerHits>>();
  #size = 0;

  constructor(stored: readonly StoredCaller[] = []) {
    for (const [org, workload, hits, firstSeen, lastSeen] of stored.slice(0, MOST)) this.#set(org, workload, { hits, firstSeen, lastSeen });
  }

  /** @param now epoch milliseconds */
  count(orgId: string, workloadId: string, now: number): void {
    const known = this.#orgs.get(orgId)?.get(workloadId);
    if (known !== undefined) {
      known.hits += 1;
      known.lastSeen = now;
      return;
    }
    if (this.#size >= MOST) this.#makeRoom();
    this.#set(orgId, workloadId, { hits: 1, firstSeen: now, lastSeen: now });
  }

  /** Those of one org, or of all; the most frequent first. */
  list(orgId?: string): readonly DomainCaller[] {
    const found: DomainCaller[] = [];
    for (const [org, workloads] of this.#orgs) {
      if (orgId !== undefined && org !== orgId) continue;
      for (const [workload, hits] of workloads) found.push({ orgId: org, workloadId: workload === OTHERS ? undefined : workload, ...hits });
    }
    return found.sort((a, b) => b.hits - a.hits || (nameOf(a) < nameOf(b) ? -1 : 1));
  }

  /** Takes in what others have counted: what is stored now is more than what was stored before. */
  absorb(now: readonly StoredCaller[], before: readonly StoredCaller[]): void {
    for (const [org, workload, hits, firstSeen, lastSeen] of now) {
      const known = before.find(([ofOrg, of]) => ofOrg === org && of === workload)?.[2] ?? 0;
      const own = this.#orgs.get(org)?.get(workload);
      if (own !== undefined) {
        own.hits += hits - known;
        own.firstSeen = Math.min(own.firstSeen, firstSeen);
        own.lastSeen = Math.max(own.lastSeen, lastSeen);
      } else if (hits > known) {
        if (this.#size >= MOST) this.#makeRoom();
        this.#set(org, workload, { hits: hits - known, firstSeen, lastSeen });
      }
    }
  }

  stored(): readonly StoredCaller[] {
    return this.list().map(({ orgId, workloadId = OTHERS, hits, firstSeen, lastSeen }) => [orgId, workloadId, hits, firstSeen, lastSeen]);
  }

  #set(orgId: string, workloadId: string, hits: CallerHits): void {
    const workloads = this.#orgs.get(orgId) ?? new Map<string, CallerHits>();
    this.#orgs.set(orgId, workloads.set(workloadId, hits));
    this.#size += 1;
  }

  #makeRoom(): void {
    const [orgId, workloads] = [...this.#orgs].reduce((most, one) => (one[1].size > most[1].size ? one : most));
    const [least, ...next] = [...workloads]
      .filter(([name]) => name !== OTHERS)
      .sort(([, a], [, b]) => a.hits - b.hits || a.lastSeen - b.lastSeen);
    if (least === undefined || next.length === 0) {
      // So many orgs: that which was met longest ago gives up all of it.
      const [oldest] = [...this.#orgs].sort(([, a], [, b]) => lastOf(a) - lastOf(b))[0] ?? [orgId];
      this.#size -= this.#orgs.get(oldest)?.size ?? 0;
      this.#orgs.delete(oldest);
      return;
    }
    const [name, { hits, firstSeen, lastSeen }] = least;
    workloads.delete(name);
    this.#size -= 1;
    const others = workloads.get(OTHERS);
    if (others !== undefined) {
      others.hits += hits;
      others.firstSeen = Math.min(others.firstSeen, firstSeen);
      others.lastSeen = Math.max(others.lastSeen, lastSeen);
      return;
    }
    // Its place is that of the others from now on: one more has to go.
    this.#set(orgId, OTHERS, { hits, firstSeen, lastSeen });
    this.#makeRoom();
  }
}

function nameOf({ orgId, workloadId = OTHERS }: DomainCaller): string {
  return `${orgId}\n${workloadId}`;
}

function lastOf(workloads: ReadonlyMap<string, CallerHits>): number {
  return Math.max(...[...workloads.values()].map(({ lastSeen }) => lastSeen));
}
