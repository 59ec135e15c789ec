import { randomUUID } from 'node:crypto';
import type { Clock } from '../../base/lib/clock.ts';
import { Shares } from '../../base/lib/shares.ts';
import { REPORT_BOUNDS } from '../../base/model/work-bounds.ts';
import type { McpRevision } from './mcp-revision.ts';

/** Who begins a session: a key of an org. */
export interface SessionOwner {
  readonly org: string;
  /** What names the key among all others. */
  readonly key: string;
}

/** What is known of a client between two requests. */
export interface McpSession {
  readonly id: string;
  /** Who began it: nobody else finds it. */
  readonly owner: SessionOwner;
  readonly revision: McpRevision;
}

export interface McpSessionOptions {
  readonly clock: Pick<Clock, 'monotonic'>;
  /** Milliseconds after which a session that is not used has ended (specification, "Limits"). */
  readonly idleMs: number;
  /** Of one key. Default: that of {@link REPORT_BOUNDS}. */
  readonly maxOfOwner?: number;
  /** Of all orgs together, who share them. Default: that of {@link REPORT_BOUNDS}. */
  readonly max?: number;
}

interface Kept extends McpSession {
  /** Monotonic milliseconds. */
  usedAt: number;
}

/**
 * Sessions in memory, which no timer follows. Orgs share the places, and keys those of their org (decisions 7.12,
 * 10.8): whoever is at his bound makes room among his own, so that clients that begin ever new ones take none from
 * another org within its share. Where all places are taken, the org that holds most makes room.
 */
export class McpSessions {
  readonly #options: Required<McpSessionOptions>;
  /** The one that was not used for the longest time first. */
  readonly #kept = new Map<string, Kept>();
  readonly #shares: Shares;

  constructor({ maxOfOwner = REPORT_BOUNDS.sessions.one, max = REPORT_BOUNDS.sessions.all, ...options }: McpSessionOptions) {
    this.#options = { ...options, maxOfOwner, max };
    this.#shares = new Shares(max);
  }

  get size(): number {
    return this.#kept.size;
  }

  begin(owner: SessionOwner, revision: McpRevision): McpSession {
    this.#forgetIdle();
    this.#makeRoom(owner);
    const session: Kept = { id: randomUUID(), owner, revision, usedAt: this.#options.clock.monotonic() };
    this.#kept.set(session.id, session);
    this.#shares.take(owner.org, owner.key);
    return session;
  }

  /** The session, which is in use again; undefined: there is none, it has ended, or it is another's. */
  use(id: string, owner: SessionOwner): McpSession | undefined {
    this.#forgetIdle();
    const session = this.#kept.get(id);
    if (session === undefined || !isSame(session.owner, owner)) return undefined;
    session.usedAt = this.#options.clock.monotonic();
    this.#kept.delete(id);
    this.#kept.set(id, session);
    return session;
  }

  /** @returns false when there was none */
  end(id: string, owner: SessionOwner): boolean {
    const session = this.use(id, owner);
    if (session !== undefined) this.#forget(session);
    return session !== undefined;
  }

  /**
   * Takes one session from whoever is at his bound: the key, the org (of its keys the one that has most), or, where all
   * places are taken, the org that holds most.
   */
  #makeRoom({ org, key }: SessionOwner): void {
    const full = this.#shares.full(org, key);
    const own = this.#ofOrg(org);
    const ofKey = own.get(key) ?? [];
    if (ofKey.length >= this.#options.maxOfOwner || (full === 'caller' && ofKey.length > 0)) this.#forget(ofKey[0]);
    else if (full !== undefined) this.#forget(largest(full === 'all' ? this.#ofOrg(this.#largestOr(org)) : own)?.[0]);
  }

  /** The org that holds most; this one where none holds more. */
  #largestOr(org: string): string {
    const largestOrg = this.#shares.largest() ?? org;
    return this.#shares.takenBy(largestOrg) > this.#shares.takenBy(org) ? largestOrg : org;
  }

  /** Sessions of an org by key, of each the one that was idle longest first. */
  #ofOrg(org: string): Map<string, Kept[]> {
    const found = new Map<string, Kept[]>();
    for (const session of this.#kept.values()) {
      if (session.owner.org !== org) continue;
      const ofKey = found.get(session.owner.key);
      if (ofKey === undefined) found.set(session.owner.key, [session]);
      else ofKey.push(session);
    }
    return found;
  }

  #forget(session: Kept | McpSession | undefined): void {
    if (session === undefined || !this.#kept.delete(session.id)) return;
    this.#shares.give(session.owner.org, session.owner.key);
  }

  #forgetIdle(): void {
    const before = this.#options.clock.monotonic() - this.#options.idleMs;
    for (const session of this.#kept.values()) {
      if (session.usedAt > before) return;
      this.#forget(session);
    }
  }
}

function largest(byKey: ReadonlyMap<string, Kept[]>): Kept[] | undefined {
  let found: Kept[] | undefined;
  for (const sessions of byKey.values()) if (sessions.length > (found?.length ?? 0)) found = sessions;
  return found;
}

function isSame(a: SessionOwner, b: SessionOwner): boolean {
  return a.key === b.key && a.org === b.org;
}
