import type { CountPlace, HolderTest } from './call-places.ts';
import { type SpelledPath, spelledValue, writtenName } from './spelling.ts';

export const EACH = '*';

/** An object of a body. */
export type JsonMembers = Readonly<Record<string, unknown>>;

/** Whether a value of a body has members with names. */
export function isObject(value: unknown): value is JsonMembers {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

type Visit = (value: unknown, way: string) => void;

/**
 * Calls `visit` with every value at a path; a star stands for each element of a list and each member of a map.
 * @param way of the root; each value is then told with the way to it
 */
export function visitAt(root: unknown, path: SpelledPath, visit: Visit, way?: string, depth = 0): void {
  const spellings = path[depth];
  // No closure for each step: a conversation has many items, and most have nothing at the path.
  if (spellings === undefined) visit(root, way ?? '');
  else if (!Array.isArray(root)) visitMembers(root, path, visit, way, depth);
  else if (spellings[0] === EACH) {
    for (let at = 0; at < root.length; at++) visitAt(root[at], path, visit, below(way, at), depth + 1);
  }
}

function visitMembers(root: unknown, path: SpelledPath, visit: Visit, way: string | undefined, depth: number): void {
  if (!isObject(root)) return;
  const spellings = path[depth] ?? [];
  if (spellings[0] === EACH) {
    for (const name of Object.keys(root)) visitAt(root[name], path, visit, below(way, name), depth + 1);
    return;
  }
  // Of two spellings of one name none is let through.
  const name = writtenName(root, spellings);
  if (name !== undefined) visitAt(root[name], path, visit, below(way, name), depth + 1);
}

/** Whether a body has the member with which a path begins: for all others there is nothing to visit. */
export function hasRoot(body: JsonMembers, path: SpelledPath): boolean {
  const spellings = path[0];
  const first = spellings?.[0];
  if (spellings === undefined || first === undefined || first === EACH || Object.hasOwn(body, first)) return true;
  return spellings.length > 1 && writtenName(body, spellings) !== undefined;
}

function below(way: string | undefined, name: string | number): string | undefined {
  return way === undefined ? undefined : `${way}.${name}`;
}

/** What tools have that run where the caller is: a type, or a member. */
const CALLERS_MEMBERS = ['input_schema', 'functionDeclarations', 'function_declarations'];

/**
 * Whether an item of a list is a tool that runs where the caller is: whatever stands with it, no provider runs anything
 * by it.
 */
export function isCallersOwn(item: unknown): boolean {
  if (!isObject(item)) return false;
  const type = memberOf(item, 'type');
  return type === 'function' || type === 'custom' || (type === undefined && CALLERS_MEMBERS.some((name) => Object.hasOwn(item, name)));
}

/** Whether an object is one of those that are meant. */
export function isMeant(holder: unknown, only: HolderTest | undefined): boolean {
  if (only === undefined) return true;
  if (!isObject(holder)) return false;
  const value = Object.hasOwn(holder, only.member) ? holder[only.member] : undefined;
  if (typeof value !== 'string') return false;
  return only.values.some((wanted) => (wanted.endsWith(EACH) ? value.startsWith(wanted.slice(0, -1)) : value === wanted));
}

/**
 * How often a holder may be used; undefined where neither it nor the body says so.
 * @param body for the maximum that several holders share
 */
export function statedCount(holder: unknown, { own, lengthOf, per }: Omit<CountPlace, 'shared'>): number | undefined {
  for (const path of own) {
    const count = wholeNumber(spelledValue(holder, path));
    if (count !== undefined) return count;
  }
  if (lengthOf === undefined) return undefined;
  const value = spelledValue(holder, lengthOf);
  return typeof value === 'string' || Array.isArray(value) ? Math.ceil(value.length / per) : undefined;
}

/**
 * A count as a provider reads it: a number, or its digits as a text, which is all that a form can hold. Undefined for
 * anything else.
 */
export function wholeNumber(value: unknown): number | undefined {
  if (typeof value === 'string') return /^\d{1,15}$/.test(value) ? Number(value) : undefined;
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

/** Own member of an object, whatever that is. */
export function memberOf(holder: JsonMembers, name: string): unknown {
  return Object.hasOwn(holder, name) ? holder[name] : undefined;
}
