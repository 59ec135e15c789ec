import { TextPieces } from '../lib/text-pieces.ts';

/** Names from the outside in. */
type Path = readonly string[];

/** Stands in a path for "any element of the array". No JSON text of a provider has such a name. */
export const ELEMENT = '\u0000[]';

/** A picked value longer than this is left out. */
const MAX_PICK = 64 * 1024;
const MAX_KEY = 256;
/**
 * Refusing a broken value costs more than reading a thousand bytes; where a text held so many of them nothing more is picked. Counted for each path, and for the names of each
 * level: what is picked at one path does not depend on what else is picked.
 */
const MAX_BROKEN = 16;

/** What matters below the levels at which anything is picked: strings to step over, brackets to count. */
const NEXT_BRACKET = /["{}[\]]/g;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/**
 * Takes the values at a few paths, of which some may be alike, out of a JSON text of any size that comes in pieces, in bounded memory and without building the rest. Made for answers and
 * events that are too large to parse for a handful of numbers. Malformed text yields nothing or nonsense values, never an exception.
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
  readonly #pick = new TextPieces();
  #pickStart = 0;
  /** How many were broken, by path and by level. */
  readonly #brokenValues: number[] = [];
  readonly #brokenNames: number[] = [];
  #closedAt = -1;
  #stoppedAt = -1;
  /** Called behind each object or list in a list that is the whole text; false: nothing behind it is read. */
  onElement: (() => boolean) | undefined;

  /** @param decode makes text of the bytes of a picked value, which it may nest as deep as it likes; default: they are taken as they are */
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
    for (let i = 0; i < text.length && this.#stoppedAt === -1; ) {
      if (this.#inString) i = this.#string(text, i);
      else i = this.#structure(text, this.#depth > this.#tracked ? nextBracket(text, i) : i);
    }
    if (this.#picking !== -1) this.#extend(text.slice(this.#pickStart));
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
    if (this.#readingName) {
      this.#endName();
      return text.charCodeAt(quote + 1) === 0x3a ? quote + 2 : quote + 1;
    }
    if (this.#picking !== -1 && this.#pickDepth === this.#depth) this.#deliver(text.slice(this.#pickStart, quote + 1));
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

  #structure(text: string, from: number): number {
    const code = text.charCodeAt(from);
    switch (code) {
      case QUOTE:
        this.#openString(from);
        return from + 1;
      case 0x7b:
      case 0x5b:
        this.#beginValue(from);
        this.#open(code === 0x7b);
        return from + 1;
      case 0x7d:
      case 0x5d:
        this.#close(text, from);
        return from + 1;
      case 0x2c:
        this.#endScalar(text, from);
        this.#expectName = this.#depth <= this.#tracked && this.#names[this.#depth - 1] !== ELEMENT;
        return from + 1;
      case 0x3a:
        return from + 1;
      case 0x20:
      case 0x09:
      case 0x0a:
      case 0x0d:
        return endOfBlank(text, from + 1);
      default:
        this.#beginValue(from);
        return endOfScalar(text, from + 1);
    }
  }

  #openString(at: number): void {
    this.#inString = true;
    this.#escaped = false;
    this.#readingName = this.#expectName && this.#depth > 0 && this.#depth <= this.#tracked;
    if (this.#readingName) this.#name = '';
    else this.#beginValue(at);
  }

  #endName(): void {
    this.#readingName = false;
    this.#expectName = false;
    this.#names[this.#depth - 1] = this.#name.includes('\\') ? this.#unescaped(this.#name) : this.#name;
  }

  #unescaped(raw: string): string {
    const level = this.#depth - 1;
    if (!mayBreak(this.#brokenNames, level)) return raw;
    const value = parsed(`"${raw}"`);
    if (typeof value === 'string') return value;
    broke(this.#brokenNames, level);
    return raw;
  }

  #open(object: boolean): void {
    this.#depth++;
    if (this.#depth > this.#tracked) return;
    this.#names[this.#depth - 1] = object ? '' : ELEMENT;
    this.#expectName = object;
  }

  #close(text: string, at: number): void {
    this.#endScalar(text, at);
    if (this.#depth === 0) return;
    this.#depth--;
    this.#expectName = false;
    if (this.#picking !== -1 && this.#pickDepth === this.#depth) this.#deliver(text.slice(this.#pickStart, at + 1));
    if (this.#depth === 0 && this.#closedAt === -1) this.#closedAt = at;
    else if (this.#depth === 1 && this.#names[0] === ELEMENT && this.onElement?.() === false) this.#stoppedAt = at + 1;
  }

  /** A value begins here: is it one of those that are wanted? */
  #beginValue(at: number): void {
    if (this.#picking !== -1 || this.#depth > this.#tracked || this.#closedAt !== -1) return;
    const found = this.#wanted();
    if (found === -1 || !mayBreak(this.#brokenValues, found)) return;
    this.#picking = found;
    this.#pickDepth = this.#depth;
    this.#pick.take();
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

  /** A number, true, false or null that is being picked ends before `at`. */
  #endScalar(text: string, at: number): void {
    if (this.#picking !== -1 && this.#pickDepth === this.#depth) this.#deliver(text.slice(this.#pickStart, at));
  }

  #extend(text: string): void {
    if (this.#pick.length <= MAX_PICK) this.#pick.push(text);
  }

  #deliver(last: string): void {
    const path = this.#picking;
    this.#extend(last);
    this.#picking = -1;
    const text = this.#pick.take();
    if (text.length > MAX_PICK) return;
    const value = parsed(this.#decode === undefined ? text : this.#decode(text));
    if (value === undefined) broke(this.#brokenValues, path);
    else {
      this.#onPick(path, value);
      for (const twin of this.#places.twins.get(path) ?? NONE) this.#onPick(twin, value);
    }
  }
}

/** What a list of paths comes to. */
interface Places {
  /** Indexes of the paths of each length, of paths that are alike the first one. */
  readonly byDepth: readonly (readonly number[])[];
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
    places = { byDepth, twins };
    known.set(paths, places);
  }
  return places;
}

function mayBreak(counts: readonly number[], at: number): boolean {
  return (counts[at] ?? 0) < MAX_BROKEN;
}

function broke(counts: number[], at: number): void {
  counts[at] = (counts[at] ?? 0) + 1;
}

function endOfBlank(text: string, from: number): number {
  let at = from;
  while (text.charCodeAt(at) === 0x20 || text.charCodeAt(at) === 0x0a) at++;
  return at;
}

/** Steps over what cannot end a number or word, as far as such a text has letters, digits and points. */
function endOfScalar(text: string, from: number): number {
  let at = from;
  for (let code = text.charCodeAt(at); (code >= 0x30 && code <= 0x39) || (code >= 0x61 && code <= 0x7a) || code === 0x2e; )
    code = text.charCodeAt(++at);
  return at;
}

function nextBracket(text: string, from: number): number {
  NEXT_BRACKET.lastIndex = from;
  return NEXT_BRACKET.test(text) ? NEXT_BRACKET.lastIndex - 1 : text.length - 1;
}

/** JSON.parse, undefined for what is none. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
