import { percentDecoded } from '../../base/lib/percent-text.ts';

const HIDDEN_SEPARATOR = /[/\\]/;

/**
 * The segments of a path without its query, each decoded once.
 * @returns undefined for what two servers could read as two paths: empty and dot segments, encoded or literal backslashes, encoded slashes, bad encodings
 */
export function pathSegments(path: string): readonly string[] | undefined {
  const bare = path.split('?', 1)[0] ?? '';
  if (!bare.startsWith('/')) return undefined;
  if (bare === '/') return [];
  const segments: string[] = [];
  for (const part of bare.slice(1).split('/')) {
    const segment = percentDecoded(part);
    if (segment === undefined || segment === '' || segment === '.' || segment === '..' || HIDDEN_SEPARATOR.test(segment)) return undefined;
    segments.push(segment);
  }
  return segments;
}

/** The segments of a pattern, in which `*` alone stands for one segment. @returns undefined for a star within a segment, and for what no path is */
export function patternSegments(pattern: string): readonly string[] | undefined {
  const segments = pattern.includes('?') ? undefined : pathSegments(pattern);
  return segments?.some((segment) => segment !== '*' && segment.includes('*')) === true ? undefined : segments;
}

/** Whether the pattern lets through all that `inner` does: a path, or another pattern. */
export function covers(pattern: readonly string[], inner: readonly string[]): boolean {
  return pattern.length === inner.length && pattern.every((segment, i) => segment === '*' || segment === inner[i]);
}
