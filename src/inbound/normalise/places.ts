import { spellingsOf } from '../../base/catalogue/spelling.ts';
import type { Dialect, FieldPlace, Operation } from '../../base/catalogue/types.ts';
import { modelAsSeen, withoutCollection } from '../../base/catalogue/usual-path.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { percentDecoded, shorten } from '../../base/lib/text.ts';
import { pathOnly, queryOf } from './path.ts';

/** The top-level names of a body that policy and price depend on, in three ways of comparing them. */
export interface GovernedNames {
  readonly exact: ReadonlySet<string>;
  /** Case-folded name → the name as the dialect writes it. */
  readonly folded: ReadonlyMap<string, string>;
  /**
   * As `folded`, underscores left out: JSON readers of protocol buffers take `maxTokens` and `max_tokens` for the same
   * member.
   */
  readonly loose: ReadonlyMap<string, string>;
}

const ALWAYS_GOVERNED = ['model', 'stream'];
/** Azure: the deployment in the path is the model, the body's is ignored (decision 3.19). */
const DEPLOYMENT = /\/deployments\/[^/]+/i;

/** Of a governed name, underscores not counted. Folding makes no text of fewer characters. */
const MOST_LETTERS = 64;
const UNDERSCORE = 0x5f;
/** A run at a time: a stranger may send millions of them. */
const UNDERSCORES = /_+/g;
const UNSAFE_IN_PATH = /[;%\\\u0000-\u001f\u007f]/;
const NO_PARAMS = {};
const governedByDialect = new WeakMap<Dialect, GovernedNames>();
const governedWithout = governedFrom(ALWAYS_GOVERNED);

/** Every top-level name that a place of the dialect uses, and `model` and `stream` in any case. */
export function governedNames(dialect: Dialect | undefined): GovernedNames {
  if (dialect === undefined) return governedWithout;
  let names = governedByDialect.get(dialect);
  if (names === undefined) {
    const places = placesOf(dialect);
    const inForm = places.flatMap((place) => (place.in === 'form' ? [place.field] : []));
    const inBody = governedPaths(dialect).flatMap((path) => spellingsOf(topLevelName(path), dialect.names));
    names = governedFrom([...ALWAYS_GOVERNED, ...inForm, ...inBody]);
    governedByDialect.set(dialect, names);
  }
  return names;
}

function placesOf({ model, stream }: Dialect): readonly FieldPlace[] {
  return stream === undefined ? model : [...model, stream];
}

/** Dotted body paths of everything that policy or price reads by name. */
export function governedPaths(dialect: Dialect): readonly string[] {
  const { maxTokens, answers, prompts, promptPaths, outputPaths, perItem, places } = dialect;
  const inBody = placesOf(dialect).flatMap((place) => (place.in === 'body' ? [place.path] : []));
  const counted = [...(prompts === undefined ? [] : [prompts]), ...(perItem === undefined ? [] : [perItem.path, perItem.of])];
  return [...new Set([...inBody, ...maxTokens, ...answers, ...counted, ...promptPaths, ...outputPaths, ...places.paths])];
}

function governedFrom(names: readonly string[]): GovernedNames {
  return {
    exact: new Set(names),
    folded: new Map(names.map((name) => [fold(name), name])),
    loose: new Map(names.map((name) => [loosen(name) ?? name, name])),
  };
}

function topLevelName(path: string): string {
  const [first = ''] = path.split('.', 1);
  return first;
}

/** Folds case as lenient JSON readers do it: U+212A is a K and U+017F an S. */
export function fold(name: string): string {
  return name.toUpperCase().toLowerCase();
}

/**
 * As {@link fold}, underscores left out; undefined for a name with more letters than any that is governed, which is
 * like none of them.
 */
export function loosen(name: string): string | undefined {
  let letters = 0;
  for (let at = 0; at < name.length; at++) {
    if (name.charCodeAt(at) !== UNDERSCORE && ++letters > MOST_LETTERS) return undefined;
  }
  return fold(name.replace(UNDERSCORES, ''));
}

