import { createPrivateKey, createPublicKey, generateKeyPair, type KeyObject, X509Certificate } from 'node:crypto';
import { promisify } from 'node:util';
import type { Clock } from '../../base/lib/clock.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import { readAuthority } from '../../inbound/ca/authority-certificate.ts';
import {
  certificatePem,
  type Issuer,
  issueClientCertificate,
  issueRoot,
  issueServerCertificate,
  leafProfile,
  subjectOf,
  type Validity,
} from '../../inbound/ca/certificate.ts';
import { CertificateAuthorityError } from '../../inbound/ca/root-files.ts';
import { keptOnce } from './kept-once.ts';

const KID_DIGITS = 16;
const DAY_MS = 86_400_000;
const CA_DAYS = 3_650;
/** Of servers and nodes. */
const LEAF_DAYS = 90;
/** How far a peer's clock may be behind. */
const BACKDATED_MS = 3_600_000;
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----\n?/;
const generate = promisify(generateKeyPair);

export interface IssuedCertificate {
  readonly der: Buffer;
  /** The CA that has signed it, by its name. */
  readonly ca: string;
  /** Milliseconds since the epoch. */
  readonly notAfter: number;
}

/** The certificate that the control plane shows, with its key, which is in memory alone. */
export interface ServerCertificate {
  /** PEM. */
  readonly certificate: string;
  /** PEM. */
  readonly key: string;
  readonly notAfter: number;
}

/**
 * A CA of a control plane: it signs the certificates of nodes and the one of the control plane itself (decision
 * 13.7).
 */
export class NodeAuthority {
  /** DER. */
  readonly certificate: Buffer;
  readonly certificatePem: string;
  /** `ca-` and the beginning of the SHA-256 of the certificate. */
  readonly kid: string;
  readonly #issuer: Issuer;
  readonly #clock: Clock;

  private constructor(certificate: Buffer, issuer: Issuer, clock: Clock) {
    this.certificate = certificate;
    this.certificatePem = certificatePem(certificate);
    this.kid = `ca-${sha256Hex(certificate).slice(0, KID_DIGITS)}`;
    this.#issuer = issuer;
    this.#clock = clock;
  }

  /**
   * Reads the CA from its file, key and certificate in one, or makes it.
   * @throws CertificateAuthorityError when the file cannot be read, or others can read it
   */
  static async open(file: string, clock: Clock): Promise<NodeAuthority> {
    const text = await keptOnce(file, () => newAuthority(clock));
    try {
      const certificate = new X509Certificate(CERTIFICATE.exec(text)?.[0] ?? '').raw;
      const key = createPrivateKey(text);
      const { name, keyIdentifier, validity, x509 } = readAuthority(certificate);
      if (keyIdentifier === undefined || !x509.checkPrivateKey(key)) throw new Error('its key is not that of its certificate');
      return new NodeAuthority(certificate, { name, keyIdentifier, key, validity, permits: () => true }, clock);
    } catch (error) {
      throw new CertificateAuthorityError(`${file} does not hold the key and the certificate of a CA: restore it from a backup`, {
        cause: error,
      });
    }
  }

  /** A certificate for the key of a node: CN is the node, O its org. @param key EC P-256 or Ed25519 */
  async issueForNode(orgId: string, nodeId: string, key: KeyObject): Promise<IssuedCertificate> {
    const validity = this.#validity();
    const profile = leafProfile(this.#issuer, subjectOf(key), 'clientAuth');
    const der = await issueClientCertificate(profile, { organization: orgId, commonName: nodeId }, validity);
    return { der, ca: this.kid, notAfter: validity.notAfter };
  }

  /** @param names folded, at least one */
  async issueForServer(names: readonly string[]): Promise<ServerCertificate> {
    const validity = this.#validity();
    const { publicKey, privateKey } = await generate('ec', { namedCurve: 'P-256' });
    const der = await issueServerCertificate(leafProfile(this.#issuer, subjectOf(publicKey)), names, validity);
    return {
      certificate: certificatePem(der),
      key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
      notAfter: validity.notAfter,
    };
  }

  /** Never longer than that of the CA. */
  #validity(): Validity {
    const now = wholeSecond(this.#clock.now());
    const { notBefore, notAfter } = this.#issuer.validity;
    return { notBefore: Math.max(now - BACKDATED_MS, notBefore), notAfter: Math.min(now + LEAF_DAYS * DAY_MS, notAfter) };
  }
}

async function newAuthority(clock: Clock): Promise<string> {
  const { privateKey } = await generate('ec', { namedCurve: 'P-256' });
  const subject = subjectOf(createPublicKey(privateKey));
  const now = wholeSecond(clock.now());
  const name = `AI Request Gateway Control Plane ${subject.keyIdentifier.toString('hex', 0, 4)}`;
  const certificate = await issueRoot(subject, privateKey, { notBefore: now - BACKDATED_MS, notAfter: now + CA_DAYS * DAY_MS }, name);
  return privateKey.export({ type: 'pkcs8', format: 'pem' }).toString() + certificatePem(certificate);
}

/** Certificates know no parts of a second. */
function wholeSecond(epochMs: number): number {
  return Math.floor(epochMs / 1_000) * 1_000;
}
