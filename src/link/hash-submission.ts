import type { EventBus } from '../base/events/bus.ts';
import { type Clock, retryDelay, timestamp } from '../base/lib/clock.ts';
import { every, type RunningJob } from '../base/lib/every.ts';
import { GatewayError } from '../base/lib/gateway-error.ts';
import type { Logger } from '../base/lib/log.ts';
import { ProtocolError } from '../control-plane/proto/protocol-error.ts';
import type { CutSpan } from '../ledger/ledger-restore.ts';
import type { Store } from '../storage/contract/store.ts';
import { type HashPlace, hashesAfter, MOST_CUTS, placeOf, placePut } from './hash-place.ts';
import type { ComparedLedger, LedgerComparison } from './ledger-comparison.ts';
import type { Channel } from './link-ports.ts';

/** The most that one call carries (`SubmitHashesRequest`). */
const BATCH = 4_096;
/** Records that are counted at once. */
const COUNTED = 500;
/** Hashes that come in that time go together, so that neither store nor control plane is asked for each. */
const GATHER_MS = 200;
/** Should a wake-up ever get lost. */
const LOOK_MS = 60_000;
const LONGEST_WAIT_MS = 30_000;
/** A control plane that asks for more patience is asked again all the same. */
const LONGEST_PATIENCE_MS = 60_000;
/** Within this a hash is to be included (decision 13.3): what is under way for longer waits. */
const LATE_MS = 2_000;
/** A ledger that has forgotten hashes gets all of them again, and not more often than that. */
const REWIND_MS = 600_000;
/** Ledgers are compared before hashes go, and not more often than that. */
const COMPARE_MS = 1_000;

export interface HashSubmissionOptions {
  readonly store: Pick<Store, 'records' | 'get' | 'commit'>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly events: Pick<EventBus, 'subscribe'>;
  /** In whose ledger the hashes are. */
  readonly orgId: string;
  /** Compares what was seen of the ledger with what it is; absent: nobody does. */
  readonly ledger?: Pick<LedgerComparison, 'compare' | 'tell'>;
}

/**
 * Hands the hashes of this gateway's records to the control plane, in commit order, from the store itself: what is
 * still to be sent is a place among the records, and no second copy that could say something else (decision 13.3). It
 * is woken by records and by contact, and otherwise rests.
 */
export class HashSubmission {
  /** Hashes that were acknowledged, and records that retention has removed before theirs were; since this start. */
  readonly counts = { acknowledged: 0, lost: 0 };
  readonly #options: HashSubmissionOptions;
  readonly #ending = new AbortController();
  #place: HashPlace;
  #channel: Pick<Channel, 'call'> | undefined;
  #endListening: () => void = () => undefined;
  #cancelTimer: (() => void) | undefined;
  #look: RunningJob | undefined;
  #running: Promise<void> | undefined;
  #counting: Promise<void> | undefined;
  /** Somebody has said that there may be records since the last look. */
  #again = false;
  #failures = 0;
  /** Records behind the place that were counted: those up to #countedTo, each once, whoever reads it first. */
  #unsent = 0;
  /** The position of the last one that was counted; null: none. */
  #countedTo: string | null;
  /**
   * Counts in a while what has come meanwhile, where it matters: while hashes are taken as they come nothing is
   * counted.
   */
  readonly #counter: RunningJob;
  /** How often it was counted anew: a batch that was read before that may hold what does not count any more. */
  #recounts = 0;
  /** While the place is set back no run may begin, which would store its own over it. */
  #isHeld = false;
  /** Monotonic; of the batch that is under way. */
  #batchSince: number | undefined;
  #rewoundAt: number | undefined;
  /** Monotonic. */
  #comparedAt = Number.NEGATIVE_INFINITY;
  #startedAt = 0;

