import type { Clock } from '../../base/lib/clock.ts';
import { Unusable } from '../command.ts';
import { heldPause } from '../process-io.ts';

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
  /** What it throws ends the following. */
  readonly tell: (record: CallRecord) => unknown;
  /** Said once each time that the gateway cannot be asked, and once when it can again. */
  readonly onGap: (problem: string | undefined) => void;
}

/**
 * A question reaches this far behind the one before: nobody's clock is exact, and what was told of already is not told
 * again.
 */
const OVERLAP_MS = 600_000;

/**
 * Tells of each record once, in the order in which they were stored, until it is stopped. What is stored while the
 * gateway cannot be asked comes when it can be asked again.
 * @param records of an order that is that of storing, so that whatever is not known stands before what is
 * @throws what `records` throws, but for Unusable once it has answered
 */
export async function followCalls(records: NewestFirst, options: FollowOptions): Promise<void> {
  const seen: Seen = { last: undefined, asked: undefined, gap: false };
  while (!options.signal.aborted) {
    await look(records, seen, options);
    if (options.once === true) return;
    await heldPause(options.everyMs, options.signal, options.clock);
  }
}

/** How far somebody has come. */
interface Seen {
  /** Id of the record that was told of last. */
  last: unknown;
  /** When the gateway was asked last and answered. Milliseconds since the epoch. */
  asked: number | undefined;
  gap: boolean;
}

async function look(records: NewestFirst, seen: Seen, { clock, since, first, tell, onGap }: FollowOptions): Promise<void> {
  const { asked } = seen;
  const now = clock.now();
  const [from, most] = asked === undefined ? [since, first] : [Math.max(since, asked - OVERLAP_MS), Number.POSITIVE_INFINITY];
  let fresh: readonly CallRecord[];
  try {
    fresh = (await unknown(records(from), seen.last, most)).reverse();
  } catch (error) {
    if (!(error instanceof Unusable) || asked === undefined) throw error;
    if (!seen.gap) onGap(error.message);
    seen.gap = true;
    return;
  }
  if (seen.gap) onGap(undefined);
  for (const record of fresh) await tell(record);
  Object.assign(seen, { last: fresh.at(-1)?.['record_id'] ?? seen.last, asked: now, gap: false });
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
