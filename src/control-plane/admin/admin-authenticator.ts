import type { Events } from '../../base/events/bus.ts';
import { requestLine } from '../../base/events/unrecorded.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { requestIdOf } from '../../base/lib/request-id.ts';
import { sameSecret } from '../../base/lib/secret.ts';
import type { ArrivalHead } from '../../base/model/arrival.ts';
import type { Principal, Scope } from '../../base/model/principal.ts';

export const ADMIN_TOKEN_HEADER = 'CP-Admin-Token';

const ANYONE: Principal = { kind: 'anyone', id: 'anyone', scopes: ['none'] };
const ADMIN: Principal = { kind: 'admin', id: 'admin', scopes: ['none', 'admin'] };
const METRICS: Principal = { kind: 'metrics', id: 'metrics', scopes: ['none', 'metrics'] };

export interface AdminTokens {
  readonly adminToken: string;
  /** Undefined: nobody has to show one. */
  readonly metricsToken: string | undefined;
}

/** Who asks the control plane (decision 13.6). */
export class AdminAuthenticator {
  readonly #tokens: AdminTokens;
  readonly #events: Events;

  constructor(tokens: AdminTokens, events: Events) {
    this.#tokens = tokens;
    this.#events = events;
  }

  /** @throws GatewayError `unauthorized` */
  principal(scope: Scope, head: ArrivalHead): Principal {
    const { adminToken, metricsToken } = this.#tokens;
    switch (scope) {
      case 'none':
        return ANYONE;
      case 'metrics':
        if (metricsToken === undefined) return ANYONE;
        return this.#judge({ shown: bearerIn(head), expected: metricsToken, principal: METRICS }, head, 'metrics');
      default:
        return this.#judge(
          { shown: head.headers[ADMIN_TOKEN_HEADER.toLowerCase()], expected: adminToken, principal: ADMIN },
          head,
          'admin',
        );
    }
  }

  /** Whether the admin token is shown: says nothing to anybody, whatever is shown. */
  isAdmin(head: Pick<ArrivalHead, 'headers'>): boolean {
    const shown = head.headers[ADMIN_TOKEN_HEADER.toLowerCase()];
    return shown !== undefined && sameSecret(shown, this.#tokens.adminToken);
  }

  #judge(
    { shown, expected, principal }: { readonly shown: string | undefined; readonly expected: string; readonly principal: Principal },
    head: ArrivalHead,
    surface: 'admin' | 'metrics',
  ): Principal {
    if (shown !== undefined && sameSecret(shown, expected)) return principal;
    this.#events.emit('authFailure', {
      requestId: requestIdOf(head.rawHeaders),
      reason: shown === undefined ? 'missing_header' : 'invalid_key',
      orgId: '',
      surface,
      callerIp: head.remoteAddress,
      request: requestLine(head),
    });
    const needed = surface === 'admin' ? `the admin token (${ADMIN_TOKEN_HEADER})` : 'the metrics token (Authorization: Bearer)';
    throw new GatewayError('unauthorized', `This needs ${needed}${shown === undefined ? '' : '; what was sent is not valid'}.`);
  }
}

function bearerIn(head: ArrivalHead): string | undefined {
  return /^bearer (.*)$/i.exec(head.headers['authorization'] ?? '')?.[1]?.trim();
}
