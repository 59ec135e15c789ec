import { EACH, memberOf, visitAt } from '../../base/catalogue/holders.ts';
import { type NameRule, type SpelledPath, spelledPath, spelledValue, spellingsOf } from '../../base/catalogue/spelling.ts';
import type { Dialect } from '../../base/catalogue/types.ts';
import { jsonElements, jsonMembers, skipSpace } from '../../base/json/json-members.ts';
import { isJsonObject } from '../../base/json/json-object.ts';
import { shorten } from '../../base/lib/shorten.ts';
import { ambiguous } from './form.ts';
import { fold, governedPaths, loosen } from './places.ts';

/** An object of a body that holds names which policy or price depends on. */
interface GovernedObject {
  /** The way to it; empty: the body itself. A star stands for each element of a list, or each member of a map. */
  readonly path: SpelledPath;
  /** How much of the way leads to the items behind its first star; 0: it has none. */
  readonly first: number;
  readonly exact: ReadonlySet<string>;
  /** A name as a lenient reader compares it, and what it then means. */
  readonly meant: ReadonlyMap<string, string>;
}

interface GovernedObjects {
  /** Of a format with more than one spelling: of others it is looked at before. */
  readonly outermost: GovernedObject | undefined;
  /** Those below it, by the first name of their path: most bodies have few of these. */
  readonly byRoot: ReadonlyMap<string, readonly GovernedObject[]>;
}

/** Members whose names are data: a value of any form, or a map with keys of its caller's own. */
const FREE: ReadonlySet<string> = new Set([
  'args',
  'response',
  'instances',
  'parameters',
  'properties',
  'responseSchema',
  'response_schema',
  'parametersJsonSchema',
  'parameters_json_schema',
  'responseJsonSchema',
  'response_json_schema',
  'labels',
  'metadata',
]);

const NONE: readonly GovernedObject[] = [];
/** Folding changes nothing of such a name. */
const PLAIN = /^[a-z0-9_]*$/;
const governedObjects = new WeakMap<Dialect, GovernedObjects>();
/** What tools have that run where the caller is: a type, or a member. */
const CALLERS_OWN: ReadonlySet<unknown> = new Set(['function', 'custom']);
const CALLERS_MEMBERS = ['input_schema', 'functionDeclarations', 'function_declarations'];

/**
 * Refuses a body of which parsers could take two values for one governed name (decision 3.19): below its outermost object, where names are looked at as they
 * are there, and everywhere, where the format has more than one spelling of a name.
 * @param text of the body, for names that are there twice
 * @throws GatewayError `ambiguous_body`
 */
export function refuseSpellings(body: Readonly<Record<string, unknown>>, text: string, dialect: Dialect | undefined): void {
  if (dialect === undefined) return;
  const { outermost, byRoot } = objectsOf(dialect);
  if (outermost !== undefined) refuseMisspelt(Object.keys(body), outermost, dialect.names);
  for (const name in body) for (const object of byRoot.get(name) ?? NONE) refuseBelow(body, text, object, dialect.names);
  if (dialect.names === 'proto') refuseBothSpellings(body);
}

function refuseBelow(body: Readonly<Record<string, unknown>>, text: string, object: GovernedObject, rule: NameRule): void {
  if (object.first > 0) {
    refuseItems(body, text, object, rule);
    return;
  }
  const found = spelledValue(body, object.path);
  if (!isJsonObject(found)) return;
  refuseMisspelt(Object.keys(found), object, rule);
  refuseTwice(text, object.path);
}

/** The objects on the way to a governed name. */
function objectsOf(dialect: Dialect): GovernedObjects {
  const known = governedObjects.get(dialect);
  if (known !== undefined) return known;
  const members = new Map<string, Set<string>>();
  const add = (parent: string, name: string) => members.set(parent, (members.get(parent) ?? new Set()).add(name));
  for (const path of governedPaths(dialect)) {
    const names = path.split('.');
    names.forEach((name, depth) => {
      if (name === EACH || (depth === 0 && dialect.names === 'exact')) return;
      add(names.slice(0, depth).join('.'), name);
    });
    // What holds in place of the body's own members is read as these are.
    for (const parent of dialect.places.bodies) add(parent, names[0] ?? '');
  }
  const objects = [...members].map(([parent, names]): GovernedObject => {
    const exact = [...names].flatMap((name) => spellingsOf(name, dialect.names));
    return {
      path: parent === '' ? [] : spelledPath(parent, dialect.names),
      first: parent.split('.').indexOf(EACH) + 1,
      exact: new Set(exact),
      meant: new Map(exact.map((name) => [compared(name, dialect.names) ?? name, name])),
    };
  });
  const byRoot = new Map<string, GovernedObject[]>();
  for (const object of objects) for (const root of object.path[0] ?? []) byRoot.set(root, [...(byRoot.get(root) ?? []), object]);
  const made = { outermost: objects.find(({ path }) => path.length === 0), byRoot };
  governedObjects.set(dialect, made);
  return made;
}

