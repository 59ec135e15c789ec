import type { Clock } from '../../base/lib/clock.ts';
import { every, type RunningJob } from '../../base/lib/every.ts';
import type { Logger } from '../../base/lib/log.ts';
import { Turn } from '../../base/lib/turn.ts';
import type { CapExchanged, CapSpeaker } from '../contract/cap-accounts.ts';
import { unavailable } from '../contract/commit-rules.ts';
import type { Effect, RecordCommit } from '../contract/store.ts';
import type { EmbeddedStore } from '../embedded/embedded-store.ts';
import { OpeningRefused } from '../postgres/database-errors.ts';
import type { CarriedJournal, CarriedLimits, JournalCarrier } from '../postgres/journal-carrier.ts';
import type { NodeBacklog } from '../postgres/node-rows.ts';
import { homeOf } from './node-spaces.ts';

/** How long a commit waits for others before it is carried. */
const GATHER_MS = 200;
/** A node that has nothing to carry says that it is there. */
const HEARTBEAT_MS = 2_000;
/** A commit of which nobody knows whether the database has it keeps what is carried waiting for no longer. */
const IN_DOUBT_MS = 5_000;

export interface ShippingOptions {
  readonly local: Pick<EmbeddedStore, 'journal' | 'sync'>;
  readonly carrier: Pick<JournalCarrier, 'carryAll' | 'exchange'>;
  /** Says that the node is there. @returns false: another start stands behind its name */
  readonly note: (backlog: NodeBacklog) => Promise<boolean>;
  readonly clock: Clock;
  readonly log: Pick<Logger, 'info' | 'warn' | 'error'>;
  /** Another start stands behind the node's name: nothing of this one is taken any more. */
  readonly onReplaced: () => void;
}

/**
 * Carries what a node's journal has into the database, all the time, and knows how much of it waits. While the database
 * is away nothing is lost: the journal is the node's own, and is carried from where the database stands when it is
 * back.
 */
export class JournalShipping {
  readonly #options: ShippingOptions;
  readonly #turn = new Turn();
  readonly #job: RunningJob;
  /** Records that were committed and are not carried, as far as this process knows. */
  #records = 0;
  /** Monotonic milliseconds since when something waits. */
  #waitsSince: number | undefined;
  /** All of the journal was carried once in this life. */
  #isCaughtUp = false;
  #isCarrying = false;
  #works: Work[] = [];
  #isWorking = false;
  /** What writes to the database itself, and did not have to wait. */
  readonly #underWay = new Set<Promise<void>>();
  #isAway = false;

