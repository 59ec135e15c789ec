import type { YamlNode } from '../lib/yaml.ts';
import { UNITS, type Unit } from '../model/usage.ts';
import type {
  CallPlaces,
  CountPlace,
  HolderTest,
  ModelPlace,
  ModelPlaces,
  NamedAs,
  PictureRule,
  PlaceGroup,
  TermPlace,
  UnitPlace,
} from './call-places.ts';
import { EACH } from './holders.ts';
import { Row, type RowProblems } from './row-reader.ts';
import { type NameRule, type SpelledPath, spelledPath } from './spelling.ts';

/** Lists of places that several wire formats use, by name. */
export interface PlaceSets {
  readonly models: ReadonlyMap<string, readonly Row[]>;
  readonly units: ReadonlyMap<string, readonly Row[]>;
  readonly terms: ReadonlyMap<string, readonly Row[]>;
}

/** A list of the members that a dialect's row may have, and those of its places. */
export const CALL_PLACE_MEMBERS = ['named_models', 'asked_units', 'asked_terms'] as const;

const MODEL_MEMBERS = [
  'at',
  'as',
  'only',
  'models',
  'lists',
  'unless',
  'header',
  'absent',
  'must_name',
  'free',
  'most',
  'assumed',
  'picture',
  'times',
];
const UNIT_MEMBERS = ['unit', 'at', 'only', 'times'];
const TERM_MEMBERS = ['term', 'at', 'same'];
const NAMED_AS: readonly NamedAs[] = ['alternative', 'inner', 'opaque'];
const ONCE: CountPlace = { own: [], shared: undefined, lengthOf: undefined, per: 1 };
const NOTHING: CallPlaces = Object.freeze({ models: undefined, units: [], terms: [], paths: [], bodies: [] });

/** The tables of places at the top of the file. */
export function readPlaceSets(file: Row, problems: RowProblems): PlaceSets {
  const table = (name: string, members: readonly string[]) => readSets(file.value(name), name, members, problems);
  return {
    models: table('named_models', MODEL_MEMBERS),
    units: table('asked_units', UNIT_MEMBERS),
    terms: table('asked_terms', TERM_MEMBERS),
  };
}

function readSets(
  node: YamlNode | undefined,
  name: string,
  members: readonly string[],
  problems: RowProblems,
): ReadonlyMap<string, readonly Row[]> {
  if (node === undefined) return new Map();
  const table = Row.from(node, name, problems);
  return new Map((table?.entries() ?? []).map(({ key }) => [key.source, table?.rows(key.source, members) ?? []]));
}

/** What a dialect's row names of the sets; of a kind that it does not give those of the dialect that it extends. */
export function readCallPlaces(row: Row, sets: PlaceSets, names: NameRule, parent: CallPlaces | undefined): CallPlaces {
  if (!CALL_PLACE_MEMBERS.some((member) => row.has(member))) return parent ?? NOTHING;
  const used = (member: string, table: ReadonlyMap<string, readonly Row[]>): readonly Row[] =>
    row.texts(member).flatMap((name) => {
      const rows = table.get(name);
      if (rows === undefined) row.problem(member, `"${name}" is no list of ${member}`);
      return rows ?? [];
    });
  const models = row.has('named_models') ? readModelPlaces(used('named_models', sets.models), names) : parent?.models;
  const units = row.has('asked_units')
    ? used('asked_units', sets.units).flatMap((one) => readUnitPlace(one, names))
    : (parent?.units ?? []);
  const terms = row.has('asked_terms') ? used('asked_terms', sets.terms).map((one) => readTermPlace(one, names)) : (parent?.terms ?? []);
  return { models, units, terms, paths: pathsOf(models, units, terms), bodies: bodiesOf(models) };
}

function readModelPlaces(rows: readonly Row[], names: NameRule): ModelPlaces | undefined {
  const groups = new Map<string, { at: SpelledPath; places: ModelPlace[] }>();
  for (const row of rows) {
    for (const path of textsOf(row, 'at')) {
      const at = spelledPath(path, names);
      const group = groups.get(path) ?? { at, places: [] };
      groups.set(path, group);
      group.places.push(readModelPlace(row, at, names));
    }
  }
  const byRoot = new Map<string, PlaceGroup[]>();
  for (const group of groups.values()) {
    for (const root of group.at[0] ?? []) byRoot.set(root, [...(byRoot.get(root) ?? []), group]);
  }
  return byRoot.size === 0 ? undefined : { byRoot };
}

function readModelPlace(row: Row, at: SpelledPath, names: NameRule): ModelPlace {
  const as = NAMED_AS.find((known) => known === row.need('as'));
  if (as === undefined) row.problem('as', `must be one of ${NAMED_AS.join(', ')}`);
  return {
    as: as ?? 'opaque',
    at,
    only: readOnly(row),
    models: row.has('models') ? row.texts('models').map((path) => spelledPath(path, names)) : [[]],
    lists: row.flag('lists', false),
    unless: row.text('unless'),
    header: row.text('header'),
    absent: row.text('absent'),
    mustName: row.flag('must_name', false),
    free: row.flag('free', false),
    most: row.texts('most').map((path) => spelledPath(path, names)),
    assumed: row.has('assumed') ? numberOf(row, 'assumed') : undefined,
    picture: readPicture(row),
    times: readTimes(row, names),
  };
}

