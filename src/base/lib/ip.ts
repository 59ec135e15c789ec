import ipaddr from 'ipaddr.js';

/**
 * An IP address as numbers: one 32-bit word for IPv4, four for IPv6. An IPv4-mapped IPv6 address (`::ffff:10.0.0.1`) is
 * read as the IPv4 address that it stands for, so that a dual-stack socket and a rule cannot disagree.
 */
export interface Ip {
  readonly version: 4 | 6;
  readonly words: readonly number[];
  /** Canonical text: dotted quad, or RFC 5952 without brackets and zone. */
  readonly text: string;
}

/** Reads a literal address, IPv4 in four plain decimal parts only; brackets are not accepted, a zone is ignored. */
export function parseIp(text: string): Ip | undefined {
  if (text.length > 64) return undefined;
  // The peer of a dual-stack socket comes as `::ffff:1.2.3.4` with each request, so the common forms do not go through
  // the package.
  const quad = dottedQuad(text.startsWith('::ffff:') ? text.slice(7) : text);
  if (quad !== undefined) return ipv4(quad);
  const hexadecimal = text.includes('.') ? withoutDottedQuad(text) : text;
  if (hexadecimal === undefined || !hexadecimal.includes(':') || !ipaddr.IPv6.isValid(hexadecimal)) return undefined;
  return fromIpaddr(ipaddr.IPv6.parse(hexadecimal));
}

/**
 * Writes `::1.2.3.4` as `::102:304`: ipaddr.js takes a compatible address for a mapped one when it is written with
 * dots.
 */
function withoutDottedQuad(text: string): string | undefined {
  const colon = text.lastIndexOf(':');
  const word = dottedQuad(text.slice(colon + 1));
  if (colon === -1 || word === undefined) return undefined;
  return `${text.slice(0, colon + 1)}${(word >>> 16).toString(16)}:${(word & 0xffff).toString(16)}`;
}

const DOTTED_QUAD = /^(0|[1-9]\d{0,2})\.(0|[1-9]\d{0,2})\.(0|[1-9]\d{0,2})\.(0|[1-9]\d{0,2})$/;

/** Four decimal numbers up to 255 without leading zeros, as one word. */
function dottedQuad(text: string): number | undefined {
  const match = DOTTED_QUAD.exec(text);
  if (match === null) return undefined;
  let word = 0;
  for (let i = 1; i <= 4; i++) {
    const part = Number(match[i]);
    if (part > 255) return undefined;
    word = word * 256 + part;
  }
  return word;
}

interface Range {
  readonly version: 4 | 6;
  readonly words: readonly number[];
  readonly masks: readonly number[];
}

/** A set of addresses given as CIDR ranges or single addresses. */
export class IpSet {
  static readonly empty = new IpSet([]);

  readonly #ranges: readonly Range[];

  private constructor(ranges: readonly Range[]) {
    this.#ranges = ranges;
  }

  /**
   * @throws RangeError naming the first text that is neither an address nor a CIDR range; bits set beyond the prefix
   * are refused too
   */
  static parse(texts: Iterable<string>): IpSet {
    return new IpSet(Array.from(texts, parseRange));
  }

  get isEmpty(): boolean {
    return this.#ranges.length === 0;
  }

