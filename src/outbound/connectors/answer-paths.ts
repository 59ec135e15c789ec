/*
 * Where something stands in an answer: names of members from the outside in, separated by dots. `*` stands for each
 * element of a list, `[name=value]` for each element that has this member, and `=value` behind the last name takes only
 * the values that are this text. An empty path is the value itself.
 */

/** Names alone, without anything that stands for several. */
export type Path = readonly string[];

/** Stands in a path for each element of a list. */
export const EACH = '*';

/** A path that may stand for several values. */
export interface ValuePath {
  readonly steps: readonly Step[];
  /** Only a value that is this text counts. */
  readonly only: string | undefined;
}

type Step = string | { readonly member: string; readonly is: string };

/** `usage.details` → its member names. */
export function compilePath(text: string): Path {
  return text === '' ? [] : text.split('.');
}

const SELECTOR = /^\[([^=\]]+)=([^\]]*)\]$/;

export function compileValuePath(text: string): ValuePath {
  const [, path = text, only] = /^([^[\]]*[^=[\]])=([^=\]]+)$/.exec(text) ?? [];
  const steps = compilePath(path).map((name): Step => {
    const [, member, is] = SELECTOR.exec(name) ?? [];
    return member === undefined || is === undefined ? name : { member, is };
  });
  return { steps, only };
}

/** The value at a path, own members only; undefined when there is none. */
export function valueAt(root: unknown, path: Path): unknown {
  let value = root;
  // Asked of every event of a stream, so nothing is called for a step.
  for (let at = 0; at < path.length; at++) {
    const name = path[at] ?? '';
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
    value = (value as Readonly<Record<string, unknown>>)[name];
  }
  return value;
}

/** Tells of each value at a path that is there. */
export function eachValueAt(root: unknown, { steps, only }: ValuePath, use: (value: unknown) => void): void {
  walk(root, steps, 0, only === undefined ? use : (value) => value === only && use(value));
}

function walk(root: unknown, steps: readonly Step[], from: number, use: (value: unknown) => void): void {
  let value = root;
  for (let at = from; at < steps.length; at++) {
    const step = steps[at];
    if (step === EACH || typeof step !== 'string') {
      walkElements(value, steps, at, use);
      return;
    }
    if (!isRecord(value) || !Object.hasOwn(value, step)) return;
    value = value[step];
  }
  if (value !== undefined && value !== null) use(value);
}

function walkElements(list: unknown, steps: readonly Step[], at: number, use: (value: unknown) => void): void {
  if (!Array.isArray(list)) return;
  const step = steps[at];
  for (const element of list) if (step === EACH || fits(element, step)) walk(element, steps, at + 1, use);
}

function fits(element: unknown, step: Step | undefined): boolean {
  if (typeof step !== 'object' || !isRecord(element) || !Object.hasOwn(element, step.member)) return false;
  const value = element[step.member];
  return typeof value === 'string' && value.toLowerCase() === step.is.toLowerCase();
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}

/** Many paths as one tree, so that a value is walked once, by the members that it has. */
export interface PathTree {
  /** Numbers of the paths that end here. */
  readonly ends: number[];
  readonly named: Map<string, PathTree>;
  readonly elements: { readonly step: Step; readonly below: PathTree }[];
}

/** @param paths each with the number by which it is told */
export function pathTree(paths: readonly (readonly [number, ValuePath])[]): PathTree {
  const tree = emptyTree();
  for (const [at, { steps }] of paths) {
    let node = tree;
    for (const step of steps) node = below(node, step);
    node.ends.push(at);
  }
  return tree;
}

function emptyTree(): PathTree {
  return { ends: [], named: new Map(), elements: [] };
}

function below(node: PathTree, step: Step): PathTree {
  if (step === EACH || typeof step !== 'string') {
    const shared = node.elements.find((one) => one.step === EACH && step === EACH);
    if (shared !== undefined) return shared.below;
    const next = { step, below: emptyTree() };
    node.elements.push(next);
    return next.below;
  }
  const known = node.named.get(step) ?? emptyTree();
  node.named.set(step, known);
  return known;
}

/** Who is told of the values at the paths of a tree. */
export interface ValueSink {
  /** @param at the number of the path */
  addPicked(at: number, value: unknown): void;
}

/** Tells of each value at the paths of a tree that is there. */
// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: asked of every event of every stream; a call for each kind of value would double its cost
export function walkTree(value: unknown, { ends, named, elements }: PathTree, sink: ValueSink): void {
  if (value === undefined || value === null) return;
  for (let i = 0; i < ends.length; i++) sink.addPicked(ends[i] ?? 0, value);
  if (typeof value !== 'object') return;
  if (Array.isArray(value)) {
    for (const { step, below: next } of elements)
      for (const element of value) if (step === EACH || fits(element, step)) walkTree(element, next, sink);
    return;
  }
  if (named.size === 0) return;
  // Everything is asked of every event of a stream, so that nothing is called for a level that ends there.
  for (const name in value) {
    const next = named.get(name);
    if (next === undefined) continue;
    const member = (value as Readonly<Record<string, unknown>>)[name];
    if (typeof member === 'object') walkTree(member, next, sink);
    else if (member !== undefined) for (let i = 0; i < next.ends.length; i++) sink.addPicked(next.ends[i] ?? 0, member);
  }
}
