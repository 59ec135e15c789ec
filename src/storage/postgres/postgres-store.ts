import { randomUUID } from 'node:crypto';
import type { Clock } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Logger } from '../../base/lib/log.ts';
import { checkKey, isKey, notAllowed, unavailable } from '../contract/commit-rules.ts';
import type { RecordQuery } from '../contract/record-query.ts';
import type { WatchListener } from '../contract/space-watchers.ts';
import {
  type CounterRow,
  type Effect,
  type Entity,
  type EntityPage,
  type Expectation,
  type RecordCommit,
  type Store,
  type StoredRecord,
  StoreError,
} from '../contract/store.ts';
import { ChangePoll } from './change-poll.ts';
import { unreadable } from './database-errors.ts';
import { counterRowsOf, counterTotals, type EntityRow, entityPage, entityRow } from './entity-reads.ts';
import { forgetNode, isAlive, type NodeFate, type NodeHoldings, nodeHoldings } from './forget-node.ts';
import { type CarriedNode, JournalCarrier } from './journal-carrier.ts';
import { claimNode, type NodeBacklog, type NodeClaim, type NodeRow, nodeRows, noteNode } from './node-rows.ts';
import { queuedCommit } from './queued-commit.ts';
import { ReadGate } from './read-gate.ts';
import type { RecordMonths } from './record-months.ts';
import type { RecordPlaces } from './record-places.ts';
import { type RecordStatement, recordPageOf, recordStatement, statementByHash, statementById } from './record-reads.ts';
import { removeOldRecords } from './record-removal.ts';
import { onReadConnection, type Sql, type SqlPools } from './sql.ts';
import { type MovedFolder, StoreMover } from './store-mover.ts';
import { StoreWriter } from './store-writer.ts';

/** The opened parts, made by `openPostgresStore`. */
export interface PostgresParts {
  readonly pools: SqlPools;
  readonly clock: Clock;
  readonly log: Pick<Logger, 'info' | 'error'>;
  readonly places: RecordPlaces;
  readonly months: RecordMonths;
}

/**
 * The storage contract on a PostgreSQL database. Several of it may have one database open at the same time, in one
 * process or in many. README.md follows a commit through it.
 */
export class PostgresStore implements Store {
  readonly #parts: PostgresParts;
  readonly #gate: ReadGate;
  readonly #writer: StoreWriter;
  readonly #poll: ChangePoll;
  /** Reads and removals that are under way. */
  readonly #underWay = new Set<Promise<unknown>>();
  #closing: Promise<void> | undefined;

