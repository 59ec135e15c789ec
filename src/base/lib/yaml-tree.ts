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
