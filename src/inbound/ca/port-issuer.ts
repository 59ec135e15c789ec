import { X509Certificate } from 'node:crypto';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { certificatesIn } from '../../base/lib/pem.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import type { HealthWarning } from '../../base/model/not-ready.ts';
import { isNamedAsRoot } from './certificate.ts';
import type { CertificateAuthority } from './certificate-authority.ts';
import type { CertificateInForce } from './certificate-in-force.ts';

const SIGN_ANOTHER =
  'Sign another one with the root that signs now (docs/guides/tls.md, A certificate): the files are read again by themselves.';

type Role = 'dropped' | 'former' | 'other';

/**
 * Which root of this gateway has signed the certificate of its ports, and what that means for clients and for a
 * rotation (decision 12.10).
 */
export class PortIssuer {
  readonly #certificate: Pick<CertificateInForce, 'current'>;
  readonly #ca: Pick<CertificateAuthority, 'rootPem' | 'status'>;
  #judged: { readonly issued: X509Certificate; readonly rootPem: string; readonly role: Role } | undefined;

  constructor(certificate: Pick<CertificateInForce, 'current'>, ca: Pick<CertificateAuthority, 'rootPem' | 'status'>) {
    this.#certificate = certificate;
    this.#ca = ca;
  }

  /** What an operator should know now, each with a code. */
  warnings(): readonly HealthWarning[] {
    const role = this.#role();
    if (role === 'former')
      return [
        {
          code: 'certificate_of_former_root',
          message: `A former root has signed the certificate of the ports, and "gw ca rotate --finish" is refused until that is replaced. ${SIGN_ANOTHER}`,
        },
      ];
    if (role === 'dropped')
      return [
        {
          code: 'certificate_of_dropped_root',
          message: `The root that has signed the certificate of the ports is not trusted any more, so that clients refuse it. ${SIGN_ANOTHER}`,
        },
      ];
    return [];
  }

  /**
   * @throws GatewayError `conflict` while a former root has signed what the ports show: no client would take it any
   * more
   */
  mayDropFormer(): void {
    if (this.#role() === 'former')
      throw new GatewayError(
        'conflict',
        `A former root has signed the certificate of the ports, which no client would take without it. ${SIGN_ANOTHER}`,
      );
  }

  /** Judged once for a certificate and the roots in their order: anybody asks for health, as often as he likes. */
  #role(): Role {
    const { issued } = this.#certificate.current;
    const { rootPem } = this.#ca;
    if (this.#judged?.issued !== issued || this.#judged.rootPem !== rootPem)
      this.#judged = { issued, rootPem, role: this.#roleOf(issued, rootPem) };
    return this.#judged.role;
  }

  #roleOf(issued: X509Certificate, rootPem: string): Role {
    const signer = certificatesIn(rootPem)
      .map((pem) => new X509Certificate(pem))
      .find((root) => issued.checkIssued(root) && issued.verify(root.publicKey));
    if (signer === undefined) return isNamedAsRoot(issued.issuer) ? 'dropped' : 'other';
    const fingerprint = sha256Hex(signer.raw);
    return this.#ca.status().roots.some((root) => root.role === 'former' && root.fingerprint === fingerprint) ? 'former' : 'other';
  }
}