/** `only: { type: [a, b*] }`. */
function readOnly(row: Row): HolderTest | undefined {
  const only = row.row('only');
  const [entry, ...more] = only?.entries() ?? [];
  if (only === undefined || entry === undefined) return undefined;
  if (more.length > 0) row.problem('only', 'must have one member');
  return { member: entry.key.source, values: textsOf(only, entry.key.source) };
}

/** `picture` of a place, or of a wire format. */
export function readPicture(row: Row): PictureRule | undefined {
  const picture = row.row('picture', ['tokens', 'quality', 'pixels', 'partial', 'frames']);
  if (picture === undefined) return undefined;
  const quality = picture.row('quality');
  const partial = picture.row('partial', ['member', 'tokens']);
  return {
    tokens: numberOf(picture, 'tokens'),
    byQuality: Object.fromEntries((quality?.entries() ?? []).map(({ key }) => [key.source, numberOf(quality, key.source)])),
    pixels: numberOf(picture, 'pixels'),
    partial: partial && { member: partial.need('member'), tokens: numberOf(partial, 'tokens') },
    frames: picture.texts('frames'),
  };
}

function readTimes(row: Row, names: NameRule): CountPlace {
  const times = row.row('times', ['own', 'shared', 'length_of', 'per']);
  if (times === undefined) return ONCE;
  const shared = times.text('shared');
  const lengthOf = times.text('length_of');
  return {
    own: times.texts('own').map((path) => spelledPath(path, names)),
    shared: shared === undefined ? undefined : spelledPath(shared, names),
    lengthOf: lengthOf === undefined ? undefined : spelledPath(lengthOf, names),
    per: times.has('per') ? Math.max(1, numberOf(times, 'per')) : 1,
  };
}

function readUnitPlace(row: Row, names: NameRule): readonly UnitPlace[] {
  const text = row.need('unit');
  const unit = UNITS.find((known): known is Unit => known === text);
  if (unit === undefined) {
    row.problem('unit', `must be one of ${UNITS.join(', ')}`);
    return [];
  }
  const times = readTimes(row, names);
  const only = readOnly(row);
  if (!row.has('at')) return [{ unit, at: [], only, times }];
  return textsOf(row, 'at').map((path) => ({ unit, at: spelledPath(path, names), only, times }));
}

function readTermPlace(row: Row, names: NameRule): TermPlace {
  const same = row.row('same');
  return {
    term: row.need('term'),
    at: spelledPath(row.need('at'), names),
    same: Object.fromEntries((same?.entries() ?? []).map(({ key }) => [key.source, same?.need(key.source) ?? ''])),
  };
}

function placesOf(models: ModelPlaces | undefined): readonly ModelPlace[] {
  return [...(models?.byRoot.values() ?? [])].flat().flatMap(({ places }) => places);
}

/** A name of an alternative may be an object, with what holds for it alone. */
function bodiesOf(models: ModelPlaces | undefined): readonly string[] {
  const lists = placesOf(models).filter(({ as, lists: isList }) => as === 'alternative' && isList);
  return [...new Set(lists.flatMap(({ at, models: within }) => within.map((path) => `${dotted([...at, ...path])}.${EACH}`)))];
}

function dotted(path: SpelledPath): string {
  return path.map(([name = '']) => name).join('.');
}

/** Of all places, and of the counts and names in their holders. */
function pathsOf(models: ModelPlaces | undefined, units: readonly UnitPlace[], terms: readonly TermPlace[]): readonly string[] {
  const paths = new Set<string>();
  const add = (at: SpelledPath, within: SpelledPath = []): void => {
    const path = dotted([...at, ...within]);
    if (path !== '') paths.add(path);
  };
  const addTimes = (at: SpelledPath, { own, shared, lengthOf }: CountPlace): void => {
    for (const path of own) add(at, path);
    if (lengthOf !== undefined) add(at, lengthOf);
    if (shared !== undefined) add(shared);
  };
  const addOnly = (at: SpelledPath, only: HolderTest | undefined): void => {
    if (only !== undefined) add(at, [[only.member]]);
  };
  for (const place of placesOf(models)) {
    for (const path of [...place.models, ...place.most]) add(place.at, path);
    addOnly(place.at, place.only);
    addTimes(place.at, place.times);
    if (place.unless !== undefined) add([[place.unless]]);
  }
  for (const { at, only, times } of units) {
    add(at);
    addOnly(at, only);
    addTimes(at, times);
  }
  for (const { at } of terms) add(at);
  return [...paths];
}

/** One text, or a list of them. */
function textsOf(row: Row, name: string): readonly string[] {
  const node = row.value(name);
  if (node?.kind === 'seq') return row.texts(name);
  return [row.need(name)];
}

function numberOf(row: Row | undefined, name: string): number {
  const text = row?.need(name) ?? '';
  if (/^\d{1,9}$/.test(text)) return Number(text);
  row?.problem(name, 'must be a whole number');
  return 0;
}
