import { canonicalJson } from '../base/json/jcs.ts';
import { sha256Hex } from '../base/lib/sha256.ts';
import type { AuditChange } from '../base/model/audit-entry.ts';
import { shownValue } from './audit-values.ts';

/** How deep members are told by name; what is below is one value. */
const DEPTH = 3;

/** A value as an entry tells of it. */
interface Told {
  readonly hash: string;
  /** Undefined: it may be a secret. */
  readonly shown: string | undefined;
}

/** The members in which two states of a thing differ, in the order of their names; undefined: there is none. */
export function changesOf(entity: string, before: unknown, after: unknown): readonly AuditChange[] {
  const old = toldOf(entity, before);
  const now = toldOf(entity, after);
  return [...new Set([...old.keys(), ...now.keys()])]
    .sort()
    .filter((member) => old.get(member)?.hash !== now.get(member)?.hash)
    .map((member) => {
      const [was, is] = [old.get(member), now.get(member)];
      return {
        entity,
        member,
        before: was?.hash ?? null,
        after: is?.hash ?? null,
        ...(was?.shown === undefined ? {} : { before_value: was.shown }),
        ...(is?.shown === undefined ? {} : { after_value: is.shown }),
      };
    });
}

function toldOf(entity: string, value: unknown): ReadonlyMap<string, Told> {
  const found = new Map<string, Told>();
  collect(value, '', DEPTH, (member, one) =>
    found.set(member, { hash: sha256Hex(canonicalJson(one)), shown: shownValue(entity, member, one) }),
  );
  return found;
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
