import { X509Certificate } from 'node:crypto';
import type { Validity } from './certificate.ts';
import { content, type Der, decode, dottedOid, isOid, isTagged, members, readTime } from './der.ts';
import { type NameConstraints, readNameConstraints } from './name-constraints.ts';

const OID = {
  subjectKeyIdentifier: '2.5.29.14',
  keyUsage: '2.5.29.15',
  basicConstraints: '2.5.29.19',
  nameConstraints: '2.5.29.30',
  authorityKeyIdentifier: '2.5.29.35',
  extendedKeyUsage: '2.5.29.37',
} as const;

/** keyCertSign, bit 5 of keyUsage (RFC 5280 §4.2.1.3). */
const CERT_SIGN = 0x04;
const SERVER_AUTH = '1.3.6.1.5.5.7.3.1';
const ANY_USAGE = '2.5.29.37.0';
/** With MD5 or SHA-1: RSA PKCS#1, ECDSA. */
const BROKEN_SIGNATURES: ReadonlySet<string> = new Set(['1.2.840.113549.1.1.4', '1.2.840.113549.1.1.5', '1.2.840.10045.4.1']);

/** What is read of the certificate of an authority: our root, or one of the chain above a company's intermediate. */
export interface AuthorityCertificate {
  readonly x509: X509Certificate;
  readonly name: Der;
  readonly keyIdentifier: Buffer | undefined;
  readonly validity: Validity;
  readonly selfSigned: boolean;
  /** How many intermediates may stand between it and a leaf; undefined: any number. */
  readonly pathLength: number | undefined;
  readonly nameConstraints: NameConstraints | undefined;
  /** Why it can sign no certificate of a TLS server that clients would take; undefined when it can. */
  readonly unfit: string | undefined;
  /** What it lacks of RFC 5280 that strict verifiers ask for. */
  readonly lacks: readonly string[];
}

interface Extension {
  readonly critical: boolean;
  readonly value: Der;
}

/** @throws Error when the bytes are not a version 3 certificate, or cannot be read */
export function readAuthority(certificate: Uint8Array): AuthorityCertificate {
  const x509 = new X509Certificate(certificate);
  const fields = members(members(decode(certificate))[0]);
  const [version, , signature, , dates, name] = fields;
  const notBefore = readTime(members(dates)[0]);
  const notAfter = readTime(members(dates)[1]);
  if (version === undefined || !isTagged(version, 0) || name === undefined) throw new Error('not an X.509 version 3 certificate');
  if (notBefore === undefined || notAfter === undefined) throw new Error('its validity cannot be read');
  const entries = members(members(fields.find((field) => isTagged(field, 3)))[0]);
  const extension = (id: string): Extension | undefined => {
    const found = members(entries.find((entry) => isOid(members(entry)[0], id)));
    return found.length === 0 ? undefined : { critical: found.length > 2, value: decode(content(found.at(-1))) };
  };
  const keyId = extension(OID.subjectKeyIdentifier);
  const constraints = extension(OID.nameConstraints);
  const selfSigned = x509.checkIssued(x509) && x509.verify(x509.publicKey);
  const [, pathLength] = members(extension(OID.basicConstraints)?.value);
  return {
    x509,
    name,
    keyIdentifier: keyId && content(keyId.value),
    validity: { notBefore, notAfter },
    selfSigned,
    pathLength: pathLength && Number(`0x${content(pathLength).toString('hex')}`),
    nameConstraints: constraints && readNameConstraints(constraints.value),
    unfit: unfitness(x509, extension, selfSigned, dottedOid(members(signature)[0])),
    lacks: missingParts(extension, selfSigned),
  };
}

function unfitness(
  x509: X509Certificate,
  extension: (id: string) => Extension | undefined,
  selfSigned: boolean,
  signature: string,
): string | undefined {
  const usage = extension(OID.keyUsage);
  // The first byte counts unused bits.
  if (usage && ((content(usage.value)[1] ?? 0) & CERT_SIGN) === 0) return 'may not sign certificates (keyUsage without keyCertSign)';
  if (!x509.ca) return 'is not that of a certificate authority (basicConstraints)';
  const purposes = members(extension(OID.extendedKeyUsage)?.value).map(dottedOid);
  if (purposes.length > 0 && !purposes.includes(SERVER_AUTH) && !purposes.includes(ANY_USAGE))
    return 'may not sign for TLS servers (extendedKeyUsage without serverAuth)';
  // Nobody looks at the signature of a root.
  if (!selfSigned && BROKEN_SIGNATURES.has(signature)) return 'is signed by MD5 or SHA-1, which clients refuse';
  return undefined;
}

function missingParts(extension: (id: string) => Extension | undefined, selfSigned: boolean): readonly string[] {
  const lacks: string[] = [];
  if (extension(OID.basicConstraints)?.critical !== true) lacks.push('critical basicConstraints');
  if (extension(OID.keyUsage) === undefined) lacks.push('keyUsage');
  if (extension(OID.subjectKeyIdentifier) === undefined) lacks.push('subjectKeyIdentifier');
  if (!selfSigned && extension(OID.authorityKeyIdentifier) === undefined) lacks.push('authorityKeyIdentifier');
  return lacks;
}
