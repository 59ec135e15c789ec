/*
 * Where something stands in an answer: names of members from the outside in, separated by dots. `*` stands for each element of a list, `[name=value]` for each element that has
 * this member, and `=value` behind the last name takes only the values that are this text. An empty path is the value itself.
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
  for (const name of path) {
    if (!isRecord(value) || !Object.hasOwn(value, name)) return undefined;
    value = value[name];
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
      if (!Array.isArray(value)) return;
      for (const element of value) if (step === EACH || fits(element, step)) walk(element, steps, at + 1, use);
      return;
    }
    if (!isRecord(value) || !Object.hasOwn(value, step)) return;
    value = value[step];
  }
  if (value !== undefined && value !== null) use(value);
}

function fits(element: unknown, step: Step | undefined): boolean {
  if (typeof step !== 'object' || !isRecord(element) || !Object.hasOwn(element, step.member)) return false;
  const value = element[step.member];
  return typeof value === 'string' && value.toLowerCase() === step.is.toLowerCase();
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}
