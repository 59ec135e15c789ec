import type { Destination, DurableEvent } from '../base/events/destination.ts';
import type { Clock } from '../base/lib/clock.ts';
import type { Logger } from '../base/lib/log.ts';

const BATCH = 100;
const FIRST_RETRY_MS = 1_000;
const LAST_RETRY_MS = 5 * 60_000;

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

/** Brings one destination what waits for it, batch after batch, and waits longer after each failure in a row, up to five minutes. */
export function startCourier({ clock, log, destination, take, taken }: Errand): Courier {
  let closed = false;
  let awake = false;
  let again = false;
  let failures = 0;
  let cancelRetry: (() => void) | undefined;
  let running: Promise<void> = Promise.resolve();

  const run = async (): Promise<void> => {
    do {
      again = false;
      for (let batch = await take(BATCH); batch.length > 0 && !closed; batch = await take(BATCH)) {
        await destination.deliver(batch);
        await taken(batch.at(-1)?.id ?? '');
        failures = 0;
      }
    } while (again && !closed);
  };
  const retryLater = (error: unknown): void => {
    if (closed) return;
    const ms = Math.min(FIRST_RETRY_MS * 2 ** failures, LAST_RETRY_MS);
    failures += 1;
    log.warn({ err: error, destination: destination.id, retry_ms: ms }, 'events could not be delivered; it is tried again');
    cancelRetry = clock.after(ms, () => {
      cancelRetry = undefined;
      wake();
    });
  };
  function wake(): void {
    again = true;
    if (awake || closed || cancelRetry) return;
    awake = true;
    running = run()
      .catch(retryLater)
      .finally(() => {
        awake = false;
        // Woken between the last look and here.
        if (again) wake();
      });
  }
  wake();
  return {
    wake,
    close: async () => {
      closed = true;
      cancelRetry?.();
      await running;
    },
  };
}
