import { isDeepStrictEqual } from 'node:util';
import type { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Maybe } from '../../base/lib/maybe.ts';
import type { Effect, Expectation, Store } from '../../storage/contract/store.ts';
import { type AlsoChanged, type Commit, commitAlone, type ToldChanges, unlessConflict } from './commit.ts';
import { WatchedSpace, type WatchedSpaceOptions } from './watched-space.ts';

/** So often another writer may be first; then something else is wrong. */
const MOST_TRIES = 16;

/** What a change says of an entity that is to be there no more. */
export const REMOVED: unique symbol = Symbol('removed');

/** What hears what became of the commit that its effects are part of, by exactly one of its verbs. */
export interface Settling {
  readonly effects: readonly Effect[];
  stored(): void;
  failed(): void;
}

/** What goes with a change, in its commit. Each try fills one of its own. */
export interface Along {
  /** What people know the entity by, where this register has no more than what is kept beside it: told of first. */
  readonly first: Effect[];
  readonly effects: Effect[];
  /** Such as an event of the outbox; made when nothing throws any more. */
  readonly settling: Settling[];
  /** What must be true beside the version of the entity. */
  readonly expect: Expectation[];
  /** Other things that change, each told of by itself. */
  readonly also: AlsoChanged[];
  /** What the entry of the audit trail says beside what the effects show. */
  told?: ToldChanges;
}

export interface HowChanged {
  /** By which it is stored; default: alone, without an entry. */
  readonly commit?: Commit | undefined;
  /** Names it in the audit trail; default: its key. */
  readonly object?: string | undefined;
  /** Makes what is thrown when another writer was first; undefined: the change is made again, of what is there then. */
  readonly conflict?: () => GatewayError;
}

export interface SealedSpaceOptions<V, S> extends Omit<WatchedSpaceOptions<V>, 'read'> {
  /** What is stored; undefined when it is not one of these, and counts as absent. */
  readonly stored: (value: unknown) => S | undefined;
  /** How it is held in memory. */
  readonly opened: (stored: S) => V;
}

/**
 * A watched space whose entities are changed by this writer, too: each change is made of what is stored and expects
 * that to be so still, so that nothing that another writer has changed meanwhile is written over; it is in memory when
 * the change has resolved, here and at every other writer of the store.
 * @typeParam V an entity as it is in memory
 * @typeParam S as it is stored
 */
export class Register<V, S = V> extends WatchedSpace<V> {
  readonly #parse: (value: unknown) => S | undefined;

  protected constructor(store: Store, space: string, options: WatchedSpaceOptions<V>, parse: (value: unknown) => S | undefined) {
    super(store, space, options);
    this.#parse = parse;
  }

  static override async open<V>(store: Store, space: string, options: WatchedSpaceOptions<V>): Promise<Register<V>> {
    const register = new Register<V>(store, space, options, options.read);
    await register.begin();
    return register;
  }

  /** One whose entities have another form in memory than in the store, such as secrets, which are sealed there. */
  static async openSealed<V, S>(store: Store, space: string, options: SealedSpaceOptions<V, S>): Promise<Register<V, S>> {
    const { stored, opened, ...watched } = options;
    const read = (value: unknown): V | undefined => {
      const found = stored(value);
      return found === undefined ? undefined : opened(found);
    };
    const register = new Register<V, S>(store, space, { ...watched, read }, stored);
    await register.begin();
    return register;
  }

  /**
   * Changes one entity: makes it, replaces it or takes it away, in one commit with what goes with it.
   * @param next what it becomes, from what is stored, which is undefined where there is none; undefined: it stays as it
   * is, and nothing is committed. Asked again when another writer was first
   * @returns what `next` has said
   * @throws what `next` throws; what `conflict` gives; GatewayError as `Store.commit`
   */
  async change<R extends S | typeof REMOVED | undefined>(
    key: string,
    next: (current: S | undefined, along: Along) => Maybe<R>,
    { commit = commitAlone(this.store), object = key, conflict }: HowChanged = {},
  ): Promise<R> {
    for (let tries = 1; ; tries += 1) {
      const found = await this.store.entity(this.space, key);
      const along: Along = { first: [], effects: [], settling: [], expect: [], also: [] };
      const after = await next(found === undefined ? undefined : this.#parse(found.value), along);
      if (after === undefined) return after;
      const effects = [...along.first, this.effect(key, after), ...along.effects, ...along.settling.flatMap((one) => one.effects)];
      const expect = [{ space: this.space, key, version: found?.version }, ...along.expect];
      const done = commit(object, effects, expect, along.also, along.told);
      const isLast = conflict === undefined && tries === MOST_TRIES;
      if (await settle(along.settling, isLast ? done.then(() => true) : unlessConflict(done))) {
        await this.refresh(key);
        return after;
      }
      if (conflict !== undefined) throw conflict();
    }
  }

  /** Makes one where there is none. @throws what `conflict` gives where there is one; GatewayError as `Store.commit` */
  async create(key: string, value: S, how: Omit<HowChanged, 'conflict'> & { readonly conflict: () => GatewayError }): Promise<void> {
    await this.change(
      key,
      (current) => {
        if (current !== undefined) throw how.conflict();
        return value;
      },
      how,
    );
  }

  /** Takes one away. @param also what goes with it, from what is stored @returns false when there is none */
  async remove(key: string, how: HowChanged = {}, also?: (current: S, along: Along) => void): Promise<boolean> {
    const removed = await this.change(
      key,
      (current, along) => {
        if (current === undefined) return undefined;
        also?.(current, along);
        return REMOVED;
      },
      how,
    );
    return removed === REMOVED;
  }

  /**
   * Changes several in one commit, whatever is there.
   * @param changes what each becomes
   * @param more what else belongs to that commit
   */
  async changeAll(
    changes: ReadonlyMap<string, S | typeof REMOVED>,
    { commit = commitAlone(this.store), object }: Pick<HowChanged, 'commit' | 'object'> = {},
    more: readonly Effect[] = [],
  ): Promise<void> {
    await commit(object, [...[...changes].map(([key, value]) => this.effect(key, value)), ...more]);
    await Promise.all([...changes.keys()].map((key) => this.refresh(key)));
  }

  /** What stores one, for the commit of another thing; {@link refresh} brings it in after that. */
  effect(key: string, value: S | typeof REMOVED): Effect {
    const at = { space: this.space, key };
    return value === REMOVED ? { op: 'delete', ...at } : { op: 'put', ...at, value };
  }
}

/** Tells what a commit has become of. @returns what the commit says: whether it is stored @throws as the commit does */
export async function settle(settling: readonly Settling[], commit: Promise<boolean>): Promise<boolean> {
  let isDone = false;
  try {
    isDone = await commit;
    return isDone;
  } finally {
    for (const one of settling) {
      if (isDone) one.stored();
      else one.failed();
    }
  }
}

/** What has to change for these to be all entities: those that are gone, and those that are others than they were. */
export function changesTo<S>(next: ReadonlyMap<string, S>, now: Iterable<[key: string, value: S]>): Map<string, S | typeof REMOVED> {
  const before = new Map(now);
  const changes = new Map<string, S | typeof REMOVED>();
  for (const key of before.keys()) if (!next.has(key)) changes.set(key, REMOVED);
  for (const [key, value] of next) if (!isDeepStrictEqual(value, before.get(key))) changes.set(key, value);
  return changes;
}
