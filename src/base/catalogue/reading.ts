import { percentDecoded } from '../lib/text.ts';
import type { NamedModels } from './named-models.ts';
import type { NameRule } from './spelling.ts';
import type { Operation, Provider } from './types.ts';
import { modelAsSeen } from './usual-path.ts';

/** How much of a request is understood, and in which form policy sees it. */
export interface Reading {
  /** How the names of its body are written. */
  readonly names: NameRule;
  /**
   * Its provider ignores the case of paths, of names of models: policy sees them in lower case, and rules are compared
   * in lower case with them.
   */
  readonly foldsPath: boolean;
  readonly foldsModel: boolean;
  /** The model that the provider will take cannot be known. */
  readonly hidesModel: boolean;
  /** Another model than the one that is named may answer, at a price of its own. */
  readonly hidesPrice: boolean;
  /** What the body means is not known, so neither its stream switch nor its other params nor what it may cost. */
  readonly hidesBody: boolean;
}

/** Of a request that is understood as it is written. */
export const PLAIN_READING: Reading = Object.freeze({
  names: 'exact',
  foldsPath: false,
  foldsModel: false,
  hidesModel: false,
  hidesPrice: false,
  hidesBody: false,
});

/** The model that a path names, as policy sees it; undefined when it names none, or none that can be read. */
export function modelInPath({ dialect, modelNames }: Operation, path: string): string | undefined {
  const [route = ''] = path.split('?', 1);
  for (const place of dialect?.model ?? []) {
    const found = place.in === 'path' ? place.pattern.exec(route)?.[1] : undefined;
    const model = found === undefined ? undefined : percentDecoded(found);
    if (model !== undefined) return modelAsSeen(model, modelNames);
  }
  return undefined;
}

/**
 * @param hasModel the model was found where the provider reads it
 * @param named the models that the body names beside it; of an operation that is not known it names none that anybody
 * could know
 */
export function readingOf(
  provider: Provider | undefined,
  operation: Operation | undefined,
  hasModel: boolean,
  named: NamedModels | undefined,
): Reading {
  if (provider === undefined || operation === undefined) return PLAIN_READING;
  const { known, dialect } = operation;
  const foldsModel = operation.modelNames === 'caseless' || operation.modelNames === 'tagged';
  const names = dialect?.names ?? 'exact';
  // A handshake, and a question about a call, run no model.
  const stored = dialect?.modelStored === true && operation.actionType !== 'http.request' && !operation.websocket;
  // Whatever else its body names: it has no place for a model of the caller's.
  const fixed = stored && dialect.model.length === 0;
  const beside = named?.hidden === true;
  if (known && !stored && !beside && !foldsModel && !provider.pathsIgnoreCase && names === 'exact') return PLAIN_READING;
  return {
    names,
    foldsPath: provider.pathsIgnoreCase,
    foldsModel,
    hidesModel: beside || fixed || (!hasModel && (!known || stored)),
    hidesPrice: beside,
    hidesBody: !known,
  };
}

/**
 * What ends a segment or a path in some servers, however often its escape was escaped itself: a slash, a backslash, the
 * beginning of a query, of a fragment or of a path parameter.
 */
const SEPARATOR = /;|%(?:25)*(?:2F|5C|3F|23|3B)/i;
const SLASHES = /%(?:25)*(?:2F|5C)/gi;
/** From where on a server may take no notice of a path. */
const CUT = /%(?:25)*(?:3F|23).*$/is;
const PARAMETERS = /(?:;|%(?:25)*3B)[^/]*/gi;

/**
 * The path that a server sees which decodes before it routes, or leaves path parameters out: `/v1/threads/x%2Fruns` is
 * then `/v1/threads/x/runs`. Undefined where there is only one way to read it.
 * @param path without its query
 */
export function otherReading(path: string): string | undefined {
  if (!SEPARATOR.test(path)) return undefined;
  const read = path.replace(CUT, '').replace(SLASHES, '/').replace(PARAMETERS, '');
  let end = read.length;
  while (end > 1 && read.endsWith('/', end)) end--;
  return read.slice(0, end);
}

const ODD = /[%;#\\\sA-Z]|\/[/.]|\.(?:\/|$)/;
const ESCAPES = /%(?:25)*([0-9A-F]{2})/gi;
/** An escape may be spelt with escapes; who decodes more often than this reads nothing that anybody has written. */
const MOST_DECODED = 4;
/** A segment that names the upper directory, with or without a path parameter behind it. */
const CLIMBS = /(?:^|\/)\s*\.\.[. ]*(?:[/;?#]|$)/;
const DOT = 0x2e;
const SPACE = 0x20;
const CONTROLS = /\p{Cc}/gu;

/** How lenient servers may read a path. */
export interface LooseReading {
  /** Each begins with a slash. */
  readonly paths: readonly string[];
  /**
   * All of it, decoded, where it has segments that lead upwards: undefined where it has none. What they take away is
   * not the same for all servers.
   */
  readonly climbing: string | undefined;
}

/**
 * The path as the most lenient of servers may read it: escapes decoded, however often they were escaped, in lower case,
 * without control characters, path parameters, empty segments, and dots and spaces at the end of segments. Undefined
 * for a usual path, which all servers read as it is.
 * @param path without its query
 */
export function looseReading(path: string): LooseReading | undefined {
  if (!ODD.test(path)) return undefined;
  let decoded = path;
  for (let times = 0; times < MOST_DECODED && decoded.includes('%'); times++)
    decoded = decoded.replace(ESCAPES, (_escape, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)));
  const text = decoded.toLowerCase().replaceAll('\\', '/');
  const cleaned = text.replace(CONTROLS, '');
  const [route = ''] = text.split(/[?#]/, 1)[0]?.split('\0', 1) ?? [];
  const kept: string[] = [];
  for (const part of route.replace(CONTROLS, '').split('/')) {
    const [name = ''] = part.split(';', 1);
    const named = withoutEnding(name);
    if (named !== '') kept.push(named);
  }
  // Some take what two slashes begin for an authority.
  const paths = text.startsWith('//') ? [joined(kept), joined(kept.slice(1))] : [joined(kept)];
  return { paths, climbing: CLIMBS.test(cleaned) ? cleaned : undefined };
}

/**
 * A name without what some file systems leave out at its end. By hand: an expression would look again from each dot.
 */
function withoutEnding(name: string): string {
  let end = name.length;
  while (end > 0 && (name.charCodeAt(end - 1) === DOT || name.charCodeAt(end - 1) === SPACE)) end--;
  return name.slice(0, end);
}

function joined(segments: readonly string[]): string {
  return `/${segments.join('/')}`;
}
