/**
 * Globs over hosts and paths (policy.md 11): `*` stands for any characters within one dot- or slash-separated segment,
 * `**` for any characters at all, every other character for itself. The time is at most pattern length times text
 * length, whatever both are.
 */
export function compileGlob(pattern: string): (text: string) => boolean {
  const tokens = tokenize(pattern);
  const stars = tokens.filter((token) => token === STAR || token === STARS).length;
  if (stars === 0) return (text) => text === pattern;
  if (stars === 1 && tokens[0] === STARS) return endsWith(pattern.replace(/^\*+/, ''));
  if (stars === 1 && tokens.at(-1) === STARS) return startsWith(pattern.replace(/\*+$/, ''));
  if (stars === 1 && tokens[0] === STAR) return oneSegmentThen(pattern.slice(1));
  // One pair of position sets for all evaluations: they run to their end one after the other.
  const first = new Uint8Array(tokens.length + 1);
  const second = new Uint8Array(tokens.length + 1);
  const head = pattern.slice(0, pattern.indexOf('*'));
  const tail = pattern.slice(pattern.lastIndexOf('*') + 1);
  const length = head.length + tail.length;
  return (text) => text.length >= length && text.startsWith(head) && text.endsWith(tail) && simulate(tokens, text, first, second);
}

/** Longest pattern, in characters. */
export const MAX_GLOB_LENGTH = 1024;
/** Positions of a pattern that are looked at in a step. */
const POSITIONS_PER_STEP = 8;

/** Steps that a pattern takes for each character of a text. */
export function globCost(pattern: string): number {
  return pattern.length / POSITIONS_PER_STEP;
}

/** Outside of the code units. */
const STAR = -1;
const STARS = -2;
const DOT = 0x2e;
const SLASH = 0x2f;

function tokenize(pattern: string): readonly number[] {
  const tokens: number[] = [];
  for (let i = 0; i < pattern.length; i++) {
    if (pattern[i] !== '*') tokens.push(pattern.charCodeAt(i));
    else if (pattern[i + 1] !== '*') tokens.push(STAR);
    else {
      tokens.push(STARS);
      while (pattern[i + 1] === '*') i++;
    }
  }
  return tokens;
}

const endsWith = (suffix: string) => (text: string) => text.endsWith(suffix);
const startsWith = (prefix: string) => (text: string) => text.startsWith(prefix);

function oneSegmentThen(suffix: string): (text: string) => boolean {
  return (text) => text.endsWith(suffix) && !hasSeparator(text, text.length - suffix.length);
}

function hasSeparator(text: string, end: number): boolean {
  for (let i = 0; i < end; i++) {
    const char = text.charCodeAt(i);
    if (char === DOT || char === SLASH) return true;
  }
  return false;
}

/** All positions of the pattern that the text read so far can have reached, one step per character: no backtracking. */
function simulate(tokens: readonly number[], text: string, first: Uint8Array, second: Uint8Array): boolean {
  let now = first;
  let next = second;
  now.fill(0);
  reach(tokens, now, 0);
  for (let i = 0; i < text.length; i++) {
    next.fill(0);
    if (!step(tokens, now, next, text.charCodeAt(i))) return false;
    const read = now;
    now = next;
    next = read;
  }
  return now[tokens.length] === 1;
}

/** False when no position is left. */
function step(tokens: readonly number[], now: Uint8Array, next: Uint8Array, char: number): boolean {
  let alive = false;
  for (let at = 0; at < tokens.length; at++) {
    if (now[at] === 0) continue;
    const token = tokens[at] ?? 0;
    const stays = token === STARS || (token === STAR && char !== DOT && char !== SLASH);
    if (!stays && token !== char) continue;
    reach(tokens, next, stays ? at : at + 1);
    alive = true;
  }
  return alive;
}

/** Marks a position, and what follows when it is a star, which may stand for nothing. */
function reach(tokens: readonly number[], positions: Uint8Array, from: number): void {
  let at = from;
  while (positions[at] !== 1) {
    positions[at] = 1;
    if ((tokens[at] ?? 0) >= 0) return;
    at++;
  }
}
