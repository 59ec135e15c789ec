import type { Clock } from '../../base/lib/clock.ts';
import { Unusable } from '../command.ts';

export type CallRecord = Readonly<Record<string, unknown>>;

/** Records of a running gateway, the newest first, page by page, from a time on. */
export type NewestFirst = (from: number) => AsyncIterable<readonly CallRecord[]>;

export interface FollowOptions {
  readonly clock: Clock;
  /** Milliseconds between two questions. */
  readonly everyMs: number;
  /** Records that are told of which are there already, at most. */
  readonly first: number;
  /** From when on these may be. Milliseconds since the epoch. */
  readonly since: number;
  /** What is there is told, and nothing is waited for. */
  readonly once?: boolean;
  /** Ends the following. */
  readonly signal: AbortSignal;
  readonly tell: (record: CallRecord) => void;
  /** Said once each time that the gateway cannot be asked, and once when it can again. */
  readonly onGap: (problem: string | undefined) => void;
}

/** A question reaches this far behind the one before: nobody's clock is exact, and what was told of already is not told again. */
const OVERLAP_MS = 600_000;

/**
 * Tells of each record once, in the order in which they were stored, until it is stopped. What is stored while the gateway cannot be asked comes when it can be asked again.
 * @param records of an order that is that of storing, so that whatever is not known stands before what is
 * @throws what `records` throws, but for Unusable once it has answered
 */
export async function followCalls(records: NewestFirst, options: FollowOptions): Promise<void> {
  const { clock, signal, tell, onGap } = options;
  let last: unknown;
  let asked: number | undefined;
  let gap = false;
  while (!signal.aborted) {
    const now = clock.now();
    try {
      const from = asked === undefined ? options.since : Math.max(options.since, asked - OVERLAP_MS);
      const fresh = await unknown(records(from), last, asked === undefined ? options.first : Number.POSITIVE_INFINITY);
      if (gap) onGap(undefined);
      gap = false;
      for (const record of fresh.reverse()) tell(record);
      last = fresh.at(-1)?.['record_id'] ?? last;
      asked = now;
    } catch (error) {
      if (!(error instanceof Unusable) || asked === undefined) throw error;
      if (!gap) onGap(error.message);
      gap = true;
    }
    if (options.once === true) return;
    await pause(options);
  }
}

/** What stands before `last`, the newest first. */
async function unknown(pages: AsyncIterable<readonly CallRecord[]>, last: unknown, most: number): Promise<CallRecord[]> {
  const found: CallRecord[] = [];
  for await (const page of pages) {
    for (const record of page) {
      if (record['record_id'] === last || found.length >= most) return found;
      found.push(record);
    }
    if (found.length >= most) return found;
  }
  return found;
}

function pause({ clock, everyMs, signal }: FollowOptions): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const done = () => {
      cancel();
      signal.removeEventListener('abort', done);
      resolve();
    };
    const cancel = clock.after(everyMs, done);
    signal.addEventListener('abort', done);
  });
}
