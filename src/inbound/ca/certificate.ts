import { createHash, createPublicKey, type KeyObject, randomBytes, sign } from 'node:crypto';
import { isIP } from 'node:net';
import { timestamp } from '../../base/lib/clock.ts';
import { bits, boolean, type Der, encode, explicit, implicit, integer, none, octets, oid, sequence, set, time, utf8 } from './der.ts';

const OID = {
  rsaEncryption: '1.2.840.113549.1.1.1',
  ecPublicKey: '1.2.840.10045.2.1',
  prime256v1: '1.2.840.10045.3.1.7',
  ecdsaWithSha256: '1.2.840.10045.4.3.2',
  sha256WithRsa: '1.2.840.113549.1.1.11',
  commonName: '2.5.4.3',
  organization: '2.5.4.10',
  subjectKeyIdentifier: '2.5.29.14',
  keyUsage: '2.5.29.15',
  subjectAltName: '2.5.29.17',
  basicConstraints: '2.5.29.19',
  authorityKeyIdentifier: '2.5.29.35',
  extendedKeyUsage: '2.5.29.37',
  serverAuth: '1.3.6.1.5.5.7.3.1',
  clientAuth: '1.3.6.1.5.5.7.3.2',
  ed25519: '1.3.101.112',
} as const;

/** In the subject of every root that a gateway makes. */
export const ORGANIZATION = 'AI Request Gateway';
/** X.520 `ub-common-name` is 64; names from there on stand in the SAN only. */
const MAX_COMMON_NAME = 63;
/** Of P-256: one byte of form, two coordinates. */
const UNCOMPRESSED_POINT_BYTES = 65;
const ED25519_BYTES = 32;

export interface Validity {
  /** Milliseconds since the epoch. */
  readonly notBefore: number;
  readonly notAfter: number;
}

/** What a leaf needs of the certificate that signs it. */
export interface Issuer {
  readonly name: Der;
  readonly keyIdentifier: Buffer;
  /** RSA or EC. */
  readonly key: KeyObject;
  readonly validity: Validity;
  /** False for a host that its name constraints, or those of its issuers, leave out. */
  permits(host: string): boolean;
}

/** A public key with what its certificates say of it; made once per key. */
export interface Subject {
  readonly spki: Der;
  readonly keyIdentifier: Buffer;
}

/**
 * @param key the public half of an EC P-256, RSA or Ed25519 key. The identifier is SHA-256 cut to 160 bits (RFC 7093
 * §2, method 1).
 */
export function subjectOf(key: KeyObject): Subject {
  if (key.asymmetricKeyType === 'ed25519')
    return subjectOfPoint(key.export({ type: 'spki', format: 'der' }).subarray(-ED25519_BYTES), OID.ed25519);
  if (key.asymmetricKeyType === 'rsa')
    return subjectOfBits(key.export({ type: 'pkcs1', format: 'der' }), sequence(oid(OID.rsaEncryption), none()));
  // Built and not parsed: node-forge takes one key in 256 for nested ASN.1 inside its BIT STRING.
  const point = key.export({ type: 'spki', format: 'der' }).subarray(-UNCOMPRESSED_POINT_BYTES);
  return subjectOfPoint(point, OID.ecPublicKey, OID.prime256v1);
}

function subjectOfPoint(point: Buffer, ...algorithm: readonly string[]): Subject {
  return subjectOfBits(point, sequence(...algorithm.map(oid)));
}

function subjectOfBits(key: Buffer, algorithm: Der): Subject {
  return { spki: sequence(algorithm, bits(key)), keyIdentifier: createHash('sha256').update(key).digest().subarray(0, 20) };
}

/** Names a key whose certificate does not: SHA-256 of the whole public key, cut to 160 bits (RFC 7093 §2, method 4). */
export function keyIdentifierOf(key: KeyObject): Buffer {
  const spki = createPublicKey(key).export({ type: 'spki', format: 'der' });
  return createHash('sha256').update(spki).digest().subarray(0, 20);
}

const ROOT_NAME = new RegExp(`^CN=${ORGANIZATION} Root [0-9a-f]{8}$`);

