import { type Der, encode, explicit, integer, octets, oid, sequence, set } from './der.ts';

const OID = {
  data: '1.2.840.113549.1.7.1',
  certBag: '1.2.840.113549.1.12.10.1.3',
  x509Certificate: '1.2.840.113549.1.9.22.1',
  /** Java takes a certificate without a key for a trusted one only when its bag says for what. */
  trustedKeyUsage: '2.16.840.1.113894.746875.1.1',
  anyUsage: '2.5.29.37.0',
} as const;

/**
 * A PKCS #12 file (RFC 7292) that Java opens as a trust store without a password, so that nobody needs `keytool` for
 * one. Certificates are no secret: it is neither encrypted nor sealed.
 * @param certificates DER
 */
export function javaTrustStore(certificates: readonly Uint8Array[]): Buffer {
  const bags = sequence(...certificates.map(trustedBag));
  return encode(sequence(integer(Uint8Array.of(3)), contentOf(sequence(contentOf(bags)))));
}

function trustedBag(certificate: Uint8Array): Der {
  const held = sequence(oid(OID.x509Certificate), explicit(0, octets(certificate)));
  const trusted = sequence(oid(OID.trustedKeyUsage), set(oid(OID.anyUsage)));
  return sequence(oid(OID.certBag), explicit(0, held), set(trusted));
}

function contentOf(value: Der): Der {
  return sequence(oid(OID.data), explicit(0, octets(encode(value))));
}
