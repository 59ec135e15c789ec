import { percentDecoded } from '../../base/lib/text.ts';
import type { Route } from './route.ts';

/** A route whose path a request has. */
export interface RouteMatch<R extends Route = Route> {
  readonly route: R;
  /** Values of the pattern's names, percent-decoded. */
  readonly params: Readonly<Record<string, string>>;
}

/** A route in the tree. */
interface Row {
  readonly route: Route;
  /** Place in the table: of two routes that fit the first one counts. */
  readonly order: number;
  /** Which segments its names take. */
  readonly names: readonly (readonly [at: number, name: string])[];
  /** The name of what is left of the path, and the segment with which that begins. */
  readonly rest: readonly [at: number, name: string] | undefined;
}

interface Node {
  readonly words: Map<string, Node>;
  /** For a segment that is a name's value. */
  any: Node | undefined;
  /** Routes whose path ends here. */
  readonly ends: Row[];
  /** Routes that take all that follows, one segment at least. */
  readonly rests: Row[];
}

/**
 * Routes by the segments of their paths: a request looks only at what its own path can be. Words are compared as they
 * were sent, so that `%61dmin` is not `admin`; a slash that is encoded in a segment belongs to its value.
 */
export class RouteTree {
  readonly #root: Node = emptyNode();

  constructor(routes: readonly Route[]) {
    for (const [order, route] of routes.entries()) this.#add(route, order);
  }

  /**
   * Routes that have this path (without query), in the order of the table.
   * @param ambientPort only those that the ambient port serves
   */
  matches(path: string, ambientPort: boolean): RouteMatch[] {
    const given = path.split('/');
    const rows: Row[] = [];
    collect(this.#root, given, 0, rows);
    if (rows.length > 1) rows.sort((a, b) => a.order - b.order);
    const found: RouteMatch[] = [];
    for (const row of rows) {
      if (ambientPort && row.route.ambient !== true) continue;
      const params = paramsOf(row, given);
      if (params !== undefined) found.push({ route: row.route, params });
    }
    return found;
  }

  #add(route: Route, order: number): void {
    const names: [number, string][] = [];
    let node = this.#root;
    for (const [at, segment] of route.path.split('/').entries()) {
      const name = /^\{(\*?)(\w+)\}$/.exec(segment);
      if (name?.[1] === '*') {
        node.rests.push({ route, order, names, rest: [at, name[2] ?? ''] });
        return;
      }
      if (name) names.push([at, name[2] ?? '']);
      node = name ? anyBelow(node) : wordBelow(node, segment);
    }
    node.ends.push({ route, order, names, rest: undefined });
  }
}

function anyBelow(node: Node): Node {
  node.any ??= emptyNode();
  return node.any;
}

function emptyNode(): Node {
  return { words: new Map(), any: undefined, ends: [], rests: [] };
}

function wordBelow({ words }: Node, segment: string): Node {
  const node = words.get(segment) ?? emptyNode();
  words.set(segment, node);
  return node;
}

/** Finds the rows that a path can be of. The depth of the tree bounds the work, however long the path is. */
function collect(node: Node, given: readonly string[], at: number, found: Row[]): void {
  if (at === given.length) {
    found.push(...node.ends);
    return;
  }
  found.push(...node.rests);
  const word = node.words.get(given[at] ?? '');
  if (word !== undefined) collect(word, given, at + 1, found);
  if (node.any !== undefined) collect(node.any, given, at + 1, found);
}

/** @returns undefined when a value is empty or is not text that was percent-encoded */
function paramsOf({ names, rest }: Row, given: readonly string[]): Record<string, string> | undefined {
  const params: Record<string, string> = {};
  for (const [at, name] of names) {
    const value = percentDecoded(given[at] ?? '');
    if (value === undefined || value === '') return undefined;
    params[name] = value;
  }
  if (rest === undefined) return params;
  const [from, name] = rest;
  const segments = given.slice(from).map(percentDecoded);
  if (segments.some((segment) => segment === undefined || !isPlain(segment))) return undefined;
  params[name] = segments.join('/');
  return params;
}

/** Whether a segment of a longer path names one thing below the one before it. */
function isPlain(segment: string): boolean {
  return segment !== '' && segment !== '.' && segment !== '..' && !/[/\\\0]/.test(segment);
}
