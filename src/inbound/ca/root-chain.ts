import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { timestamp } from '../../base/lib/clock.ts';
import { messageOf } from '../../base/lib/gateway-error.ts';
import { certificatesIn } from '../../base/lib/pem.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import { type AuthorityCertificate, readAuthority } from './authority-certificate.ts';
import { certificatePem, type Issuer, keyIdentifierOf } from './certificate.ts';
import { permits } from './name-constraints.ts';
import { CertificateAuthorityError, ROOT_CERTIFICATE, ROOT_KEY, type RootFiles } from './root-files.ts';

/** What to do about a root that cannot be used. */
const REMEDY = 'restore both files from a backup, or move both away to have a new root made (clients must trust it anew)';
const MAX_CERTIFICATES = 10;
const MIN_RSA_BITS = 2_048;
const CURVES: ReadonlySet<string | undefined> = new Set(['prime256v1', 'secp384r1', 'secp521r1']);

/** What signs leaves, and what clients are shown and given of it. */
export interface Root {
  readonly issuer: Issuer;
  /** PEM of what stands between leaf and trust anchor and is sent with every leaf; empty when the root itself signs. */
  readonly chainPem: string;
  /**
   * What clients are to trust: the root above all, or when the file does not go up to it, the certificate that signs.
   * PEM and DER.
   */
  readonly anchorPem: string;
  readonly anchorDer: Buffer;
  /** Lower-case hex SHA-256 of the certificate that signs. */
  readonly fingerprint: string;
  /** Things that an operator should know, though all of it can be used. */
  readonly warnings: readonly string[];
}

/**
 * Reads and judges a root: one certificate, or a company's intermediate with its issuers behind it, each signed by the
 * next. What is served later is encoded anew from the DER, so that a key in the certificate's file can never leave with
 * it.
 * @throws CertificateAuthorityError that says what keeps clients from taking what it would sign
 */
export function loadRoot(dir: string, files: RootFiles, now: number): Root {
  const refuse = (reason: string): never => {
    throw new CertificateAuthorityError(`the root in ${dir} cannot be used: ${reason}`);
  };
  const chain = readChain(dir, files.certificate);
  const key = readKey(dir, files.key);
  const [signer] = chain;
  refuseKey(key, refuse);
  if (!signer.x509.checkPrivateKey(key)) {
    const other = chain.findIndex(({ x509 }) => x509.checkPrivateKey(key));
    refuse(
      other > 0
        ? `its key belongs to certificate ${other + 1} of ${ROOT_CERTIFICATE}: that one goes first, behind it the one that signed it, and so on`
        : `certificate and key do not belong together; ${REMEDY}`,
    );
  }
  for (const [at, link] of chain.entries()) refuseLink(link, at, chain[at + 1], now, refuse);
  const top = chain.at(-1) ?? signer;
  const anchor = top.selfSigned ? top : signer;
  const sent = chain.filter((link) => !link.selfSigned);
  const limits = chain.flatMap(({ nameConstraints }) => nameConstraints ?? []);
  return {
    issuer: {
      name: signer.name,
      keyIdentifier: signer.keyIdentifier ?? keyIdentifierOf(key),
      key,
      validity: {
        notBefore: Math.max(...chain.map(({ validity }) => validity.notBefore)),
        notAfter: Math.min(...chain.map(({ validity }) => validity.notAfter)),
      },
      permits: (host) => limits.every((limit) => permits(limit, host)),
    },
    chainPem: sent.map(({ x509 }) => certificatePem(x509.raw)).join(''),
    anchorPem: certificatePem(anchor.x509.raw),
    anchorDer: anchor.x509.raw,
    fingerprint: sha256Hex(signer.x509.raw),
    warnings: warningsOf(chain, top.selfSigned, limits.length > 0),
  };
}

