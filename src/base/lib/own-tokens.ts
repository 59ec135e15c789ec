import { GatewayError } from './gateway-error.ts';

/* What this gateway's own keys and tokens begin with; none of them is ever sent on (decision 3.21). */
export const API_KEY_PREFIX = 'gwk_';
export const WORKLOAD_TOKEN_PREFIX = 'gwt_';
const OWN_PREFIXES: readonly string[] = [API_KEY_PREFIX, WORKLOAD_TOKEN_PREFIX, 'mgk_', 'mcpk_'];
const G = 0x67;
const M = 0x6d;

/** True for a key or token of this gateway. Nearly all other texts are told apart by their first character. */
export function isOwnToken(text: string): boolean {
  const first = text.charCodeAt(0);
  return (first === G || first === M) && OWN_PREFIXES.some((prefix) => text.startsWith(prefix));
}

/** The key or token of this gateway that a header shows as it is or behind a scheme (`Bearer gwk_…`); undefined for any other value. */
export function shownToken(value: string): string | undefined {
  if (isOwnToken(value)) return value;
  const blank = firstBlank(value);
  if (blank === -1) return undefined;
  const rest = value.slice(blank + 1).trim();
  return isOwnToken(rest) ? rest : undefined;
}

/** Where a scheme ends: most servers take a tab there for the space that RFC 9110 §11.4 has. -1 where there is none. */
export function firstBlank(value: string): number {
  const space = value.indexOf(' ');
  const tab = value.indexOf('\t');
  return tab !== -1 && (space === -1 || tab < space) ? tab : space;
}

/** No name holds a `?`, so that each character is looked at once, whatever a stranger sends. */
const TOKEN_IN_QUERY = /[?&][^=&#?]*=(?:gwk|gwt|mgk|mcpk)_/;

/**
 * A key or token of this gateway in a URL would go to logs and to whoever is behind the URL.
 * @throws GatewayError `invalid_request` when there is one
 */
export function refuseTokenInQuery(target: string): void {
  if (!target.includes('?') || !TOKEN_IN_QUERY.test(target)) return;
  throw new GatewayError('invalid_request', 'A key or token of this gateway stands in a header, never in a URL, where others can read it.');
}
