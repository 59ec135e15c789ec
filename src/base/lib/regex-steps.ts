/*
 * How large the program of a pattern is, by its text alone: what counts repetitions has few characters and many
 * instructions, and is compiled only when that is known.
 */

/** What folding the case of one range of characters costs: this many of them as much as an instruction. */
const FOLDED_PER_STEP = 40;
/** Behind these no character has another case. */
const LAST_FOLDED = 0x1e943;
/** A class of Unicode (`\p…`), of which the ranges are many. */
const UNICODE_CLASS = 50;
/** Before and behind every pattern. */
const AROUND = 3;
const FOLDS = /\(\?[a-zA-Z]*i/;
const COUNTED = /\{(\d{1,9})(,?)(\d{0,9})\}/y;
/** The start of a group: of one that captures, of one that does not, or flags without a group. */
const GROUP = /\((?:\?P?<\w{1,1024}>|\?[a-zA-Z-]*(?<flags>[:)])|(?<other>\?)?)/y;
/** What begins with a backslash; a class of Unicode, a quoted text, a character by its number, or a character. */
const ESCAPED =
  /\\(?:(?<unicode>[pP](?:\{[^}]*\}?|.)?)|Q(?<quoted>[\s\S]*?)(?:\\E|$)|x\{(?<number>[0-9a-fA-F]{1,6})\}|x(?<short>[0-9a-fA-F]{2})|(?<char>[\s\S])|$)/uy;
const NAMED_CLASS = /\[:\^?\w*:\]/y;
const HEX = 16;

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
 * Instructions of the compiled pattern, never fewer than it has, with a share for what is slow to compile. The time is
 * linear in the text. Of what is no pattern any number.
 */
export function regexSteps(pattern: string): number {
  return new Counter(pattern).count();
}

class Counter {
  readonly #pattern: string;
  readonly #folds: boolean;
  readonly #open: Frame[] = [];
  #frame = newFrame(false);
  /** What is read once, however often it is repeated. */
  #once = 0;
  #at = 0;

  constructor(pattern: string) {
    this.#pattern = pattern;
    this.#folds = FOLDS.test(pattern);
  }

  count(): number {
    while (this.#at < this.#pattern.length) this.#next(this.#pattern[this.#at] ?? '');
    while (this.#open.length > 0) this.#close();
    return sumOf(this.#frame) + this.#once + AROUND;
  }

  #next(char: string): void {
    switch (char) {
      case '\\':
        this.#part(this.#escaped().steps);
        break;
      case '[':
        this.#class();
        this.#part(1);
        break;
      case '(':
        this.#group();
        break;
      case ')':
        this.#at++;
        this.#close();
        break;
      case '|':
        this.#at++;
        this.#frame.total += this.#frame.sequence + this.#frame.last + 1;
        this.#frame.sequence = 0;
        this.#frame.last = 0;
        break;
      case '*':
      case '+':
      case '?':
        this.#at++;
        this.#frame.last += char === '*' ? 2 : 1;
        break;
      case '{':
        this.#counted();
        break;
      default:
        this.#at++;
        this.#part(1);
    }
  }

  /** What stands at this place, if the expression finds it here. */
  #match(expression: RegExp): RegExpExecArray | null {
    expression.lastIndex = this.#at;
    const found = expression.exec(this.#pattern);
    if (found !== null) this.#at += found[0].length;
    return found;
  }

  #part(steps: number): void {
    this.#frame.sequence += this.#frame.last;
    this.#frame.last = steps;
  }

  #group(): void {
    const { flags, other } = this.#match(GROUP)?.groups ?? {};
    if (flags === ')') return;
    this.#open.push(this.#frame);
    this.#frame = newFrame(flags === undefined && other === undefined);
  }

  #close(): void {
    const inner = sumOf(this.#frame) + (this.#frame.captures ? 2 : 0);
    this.#frame = this.#open.pop() ?? newFrame(false);
    this.#part(Math.max(1, inner));
  }

  /** `{n}`, `{n,}` and `{n,m}` write out what stands before them. */
  #counted(): void {
    const [, low, comma, high] = this.#match(COUNTED) ?? [];
    if (low === undefined) {
      this.#at++;
      this.#part(1);
      return;
    }
    const least = Number(low);
    const one = Math.max(1, this.#frame.last);
    const more = high === undefined || high === '' ? 0 : (one + 1) * Math.max(0, Number(high) - least);
    const endless = comma === ',' && (high === undefined || high === '');
    this.#frame.last = Math.max(1, endless ? one * Math.max(1, least) + 2 : one * least + more);
  }

  /** @returns its instructions, and the character that it stands for, where it is one */
  #escaped(): { readonly steps: number; readonly code: number | undefined } {
    const { unicode, quoted, number, short, char } = this.#match(ESCAPED)?.groups ?? {};
    if (unicode !== undefined) this.#once += UNICODE_CLASS;
    const hex = number ?? short;
    return { steps: Math.max(1, quoted?.length ?? 1), code: hex === undefined ? char?.codePointAt(0) : Number.parseInt(hex, HEX) };
  }

  /** A class is one instruction. Its ranges count where case is folded, classes of Unicode everywhere. */
  #class(): void {
    const from = this.#at + (this.#pattern[this.#at + 1] === '^' ? 2 : 1);
    this.#at = from;
    let previous: number | undefined;
    while (this.#at < this.#pattern.length && (this.#at === from || this.#pattern[this.#at] !== ']')) {
      const isRange = previous !== undefined && this.#pattern[this.#at] === '-' && this.#pattern[this.#at + 1] !== ']';
      if (isRange) this.#at++;
      const code = this.#inClass();
      if (isRange && this.#folds) this.#once += rangeSteps(previous ?? 0, code ?? 0);
      previous = isRange ? undefined : code;
    }
    this.#at++;
  }

  /** One member of a class. @returns the character that it is, if it is one */
  #inClass(): number | undefined {
    if (this.#pattern[this.#at] === '\\') return this.#escaped().code;
    if (this.#match(NAMED_CLASS) !== null) return undefined;
    const code = this.#pattern.codePointAt(this.#at) ?? 0;
    this.#at += code > 0xffff ? 2 : 1;
    return code;
  }
}

function newFrame(captures: boolean): Frame {
  return { total: 0, sequence: 0, last: 0, captures };
}

function sumOf({ total, sequence, last }: Frame): number {
  return total + sequence + last;
}

function rangeSteps(from: number, to: number): number {
  const span = Math.min(to, LAST_FOLDED) - from;
  return span > 0 ? Math.floor(span / FOLDED_PER_STEP) : 0;
}
