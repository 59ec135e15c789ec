import type { Events } from '../../base/events/bus.ts';
import { requestLine } from '../../base/events/unrecorded.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { requestIdOf } from '../../base/lib/ids.ts';
import { sameSecret } from '../../base/lib/secret-box.ts';
import type { ArrivalHead } from '../../base/model/arrival.ts';
import type { Scope } from '../../base/model/principal.ts';
import { metricsProof, Proofs, secretProof } from '../../surfaces/http/proofs.ts';

export const ADMIN_TOKEN_HEADER = 'CP-Admin-Token';

export interface AdminTokens {
  readonly adminToken: string;
  /** Undefined: nobody has to show one. */
  readonly metricsToken: string | undefined;
}

/** Who asks the control plane (decision 13.6). */
export function adminProofs({ adminToken, metricsToken }: AdminTokens, events: Events): Proofs {
  const refuse = (shown: string | undefined, scope: Scope, head: ArrivalHead): never => {
    const isMetrics = scope === 'metrics';
    events.emit('authFailure', {
      requestId: requestIdOf(head.rawHeaders),
      reason: shown === undefined ? 'missing_header' : 'invalid_key',
      orgId: '',
      surface: isMetrics ? 'metrics' : 'admin',
      callerIp: head.remoteAddress,
      request: requestLine(head),
    });
    const needed = isMetrics ? 'the metrics token (Authorization: Bearer)' : `the admin token (${ADMIN_TOKEN_HEADER})`;
    throw new GatewayError('unauthorized', `This needs ${needed}${shown === undefined ? '' : '; what was sent is not valid'}.`);
  };
  return new Proofs(
    [
      metricsProof(metricsToken, refuse),
      secretProof({
        opens: ['admin'],
        principal: { kind: 'admin', id: 'admin', scopes: ['none', 'admin'] },
        secret: adminToken,
        shown: adminTokenIn,
        refuse,
      }),
    ],
    (scope, head) => refuse(undefined, scope, head),
  );
}

/** Whether the admin token is shown: says nothing to anybody, whatever is shown. */
export function showsAdminToken(head: Pick<ArrivalHead, 'headers'>, { adminToken }: Pick<AdminTokens, 'adminToken'>): boolean {
  const shown = adminTokenIn(head);
  return shown !== undefined && sameSecret(shown, adminToken);
}

function adminTokenIn({ headers }: Pick<ArrivalHead, 'headers'>): string | undefined {
  return headers[ADMIN_TOKEN_HEADER.toLowerCase()];
}