/**
 * Refuses a name that a lenient reader takes for a governed one (decision 3.19).
 * @param isGiven whether the body has a member of this name: by default one of `names`
 * @throws GatewayError `ambiguous_body`
 */
export function refuseLookalikes(names: readonly string[], governed: GovernedNames, isGiven = isAmong(names)): void {
  for (const name of names) {
    if (governed.exact.has(name)) continue;
    const loose = loosen(name);
    if (loose === undefined) continue;
    const meant = governed.folded.get(fold(name));
    if (meant !== undefined) throw ambiguous(`The name "${shorten(name)}" differs from "${meant}" only in case.`);
    const alias = governed.loose.get(loose);
    if (alias !== undefined && isGiven(alias)) throw ambiguous(`Both "${shorten(name)}" and "${alias}" are given.`);
  }
}

/**
 * Asked once for each name that has an underscore too many, and nearly always for none: the set is made when it is
 * needed.
 */
function isAmong(names: readonly string[]): (name: string) => boolean {
  let set: ReadonlySet<string> | undefined;
  return (name) => {
    set ??= new Set(names);
    return set.has(name);
  };
}

export interface PlacedValues {
  readonly model: string | undefined;
  readonly stream: boolean;
}

/**
 * Reads model and stream switch from wherever the dialect keeps them and writes them to `params.model` and
 * `params.stream`, where policy looks for them (decision 3.19). `params` of a form hold its text fields.
 * @throws GatewayError `ambiguous_body` for a second, contradicting place of the model and for values of another type
 */
export function fillPlaces(params: Record<string, unknown>, path: string, operation: Operation): PlacedValues {
  const { dialect } = operation;
  const found = dialect === undefined ? ownValue(params, 'model') : readModel(params, path, dialect);
  const model = typeof found === 'string' ? asRead(found, operation) : undefined;
  if (model !== undefined) params['model'] = model;
  // Of a body that nobody understands a stream switch says nothing.
  if (!operation.known) return { model, stream: false };
  if (dialect === undefined) {
    const switched = ownValue(params, 'stream');
    return { model, stream: switched === true || switched === 'true' };
  }
  const stream = readStream(params, path, dialect.stream);
  if (stream !== undefined) params['stream'] = stream;
  return { model, stream: stream === true };
}

/**
 * A model in the one form that policy sees. No name begins or ends with a blank, and a provider might leave it out.
 * @throws GatewayError `ambiguous_body`
 */
function asRead(model: string, { modelNames }: Operation): string {
  if (model.trim() !== model) throw ambiguous('The name of the model begins or ends with a blank.');
  return modelAsSeen(model, modelNames);
}

function readModel(params: Readonly<Record<string, unknown>>, path: string, dialect: Dialect): string | undefined {
  let model: string | undefined;
  let from: FieldPlace | undefined;
  for (const place of placesOfModel(dialect)) {
    const value = readPlace(place, params, path);
    if (value === undefined || value === null) continue;
    if (typeof value !== 'string') throw ambiguous('The model is not a string.');
    if (model === undefined) {
      model = value;
      from = place;
    } else if (!sameModel(value, model) && !isDeploymentPlace(from, path)) {
      throw ambiguous('The request names two different models.');
    }
  }
  return model;
}

/**
 * All places where the model may stand. A dialect whose model stands in the path, the query or a form is not to be told
 * another one in the body.
 */
export function placesOfModel(dialect: Dialect): readonly FieldPlace[] {
  return dialect.model.length === 0 || dialect.model.some((place) => place.in === 'body') ? dialect.model : [...dialect.model, BODY_MODEL];
}

/** True when the dialect keeps the model in a place where there is none yet. `names`: what the body has so far. */
export function lacksModel(dialect: Dialect | undefined, path: string, names: ReadonlySet<string>): boolean {
  if (dialect === undefined || dialect.model.length === 0) return false;
  return !placesOfModel(dialect).some((place) => {
    if (place.in === 'body') return names.has(topLevelName(place.path));
    return place.in === 'form' ? names.has(place.field) : readPlace(place, NO_PARAMS, path) !== undefined;
  });
}

/** Where nearly every dialect keeps the model. */
export const BODY_MODEL: FieldPlace = { in: 'body', path: 'model' };

