import {
  type Document,
  isAlias,
  isCollection,
  isMap,
  isPair,
  isScalar,
  LineCounter,
  type Node,
  parseAllDocuments,
  type Scalar,
  type YAMLError,
} from 'yaml';
import type { ErrorDetail } from './gateway-error.ts';
import { Mistakes } from './mistakes.ts';
import { shorten } from './text.ts';
import type { Positioned, YamlEntry, YamlNode, YamlScalar } from './yaml-packed.ts';

export type { YamlEntry, YamlMap, YamlNode, YamlScalar, YamlSeq } from './yaml-packed.ts';

/** Texts above this are not parsed. */
export const MAX_YAML_LENGTH = 4 * 1024 * 1024;
/** Levels of nesting; the parser recurses. */
export const MAX_YAML_DEPTH = 64;
/** Nodes when all aliases are written out: what stops "billion laughs". */
export const MAX_YAML_NODES = 500_000;
/** Characters of one mistake's description. */
const MAX_MESSAGE = 500;

/**
 * Characters for each value in a text with more than {@link MAX_DENSE_VALUES} of them: policies have eight, and the
 * parser needs kilobytes for each value.
 */
const MIN_VALUE_LENGTH = 3;
const MAX_DENSE_VALUES = 20_000;

/** A mistake in few words: what it quotes may be the whole file. */
export function inFewWords(message: string): string {
  return shorten(message, MAX_MESSAGE);
}

export interface ParsedYaml {
  /** An empty text is a null scalar, and so is one with errors. */
  readonly root: YamlNode;
  /** Empty when the text is sound; `path` is always empty, `file`, `line`, `column` and `code` say where and what. */
  readonly errors: readonly ErrorDetail[];
}

/**
 * Parses one YAML 1.2 document (core schema) into a tree that knows where everything stands. Never throws. Whatever the
 * parser only warns about is an error here, and so are duplicate keys, unknown tags, keys that are not scalars, a
 * second document, aliases that grow beyond {@link MAX_YAML_NODES} and nesting beyond {@link MAX_YAML_DEPTH}; what
 * holds too many values is not parsed. Takes more than a second for each million characters: while calls are served,
 * texts that may be large are read by `readYaml` (`yaml-thread.ts`).
 */
export function parseYaml(text: string, fileName: string): ParsedYaml {
  const lines = new LineCounter();
  const reader = new Reader(fileName, lines);
  if (text.length > MAX_YAML_LENGTH) {
    return {
      root: NULL_ROOT,
      errors: [reader.error('too_large', `the file is larger than ${MAX_YAML_LENGTH} characters`, 0, SMALLER)],
    };
  }
  const odd = UNPRINTABLE.exec(text);
  if (odd !== null) return { root: NULL_ROOT, errors: [unprintable(odd[0], text.slice(0, odd.index), fileName)] };
  if (holdsTooMuch(text)) return { root: NULL_ROOT, errors: [reader.error('too_large', TOO_MUCH, 0, SMALLER)] };
  if (nestsTooDeeply(text)) return { root: NULL_ROOT, errors: [reader.error('too_deep', TOO_DEEP, 0, FLATTER)] };
  const documents = parseDocuments(text, lines);
  if (documents === undefined) return { root: NULL_ROOT, errors: [reader.error('too_deep', TOO_DEEP, 0, FLATTER)] };
  return reader.read(documents);
}

/** The answer for a text of which only the mistakes are known. */
export function unsoundYaml(errors: readonly ErrorDetail[]): ParsedYaml {
  return { root: NULL_ROOT, errors };
}

/** The answer for a text that could not be read, which says nothing about what is in it. */
export function unreadYaml(file: string, why: string): ParsedYaml {
  return {
    root: NULL_ROOT,
    errors: [{ path: '', message: `the text could not be read: ${why}`, code: 'unreadable', file, hint: SMALLER }],
  };
}

