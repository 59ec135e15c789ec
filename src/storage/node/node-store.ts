import type { Logger } from '../../base/lib/log.ts';
import type { CapExchanged, CapSpeaker } from '../contract/cap-accounts.ts';
import { isKey, notAllowed, unavailable } from '../contract/commit-rules.ts';
import type { RecordQuery } from '../contract/record-query.ts';
import type { WatchListener } from '../contract/space-watchers.ts';
import type { CounterRow, Effect, Entity, EntityPage, Expectation, RecordCommit, Store, StoredRecord } from '../contract/store.ts';
import { entityRows } from '../contract/store-pages.ts';
import type { EmbeddedStore } from '../embedded/embedded-store.ts';
import type { NodeBacklog } from '../postgres/node-rows.ts';
import type { PostgresStore } from '../postgres/postgres-store.ts';
import type { JournalShipping } from './journal-shipping.ts';
import { homeOf, isNodeSpace } from './node-spaces.ts';

/** The opened parts, made by `openNodeStore`. */
export interface NodeStoreParts {
  /** What the node's data folder is called for as long as it is one: its node may get another name. */
  readonly folder: string;
  readonly local: EmbeddedStore;
  readonly shared: PostgresStore;
  readonly shipping: JournalShipping;
  /** Whether another start has taken the node's name. */
  readonly isReplaced: () => boolean;
  readonly stopTrimming: () => Promise<void>;
  readonly log: Pick<Logger, 'info' | 'warn' | 'error'>;
}

/** How a node stands to its database. */
export interface NodeHealth {
  readonly backlog: NodeBacklog;
  /** The database could not be reached when it was last asked. */
  readonly isAway: boolean;
}

/**
 * What a commit that goes to the database has left to do in the node's own store: written with it, and done again by
 * the next start where this one did not come to it.
 */
const ERRANDS = 'node_errand';
const SEQUENCE_DIGITS = 12;

/**
 * The storage contract for one node of several: what calls leave is committed to the node's own journal, which is
 * carried into the database; what nodes share is written to the database at once. README.md follows both.
 */
export class NodeStore implements Store {
  readonly #parts: NodeStoreParts;
  readonly #local: EmbeddedStore;
  readonly #shared: PostgresStore;
  readonly #shipping: JournalShipping;
  /** The commit that was last handed to the journal, while it is under way. */
  #lastLocal: Promise<unknown> | undefined;
  #errands = 0;
  #closing: Promise<void> | undefined;

  constructor(parts: NodeStoreParts) {
    this.#parts = parts;
    this.#local = parts.local;
    this.#shared = parts.shared;
    this.#shipping = parts.shipping;
  }

  /** Of the node's own disk: calls go on while the database is away. */
  get writable(): boolean {
    return this.#closing === undefined && !this.#parts.isReplaced() && this.#local.writable;
  }

  get health(): NodeHealth {
    return { backlog: this.#shipping.backlog, isAway: this.#shipping.isAway };
  }

  commit(record: RecordCommit | undefined, effects: readonly Effect[], expect?: readonly Expectation[]): Promise<void> {
    if (!this.writable) return Promise.reject(unavailable());
    if (isLocal(effects, expect)) return this.#commitLocally(record, effects, expect);
    return this.#commitToAll(record, effects, expect ?? []);
  }

  #commitLocally(record: RecordCommit | undefined, effects: readonly Effect[], expect?: readonly Expectation[]): Promise<void> {
    const stored = this.#local.commit(record, effects, expect).then(() => this.#shipping.committed(record !== undefined));
    const over = (): void => {
      if (this.#lastLocal === stored) this.#lastLocal = undefined;
    };
    stored.then(over, over);
    this.#lastLocal = stored;
    return stored;
  }

  /**
   * A commit with a record comes behind all that was handed over before, so that records keep their order.
   * @throws TypeError where it expects something of a space of the node: nothing could judge both at once
   */
  async #commitToAll(record: RecordCommit | undefined, effects: readonly Effect[], expect: readonly Expectation[]): Promise<void> {
    if (expect.some(({ space }) => isNodeSpace(space)))
      throw new TypeError('A commit that changes what nodes share expects nothing of what is one node alone');
    const own = effects.filter((effect) => effect.op !== 'add' && isNodeSpace(effect.space));
    const shared = own.length === 0 ? effects : effects.filter((effect) => effect.op === 'add' || !isNodeSpace(effect.space));
    const errand = own.length === 0 ? undefined : this.#errandOf(own);
    const all = errand === undefined ? shared : [...shared, errand];
    await this.#shipping.behind(this.#lastLocal, record !== undefined, () => this.#shared.commit(record, all, expect));
    if (record === undefined && errand === undefined) return;
    try {
      // A database that fails over to an older state is fed from the journal; else this is left out there as known.
      if (record !== undefined) await this.#commitLocally(record, [...own, ...effects.filter(({ op }) => op === 'add')]);
      else await this.#local.commit(undefined, own);
    } catch (error) {
      this.#parts.log.error({ err: error }, 'what the database has stored could not be followed here; the next start does it');
      return;
    }
    if (errand !== undefined) this.#crossOff(errand.key);
  }

