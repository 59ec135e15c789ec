import { canonicalJson } from '../../base/json/jcs.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import type { AuditChange } from '../../base/model/audit-entry.ts';
import { shownValue } from './audit-values.ts';

/** How deep members are told by name; what is below is one value. */
const DEPTH = 3;

/** A value as an entry tells of it. */
interface Told {
  readonly hash: string;
  /** Undefined: it may be a secret. */
  readonly shown: string | undefined;
}

/** Two states of a thing, or of one member of it; undefined: there is none. */
export interface TwoStates {
  readonly before: unknown;
  readonly after: unknown;
}

/**
 * The members in which two states of a thing differ, in the order of their names; undefined: there is none.
 * @param shown the states as their values are shown, with the same members; default: themselves
 */
export function changesOf(entity: string, before: unknown, after: unknown, shown: TwoStates = { before, after }): readonly AuditChange[] {
  const old = toldOf(entity, before, shown.before);
  const now = toldOf(entity, after, shown.after);
  return [...new Set([...old.keys(), ...now.keys()])]
    .sort()
    .filter((member) => old.get(member)?.hash !== now.get(member)?.hash)
    .map((member) => changeOf(entity, member, old.get(member), now.get(member)));
}

/** One member as it was and as it is, also where that is the same. @param shown as of {@link changesOf} */
export function memberChange(
  entity: string,
  member: string,
  { before, after }: TwoStates,
  shown: TwoStates = { before, after },
): AuditChange {
  const told = (value: unknown, as: unknown) => (value === undefined ? undefined : toldValue(entity, member, value, as));
  return changeOf(entity, member, told(before, shown.before), told(after, shown.after));
}

function changeOf(entity: string, member: string, was: Told | undefined, is: Told | undefined): AuditChange {
  return {
    entity,
    member,
    before: was?.hash ?? null,
    after: is?.hash ?? null,
    ...(was?.shown === undefined ? {} : { before_value: was.shown }),
    ...(is?.shown === undefined ? {} : { after_value: is.shown }),
  };
}

function toldOf(entity: string, value: unknown, shown: unknown): ReadonlyMap<string, Told> {
  const values = new Map<string, unknown>();
  if (shown !== value) collect(shown, '', DEPTH, (member, one) => values.set(member, one));
  const found = new Map<string, Told>();
  collect(value, '', DEPTH, (member, one) =>
    found.set(member, toldValue(entity, member, one, values.has(member) ? values.get(member) : one)),
  );
  return found;
}

function toldValue(entity: string, member: string, value: unknown, shown: unknown): Told {
  return { hash: sha256Hex(canonicalJson(value)), shown: shownValue(entity, member, shown) };
}

function collect(value: unknown, path: string, depth: number, found: (member: string, value: unknown) => void): void {
  if (value === undefined) return;
  if (depth === 0 || typeof value !== 'object' || value === null || Array.isArray(value) || isEmpty(value)) {
    found(path === '' ? 'value' : path, value);
    return;
  }
  for (const [name, member] of Object.entries(value)) collect(member, path === '' ? name : `${path}.${name}`, depth - 1, found);
}

function isEmpty(value: object): boolean {
  for (const _ in value) return false;
  return true;
}
