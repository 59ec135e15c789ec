import type { Events } from '../../base/events/bus.ts';
import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { newestFirst, uuidv7 } from '../../base/lib/ids.ts';
import { Lru } from '../../base/lib/lru.ts';
import type { AuditChange, AuditEntry } from '../../base/model/audit-entry.ts';
import { CONTROL_BOUNDS } from '../../base/model/org-bounds.ts';
import { type AdminSession, namedPrincipal, type Principal } from '../../base/model/principal.ts';
import type { Effect, Store } from '../../storage/contract/store.ts';
import { changesOf } from '../registers/audit-changes.ts';
import { nameOfThing } from '../registers/audit-values.ts';
import type { Commit, ToldChanges } from '../registers/commit.ts';
import { type EntitiesPage, entityPage, type PageQuery, removeEntities } from '../registers/entity-page.ts';
import type { Outbox } from '../sending/outbox.ts';
import { orgOfEntity, orgOfWhole, PART_OF } from './entity-org.ts';
import type { OrgHoldings } from './org-holdings.ts';

/** Under the keys of `newestFirst`. */
const SPACE = 'audit';
/** Changes that one entry lists. */
const MAX_CHANGES = 200;
/** Bytes of them, as JSON: an entry goes to destinations, and lists have many. */
const MAX_CHANGE_BYTES = 32_768;

/** A session of the admin token is told of so often. */
const SESSION_MS = 3_600_000;
/** As which it stands in the trail: no operation of the table, since it changes nothing. */
export const SESSION_OPERATION = 'admin_token.use';

/** Who asks for a change, by what, and from where. */
export interface Asking {
  readonly principal: Pick<Principal, 'kind' | 'id' | 'name' | 'userId' | 'orgId' | 'session'>;
  /** The id of the operation. */
  readonly operation: string;
  /** Address, without port. */
  readonly from: string;
  /** The gateway that has handed it on. */
  readonly nodeId?: string;
}

/** Something that was changed elsewhere, as it is shown here before and after. */
export interface HandedOnChange {
  readonly orgId: string;
  readonly object: string | undefined;
  /** What kind of thing it is. */
  readonly entity: string;
  readonly before: unknown;
  readonly after: unknown;
  /** What the two states do not show. */
  readonly told?: ToldChanges | undefined;
}

/**
 * Which entries a list holds; of each filter that is given all must be true. Times are epoch milliseconds, `until` is
 * excluded.
 */
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
  /** What bounds how much of everything an org may have. */
  readonly holdings?: Pick<OrgHoldings, 'take'>;
}

/**
 * What people change, kept with the change: in one commit with it, so that no change is there without its entry and no
 * entry without its change. It tells which members are others now, with hashes of their values and those values that
 * are no secret, so that each can be proven and no secret be read.
 */
export class AuditTrail {
  readonly #options: AuditOptions;
  /** When the last entry of each session of the admin token was made, epoch milliseconds. */
  readonly #sessions = new Lru<string, number>({ max: CONTROL_BOUNDS.adminSessions.all });

  constructor(options: AuditOptions) {
    this.#options = options;
  }

