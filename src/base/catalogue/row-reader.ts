import type { ErrorDetail } from '../lib/gateway-error.ts';
import { type YamlEntry, type YamlMap, type YamlNode, yamlEntry } from '../lib/yaml.ts';

/** Collects every mistake of a data file before the loader gives up. */
export class RowProblems {
  readonly file: string;
  readonly #list: ErrorDetail[] = [];

  constructor(file: string) {
    this.file = file;
  }

  add(path: string, message: string, at?: { readonly line: number; readonly column: number }): void {
    this.#list.push({ path, message, file: this.file, ...(at ? { line: at.line, column: at.column } : {}) });
  }

  get list(): readonly ErrorDetail[] {
    return this.#list;
  }
}

/**
 * A map of a data file, read member by member; what is missing, misspelt or of the wrong type becomes a problem with
 * its place.
 */
export class Row {
  readonly node: YamlMap;
  readonly path: string;
  readonly #problems: RowProblems;

  private constructor(node: YamlMap, path: string, problems: RowProblems) {
    this.node = node;
    this.path = path;
    this.#problems = problems;
  }

  /** Undefined, and a problem, when the node is no map or has a member that is not in `known`. */
  static from(node: YamlNode | undefined, path: string, problems: RowProblems, known?: readonly string[]): Row | undefined {
    if (node?.kind !== 'map') {
      problems.add(path, 'must be a map', node);
      return undefined;
    }
    const row = new Row(node, path, problems);
    if (known === undefined) return row;
    for (const { key } of node.entries) {
      if (!known.includes(key.source)) row.problem(key.source, `is not one of ${known.join(', ')}`, key);
    }
    return row;
  }

  problem(name: string, message: string, at?: { readonly line: number; readonly column: number }): void {
    this.#problems.add(`${this.path}.${name}`, message, at ?? this.node);
  }

  has(name: string): boolean {
    return this.#entry(name) !== undefined;
  }

  entries(): readonly YamlEntry[] {
    return this.node.entries;
  }

  value(name: string): YamlNode | undefined {
    return this.#entry(name)?.value;
  }

  /** Text that must be there. */
  need(name: string): string {
    const text = this.text(name);
    if (text === undefined && !this.has(name)) this.problem(name, 'is missing');
    return text ?? '';
  }

  text(name: string): string | undefined {
    const node = this.value(name);
    if (node === undefined) return undefined;
    const text = scalarText(node);
    if (text === undefined) this.problem(name, 'must be text', node);
    return text;
  }

  flag(name: string, absent: boolean): boolean {
    const node = this.value(name);
    if (node === undefined) return absent;
    if (node.kind === 'scalar' && typeof node.value === 'boolean') return node.value;
    this.problem(name, 'must be true or false', node);
    return absent;
  }

  /** Absent counts as empty. */
  texts(name: string): readonly string[] {
    const node = this.value(name);
    if (node === undefined) return [];
    const texts = node.kind === 'seq' ? node.items.map(scalarText) : [undefined];
    if (texts.every((text) => text !== undefined)) return texts;
    this.problem(name, 'must be a list of texts', node);
    return [];
  }

  /** One text, or a list of them. */
  textOrTexts(name: string): readonly string[] {
    return this.value(name)?.kind === 'seq' ? this.texts(name) : [this.need(name)];
  }

  row(name: string, known?: readonly string[]): Row | undefined {
    return this.has(name) ? Row.from(this.value(name), `${this.path}.${name}`, this.#problems, known) : undefined;
  }

  /** Absent counts as empty. */
  rows(name: string, known?: readonly string[]): readonly Row[] {
    const node = this.value(name);
    if (node === undefined) return [];
    if (node.kind !== 'seq') {
      this.problem(name, 'must be a list', node);
      return [];
    }
    return node.items.flatMap((item, i) => Row.from(item, `${this.path}.${name}[${i}]`, this.#problems, known) ?? []);
  }

  #entry(name: string): YamlEntry | undefined {
    return yamlEntry(this.node, name);
  }
}

function scalarText(node: YamlNode): string | undefined {
  return node.kind === 'scalar' && (typeof node.value === 'string' || typeof node.value === 'number')
    ? String(node.quoted ? node.value : node.source)
    : undefined;
}

/** One data line: its cells by column order, and its number in the file, from 1. */
export interface CsvLine {
  readonly line: number;
  readonly cells: readonly string[];
}

/**
 * Reads a comma-separated file without quoting, the only form that the shipped tables have. The first line must be
 * exactly `columns`.
 */
export function readCsv(text: string, columns: readonly string[], problems: RowProblems): readonly CsvLine[] {
  const lines = text.split('\n');
  if (lines[0]?.trimEnd() !== columns.join(',')) problems.add('', `the first line must be ${columns.join(',')}`, { line: 1, column: 1 });
  const read: CsvLine[] = [];
  for (let i = 1; i < lines.length; i++) {
    const line = lines[i]?.trimEnd() ?? '';
    if (line === '') continue;
    const cells = line.split(',');
    if (cells.length === columns.length && !line.includes('"')) read.push({ line: i + 1, cells });
    else problems.add('', `needs ${columns.length} cells without quotes`, { line: i + 1, column: 1 });
  }
  return read;
}

/** The data about providers and prices cannot be used. Thrown at start with every mistake at once. */
export class CatalogueError extends Error {
  readonly details: readonly ErrorDetail[];

  constructor(details: readonly ErrorDetail[], options?: ErrorOptions) {
    super(`the catalogue does not load:\n${details.map(describe).join('\n')}`, options);
    this.name = 'CatalogueError';
    this.details = details;
  }
}

function describe(detail: ErrorDetail): string {
  const place = [detail.file, detail.line, detail.column].filter((part) => part !== undefined).join(':');
  return `  ${place}: ${detail.path === '' ? '' : `${detail.path} `}${detail.message}`;
}
