import { createPrivateKey, X509Certificate } from 'node:crypto';

/** What a gateway shows its control plane, and knows the control plane by (decision 13.7). */
export interface NodeIdentity {
  /** PKCS #8, PEM. */
  readonly keyPem: string;
  /** PEM. */
  readonly certificatePem: string;
  /** PEM: the CA of the control plane. */
  readonly caPem: string;
  readonly orgId: string;
  readonly nodeId: string;
  /** Milliseconds since the epoch. */
  readonly notBefore: number;
  readonly notAfter: number;
}

/**
 * Puts the parts together.
 * @param certificate, ca PEM or DER
 * @throws Error that says what does not fit: the certificate is not that of the key, or not of the CA, or names nobody
 */
export function nodeIdentity(keyPem: string, certificate: string | Uint8Array, ca: string | Uint8Array): NodeIdentity {
  const own = new X509Certificate(certificate);
  const authority = new X509Certificate(ca);
  if (!own.checkPrivateKey(createPrivateKey(keyPem))) throw new Error('the certificate is not that of the key');
  if (!authority.ca || !own.checkIssued(authority) || !own.verify(authority.publicKey))
    throw new Error('the certificate is not signed by the CA');
  const { O: orgId, CN: nodeId } = own.toLegacyObject().subject as { readonly O?: unknown; readonly CN?: unknown };
  if (typeof orgId !== 'string' || typeof nodeId !== 'string') throw new Error('the certificate names no org and node');
  return {
    keyPem,
    certificatePem: own.toString(),
    caPem: authority.toString(),
    orgId,
    nodeId,
    notBefore: Date.parse(own.validFrom),
    notAfter: Date.parse(own.validTo),
  };
}
