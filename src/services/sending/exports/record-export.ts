import type { Clock } from '../../../base/lib/clock.ts';
import { retryDelay } from '../../../base/lib/clock.ts';
import { every, type RunningJob } from '../../../base/lib/every.ts';
import type { Logger } from '../../../base/lib/log.ts';
import type { ExportedEvent } from '../../../outbound/destinations/event-envelope.ts';
import type { Effect, Store } from '../../../storage/contract/store.ts';
import { exportedRecord } from './exported-events.ts';

/** How far each destination is with the records of each node. */
const CURSORS = 'export_cursor';
const BATCH = 100;
/** Records that are counted at once. */
const COUNTED = 500;
/** Records that come in that time go out together, so that the store is not asked for each. */
const GATHER_MS = 200;

interface Cursor {
  /** Records that were committed earlier are not for it, milliseconds since the epoch. */
  readonly since: number;
  /** The position of the last one; null: none yet. */
  readonly after: string | null;
}

export interface RecordExportOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  readonly nodeId: string;
  readonly destinationId: string;
  /** Undefined: records of every org. */
  readonly orgId: string | undefined;
  /** Where the destination has no cursor yet, milliseconds since the epoch. */
  readonly since: number;
  /** It begins anew, whatever cursor it has: it was not sent to before. */
  readonly anew: boolean;
  /** @returns what belongs into the commit that moves the cursor @throws while the gateway stops */
  readonly send: (events: readonly ExportedEvent[], signal: AbortSignal) => Promise<readonly Effect[]>;
}

/** What keeps the place of a destination, for when it is removed. */
export function recordCursorRemoval(destinationId: string, nodeId: string): Effect {
  return { op: 'delete', space: CURSORS, key: cursorKey(destinationId, nodeId) };
}

export async function hasRecordCursor(store: Pick<Store, 'get'>, destinationId: string, nodeId: string): Promise<boolean> {
  return (await store.get(CURSORS, cursorKey(destinationId, nodeId))) !== undefined;
}

/** Since when events are for a destination: from now on, when it is new. @param now milliseconds since the epoch */
export async function recordsSince(
  store: Pick<Store, 'get' | 'commit'>,
  destinationId: string,
  nodeId: string,
  now: number,
): Promise<number> {
  return (await cursorOf(store, cursorKey(destinationId, nodeId), now)).since;
}

/** One that is new is kept at once, so that what is recorded before its first batch is for it whenever that comes. */
async function cursorOf(store: Pick<Store, 'get' | 'commit'>, key: string, since: number, anew = false): Promise<Cursor> {
  const stored = anew ? undefined : ((await store.get(CURSORS, key)) as Cursor | undefined);
  if (stored !== undefined) return stored;
  const made: Cursor = { since, after: null };
  await store.commit(undefined, [{ op: 'put', space: CURSORS, key, value: made }]);
  return made;
}

/**
 * Brings one destination the records of this node, in commit order, from the store itself: no second copy is written, a
 * kill loses none, and no call waits for it. The cursor moves in a commit after a batch, so that the last batch alone
 * may come twice.
 */
export class RecordExport {
  readonly #options: RecordExportOptions;
  readonly #ending = new AbortController();
  #cursor: Cursor | undefined;
  readonly #job: RunningJob;
  /** There may be records. */
  #again = true;
  /** Milliseconds to the next look, where there may be records. */
  #waitMs = GATHER_MS;
  #failures = 0;
  #oldest: number | undefined;

  constructor(options: RecordExportOptions) {
    this.#options = options;
    this.#job = every(options, {
      everyMs: () => (this.#again ? this.#waitMs : undefined),
      run: () => this.#sendOrRetry(),
      failed: 'records could not be exported',
    });
  }

  /** There may be records. */
  wake(): void {
    if (this.#again) return;
    this.#again = true;
    this.#job.rearm();
  }

  /**
   * Of the records that are known to be unsent, when the first was completed, milliseconds since the epoch; undefined
   * when there is none.
   */
  get oldest(): number | undefined {
    return this.#oldest;
  }

  /** How many records that were committed before are unsent. */
  async unsentBefore(epochMs: number): Promise<number> {
    let count = 0;
    for (let after = this.#cursor?.after ?? null; ; ) {
      const page = await this.#page(after, COUNTED, epochMs);
      count += page.length;
      after = page.at(-1)?.position ?? null;
      if (page.length < COUNTED) return count;
    }
  }

  async close(): Promise<void> {
    this.#ending.abort();
    await this.#job.stop();
  }

  /** Sends what there is. Never rejects: after a failure it is tried again, later each time. */
  async #sendOrRetry(): Promise<void> {
    const { log, destinationId: destination } = this.#options;
    try {
      await this.#run();
      this.#waitMs = GATHER_MS;
    } catch (error) {
      if (!this.#ending.signal.aborted) log.warn({ err: error, destination }, 'records could not be exported; it is tried again');
      this.#again = true;
      this.#waitMs = retryDelay(this.#failures++);
    }
  }

  async #run(): Promise<void> {
    const { store, nodeId, destinationId, since: from, anew, send } = this.#options;
    const { signal } = this.#ending;
    const key = cursorKey(destinationId, nodeId);
    this.#cursor ??= await cursorOf(store, key, from, anew);
    do {
      this.#again = false;
      for (;;) {
        const { since, after }: Cursor = this.#cursor;
        const page = await this.#page(after, BATCH);
        const last = page.at(-1);
        const events = page.map(({ text }) => exportedRecord(text));
        this.#oldest = events[0] === undefined ? undefined : Date.parse(events[0].envelope.event_time);
        if (last === undefined || signal.aborted) break;
        const effects = await send(events, signal);
        const next: Cursor = { since, after: last.position };
        await store.commit(undefined, [...effects, { op: 'put', space: CURSORS, key, value: next }]);
        this.#cursor = next;
        this.#failures = 0;
      }
    } while (this.#again && !signal.aborted);
  }

  /** The next records for the destination. */
  #page(after: string | null, limit: number, until?: number): ReturnType<Store['records']> {
    const { store, nodeId, orgId, since } = this.#options;
    return store.records({
      limit,
      since: this.#cursor?.since ?? since,
      node_id: nodeId,
      ...(until === undefined ? {} : { until }),
      ...(orgId === undefined ? {} : { org_id: orgId }),
      ...(after === null ? {} : { after }),
    });
  }
}

function cursorKey(destinationId: string, nodeId: string): string {
  return `${destinationId}|${encodeURIComponent(nodeId)}`;
}
