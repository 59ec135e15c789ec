import { generateKeyPair, type KeyObject, sign } from 'node:crypto';
import { promisify } from 'node:util';
import { subjectOf } from '../inbound/ca/certificate.ts';
import { bits, empty, encode, integer, oid, sequence, set, utf8 } from '../inbound/ca/der.ts';

const OID = { commonName: '2.5.4.3', organization: '2.5.4.10', ecdsaWithSha256: '1.2.840.10045.4.3.2' } as const;

/** A key that was made here and never leaves, with what asks for a certificate of it. */
export interface CertificateRequest {
  /** PKCS #8, PEM. */
  readonly keyPem: string;
  /** PKCS #10, DER. */
  readonly csr: Buffer;
}

/**
 * Makes an EC P-256 key and the request for its certificate (RFC 2986); the control plane reads nothing of the subject
 * but names who asks (decision 13.7).
 */
export async function requestCertificate(orgId: string, nodeId: string): Promise<CertificateRequest> {
  const { privateKey, publicKey } = await promisify(generateKeyPair)('ec', { namedCurve: 'P-256' });
  return {
    keyPem: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    csr: certificateRequest(privateKey, publicKey, orgId, nodeId),
  };
}

function certificateRequest(key: KeyObject, publicKey: KeyObject, orgId: string, nodeId: string): Buffer {
  const name = sequence(set(sequence(oid(OID.organization), utf8(orgId))), set(sequence(oid(OID.commonName), utf8(nodeId))));
  const info = sequence(integer(Uint8Array.of(0)), name, subjectOf(publicKey).spki, empty(0));
  const signature = sign('sha256', encode(info), { key, dsaEncoding: 'der' });
  return encode(sequence(info, sequence(oid(OID.ecdsaWithSha256)), bits(signature)));
}
