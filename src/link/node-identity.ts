import { createPrivateKey, X509Certificate } from 'node:crypto';
import { certificatesIn } from '../base/lib/pem.ts';
import { sha256Hex } from '../base/lib/sha256.ts';

/** Former CAs that are remembered. */
const MOST_FORMER = 8;

/** What a gateway shows its control plane, and knows the control plane by (decision 13.7). */
export interface NodeIdentity {
  /** PKCS #8, PEM. */
  readonly keyPem: string;
  /** PEM. */
  readonly certificatePem: string;
  /** PEM: the CAs of the control plane that are trusted; that which has signed the certificate comes first. */
  readonly caPem: string;
  /** SHA-256 of CAs that were trusted before, lower-case hex: a file of one of them is no mistake. */
  readonly formerCas: readonly string[];
  readonly orgId: string;
  readonly nodeId: string;
  /** Milliseconds since the epoch. */
  readonly notBefore: number;
  readonly notAfter: number;
}

/**
 * Puts the parts together.
 * @param certificate PEM or DER
 * @param cas PEM or DER, at least the one that has signed the certificate
 * @throws Error that says what does not fit: the certificate is not that of the key, or not of a CA, or names nobody
 */
export function nodeIdentity(
  keyPem: string,
  certificate: string | Uint8Array,
  cas: readonly (string | Uint8Array)[],
  formerCas: readonly string[] = [],
): NodeIdentity {
  const own = new X509Certificate(certificate);
  const authorities = cas.map((ca) => new X509Certificate(ca));
  if (!own.checkPrivateKey(createPrivateKey(keyPem))) throw new Error('the certificate is not that of the key');
  const issuer = authorities.find((one) => one.ca && own.checkIssued(one) && own.verify(one.publicKey));
  if (issuer === undefined) throw new Error('the certificate is not signed by the CA');
  const trusted = new Set([issuer, ...authorities.filter((one) => one.ca)].map(String));
  const { O: orgId, CN: nodeId } = own.toLegacyObject().subject as { readonly O?: unknown; readonly CN?: unknown };
  if (typeof orgId !== 'string' || typeof nodeId !== 'string') throw new Error('the certificate names no org and node');
  return {
    keyPem,
    certificatePem: own.toString(),
    caPem: [...trusted].join(''),
    formerCas,
    orgId,
    nodeId,
    notBefore: Date.parse(own.validFrom),
    notAfter: Date.parse(own.validTo),
  };
}

/** The CAs that it trusts, each PEM; that which has signed its certificate comes first. */
export function authoritiesOf({ caPem }: Pick<NodeIdentity, 'caPem'>): readonly string[] {
  return certificatesIn(caPem);
}

/**
 * The same node, which trusts these CAs from now on, and beside them the one that has signed its certificate. Those
 * that it does not trust any more are remembered.
 * @param cas DER
 */
export function withAuthorities(identity: NodeIdentity, cas: readonly Uint8Array[]): NodeIdentity {
  const [issuer = ''] = authoritiesOf(identity);
  const next = nodeIdentity(identity.keyPem, identity.certificatePem, [issuer, ...cas]);
  return { ...next, formerCas: formerAfter(identity, next) };
}

/** What was trusted before and is not now, with what was remembered already. */
export function formerAfter(before: NodeIdentity, now: NodeIdentity): readonly string[] {
  const trusted = new Set(authoritiesOf(now).map(sha256Of));
  const former = [...before.formerCas, ...authoritiesOf(before).map(sha256Of)].filter((one) => !trusted.has(one));
  return [...new Set(former)].slice(-MOST_FORMER);
}

/** Of a certificate, lower-case hex. @param certificate PEM */
export function sha256Of(certificate: string): string {
  return sha256Hex(new X509Certificate(certificate).raw);
}
