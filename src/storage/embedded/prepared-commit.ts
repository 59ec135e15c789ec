import { type CheckedAmounts, checkedAmounts, checkRecord, entityText, isKey, membersOf, notAllowed } from '../contract/commit-rules.ts';
import type { RecordMembers } from '../contract/record-query.ts';
import type { Effect, RecordCommit } from '../contract/store.ts';
import type { CounterCell, Counters } from './counters.ts';

/**
 * An effect whose key is joined (`space NUL key`) and whose value is text: what the journal holds and what is applied.
 */
export type PreparedEffect = EntityEffect | { readonly op: 'add'; readonly key: string; readonly amounts: CheckedAmounts };

/** A change of an entity. */
export type EntityEffect =
  | { readonly op: 'put'; readonly key: string; readonly value: string }
  | { readonly op: 'delete'; readonly key: string };

/** A commit that was checked and turned to text; nothing about it can fail any more but the write. */
export interface PreparedCommit {
  /** Empty when the commit has no record. */
  readonly recordId: string;
  readonly recordHash: string;
  readonly text: string;
  /** What queries ask of the record. */
  readonly members: RecordMembers;
  readonly committedAt: number;
  readonly effects: readonly PreparedEffect[];
  readonly effectsText: string;
  /** The counters of the `add` effects in their order, held in memory until the commit is through. */
  readonly cells: readonly CounterCell[];
}

const NO_CELLS: readonly CounterCell[] = [];
const NO_EFFECTS: readonly PreparedEffect[] = [];
const NO_MEMBERS: RecordMembers = {};
const SEPARATOR = '\0';

/**
 * Checks a commit against the contract. Throws a TypeError that says what is wrong, or what reading a counter throws;
 * then nothing is held.
 */
export function prepareCommit(
  record: RecordCommit | undefined,
  effects: readonly Effect[],
  now: number,
  counters: Pick<Counters, 'pin' | 'unpin'>,
): PreparedCommit {
  if (record) checkRecord(record);
  const prepared = effects.length === 0 ? NO_EFFECTS : prepareEffects(effects);
  return {
    recordId: record?.record_id ?? '',
    recordHash: record?.record_hash ?? '',
    text: record?.text ?? '',
    members: record ? (record.members ?? membersOf(record.text)) : NO_MEMBERS,
    committedAt: record?.committed_at ?? now,
    effects: prepared,
    effectsText: prepared.length === 0 ? '' : encodeEffects(prepared),
    cells: pinCells(prepared, counters),
  };
}

/** Holds the counter of every `add`, in order. Holds none when one of them cannot be read. */
export function pinCells(effects: readonly PreparedEffect[], counters: Pick<Counters, 'pin' | 'unpin'>): readonly CounterCell[] {
  let cells: CounterCell[] | undefined;
  try {
    for (const effect of effects) {
      if (effect.op !== 'add') continue;
      cells ??= [];
      cells.push(counters.pin(effect.key));
    }
  } catch (error) {
    for (const cell of cells ?? []) counters.unpin(cell);
    throw error;
  }
  return cells ?? NO_CELLS;
}

/**
 * Joined keys of counters, by space and key: nearly every commit adds to those that the one before added to. Emptied
 * when full.
 */
const joinedBefore = new Map<string, Map<string, string>>();
const MAX_JOINED = 4_096;
const MAX_KEPT_LENGTH = 512;

function counterKey(space: string, key: string): string {
  const before = joinedBefore.get(space)?.get(key);
  if (before !== undefined) return before;
  const joined = joinKey(space, key);
  if (joined.length > MAX_KEPT_LENGTH) return joined;
  const ofSpace = joinedBefore.get(space) ?? new Map<string, string>();
  if (ofSpace.size >= MAX_JOINED) ofSpace.clear();
  ofSpace.set(key, joined);
  joinedBefore.set(space, ofSpace);
  return joined;
}

/** Entities and counters are kept under `space NUL key`. Throws a TypeError for what the contract does not allow. */
export function joinKey(space: string, key: string): string {
  const joined = joinedToRead(space, key);
  if (joined === undefined) throw notAllowed();
  return joined;
}

/**
 * The same for a reader; undefined: the contract does not allow such a key, so that nothing is kept under it. Throws a
 * TypeError for such a space.
 */
export function joinedToRead(space: string, key: string): string | undefined {
  if (!isKey(key)) return undefined;
  if (!isKey(space)) throw notAllowed();
  return space + SEPARATOR + key;
}

/** NUL-separated fields: neither keys nor JSON text nor integers hold a NUL. */
export function encodeEffects(effects: readonly PreparedEffect[]): string {
  let text = '';
  let amounts: CheckedAmounts | undefined;
  let amountsText = '';
  for (const effect of effects) {
    if (text !== '') text += SEPARATOR;
    if (effect.op === 'put') text += `p\0${effect.key}\0${effect.value}`;
    else if (effect.op === 'delete') text += `d\0${effect.key}`;
    else {
      if (effect.amounts !== amounts) amountsText = encodeAmounts(effect.amounts);
      amounts = effect.amounts;
      text += `a\0${effect.key}\0${amountsText}`;
    }
  }
  return text;
}

function encodeAmounts(amounts: CheckedAmounts): string {
  let text = `${amounts.length}`;
  for (const [name, amount] of amounts) text += `\0${name}\0${amount}`;
  return text;
}

/**
 * The inverse of {@link encodeEffects}. Throws when the text was not written by it: its frame's checksum has then
 * vouched for foreign bytes.
 */
export function decodeEffects(text: string): PreparedEffect[] {
  const effects: PreparedEffect[] = [];
  if (text === '') return effects;
  const fields = text.split(SEPARATOR);
  let at = 0;
  const next = (): string => {
    const field = fields[at++];
    if (field === undefined) throw new Error('The effects of a commit end too early');
    return field;
  };
  while (at < fields.length) {
    const op = next();
    const key = next() + SEPARATOR + next();
    if (op === 'p') effects.push({ op: 'put', key, value: next() });
    else if (op === 'd') effects.push({ op: 'delete', key });
    else if (op === 'a') {
      const amounts: (readonly [string, bigint])[] = [];
      for (let left = Number(next()); left > 0; left -= 1) amounts.push([next(), BigInt(next())]);
      effects.push({ op: 'add', key, amounts });
    } else throw new Error(`The effects of a commit name an unknown operation ${JSON.stringify(op)}`);
  }
  return effects;
}

/** One record adds the same amounts to several counters: what is the same object is checked and written out once. */
function prepareEffects(effects: readonly Effect[]): readonly PreparedEffect[] {
  const prepared: PreparedEffect[] = [];
  let given: unknown;
  let amounts: CheckedAmounts = [];
  for (const effect of effects) {
    if (effect.op === 'add') {
      if (effect.amounts !== given) amounts = checkedAmounts(effect.amounts);
      given = effect.amounts;
      prepared.push({ op: 'add', key: counterKey(effect.space, effect.key), amounts });
    } else {
      const key = joinKey(effect.space, effect.key);
      prepared.push(effect.op === 'delete' ? { op: 'delete', key } : { op: 'put', key, value: entityText(effect.value) });
    }
  }
  return prepared;
}
