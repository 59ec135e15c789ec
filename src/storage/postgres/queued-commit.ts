import { type CheckedAmounts, checkedAmounts, checkKey, checkRecord, entityText } from '../contract/commit-rules.ts';
import { versionOf } from '../contract/entity-version.ts';
import type { Effect, Expectation, RecordCommit } from '../contract/store.ts';
import { type StoredKey, storedKey } from './long-keys.ts';
import { type RecordRow, recordRow } from './record-row.ts';

/** An entity by `space NUL stored key`, what becomes of it, and the version that it then has. */
export interface EntityChange extends StoredKey {
  readonly id: string;
  readonly space: string;
  /** Undefined: it is deleted. */
  readonly text: string | undefined;
  readonly version: string | undefined;
}

/** What is added to a counter. */
export interface CounterChange extends StoredKey {
  readonly id: string;
  readonly space: string;
  readonly amounts: CheckedAmounts;
}

export interface EntityWanted extends Expectation {
  readonly id: string;
}

/** A commit that was checked, and copied to text. */
export interface QueuedCommit {
  readonly record: RecordRow | undefined;
  /** In their order. */
  readonly entities: readonly EntityChange[];
  readonly counters: readonly CounterChange[];
  readonly expect: readonly EntityWanted[];
  /** About as much as it sends. */
  readonly bytes: number;
}

/** With a key and the name of an amount as much as an entry of an index holds. */
const MAX_SPACE_BYTES = 500;
const MAX_NAME_BYTES = 500;
/** One commit; a server takes a message of a gigabyte. */
const MAX_COMMIT_BYTES = 64 * 1024 * 1024;
/** Of what is no text. */
const BYTES_PER_PART = 100;

/**
 * Checks a commit against the contract.
 * @throws TypeError that says what is wrong; RangeError for a space, a name or a commit that is longer than a database
 * takes
 */
export function queuedCommit(
  record: RecordCommit | undefined,
  effects: readonly Effect[],
  expect: readonly Expectation[] = [],
): QueuedCommit {
  if (record) checkRecord(record);
  const entities: EntityChange[] = [];
  const counters: CounterChange[] = [];
  let bytes = record?.text.length ?? 0;
  for (const effect of effects) {
    const { space } = effect;
    const at = placeOf(space, effect.key);
    bytes += at.id.length + (at.long?.length ?? 0) + BYTES_PER_PART;
    if (effect.op === 'add') {
      const amounts = checkedAmounts(effect.amounts);
      if (amounts.some(([name]) => name.length > MAX_NAME_BYTES))
        throw new RangeError(`The name of an amount is at most ${MAX_NAME_BYTES} bytes`);
      bytes += amounts.length * BYTES_PER_PART;
      counters.push({ ...at, space, amounts });
    } else if (effect.op === 'delete') entities.push({ ...at, space, text: undefined, version: undefined });
    else {
      const text = entityText(effect.value);
      bytes += text.length;
      entities.push({ ...at, space, text, version: versionOf(text) });
    }
  }
  if (bytes > MAX_COMMIT_BYTES) throw new RangeError('A commit is at most 64 MiB');
  const wanted = expect.map((one) => ({ ...one, ...placeOf(one.space, one.key) }));
  return { record: record && recordRow(record), entities, counters, expect: wanted, bytes };
}

/** @throws TypeError for what is no space or key; RangeError */
function placeOf(space: string, key: string): StoredKey & { readonly id: string } {
  checkKey(space, key);
  if (space.length > MAX_SPACE_BYTES) throw new RangeError(`The name of a space is at most ${MAX_SPACE_BYTES} bytes`);
  const stored = storedKey(key);
  return { ...stored, id: `${space}\0${stored.key}` };
}
