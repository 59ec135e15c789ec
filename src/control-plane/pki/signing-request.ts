import { createPublicKey, type KeyObject, verify } from 'node:crypto';

const SEQUENCE = 0x30;
const BIT_STRING = 0x03;
const INTEGER = 0x02;
/** DER of the OIDs of what a request may be signed with, and the digest of each. */
const SIGNATURES: ReadonlyMap<string, string | undefined> = new Map([
  ['06082a8648ce3d040302', 'sha256'],
  ['06082a8648ce3d040303', 'sha384'],
  ['06082a8648ce3d040304', 'sha512'],
  ['06032b6570', undefined],
]);
/** Requests are small; whatever is larger is not one. */
const MAX_BYTES = 8_192;

/** What is wrong with a certificate signing request, for a person. */
export class SigningRequestError extends Error {}

interface Value {
  readonly tag: number;
  /** With tag and length. */
  readonly whole: Buffer;
  readonly content: Buffer;
}

/**
 * The public key of a PKCS #10 request (RFC 2986) whose sender has shown that he has the private one. Its subject and
 * attributes are not read (decision 13.7).
 * @param der of the request @returns an EC P-256 or Ed25519 key @throws SigningRequestError
 */
export function keyOfRequest(der: Uint8Array): KeyObject {
  if (der.byteLength > MAX_BYTES) throw new SigningRequestError(`it has more than ${MAX_BYTES} bytes`);
  const [info, algorithm, signature] = membersOf(only(Buffer.from(der)), SEQUENCE);
  if (info === undefined || algorithm === undefined || signature?.tag !== BIT_STRING) throw unreadable();
  const [version, , keyInfo] = membersOf(info, SEQUENCE);
  if (version?.tag !== INTEGER || keyInfo?.tag !== SEQUENCE) throw unreadable();
  const key = publicKey(keyInfo.whole);
  const [oid] = membersOf(algorithm, SEQUENCE);
  const name = oid?.whole.toString('hex') ?? '';
  const isEd25519 = key.asymmetricKeyType === 'ed25519';
  const digest = SIGNATURES.get(name);
  // The first byte counts unused bits.
  const bytes = signature.content.subarray(1);
  const fits = SIGNATURES.has(name) && (digest === undefined) === isEd25519 && signature.content[0] === 0;
  if (!fits || !isSigned(digest, info.whole, key, bytes)) throw new SigningRequestError('its signature is not that of its key');
  return key;
}

function publicKey(spki: Buffer): KeyObject {
  let key: KeyObject;
  try {
    key = createPublicKey({ key: spki, format: 'der', type: 'spki' });
  } catch (error) {
    throw new SigningRequestError('its public key cannot be read', { cause: error });
  }
  const { asymmetricKeyType: type, asymmetricKeyDetails: details } = key;
  if (type === 'ed25519' || (type === 'ec' && details?.namedCurve === 'prime256v1')) return key;
  throw new SigningRequestError('its key is neither EC P-256 nor Ed25519');
}

function isSigned(digest: string | undefined, signed: Buffer, key: KeyObject, signature: Buffer): boolean {
  try {
    return verify(digest, signed, { key, dsaEncoding: 'der' }, signature);
  } catch {
    return false;
  }
}

function only(bytes: Buffer): Value {
  const [value, ...more] = valuesIn(bytes);
  if (value === undefined || more.length > 0) throw unreadable();
  return value;
}

function membersOf(value: Value, tag: number): readonly Value[] {
  if (value.tag !== tag) throw unreadable();
  return valuesIn(value.content);
}

/** Values one behind the other, up to the last byte. */
function valuesIn(bytes: Buffer): readonly Value[] {
  const values: Value[] = [];
  for (let at = 0; at < bytes.length; ) {
    const { header, length } = sizeAt(bytes, at);
    const end = at + header + length;
    if (end > bytes.length) throw unreadable();
    values.push({ tag: bytes[at] ?? 0, whole: bytes.subarray(at, end), content: bytes.subarray(at + header, end) });
    at = end;
  }
  return values;
}

/** The definite lengths of DER, up to 65,535. */
function sizeAt(bytes: Buffer, at: number): { readonly header: number; readonly length: number } {
  const first = bytes[at + 1] ?? 0x80;
  if (first < 0x80) return { header: 2, length: first };
  const one = bytes[at + 2] ?? 0;
  if (first === 0x81 && one >= 0x80) return { header: 3, length: one };
  if (first === 0x82 && one > 0) return { header: 4, length: one * 0x100 + (bytes[at + 3] ?? 0) };
  throw unreadable();
}

function unreadable(): SigningRequestError {
  return new SigningRequestError('it is not a PKCS #10 request in DER');
}
