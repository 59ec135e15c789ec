import type { Authority } from '../model/arrival.ts';

const MAX_HOST = 253;
const MAX_LABEL = 63;

/** Names that the WHATWG parser would return unchanged: nothing to fold, no IDN, a last label that cannot be read as an IPv4 number. */
const PLAIN = /^(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)*[a-z](?:[a-z0-9-]*[a-z0-9])?$/;
/** What no host may hold as it is written: controls, space, URL delimiters, brackets and colons (IPv6 literals are handled apart). */
const FORBIDDEN = /[\u0000-\u0020\u007f/?#\\@:[\]]/;
const FOLDED_NAME = /^[a-z0-9_-]+(?:\.[a-z0-9_-]+)*$/;
const IPV6_TEXT = /^[0-9a-fA-F:.]{2,45}$/;
const PORT = /^[1-9]\d{0,4}$/;

/**
 * Folds a host to the one form that is classified, recorded and dialled (decision 3.17): by the WHATWG parser (case, IDN to punycode, percent-encoding, odd
 * IPv4 forms such as `0x7f.1` and `2130706433`), trailing dot stripped, IPv6 compressed and without brackets, with or without them on input.
 * @returns undefined for anything that is not a host: empty labels, control characters, user info, a port, a zone, more than 253 characters
 */
export function canonicalHost(text: string): string | undefined {
  const length = text.length;
  // The longest readable spelling is every byte percent-encoded.
  if (length === 0 || length > 3 * (MAX_HOST + 1)) return undefined;
  if (length <= MAX_LABEL && !text.includes('xn--') && PLAIN.test(text)) return text;
  if (text.includes(':')) return canonicalIpv6(text);
  if (FORBIDDEN.test(text)) return undefined;
  const parsed = whatwgHost(text);
  if (parsed === undefined) return undefined;
  const folded = parsed.endsWith('.') ? parsed.slice(0, -1) : parsed;
  if (folded.length > MAX_HOST || !FOLDED_NAME.test(folded)) return undefined;
  if (folded.split('.').some((label) => label.length > MAX_LABEL)) return undefined;
  return folded;
}

/**
 * Reads `host:port` as CONNECT, Host and `:authority` carry it. The port is 1 to 65535 in decimal without leading zeros; an IPv6 literal needs brackets.
 * @param defaultPort taken when the text has no port; without it a port is required (CONNECT)
 */
export function parseAuthority(text: string, defaultPort?: number): Authority | undefined {
  const colon = text.lastIndexOf(':');
  const hasPort = colon !== -1 && text.charCodeAt(text.length - 1) !== 0x5d;
  const hostText = hasPort ? text.slice(0, colon) : text;
  const port = hasPort ? parsePort(text.slice(colon + 1)) : defaultPort;
  if (port === undefined) return undefined;
  if (hostText.includes(':') && !(hostText.startsWith('[') && hostText.endsWith(']'))) return undefined;
  const host = canonicalHost(hostText);
  return host === undefined ? undefined : { host, port };
}

/** `host:port`, with the brackets that an IPv6 literal needs there. */
export function formatAuthority(authority: Authority): string {
  return `${bracketHost(authority.host)}:${authority.port}`;
}

/** The host as it stands in a URL or a Host header. */
export function bracketHost(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}

/** A TCP port from 1 to 65535 in plain decimal. */
export function parsePort(text: string): number | undefined {
  if (!PORT.test(text)) return undefined;
  const port = Number(text);
  return port <= 65_535 ? port : undefined;
}

function canonicalIpv6(text: string): string | undefined {
  const bare = text.startsWith('[') && text.endsWith(']') ? text.slice(1, -1) : text;
  if (!IPV6_TEXT.test(bare)) return undefined;
  return whatwgHost(`[${bare}]`)?.slice(1, -1);
}

/** Not asked of `URL.canParse`: once V8 has optimised its caller, Node 20 gives it the bytes of a Latin-1 string as if they were UTF-8. */
function whatwgHost(text: string): string | undefined {
  try {
    const { hostname } = new URL(`http://${text}/`);
    return hostname === '' ? undefined : hostname;
  } catch {
    return undefined;
  }
}