/** What no YAML text holds as it is (YAML 1.2, production c-printable). */
const UNPRINTABLE = /[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/u;

function unprintable(character: string, before: string, file: string): ErrorDetail {
  const code = `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`;
  const place = { line: before.split('\n').length, column: before.length - before.lastIndexOf('\n') };
  return {
    path: '',
    message: `a control character (${code}) stands here`,
    code: 'syntax',
    file,
    ...place,
    hint: 'remove it; texts are UTF-8',
  };
}

/** Undefined for what nests deeper than the parser's stack. */
function parseDocuments(text: string, lineCounter: LineCounter): readonly Document.Parsed[] | undefined {
  const { stackTraceLimit } = Error;
  // The parser makes an error object of each mistake, and in a text full of them their stacks, which nobody reads, take
  // most of the time.
  Error.stackTraceLimit = 0;
  try {
    const parsed = parseAllDocuments(text, {
      lineCounter,
      version: '1.2',
      schema: 'core',
      uniqueKeys: false,
      prettyErrors: false,
      stringKeys: false,
    });
    return Array.isArray(parsed) ? parsed : [];
  } catch {
    return undefined;
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

/** Plain JavaScript values: maps become objects with own members only (also `__proto__`), numbers are numbers. */
export function toPlain(node: YamlNode): unknown {
  if (node.kind === 'scalar') return node.value;
  if (node.kind === 'seq') return node.items.map(toPlain);
  return Object.fromEntries(node.entries.map((entry) => [entry.key.source, toPlain(entry.value)]));
}

/** The entry of that name, if the node is a map that has it. */
export function yamlEntry(node: YamlNode | undefined, name: string): YamlEntry | undefined {
  return node?.kind === 'map' ? node.entries.find((entry) => entry.key.source === name) : undefined;
}

/** The value of that name, if the node is a map that has it. */
export function yamlMember(node: YamlNode | undefined, name: string): YamlNode | undefined {
  return yamlEntry(node, name)?.value;
}

const TOO_DEEP = `more than ${MAX_YAML_DEPTH} levels of nesting`;
const TOO_MUCH = `more than ${MAX_YAML_NODES} values, or more than ${MAX_DENSE_VALUES} of fewer than ${MIN_VALUE_LENGTH} characters each`;
const SMALLER = 'split it into several files';
const FLATTER = 'write it with fewer maps and lists inside each other';
const NULL_ROOT: YamlScalar = { kind: 'scalar', value: null, source: '', quoted: false, line: 1, column: 1 };

/**
 * Whether the values take more memory than the text is worth: counted roughly, by what stands between them, before the
 * parser makes objects of them.
 */
function holdsTooMuch(text: string): boolean {
  const most = Math.min(MAX_YAML_NODES, Math.max(MAX_DENSE_VALUES, text.length / MIN_VALUE_LENGTH));
  let values = 0;
  for (const _ of text.matchAll(/[,[{]|:(?=\s|$)|(?<!\n)\n/g)) if (++values > most) return true;
  return false;
}

/**
 * The parser is recursive and takes quadratic time for nesting, so brackets, indentation steps and compact collections
 * are bounded roughly before it runs. What passes here and is still too deep is found when the tree is read.
 */
function nestsTooDeeply(text: string): boolean {
  if (/(?:[-?:] ){65}/.test(text)) return true;
  const indents: number[] = [];
  let open = 0;
  for (const line of text.split('\n')) {
    const indent = line.search(/[^ ]/);
    if (indent === -1) continue;
    while ((indents.at(-1) ?? -1) >= indent) indents.pop();
    indents.push(indent);
    open = deepestBracket(line, indent === 0 ? 0 : open);
    if (open > 2 * MAX_YAML_DEPTH || indents.length > 2 * MAX_YAML_DEPTH) return true;
  }
  return false;
}

/** Brackets that are open after the line, or the first count that is too high. */
function deepestBracket(line: string, before: number): number {
  let open = before;
  for (const [bracket] of line.matchAll(/[[\]{}]/g)) {
    if (bracket === '[' || bracket === '{') open++;
    else if (open > 0) open--;
    if (open > 2 * MAX_YAML_DEPTH) break;
  }
  return open;
}

class Reader {
  readonly #file: string;
  readonly #lines: LineCounter;
  readonly #mistakes = new Mistakes();
  readonly #anchors = new Map<string, { node: YamlNode; size: number }>();
  #nodes = 0;
  #hasAliases = false;

  constructor(file: string, lines: LineCounter) {
    this.#file = file;
    this.#lines = lines;
  }

  read(documents: readonly Document.Parsed[]): ParsedYaml {
    const [first, second] = documents;
    for (const document of documents) {
      for (const problem of [...document.errors, ...document.warnings])
        this.#add(codeOf(problem), problem.message, problem.pos[0], yamlHint(problem));
    }
    if (second !== undefined)
      this.#add('multiple_documents', 'a second document begins here; one file holds one', second.range[0], 'remove the line ---');
    let root: YamlNode = NULL_ROOT;
    if (!this.#mistakes.found && first?.contents) root = this.#node(first.contents, 1);
    return { root: this.#mistakes.found ? NULL_ROOT : root, errors: this.#mistakes.all() };
  }

  error(code: string, message: string, offset: number, hint: string): ErrorDetail {
    return { path: '', message: inFewWords(message), code, file: this.#file, ...this.#at(offset), hint };
  }

  #add(code: string, message: string, offset: number, hint: string): void {
    if (this.#mistakes.full) this.#mistakes.count();
    else this.#mistakes.add(this.error(code, message, offset, hint));
  }

  #at(offset: number): Positioned {
    const { line, col } = this.#lines.linePos(offset);
    return { line: Math.max(1, line), column: Math.max(1, col) };
  }

  #node(node: Node, depth: number): YamlNode {
    const offset = node.range?.[0] ?? 0;
    if (isAlias(node)) return this.#alias(node.source, offset);
    if (depth > MAX_YAML_DEPTH) {
      this.#add('too_deep', TOO_DEEP, offset, FLATTER);
      return NULL_ROOT;
    }
    const before = this.#nodes;
    this.#count(1, offset);
    const read = isCollection(node)
      ? this.#collection(node.items, isMap(node), offset, depth)
      : this.#scalar(isScalar(node) ? node : undefined, offset);
    if (node.anchor !== undefined) this.#anchors.set(node.anchor, { node: read, size: this.#nodes - before });
    return read;
  }

  #collection(items: readonly unknown[], map: boolean, offset: number, depth: number): YamlNode {
    if (!map) return { kind: 'seq', items: items.map((item) => this.#value(item, depth)), ...this.#at(offset) };
    const entries: YamlEntry[] = [];
    const seen = new Set<string>();
    for (const pair of items) {
      if (!isPair<Node, Node | null>(pair)) continue;
      const key = this.#node(pair.key, depth + 1);
      const keyOffset = pair.key.range?.[0] ?? offset;
      if (key.kind !== 'scalar') {
        this.#add('bad_key', 'a key must be a single text', keyOffset, 'a list or a map cannot be a key');
        continue;
      }
      if (seen.has(key.source)) this.#add('duplicate_key', `"${key.source}" stands twice in this map`, keyOffset, 'keep one of the two');
      seen.add(key.source);
      entries.push({
        key,
        value: pair.value === null ? { ...NULL_ROOT, line: key.line, column: key.column } : this.#value(pair.value, depth),
      });
    }
    return { kind: 'map', entries, ...this.#at(offset) };
  }

  #value(item: unknown, depth: number): YamlNode {
    if (isScalar(item) || isCollection(item) || isAlias(item)) return this.#node(item, depth + 1);
    return NULL_ROOT;
  }

  #scalar(node: Scalar | undefined, offset: number): YamlScalar {
    const value: unknown = node?.value ?? null;
    const quoted = node?.type !== undefined && node.type !== 'PLAIN';
    const source = node?.source ?? '';
    const plain = typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? value : null;
    return { kind: 'scalar', value: plain, source, quoted, ...this.#at(offset) };
  }

  /**
   * An anchor is known only after its node was read, so an alias inside its own node is unknown, and there are no
   * cycles.
   */
  #alias(name: string, offset: number): YamlNode {
    const target = this.#anchors.get(name);
    if (target === undefined) {
      this.#add(
        'bad_alias',
        `"*${name}" names no anchor that stands before it`,
        offset,
        `put it before by &${name}, or write "*${name}" if it is meant as text`,
      );
      return NULL_ROOT;
    }
    this.#hasAliases = true;
    this.#count(target.size, offset);
    // What is inside stands at the anchor, the whole of it here.
    return { ...target.node, ...this.#at(offset) };
  }

  #count(nodes: number, offset: number): void {
    const before = this.#nodes;
    this.#nodes += nodes;
    if (before > MAX_YAML_NODES || this.#nodes <= MAX_YAML_NODES) return;
    const [how, fewer] = this.#hasAliases ? [' when aliases are written out', 'use fewer aliases (*), or several files'] : ['', SMALLER];
    this.#add('too_large', `more than ${MAX_YAML_NODES} nodes${how}`, offset, fewer);
  }
}

function codeOf(problem: YAMLError): string {
  return problem.code === 'TAG_RESOLVE_FAILED' ? 'unknown_tag' : 'syntax';
}

/*
 * What to do about a mistake of YAML itself, by the parser's code for it. Its messages are in the words of the YAML
 * specification, which who writes a file need not know.
 */

const QUOTE_IT = 'put the whole text in quotes';
const SAME_COLUMN = 'keys of one map stand in one column: indent this line, or the next, as the keys around it';

const BY_CODE: Readonly<Partial<Record<YAMLError['code'], string>>> = {
  BAD_ALIAS: '& and * are signs of YAML: put the whole text in quotes if it is meant as text',
  BAD_COLLECTION_TYPE: 'remove the tag (!…)',
  BAD_DIRECTIVE: 'remove the line that begins with %',
  BAD_DQ_ESCAPE: 'in double quotes a backslash begins an escape: double it, or use single quotes',
  BAD_INDENT: SAME_COLUMN,
  BAD_SCALAR_START: QUOTE_IT,
  BLOCK_AS_IMPLICIT_KEY: SAME_COLUMN,
  BLOCK_IN_FLOW: 'in { } and [ ] members are separated by commas, and a text with a colon and a space needs quotes',
  DUPLICATE_KEY: 'keep one of the two',
  MULTILINE_IMPLICIT_KEY: 'a key has its colon, with a space behind it, on its own line; check also the indentation around it',
  MULTIPLE_DOCS: 'remove the line ---',
  TAB_AS_INDENT: 'indent with spaces',
  TAG_RESOLVE_FAILED: 'tags (!…) are not used here: write the plain value',
  UNEXPECTED_TOKEN: 'a comma, a colon or a closing bracket or quote is missing, or is one too many, at or before this place',
};

const BY_TEXT: readonly (readonly [RegExp, string])[] = [
  [/without - indicator/, 'begin the item with "- ", or indent the line as the keys around it'],
  [/^Missing ,/, 'members in { } and [ ] are separated by commas'],
  [/^Missing space/, 'put a space behind the colon'],
  [/quote/, 'a quote that is opened at or before this place is not closed'],
  [/\}$/, 'a { is not closed: its } is missing, or stands too far left'],
  [/\]$/, 'a [ is not closed: its ] is missing, or stands too far left'],
];

/** A hint for every mistake that the parser finds. */
function yamlHint({ code, message }: YAMLError): string {
  const byText = code === 'MISSING_CHAR' || code === 'BAD_INDENT' ? BY_TEXT.find(([pattern]) => pattern.test(message))?.[1] : undefined;
  return byText ?? BY_CODE[code] ?? 'check the indentation, and put texts with special characters in quotes';
}
