import forge from 'node-forge';

const { asn1 } = forge;
const { Class, Type } = asn1;

/** One ASN.1 value, as node-forge represents it: primitive values are binary strings. */
export type Der = forge.asn1.Asn1;

export function sequence(...members: readonly Der[]): Der {
  return asn1.create(Class.UNIVERSAL, Type.SEQUENCE, true, [...members]);
}

export function set(...members: readonly Der[]): Der {
  return asn1.create(Class.UNIVERSAL, Type.SET, true, [...members]);
}

export function oid(dotted: string): Der {
  return asn1.create(Class.UNIVERSAL, Type.OID, false, asn1.oidToDer(dotted).getBytes());
}

export function boolean(value: boolean): Der {
  return asn1.create(Class.UNIVERSAL, Type.BOOLEAN, false, value ? '\xff' : '\x00');
}

/** An INTEGER given as its two's complement bytes, which must already be the shortest form. */
export function integer(bytes: Uint8Array): Der {
  return asn1.create(Class.UNIVERSAL, Type.INTEGER, false, binary(bytes));
}

export function utf8(text: string): Der {
  return asn1.create(Class.UNIVERSAL, Type.UTF8, false, binary(Buffer.from(text, 'utf8')));
}

export function octets(bytes: Uint8Array): Der {
  return asn1.create(Class.UNIVERSAL, Type.OCTETSTRING, false, binary(bytes));
}

export function none(): Der {
  return asn1.create(Class.UNIVERSAL, Type.NULL, false, '');
}

/** A BIT STRING; `unused` counts the bits of the last byte that do not belong to it. */
export function bits(bytes: Uint8Array, unused: number = 0): Der {
  return asn1.create(Class.UNIVERSAL, Type.BITSTRING, false, String.fromCharCode(unused) + binary(bytes));
}

/** `[tag] IMPLICIT` primitive: the tag replaces the type of the value. */
export function implicit(tag: number, bytes: Uint8Array): Der {
  return asn1.create(Class.CONTEXT_SPECIFIC, tag, false, binary(bytes));
}

/** `[tag] EXPLICIT`: wraps one value. */
export function explicit(tag: number, value: Der): Der {
  return asn1.create(Class.CONTEXT_SPECIFIC, tag, true, [value]);
}

/** `[tag]` of a SET OF without members, as where a certificate request has no attributes (RFC 2986 §4.1). */
export function empty(tag: number): Der {
  return asn1.create(Class.CONTEXT_SPECIFIC, tag, true, []);
}

/** RFC 5280 §4.1.2.5: UTCTime through 2049, GeneralizedTime from 2050 on; `iso` is an RFC 3339 UTC time. */
export function time(iso: string): Der {
  const digits = iso.slice(0, 19).replace(/[-T:]/g, '');
  if (digits < '2050') return asn1.create(Class.UNIVERSAL, Type.UTCTIME, false, `${digits.slice(2)}Z`);
  return asn1.create(Class.UNIVERSAL, Type.GENERALIZEDTIME, false, `${digits}Z`);
}

export function encode(value: Der): Buffer {
  return Buffer.from(asn1.toDer(value).getBytes(), 'binary');
}

/** @throws Error when the bytes are not one DER value */
export function decode(bytes: Uint8Array): Der {
  return asn1.fromDer(binary(bytes));
}

/** The members of a constructed value; empty for a primitive one. */
export function members(value: Der | undefined): readonly Der[] {
  return value !== undefined && Array.isArray(value.value) ? value.value : [];
}

/** The content bytes of a primitive value; empty for a constructed one. */
export function content(value: Der | undefined): Buffer {
  return Buffer.from(value !== undefined && typeof value.value === 'string' ? value.value : '', 'binary');
}

/** True when the value is `[tag]` of the context-specific class. */
export function isTagged(value: Der, tag: number): boolean {
  return value.tagClass === Class.CONTEXT_SPECIFIC && Number(value.type) === tag;
}

export function isOid(value: Der | undefined, dotted: string): boolean {
  return value !== undefined && value.type === Type.OID && value.value === asn1.oidToDer(dotted).getBytes();
}

/** The dotted form of an OID; empty for any other value. */
export function dottedOid(value: Der | undefined): string {
  return value?.type === Type.OID && typeof value.value === 'string' ? asn1.derToOid(value.value) : '';
}

/**
 * Milliseconds since the epoch of a UTCTime or GeneralizedTime in the form that RFC 5280 prescribes; undefined for any
 * other.
 */
export function readTime(value: Der | undefined): number | undefined {
  const text = content(value).toString('latin1');
  const full = value?.type === Type.UTCTIME ? (Number(text.slice(0, 2)) < 50 ? `20${text}` : `19${text}`) : text;
  const parts = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/.exec(full);
  if (parts === null) return undefined;
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = parts.slice(1).map(Number);
  return Date.UTC(year, month - 1, day, hour, minute, second);
}

function binary(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('binary');
}
