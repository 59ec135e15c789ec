import type { Destination, DurableEvent } from '../../base/events/destination.ts';
import type { Clock } from '../../base/lib/clock.ts';
import { retryDelay } from '../../base/lib/clock.ts';
import { every } from '../../base/lib/every.ts';
import type { Logger } from '../../base/lib/log.ts';

const BATCH = 100;
/** Retry-After is honoured up to one hour. */
const LONGEST_WAIT_MS = 3_600_000;

interface Errand {
  readonly clock: Clock;
  readonly log: Logger;
  readonly destination: Destination;
  /** The next events, oldest first. */
  take(limit: number): Promise<readonly DurableEvent[]>;
  /** Notes that everything up to this event was taken. */
  taken(last: string): Promise<void>;
}

export interface Courier {
  /** There may be something to deliver. */
  wake(): void;
  /** Resolves when nothing is under way; no batch is begun afterwards. */
  close(): Promise<void>;
}

/**
 * Brings one destination what waits for it, batch after batch, and waits longer after each failure in a row, up to five
 * minutes.
 */
export function startCourier({ clock, log, destination, take, taken }: Errand): Courier {
  const { batch: size = BATCH } = destination;
  const ending = new AbortController();
  let closed = false;
  let awake = false;
  let again = true;
  let failures = 0;
  /** After a failure, milliseconds to the next try, which nobody who wakes it brings forward. */
  let retryMs: number | undefined;

  const deliver = async (): Promise<void> => {
    do {
      again = false;
      for (let batch = await take(size); batch.length > 0 && !closed; batch = await take(size)) {
        await destination.deliver(batch, ending.signal);
        await taken(batch.at(-1)?.id ?? '');
        failures = 0;
      }
    } while (again && !closed);
  };
  const run = async (): Promise<void> => {
    awake = true;
    retryMs = undefined;
    try {
      await deliver();
    } catch (error) {
      if (closed) return;
      retryMs = Math.max(retryDelay(failures), waitOf(error));
      failures += 1;
      log.warn({ err: error, destination: destination.id, retry_ms: retryMs }, 'events could not be delivered; it is tried again');
    } finally {
      awake = false;
    }
  };
  const job = every({ clock, log }, { everyMs: () => retryMs, run, failed: 'events could not be delivered' });
  void job.now();
  return {
    wake: () => {
      again = true;
      if (!awake && retryMs === undefined) void job.now();
    },
    close: () => {
      closed = true;
      ending.abort();
      return job.stop();
    },
  };
}

/** How long a destination wants to be left alone, milliseconds. */
function waitOf(error: unknown): number {
  const ms = typeof error === 'object' && error !== null && 'retryAfterMs' in error ? error.retryAfterMs : 0;
  return typeof ms === 'number' && ms > 0 ? Math.min(ms, LONGEST_WAIT_MS) : 0;
}
