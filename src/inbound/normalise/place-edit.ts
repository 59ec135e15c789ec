import type { FieldPlace } from '../../base/catalogue/types.ts';
import { pathOnly, queryOf } from './path.ts';

/** The last word of a path: behind a colon as Google writes verbs, or a segment. */
const VERB = /(:|%3A|\/)([A-Za-z-]+)(?=\/?$)/;

/**
 * The path with the value that a path place captures replaced (a model or a deployment).
 * @returns undefined when the place is not in this path
 */
export function replaceInPath(path: string, pattern: RegExp, value: string): string | undefined {
  const route = pathOnly(path);
  const flags = pattern.flags.includes('d') ? pattern.flags : `${pattern.flags}d`;
  const range = new RegExp(pattern.source, flags).exec(route)?.indices?.[1];
  if (range === undefined) return undefined;
  // A name of several segments, such as `owner/name`, stays one.
  const escaped = route.slice(range[0], range[1]).includes('/')
    ? value.split('/').map(encodeURIComponent).join('/')
    : encodeURIComponent(value);
  return route.slice(0, range[0]) + escaped + path.slice(range[1]);
}

/**
 * The path with its stream verb put or taken away, and with the parameter that goes with it: without `alt=sse` Gemini
 * streams one JSON array (decision 8.6).
 * @returns undefined when the path has no verb that streams
 */
export function switchStreamVerb(path: string, { verbs }: Extract<FieldPlace, { in: 'path' }>, stream: boolean): string | undefined {
  const route = pathOnly(path);
  const found = VERB.exec(route);
  if (verbs === undefined || found === null) return undefined;
  const verb = found[2];
  if (verb !== verbs.plain && verb !== verbs.stream) return undefined;
  const newRoute =
    route.slice(0, found.index) + (found[1] ?? '') + (stream ? verbs.stream : verbs.plain) + route.slice(found.index + found[0].length);
  const { query } = verbs;
  if (query === undefined || (!stream && verb === verbs.plain)) return newRoute + path.slice(route.length);
  return setQuery(newRoute + path.slice(route.length), query.name, stream ? query.value : undefined);
}

/** The path with a query parameter set, or with every one of that name removed. */
export function setQuery(path: string, name: string, value: string | undefined): string {
  const query = queryOf(path);
  const pairs = query === '' ? [] : query.split('&');
  const kept = pairs.filter((pair) => pair !== name && !pair.startsWith(`${name}=`));
  if (value !== undefined) kept.push(`${name}=${encodeURIComponent(value)}`);
  return kept.length === 0 ? pathOnly(path) : `${pathOnly(path)}?${kept.join('&')}`;
}