  #errandOf(value: readonly Effect[]): Effect & { readonly op: 'put' } {
    this.#errands += 1;
    const key = `${errandPrefix(this.#parts.folder)}${String(this.#errands).padStart(SEQUENCE_DIGITS, '0')}`;
    return { op: 'put', space: ERRANDS, key, value };
  }

  /** What a commit has left to do here is done; nobody waits for the errand to be forgotten. */
  #crossOff(key: string): void {
    this.#shared.commit(undefined, [{ op: 'delete', space: ERRANDS, key }]).catch((error: unknown) => {
      this.#parts.log.warn({ err: error }, 'what is done could not be crossed off in the database; the next start does it once more');
    });
  }

  /** Does what an earlier start has left undone. To be called once, before anything else is committed. */
  async catchUp(): Promise<void> {
    for await (const { key, value } of entityRows(this.#shared, ERRANDS, { prefix: errandPrefix(this.#parts.folder) })) {
      this.#errands = Math.max(this.#errands, Number(key.slice(-SEQUENCE_DIGITS)));
      await this.#local.commit(undefined, value as readonly Effect[]);
      await this.#shared.commit(undefined, [{ op: 'delete', space: ERRANDS, key }]);
    }
  }

  recordById(recordId: string): Promise<StoredRecord | undefined> {
    return this.#record((store) => store.recordById(recordId));
  }

  recordByHash(recordHash: string): Promise<StoredRecord | undefined> {
    return this.#record((store) => store.recordByHash(recordHash));
  }

  /** While the database takes nothing, what this node has itself is shown all the same, with a position of no page. */
  async #record(find: (store: Store) => Promise<StoredRecord | undefined>): Promise<StoredRecord | undefined> {
    try {
      await this.#shipping.flush();
    } catch {
      const own = await find(this.#local);
      if (own !== undefined) return own;
    }
    return find(this.#shared);
  }

  async records(query: RecordQuery): Promise<readonly StoredRecord[]> {
    await this.#shipping.flush();
    return this.#shared.records(query);
  }

  async get(space: string, key: string): Promise<unknown> {
    return (await this.#homeOf(space)).get(space, key);
  }

  async entity(space: string, key: string): Promise<Entity | undefined> {
    return (await this.#homeOf(space)).entity(space, key);
  }

  async list(space: string, page?: EntityPage): Promise<readonly { readonly key: string; readonly value: unknown }[]> {
    return (await this.#homeOf(space)).list(space, page);
  }

  async entities(space: string, page?: EntityPage): Promise<readonly (Entity & { readonly key: string })[]> {
    return (await this.#homeOf(space)).entities(space, page);
  }

  async watch(space: string, listener: WatchListener): Promise<() => void> {
    return isNodeSpace(space) ? this.#local.watch(space, listener) : this.#shared.watch(space, listener);
  }

  async counter(space: string, key: string): Promise<Readonly<Record<string, bigint>>> {
    await this.#shipping.flush();
    return this.#shared.counter(space, key);
  }

  async counters(
    space: string,
    page: { readonly prefix?: string; readonly after?: string; readonly limit: number },
  ): Promise<readonly CounterRow[]> {
    await this.#shipping.flush();
    return this.#shared.counters(space, page);
  }

  /** From the database, exactly. */
  async removeRecordsBefore(epochMs: number): Promise<number> {
    await this.#shipping.flush();
    return this.#shared.removeRecordsBefore(epochMs);
  }

  /** What this node says of shared caps, as {@link JournalShipping.exchange}. */
  exchange(speaker: CapSpeaker): Promise<CapExchanged> {
    return this.#shipping.exchange(speaker);
  }

  /** Forces what this node has committed to its own disk. @throws GatewayError `record_store_unavailable` */
  sync(): Promise<void> {
    return this.#local.sync();
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await Promise.allSettled([this.#lastLocal]);
    await this.#parts.stopTrimming();
    await this.#shipping.close();
    await this.#shared.close();
    await this.#local.close();
  }

  /** Where the entities of a space are read, with all that this node has committed. */
  async #homeOf(space: string): Promise<Store> {
    if (!isKey(space)) throw notAllowed();
    const home = homeOf(space);
    if (home === 'carried') await this.#shipping.flush();
    return home === 'node' ? this.#local : this.#shared;
  }
}

/** Whether the journal takes a commit as it is. */
function isLocal(effects: readonly Effect[], expect: readonly Expectation[] | undefined): boolean {
  for (const effect of effects) if (effect.op !== 'add' && homeOf(effect.space) === 'shared') return false;
  if (expect !== undefined) for (const { space } of expect) if (!isNodeSpace(space)) return false;
  return true;
}

/** Names of folders have no such sign. */
function errandPrefix(folder: string): string {
  return `${folder}|`;
}
