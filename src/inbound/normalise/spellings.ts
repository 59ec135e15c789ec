import { type SpelledPath, spelledPath, spelledValue, spellingsOf } from '../../base/catalogue/spelling.ts';
import type { Dialect, NameRule } from '../../base/catalogue/types.ts';
import { jsonMembers, skipSpace } from '../../base/json/json-members.ts';
import { isJsonObject } from '../../base/json/json-object.ts';
import { shorten } from '../../base/lib/shorten.ts';
import { ambiguous } from './form.ts';
import { fold, governedPaths, loosen } from './places.ts';

/** An object of a body that holds names which policy or price depends on. */
interface GovernedObject {
  /** The way to it; empty: the body itself. */
  readonly path: SpelledPath;
  readonly exact: ReadonlySet<string>;
  /** A name as a lenient reader compares it, and what it then means. */
  readonly meant: ReadonlyMap<string, string>;
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

const governedObjects = new WeakMap<Dialect, readonly GovernedObject[]>();

/**
 * Refuses a body of which parsers could take two values for one governed name (decision 3.19): below its outermost object, where names are looked at as they
 * are there, and everywhere, where the format has more than one spelling of a name.
 * @param text of the body, for names that are there twice
 * @throws GatewayError `ambiguous_body`
 */
export function refuseSpellings(body: Readonly<Record<string, unknown>>, text: string, dialect: Dialect | undefined): void {
  if (dialect === undefined) return;
  for (const object of objectsOf(dialect)) {
    const found = object.path.length === 0 ? body : spelledValue(body, object.path);
    if (!isJsonObject(found)) continue;
    refuseMisspelt(Object.keys(found), object, dialect.names);
    if (object.path.length > 0) refuseTwice(text, object.path);
  }
  if (dialect.names === 'proto') refuseBothSpellings(body);
}

/** The objects on the way to a governed name, but for the outermost of a format with one spelling, which is looked at before. */
function objectsOf(dialect: Dialect): readonly GovernedObject[] {
  const known = governedObjects.get(dialect);
  if (known !== undefined) return known;
  const members = new Map<string, Set<string>>();
  for (const path of governedPaths(dialect)) {
    const names = path.split('.');
    names.forEach((name, depth) => {
      if (depth === 0 && dialect.names === 'exact') return;
      const parent = names.slice(0, depth).join('.');
      members.set(parent, (members.get(parent) ?? new Set()).add(name));
    });
  }
  const objects = [...members].map(([parent, names]): GovernedObject => {
    const exact = [...names].flatMap((name) => spellingsOf(name, dialect.names));
    return {
      path: parent === '' ? [] : spelledPath(parent, dialect.names),
      exact: new Set(exact),
      meant: new Map(exact.map((name) => [compared(name, dialect.names) ?? name, name])),
    };
  });
  governedObjects.set(dialect, objects);
  return objects;
}

function compared(name: string, rule: NameRule): string | undefined {
  return rule === 'exact' ? fold(name) : loosen(name);
}

function refuseMisspelt(names: readonly string[], { exact, meant }: GovernedObject, rule: NameRule): void {
  for (const name of names) {
    const alike = exact.has(name) ? undefined : compared(name, rule);
    const other = alike === undefined ? undefined : meant.get(alike);
    if (other !== undefined) throw ambiguous(`The name "${shorten(name)}" could be read as "${other}".`);
  }
}

/** Parsers differ in which of two equal names they take; the text alone tells of both. */
function refuseTwice(text: string, path: SpelledPath): void {
  let open = skipSpace(text, 0);
  for (const spellings of path) {
    let next: number | undefined;
    for (const { name, valueStart } of jsonMembers(text, open)) if (name !== undefined && spellings.includes(name)) next = valueStart;
    if (next === undefined) return;
    open = next;
  }
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