/** Of tools that run where the caller is only the names of the outermost members are looked at: no provider runs anything by the rest. */
function refuseItems(body: Readonly<Record<string, unknown>>, text: string, object: GovernedObject, rule: NameRule): void {
  const { path, exact, first } = object;
  let isThere = false;
  visitAt(body, path.slice(0, first), (item) => {
    const isOwn = isCallersOwn(item);
    if (isOwn && first < path.length) return;
    visitAt(item, path.slice(first), (found) => {
      if (!isJsonObject(found)) return;
      const names = Object.keys(found);
      refuseMisspelt(names, object, rule);
      isThere ||= !isOwn && names.some((name) => exact.has(name));
    });
  });
  if (isThere) refuseTwiceBelow(text, skipSpace(text, 0), path, 0);
}

function isCallersOwn(item: unknown): boolean {
  return isJsonObject(item) && (CALLERS_OWN.has(memberOf(item, 'type')) || CALLERS_MEMBERS.some((name) => Object.hasOwn(item, name)));
}

function compared(name: string, rule: NameRule): string | undefined {
  return rule === 'exact' ? fold(name) : loosen(name);
}

function refuseMisspelt(names: readonly string[], { exact, meant }: GovernedObject, rule: NameRule): void {
  for (const name of names) {
    if (exact.has(name)) continue;
    const alike = rule === 'exact' && PLAIN.test(name) ? name : compared(name, rule);
    const other = alike === undefined ? undefined : meant.get(alike);
    if (other !== undefined) throw ambiguous(`The name "${shorten(name)}" could be read as "${other}".`);
  }
}

/** Parsers differ in which of two equal names they take; the text alone tells of both. */
function refuseTwice(text: string, path: SpelledPath): void {
  let open = skipSpace(text, 0);
  for (const spellings of path) {
    const next = lastMember(text, open, spellings);
    if (next === undefined) return;
    open = next;
  }
  refuseTwiceIn(text, open);
}

/** The same of every object that a path with stars leads to. */
function refuseTwiceBelow(text: string, open: number, path: SpelledPath, depth: number): void {
  const spellings = path[depth];
  const isObject = text[open] === '{';
  if (spellings?.[0] === EACH) {
    for (const { valueStart } of partsOf(text, open)) refuseTwiceBelow(text, valueStart, path, depth + 1);
  } else if (isObject && spellings === undefined) refuseTwiceIn(text, open);
  else if (isObject) {
    const next = lastMember(text, open, spellings ?? []);
    if (next !== undefined) refuseTwiceBelow(text, next, path, depth + 1);
  }
}

function partsOf(text: string, open: number): Iterable<{ readonly valueStart: number }> {
  if (text[open] === '[') return jsonElements(text, open);
  return text[open] === '{' ? jsonMembers(text, open) : [];
}

/** Where the value of a member begins that is there under one of its names: of several the last, which is the one that was read. */
function lastMember(text: string, open: number, spellings: readonly string[]): number | undefined {
  let found: number | undefined;
  for (const { name, valueStart } of jsonMembers(text, open)) if (name !== undefined && spellings.includes(name)) found = valueStart;
  return found;
}

function refuseTwiceIn(text: string, open: number): void {
  const seen = new Set<string | undefined>();
  for (const { name } of jsonMembers(text, open)) {
    if (seen.has(name)) throw ambiguous(`The name "${shorten(name ?? '')}" appears twice in one object.`);
    seen.add(name);
  }
}

/** Depth is bounded by the scan before. */
function refuseBothSpellings(value: unknown): void {
  if (typeof value !== 'object' || value === null) return;
  if (Array.isArray(value)) {
    for (const item of value) refuseBothSpellings(item);
    return;
  }
  const members = value as Readonly<Record<string, unknown>>;
  for (const name of Object.keys(members)) {
    if (name.includes('_')) {
      const other = spellingsOf(name, 'proto').find((spelling) => spelling !== name && Object.hasOwn(members, spelling));
      if (other !== undefined) throw ambiguous(`Both "${shorten(name)}" and "${shorten(other)}" are given.`);
    }
    if (!FREE.has(name)) refuseBothSpellings(members[name]);
  }
}