  constructor(options: ShippingOptions) {
    this.#options = options;
    this.#job = every(options, {
      everyMs: HEARTBEAT_MS,
      firstMs: 0,
      run: () => this.#round(),
      failed: 'the journal could not be carried into the database; it is tried again',
    });
  }

  /** A commit has become visible. */
  committed(hasRecord: boolean): void {
    if (hasRecord) this.#records += 1;
    if (this.#waitsSince !== undefined) return;
    this.#waitsSince = this.#options.clock.monotonic();
    this.#job.within(GATHER_MS);
  }

  /** The database could not be reached when it was last asked. */
  get isAway(): boolean {
    return this.#isAway;
  }

  get backlog(): NodeBacklog {
    const since = this.#waitsSince;
    if (since === undefined) return { records: 0, seconds: 0 };
    return { records: this.#records, seconds: Math.floor((this.#options.clock.monotonic() - since) / 1_000) };
  }

  /** Resolves when all that was visible is in the database. @throws GatewayError `record_store_unavailable` */
  flush(): Promise<void> {
    if (this.#isCaughtUp && this.#waitsSince === undefined && !this.#isCarrying) return Promise.resolve();
    return this.#turn.take(() => this.#carry());
  }

  /**
   * Does what writes to the database itself: behind what was asked for here before, and where it stores a record also
   * behind all that the journal has, so that records stay in their order. What has to wait is done in one go.
   * @param before of the journal's commits that are under way the last one; undefined: none is
   * @throws what `work` throws; GatewayError `record_store_unavailable` where it was not begun
   */
  behind(before: Promise<unknown> | undefined, storesRecord: boolean, work: () => Promise<void>): Promise<void> {
    const isIdle = before === undefined && this.#isCaughtUp && this.#waitsSince === undefined && !this.#isCarrying;
    if (this.#works.length === 0 && !this.#isWorking && (isIdle || !storesRecord)) return this.#noted(work());
    const isFirst = this.#works.length === 0;
    return new Promise((resolve, reject) => {
      this.#works.push({ before, work, resolve, reject });
      if (isFirst) void this.#turn.take(() => this.#doWorks());
    });
  }

  /** Never rejects. */
  async #doWorks(): Promise<void> {
    const works = this.#works;
    for (let settled = 0; settled < works.length; ) {
      settled = works.length;
      await Promise.allSettled(works.flatMap(({ before }) => before ?? []));
    }
    this.#works = [];
    this.#isWorking = true;
    try {
      await this.#carry();
      for (const { work, resolve, reject } of works) this.#noted(work()).then(resolve, reject);
    } catch (error) {
      for (const { reject } of works) reject(error);
    }
    this.#isWorking = false;
  }

  /**
   * What writes to the database itself is over, so that what is carried comes behind it.
   * @throws GatewayError `record_store_unavailable` when it is not after a while: nobody knows what has become of it
   */
  async #othersSettled(): Promise<void> {
    if (this.#underWay.size === 0) return;
    let cancel = (): void => undefined;
    const tooLong = new Promise<never>((_resolve, reject) => {
      cancel = this.#options.clock.after(IN_DOUBT_MS, () => reject(unavailable()));
    });
    try {
      await Promise.race([Promise.allSettled(this.#underWay), tooLong]);
    } finally {
      cancel();
    }
  }

  /** What is carried later waits for it. */
  #noted(work: Promise<void>): Promise<void> {
    const over = (): void => void this.#underWay.delete(work);
    this.#underWay.add(work);
    work.then(over, over);
    return work;
  }

  /**
   * Carries all that is visible, and with the last of it says what this node holds of shared caps.
   * @throws GatewayError `record_store_unavailable`: nobody may know what was granted
   */
  exchange(speaker: CapSpeaker): Promise<CapExchanged> {
    return this.#turn.take(() => this.#shipped((journal) => this.#options.carrier.exchange(journal, speaker)));
  }

  /** Carries what is left, once. Never rejects. */
  async close(): Promise<void> {
    await this.#job.stop();
    await this.#turn.over();
    await this.flush().catch((error: unknown) => {
      const { records } = this.backlog;
      this.#options.log.warn({ err: error, records }, 'what the database does not have yet is carried at the next start');
    });
  }

  /** Never rejects: the next one tries again. */
  async #round(): Promise<void> {
    try {
      await this.flush();
    } catch {
      return;
    }
    try {
      if (await this.#options.note(this.backlog)) this.#isThere();
      else this.#options.onReplaced();
    } catch (error) {
      this.#away(error);
    }
  }

  async #carry(): Promise<void> {
    if (this.#isCaughtUp && this.#waitsSince === undefined) return;
    await this.#shipped((journal) => this.#options.carrier.carryAll(journal));
  }

  async #shipped<T>(ship: (journal: CarriedJournal) => Promise<T>): Promise<T> {
    const { local, clock } = this.#options;
    const [before, records] = [this.#waitsSince, this.#records];
    // Whatever becomes visible from here on counts as waiting anew.
    this.#waitsSince = undefined;
    this.#records = 0;
    this.#isCarrying = true;
    const began = clock.monotonic();
    try {
      await this.#othersSettled();
      const done = await ship(carriedOf(local));
      this.#isCaughtUp = true;
      this.#isThere();
      return done;
    } catch (error) {
      this.#records += records;
      this.#waitsSince = before ?? began;
      this.#away(error);
      throw unavailable(error);
    } finally {
      this.#isCarrying = false;
    }
  }

  #isThere(): void {
    if (this.#isAway) this.#options.log.info({}, 'the database takes what this node leaves again');
    this.#isAway = false;
  }

  #away(error: unknown): void {
    if (error instanceof OpeningRefused) this.#options.onReplaced();
    if (!this.#isAway)
      this.#options.log.error({ err: error }, 'the database does not take what this node leaves; calls go on, and it is carried later');
    this.#isAway = true;
  }
}

/** What is to be done behind what is carried. */
interface Work {
  readonly before: Promise<unknown> | undefined;
  readonly work: () => Promise<void>;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** The journal without what is the node's own. */
function carriedOf(local: ShippingOptions['local']): CarriedJournal {
  return {
    journal: async (from: string | undefined, limits: CarriedLimits) => {
      const piece = await local.journal(from, limits);
      // What the database has must never be more than what is on the node's disk.
      if (piece.next !== from) await local.sync();
      return { ...piece, commits: piece.commits.flatMap(carriedCommit) };
    },
  };
}

interface Commit {
  readonly record: RecordCommit | undefined;
  readonly effects: readonly Effect[];
}

/** None of a commit of which nothing is carried. */
function carriedCommit({ record, effects }: Commit): readonly Commit[] {
  const kept = effects.filter((effect) => effect.op === 'add' || homeOf(effect.space) === 'carried');
  return record === undefined && kept.length === 0 ? [] : [{ record, effects: kept }];
}
