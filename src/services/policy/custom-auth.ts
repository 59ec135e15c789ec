import type { CustomAuth } from '../../base/catalogue/custom-row.ts';
import type { ErrorDetail } from '../../base/lib/gateway-error.ts';
import type { CustomConnector } from '../../base/model/custom-connector.ts';

const HEADER = /^[a-z0-9][a-z0-9-]{0,63}$/;
const QUERY = /^[A-Za-z0-9_.-]{1,64}$/;
/**
 * What a message is made of, or what never leaves (decision 3.21): a key in one of these would not arrive, or would
 * change what the call is.
 */
const NOT_FOR_KEYS =
  /^(?:host|connection|content-.*|transfer-encoding|te|trailer|upgrade|expect|via|date|accept.*|cookie|origin|keep-alive|proxy-.*|x-gw-.*|gw-.*|sec-.*|x-http-method.*|forwarded|x-forwarded-.*)$/;

/** What is wrong with how it is given its key. */
export function authMistakes({ auth_mode: mode, auth_header: header, auth_query: query, base_url: url }: CustomConnector): ErrorDetail[] {
  const found: ErrorDetail[] = [];
  const add = (path: string, message: string): number => found.push({ path, message });
  if (mode === 'header') {
    if (header === undefined) add('auth_header', 'is required with auth_mode header');
    else if (!HEADER.test(header) || NOT_FOR_KEYS.test(header)) add('auth_header', 'must be the name of a header that can carry a key');
  } else if (header !== undefined) add('auth_header', 'belongs to auth_mode header');
  if (mode === 'query') {
    if (query === undefined) add('auth_query', 'is required with auth_mode query');
    else if (!QUERY.test(query)) add('auth_query', 'must be 1 to 64 letters, digits, _ . or -');
  } else if (query !== undefined) add('auth_query', 'belongs to auth_mode query');
  if (mode !== 'none' && url.startsWith('http:')) add('auth_mode', 'must be none where the base_url is http: no key is sent unencrypted');
  return found;
}

/** The same, once it has no mistakes, as the catalogue takes it. */
export function authOf({ auth_mode: mode, auth_header: header = '', auth_query: query = '' }: CustomConnector): CustomAuth {
  if (mode === 'header') return { mode, header };
  return mode === 'query' ? { mode, query } : { mode };
}
