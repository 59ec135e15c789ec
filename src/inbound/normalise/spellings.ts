import { EACH, isCallersOwn } from '../../base/catalogue/holders.ts';
import { type NameRule, spellingsOf } from '../../base/catalogue/spelling.ts';
import type { Dialect } from '../../base/catalogue/types.ts';
import { jsonElements, jsonMembers, skipSpace } from '../../base/json/json-members.ts';
import { shorten } from '../../base/lib/text.ts';
import { ambiguous } from './form.ts';
import { fold, governedPaths, loosen } from './places.ts';

/** What is governed of the objects at one place of a body, and below them. */
interface GovernedPlace {
  /** Names that policy or price depends on, in every spelling that the format takes. */
  readonly exact: Set<string>;
  /** A name as a lenient reader compares it, and what it then means. */
  readonly meant: Map<string, string>;
  /** Names that were found to mean none of these: messages have the same few. */
  readonly harmless: Set<string>;
  readonly below: Map<string, GovernedPlace>;
  /** Of each element of a list, or each member of a map. */
  each: GovernedPlace | undefined;
  /** Some list or map stands on the way to it. */
  readonly inLists: boolean;
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

/** Folding changes nothing of such a name. */
const PLAIN = /^[a-z0-9_]*$/;
const MOST_HARMLESS = 256;
const governedPlaces = new WeakMap<Dialect, GovernedPlace>();

/**
 * Refuses a body of which parsers could take two values for one governed name (decision 3.19): below its outermost
 * object, where names are looked at as they are there, and everywhere, where the format has more than one spelling of a
 * name.
 * @param text of the body, for names that are there twice
 * @throws GatewayError `ambiguous_body`
 */
export function refuseSpellings(body: Readonly<Record<string, unknown>>, text: string, dialect: Dialect | undefined): void {
  if (dialect === undefined) return;
  const outermost = governedBy(dialect);
  const isProto = dialect.names === 'proto';
  let isThere = false;
  for (const name in body) {
    if (isProto) refuseMisspelt(name, outermost, 'proto');
    const below = outermost.below.get(name);
    if (below !== undefined && holdsGoverned(body[name], below, dialect.names)) isThere = true;
  }
  if (isThere) refuseTwice(text, skipSpace(text, 0), outermost);
  if (isProto) refuseBothSpellings(body);
}

/** All that is governed of a body, as a tree. */
function governedBy(dialect: Dialect): GovernedPlace {
  const known = governedPlaces.get(dialect);
  if (known !== undefined) return known;
  const outermost = emptyPlace(false);
  const paths = governedPaths(dialect);
  for (const path of paths) govern(outermost, path.split('.'), dialect.names);
  // What holds in place of the body's own members is read as these are.
  for (const items of dialect.places.bodies) {
    for (const path of paths) govern(outermost, [...items.split('.'), path.split('.')[0] ?? ''], dialect.names);
  }
  governedPlaces.set(dialect, outermost);
  return outermost;
}

function emptyPlace(inLists: boolean): GovernedPlace {
  return { exact: new Set(), meant: new Map(), harmless: new Set(), below: new Map(), each: undefined, inLists };
}

function govern(place: GovernedPlace, [name, ...rest]: readonly string[], rule: NameRule): void {
  if (name === undefined) return;
  if (name === EACH) {
    place.each ??= emptyPlace(true);
    govern(place.each, rest, rule);
    return;
  }
  const spellings = spellingsOf(name, rule);
  const below = rest.length === 0 ? undefined : (place.below.get(name) ?? emptyPlace(place.inLists));
  for (const spelling of spellings) {
    place.exact.add(spelling);
    place.meant.set(compared(spelling, rule) ?? spelling, spelling);
    if (below !== undefined) place.below.set(spelling, below);
  }
  if (below !== undefined) govern(below, rest, rule);
}

/**
 * Whether a value holds something that is governed, so that its text is to be looked at.
 * @throws GatewayError for a name that could be read as a governed one
 */
function holdsGoverned(value: unknown, place: GovernedPlace | undefined, rule: NameRule): boolean {
  if (typeof value !== 'object' || value === null || place === undefined) return false;
  if (!Array.isArray(value)) return hasGoverned(value as Readonly<Record<string, unknown>>, place, rule);
  let isThere = false;
  if (place.each !== undefined) for (const item of value) if (holdsGoverned(item, place.each, rule)) isThere = true;
  return isThere;
}

function hasGoverned(members: Readonly<Record<string, unknown>>, place: GovernedPlace, rule: NameRule): boolean {
  const { exact, below, each, inLists } = place;
  // Of a tool that runs where the caller is no provider runs anything, whatever stands below it.
  if (inLists && isCallersOwn(members)) {
    for (const name in members) refuseMisspelt(name, place, rule);
    return false;
  }
  let isThere = !inLists;
  for (const name in members) {
    refuseMisspelt(name, place, rule);
    const value = members[name];
    const isBelow = holdsGoverned(value, below.get(name), rule);
    if (holdsGoverned(value, each, rule) || isBelow || exact.has(name)) isThere = true;
  }
  return isThere;
}

function compared(name: string, rule: NameRule): string | undefined {
  return rule === 'exact' ? fold(name) : loosen(name);
}

function refuseMisspelt(name: string, { exact, meant, harmless }: GovernedPlace, rule: NameRule): void {
  if (exact.has(name) || harmless.has(name)) return;
  const alike = rule === 'exact' && PLAIN.test(name) ? name : compared(name, rule);
  const other = alike === undefined ? undefined : meant.get(alike);
  if (other !== undefined) throw ambiguous(`The name "${shorten(name)}" could be read as "${other}".`);
  if (harmless.size < MOST_HARMLESS && name.length <= MOST_HARMLESS) harmless.add(name);
}

/**
 * Parsers differ in which of two equal names they take; the text alone tells of both.
 * @param open where the value begins
 * @param seen the names of this object so far; undefined where they are not to be looked at: those of the outermost are
 * already
 */
function refuseTwice(text: string, open: number, { below, each }: GovernedPlace, seen?: Set<string | undefined>): void {
  if (text[open] === '[') {
    for (const { valueStart } of jsonElements(text, open)) refuseTwiceIn(text, valueStart, each);
  } else if (text[open] === '{') {
    for (const { name, valueStart } of jsonMembers(text, open)) {
      if (seen?.has(name)) throw ambiguous(`The name "${shorten(name ?? '')}" appears twice in one object.`);
      seen?.add(name);
      refuseTwiceIn(text, valueStart, name === undefined ? undefined : below.get(name));
      refuseTwiceIn(text, valueStart, each);
    }
  }
}

function refuseTwiceIn(text: string, open: number, place: GovernedPlace | undefined): void {
  if (place !== undefined) refuseTwice(text, open, place, place.exact.size > 0 ? new Set() : undefined);
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