  constructor(parts: PostgresParts) {
    const { clock, log, pools, months } = parts;
    this.#parts = parts;
    this.#gate = new ReadGate(clock);
    this.#poll = new ChangePoll({ clock, log, read: (work) => this.#read(work) });
    this.#writer = new StoreWriter({
      pool: pools.writes,
      clock,
      log,
      gate: this.#gate,
      months,
      writer: randomUUID(),
      onVisible: (change, entities) => this.#poll.own(change, entities),
    });
  }

  get writable(): boolean {
    return this.#closing === undefined && this.#writer.healthy;
  }

  async commit(record: RecordCommit | undefined, effects: readonly Effect[], expect?: readonly Expectation[]): Promise<void> {
    if (!this.writable) throw unavailable();
    return this.#writer.push(queuedCommit(record, effects, expect));
  }

  async recordById(recordId: string): Promise<StoredRecord | undefined> {
    return this.#oneRecord(statementById(recordId));
  }

  async recordByHash(recordHash: string): Promise<StoredRecord | undefined> {
    return this.#oneRecord(statementByHash(recordHash));
  }

  async records(query: RecordQuery): Promise<readonly StoredRecord[]> {
    this.#mustBeOpen();
    const { places } = this.#parts;
    const statement = recordStatement(query, places);
    return statement === undefined ? [] : this.#read((sql) => recordPageOf(sql, statement, places), query.signal);
  }

  async get(space: string, key: string): Promise<unknown> {
    const row = await this.#entityRow(space, key);
    return row && (JSON.parse(row.text) as unknown);
  }

  async entity(space: string, key: string): Promise<Entity | undefined> {
    const row = await this.#entityRow(space, key);
    return row && { value: JSON.parse(row.text) as unknown, version: row.version };
  }

  async list(space: string, page?: EntityPage): Promise<readonly { readonly key: string; readonly value: unknown }[]> {
    const rows = await this.#read((sql) => entityPage(sql, space, page));
    return rows.map(({ key, text }) => ({ key, value: JSON.parse(text) as unknown }));
  }

  async entities(space: string, page?: EntityPage): Promise<readonly (Entity & { readonly key: string })[]> {
    const rows = await this.#read((sql) => entityPage(sql, space, page));
    return rows.map(({ key, text, version }) => ({ key, value: JSON.parse(text) as unknown, version }));
  }

  async watch(space: string, listener: WatchListener): Promise<() => void> {
    this.#mustBeOpen();
    return this.#poll.watch(space, listener);
  }

  async counter(space: string, key: string): Promise<Readonly<Record<string, bigint>>> {
    this.#mustBeOpen();
    checkKey(space, key);
    return this.#read((sql) => counterTotals(sql, space, key));
  }

  async counters(
    space: string,
    page: { readonly prefix?: string; readonly after?: string; readonly limit: number },
  ): Promise<readonly CounterRow[]> {
    return this.#read((sql) => counterRowsOf(sql, space, page));
  }

  /** Exactly those, none is kept longer. Rejects (`record_store_unavailable`); the oldest ones may be gone then. */
  async removeRecordsBefore(epochMs: number): Promise<number> {
    this.#mustBeOpen();
    const { pools, months, log } = this.#parts;
    try {
      const removed = await this.#noted(removeOldRecords(pools.writes, epochMs));
      if (removed > 0) log.info({ records: removed }, 'Records past their retention were removed');
      return removed;
    } catch (error) {
      throw unavailable(error);
    } finally {
      months.forget();
    }
  }

  /**
   * What carries the journal of a node into this database.
   * @param adopts the node's name is taken from the data folder that has it
   * @throws OpeningRefused where another data folder has the node's name
   */
  async carrier(node: CarriedNode, adopts = false): Promise<JournalCarrier> {
    this.#mustBeOpen();
    const { pools, months } = this.#parts;
    if (adopts) await JournalCarrier.adopt(pools.writes, node);
    return this.#noted(JournalCarrier.open(pools.writes, months, node));
  }

  /** Makes a start of a node the one behind its name. @throws OpeningRefused as {@link claimNode} */
  async claim(claim: NodeClaim): Promise<void> {
    this.#mustBeOpen();
    return this.#noted(claimNode(this.#parts.pools.writes, claim));
  }

  /**
   * Says that a node is there. @returns false: another start stands behind its name
   * @throws what the database, or the way to it, refuses with
   */
  async note(node: CarriedNode, backlog: NodeBacklog): Promise<boolean> {
    this.#mustBeOpen();
    return this.#noted(noteNode(this.#parts.pools.writes, node, backlog));
  }

  /** The nodes that have this database, by name. */
  async nodes(): Promise<readonly NodeRow[]> {
    return this.#read(nodeRows);
  }

  /** What takes an embedded store into this database, where that has nothing else. */
  mover(folder: MovedFolder): StoreMover {
    this.#mustBeOpen();
    const { pools, months } = this.#parts;
    return new StoreMover(pools.writes, months, folder);
  }

  /** What nodes hold of shared caps, by their names. */
  async holdings(): Promise<ReadonlyMap<string, NodeHoldings>> {
    return this.#read(nodeHoldings);
  }

  /** Whether a node was heard of within a minute. */
  async isAlive(node: string): Promise<boolean> {
    return this.#read((sql) => isAlive(sql, node));
  }

  /**
   * Forgets a node that is gone, and charges what it held of shared caps, as {@link forgetNode}.
   * @throws GatewayError `record_store_unavailable`
   */
  async forget(node: string): Promise<NodeFate> {
    const { pools, clock } = this.#parts;
    this.#mustBeOpen();
    try {
      return await this.#noted(forgetNode(pools.writes, node, clock.now()));
    } catch (error) {
      throw unavailable(error);
    }
  }

  /** Waits for what is under way; what has resolved is as safe as the server makes it. */
  async sync(): Promise<void> {
    this.#mustBeOpen();
    await this.#writer.drained();
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const { reads, writes } = this.#parts.pools;
    await this.#writer.close();
    await this.#poll.close();
    await Promise.allSettled(this.#underWay);
    await Promise.allSettled([reads.end(), writes.end()]);
  }

  async #oneRecord(statement: RecordStatement | undefined): Promise<StoredRecord | undefined> {
    this.#mustBeOpen();
    const { places } = this.#parts;
    return statement && (await this.#read((sql) => recordPageOf(sql, statement, places)))[0];
  }

  async #entityRow(space: string, key: string): Promise<EntityRow | undefined> {
    this.#mustBeOpen();
    if (!isKey(key)) return undefined;
    if (!isKey(space)) throw notAllowed();
    return this.#read((sql) => entityRow(sql, space, key));
  }

  /** Runs what reads: it sees all that has resolved, and nothing that has not. */
  async #read<T>(work: (sql: Sql) => Promise<T>, signal?: AbortSignal): Promise<T> {
    this.#mustBeOpen();
    const { reads } = this.#parts.pools;
    try {
      return await this.#noted(this.#gate.read(() => onReadConnection(reads, signal, work)));
    } catch (error) {
      if (signal?.aborted === true || error instanceof GatewayError || error instanceof TypeError) throw error;
      throw unreadable(error);
    }
  }

  #noted<T>(work: Promise<T>): Promise<T> {
    const over = (): void => void this.#underWay.delete(work);
    this.#underWay.add(work);
    work.then(over, over);
    return work;
  }

  #mustBeOpen(): void {
    if (this.#closing) throw new StoreError('closed', 'The store is closed');
  }
}
