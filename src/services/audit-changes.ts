import { canonicalJson } from '../base/json/jcs.ts';
import { sha256Hex } from '../base/lib/sha256.ts';
import type { AuditChange } from '../base/model/audit-entry.ts';

/** How deep members are told by name; what is below is one value. */
const DEPTH = 3;

/** The members in which two states of a thing differ, in the order of their names; undefined: there is none. */
export function changesOf(entity: string, before: unknown, after: unknown): readonly AuditChange[] {
  const old = hashesOf(before);
  const now = hashesOf(after);
  return [...new Set([...old.keys(), ...now.keys()])]
    .sort()
    .filter((member) => old.get(member) !== now.get(member))
    .map((member) => ({ entity, member, before: old.get(member) ?? null, after: now.get(member) ?? null }));
}

function hashesOf(value: unknown): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  collect(value, '', DEPTH, found);
  return found;
}

function collect(value: unknown, path: string, depth: number, found: Map<string, string>): void {
  if (value === undefined) return;
  if (depth === 0 || typeof value !== 'object' || value === null || Array.isArray(value) || isEmpty(value)) {
    found.set(path === '' ? 'value' : path, sha256Hex(canonicalJson(value)));
    return;
  }
  for (const [name, member] of Object.entries(value)) collect(member, path === '' ? name : `${path}.${name}`, depth - 1, found);
}

function isEmpty(value: object): boolean {
  for (const _ in value) return false;
  return true;
}
