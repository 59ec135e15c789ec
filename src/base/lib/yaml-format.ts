import {
  type Document,
  isAlias,
  isCollection,
  isMap,
  isScalar,
  isSeq,
  Lexer,
  type Node,
  type Pair,
  parseDocument,
  Scalar,
  type SchemaOptions,
  type YAMLMap,
} from 'yaml';
import { parseYaml, type YamlNode } from './yaml.ts';

/**
 * The order of a map's keys; keys that are not named come last and stay as they are. Undefined: the map stays as it is.
 */
export type KeyOrder = (keys: readonly string[], way: readonly string[]) => ((a: string, b: string) => number) | undefined;

/** A text that cannot be formatted without changing what it says; `message` is for a person. */
export class YamlFormatError extends Error {}

/** Flow collections that take more characters are written as blocks. */
const MAX_FLOW = 120;
/** Blocks that the writer moved can move once more; a third time never happened. */
const MAX_PASSES = 4;

/**
 * The canonical layout of a YAML text: indentation of two, one blank line at most, double quotes, long flow collections
 * as blocks, keys in the given order. Comments stay with what they stand at; scalars keep their source text. Formatting
 * again changes nothing.
 * @throws YamlFormatError when a comment would be lost or the meaning would change: the text is then to be left as it
 * is
 */
export function formatYaml(text: string, order: KeyOrder): string {
  const [mistake] = parseYaml(text, '').errors;
  if (mistake !== undefined) throw new YamlFormatError(`line ${mistake.line}: ${mistake.message}`);
  let formatted = text;
  for (let pass = 0; pass < MAX_PASSES; pass++) {
    const next = formatOnce(formatted, order);
    if (next === formatted) {
      checkSame(text, formatted);
      return formatted;
    }
    formatted = next;
  }
  throw new YamlFormatError('it has no stable layout');
}

function formatOnce(text: string, order: KeyOrder): string {
  const document = parseDocument(text, { version: '1.2', schema: 'core', uniqueKeys: false, customTags: keepSource });
  const [error] = document.errors;
  if (error !== undefined) throw new YamlFormatError(error.message);
  if (document.contents !== null) layOut(document.contents, [], order);
  return document.toString({ indent: 2, indentSeq: true, lineWidth: 0, flowCollectionPadding: false });
}

/** Numbers, booleans and nulls are written as they stand: `1.10` is a version, `1e3` stays `1e3`. */
export const keepSource: Extract<SchemaOptions['customTags'], (...args: never[]) => unknown> = (tags) =>
  tags.map((tag) => {
    if (typeof tag === 'string' || tag.collection !== undefined || tag.tag === 'tag:yaml.org,2002:str') return tag;
    const { stringify } = tag;
    return { ...tag, stringify: (item, ...rest) => item.source ?? stringify?.(item, ...rest) ?? String(item.value) };
  });

function layOut(node: Document.Parsed['contents'] | Node, way: readonly string[], order: KeyOrder): void {
  if (isScalar(node)) {
    if (node.type === Scalar.QUOTE_SINGLE && typeof node.value === 'string' && !/["\\]/.test(node.value)) node.type = Scalar.QUOTE_DOUBLE;
    return;
  }
  if (!isCollection(node)) return;
  if (node.flow === true && lengthOf(node) > MAX_FLOW) node.flow = false;
  if (isSeq<Node>(node)) for (const item of node.items) layOut(item, way, order);
  if (!isMap<Node, Node | null>(node)) return;
  sortKeys(node, way, order);
  for (const { key, value } of node.items) {
    layOut(key, way, order);
    if (value !== null) layOut(value, [...way, keyText(key)], order);
  }
}

function sortKeys(map: YAMLMap<Node, Node | null>, way: readonly string[], order: KeyOrder): void {
  const compare = order(
    map.items.map(({ key }) => keyText(key)),
    way,
  );
  if (compare === undefined) return;
  const before = [...map.items];
  map.items.sort((a: Pair<Node>, b: Pair<Node>) => compare(keyText(a.key), keyText(b.key)));
  const [first] = map.items;
  // A blank line before what now comes first would stand between a dash and its map.
  if (first !== before[0] && isScalar(first?.key)) first.key.spaceBefore = false;
}

function keyText(key: Node): string {
  return isScalar(key) ? (key.source ?? String(key.value)) : '';
}

/** Characters of a node on one line, whatever its layout is now. */
function lengthOf(node: unknown): number {
  if (isScalar(node)) return (node.source ?? String(node.value)).length + (node.type === undefined || node.type === Scalar.PLAIN ? 0 : 2);
  if (isAlias(node)) return node.source.length + 1;
  if (isSeq(node)) return node.items.reduce<number>((sum, item) => sum + lengthOf(item) + 2, 0);
  if (isMap(node)) return node.items.reduce<number>((sum, { key, value }) => sum + lengthOf(key) + lengthOf(value) + 4, 0);
  return 0;
}

function checkSame(before: string, after: string): void {
  const lost = commentsOf(before).find(
    (comment, i, all) => count(all, comment) > count(commentsOf(after), comment) && all.indexOf(comment) === i,
  );
  if (lost !== undefined) throw new YamlFormatError(`a comment would be lost: ${lost}`);
  if (JSON.stringify(meaningOf(parseYaml(before, '').root)) !== JSON.stringify(meaningOf(parseYaml(after, '').root))) {
    throw new YamlFormatError('its meaning would change');
  }
}

function count(all: readonly string[], text: string): number {
  return all.filter((one) => one === text).length;
}

/** Every comment of a text, without the space around it. */
function commentsOf(text: string): readonly string[] {
  const comments: string[] = [];
  let inScalar = false;
  for (const lexeme of new Lexer().lex(text)) {
    if (!inScalar && lexeme.startsWith('#')) comments.push(lexeme.trim());
    inScalar = lexeme === SCALAR;
  }
  return comments;
}

/** What the lexer puts before the text of a scalar. */
const SCALAR = '\u001f';

/** What a reader of positions, sources and values sees; the order of keys is none of it. */
function meaningOf(node: YamlNode): unknown {
  if (node.kind === 'scalar') return [node.source, node.value, node.quoted];
  if (node.kind === 'seq') return node.items.map(meaningOf);
  const entries = node.entries.map(({ key, value }): [string, unknown] => [key.source, meaningOf(value)]);
  return { map: entries.sort(([a], [b]) => (a < b ? -1 : 1)) };
}