  private constructor(options: HashSubmissionOptions, place: HashPlace) {
    this.#options = options;
    this.#place = place;
    this.#countedTo = place.after;
    this.#counter = every(options, {
      everyMs: () => undefined,
      run: () => {
        if (this.#failures > 0 || this.#batchSince !== undefined) this.#count();
      },
      failed: 'the hashes that wait could not be counted',
    });
  }

  /** Reads how far it was. Nothing is sent before `start`. */
  static async open(options: HashSubmissionOptions): Promise<HashSubmission> {
    return new HashSubmission(options, await placeOf(options.store, options.orgId));
  }

  /** When hashes were last acknowledged, RFC 3339; undefined: never. */
  get lastSubmitAt(): string | undefined {
    return this.#place.last_submit_at;
  }

  /** Restores of the ledger for which everything was handed in again, in order. */
  get cuts(): readonly CutSpan[] {
    return this.#place.cuts ?? [];
  }

  /**
   * Hashes that wait because the control plane does not take them as they come; those of the moment, which are gathered
   * or under way, do not wait yet.
   */
  get pending(): number {
    const since = this.#batchSince;
    const isLate = since !== undefined && this.#options.clock.monotonic() - since > LATE_MS;
    return this.#failures > 0 || isLate || this.#unsent > BATCH ? this.#unsent : 0;
  }

  /** There is a channel now: everything that was not acknowledged goes, the oldest first. */
  start(channel: Pick<Channel, 'call'>): void {
    if (this.#channel !== undefined || this.#ending.signal.aborted) return;
    this.#channel = channel;
    this.#startedAt = this.#options.clock.monotonic();
    this.#endListening = this.#options.events.subscribe(['execution', 'usageSettled'], () => {
      this.#wake();
      this.#counter.within(GATHER_MS);
    });
    this.#count();
    this.#look = every(this.#options, { everyMs: LOOK_MS, run: () => this.#wake(), failed: 'hashes could not be looked for' });
    this.flush();
  }

  /** The control plane answers again: what waits for a further try goes now. */
  flush(): void {
    this.#again = true;
    if (this.#channel === undefined || this.#running !== undefined || this.#isHeld || this.#ending.signal.aborted) return;
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#begin();
  }

  /** Whether the hash of this record was taken by the control plane. */
  async acknowledged(recordId: string): Promise<boolean> {
    const { after } = this.#place;
    if (after === null) return false;
    return (await this.#options.store.records({ after, record_id: recordId, limit: 1 })).length === 0;
  }

  /**
   * The control plane does not know what it has acknowledged (it is another one, or was set back): all hashes that
   * there are records of go again, which changes nothing of those it has.
   */
  async sendAgain(): Promise<void> {
    const now = this.#options.clock.monotonic();
    if (this.#rewoundAt !== undefined && now - this.#rewoundAt < REWIND_MS) return;
    this.#rewoundAt = now;
    this.#options.log.warn(
      { org_id: this.#options.orgId },
      'the ledger lacks a hash that it had acknowledged; all of them are handed in again',
    );
    this.#isHeld = true;
    try {
      // Behind the batch that is under way, whose place would otherwise be stored over this one.
      await this.#running;
      await this.#move({ ...this.#place, after: null });
      this.#countAnew();
    } catch (error) {
      this.#rewoundAt = undefined;
      throw error;
    } finally {
      this.#isHeld = false;
      this.flush();
    }
  }

  /**
   * Removes records by `remove`, and counts as lost those whose hash was not acknowledged.
   * @param epochMs what was committed before it goes
   */
  async countingUnsent(epochMs: number, remove: () => Promise<number>): Promise<number> {
    const from = this.#place.after;
    const acknowledged = this.counts.acknowledged;
    const before = await this.#countFrom(from, epochMs);
    if (before === 0) return remove();
    const removed = await remove();
    const gone = before - (await this.#countFrom(from, epochMs));
    // The oldest are both removed and acknowledged first.
    const lost = Math.max(0, gone - (this.counts.acknowledged - acknowledged));
    if (lost === 0) return removed;
    this.counts.lost += lost;
    this.#countAnew();
    this.#options.log.error(
      { records: lost },
      'records were removed by their age before the control plane had taken their hashes: they cannot be proved',
    );
    return removed;
  }

  async close(): Promise<void> {
    this.#ending.abort();
    this.#endListening();
    this.#cancelTimer?.();
    await Promise.all([this.#look?.stop(), this.#counter.stop(), this.#running, this.#counting]);
  }

  #wake(): void {
    this.#again = true;
    if (this.#running !== undefined || this.#cancelTimer !== undefined || this.#ending.signal.aborted) return;
    this.#beginIn(GATHER_MS);
  }

  #beginIn(ms: number): void {
    this.#cancelTimer = this.#options.clock.after(ms, () => {
      this.#cancelTimer = undefined;
      this.#begin();
    });
  }

  #begin(): void {
    if (this.#isHeld) return;
    this.#running = this.#run().then(
      () => this.#over(GATHER_MS),
      (error: unknown) => {
        if (this.#ending.signal.aborted) return;
        // One line for each time it breaks, not for each try.
        const line = { err: error, waiting: this.#unsent };
        if (this.#failures === 0) this.#options.log.warn(line, 'hashes could not be handed in; they wait, and it is tried again');
        this.#again = true;
        this.#failures++;
        this.#counter.within(GATHER_MS);
        this.#over(waitAfter(error, this.#failures));
      },
    );
  }

  #over(ms: number): void {
    this.#running = undefined;
    this.#batchSince = undefined;
    if (this.#again && !this.#ending.signal.aborted) this.#beginIn(ms);
  }

  /** Batch after batch, one at a time, until nothing is left. */
  async #run(): Promise<void> {
    while (!this.#ending.signal.aborted) {
      this.#again = false;
      const page = await this.#read();
      if (await this.#isSetBack(page.hashes.length === 0)) continue;
      if (page.hashes.length > 0) await this.#submit(page);
      if (page.isLast) return;
      this.#counter.within(GATHER_MS);
    }
  }

  /**
   * What the control plane has signed and shown is shown to it before it signs more; a restore that it says sets the
   * place back, in one commit with the mark that it did (decision 13.23).
   * @param isIdle there is nothing to hand in: then it does not matter whether it answers
   * @returns whether the place was set back
   */
  async #isSetBack(isIdle: boolean): Promise<boolean> {
    const { ledger, clock } = this.#options;
    const channel = this.#channel;
    // A start that has nothing to hand in leaves the first word to the check-in, whose answer says what is stale.
    const before = isIdle ? Math.max(this.#comparedAt, this.#startedAt) : this.#comparedAt;
    if (ledger === undefined || channel === undefined || clock.monotonic() - before < COMPARE_MS) return false;
    try {
      const found = await this.#unlessEnded(ledger.compare(channel, this.#place.newest_root ?? ''));
      this.#comparedAt = clock.monotonic();
      return found !== undefined && (await this.#heard(found, isIdle));
    } catch (error) {
      if (isIdle) return false;
      throw error;
    }
  }

  async #heard({ newest, restore }: ComparedLedger, isIdle: boolean): Promise<boolean> {
    const { cuts = [] } = this.#place;
    if (restore !== undefined && restore.sequence > (cuts.at(-1)?.sequence ?? 0)) {
      await this.#move({ ...this.#place, after: null, newest_root: newest, cuts: [...cuts, restore].slice(-MOST_CUTS) });
      this.#options.ledger?.tell(restore);
      this.#countAnew();
      return true;
    }
    if (newest === '' || newest === this.#place.newest_root) return false;
    const place = { ...this.#place, newest_root: newest };
    // Otherwise it is stored with the place behind what is handed in next.
    if (isIdle) await this.#move(place);
    else this.#place = place;
    return false;
  }

  async #read(): ReturnType<typeof hashesAfter> {
    const { store } = this.#options;
    try {
      return await hashesAfter(store, this.#place.after, BATCH);
    } catch (error) {
      // The store was repaired or put back: the place is not one of it. To send twice changes nothing.
      if (!(error instanceof GatewayError) || error.code !== 'invalid_request' || this.#place.after === null) throw error;
      this.#place = { ...this.#place, after: null };
      this.#countAnew();
      return hashesAfter(store, null, BATCH);
    }
  }

  async #submit({ hashes, positions }: Awaited<ReturnType<typeof hashesAfter>>): Promise<void> {
    this.#batchSince = this.#options.clock.monotonic();
    if (hashes.length > this.#unsent) this.#haveCounted(hashes.length, positions.at(-1) ?? null);
    const recounts = this.#recounts;
    const { acknowledged } = await this.#call(hashes);
    const count = Math.min(acknowledged, hashes.length);
    const after = positions[count - 1];
    if (after === undefined) throw new Error('the control plane has taken none of the hashes');
    const { submitted } = this.#place;
    await this.#move({ ...this.#place, after, submitted: submitted + count, last_submit_at: timestamp(this.#options.clock.now()) });
    this.counts.acknowledged += count;
    if (recounts === this.#recounts) this.#unsent -= count;
    else this.#countAnew();
    this.#batchSince = undefined;
    if (this.#failures > 0) this.#options.log.info({ waiting: this.#unsent }, 'hashes are handed in again');
    this.#failures = 0;
    if (count < hashes.length) this.#again = true;
  }

  #call(hashes: readonly Buffer[]): Promise<{ readonly acknowledged: number }> {
    const channel = this.#channel;
    if (channel === undefined) return Promise.reject(new Error('there is no channel'));
    return this.#unlessEnded(channel.call('SubmitHashes', { hashes }));
  }

  /** An end of the gateway does not wait for an answer. */
  #unlessEnded<T>(answer: Promise<T>): Promise<T> {
    const { signal } = this.#ending;
    return new Promise((resolve, reject) => {
      const ended = (): void => reject(new Error('the gateway stops'));
      signal.addEventListener('abort', ended, { once: true });
      const over = (): void => signal.removeEventListener('abort', ended);
      answer.then(resolve, reject).finally(over);
    });
  }

  async #move(place: HashPlace): Promise<void> {
    const { store, orgId } = this.#options;
    await store.commit(undefined, [placePut(orgId, place)]);
    this.#place = place;
  }

  #countAnew(): void {
    this.#recounts++;
    this.#haveCounted(0, this.#place.after);
    this.#count();
  }

  #haveCounted(unsent: number, to: string | null): void {
    this.#unsent = unsent;
    this.#countedTo = to;
  }

  #count(): void {
    this.#counting ??= this.#countOn()
      .catch((error: unknown) => {
        if (!this.#ending.signal.aborted) this.#options.log.warn({ err: error }, 'the hashes that wait could not be counted');
      })
      .finally(() => {
        this.#counting = undefined;
      });
  }

  /** Counts on from where it was counted to. */
  async #countOn(): Promise<void> {
    while (!this.#ending.signal.aborted) {
      const from = this.#countedTo;
      const page = await this.#options.store.records({ limit: COUNTED, ...(from === null ? {} : { after: from }) });
      // Somebody else has counted on meanwhile, or anew.
      if (this.#countedTo !== from) continue;
      this.#haveCounted(this.#unsent + page.length, page.at(-1)?.position ?? from);
      if (page.length < COUNTED) return;
    }
  }

  async #countFrom(from: string | null, until?: number): Promise<number> {
    const { store } = this.#options;
    const { signal } = this.#ending;
    let count = 0;
    for (let after = from; !signal.aborted; ) {
      const page = await store.records({
        limit: COUNTED,
        ...(after === null ? {} : { after }),
        ...(until === undefined ? {} : { until }),
      });
      count += page.length;
      after = page.at(-1)?.position ?? after;
      if (page.length < COUNTED) break;
    }
    return count;
  }
}

/** As long as the control plane has asked for; else longer with each failure. */
function waitAfter(error: unknown, failures: number): number {
  const asked = error instanceof ProtocolError ? error.retryAfterMs : undefined;
  if (asked !== undefined) return Math.min(Math.max(asked, GATHER_MS), LONGEST_PATIENCE_MS);
  return Math.min(retryDelay(failures - 1), LONGEST_WAIT_MS);
}
