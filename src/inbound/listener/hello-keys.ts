/*
 * Which key of a server a ClientHello lets prove itself: RFC 8446 §4.2.3 for TLS 1.3, RFC 5246 §7.4.2 and RFC 8422 §5.1
 * below it.
 */

/** What a ClientHello says of suites and algorithms; a list is undefined where its extension is missing. */
export interface HelloAlgorithms {
  readonly suites: readonly number[];
  /** `supported_versions`. */
  readonly versions: readonly number[] | undefined;
  /** `signature_algorithms`. */
  readonly signatures: readonly number[] | undefined;
  /** `supported_groups`. */
  readonly groups: readonly number[] | undefined;
}

const TLS_1_3 = 0x0304;
/** The hash stands in the first byte below TLS 1.3. */
const ECDSA = 3;
const ECDSA_P256_SHA256 = 0x0403;
const P256 = 0x17;
/** From SHA-1 to SHA-512. */
const FIRST_HASH = 2;
const LAST_HASH = 6;

/** TLS_ECDHE_ECDSA_…, with AES in CBC and GCM, ChaCha20 and CCM. */
const ECDSA_SUITES: ReadonlySet<number> = new Set([
  ...[0xc009, 0xc00a, 0xc023, 0xc024, 0xc02b, 0xc02c],
  ...[0xcca9, 0xc0ac, 0xc0ad, 0xc0ae, 0xc0af],
]);

/**
 * Whether the client can be served by a server that has a key on the curve P-256. What it does not say stands in
 * nobody's way.
 */
export function takesP256({ suites, versions, signatures, groups }: HelloAlgorithms): boolean {
  if (versions?.includes(TLS_1_3)) return signatures === undefined || signatures.includes(ECDSA_P256_SHA256);
  if (groups !== undefined && !groups.includes(P256)) return false;
  return suites.some((suite) => ECDSA_SUITES.has(suite)) && (signatures === undefined || signatures.some(isEcdsa));
}

function isEcdsa(algorithm: number): boolean {
  const hash = algorithm >> 8;
  return (algorithm & 0xff) === ECDSA && hash >= FIRST_HASH && hash <= LAST_HASH;
}
