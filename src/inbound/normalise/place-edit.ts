import type { Place } from '../../base/catalogue/types.ts';
import { pathOnly, queryOf } from './path.ts';

/** Verbs that make a stream and their plain counterparts, as Google writes them. */
const STREAM_VERBS: ReadonlyMap<string, string> = new Map([
  ['streamGenerateContent', 'generateContent'],
  ['streamRawPredict', 'rawPredict'],
]);
const PLAIN_VERBS: ReadonlyMap<string, string> = new Map([...STREAM_VERBS].map(([stream, plain]) => [plain, stream]));
const VERB = /(:|%3A)([A-Za-z]+)(?=\/?$)/;

/**
 * The path with the value that a path place captures replaced (a model or a deployment).
 * @returns undefined when the place is not in this path
 */
export function replaceInPath(path: string, pattern: RegExp, value: string): string | undefined {
  const route = pathOnly(path);
  const flags = pattern.flags.includes('d') ? pattern.flags : `${pattern.flags}d`;
  const range = new RegExp(pattern.source, flags).exec(route)?.indices?.[1];
  if (range === undefined) return undefined;
  return route.slice(0, range[0]) + encodeURIComponent(value) + path.slice(range[1]);
}

/**
 * The path with its stream verb put or taken away, and with `alt=sse` accordingly, without which Gemini streams one JSON array (decision 8.6).
 * @returns undefined when the path has no verb that streams
 */
export function switchStreamVerb(path: string, place: Extract<Place, { in: 'path' }>, stream: boolean): string | undefined {
  const route = pathOnly(path);
  const found = VERB.exec(route);
  if (found === null) return undefined;
  const streamsNow = place.pattern.test(route);
  const verb = found[2] ?? '';
  const wanted = stream === streamsNow ? verb : (stream ? PLAIN_VERBS : STREAM_VERBS).get(verb);
  if (wanted === undefined || (stream && !STREAM_VERBS.has(wanted))) return stream === streamsNow ? path : undefined;
  const newRoute = route.slice(0, found.index) + (found[1] ?? '') + wanted + route.slice(found.index + found[0].length);
  if (stream) return setQuery(newRoute + path.slice(route.length), 'alt', 'sse');
  return streamsNow ? setQuery(newRoute + path.slice(route.length), 'alt', undefined) : path;
}

/** The path with a query parameter set, or with every one of that name removed. */
export function setQuery(path: string, name: string, value: string | undefined): string {
  const query = queryOf(path);
  const pairs = query === '' ? [] : query.split('&');
  const kept = pairs.filter((pair) => pair !== name && !pair.startsWith(`${name}=`));
  if (value !== undefined) kept.push(`${name}=${encodeURIComponent(value)}`);
  return kept.length === 0 ? pathOnly(path) : `${pathOnly(path)}?${kept.join('&')}`;
}
