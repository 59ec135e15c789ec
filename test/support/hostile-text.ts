import { UNSEEN } from '../../src/base/lib/shown-text.ts';

/** What begins a line that a stranger made. */
export const FAKED = 'FAKED ';
/**
 * Escape sequences of both kinds, a turn of direction, a hidden sentence, fillers, whole lines, marks upon marks, and
 * what is typed to look like a sign that was written out.
 */
export const HOSTILE = `evil\u001b[2J\u001b]0;x\u0007\u009b31m\u202eexe.txt\u{e0041}\u{e0062}\ufe05\u{e0101}\u3164\u115f\u2800\u00adz${'\u0301'.repeat(30)}\u200b\u2066\\u{202e}\n${FAKED}line\r\n${FAKED}\u2028${FAKED}`;

const UNSEEN_SIGNS = new RegExp(UNSEEN, 'gu');

/** Signs of a text that must not reach a face. Line breaks are what a face has of its own; a backslash is one. */
export function unseenIn(text: string): readonly string[] {
  const found = text.match(UNSEEN_SIGNS) ?? [];
  return [...new Set(found)].filter((sign) => sign !== '\n' && sign !== '\\').map((sign) => (sign.codePointAt(0) ?? 0).toString(16));
}

/** Signs that must not stand in JSON, nor in what programs pass on, wherever they are. */
export function hiddenIn(text: string): readonly string[] {
  const found = text.match(/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\p{DI}\u2800\u3164]/gu) ?? [];
  return [...new Set(found)].filter((sign) => sign !== '\n').map((sign) => (sign.codePointAt(0) ?? 0).toString(16));
}

/**
 * What a terminal, or another face with lines of its own, shows though it must not: signs, and lines that a stranger
 * has begun.
 */
export function fakedIn(text: string): readonly string[] {
  return [...unseenIn(text), ...text.split('\n').filter((line) => line.startsWith(FAKED))];
}

type Json = Readonly<Record<string, unknown>>;

/**
 * An answer as a JSON Schema has it, in which every text is hostile, also those that have a form, and every name that
 * is not given.
 */
export function hostileAnswer(schema: Json): unknown {
  return made(schema, (schema['$defs'] ?? {}) as Json);
}

function made(schema: Json, defs: Json): unknown {
  const { $ref: ref, anyOf, oneOf, allOf, type: types, properties, items, prefixItems, additionalProperties: more } = schema;
  if (typeof ref === 'string') return made(defs[ref.slice(ref.lastIndexOf('/') + 1)] as Json, {});
  const [first] = ((anyOf ?? oneOf ?? allOf) as readonly Json[] | undefined)?.filter((one) => one['type'] !== 'null') ?? [];
  if (first !== undefined) return made(first, defs);
  const type: unknown = Array.isArray(types) ? types.find((one) => one !== 'null') : types;
  if (type === 'number' || type === 'integer') return 1;
  if (type === 'boolean') return true;
  if (type === 'null') return null;
  if (type === 'array')
    return ((prefixItems as readonly Json[] | undefined) ?? [(items as Json | undefined) ?? {}]).map((item) => made(item, defs));
  if (type !== 'object') return HOSTILE;
  const known = Object.entries((properties ?? {}) as Readonly<Record<string, Json>>).map(([name, member]) => [name, made(member, defs)]);
  return Object.fromEntries([...known, ...(typeof more === 'object' && more !== null ? [[HOSTILE, made(more as Json, defs)]] : [])]);
}
