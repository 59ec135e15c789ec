import { type ErrorDetail, GatewayError } from './gateway-error.ts';

/**
 * What clients add to an address so that no cache answers it. Of what anybody may read they are left alone: a probe or
 * a browser that adds one must not be refused.
 */
const CACHE_BUSTERS: ReadonlySet<string> = new Set(['_', 'cb', 't', 'ts']);

/**
 * Parameters that are unknown, or there more than once (decision 8.15).
 * @param anybodys what is asked is read without a token: then parameters against caches count for nothing
 */
export function queryMistakes(query: URLSearchParams, known: readonly string[], anybodys: boolean): ErrorDetail[] {
  if (query.size === 0) return [];
  const names = known.length === 0 ? 'none' : known.join(', ');
  return [...new Set(query.keys())].flatMap((path) => {
    if (!known.includes(path))
      return anybodys && CACHE_BUSTERS.has(path) ? [] : [{ path, message: `is no parameter of this path, which takes ${names}` }];
    return query.getAll(path).length > 1 ? [{ path, message: 'is there more than once' }] : [];
  });
}

/** @param refusal the sentence of the error, in the place of one that counts the mistakes */
export function badQuery(details: readonly ErrorDetail[], refusal?: string): GatewayError {
  return new GatewayError('invalid_request', refusal ?? `The query has ${details.length} bad parameter(s).`, { details });
}