/** The common name of a root of ours; it says which key it is of. */
export function rootName(keyIdentifier: Buffer): string {
  return `${ORGANIZATION} Root ${keyIdentifier.toString('hex', 0, 4)}`;
}

/** Whether a name, as node:crypto shows it with a member a line, is one that roots of gateways have. */
export function isNamedAsRoot(name: string): boolean {
  return name.split('\n').some((member) => ROOT_NAME.test(member));
}

/**
 * A self-signed root: critical basicConstraints with path length 0, critical keyUsage (certificates and CRLs), no name
 * constraints.
 * @param commonName each root has its own: two roots of one name in a trust store make verifiers pick the wrong one
 */
export async function issueRoot(
  subject: Subject,
  key: KeyObject,
  validity: Validity,
  commonName: string = rootName(subject.keyIdentifier),
): Promise<Buffer> {
  const name = distinguishedName(commonName);
  const extensions = [
    extension(OID.basicConstraints, true, sequence(boolean(true), integer(Uint8Array.of(0)))),
    extension(OID.keyUsage, true, bits(Uint8Array.of(0x06), 1)),
    extension(OID.subjectKeyIdentifier, false, octets(subject.keyIdentifier)),
  ];
  return await signed(tbs(name, name, validity, subject, extensions, algorithmOf(key)), key);
}

/** The parts of every leaf of one issuer and one key that do not depend on the host. */
export interface LeafProfile {
  readonly issuer: Issuer;
  readonly subject: Subject;
  readonly extensions: readonly Der[];
}

/** Bits of keyUsage (RFC 5280 §4.2.1.3), with how many of the byte do not count: what a key does in a handshake. */
const SIGNS = { byte: 0x80, unused: 7 };
/** Without ECDHE the client encrypts for an RSA key. */
const SIGNS_AND_DECRYPTS = { byte: 0xa0, unused: 5 };

/**
 * Critical basicConstraints (no CA) and keyUsage (digital signature; of RSA keys key encipherment too), one EKU, SKI,
 * and AKI from the issuer's SKI.
 */
export function leafProfile(
  issuer: Issuer,
  subject: Subject,
  usage: 'serverAuth' | 'clientAuth' = 'serverAuth',
  key: 'ec' | 'rsa' = 'ec',
): LeafProfile {
  const { byte, unused } = key === 'rsa' ? SIGNS_AND_DECRYPTS : SIGNS;
  return {
    issuer,
    subject,
    extensions: [
      extension(OID.basicConstraints, true, sequence()),
      extension(OID.keyUsage, true, bits(Uint8Array.of(byte), unused)),
      extension(OID.extendedKeyUsage, false, sequence(oid(OID[usage]))),
      extension(OID.subjectKeyIdentifier, false, octets(subject.keyIdentifier)),
      extension(OID.authorityKeyIdentifier, false, sequence(implicit(0, issuer.keyIdentifier))),
    ],
  };
}

/**
 * Signs a leaf for one host. The signature is made off the event loop.
 * @param host folded by decision 3.17: an ASCII name, or an IP literal without brackets
 */
export async function issueLeaf(profile: LeafProfile, host: string, validity: Validity): Promise<Buffer> {
  const names = extension(OID.subjectAltName, false, sequence(alternativeName(host)));
  return await issueNamed(profile, distinguishedName(host.length <= MAX_COMMON_NAME ? host : undefined), [names], validity);
}

/**
 * Signs the certificate of a server that has several names.
 * @param hosts folded as those of {@link issueLeaf}, at least one
 */
export async function issueServerCertificate(profile: LeafProfile, hosts: readonly string[], validity: Validity): Promise<Buffer> {
  const names = extension(OID.subjectAltName, false, sequence(...hosts.map(alternativeName)));
  return await issueNamed(profile, distinguishedName(undefined), [names], validity);
}

/** Signs the certificate of a client, whose names stand in its subject alone. */
export async function issueClientCertificate(
  profile: LeafProfile,
  { organization, commonName }: { readonly organization: string; readonly commonName: string },
  validity: Validity,
): Promise<Buffer> {
  return await issueNamed(profile, distinguishedName(commonName, organization), [], validity);
}