function readChain(dir: string, pem: string): readonly [AuthorityCertificate, ...AuthorityCertificate[]] {
  try {
    const [first = pem, ...rest] = certificatesIn(pem);
    if (rest.length >= MAX_CERTIFICATES) throw new Error(`it holds more than ${MAX_CERTIFICATES} certificates`);
    const read = (text: string): AuthorityCertificate => readAuthority(new X509Certificate(text).raw);
    return [read(first), ...rest.map(read)];
  } catch (error) {
    throw new CertificateAuthorityError(`the root certificate in ${dir} cannot be read: ${messageOf(error)}`, { cause: error });
  }
}

function readKey(dir: string, pem: string): KeyObject {
  if (/-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED/m.test(pem))
    throw new CertificateAuthorityError(
      `the root key in ${dir} is encrypted, and there is nobody to ask for its passphrase: store it without one, with mode 0600 (openssl pkey -in ${ROOT_KEY} -out decrypted.key)`,
    );
  try {
    return createPrivateKey(pem);
  } catch (error) {
    throw new CertificateAuthorityError(`the root key in ${dir} cannot be read: ${messageOf(error)}`, { cause: error });
  }
}

function refuseKey({ asymmetricKeyType: type, asymmetricKeyDetails: details }: KeyObject, refuse: (reason: string) => never): void {
  if (type === 'rsa') {
    const bits = details?.modulusLength ?? 0;
    if (bits < MIN_RSA_BITS) refuse(`its RSA key has ${bits} bits, and clients ask for ${MIN_RSA_BITS} at least`);
  } else if (type !== 'ec' || !CURVES.has(details?.namedCurve)) {
    refuse(`its key is neither RSA nor EC on P-256, P-384 or P-521, which is what clients take`);
  }
}

/** Judges one certificate of the chain; `below` says how many stand between it and a leaf. */
function refuseLink(
  { x509, unfit, validity, pathLength, nameConstraints, selfSigned }: AuthorityCertificate,
  below: number,
  issuer: AuthorityCertificate | undefined,
  now: number,
  refuse: (reason: string) => never,
): void {
  const which = below === 0 ? 'its certificate' : `certificate ${below + 1} of ${ROOT_CERTIFICATE}`;
  if (unfit !== undefined) refuse(`${which} ${unfit}`);
  if (validity.notAfter <= now) refuse(`${which} expired at ${timestamp(validity.notAfter)}; ${REMEDY}`);
  if (validity.notBefore > now)
    refuse(
      `${which} is not valid before ${timestamp(validity.notBefore)}; is the clock right? If it is, it was made by one that was ahead: ${REMEDY}`,
    );
  if (pathLength !== undefined && pathLength < below)
    refuse(`${which} allows ${pathLength} intermediate(s) below it (path length), and there are ${below}`);
  if (nameConstraints?.limitsSubjects) refuse(`the name constraints of ${which} are about directory names, which no leaf here could keep`);
  if (issuer === undefined) return;
  if (selfSigned) refuse(`${which} signs itself, so that nothing may stand behind it`);
  if (!x509.checkIssued(issuer.x509) || !x509.verify(issuer.x509.publicKey))
    refuse(
      `certificate ${below + 2} of ${ROOT_CERTIFICATE} did not sign the one before it; the order is: what ${ROOT_KEY} belongs to, its issuer, and so on`,
    );
}

function warningsOf(chain: readonly AuthorityCertificate[], complete: boolean, limited: boolean): readonly string[] {
  const warnings: string[] = [];
  if (!complete)
    warnings.push(
      `${ROOT_CERTIFICATE} does not go up to a root that signs itself: clients that do not know the issuer of its last certificate may refuse it; put the issuers behind it`,
    );
  if (limited) warnings.push('the root may sign for some hosts only (name constraints): connections to others are refused');
  for (const [at, { lacks }] of chain.entries()) {
    if (lacks.length > 0)
      warnings.push(`certificate ${at + 1} of ${ROOT_CERTIFICATE} has no ${lacks.join(', no ')}: clients that verify strictly refuse it`);
  }
  return warnings;
}
