import type { Authority } from '../model/arrival.ts';
import { IpSet, parseIp } from './ip.ts';

const MAX_HOST = 253;
const MAX_LABEL = 63;

/**
 * Names that the WHATWG parser would return unchanged: nothing to fold, no IDN, a last label that cannot be read as an
 * IPv4 number.
 */
const PLAIN = /^(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)*[a-z](?:[a-z0-9-]*[a-z0-9])?$/;
/**
 * What no host may hold as it is written: controls, space, URL delimiters, brackets and colons (IPv6 literals are
 * handled apart).
 */
const FORBIDDEN = /[\u0000-\u0020\u007f/?#\\@:[\]]/;
const FOLDED_NAME = /^[a-z0-9_-]+(?:\.[a-z0-9_-]+)*$/;
const IPV6_TEXT = /^[0-9a-fA-F:.]{2,45}$/;
const PORT = /^[1-9]\d{0,4}$/;

/**
 * Folds a host to the one form that is classified, recorded and dialled (decision 3.17): by the WHATWG parser (case,
 * IDN to punycode, percent-encoding, odd IPv4 forms such as `0x7f.1` and `2130706433`), trailing dot stripped, IPv6
 * compressed and without brackets, with or without them on input.
 * @returns undefined for anything that is not a host: empty labels, control characters, user info, a port, a zone, more
 * than 253 characters
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
 * Reads `host:port` as CONNECT, Host and `:authority` carry it. The port is 1 to 65535 in decimal without leading
 * zeros; an IPv6 literal needs brackets.
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

/**
 * Not asked of `URL.canParse`: once V8 has optimised its caller, Node 20 gives it the bytes of a Latin-1 string as if
 * they were UTF-8.
 */
function whatwgHost(text: string): string | undefined {
  try {
    const { hostname } = new URL(`http://${text}/`);
    return hostname === '' ? undefined : hostname;
  } catch {
    return undefined;
  }
}

const LOOPBACK = IpSet.parse(['127.0.0.0/8', '::1']);

/**
 * True for `localhost`, names below it, and loopback addresses: what only this machine can reach. The argument is
 * canonical (decision 3.17).
 */
export function isLoopbackHost(host: string): boolean {
  return host === 'localhost' || host === '127.0.0.1' || host.endsWith('.localhost') || LOOPBACK.has(host);
}

/**
 * Behind this name the proxy answers by itself, so that a client's way and trust can be tried without a provider
 * (decision 12.11). It can be nobody else's: names below `.invalid` are never in the DNS (RFC 6761 §6.4), so that a
 * client that does not use the proxy is told that there is no such host.
 */
export const SELF_TEST_HOST = 'self-test.ai-request-gateway.invalid';

/**
 * A set of hosts: `example.com` is that host alone, `*.example.com` every name below it (not the name itself), `*`
 * every host. Patterns are folded as hosts are (decision 3.17).
 */
export class HostPatterns {
  static readonly none = new HostPatterns(new Set(), new Set(), false);

  readonly #exact: ReadonlySet<string>;
  readonly #suffixes: ReadonlySet<string>;
  readonly #all: boolean;

  private constructor(exact: ReadonlySet<string>, suffixes: ReadonlySet<string>, all: boolean) {
    this.#exact = exact;
    this.#suffixes = suffixes;
    this.#all = all;
  }

  /** @throws RangeError naming the first pattern that is none */
  static parse(patterns: Iterable<string>): HostPatterns {
    const exact = new Set<string>();
    const suffixes = new Set<string>();
    let all = false;
    for (const pattern of patterns) {
      const below = pattern.startsWith('*.');
      const host = pattern === '*' ? '*' : canonicalHost(below ? pattern.slice(2) : pattern);
      if (host === undefined) throw new RangeError(`"${pattern}" is neither a host nor a pattern such as *.example.com`);
      if (host === '*') all = true;
      else (below ? suffixes : exact).add(host);
    }
    return new HostPatterns(exact, suffixes, all);
  }

  get isEmpty(): boolean {
    return !this.#all && this.#exact.size === 0 && this.#suffixes.size === 0;
  }

  /** @param host canonical */
  has(host: string): boolean {
    if (this.#all || this.#exact.has(host)) return true;
    if (this.#suffixes.size === 0) return false;
    for (let dot = host.indexOf('.'); dot !== -1; dot = host.indexOf('.', dot + 1)) {
      if (this.#suffixes.has(host.slice(dot + 1))) return true;
    }
    return false;
  }
}

/** What the operator exempts from the egress guard (`GW_EGRESS_ALLOW`). */
export interface EgressAllow {
  readonly ranges: IpSet;
  readonly hosts: HostPatterns;
}

/** @throws RangeError naming the first entry that is neither an address, a CIDR range nor a host pattern */
export function parseEgressAllow(entries: readonly string[]): EgressAllow {
  const isRange = (entry: string): boolean => entry.includes('/') || parseIp(entry) !== undefined;
  return {
    ranges: IpSet.parse(entries.filter(isRange)),
    hosts: HostPatterns.parse(entries.filter((entry) => !isRange(entry))),
  };
}
