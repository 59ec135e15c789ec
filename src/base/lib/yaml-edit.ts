import { type Document, isMap, isNode, isScalar, isSeq, type Node, parseDocument, YAMLMap, YAMLSeq } from 'yaml';
import { keepSource } from './yaml-format.ts';

/** Where in its list an item comes to stand; neither: at the end, or where one of its id stood. */
export interface ItemPlace {
  readonly before?: string | undefined;
  readonly after?: string | undefined;
}

/** An item of a list as text of its own (YAML), or as data. */
export type GivenItem = { readonly yaml: string } | { readonly data: object };

/** What cannot be changed in a text without breaking another part of it; `message` is for a person. */
export class YamlEditError extends Error {}

/**
 * Changes single items of lists in a YAML text that is sound (`parseYaml`), such as the rules of a bundle: maps with an
 * `id`, in lists that stand in maps. Comments, the order of all other items and their spelling stay as they are. Takes
 * as long as `parseYaml`.
 */
export class YamlEdit {
  readonly #document: Document;

  constructor(text: string) {
    this.#document = documentOf(text);
  }

  /** Ids of the items of a list, in their order; undefined when there is no such list. */
  ids(path: readonly string[]): readonly string[] | undefined {
    return this.#list(path)?.items.map(idOf);
  }

  /** Keys of a map, in their order; none where there is no map. */
  keys(path: readonly string[]): readonly string[] {
    const node = path.length === 0 ? this.#document.contents : this.#document.getIn(path, true);
    return isMap(node) ? node.items.map(({ key }) => textOf(key)) : [];
  }

  /** An item as a YAML text of its own, with the comments within it. */
  item(path: readonly string[], id: string): string | undefined {
    const found = this.#list(path)?.items.find((one) => idOf(one) === id);
    if (!isNode(found)) return undefined;
    const text = this.#alone(found);
    return isMap(found) && found.flow !== true ? text : text.trimEnd();
  }

  /**
   * Puts an item in the place of the one with its id, or as a new one.
   * @throws YamlEditError when the one that `place` names is not there
   */
  put(path: readonly string[], id: string, given: GivenItem, place: ItemPlace = {}): void {
    const list = this.#list(path) ?? this.#newList(path);
    const item = this.#nodeOf(given, id);
    const at = list.items.findIndex((one) => idOf(one) === id);
    const old = list.items[at];
    if (isNode(old)) {
      item.commentBefore ??= old.commentBefore ?? null;
      item.comment ??= old.comment ?? null;
      if (old.spaceBefore !== undefined) item.spaceBefore = old.spaceBefore;
    }
    const beside = place.before ?? place.after;
    if (beside === undefined) {
      if (at === -1) list.items.push(item);
      else list.items[at] = item;
      return;
    }
    if (at !== -1) list.items.splice(at, 1);
    const next = list.items.findIndex((one) => idOf(one) === beside);
    if (next === -1) throw new YamlEditError(`there is no rule "${beside}" here beside which it could stand`);
    list.items.splice(place.before === undefined ? next + 1 : next, 0, item);
  }

  /** Takes an item away; a list that was left without items goes too. @returns whether it was there */
  remove(path: readonly string[], id: string): boolean {
    const list = this.#list(path);
    const at = list?.items.findIndex((one) => idOf(one) === id) ?? -1;
    if (list === undefined || at === -1) return false;
    list.items.splice(at, 1);
    const [first] = list.items;
    if (list.items.length === 0) this.#document.deleteIn(path);
    // A blank line stood between two items, and none stands before the first one.
    else if (at === 0 && isNode(first)) first.spaceBefore = false;
    return true;
  }

  /** Sets a member of a map that another text has, as it stands there. */
  take(path: readonly string[], from: YamlEdit): void {
    const node = from.#document.getIn(path, true);
    if (isNode(node)) this.#document.setIn(path, node.clone());
  }

  /** @throws YamlEditError when what was taken away is used elsewhere in the text (`&anchor`, `*anchor`) */
  text(): string {
    return written(this.#document);
  }

  /** What stands for something elsewhere in the text is written out. */
  #alone(node: Node): string {
    const alone = documentOf('');
    try {
      alone.contents = node.clone() as never;
      return written(alone);
    } catch (error) {
      if (!(error instanceof YamlEditError)) throw error;
      alone.contents = alone.createNode(node.toJS(this.#document)) as never;
      return written(alone);
    }
  }

  #nodeOf(given: GivenItem, id: string): Node {
    const contents = 'data' in given ? this.#document.createNode(given.data) : documentOf(given.yaml).contents;
    if (!isMap(contents)) throw new YamlEditError('a rule must be a map');
    if (!contents.has('id')) contents.items.unshift(this.#document.createPair('id', id));
    else if (idOf(contents) !== id) throw new YamlEditError(`the rule has the id ${idOf(contents)}, and is put as ${id}`);
    const first = contents.items[0]?.key;
    // What stands above the first member is about the whole item, and stands above its dash.
    if (isScalar(first) && first.commentBefore !== undefined) {
      contents.commentBefore = first.commentBefore;
      first.commentBefore = null;
    }
    return contents;
  }

  #list(path: readonly string[]): YAMLSeq | undefined {
    const node = this.#document.getIn(path, true);
    if (!isSeq(node)) return undefined;
    const [first] = node.items;
    // A comment above the first item is about that item.
    if (node.flow !== true && isNode(first) && typeof node.commentBefore === 'string') {
      first.commentBefore = [node.commentBefore, first.commentBefore].filter((text) => typeof text === 'string').join('\n');
      node.commentBefore = null;
    }
    return node;
  }

  #newList(path: readonly string[]): YAMLSeq {
    const list = new YAMLSeq();
    const around = path.slice(0, -1);
    const map = this.#document.getIn(around, true);
    if (isMap(map)) {
      // `{}` was written because nothing stood in it.
      if (map.items.length === 0) map.flow = false;
      list.flow = map.flow === true;
    } else this.#document.setIn(around, new YAMLMap());
    this.#document.setIn(path, list);
    return list;
  }
}

function documentOf(text: string): Document {
  return parseDocument(text, { version: '1.2', schema: 'core', uniqueKeys: false, customTags: keepSource });
}

function written(document: Document): string {
  try {
    return document.toString({ indent: 2, indentSeq: true, lineWidth: 0, flowCollectionPadding: false });
  } catch (error) {
    const why = error instanceof Error ? error.message : '';
    throw new YamlEditError(`another part of the text needs what would be taken away: ${why}`, { cause: error });
  }
}

function idOf(item: unknown): string {
  if (!isMap(item)) return '';
  return textOf(item.get('id', true));
}

function textOf(node: unknown): string {
  return isScalar(node) ? (node.source ?? String(node.value)) : '';
}
