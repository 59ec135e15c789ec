import { isWellFormed } from '../lib/text.ts';

/** Deeper values are refused; equal to the depth at which request bodies are (decision 3.20). */
export const MAX_CANONICAL_DEPTH = 64;

/** A value that has no canonical JSON form. `path` is dotted, empty for the value itself. */
export class CanonicalJsonError extends Error {
  readonly path: string;

  constructor(path: string, what: string) {
    super(path === '' ? what : `${path}: ${what}`);
    this.name = 'CanonicalJsonError';
    this.path = path;
  }
}

/**
 * The RFC 8785 (JCS) form of a JSON value: no white space, members sorted by UTF-16 code units, numbers and strings as
 * ECMAScript writes them. A member whose value is undefined is left out, as `JSON.stringify` does.
 * @throws CanonicalJsonError for lone surrogates, NaN and infinities, BigInt, undefined outside of objects, functions,
 * symbols, objects that are neither plain nor arrays, and more than 64 levels (a cycle ends there too)
 */
export function canonicalJson(value: unknown): string {
  return write(value, 0, '');
}

/**
 * One JSON string in canonical form, with its quotes.
 * @throws CanonicalJsonError for lone surrogates (RFC 8785 §3.2.2.2)
 */
export function canonicalString(text: string): string {
  if (!isWellFormed(text)) throw new CanonicalJsonError('', 'text with a lone surrogate');
  return JSON.stringify(text);
}

/** One JSON number in canonical form (RFC 8785 §3.2.2.3). @throws CanonicalJsonError when it is not finite */
export function canonicalNumber(value: number): string {
  if (!Number.isFinite(value)) throw new CanonicalJsonError('', 'a number that is not finite');
  return value === 0 ? '0' : String(value);
}

function write(value: unknown, depth: number, path: string): string {
  switch (typeof value) {
    case 'string':
      if (!isWellFormed(value)) throw new CanonicalJsonError(path, 'text with a lone surrogate');
      return JSON.stringify(value);
    case 'number':
      if (!Number.isFinite(value)) throw new CanonicalJsonError(path, 'a number that is not finite');
      return value === 0 ? '0' : String(value);
    case 'boolean':
      return value ? 'true' : 'false';
    case 'object':
      if (value === null) return 'null';
      if (depth >= MAX_CANONICAL_DEPTH) throw new CanonicalJsonError(path, `more than ${MAX_CANONICAL_DEPTH} levels`);
      return Array.isArray(value) ? writeArray(value, depth, path) : writeObject(value, depth, path);
    default:
      throw new CanonicalJsonError(path, `a value of type ${typeof value}`);
  }
}

function writeArray(list: readonly unknown[], depth: number, path: string): string {
  let out = '[';
  for (let i = 0; i < list.length; i++) {
    if (i > 0) out += ',';
    out += write(list[i], depth + 1, `${path}[${i}]`);
  }
  return `${out}]`;
}

function writeObject(map: object, depth: number, path: string): string {
  const prototype: unknown = Object.getPrototypeOf(map);
  if (prototype !== Object.prototype && prototype !== null) throw new CanonicalJsonError(path, 'an object that is not plain');
  // `<` on strings compares UTF-16 code units, which is the order that RFC 8785 §3.2.3 asks for.
  const members: [string, unknown][] = Object.entries(map);
  members.sort((a, b) => (a[0] < b[0] ? -1 : 1));
  let out = '{';
  for (const [name, member] of members) {
    if (member === undefined) continue;
    const at = path === '' ? name : `${path}.${name}`;
    if (!isWellFormed(name)) throw new CanonicalJsonError(path, 'a name with a lone surrogate');
    out += `${out.length > 1 ? ',' : ''}${JSON.stringify(name)}:${write(member, depth + 1, at)}`;
  }
  return `${out}}`;
}
