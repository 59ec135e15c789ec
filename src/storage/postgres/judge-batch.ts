import type { GatewayError } from '../../base/lib/gateway-error.ts';
import { notAsExpected, recordExists } from '../contract/commit-rules.ts';
import type { CounterChange, EntityChange, QueuedCommit } from './queued-commit.ts';
import type { RecordRow } from './record-row.ts';

/** What is stored, as far as a batch asks for it. */
export interface KnownState {
  /** Of entities by `space NUL key`; those that are not there are not in it. */
  readonly versions: ReadonlyMap<string, string>;
  /** Ids of the batch's records that are taken. */
  readonly takenIds: ReadonlySet<string>;
}

/** The totals that a batch adds to one counter. */
export interface CounterSum {
  readonly change: CounterChange;
  readonly amounts: Map<string, bigint>;
}

/** What a batch does, one row for everything that it touches, and what becomes of each of its commits. */
export interface JudgedBatch {
  /** By commit: undefined when it takes place. */
  readonly conflicts: readonly (GatewayError | undefined)[];
  readonly records: readonly RecordRow[];
  /** The last change of each entity, by `space NUL key`. */
  readonly entities: ReadonlyMap<string, EntityChange>;
  /** By `space NUL key`. */
  readonly counters: ReadonlyMap<string, CounterSum>;
  /** Every change of an entity, in order. */
  readonly told: readonly EntityChange[];
}

/**
 * Goes through a batch as if its commits took place one after the other: each sees what those before it have done. One
 * that is in conflict leaves nothing behind.
 */
export function judgeBatch(batch: readonly QueuedCommit[], { versions, takenIds }: KnownState): JudgedBatch {
  const conflicts: (GatewayError | undefined)[] = [];
  const records: RecordRow[] = [];
  const ids = new Set(takenIds);
  const entities = new Map<string, EntityChange>();
  const counters = new Map<string, CounterSum>();
  const told: EntityChange[] = [];
  const versionNow = (id: string): string | undefined => {
    const change = entities.get(id);
    return change === undefined ? versions.get(id) : change.version;
  };
  for (const { record, expect, entities: changes, counters: additions } of batch) {
    const conflict =
      record && ids.has(record.id)
        ? recordExists()
        : expect.some(({ id, version }) => versionNow(id) !== version)
          ? notAsExpected()
          : undefined;
    conflicts.push(conflict);
    if (conflict) continue;
    if (record) {
      ids.add(record.id);
      records.push(record);
    }
    for (const change of changes) {
      entities.set(change.id, change);
      told.push(change);
    }
    for (const change of additions) addTo(counters, change);
  }
  return { conflicts, records, entities, counters, told };
}

function addTo(counters: Map<string, CounterSum>, change: CounterChange): void {
  let sum = counters.get(change.id);
  if (sum === undefined) {
    sum = { change, amounts: new Map() };
    counters.set(change.id, sum);
  }
  for (const [name, amount] of change.amounts) sum.amounts.set(name, (sum.amounts.get(name) ?? 0n) + amount);
}

/** Nothing of a batch takes place. */
export function isAllConflict({ conflicts }: JudgedBatch): boolean {
  return conflicts.every((conflict) => conflict !== undefined);
}
