import type { Events } from '../base/events/bus.ts';
import { type Clock, timestamp } from '../base/lib/clock.ts';
import { newestFirst } from '../base/lib/newest-first.ts';
import { uuidv7 } from '../base/lib/uuidv7.ts';
import type { AuditChange, AuditEntry } from '../base/model/audit-entry.ts';
import type { Principal } from '../base/model/principal.ts';
import type { Effect, Store } from '../storage/contract/store.ts';
import { changesOf } from './audit-changes.ts';
import type { Commit } from './commit.ts';
import { type EntitiesPage, entityPage, type PageQuery, removeEntities } from './entity-page.ts';
import type { Outbox } from './outbox.ts';

/** Under the keys of `newestFirst`. */
const SPACE = 'audit';
/** Changes that one entry lists. */
const MAX_CHANGES = 200;

/** Who asks for a change, by what, and from where. */
export interface Asking {
  readonly principal: Pick<Principal, 'kind' | 'id'>;
  /** The id of the operation. */
  readonly operation: string;
  /** Address, without port. */
  readonly from: string;
}

/** Which entries a list holds; of each filter that is given all must be true. Times are epoch milliseconds, `until` is excluded. */
export interface AuditFilter {
  readonly orgId?: string | undefined;
  readonly principal?: string | undefined;
  readonly operation?: string | undefined;
  readonly object?: string | undefined;
  readonly since?: number | undefined;
  readonly until?: number | undefined;
}

export interface AuditOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly events: Events;
  readonly outbox: Pick<Outbox, 'post'>;
}

/**
 * What people change, kept with the change: in one commit with it, so that no change is there without its entry and no entry without its change. It tells which members
 * are others now, and hashes of their values, so that a value can be proven and not read.
 */
export class AuditTrail {
  readonly #options: AuditOptions;

  constructor(options: AuditOptions) {
    this.#options = options;
  }

  /** Commits what this principal changes, with the entry that says so, and one for each thing that goes with it. */
  commitFor(asking: Asking): Commit {
    return async (object, effects, expect, also = []) => {
      const { store, events, outbox } = this.#options;
      const entries = [await this.#entry(asking, object, effects)];
      for (const one of also) entries.push(await this.#entry({ ...asking, operation: one.operation }, one.object, one.effects));
      const posted = entries.map((entry) => outbox.post('audit', entry));
      const kept = entries.map((entry): Effect => ({ op: 'put', space: SPACE, key: newestFirst(entry.audit_id), value: entry }));
      const others = [...also.flatMap((one) => one.effects), ...kept, ...posted.flatMap((post) => post.effects)];
      try {
        await store.commit(undefined, [...effects, ...others], expect);
      } catch (error) {
        for (const post of posted) post.failed();
        throw error;
      }
      for (const post of posted) post.stored();
      for (const entry of entries) events.emit('audit', entry);
    };
  }

  /** A page of the trail, the newest first. */
  page(filter: AuditFilter, query: PageQuery): Promise<EntitiesPage<AuditEntry>> {
    return entityPage(this.#options.store, SPACE, query, (value) => {
      const entry = value as AuditEntry;
      return fits(entry, filter) ? entry : undefined;
    });
  }

  /** Removes entries that were made before `epochMs`. @returns how many */
  removeBefore(epochMs: number): Promise<number> {
    return removeEntities(this.#options.store, SPACE, epochMs, () => true);
  }

  async #entry({ principal, operation, from }: Asking, object: string | undefined, effects: readonly Effect[]): Promise<AuditEntry> {
    const { store, clock } = this.#options;
    const changes: AuditChange[] = [];
    let orgId: string | undefined;
    for (const effect of effects) {
      if (effect.op === 'add') continue;
      const before = await store.get(effect.space, effect.key);
      const after = effect.op === 'put' ? effect.value : undefined;
      changes.push(...changesOf(effect.space, before, after));
      orgId ??= orgOf(after) ?? orgOf(before);
    }
    const now = clock.now();
    const more = changes.length - MAX_CHANGES;
    return {
      audit_id: uuidv7(now),
      at: timestamp(now),
      ...(orgId === undefined ? {} : { org_id: orgId }),
      principal: { kind: principal.kind, id: principal.id },
      operation,
      ...(object === undefined ? {} : { object }),
      from,
      changes: more > 0 ? changes.slice(0, MAX_CHANGES) : changes,
      ...(more > 0 ? { more_changes: more } : {}),
    };
  }
}

function fits(entry: AuditEntry, { orgId, principal, operation, object, since, until }: AuditFilter): boolean {
  if (orgId !== undefined && entry.org_id !== orgId) return false;
  if (principal !== undefined && entry.principal.id !== principal) return false;
  if (operation !== undefined && entry.operation !== operation) return false;
  if (object !== undefined && entry.object !== object) return false;
  const at = since === undefined && until === undefined ? 0 : Date.parse(entry.at);
  return (since === undefined || at >= since) && (until === undefined || at < until);
}

/** Some things stand in the store beside what only the gateway needs to know of them. */
function orgOf(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const { org_id: own, credential } = value as { org_id?: unknown; credential?: unknown };
  return typeof own === 'string' ? own : credential === undefined ? undefined : orgOf(credential);
}
