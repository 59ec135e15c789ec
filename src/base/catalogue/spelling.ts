/**
 * Which spellings a parser takes for one name. `exact`: the one that is written. `proto`: as JSON of protocol buffers
 * is read, so `maxOutputTokens` and `max_output_tokens` alike, at every level.
 */
export type NameRule = 'exact' | 'proto';

/**
 * No format has a field of a longer name. What is longer has one spelling: it is a stranger's, and to write it in
 * others could cost more than to read it.
 */
const LONGEST_FIELD = 256;
const UNDERSCORE = 0x5f;
/** Between a capital letter and its small one. */
const CASE = 0x20;
/** Where spellings are written, UTF-16: a name of capitals alone has twice as many characters in the other one. */
const scratch = new Uint16Array(2 * LONGEST_FIELD);
const scratchBytes = Buffer.from(scratch.buffer);

/**
 * The names under which a parser takes a member, the one that was asked for first. JSON of protocol buffers has two:
 * that of the field (`max_output_tokens`) and its lower camel case (`maxOutputTokens`).
 */
export function spellingsOf(name: string, rule: NameRule): readonly string[] {
  if (rule === 'exact' || name.length > LONGEST_FIELD) return [name];
  return [...new Set([name, camelCase(name), snakeCase(name)])];
}

/**
 * Written by hand, as {@link snakeCase} is: a replacement is a call for each letter, and a body may have millions of
 * them.
 */
function camelCase(name: string): string {
  let length = 0;
  let underscores = 0;
  for (let at = 0; at < name.length; at++) {
    const code = name.charCodeAt(at);
    const isSmall = code >= 0x61 && code <= 0x7a;
    const isDigit = code >= 0x30 && code <= 0x39;
    if (isSmall || isDigit) length -= underscores;
    scratch[length++] = isSmall && underscores > 0 ? code - CASE : code;
    underscores = code === UNDERSCORE ? underscores + 1 : 0;
  }
  return scratchBytes.toString('utf16le', 0, 2 * length);
}

function snakeCase(name: string): string {
  let length = 0;
  for (let at = 0; at < name.length; at++) {
    const code = name.charCodeAt(at);
    const isCapital = code >= 0x41 && code <= 0x5a;
    if (isCapital) scratch[length++] = UNDERSCORE;
    scratch[length++] = isCapital ? code + CASE : code;
  }
  return scratchBytes.toString('utf16le', 0, 2 * length);
}

/** The parts of a path, each in all of its spellings. */
export type SpelledPath = readonly (readonly string[])[];

/**
 * The value at a path whose parts may each be written in any of their spellings; undefined where the way ends. Own
 * members only, items of lists by number.
 */
export function spelledValue(root: unknown, path: SpelledPath): unknown {
  let at: unknown = root;
  for (const spellings of path) {
    if (typeof at !== 'object' || at === null) return undefined;
    const first = spellings[0] ?? '';
    const isList = Array.isArray(at);
    const isFirst = !isList && Object.hasOwn(at, first);
    // The first spelling counts and is nearly always the one, or the only one; a list has more to ask.
    if (!isFirst && !isList && spellings.length === 1) return undefined;
    const name = isFirst ? first : writtenName(at, spellings);
    if (name === undefined) return undefined;
    at = Reflect.get(at, name);
  }
  return at;
}

/** The path as this body writes it; what is not there is written as it was asked for. */
export function writtenPath(root: unknown, path: readonly string[], rule: NameRule): readonly string[] {
  let at: unknown = root;
  return path.map((name) => {
    const written = writtenName(at, spellingsOf(name, rule)) ?? name;
    at = typeof at === 'object' && at !== null && Object.hasOwn(at, written) ? Reflect.get(at, written) : undefined;
    return written;
  });
}

/**
 * The spelling of a name that an object or a list has; undefined for none.
 * @param spellings the one that counts first, if several are there
 */
export function writtenName(at: unknown, spellings: readonly string[]): string | undefined {
  if (typeof at !== 'object' || at === null) return undefined;
  if (Array.isArray(at)) return spellings.find((name) => /^(?:0|[1-9]\d{0,8})$/.test(name) && Object.hasOwn(at, name));
  for (const name of spellings) if (Object.hasOwn(at, name)) return name;
  return undefined;
}

const made: Readonly<Record<NameRule, Map<string, SpelledPath>>> = { exact: new Map(), proto: new Map() };

/** A dotted path with the spellings of its parts; made once for each path of the data files and of rules. */
export function spelledPath(path: string, rule: NameRule): SpelledPath {
  let spelled = made[rule].get(path);
  if (spelled === undefined) {
    spelled = path.split('.').map((name) => spellingsOf(name, rule));
    made[rule].set(path, spelled);
  }
  return spelled;
}