async function issueNamed(
  { issuer, subject, extensions }: LeafProfile,
  name: Der,
  also: readonly Der[],
  validity: Validity,
): Promise<Buffer> {
  return await signed(tbs(name, issuer.name, validity, subject, [...extensions, ...also], algorithmOf(issuer.key)), issuer.key);
}

/** PEM with lines of 64 characters (RFC 7468). */
export function certificatePem(der: Uint8Array): string {
  const base64 = Buffer.from(der.buffer, der.byteOffset, der.byteLength).toString('base64');
  return `-----BEGIN CERTIFICATE-----\n${base64.replace(/.{64}/g, '$&\n').replace(/\n$/, '')}\n-----END CERTIFICATE-----\n`;
}

function tbs(subject: Der, issuer: Der, validity: Validity, key: Subject, extensions: readonly Der[], algorithm: Der): Buffer {
  return encode(
    sequence(
      explicit(0, integer(Uint8Array.of(2))),
      integer(serialNumber()),
      algorithm,
      issuer,
      sequence(time(timestamp(validity.notBefore)), time(timestamp(validity.notAfter))),
      subject,
      key.spki,
      explicit(3, sequence(...extensions)),
    ),
  );
}

/** RSA has parameters that say nothing (RFC 4055 §5), ECDSA has none (RFC 5758 §3.2). */
function algorithmOf(key: KeyObject): Der {
  return key.asymmetricKeyType === 'rsa' ? sequence(oid(OID.sha256WithRsa), none()) : sequence(oid(OID.ecdsaWithSha256));
}

async function signed(toBeSigned: Buffer, key: KeyObject): Promise<Buffer> {
  const signature = await new Promise<Buffer>((resolve, reject) => {
    sign('sha256', toBeSigned, { key, dsaEncoding: 'der' }, (error, value) => (error ? reject(error) : resolve(value)));
  });
  const tail = Buffer.concat([encode(algorithmOf(key)), encode(bits(signature))]);
  return Buffer.concat([sequenceHeader(toBeSigned.length + tail.length), toBeSigned, tail]);
}

/** Tag and length of a SEQUENCE, so that the signed bytes are embedded as they are and not parsed again. */
function sequenceHeader(length: number): Buffer {
  if (length < 0x80) return Buffer.from([0x30, length]);
  if (length < 0x100) return Buffer.from([0x30, 0x81, length]);
  return Buffer.from([0x30, 0x82, length >> 8, length & 0xff]);
}

/** 127 bits: the top bit is clear (positive, RFC 5280 §4.1.2.2), the next one set (always the shortest form). */
function serialNumber(): Buffer {
  const bytes = randomBytes(16);
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x40;
  return bytes;
}

function distinguishedName(commonName: string | undefined, organizationName: string = ORGANIZATION): Der {
  const organization = set(sequence(oid(OID.organization), utf8(organizationName)));
  return commonName === undefined ? sequence(organization) : sequence(organization, set(sequence(oid(OID.commonName), utf8(commonName))));
}

function extension(id: string, critical: boolean, value: Der): Der {
  return critical ? sequence(oid(id), boolean(true), octets(encode(value))) : sequence(oid(id), octets(encode(value)));
}

/** GeneralName: iPAddress [7] for a literal, dNSName [2] for a name. */
function alternativeName(host: string): Der {
  return isIP(host) === 0 ? implicit(2, Buffer.from(host, 'latin1')) : implicit(7, addressBytes(host));
}

/** Four or sixteen bytes. */
export function addressBytes(address: string): Buffer {
  if (isIP(address) === 4) return Buffer.from(address.split('.').map(Number));
  // The canonical text has no dotted part and no zone (decision 3.17).
  const [head = '', tail] = address.split('::');
  const front = head === '' ? [] : head.split(':');
  const back = tail === undefined || tail === '' ? [] : tail.split(':');
  const zeros = tail === undefined ? [] : Array.from({ length: 8 - front.length - back.length }, () => '0');
  const bytes = Buffer.alloc(16);
  for (const [i, group] of [...front, ...zeros, ...back].entries()) bytes.writeUInt16BE(Number.parseInt(group, 16), 2 * i);
  return bytes;
}
