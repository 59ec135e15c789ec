import type { Sliced } from './slices.ts';

/*
 * A tree as it comes out of a thread. To receive half a million objects takes a second in which nobody else is served;
 * a few arrays of numbers and one text take none, and the tree is made of them in slices.
 */

/** All nodes, each before what is inside of it; an entry of a map is its key and its value. */
export interface PackedYaml {
  /** What each is, {@link QUOTED} added. */
  readonly kinds: Uint8Array;
  readonly lines: Uint32Array;
  readonly columns: Uint32Array;
  /** Of maps and lists how many entries they have, of scalars the length of their source. */
  readonly sizes: Uint32Array;
  /** Sources, and where a text reads otherwise than it stands there behind it how it reads, in one. */
  readonly text: string;
  /** Lengths of texts that read otherwise, in their order. */
  readonly others: Uint32Array;
  readonly numbers: Float64Array;
}

const MAP = 0;
const SEQ = 1;
const NULL = 2;
const TEXT = 3;
const OTHER_TEXT = 4;
const NUMBER = 5;
const TRUE = 6;
const FALSE = 7;
const QUOTED = 8;
/** Nodes between two pauses, and the steps that they count for. */
const NODES = 256;
const STEPS = 64;

/** Packs a tree; what several aliases name is packed once for each. */
export function packYaml(root: YamlNode): PackedYaml {
  const kinds: number[] = [];
  const lines: number[] = [];
  const columns: number[] = [];
  const sizes: number[] = [];
  const texts: string[] = [];
  const others: number[] = [];
  const numbers: number[] = [];
  const packScalar = (node: YamlScalar): void => {
    const kind = kindOf(node);
    kinds.push(node.quoted ? kind + QUOTED : kind);
    sizes.push(node.source.length);
    texts.push(node.source);
    if (typeof node.value === 'number') numbers.push(node.value);
    else if (kind === OTHER_TEXT && typeof node.value === 'string') {
      others.push(node.value.length);
      texts.push(node.value);
    }
  };
  const pack = (node: YamlNode): void => {
    lines.push(node.line);
    columns.push(node.column);
    if (node.kind === 'scalar') {
      packScalar(node);
      return;
    }
    const inner = node.kind === 'seq' ? node.items : node.entries.flatMap(({ key, value }) => [key, value]);
    kinds.push(node.kind === 'seq' ? SEQ : MAP);
    sizes.push(node.kind === 'seq' ? inner.length : inner.length / 2);
    inner.forEach(pack);
  };
  pack(root);
  return {
    kinds: Uint8Array.from(kinds),
    lines: Uint32Array.from(lines),
    columns: Uint32Array.from(columns),
    sizes: Uint32Array.from(sizes),
    text: texts.join(''),
    others: Uint32Array.from(others),
    numbers: Float64Array.from(numbers),
  };
}

function kindOf({ value, source }: YamlScalar): number {
  if (value === null) return NULL;
  if (typeof value === 'string') return value === source ? TEXT : OTHER_TEXT;
  if (typeof value === 'number') return NUMBER;
  return value ? TRUE : FALSE;
}

const EMPTY: YamlScalar = { kind: 'scalar', value: null, source: '', quoted: false, line: 1, column: 1 };

/** A map or list that is being filled. */
interface Filling {
  readonly items: YamlNode[] | undefined;
  readonly entries: YamlEntry[] | undefined;
  left: number;
  key: YamlScalar | undefined;
}

/** Makes the tree, in slices. */
export function* unpackYaml(packed: PackedYaml): Sliced<YamlNode> {
  const { kinds, sizes } = packed;
  const scalars = new Scalars(packed);
  const open: Filling[] = [];
  let root: YamlNode | undefined;
  for (let i = 0; i < kinds.length; i++) {
    if (i % NODES === NODES - 1) yield STEPS;
    const kind = kinds[i] ?? NULL;
    const size = sizes[i] ?? 0;
    const at = placeOf(packed, i);
    const filling = fillingOf(kind, size);
    const node = filling === undefined ? scalars.next(kind, size, at) : filled(filling, at);
    if (root !== undefined) put(open.at(-1), node);
    root ??= node;
    if (filling !== undefined) open.push(filling);
    while (open.at(-1)?.left === 0) open.pop();
  }
  return root ?? EMPTY;
}

function placeOf({ lines, columns }: PackedYaml, i: number): Positioned {
  return { line: lines[i] ?? 1, column: columns[i] ?? 1 };
}

function fillingOf(kind: number, size: number): Filling | undefined {
  if (kind === MAP) return { items: undefined, entries: [], left: size, key: undefined };
  return kind === SEQ ? { items: [], entries: undefined, left: size, key: undefined } : undefined;
}

function filled({ items, entries }: Filling, at: Positioned): YamlNode {
  return entries === undefined ? { kind: 'seq', items: items ?? [], ...at } : { kind: 'map', entries, ...at };
}

function put(into: Filling | undefined, node: YamlNode): void {
  if (into === undefined) return;
  if (into.items !== undefined) into.items.push(node);
  else if (into.key === undefined) {
    if (node.kind === 'scalar') into.key = node;
    return;
  } else {
    into.entries?.push({ key: into.key, value: node });
    into.key = undefined;
  }
  into.left--;
}

/** Takes the texts and numbers of scalars one after the other. */
class Scalars {
  readonly #packed: PackedYaml;
  #text = 0;
  #other = 0;
  #number = 0;

  constructor(packed: PackedYaml) {
    this.#packed = packed;
  }

  next(kind: number, length: number, { line, column }: Positioned): YamlScalar {
    const source = this.#take(length);
    return { kind: 'scalar', value: this.#value(kind % QUOTED, source), source, quoted: kind >= QUOTED, line, column };
  }

  #value(kind: number, source: string): YamlScalar['value'] {
    if (kind === TEXT) return source;
    if (kind === OTHER_TEXT) return this.#take(this.#packed.others[this.#other++] ?? 0);
    if (kind === NUMBER) return this.#packed.numbers[this.#number++] ?? 0;
    return kind === NULL ? null : kind === TRUE;
  }

  #take(length: number): string {
    const from = this.#text;
    this.#text += length;
    return this.#packed.text.slice(from, this.#text);
  }
}

/*
 * A YAML document as the gateway reads it: maps, lists and single values that know where they stand.
 */

export interface Positioned {
  /** From 1. */
  readonly line: number;
  /** From 1, in UTF-16 units. */
  readonly column: number;
}

/** A scalar with the text that stands in the file: `1.10` has the value 1.1 and the source `1.10` (policy.md 17). */
export interface YamlScalar extends Positioned {
  readonly kind: 'scalar';
  readonly value: string | number | boolean | null;
  /** Plain scalars as written, quoted and block ones as they read. */
  readonly source: string;
  /** Quoted or block: certainly meant as text. */
  readonly quoted: boolean;
}

export interface YamlEntry {
  /** `key.source` is the name. */
  readonly key: YamlScalar;
  readonly value: YamlNode;
}

export interface YamlMap extends Positioned {
  readonly kind: 'map';
  /** In file order, names unique. */
  readonly entries: readonly YamlEntry[];
}

export interface YamlSeq extends Positioned {
  readonly kind: 'seq';
  readonly items: readonly YamlNode[];
}

export type YamlNode = YamlScalar | YamlMap | YamlSeq;
