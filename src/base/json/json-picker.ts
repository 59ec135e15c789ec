import { TextPieces } from '../lib/text.ts';

/** Names from the outside in. */
type Path = readonly string[];

/** Stands in a path for "any element of the array". No JSON text of a provider has such a name. */
export const ELEMENT = '\u0000[]';

/** A picked value longer than this is left out. */
const MAX_PICK = 64 * 1024;
const MAX_KEY = 256;
/**
 * Refusing a broken value costs more than reading a thousand bytes; where a text held so many of them nothing more is
 * picked. Counted for each path, and for the names of each level: what is picked at one path does not depend on what
 * else is picked.
 */
const MAX_BROKEN = 16;

/** What matters below the levels at which anything is picked: strings to step over, brackets to count. */
const NEXT_BRACKET = /["{}[\]]/g;

const TAB = 0x09;
const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

/**
 * Takes the values at a few paths, of which some may be alike, out of a JSON text of any size that comes in pieces, in
 * bounded memory and without building the rest. Made for answers and events that are too large to parse for a handful
 * of numbers. Malformed text yields nothing or nonsense values, never an exception.
 */
export class JsonPicker {
  readonly #paths: readonly Path[];
  readonly #onPick: (path: number, value: unknown) => void;
  readonly #decode: ((text: string) => string) | undefined;
  readonly #tracked: number;
  readonly #places: Places;
  readonly #byDepth: Places['byDepth'];
  /** Name at each open level up to `#tracked`; `ELEMENT` in arrays. */
  readonly #names: string[] = [];
  #depth = 0;
  #inString = false;
  /** An odd number of backslashes stands at the end of the last piece, inside a string. */
  #escaped = false;
  #readingName = false;
  #expectName = false;
  #name = '';
  /** Index of the path whose value is being read, or -1. */
  #picking = -1;
  #pickDepth = 0;
  /** The picked value so far, where it began in an earlier piece. */
  readonly #pick = new TextPieces();
  #isCarried = false;
  #pickStart = 0;
  /** How many were broken, by path and by level. */
  readonly #brokenValues: number[] = [];
  readonly #brokenNames: number[] = [];
  #closedAt = -1;
  #stoppedAt = -1;
  /** Called behind each object or list in a list that is the whole text; false: nothing behind it is read. */
  onElement: (() => boolean) | undefined;

  /**
   * @param decode makes text of the bytes of a picked value, which it may nest as deep as it likes; default: they are
   * taken as they are
   */
  constructor(paths: readonly Path[], onPick: (path: number, value: unknown) => void, decode?: (text: string) => string) {
    this.#paths = paths;
    this.#onPick = onPick;
    this.#decode = decode;
    this.#places = placesOf(paths);
    this.#byDepth = this.#places.byDepth;
    this.#tracked = this.#byDepth.length - 1;
  }

  /** Objects and lists that are open: 0 before the text and behind it. */
  get depth(): number {
    return this.#depth;
  }

  /** Index in the last piece of the bracket that closed the root value; -1 while it is open. */
  get closedAt(): number {
    return this.#closedAt;
  }

  /** Index in the last piece behind the element at which `onElement` said to stop; -1 before that. */
  get stoppedAt(): number {
    return this.#stoppedAt;
  }

  push(text: string): void {
    this.#pickStart = 0;
    for (let at = 0; at < text.length && this.#stoppedAt === -1; ) {
      if (this.#inString) at = this.#string(text, at);
      else at = this.#depth > this.#tracked ? this.#below(text, at) : this.#level(text, at);
    }
    if (this.#picking !== -1) this.#carry(text.slice(this.#pickStart));
  }

  /** The text has ended: a number at its end is complete now. */
  end(): void {
    if (this.#picking !== -1 && this.#pickDepth === this.#depth && !this.#inString) this.#deliver('');
  }

  /** Consumes up to and with the closing quote, or to the end of the piece. */
  #string(text: string, from: number): number {
    let quote = text.indexOf('"', from);
    // Mostly there is no backslash, and a quote that is not the first character of this turn.
    if (quote <= from || text.charCodeAt(quote - 1) === BACKSLASH) quote = this.#closingQuote(text, from, quote);
    else this.#escaped = false;
    const stop = quote === -1 ? text.length : quote;
    if (this.#readingName && this.#name.length <= MAX_KEY) this.#name += text.slice(from, stop);
    if (quote === -1) return text.length;
    this.#inString = false;
    if (this.#readingName) this.#endName(this.#name);
    else if (this.#picking !== -1 && this.#pickDepth === this.#depth) this.#deliver(text.slice(this.#pickStart, quote + 1));
    return quote + 1;
  }

  /** Index of the quote that closes the string, or -1; notes whether the piece ends in the middle of an escape. */
  #closingQuote(text: string, from: number, first: number): number {
    let quote = first;
    while (quote !== -1 && this.#isEscaped(text, from, quote)) quote = text.indexOf('"', quote + 1);
    this.#escaped = quote === -1 && this.#isEscaped(text, from, text.length);
    return quote;
  }

  /** An odd number of backslashes stands before `at`, those at the end of the last piece included. */
  #isEscaped(text: string, from: number, at: number): boolean {
    let first = at;
    while (first > from && text.charCodeAt(first - 1) === BACKSLASH) first--;
    const odd = ((at - first) & 1) === 1;
    return first === from && this.#escaped ? !odd : odd;
  }

  /**
   * Tokens at the levels where something is picked: up to what lies deeper, a string that is not simply whole, or the
   * end of the piece.
   */
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one loop over every token of every answer; a call for each would cost five times as much
  #level(text: string, from: number): number {
    const names = this.#names;
    const { lastNames } = this.#places;
    for (let at = from; at < text.length; ) {
      const code = text.charCodeAt(at);
      if (code === COMMA || code === CLOSE_BRACE || code === CLOSE_BRACKET) {
        // A number, true, false or null that is being picked ends before it.
        if (this.#picking !== -1 && this.#pickDepth === this.#depth) this.#deliver(text.slice(this.#pickStart, at));
        if (code === COMMA) this.#expectName = names[this.#depth - 1] !== ELEMENT;
        else this.#close(text, at);
        at++;
        if (this.#stoppedAt !== -1) return at;
        continue;
      }
      if (code === COLON || code === SPACE || code === LF || code === TAB || code === CR) {
        at++;
        continue;
      }
      const isString = code === QUOTE;
      const quote = isString ? text.indexOf('"', at + 1) : -1;
      const isWhole = quote !== -1 && text.charCodeAt(quote - 1) !== BACKSLASH;
      if (isString && this.#expectName && this.#depth > 0) {
        if (isWhole) {
          const name = text.slice(at + 1, quote);
          names[this.#depth - 1] = name.includes('\\') ? this.#unescaped(name) : name;
          this.#expectName = false;
        } else {
          this.#readingName = true;
          this.#name = '';
        }
      } else {
        if (this.#picking === -1 && lastNames[this.#depth]?.has(names[this.#depth - 1] ?? '')) this.#beginValue(at);
        if (isWhole && this.#picking !== -1 && this.#pickDepth === this.#depth) this.#deliver(text.slice(this.#pickStart, quote + 1));
      }
      if (isWhole) at = quote + 1;
      else if (isString) {
        this.#inString = true;
        this.#escaped = false;
        return at + 1;
      } else if (code === OPEN_BRACE || code === OPEN_BRACKET) {
        at++;
        if (++this.#depth > this.#tracked) return at;
        names[this.#depth - 1] = code === OPEN_BRACE ? '' : ELEMENT;
        this.#expectName = code === OPEN_BRACE;
      } else {
        // What cannot end a number or word is stepped over, as far as such a text has letters, digits and points.
        let next = text.charCodeAt(++at);
        while ((next >= 0x30 && next <= 0x39) || (next >= 0x61 && next <= 0x7a) || next === 0x2e) next = text.charCodeAt(++at);
      }
    }
    return text.length;
  }

  /** Below those levels, where strings are stepped over and brackets are counted. */
  #below(text: string, from: number): number {
    NEXT_BRACKET.lastIndex = from;
    while (NEXT_BRACKET.test(text)) {
      const at = NEXT_BRACKET.lastIndex - 1;
      const code = text.charCodeAt(at);
      if (code === QUOTE) {
        const quote = text.indexOf('"', at + 1);
        if (quote === -1 || text.charCodeAt(quote - 1) === BACKSLASH) {
          this.#inString = true;
          this.#escaped = false;
          return at + 1;
        }
        NEXT_BRACKET.lastIndex = quote + 1;
      } else if (code === OPEN_BRACE || code === OPEN_BRACKET) this.#depth++;
      else if (this.#depth - 1 > this.#tracked) this.#depth--;
      else {
        this.#close(text, at);
        return at + 1;
      }
    }
    return text.length;
  }

  #endName(name: string): void {
    this.#readingName = false;
    this.#expectName = false;
    this.#names[this.#depth - 1] = name.includes('\\') ? this.#unescaped(name) : name;
  }

  #unescaped(raw: string): string {
    const level = this.#depth - 1;
    const broken = this.#brokenNames[level] ?? 0;
    if (broken >= MAX_BROKEN) return raw;
    const value = parsed(`"${raw}"`);
    if (typeof value === 'string') return value;
    this.#brokenNames[level] = broken + 1;
    return raw;
  }

  #close(text: string, at: number): void {
    if (this.#depth === 0) return;
    this.#depth--;
    this.#expectName = false;
    if (this.#picking !== -1 && this.#pickDepth === this.#depth) this.#deliver(text.slice(this.#pickStart, at + 1));
    if (this.#depth === 0 && this.#closedAt === -1) this.#closedAt = at;
    else if (this.#depth === 1 && this.#names[0] === ELEMENT && this.onElement?.() === false) this.#stoppedAt = at + 1;
  }

  /** A value begins here, at a level that is looked at: is it one of those that are wanted? */
  #beginValue(at: number): void {
    const found = this.#closedAt === -1 ? this.#wanted() : -1;
    if (found === -1 || (this.#brokenValues[found] ?? 0) >= MAX_BROKEN) return;
    this.#picking = found;
    this.#pickDepth = this.#depth;
    this.#pickStart = at;
  }

  /** The path that leads to where a value begins, or -1. */
  #wanted(): number {
    const depth = this.#depth;
    for (const at of this.#byDepth[depth] ?? []) {
      const path = this.#paths[at];
      let level = depth - 1;
      // The last name is the one that differs most.
      while (level >= 0 && path?.[level] === this.#names[level]) level--;
      if (level < 0) return at;
    }
    return -1;
  }

  /** Keeps what has come of a picked value whose end has not. */
  #carry(text: string): void {
    this.#isCarried = true;
    if (this.#pick.length <= MAX_PICK) this.#pick.push(text);
  }

  #deliver(last: string): void {
    const path = this.#picking;
    this.#picking = -1;
    let text = last;
    if (this.#isCarried) {
      this.#carry(last);
      this.#isCarried = false;
      text = this.#pick.take();
    }
    if (text.length > MAX_PICK) return;
    const value = parsed(this.#decode === undefined ? text : this.#decode(text));
    if (value === undefined) {
      this.#brokenValues[path] = (this.#brokenValues[path] ?? 0) + 1;
      return;
    }
    this.#onPick(path, value);
    for (const twin of this.#places.twins.get(path) ?? NONE) this.#onPick(twin, value);
  }
}

/** What a list of paths comes to. */
interface Places {
  /** Indexes of the paths of each length, of paths that are alike the first one. */
  readonly byDepth: readonly (readonly number[])[];
  /** The last names of these, by their length. */
  readonly lastNames: readonly ReadonlySet<string>[];
  /** Indexes of further paths that are alike, by the first one. */
  readonly twins: ReadonlyMap<number, readonly number[]>;
}

const NONE: readonly number[] = [];
const known = new WeakMap<readonly Path[], Places>();

/** Made once for a list that serves again and again. */
function placesOf(paths: readonly Path[]): Places {
  let places = known.get(paths);
  if (places === undefined) {
    const byDepth: number[][] = Array.from({ length: Math.max(0, ...paths.map((path) => path.length)) + 1 }, () => []);
    const twins = new Map<number, number[]>();
    const firsts = new Map<string, number>();
    for (const [at, path] of paths.entries()) {
      const key = JSON.stringify(path);
      const first = firsts.get(key);
      if (first === undefined) {
        firsts.set(key, at);
        byDepth[path.length]?.push(at);
      } else twins.set(first, [...(twins.get(first) ?? NONE), at]);
    }
    const lastNames = byDepth.map((all) => new Set(all.map((at) => paths[at]?.at(-1) ?? '')));
    places = { byDepth, lastNames, twins };
    known.set(paths, places);
  }
  return places;
}

/** JSON.parse, undefined for what is none. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
