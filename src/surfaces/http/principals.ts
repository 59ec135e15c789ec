import type { GatewayEvents } from '../../base/events/execution-event.ts';
import { requestLine } from '../../base/events/unrecorded.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { sameSecret } from '../../base/lib/secret.ts';
import type { ArrivalHead } from '../../base/model/arrival.ts';
import type { Principal, Scope } from '../../base/model/principal.ts';

/** One thing that someone can show, and who he is then. Another kind of key is another row, not another branch. */
interface Credential {
  readonly principal: Principal;
  /** Undefined: nothing is needed for its scopes. */
  readonly secret: string | undefined;
  /** What a request shows for it. */
  readonly shown: (head: ArrivalHead) => string | undefined;
}

export interface PrincipalOptions {
  readonly adminToken: string;
  readonly metricsToken: string | undefined;
  /** Of the gateway, for `gw_auth_failures_total`. */
  readonly orgId: string;
  readonly events: Pick<GatewayEvents, 'authFailure'>;
  /** Address of the caller, without port. */
  callerIp(head: ArrivalHead): string;
}

const ANYONE: Principal = { kind: 'anyone', id: 'anyone', scopes: ['none'] };

/** The one place where it is judged who asks (specification, "Authentication"). */
export class Principals {
  readonly #options: PrincipalOptions;
  readonly #credentials: readonly Credential[];

  constructor(options: PrincipalOptions) {
    this.#options = options;
    this.#credentials = [
      {
        principal: { kind: 'admin', id: 'admin', scopes: ['none', 'admin'] },
        secret: options.adminToken,
        shown: (head) => head.headers['gw-admin-token'] ?? bearerOf(head),
      },
      { principal: { kind: 'metrics', id: 'metrics', scopes: ['none', 'metrics'] }, secret: options.metricsToken, shown: bearerOf },
    ];
  }

  /** Who asks for something of this scope. @throws GatewayError `unauthorized`, after the failure was told and counted */
  judge(scope: Scope, head: ArrivalHead): Principal {
    if (scope === 'none') return ANYONE;
    let wasShown = false;
    for (const { principal, secret, shown } of this.#credentials) {
      if (!principal.scopes.includes(scope)) continue;
      if (secret === undefined) return ANYONE;
      const presented = shown(head);
      if (presented !== undefined && sameSecret(presented, secret)) return principal;
      wasShown ||= presented !== undefined;
    }
    const { events, orgId, callerIp } = this.#options;
    const reason = wasShown ? 'invalid_key' : 'missing_header';
    events.authFailure({ reason, orgId, surface: scope, callerIp: callerIp(head), request: requestLine(head) });
    throw new GatewayError('unauthorized', `This needs the ${scope} token.`);
  }
}

function bearerOf(head: ArrivalHead): string | undefined {
  return /^bearer (.+)$/i.exec(head.headers['authorization'] ?? '')?.[1]?.trim();
}
