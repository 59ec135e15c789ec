import type { YamlEntry, YamlNode, YamlScalar } from './yaml-tree.ts';

/*
 * The quick reader of YAML. Nearly all files are in a plain form: block maps and lists, `{…}` and `[…]`, single values on one line. Of such a text the general
 * parser spends more than a second for each million characters, in which the gateway serves nobody. This reader takes a fraction of that, knows nothing else,
 * and makes no mistake its own: at anything beyond the plain form, and at every error, it gives up, and the general parser reads the text from its beginning.
 */

/** Deeper texts are left to the general parser, which knows the limit. */
const MAX_DEPTH = 40;

/** Made once: where it is thrown is of no interest. */
const GIVE_UP = new Error('the text is beyond the plain form');

/**
 * The tree of a text in the plain form, the same that the general parser makes of it; undefined for any other text.
 * @param maxNodes larger trees are left to the general parser too
 */
export function readPlainYaml(text: string, maxNodes: number): YamlNode | undefined {
  try {
    return new PlainReader(text, maxNodes).document();
  } catch (error) {
    if (error === GIVE_UP) return undefined;
    throw error;
  }
}

function giveUp(): never {
  throw GIVE_UP;
}

/** A text of the plain form in a block: begins with no indicator, and has no `: ` and no ` #`, which are looked for beside. */
const SCALAR_START = /[^\s\-?:,[\]{}#&*!|>'"%@`]/;
/** Numbers as people write them. */
const NUMBER = /^(?:0|-?[1-9]\d{0,14}|-?[1-9]\d{0,8}\.\d{1,6}|0\.\d{1,6})$/;
/** Whatever else is no text to the core schema (YAML 1.2, 10.3.2). */
const ODD_NUMBER =
  /^(?:[-+]?\d+|0o[0-7]+|0x[\da-fA-F]+|[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$/;
const NUMBER_LIKE = /^[-+.\d]/;
const MAX_KEY = 256;
const SPACE = 32;
const HASH = 35;
const COLON = 58;
const WORDS: ReadonlyMap<string, boolean | null> = new Map<string, boolean | null>([
  ['true', true],
  ['True', true],
  ['TRUE', true],
  ['false', false],
  ['False', false],
  ['FALSE', false],
  ['null', null],
  ['Null', null],
  ['NULL', null],
  ['~', null],
]);

class PlainReader {
  readonly #text: string;
  readonly #maxNodes: number;
  #nodes = 0;
  /** Of the line that is read next. */
  #lineStart = 0;
  #lineEnd = 0;
  #lineNumber = 0;
  /** Spaces before the first character; -1: there is no line. */
  #indent = -1;
  /** In a line: the next character. */
  #at = 0;

  constructor(text: string, maxNodes: number) {
    this.#text = text;
    this.#maxNodes = maxNodes;
    // Tabs, carriage returns, byte order marks and separators of lines have rules of their own.
    if (/[\t\r\ufeff\x85\u2028\u2029]/.test(text)) giveUp();
  }

  document(): YamlNode {
    this.#nextLine();
    if (this.#indent !== 0) giveUp();
    const root = this.#block(0, 1);
    return this.#hasEnded() ? root : giveUp();
  }

  #hasEnded(): boolean {
    return this.#indent === -1;
  }

  /** Moves to the next line that is neither blank nor a comment. */
  #nextLine(): void {
    const text = this.#text;
    let start = this.#lineNumber === 0 ? 0 : this.#lineEnd + 1;
    for (; start < text.length; start = this.#lineEnd + 1) {
      const newline = text.indexOf('\n', start);
      this.#lineEnd = newline === -1 ? text.length : newline;
      this.#lineNumber++;
      let at = start;
      while (text.charCodeAt(at) === SPACE) at++;
      if (at >= this.#lineEnd || text[at] === '#') continue;
      this.#lineStart = start;
      this.#at = at;
      this.#indent = at - start;
      if (this.#indent === 0 && /^(?:---|\.\.\.|%)/.test(text.slice(at, at + 3))) giveUp();
      return;
    }
    this.#indent = -1;
  }

  /** A list or a map whose lines begin at this column. */
  #block(indent: number, depth: number): YamlNode {
    if (depth > MAX_DEPTH) giveUp();
    return this.#isDash() ? this.#list(indent, depth) : this.#map(indent, depth);
  }

  #isDash(): boolean {
    return this.#text[this.#at] === '-' && (this.#text[this.#at + 1] === ' ' || this.#at + 1 === this.#lineEnd);
  }

  #list(indent: number, depth: number, keyMayFollow = false): YamlNode {
    const start = this.#place();
    const items: YamlNode[] = [];
    this.#count();
    do {
      this.#at++;
      this.#spaces();
      if (this.#atEnd()) giveUp();
      const column = this.#at - this.#lineStart;
      items.push(this.#isDash() || this.#isKey() ? this.#block(column, depth + 1) : this.#lastOfLine(indent, depth));
    } while (this.#indent === indent && this.#isDash());
    this.#mustBeLeft(keyMayFollow ? indent + 1 : indent);
    return { kind: 'seq', items, ...start };
  }

  /** The first entry may stand behind a dash, where the line's own indentation is smaller. */
  #map(indent: number, depth: number): YamlNode {
    const start = this.#place();
    const entries: YamlEntry[] = [];
    const names = new Set<string>();
    this.#count();
    do {
      const key = this.#key();
      if (names.has(key.source)) giveUp();
      names.add(key.source);
      entries.push({ key, value: this.#entryValue(indent, depth) });
    } while (this.#indent === indent && !this.#isDash());
    this.#mustBeLeft(indent);
    return { kind: 'map', entries, ...start };
  }

  /** A line that is indented further continues a value over lines; one that stands between the columns of its ancestors is a mistake. */
  #mustBeLeft(indent: number): void {
    if (this.#indent >= indent) giveUp();
  }

  #entryValue(indent: number, depth: number): YamlNode {
    this.#spaces();
    if (!this.#atEnd()) return this.#lastOfLine(indent, depth);
    this.#nextLine();
    if (this.#indent > indent || (this.#indent === indent && this.#isDash())) return this.#nested(indent, depth);
    return giveUp();
  }

  #nested(indent: number, depth: number): YamlNode {
    // A list may stand in the column of its key; then the next key ends it.
    if (this.#indent === indent) return this.#list(indent, depth + 1, true);
    return this.#isDash() || this.#isKey() ? this.#block(this.#indent, depth + 1) : giveUp();
  }

  /** A value with which its line ends. The line that follows must not be indented further, which would continue it. */
  #lastOfLine(indent: number, depth: number): YamlNode {
    const node = this.#isFlow() ? this.#flow(depth + 1) : this.#scalar(false);
    this.#spaces();
    if (!this.#atEnd()) giveUp();
    this.#nextLine();
    if (this.#indent > indent) giveUp();
    return node;
  }

  #isFlow(): boolean {
    const char = this.#text[this.#at];
    return char === '{' || char === '[';
  }

  /** Whether a key with its colon stands here. */
  #isKey(): boolean {
    const before = this.#at;
    const char = this.#text[before];
    if (char === '"' || char === "'") {
      this.#quoted(char);
      const found = this.#isColon();
      this.#at = before;
      return found;
    }
    if (this.#isFlow()) return false;
    return this.#colonOf(before) !== -1;
  }

  #isColon(): boolean {
    return this.#text[this.#at] === ':' && (this.#text[this.#at + 1] === ' ' || this.#at + 1 === this.#lineEnd);
  }

  /** The first colon in the line that a space or the end follows and that is in no comment, or -1. */
  #colonOf(from: number): number {
    const text = this.#text;
    for (let at = from; at < this.#lineEnd; at++) {
      const char = text.charCodeAt(at);
      if (char === HASH && text.charCodeAt(at - 1) === SPACE) return -1;
      if (char === COLON && (at + 1 === this.#lineEnd || text.charCodeAt(at + 1) === SPACE)) return at;
    }
    return -1;
  }

  /** A key and its colon. */
  #key(): YamlScalar {
    if (!this.#isKey()) giveUp();
    const start = this.#place();
    const char = this.#text[this.#at];
    if (char === '"' || char === "'") {
      const value = this.#quoted(char);
      this.#at++;
      this.#count();
      if (value.length > MAX_KEY) giveUp();
      return { kind: 'scalar', value, source: value, quoted: true, ...start };
    }
    const colon = this.#colonOf(this.#at);
    const source = this.#text.slice(this.#at, colon);
    if (source.endsWith(' ') || source.length > MAX_KEY) giveUp();
    this.#at = colon + 1;
    return this.#plain(source, start);
  }

  /** `{…}` or `[…]` that closes in its line. */
  #flow(depth: number): YamlNode {
    if (depth > MAX_DEPTH) giveUp();
    const start = this.#place();
    const isMap = this.#text[this.#at] === '{';
    const close = isMap ? '}' : ']';
    const items: YamlNode[] = [];
    const entries: YamlEntry[] = [];
    const names = new Set<string>();
    this.#count();
    this.#at++;
    this.#spaces();
    while (this.#text[this.#at] !== close) {
      if (isMap) entries.push(this.#flowEntry(names, depth));
      else items.push(this.#flowValue(depth));
      this.#spaces();
      const char = this.#text[this.#at];
      if (char === close) break;
      if (char !== ',') giveUp();
      this.#at++;
      this.#spaces();
      // A comma before the bracket is left to the general parser.
      if (this.#text[this.#at] === close) giveUp();
    }
    this.#at++;
    return isMap ? { kind: 'map', entries, ...start } : { kind: 'seq', items, ...start };
  }

  #flowEntry(names: Set<string>, depth: number): YamlEntry {
    const key = this.#scalar(true);
    if (!this.#isColon() || names.has(key.source) || key.source.length > MAX_KEY) giveUp();
    names.add(key.source);
    this.#at++;
    this.#spaces();
    return { key, value: this.#flowValue(depth) };
  }

  #flowValue(depth: number): YamlNode {
    return this.#isFlow() ? this.#flow(depth + 1) : this.#scalar(true);
  }

  /** One value: in flow up to the next indicator, else up to the end of the line or a comment. */
  #scalar(inFlow: boolean): YamlScalar {
    const start = this.#place();
    const char = this.#text[this.#at];
    if (char === '"' || char === "'") {
      const value = this.#quoted(char);
      this.#count();
      return { kind: 'scalar', value, source: value, quoted: true, ...start };
    }
    const end = inFlow ? this.#endInFlow() : this.#endInBlock();
    const source = this.#text.slice(this.#at, this.#withoutSpaces(end));
    this.#at += source.length;
    return this.#plain(source, start);
  }

  #endInBlock(): number {
    const text = this.#text;
    for (let at = this.#at; at < this.#lineEnd; at++) {
      const char = text.charCodeAt(at);
      if (char === HASH && text.charCodeAt(at - 1) === SPACE) return at;
      if (char === COLON && (at + 1 === this.#lineEnd || text.charCodeAt(at + 1) === SPACE)) giveUp();
    }
    return this.#lineEnd;
  }

  /** Where a value ends that spaces follow up to here. */
  #withoutSpaces(end: number): number {
    let at = end;
    while (this.#text.charCodeAt(at - 1) === SPACE) at--;
    return at;
  }

  #endInFlow(): number {
    FLOW_STOP.lastIndex = this.#at;
    const stop = FLOW_STOP.exec(this.#text);
    return stop !== null && stop.index < this.#lineEnd && FLOW_END.test(stop[0]) ? stop.index : giveUp();
  }

  /** The text between quotes, without escapes and on one line. */
  #quoted(quote: string): string {
    const close = this.#text.indexOf(quote, this.#at + 1);
    if (close === -1 || close >= this.#lineEnd || this.#text[close + 1] === quote) return giveUp();
    const value = this.#text.slice(this.#at + 1, close);
    if (quote === '"' && value.includes('\\')) giveUp();
    this.#at = close + 1;
    const next = this.#text[this.#at] ?? '\n';
    if (!' \n:,]}'.includes(next)) giveUp();
    return value;
  }

  #plain(source: string, place: { line: number; column: number }): YamlScalar {
    this.#count();
    const first = source[0];
    if (first === undefined || !(SCALAR_START.test(first) || (first === '-' && /^-[^\s,[\]{}]/.test(source)))) giveUp();
    return { kind: 'scalar', value: coreValue(source), source, quoted: false, ...place };
  }

  #spaces(): void {
    while (this.#text.charCodeAt(this.#at) === SPACE) this.#at++;
  }

  /** Whether only a comment is left of the line, which a space must part from what stands before it. */
  #atEnd(): boolean {
    return this.#at >= this.#lineEnd || (this.#text[this.#at] === '#' && this.#text[this.#at - 1] === ' ');
  }

  #place(): { line: number; column: number } {
    return { line: this.#lineNumber, column: this.#at - this.#lineStart + 1 };
  }

  #count(): void {
    if (++this.#nodes > this.#maxNodes) giveUp();
  }
}

/** Where a plain value in flow can stop: at an indicator, at a colon with what makes it one behind it, at a comment. */
const FLOW_STOP = /[,[\]{}]|:(?:[ ,[\]{}\n]|$)| #/g;
/** Where it ends; all else is left to the general parser. */
const FLOW_END = /^(?:[,\]}]|:[ \n]?)$/;

/** What the core schema makes of a plain scalar. */
function coreValue(source: string): YamlScalar['value'] {
  const word = WORDS.get(source);
  if (word !== undefined) return word;
  if (!NUMBER_LIKE.test(source)) return source;
  if (NUMBER.test(source)) return Number(source);
  return ODD_NUMBER.test(source) ? giveUp() : source;
}
