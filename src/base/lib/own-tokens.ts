import { GatewayError } from './gateway-error.ts';

/* What this gateway's own keys and tokens begin with; none of them is ever sent on (decision 3.21). */
export const API_KEY_PREFIX = 'gwk_';
export const WORKLOAD_TOKEN_PREFIX = 'gwt_';
export const MANAGEMENT_KEY_PREFIX = 'mgk_';
export const MCP_KEY_PREFIX = 'mcpk_';
/** Lets one node in at a control plane. */
export const BOOTSTRAP_TOKEN_PREFIX = 'gwb_';
const OWN_PREFIXES: readonly string[] = [
  API_KEY_PREFIX,
  WORKLOAD_TOKEN_PREFIX,
  MANAGEMENT_KEY_PREFIX,
  MCP_KEY_PREFIX,
  BOOTSTRAP_TOKEN_PREFIX,
];
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

/** What each is for, in words for the person who has shown it elsewhere. */
const PLACES: readonly (readonly [prefix: string, what: string])[] = [
  [API_KEY_PREFIX, 'an API key, which is for calls: Authorization: Bearer, X-GW-API-Key, or the password of the proxy'],
  [WORKLOAD_TOKEN_PREFIX, 'a workload token, which is for calls: Authorization: Bearer, X-GW-Workload-Token, or the password of the proxy'],
  [MANAGEMENT_KEY_PREFIX, 'a management key, which is for /mgmt/v1'],
  [MCP_KEY_PREFIX, 'an MCP key, which is for /mcp'],
  [BOOTSTRAP_TOKEN_PREFIX, 'a bootstrap token, which is for GW_BOOTSTRAP_TOKEN'],
];

/** Where something that was shown belongs; undefined for what is none of ours. */
export function placeOfToken(presented: string | undefined): string | undefined {
  return PLACES.find(([prefix]) => presented?.startsWith(prefix) === true)?.[1];
}

const NO_TOKENS = { apiKey: undefined, workloadToken: undefined };

/**
 * The API key and the workload's token in the headers of this gateway (`X-GW-API-Key`, `X-GW-Workload-Token`): each is
 * taken in the place of the other, since both begin with what they are (decision 9.5).
 */
export function tokensInHeaders(headers: Readonly<Record<string, string | readonly string[] | undefined>>): {
  readonly apiKey: string | undefined;
  readonly workloadToken: string | undefined;
} {
  if (headers['x-gw-api-key'] === undefined && headers['x-gw-workload-token'] === undefined) return NO_TOKENS;
  const key = textOf(headers['x-gw-api-key']);
  const token = textOf(headers['x-gw-workload-token']);
  return {
    apiKey: key?.startsWith(WORKLOAD_TOKEN_PREFIX) === true ? beginning(token, API_KEY_PREFIX) : (key ?? beginning(token, API_KEY_PREFIX)),
    workloadToken:
      token?.startsWith(API_KEY_PREFIX) === true ? beginning(key, WORKLOAD_TOKEN_PREFIX) : (token ?? beginning(key, WORKLOAD_TOKEN_PREFIX)),
  };
}

/** An empty header counts as absent. */
function textOf(value: string | readonly string[] | undefined): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function beginning(text: string | undefined, prefix: string): string | undefined {
  return text?.startsWith(prefix) === true ? text : undefined;
}

/** Returns the token of `Authorization: Bearer`; undefined without such a header. */
export function bearerOf({ headers }: { readonly headers: Readonly<Record<string, string | undefined>> }): string | undefined {
  return /^bearer (.*)$/i.exec(headers['authorization'] ?? '')?.[1]?.trim();
}

/** What is said of one that stands in the place of a provider's key. */
export const NO_PROVIDER_KEY = 'is a key or token of this gateway, and none of a provider';

/**
 * The key or token of this gateway that a header shows as it is or behind a scheme (`Bearer gwk_…`); undefined for any
 * other value.
 */
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

/**
 * A visible ASCII character stands there, and none of ours begins with it: every call has such a header, and needs no
 * copy of it.
 */
function beginsOtherwise(value: string, at: number): boolean {
  const first = value.charCodeAt(at);
  return first > SPACE && first < DELETE && first !== G && first !== M;
}

/**
 * One of ours in a longer text: where a word begins, or, behind other characters of a word, in its whole length of 32
 * bytes in base64url. Ids of others hold these four characters now and then; hardly ever in either way.
 */
const INSIDE = /(?<![A-Za-z0-9_-])(?:gw[bkt]|mgk|mcpk)_[A-Za-z0-9_-]*|(?:gw[bkt]|mgk|mcpk)_[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])/;
const EVERY_INSIDE = new RegExp(INSIDE, 'g');
/** However often the percent sign was escaped itself. */
const ESCAPE = /%(?:25)*([0-7][0-9A-Fa-f])/g;
/** Of texts whose escapes spell other escapes. */
const MAX_DECODED = 5;

/**
 * True for a text that holds a key or token of this gateway anywhere, however often it was percent-encoded. Nearly all
 * texts are told apart by one look for an underscore and one for a percent sign.
 */
export function holdsOwnToken(text: string): boolean {
  const escaped = text.includes('%');
  if (text.includes('_') && INSIDE.test(text)) return true;
  if (!escaped) return false;
  let before = text;
  for (let times = 0; times < MAX_DECODED; times += 1) {
    const decoded = before.replace(ESCAPE, asCharacter);
    if (decoded === before) return false;
    if (INSIDE.test(decoded)) return true;
    before = decoded;
  }
  return false;
}

/**
 * A text for a record, a log line or an answer: of each key or token of this gateway in it only how it begins, and
 * nothing at all where one is hidden by escapes.
 */
export function withoutOwnTokens(text: string): string {
  if (!holdsOwnToken(text)) return text;
  const shown = text.replace(EVERY_INSIDE, (token) => `${token.slice(0, token.indexOf('_') + 1)}…`);
  return shown.includes('%') ? HIDDEN_TOKEN : shown;
}

/** Stands for a text of which nothing is shown. */
export const HIDDEN_TOKEN = '(not shown: it holds a key or token of this gateway)';

function asCharacter(_escape: string, hex: string): string {
  return String.fromCharCode(Number.parseInt(hex, 16));
}

/** A short admin token could be any word; from this length on none is met by chance. */
const MIN_UNMISTAKABLE = 16;

/** True for a text that holds the admin token; one that is short counts where it is all of the text. */
export function holdsAdminToken(text: string, adminToken: string | undefined): boolean {
  if (adminToken === undefined || adminToken === '' || text.length < adminToken.length) return false;
  return adminToken.length >= MIN_UNMISTAKABLE ? text.includes(adminToken) : text === adminToken;
}

/**
 * A key or token of this gateway in a URL would go to logs and to whoever is behind the URL (decision 3.21).
 * @param target path, query, or a whole URL
 * @throws GatewayError `invalid_request` when there is one, wherever in it
 */
export function refuseTokenInUrl(target: string, adminToken?: string): void {
  if (holdsOwnToken(target) || holdsAdminToken(target, adminToken)) throw tokenInUrl();
}

/** What is said of one; it does not repeat it. */
export function tokenInUrl(): GatewayError {
  return new GatewayError(
    'invalid_request',
    'A key or token of this gateway stands in a header, never in a URL, where others can read it.',
  );
}
