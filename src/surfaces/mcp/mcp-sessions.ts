import { randomUUID } from 'node:crypto';
import type { Clock } from '../../base/lib/clock.ts';
import type { McpRevision } from './mcp-revision.ts';

/** What is known of a client between two requests. */
export interface McpSession {
  readonly id: string;
  /** Who began it: nobody else finds it. */
  readonly owner: string;
  readonly revision: McpRevision;
}

export interface McpSessionOptions {
  readonly clock: Pick<Clock, 'monotonic'>;
  /** Milliseconds after which a session that is not used has ended (specification, "Limits"). */
  readonly idleMs: number;
  readonly maxOfOwner?: number;
  readonly max?: number;
}

interface Kept extends McpSession {
  /** Monotonic milliseconds. */
  usedAt: number;
}

/** Clients rarely end a session, and some begin one for each conversation. */
const MAX_OF_OWNER = 64;
const MAX = 2_048;

/**
 * Sessions in memory, which no timer follows: the one that was idle longest goes when there are too many, of its owner or in all, so that a client that
 * begins ever new ones takes none from another key while there is room for all (decision 10.8).
 */
export class McpSessions {
  readonly #options: Required<McpSessionOptions>;
  /** The one that was not used for the longest time first. */
  readonly #kept = new Map<string, Kept>();

  constructor({ maxOfOwner = MAX_OF_OWNER, max = MAX, ...options }: McpSessionOptions) {
    this.#options = { ...options, maxOfOwner, max };
  }

  get size(): number {
    return this.#kept.size;
  }

  begin(owner: string, revision: McpRevision): McpSession {
    this.#forgetIdle();
    const own = [...this.#kept.values()].filter((session) => session.owner === owner);
    if (own.length >= this.#options.maxOfOwner) this.#forget(own[0]);
    if (this.#kept.size >= this.#options.max) this.#forget(this.#kept.values().next().value);
    const session: Kept = { id: randomUUID(), owner, revision, usedAt: this.#options.clock.monotonic() };
    this.#kept.set(session.id, session);
    return session;
  }

  /** The session, which is in use again; undefined: there is none, it has ended, or it is another's. */
  use(id: string, owner: string): McpSession | undefined {
    this.#forgetIdle();
    const session = this.#kept.get(id);
    if (session?.owner !== owner) return undefined;
    session.usedAt = this.#options.clock.monotonic();
    this.#kept.delete(id);
    this.#kept.set(id, session);
    return session;
  }

  /** @returns false when there was none */
  end(id: string, owner: string): boolean {
    const session = this.use(id, owner);
    if (session !== undefined) this.#forget(session);
    return session !== undefined;
  }

  #forget(session: McpSession | undefined): void {
    if (session !== undefined) this.#kept.delete(session.id);
  }

  #forgetIdle(): void {
    const before = this.#options.clock.monotonic() - this.#options.idleMs;
    for (const session of this.#kept.values()) {
      if (session.usedAt > before) return;
      this.#kept.delete(session.id);
    }
  }
}
