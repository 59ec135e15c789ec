import { permits, type RecordedDecision } from '../../base/model/reason-codes.ts';
import { hoursPrefix, minuteName, USAGE_HOUR } from '../../storage/contract/counter-spaces.ts';
import type { CounterRow, Store } from '../../storage/contract/store.ts';
import { counterRows } from '../../storage/contract/store-pages.ts';
import { HOUR_MS } from '../reports/usage-sums.ts';

const MINUTE_MS = 60_000;
/** The finest that requests are counted by. */
const STEP_MS = 5 * MINUTE_MS;
const STEPS = Array.from({ length: HOUR_MS / STEP_MS }, (_, at) => ({
  offset: at * STEP_MS,
  name: minuteName((at * STEP_MS) / MINUTE_MS),
}));

/** How long a window is and of what its buckets are, milliseconds (decision 8.10). */
export const WINDOWS = {
  '1h': { lengthMs: HOUR_MS, bucketMs: 5 * MINUTE_MS, bucket: '5m' },
  '6h': { lengthMs: 6 * HOUR_MS, bucketMs: 30 * MINUTE_MS, bucket: '30m' },
  '24h': { lengthMs: 24 * HOUR_MS, bucketMs: HOUR_MS, bucket: '1h' },
} as const;
export type Window = keyof typeof WINDOWS;

/** Requests that ended in one stretch of time. */
export interface RequestBucket {
  /** Its beginning, milliseconds since the epoch. */
  readonly at: number;
  readonly allowed: bigint;
  readonly denied: bigint;
}

/**
 * How many requests of an org were allowed and denied, bucket by bucket, those without any included; the last is the
 * one that goes on. What counts as which is as on the dashboard (decision 8.13).
 */
export async function requestBuckets(
  store: Pick<Store, 'counters'>,
  orgId: string,
  window: Window,
  now: number,
): Promise<readonly RequestBucket[]> {
  const { lengthMs, bucketMs } = WINDOWS[window];
  const end = Math.floor(now / bucketMs) * bucketMs + bucketMs;
  const from = end - lengthMs;
  const allowed = new Array<bigint>(lengthMs / bucketMs).fill(0n);
  const denied = [...allowed];
  for (let hour = Math.floor(from / HOUR_MS) * HOUR_MS; hour < end; hour += HOUR_MS) {
    for await (const { key, amounts } of counterRows(store, USAGE_HOUR, `${hoursPrefix(orgId, isoHour(hour))}|`)) {
      const decision = key.slice(key.lastIndexOf('|') + 1) as RecordedDecision;
      if (decision === 'deny') add(denied, hour, amounts);
      else if (decision !== 'error' && permits(decision)) add(allowed, hour, amounts);
    }
  }
  function add(counts: bigint[], hour: number, amounts: CounterRow['amounts']): void {
    for (const { offset, name } of STEPS) {
      const at = Math.floor((hour + offset - from) / bucketMs);
      if (at >= 0 && at < counts.length) counts[at] = (counts[at] ?? 0n) + (amounts[name] ?? 0n);
    }
  }
  return allowed.map((count, at) => ({ at: from + at * bucketMs, allowed: count, denied: denied[at] ?? 0n }));
}

function isoHour(epochMs: number): string {
  return new Date(epochMs).toISOString().slice(0, 13);
}
