import { GatewayError } from '../../base/lib/gateway-error.ts';

const NOT_QUOTABLE = /[^\x20-\x7e]|["\\]/g;

/**
 * A proxy's question for user name and password. Clients show its realm to people, so it says what they are to be (RFC
 * 9110 §11.5, §11.7.1).
 */
export class ProxyAuthenticationRequired extends GatewayError {
  readonly #realm: string;

  /** @param needed what is missing, in a few words */
  constructor(message: string, needed: string) {
    super('proxy_authentication_required', message);
    this.#realm = `AI Request Gateway: ${needed}`.replace(NOT_QUOTABLE, '?');
  }

  /** @param workloadId undefined where any will do */
  static forWorkload(message: string, workloadId: string | undefined): ProxyAuthenticationRequired {
    const whose =
      workloadId === undefined
        ? 'the user name is a workload, the password its token'
        : `the password is the token of workload ${workloadId}`;
    return new ProxyAuthenticationRequired(message, `${whose}, gwt_..., which POST /v1/admin/workloads/ID/token makes`);
  }

  override get headers(): readonly string[] {
    return ['Proxy-Authenticate', `Basic realm="${this.#realm}"`];
  }
}
