import type { ModelPlace, PlaceGroup } from './call-places.ts';
import { EACH, isCallersOwn, isMeant, isObject, type JsonMembers, memberOf, visitAt } from './holders.ts';
import type { SpelledPath } from './spelling.ts';
import type { Operation } from './types.ts';
import { modelAsSeen } from './usual-path.ts';

/** A model that a call names beside its own. */
export interface NamedModel {
  /** As policy sees it. */
  readonly model: string;
  readonly place: ModelPlace;
  /**
   * The object that names it: of an alternative, what holds for it in place of the body's own members; of an inner
   * model, its settings. Undefined: a bare name.
   */
  readonly said: JsonMembers | undefined;
}

/** The models that a call names beside its own (decision 6.3). */
export interface NamedModels {
  /** One of these may answer in place of the call's own. */
  readonly alternatives: readonly NamedModel[];
  /** These may run inside of the call, in addition. */
  readonly inner: readonly NamedModel[];
  /** Some of it cannot be read, or is known to the provider alone. */
  readonly hidden: boolean;
}

type Params = Readonly<Record<string, unknown>>;

/** More are not asked about: such a call hides its models. */
export const MOST_NAMED = 16;
/** As of the model of a call (decision 4.7). */
const LONGEST_NAME = 256;
const MODEL = 'model';
/** In a name at OpenRouter: models that are stored there. */
const PRESET = '@preset/';

/**
 * The models that a body names beside its own, as the data of its wire format says where they stand; undefined for a
 * body that names none, which is all that a plain call costs: one look-up for each of its members.
 * @param headers of the request, flat name and value list: some hosts name a model in one
 */
export function namedModels(
  { known, dialect, modelNames }: Operation,
  params: Params,
  headers?: readonly string[],
): NamedModels | undefined {
  const places = known ? dialect?.places.models : undefined;
  if (places === undefined) return undefined;
  let reader: Reader | undefined;
  for (const name in params) {
    const groups = places.byRoot.get(name);
    if (groups === undefined) continue;
    reader ??= new Reader(params, headers);
    for (const group of groups) reader.read(group);
  }
  const own = params[MODEL];
  if (reader === undefined) return isPreset(own) ? ALL_HIDDEN : undefined;
  return reader.found((model) => modelAsSeen(model, modelNames), isPreset(own));
}

function isPreset(name: unknown): boolean {
  return typeof name === 'string' && name.includes(PRESET);
}

const ALL_HIDDEN: NamedModels = { alternatives: [], inner: [], hidden: true };

/** All models that are named, the call's own first, each once. */
export function allNamed(own: unknown, { alternatives, inner }: NamedModels): readonly string[] {
  const names = [...alternatives, ...inner].map(({ model }) => model);
  return [...new Set(typeof own === 'string' ? [own, ...names] : names)];
}

class Reader {
  readonly #body: Params;
  readonly #headers: readonly string[] | undefined;
  readonly #found: NamedModel[] = [];
  #hidden = false;

  constructor(body: Params, headers: readonly string[] | undefined) {
    this.#body = body;
    this.#headers = headers;
  }

  /** @param isHidden the call's own name says that more are hidden */
  found(asSeen: (model: string) => string, isHidden: boolean): NamedModels | undefined {
    if (isHidden) this.#hidden = true;
    if (this.#found.length === 0 && !this.#hidden) return undefined;
    const all = withoutTwins(this.#found.map((one) => ({ ...one, model: asSeen(one.model) })));
    const named = all.slice(0, MOST_NAMED);
    return {
      alternatives: named.filter(({ place }) => place.as === 'alternative'),
      inner: named.filter(({ place }) => place.as === 'inner'),
      hidden: this.#hidden || all.length > MOST_NAMED,
    };
  }

  read({ at, places }: PlaceGroup): void {
    visitAt(this.#body, at, (holder) => {
      if (isCallersOwn(holder)) return;
      // A name that an earlier place has read is not read once more.
      const ways: string[] = [];
      for (const place of places) if (this.#isRead(place) && isMeant(holder, place.only)) this.#readHolder(holder, place, ways);
    });
  }

  #isRead({ unless }: ModelPlace): boolean {
    return unless === undefined || !Object.hasOwn(this.#body, unless);
  }

  #readHolder(holder: unknown, place: ModelPlace, ways: string[]): void {
    if (place.as === 'opaque') {
      if (holder !== null && holder !== undefined) this.#hidden = true;
      return;
    }
    const before = this.#found.length;
    let stated = false;
    for (const path of place.models) {
      this.#visitNames(holder, path, (value, way) => {
        if (value === null || value === undefined || ways.includes(way)) return;
        ways.push(way);
        stated = true;
        this.#readNames(value, place, isObject(holder) ? holder : undefined);
      });
    }
    if (!stated && this.#found.length === before && isObject(holder)) this.#readUnnamed(holder, place);
  }

  #visitNames(holder: unknown, path: SpelledPath, visit: (value: unknown, way: string) => void): void {
    // Of a bare name there is nothing below, and the characters of a text are none of its members.
    if (path.length === 0) visit(holder, '');
    else if (isObject(holder)) visitAt(holder, path, visit, '');
  }

  #readUnnamed(holder: JsonMembers, place: ModelPlace): void {
    const model = (place.header === undefined ? undefined : headerValue(this.#headers, place.header)) ?? place.absent;
    if (model !== undefined) this.#add(model, place, holder);
    else if (place.mustName) this.#hidden = true;
  }

  #readNames(value: unknown, place: ModelPlace, holder: JsonMembers | undefined): void {
    if (Array.isArray(value)) for (const item of value) this.#readName(item, place, holder);
    else if (place.lists) this.#hidden = true;
    else this.#readName(value, place, holder);
  }

  #readName(value: unknown, place: ModelPlace, holder: JsonMembers | undefined): void {
    if (typeof value === 'string') {
      this.#add(value, place, place.as === 'inner' ? holder : undefined);
      return;
    }
    const name = isObject(value) ? memberOf(value, MODEL) : undefined;
    if (typeof name !== 'string' || !isObject(value)) this.#hidden = true;
    else this.#add(name, place, value);
  }

  #add(model: string, place: ModelPlace, said: JsonMembers | undefined): void {
    if (isName(model)) this.#found.push({ model, place, said });
    else this.#hidden = true;
  }
}

/** A bare name says no more a second time: a batch names its one model with each of its parts. */
function withoutTwins(found: readonly NamedModel[]): readonly NamedModel[] {
  const bare = new Set<string>();
  return found.filter(({ model, said }) => {
    if (said !== undefined) return true;
    if (bare.has(model)) return false;
    bare.add(model);
    return true;
  });
}

/** A pattern is the name of no model, and a blank around a name may be left out by whoever reads it. */
function isName(text: string): boolean {
  return text !== '' && text.length <= LONGEST_NAME && text.trim() === text && !text.includes(EACH) && !isPreset(text);
}

function headerValue(headers: readonly string[] | undefined, lowerName: string): string | undefined {
  for (let at = 0; headers !== undefined && at + 1 < headers.length; at += 2) {
    if (headers[at]?.toLowerCase() === lowerName) return headers[at + 1];
  }
  return undefined;
}