  /**
   * Commits what this principal changes, with the entry that says so, and one for each thing that goes with it.
   * @throws GatewayError `limit_reached` where it would give an org more than it may have; as `Store.commit`
   */
  commitFor(asking: Asking): Commit {
    return async (object, effects, expect, also = [], told = undefined) => {
      const { store, events, outbox, holdings } = this.#options;
      const entries = [await this.#entry(asking, object, effects, told)];
      for (const one of also) entries.push(await this.#entry({ ...asking, operation: one.operation }, one.object, one.effects));
      const taken = holdings?.take([...effects, ...also.flatMap((one) => one.effects)]);
      const posted = entries.map((entry) => outbox.post('audit', entry));
      const kept = entries.map((entry): Effect => ({ op: 'put', space: SPACE, key: newestFirst(entry.audit_id), value: entry }));
      const others = [...also.flatMap((one) => one.effects), ...kept, ...posted.flatMap((post) => post.effects)];
      try {
        await store.commit(undefined, [...effects, ...others], expect);
        taken?.stored();
      } catch (error) {
        for (const post of posted) post.failed();
        throw error;
      } finally {
        taken?.release();
      }
      for (const post of posted) post.stored();
      for (const entry of entries) events.emit('audit', entry);
    };
  }

  /**
   * Commits keys that a program makes and lets go of because it works with the admin token. They have no entries: that
   * the token is used so has one, once in
   * {@link SESSION_MS} for each program, user, org and address (decision 9.6).
   * @throws GatewayError as {@link commitFor}
   */
  async sessionFor(asking: Asking, session: AdminSession, orgId: string): Promise<Commit> {
    const { clock, holdings, store } = this.#options;
    const { program, user = '' } = session;
    const name = JSON.stringify([orgId, asking.from, program, user]);
    const now = clock.now();
    if ((this.#sessions.get(name) ?? Number.NEGATIVE_INFINITY) + SESSION_MS <= now) {
      this.#sessions.set(name, now);
      const used = { ...asking, principal: { ...asking.principal, orgId, session }, operation: SESSION_OPERATION };
      await this.commitFor(used)(undefined, []).catch((error: unknown) => {
        this.#sessions.delete(name);
        throw error;
      });
    }
    return async (_object, effects, expect) => {
      const taken = holdings?.take(effects);
      try {
        await store.commit(undefined, effects, expect);
        taken?.stored();
      } finally {
        taken?.release();
      }
    };
  }

  /**
   * Notes what was changed where this trail is not, by somebody who has asked here: at the control plane, which has an
   * entry of its own.
   */
  async noteHandedOn(asking: Asking, { orgId, object, entity, before, after, told }: HandedOnChange): Promise<void> {
    const { store, events, outbox } = this.#options;
    const name = nameOfThing(entity, after ?? before);
    const changes = [...(told?.(true) ?? []), ...changesOf(entity, before, after)];
    const entry = this.#entryOf(asking, { object, name, orgId }, changes);
    const posted = outbox.post('audit', entry);
    try {
      await store.commit(undefined, [{ op: 'put', space: SPACE, key: newestFirst(entry.audit_id), value: entry }, ...posted.effects]);
    } catch (error) {
      posted.failed();
      throw error;
    }
    posted.stored();
    events.emit('audit', entry);
  }

  /** A thing as it is stored, for whoever asks what a change would do. */
  stored(space: string, key: string): Promise<unknown> {
    return this.#options.store.get(space, key);
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

  async #entry(asking: Asking, object: string | undefined, effects: readonly Effect[], told?: ToldChanges): Promise<AuditEntry> {
    const { store } = this.#options;
    const changes: AuditChange[] = [];
    let orgId: string | undefined;
    let name: string | undefined;
    for (const effect of effects) {
      if (effect.op === 'add') continue;
      const before = await store.get(effect.space, effect.key);
      const after = effect.op === 'put' ? effect.value : undefined;
      changes.push(...changesOf(effect.space, before, after));
      const { space, key } = effect;
      name ??= nameOfThing(space, after ?? before) ?? (await this.#nameOfWhole(space, key));
      orgId ??= orgOfEntity(space, key, after ?? before) ?? orgOfEntity(space, key, before) ?? (await orgOfWhole(store, space, key));
    }
    const isOfOrg = (orgId ?? asking.principal.orgId) !== undefined;
    return this.#entryOf(asking, { object, name, orgId }, [...(told?.(isOfOrg) ?? []), ...changes]);
  }

  async #nameOfWhole(space: string, key: string): Promise<string | undefined> {
    const whole = PART_OF[space];
    return whole === undefined ? undefined : nameOfThing(whole, await this.#options.store.get(whole, key));
  }

  #entryOf(
    { principal, operation, from, nodeId }: Asking,
    { object, name, orgId: orgOfObject }: ChangedThing,
    changes: readonly AuditChange[],
  ): AuditEntry {
    // What is of no org is the gateway's, unless somebody of an org has changed it.
    const orgId = orgOfObject ?? principal.orgId;
    const now = this.#options.clock.now();
    const listed = listedOf(changes);
    const more = changes.length - listed.length;
    return {
      audit_id: uuidv7(now),
      at: timestamp(now),
      ...(orgId === undefined ? {} : { org_id: orgId }),
      principal: namedPrincipal(principal),
      operation,
      ...(object === undefined ? {} : { object }),
      ...(name === undefined || name === object ? {} : { object_name: name }),
      from,
      ...(nodeId === undefined ? {} : { node_id: nodeId }),
      changes: listed,
      ...(more > 0 ? { more_changes: more } : {}),
    };
  }
}

/** As many as an entry may have. */
function listedOf(changes: readonly AuditChange[]): readonly AuditChange[] {
  let bytes = 0;
  const end = changes.slice(0, MAX_CHANGES).findIndex((change) => {
    bytes += Buffer.byteLength(JSON.stringify(change));
    return bytes > MAX_CHANGE_BYTES;
  });
  return changes.slice(0, end === -1 ? MAX_CHANGES : end);
}

/** What of the gateway is changed. */
interface ChangedThing {
  readonly object: string | undefined;
  readonly name: string | undefined;
  readonly orgId: string | undefined;
}

/**
 * `workloads` stands for all that is done to workloads, on each surface; so does one word of an id, in the singular
 * too: `policy`, `rule`.
 */
function isOperation(id: string, sought: string): boolean {
  if (`${id}.`.startsWith(`${sought}.`) || `${id}.`.startsWith(`mgmt.${sought}.`)) return true;
  return id.split('.').some((part) => singular(part) === singular(sought));
}

function singular(word: string): string {
  return word.toLowerCase().replace(/ies$/, 'y').replace(/s$/, '');
}

/** A name finds what its id does: people know names. */
function isCalled({ id, name, user }: AuditEntry['principal'], sought: string): boolean {
  return id === sought || name === sought || user === sought;
}

function fits(entry: AuditEntry, { orgId, principal, operation, object, since, until }: AuditFilter): boolean {
  if (orgId !== undefined && entry.org_id !== orgId) return false;
  if (principal !== undefined && !isCalled(entry.principal, principal)) return false;
  if (operation !== undefined && !isOperation(entry.operation, operation)) return false;
  if (object !== undefined && entry.object !== object && entry.object_name !== object && !hasRule(entry, object)) return false;
  const at = since === undefined && until === undefined ? 0 : Date.parse(entry.at);
  return (since === undefined || at >= since) && (until === undefined || at < until);
}

/** A rule of policy that was changed with others: by its id, with its layer, or as it is told. */
function hasRule({ changes }: AuditEntry, sought: string): boolean {
  return changes.some(({ rule }) => {
    if (rule === undefined) return false;
    const name = rule.slice(0, rule.lastIndexOf('@'));
    return rule === sought || name === sought || name.slice(name.indexOf('/') + 1) === sought;
  });
}