  /** A text that is no address is in no set. */
  has(ip: Ip | string): boolean {
    const address = typeof ip === 'string' ? parseIp(ip) : ip;
    if (address === undefined) return false;
    for (const range of this.#ranges) if (isIn(address, range)) return true;
    return false;
  }
}

function isIn(ip: Ip, range: Range): boolean {
  if (ip.version !== range.version) return false;
  for (let i = 0; i < range.words.length; i++) {
    if ((((ip.words[i] ?? 0) ^ (range.words[i] ?? 0)) & (range.masks[i] ?? 0)) !== 0) return false;
  }
  return true;
}

function parseRange(text: string): Range {
  const [address = '', prefix, ...more] = text.split('/');
  const parsed = parseIp(address);
  if (parsed === undefined || more.length > 0) throw badRange(text);
  // A mapped IPv6 range was folded to IPv4, so its prefix loses the 96 bits that are gone.
  const folded = parsed.version === 4 && address.includes(':') ? 96 : 0;
  const width = parsed.version === 4 ? 32 : 128;
  const bits = prefix === undefined ? width : /^\d{1,3}$/.test(prefix) ? Number(prefix) - folded : -1;
  if (bits < 0 || bits > width) throw badRange(text);
  const masks = parsed.words.map((_, i) => maskOf(bits - 32 * i));
  if (parsed.words.some((word, i) => (word & (masks[i] ?? 0)) >>> 0 !== word)) {
    throw new RangeError(`"${text}" has bits set beyond its prefix`);
  }
  return { version: parsed.version, words: parsed.words, masks };
}

function maskOf(bits: number): number {
  if (bits <= 0) return 0;
  return bits >= 32 ? 0xffff_ffff : (0xffff_ffff << (32 - bits)) >>> 0;
}

function badRange(text: string): RangeError {
  return new RangeError(`"${text}" is neither an IP address nor a CIDR range such as 10.0.0.0/8`);
}

function fromIpaddr(parsed: ipaddr.IPv4 | ipaddr.IPv6): Ip {
  if ('octets' in parsed) return ipv4(wordAt(parsed.octets, 0));
  if (parsed.isIPv4MappedAddress()) return fromIpaddr(parsed.toIPv4Address());
  const bytes = parsed.toByteArray();
  const words = [0, 4, 8, 12].map((at) => wordAt(bytes, at));
  return { version: 6, words, text: parsed.toRFC5952String().replace(/%.*$/, '') };
}

function wordAt(bytes: readonly number[], at: number): number {
  return (((bytes[at] ?? 0) << 24) | ((bytes[at + 1] ?? 0) << 16) | ((bytes[at + 2] ?? 0) << 8) | (bytes[at + 3] ?? 0)) >>> 0;
}

function ipv4(word: number): Ip {
  return { version: 4, words: [word], text: `${word >>> 24}.${(word >>> 16) & 255}.${(word >>> 8) & 255}.${word & 255}` };
}

/** Why an address is not the public internet. */
export type EgressReason =
  | 'loopback'
  | 'private'
  | 'link_local'
  | 'metadata'
  | 'unspecified'
  | 'shared'
  | 'multicast'
  | 'documentation'
  | 'benchmarking'
  | 'teredo'
  | 'reserved'
  | 'not_an_address';

/**
 * First match wins. The union of what the published egress guards block (IANA special-purpose registries, RFC 6890 and
 * successors), and the metadata services of the clouds, of which Azure's wire server has a public address.
 */
const NOT_PUBLIC: readonly (readonly [EgressReason, IpSet])[] = [
  ['metadata', IpSet.parse(['169.254.169.254', '168.63.129.16', '192.0.0.192', '100.100.100.200', 'fd00:ec2::254'])],
  ['loopback', IpSet.parse(['127.0.0.0/8', '::1'])],
  ['unspecified', IpSet.parse(['0.0.0.0/8', '::'])],
  ['private', IpSet.parse(['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7', 'fec0::/10'])],
  ['link_local', IpSet.parse(['169.254.0.0/16', 'fe80::/10'])],
  ['shared', IpSet.parse(['100.64.0.0/10'])],
  ['multicast', IpSet.parse(['224.0.0.0/4', 'ff00::/8'])],
  ['documentation', IpSet.parse(['192.0.2.0/24', '198.51.100.0/24', '203.0.113.0/24', '2001:db8::/32', '3fff::/20'])],
  ['benchmarking', IpSet.parse(['198.18.0.0/15', '2001:2::/48'])],
  ['teredo', IpSet.parse(['2001::/32'])],
  ['reserved', IpSet.parse(['192.0.0.0/24', '192.88.99.0/24', '240.0.0.0/4', '2001::/23'])],
];

const NAT64 = IpSet.parse(['64:ff9b::/96']);
const SIX_TO_FOUR = IpSet.parse(['2002::/16']);
const GLOBAL_UNICAST = IpSet.parse(['2000::/3']);

/**
 * Judges an address that is about to be dialled. IPv4 addresses inside IPv6 (mapped, NAT64 64:ff9b::/96, 6to4) are
 * taken out and judged themselves, so that IPv6-only hosts keep working; outside of 2000::/3 every other IPv6 address
 * is refused (IPv4-compatible ::/96, 64:ff9b:1::/48, 100::/64, …).
 */
export function classifyEgress(ip: Ip | string): 'public' | EgressReason {
  const address = typeof ip === 'string' ? parseIp(ip) : ip;
  if (address === undefined) return 'not_an_address';
  for (const [reason, set] of NOT_PUBLIC) {
    if (set.has(address)) return reason;
  }
  if (address.version === 4) return 'public';
  const [first = 0, second = 0, , last = 0] = address.words;
  if (NAT64.has(address)) return classifyEgress(ipv4(last));
  if (SIX_TO_FOUR.has(address)) return classifyEgress(ipv4(((first << 16) | (second >>> 16)) >>> 0));
  return GLOBAL_UNICAST.has(address) ? 'public' : 'reserved';
}

/**
 * Whose an address is, for what is shared by addresses: the address itself, of IPv6 the first one of its network of 64
 * bits, as many as one machine may give itself. A text that is no address is given back.
 */
export function networkOf(address: string): string {
  if (!address.includes(':')) return address;
  const ip = parseIp(address);
  if (ip?.version !== 6) return ip?.text ?? address;
  const words = ip.words.slice(0, 2).flatMap((word) => [word >>> 16, word & 0xffff]);
  return parseIp(`${words.map((word) => word.toString(16)).join(':')}::`)?.text ?? address;
}
