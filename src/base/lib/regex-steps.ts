/*
 * How large the program of a pattern is, by its text alone: what counts repetitions has few characters and many instructions, and is compiled only when that is known.
 */

/** What folding the case of one range of characters costs: this many of them as much as an instruction. */
const FOLDED_PER_STEP = 40;
/** Behind these no character has another case. */
const LAST_FOLDED = 0x1e943;
/** A class of Unicode (`\p…`), of which the ranges are many. */
const UNICODE_CLASS = 50;
const FOLDS = /\(\?[a-zA-Z]*i/;
const COUNTED = /\{(\d{1,9})(?:(,)(\d{0,9}))?\}/y;
const GROUP_NAME = /\?P?<\w{1,1024}>/y;
const FLAGS = /\?[a-zA-Z-]*([:)])/y;

/** One group that is open. */
interface Frame {
  /** Alternatives that have ended. */
  total: number;
  /** What stands before the last part of this one. */
  sequence: number;
  /** The part to which a repetition behind it would belong. */
  last: number;
  readonly captures: boolean;
}

/**
 * Instructions of the compiled pattern, never fewer than it has, with a share for what is slow to compile. The time is linear in the text. Of what is no pattern any number.
 */
export function regexSteps(pattern: string): number {
  const folds = FOLDS.test(pattern);
  const open: Frame[] = [];
  let once = 0;
  let frame = newFrame(false);
  let at = 0;
  while (at < pattern.length) {
    const char = pattern[at] ?? '';
    if (char === '\\') {
      const { end, steps } = escape(pattern, at);
      // What is slow to read is read once, however often it is repeated.
      if (isUnicodeClass(pattern, at)) once += UNICODE_CLASS;
      push(frame, steps);
      at = end;
    } else if (char === '[') {
      const { end, steps } = characterClass(pattern, at, folds);
      push(frame, 1);
      once += steps;
      at = end;
    } else if (char === '(') {
      const { end, captures, isFlags } = groupStart(pattern, at);
      at = end;
      if (isFlags) continue;
      open.push(frame);
      frame = newFrame(captures);
    } else if (char === ')') {
      const inner = sumOf(frame) + (frame.captures ? 2 : 0);
      frame = open.pop() ?? newFrame(false);
      push(frame, Math.max(1, inner));
      at++;
    } else if (char === '|') {
      frame.total += frame.sequence + frame.last + 1;
      frame.sequence = 0;
      frame.last = 0;
      at++;
    } else if (char === '*' || char === '+' || char === '?') {
      frame.last += char === '*' ? 2 : 1;
      at++;
    } else {
      const end = char === '{' ? counted(pattern, at, frame) : undefined;
      if (end === undefined) push(frame, 1);
      at = end ?? at + 1;
    }
  }
  for (let outer = open.pop(); outer !== undefined; outer = open.pop()) {
    push(outer, sumOf(frame));
    frame = outer;
  }
  return sumOf(frame) + once + 3;
}

function newFrame(captures: boolean): Frame {
  return { total: 0, sequence: 0, last: 0, captures };
}

function push(frame: Frame, steps: number): void {
  frame.sequence += frame.last;
  frame.last = steps;
}

function sumOf({ total, sequence, last }: Frame): number {
  return total + sequence + last;
}

/** `{n}`, `{n,}` and `{n,m}` write out what stands before them. @returns where it ends; undefined: it is no repetition */
function counted(pattern: string, at: number, frame: Frame): number | undefined {
  COUNTED.lastIndex = at;
  const found = COUNTED.exec(pattern);
  if (found === null) return undefined;
  const [whole, low, comma, high] = found;
  const least = Number(low);
  const one = Math.max(1, frame.last);
  if (comma === undefined) frame.last = one * least;
  else if (high === '' || high === undefined) frame.last = one * Math.max(1, least) + 2;
  else frame.last = one * least + (one + 1) * Math.max(0, Number(high) - least);
  frame.last = Math.max(1, frame.last);
  return at + whole.length;
}

function groupStart(pattern: string, at: number): { readonly end: number; readonly captures: boolean; readonly isFlags: boolean } {
  if (pattern[at + 1] !== '?') return { end: at + 1, captures: true, isFlags: false };
  GROUP_NAME.lastIndex = at + 1;
  const named = GROUP_NAME.exec(pattern);
  if (named !== null) return { end: at + 1 + named[0].length, captures: true, isFlags: false };
  FLAGS.lastIndex = at + 1;
  const flags = FLAGS.exec(pattern);
  return { end: at + 1 + (flags?.[0].length ?? 1), captures: false, isFlags: flags?.[1] === ')' };
}

function isUnicodeClass(pattern: string, at: number): boolean {
  return pattern[at + 1] === 'p' || pattern[at + 1] === 'P';
}

/** What begins with a backslash, outside and inside of a class. */
function escape(pattern: string, at: number): { readonly end: number; readonly steps: number; readonly code?: number } {
  const letter = pattern[at + 1] ?? '';
  if (isUnicodeClass(pattern, at)) {
    const close = pattern[at + 2] === '{' ? pattern.indexOf('}', at + 3) : at + 2;
    return { end: close === -1 ? pattern.length : close + 1, steps: 1 };
  }
  if (letter === 'Q') {
    const close = pattern.indexOf('\\E', at + 2);
    const end = close === -1 ? pattern.length : close;
    return { end: close === -1 ? end : end + 2, steps: Math.max(1, end - at - 2) };
  }
  if (letter === 'x' && pattern[at + 2] === '{') {
    const close = pattern.indexOf('}', at + 3);
    if (close !== -1) return { end: close + 1, steps: 1, code: Number.parseInt(pattern.slice(at + 3, close), 16) };
  }
  if (letter === 'x') return { end: at + 4, steps: 1, code: Number.parseInt(pattern.slice(at + 2, at + 4), 16) };
  const code = pattern.codePointAt(at + 1);
  return { end: at + 1 + ((code ?? 0) > 0xffff ? 2 : 1), steps: 1, ...(code === undefined ? {} : { code }) };
}

/** A class is one instruction. @returns where it ends, and what reading it takes: its ranges where case is folded, and classes of Unicode everywhere */
function characterClass(pattern: string, at: number, folds: boolean): { readonly end: number; readonly steps: number } {
  let steps = 0;
  let end = at + 1;
  let previous: number | undefined;
  let inRange = false;
  if (pattern[end] === '^') end++;
  for (let first = true; end < pattern.length && (first || pattern[end] !== ']'); first = false) {
    const named = pattern.startsWith('[:', end) ? pattern.indexOf(':]', end + 2) : -1;
    if (named !== -1) {
      end = named + 2;
      steps++;
      continue;
    }
    if (pattern[end] === '-' && previous !== undefined && !inRange && pattern[end + 1] !== ']') {
      inRange = true;
      end++;
      continue;
    }
    const escaped = pattern[end] === '\\' ? escape(pattern, end) : undefined;
    const code = escaped === undefined ? pattern.codePointAt(end) : escaped.code;
    if (escaped !== undefined && isUnicodeClass(pattern, end)) steps += UNICODE_CLASS;
    if (inRange && folds && code !== undefined && previous !== undefined) steps += rangeSteps(previous, code);
    inRange = false;
    previous = code;
    end = escaped?.end ?? end + ((code ?? 0) > 0xffff ? 2 : 1);
  }
  return { end: end + 1, steps };
}

function rangeSteps(from: number, to: number): number {
  const span = Math.min(to, LAST_FOLDED) - from;
  return span > 0 ? Math.floor(span / FOLDED_PER_STEP) : 0;
}