/**
 * True when the model was taken from an Azure deployment's path: other places are then ignored, as Azure ignores them.
 */
export function isDeploymentPlace(place: FieldPlace | undefined, path: string): boolean {
  return place?.in === 'path' && DEPLOYMENT.test(pathOnly(path));
}

/**
 * Google writes a model as `x` in the path and as `models/x` in the body, and gives its version (`x@2407`) perhaps in
 * one of the two only.
 */
function sameModel(a: string, b: string): boolean {
  const [left, right] = [withoutCollection(a), withoutCollection(b)];
  return left === right || left === withoutVersion(right) || withoutVersion(left) === right;
}

/** The name of a model without the version that may stand behind it. */
export function withoutVersion(model: string): string {
  const at = model.indexOf('@');
  return at <= 0 ? model : model.slice(0, at);
}

function readStream(params: Readonly<Record<string, unknown>>, path: string, place: FieldPlace | undefined): boolean | undefined {
  if (place === undefined) return undefined;
  if (place.in === 'path') {
    const member = place.verbs?.body;
    return place.pattern.test(pathOnly(path)) || (member !== undefined && ownValue(params, member) === true);
  }
  const value = readPlace(place, params, path) ?? undefined;
  if (value === undefined && place.in === 'body') return place.absent;
  if (value === undefined || typeof value === 'boolean') return value;
  if (place.in !== 'body' && typeof value === 'string') return switchText(value);
  // A body field of a form is text too.
  throw ambiguous('The stream switch is neither true nor false.');
}

function switchText(text: string): boolean {
  const lower = text.trim().toLowerCase();
  if (lower === 'true' || lower === '1') return true;
  if (lower === 'false' || lower === '0' || lower === '') return false;
  throw ambiguous('The stream switch is neither true nor false.');
}

/**
 * The value at a place; undefined when it is not there.
 * @throws GatewayError `ambiguous_body` for a repeated query parameter or a broken escape
 */
export function readPlace(place: FieldPlace, params: Readonly<Record<string, unknown>>, path: string): unknown {
  switch (place.in) {
    case 'body':
      return dottedValue(params, place.path);
    case 'form':
      return ownValue(params, place.field);
    case 'path': {
      const captured = place.pattern.exec(pathOnly(path))?.[1];
      return captured === undefined ? undefined : plainName(decodeEscapes(captured));
    }
    case 'query':
      return queryValue(path, place.name);
  }
}

/** A name that a server may cut off or decode once more than it should would lead elsewhere (decision 3.18). */
function plainName(name: string): string {
  if (UNSAFE_IN_PATH.test(name)) throw ambiguous('The name in the path holds a path parameter, a blank or an escape of an escape.');
  return name;
}

/**
 * The name of a parameter is taken in any case, since some servers do; of two that differ in nothing else nobody knows
 * which one counts.
 */
function queryValue(path: string, name: string): string | undefined {
  let found: string | undefined;
  const query = queryOf(path);
  if (query.includes(';')) throw ambiguous('The query holds a raw ";", which some servers take for a separator.');
  for (const pair of query.split('&')) {
    const equals = pair.indexOf('=');
    if (fold(decodeEscapes(equals === -1 ? pair : pair.slice(0, equals)).trim()) !== name) continue;
    if (found !== undefined) throw ambiguous(`The query has "${name}" twice.`);
    found = equals === -1 ? '' : decodeEscapes(pair.slice(equals + 1).replaceAll('+', ' '));
  }
  return found;
}

function decodeEscapes(text: string): string {
  const decoded = percentDecoded(text);
  if (decoded === undefined) throw ambiguous('The path or query holds an escape that is not UTF-8.');
  return decoded;
}

/** The value at a dotted path, own properties only. */
export function dottedValue(value: unknown, path: string): unknown {
  if (!path.includes('.')) return ownValue(value, path);
  let current: unknown = value;
  for (const name of path.split('.')) current = ownValue(current, name);
  return current;
}

function ownValue(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name) ? Reflect.get(value, name) : undefined;
}

function ambiguous(message: string): GatewayError {
  return new GatewayError('ambiguous_body', message);
}
