import type { NameRule } from './types.ts';

/** From the first one of them on: begun at each of a hundred thousand, which a stranger may send, it would cost the square of their number. */
const UNDERSCORES = /(?<!_)_+([a-z0-9])/g;

/**
 * The names under which a parser takes a member, the one that was asked for first. JSON of protocol buffers has two: that of the field (`max_output_tokens`)
 * and its lower camel case (`maxOutputTokens`).
 */
export function spellingsOf(name: string, rule: NameRule): readonly string[] {
  if (rule === 'exact') return [name];
  const camel = name.replace(UNDERSCORES, (_, next: string) => next.toUpperCase());
  const snake = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return [...new Set([name, camel, snake])];
}

/** The parts of a path, each in all of its spellings. */
export type SpelledPath = readonly (readonly string[])[];

/** The value at a path whose parts may each be written in any of their spellings; undefined where the way ends. Own members only, items of lists by number. */
export function spelledValue(root: unknown, path: SpelledPath): unknown {
  let at: unknown = root;
  for (const spellings of path) {
    const name = writtenName(at, spellings);
    if (name === undefined || typeof at !== 'object' || at === null) return undefined;
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

/** @param spellings the one that counts first, if several are there */
function writtenName(at: unknown, spellings: readonly string[]): string | undefined {
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
