import { GatewayError } from './gateway-error.ts';

/* What this gateway's own keys and tokens begin with; none of them is ever sent on (decision 3.21). */
export const API_KEY_PREFIX = 'gwk_';
export const WORKLOAD_TOKEN_PREFIX = 'gwt_';
export const MANAGEMENT_KEY_PREFIX = 'mgk_';
export const MCP_KEY_PREFIX = 'mcpk_';
const OWN_PREFIXES: readonly string[] = [API_KEY_PREFIX, WORKLOAD_TOKEN_PREFIX, MANAGEMENT_KEY_PREFIX, MCP_KEY_PREFIX];
const G = 0x67;
const M = 0x6d;
const SPACE = 0x20;
const TAB = 0x09;
const DELETE = 0x7f;

/** True for a key or token of this gateway. Nearly all other texts are told apart by their first character. */
export function isOwnToken(text: string): boolean {
  const first = text.charCodeAt(0);
  return (first === G || first === M) && OWN_PREFIXES.some((prefix) => text.startsWith(prefix));
}

/** The key or token of this gateway that a header shows as it is or behind a scheme (`Bearer gwk_…`); undefined for any other value. */
export function shownToken(value: string): string | undefined {
  if (isOwnToken(value)) return value;
  const blank = firstBlank(value);
  if (blank === -1 || beginsOtherwise(value, blank + 1)) return undefined;
  const rest = value.slice(blank + 1).trim();
  return isOwnToken(rest) ? rest : undefined;
}

/** Where a scheme ends: most servers take a tab there for the space that RFC 9110 §11.4 has. -1 where there is none. */
export function firstBlank(value: string): number {
  for (let at = 0; at < value.length; at += 1) {
    const code = value.charCodeAt(at);
    if (code === SPACE || code === TAB) return at;
  }
  return -1;
}

/** A visible ASCII character stands there, and none of ours begins with it: every call has such a header, and needs no copy of it. */
function beginsOtherwise(value: string, at: number): boolean {
  const first = value.charCodeAt(at);
  return first > SPACE && first < DELETE && first !== G && first !== M;
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
