import type { Clock } from '../../base/lib/clock.ts';
import { every, type RunningJob } from '../../base/lib/every.ts';
import type { Logger } from '../../base/lib/log.ts';
import type { ServerCertificate } from '../pki/node-authority.ts';
import type { ServerIdentity } from '../proto/protocol-server.ts';
import type { NodeAuthorities } from '../state/node-authorities.ts';

const DAY_MS = 86_400_000;
/** Before its end another one is made. */
const RENEWED_MS = 30 * DAY_MS;

export interface ServerIdentityOptions {
  readonly authorities: NodeAuthorities;
  readonly names: readonly string[];
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * The certificate that gateways are shown: made at the start, and anew 30 days before its end (decision 13.7). Its key
 * is in memory alone.
 */
export class ServerIdentityInForce {
  readonly #options: ServerIdentityOptions;
  #certificate: ServerCertificate;
  /** The CA that has signed it. */
  #ca: string;

  private constructor(options: ServerIdentityOptions, ca: string, certificate: ServerCertificate) {
    this.#options = options;
    this.#ca = ca;
    this.#certificate = certificate;
  }

  static async make(options: ServerIdentityOptions): Promise<ServerIdentityInForce> {
    const { ofServer } = options.authorities;
    return new ServerIdentityInForce(options, ofServer.kid, await ofServer.issueForServer(options.names));
  }

  get current(): ServerIdentity {
    const { certificate, key } = this.#certificate;
    return { ca: this.#options.authorities.pem, certificate, key };
  }

  /** Milliseconds since the epoch. */
  get notAfter(): number {
    return this.#certificate.notAfter;
  }

  /** Looks once a day whether it is time for the next one, and follows the CAs. */
  follow(renewed: (identity: ServerIdentity) => void): RunningJob {
    const { authorities, clock } = this.#options;
    authorities.onChange(() => (authorities.ofServer.kid === this.#ca ? renewed(this.current) : this.#renew(renewed)));
    return every(this.#options, {
      everyMs: DAY_MS,
      run: () => (this.notAfter - clock.now() <= RENEWED_MS ? this.#renew(renewed) : undefined),
      failed: 'the certificate of the control plane could not be renewed; it is tried again tomorrow',
      failedLevel: 'error',
    });
  }

  async #renew(renewed: (identity: ServerIdentity) => void): Promise<void> {
    const { authorities, names, log } = this.#options;
    const { ofServer } = authorities;
    this.#certificate = await ofServer.issueForServer(names);
    this.#ca = ofServer.kid;
    renewed(this.current);
    log.info({ expires_at: new Date(this.notAfter).toISOString() }, 'the certificate of the control plane was renewed');
  }
}
